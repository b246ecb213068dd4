"""Samples between elements: grids, regions of interest, and deformed convolutions."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.lowering.precision import operands, precision
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.sizes import padding_rules

_CUBIC = -0.75  # a, of Keys' cubic


def _cubic_weights(part: jax.Array) -> list[jax.Array]:
    """Return the weights of the elements -1, 0, 1 and 2 beside a place between 0 and 1."""
    a = _CUBIC
    far = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (part + 1, 2 - part)]
    near = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (part, 1 - part)]
    return [far[0], near[0], near[1], far[1]]


def _reflect(place: jax.Array, low: float, high: float) -> jax.Array:
    """Return places reflected into [low, high]."""
    span = high - low
    if span <= 0:
        return jnp.zeros_like(place)
    rest = jnp.mod(place - low, 2 * span)
    return low + jnp.where(rest > span, 2 * span - rest, rest)


def _taps(mode: str, place: jax.Array) -> tuple[list[jax.Array], list[jax.Array]]:
    """Return the places of the elements that a sample reads, and their weights."""
    if mode == "nearest":
        return [jnp.round(place)], [jnp.ones_like(place)]
    first = jnp.floor(place)
    part = place - first
    if mode == "cubic":
        return [first + k for k in (-1, 0, 1, 2)], _cubic_weights(part)
    return [first, first + 1], [1 - part, part]


def _read(x: jax.Array, places: Sequence[jax.Array]) -> jax.Array:
    """Return elements of [batch, channel, ...] at integral places, 0 beyond: channels second."""
    is_inside, index = jnp.ones(places[0].shape, bool), []
    for place, size in zip(places, x.shape[2:], strict=True):
        is_inside = is_inside & (place >= 0) & (place <= size - 1)
        index.append(jnp.clip(place, 0, size - 1).astype(np.int32))
    found = jax.vmap(lambda image, own: image[(slice(None), *own)])(x, tuple(index))
    return jnp.where(is_inside[:, None], found, 0)


def _sample(
    x: jax.Array, places: Sequence[jax.Array], mode: str, padding: str, ends: Sequence[Any]
) -> jax.Array:
    """Return [batch, channel, ...] sampled at places, a list of each dimension's, [batch, ...]."""
    lines = []
    for place, (low, high), size in zip(places, ends, x.shape[2:], strict=True):
        if padding == "border" and mode != "cubic":
            place = jnp.clip(place, 0, size - 1)
        elif padding == "reflection" and mode != "cubic":
            place = jnp.clip(_reflect(place, low, high), 0, size - 1)
        at, weights = _taps(mode, place)
        if padding == "border":
            at = [jnp.clip(a, 0, size - 1) for a in at]
        elif padding == "reflection":
            at = [jnp.clip(_reflect(a, low, high), 0, size - 1) for a in at]
        lines.append(list(zip(at, weights, strict=True)))
    total = None
    for taps in itertools.product(*lines):
        weight = math.prod([w for _, w in taps], start=jnp.ones_like(places[0]))
        term = _read(x, [a for a, _ in taps]) * weight[:, None]
        total = term if total is None else total + term
    assert total is not None
    return total


@fallback("GridSample", padding=padding_rules.batches_rule, misread_before=20)
def _grid_sample(node: Node, x: jax.Array, grid: jax.Array) -> jax.Array:
    mode = str(node.attribute("mode")).removeprefix("bi")  # "bilinear", or "linear" from 20 on
    is_aligned, sizes = bool(node.attribute("align_corners")), x.shape[2:]
    places, ends = [], []
    for k, size in enumerate(sizes):
        own = grid[..., len(sizes) - 1 - k].astype(x.dtype)  # the last dimension comes first
        places.append((own + 1) / 2 * (size - 1) if is_aligned else ((own + 1) * size - 1) / 2)
        ends.append((0, size - 1) if is_aligned else (-0.5, size - 0.5))
    return _sample(x, places, mode, node.attribute("padding_mode"), ends).astype(x.dtype)


