"""Resampling and regions as a user of JAX writes them."""

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


def _gradient(op: Any, dy: Any) -> Any:
    sizes = op.input_gradient_tensor.sizes
    like = jnp.zeros(op.output_gradient_tensor.sizes, dy.dtype)
    return jax.vjp(lambda x: _forward(op, x, sizes), like)[1](dy)[0]


def _place(op: Any, start: Any, end: Any, outputs: int) -> tuple[Any, int]:
    """Return where the samples of regions lie, [R, outputs * n]; typical uses have fixed n."""
    n = op.minimum_samples_per_output
    samples = np.arange(outputs * n, dtype=np.float32) + np.float32(0.5)
    return samples * ((end - start) / (outputs * n))[:, None] + start[:, None] - 0.5, n


def _taps(op: Any, place: Any, size: int) -> list[tuple[Any, Any]]:
    """Return the elements and weights of samples, 0 outside."""
    inside = ((place >= -1) & (place <= size)).astype(place.dtype)
    place = jnp.clip(place, 0, size - 1)
    if op.interpolation_mode.name != "LINEAR":
        return [(jnp.floor(place + 0.5).astype(jnp.int32).clip(0, size - 1), inside)]
    low = jnp.floor(place).astype(jnp.int32)
    return [
        (low, inside * (1 - (place - low))),
        (jnp.minimum(low + 1, size - 1), inside * (place - low)),
    ]


def _align(op: Any, sizes: Any, x: Any, rois: Any, batch: Any) -> Any:
    _, _, height, width = sizes
    pictures = jnp.asarray(x, jnp.float32).transpose(0, 2, 3, 1)
    x1, y1, x2, y2 = jnp.asarray(rois, jnp.float32).reshape(-1, 4).T
    ys, n = _place(op, y1, y2, height)
    xs, _ = _place(op, x1, x2, width)
    index = batch.reshape(-1, 1, 1)
    total = sum(
        pictures[index, y[:, :, None], z[:, None, :]] * (v[:, :, None] * w[:, None, :])[..., None]
        for y, v in _taps(op, ys, x.shape[2])
        for z, w in _taps(op, xs, x.shape[3])
    )
    parts = jnp.reshape(total, (-1, height, n, width, n, x.shape[1]))
    reduced = parts.max((2, 4)) if op.reduction_function.name == "MAX" else parts.mean((2, 4))
    return reduced.transpose(0, 3, 1, 2).astype(x.dtype)


def _align_gradient(op: Any, x: Any, dy: Any, rois: Any, batch: Any) -> Any:
    sizes = op.input_gradient_tensor.sizes
    return jax.vjp(lambda x, rois: _align(op, sizes, x, rois, batch), x, rois)[1](dy)


def _bins(start: Any, end: Any, count: int, size: int) -> Any:
    """Return which elements each bin of each region has, [R, count, size]."""
    length = jnp.maximum(end - start + 1, 1)[:, None]
    part, place = jnp.arange(count), jnp.arange(size)
    first = start[:, None] + part * length // count
    last = start[:, None] - (-(part + 1) * length // count)
    return (place >= first[..., None]) & (place < last[..., None])


def _pool(op: Any, x: Any, rois: Any) -> Any:
    def one(picture: Any, rows: Any, columns: Any) -> Any:
        tall = jnp.where(rows[None, :, :, None], picture[:, None], -jnp.inf).max(2)
        return jnp.where(columns[None, None], tall[:, :, None], -jnp.inf).max(3)

    batch, *corners = jnp.asarray(rois, jnp.float32).reshape(-1, 5).T
    x1, y1, x2, y2 = (jnp.round(c * op.spatial_scale).astype(jnp.int32) for c in corners)
    rows = _bins(y1, y2, op.pooled_size.height, x.shape[2])
    columns = _bins(x1, x2, op.pooled_size.width, x.shape[3])
    batch = batch.astype(jnp.int32).clip(0, x.shape[0] - 1)
    y = jax.lax.map(lambda each: one(jnp.asarray(x)[each[0]], *each[1:]), (batch, rows, columns))
    return jnp.where(jnp.isinf(y), 0, y).astype(x.dtype)


EXPRESSIONS = {
    **dict.fromkeys(
        ["UPSAMPLE_2D", "RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"],
        lambda op, x: _forward(op, x, op.output_tensor.sizes),
    ),
    **dict.fromkeys(["RESAMPLE_GRAD", "RESAMPLE_GRAD1"], _gradient),
    "ROI_ALIGN": lambda op, *xs: _align(op, op.output_tensor.sizes, *xs),
    "ROI_ALIGN1": lambda op, *xs: _align(op, op.output_tensor.sizes, *xs),
    "ROI_ALIGN_GRAD": _align_gradient,
    "ROI_POOLING": _pool,
}
