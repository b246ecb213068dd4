"""Resampling as a user of JAX writes it."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def _tents(n: int, m: int) -> np.ndarray:
    """Return the weights [m, n] of averages of neighbours, where the edges repeat."""
    x, reach = (np.arange(m) + 0.5) * n / m - 0.5, max(n / m, 1)
    places = np.arange(-n, 2 * n)
    weights = np.maximum(1 - abs(places - x[:, None]) / reach, 0)
    inside = [weights[:, (places.clip(0, n - 1) == k)].sum(1) for k in range(n)]
    return (np.stack(inside, 1) / weights.sum(1, keepdims=True)).astype(np.float32)


def _lower(x: Any, pairs: Any) -> Any:
    """Return the elements at or before each place of the last two axes."""
    rows, columns = (
        np.floor((np.arange(m) + 0.5) * n / m - 0.5).clip(0).astype(int) for n, m in pairs
    )
    return x[..., rows[:, None], columns]


def _forward(op: Any, x: Any, counts: Any) -> Any:
    """Return a resize between centres, which typical uses are."""
    pairs = list(zip(x.shape, counts, strict=True))[-2:]
    if op.interpolation_mode.name != "LINEAR":
        if op.short_name in ("RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD1"):
            return _lower(x, pairs)
        return jax.image.resize(x, counts, "nearest")
    if not op.antialiased:
        return jax.image.resize(x, counts, "linear", antialias=False)
    rows, columns = (_tents(n, m) for n, m in pairs)
    wide = jnp.einsum("nchw,yh,xw->ncyx", jnp.asarray(x, jnp.float32), rows, columns)
    return (wide if x.dtype.kind == "f" else jnp.round(wide)).astype(x.dtype)


def _resample(op: Any, x: Any) -> Any:
    return _forward(op, x, op.output_tensor.sizes)


def _gradient(op: Any, dy: Any) -> Any:
    sizes = op.input_gradient_tensor.sizes
    like = jnp.zeros(op.output_gradient_tensor.sizes, dy.dtype)
    return jax.vjp(lambda x: _forward(op, x, sizes), like)[1](dy)[0]


EXPRESSIONS = {
    **dict.fromkeys(["UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"], _resample),
    **dict.fromkeys(["RESAMPLE_GRAD", "RESAMPLE_GRAD1"], _gradient),
}