@fallback("DeformConv")
def _deform_conv(
    node: Node, x: jax.Array, weights: jax.Array, offset: jax.Array, *others: Any
) -> jax.Array:
    bias, mask = (*others, None, None)[:2]
    spatial = x.ndim - 2
    batch, channels = x.shape[:2]
    kernel, out = weights.shape[2:], offset.shape[2:]
    strides, dilations = (node.attribute(n) or [1] * spatial for n in ("strides", "dilations"))
    pads, groups = node.attribute("pads") or [0] * 2 * spatial, node.attribute("group")
    sets, taps = node.attribute("offset_group"), math.prod(kernel)
    moves = offset.reshape(batch * sets, taps, spatial, *out)
    places = []
    for d in range(spatial):
        start = np.indices(out, sparse=True)[d] * strides[d] - pads[d]
        step = np.indices(kernel)[d].reshape(taps, *[1] * spatial) * dilations[d]
        places.append(moves[:, :, d] + jnp.asarray(start + step, x.dtype)[None])
    parts = x.reshape(batch * sets, channels // sets, *x.shape[2:])
    found = _sample(parts, places, "linear", "zeros", [(0, 0)] * spatial)
    if mask is not None:
        found = found * mask.reshape(batch * sets, 1, taps, *out)
    rows = found.reshape(batch, groups, channels // groups, taps, -1)
    matrix = weights.reshape(groups, weights.shape[0] // groups, channels // groups, taps)
    rows, matrix = operands(rows, matrix)
    made = jnp.einsum("bgctp,gnct->bgnp", rows, matrix, precision=precision())
    made = made.reshape(batch, weights.shape[0], *out)
    return made if bias is None else made + bias.reshape(1, -1, *[1] * spatial)


@fallback("RoiAlign")
def _roi_align(node: Node, x: jax.Array, rois: jax.Array, images: jax.Array) -> jax.Array:
    ratio = node.attribute("sampling_ratio")
    rule = "be above 0 (the number of samples would depend on the regions)"
    node.expect(ratio > 0, "sampling_ratio", rule, ratio)
    default = "output_half_pixel" if node.version < 16 else None
    is_half = node.attribute("coordinate_transformation_mode", default) == "half_pixel"
    shift, scale = (0.5 if is_half else 0.0), node.attribute("spatial_scale")
    sizes = node.attribute("output_height"), node.attribute("output_width")
    lines, insides = [], []
    for d, count in enumerate(sizes):  # regions are x, y, x, y
        low, high = (rois[:, k] * scale - shift for k in (1 - d, 3 - d))
        extent = high - low if is_half else jnp.maximum(high - low, 1)
        steps = (np.arange(count * ratio) + 0.5) / ratio / count
        place = low[:, None] + extent[:, None] * jnp.asarray(steps, x.dtype)[None]
        size = x.shape[2 + d]
        insides.append((place >= -1) & (place <= size))
        lines.append(_corners(jnp.clip(place, 0, size - 1), size))
    terms = []
    for (y, a), (z, b) in itertools.product(*lines):
        found = jax.vmap(lambda n, r, c: x[n][:, r[:, None], c[None]])(images, y, z)
        terms.append(found * (a[:, :, None] * b[:, None])[:, None])
    is_inside = insides[0][:, None, :, None] & insides[1][:, None, None]
    shape = (rois.shape[0], x.shape[1], sizes[0], ratio, sizes[1], ratio)
    every = [jnp.where(is_inside, term, 0).reshape(shape) for term in terms]
    if node.attribute("mode") == "max":
        return jnp.max(jnp.stack(every), axis=(0, 4, 6))
    return jnp.mean(sum(every), axis=(3, 5))


def _corners(place: jax.Array, size: int) -> list[tuple[jax.Array, jax.Array]]:
    """Return the elements around a place, and their weights."""
    first = jnp.minimum(jnp.floor(place), size - 1)
    second, part = jnp.minimum(first + 1, size - 1), place - first
    return [(first.astype(np.int32), 1 - part), (second.astype(np.int32), part)]
