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


def _lower(sizes: Any, counts: Any) -> Any:
    """Return the function that reads the element at or before each place of the last two axes."""
    pairs = list(zip(sizes, counts, strict=True))[-2:]
    places = [np.floor((np.arange(m) + 0.5) * n / m - 0.5).clip(0).astype(int) for n, m in pairs]
    return lambda x: x[..., places[0][:, None], places[1]]


def _forward(op: Any, sizes: Any, counts: Any) -> Any:
    """Return a resize between centres, which typical uses are."""
    if op.interpolation_mode.name != "LINEAR":
        if op.short_name in ("RESAMPLE2", "RESAMPLE3", "RESAMPLE_GRAD1"):
            return _lower(sizes, counts)
        return lambda x: jax.image.resize(x, counts, "nearest")
    if not op.antialiased:
        return lambda x: jax.image.resize(x, counts, "linear", antialias=False)
    rows, columns = (_tents(n, m) for n, m in list(zip(sizes, counts, strict=True))[-2:])

    def averaged(x: Any) -> Any:
        wide = jnp.einsum("nchw,yh,xw->ncyx", jnp.asarray(x, jnp.float32), rows, columns)
        return (wide if x.dtype.kind == "f" else jnp.round(wide)).astype(x.dtype)

    return averaged


def _resampled(op: Any) -> Any:
    return _forward(op, op.input_tensor.sizes, op.output_tensor.sizes)


def _gradient(op: Any) -> Any:
    sizes = op.output_gradient_tensor.sizes
    forward = _forward(op, sizes, op.input_gradient_tensor.sizes)
    return lambda dy: jax.vjp(forward, jnp.zeros(sizes, dy.dtype))[1](dy)[0]


EXPRESSIONS = {
    **dict.fromkeys(["UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"], _resampled),
    **dict.fromkeys(["RESAMPLE_GRAD", "RESAMPLE_GRAD1"], _gradient),
}
