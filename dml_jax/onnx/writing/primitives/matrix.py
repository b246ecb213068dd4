"""Products of matrices, and convolutions."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax.onnx.writing.jaxpr_nodes import Equation, writes
from dml_jax.onnx.writing.primitives.arrangement import with_zeros_between
from dml_jax.onnx.writing.primitives.element_wise import convert
from dml_jax.onnx.writing.writer import Value, Writer

Ints = Sequence[int]


@writes("dot_general")
def product(eqn: Equation) -> Value:
    """Bring both to {batch, rows, columns}, and multiply matrices."""
    w, (a, b) = eqn.writer, eqn.inputs
    (summed_a, summed_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    wide = np.dtype(eqn.params["preferred_element_type"] or eqn.dtype)
    if wide.kind in "iu" and wide.itemsize < 4:
        wide = np.dtype(np.int32)
    a, b = convert(w, a, wide), convert(w, b, wide)
    kept_a = [k for k in range(a.rank) if k not in (*summed_a, *batch_a)]
    kept_b = [k for k in range(b.rank) if k not in (*summed_b, *batch_b)]
    batch = [a.shape[k] for k in batch_a]
    rows, columns = [a.shape[k] for k in kept_a], [b.shape[k] for k in kept_b]
    depth = math.prod(a.shape[k] for k in summed_a)
    left = w.transpose(a, [*batch_a, *kept_a, *summed_a])
    right = w.transpose(b, [*batch_b, *summed_b, *kept_b])
    left = w.reshape(left, [*batch, math.prod(rows), depth])
    right = w.reshape(right, [*batch, depth, math.prod(columns)])
    shape = [*batch, math.prod(rows), math.prod(columns)]
    made = w.reshape(w("MatMul", left, right, shape=shape), [*batch, *rows, *columns])
    return convert(w, made, eqn.dtype)


@writes("conv_general_dilated")
def convolution(eqn: Equation) -> Value:
    w, p, numbers = eqn.writer, eqn.params, eqn.params["dimension_numbers"]
    x = w.transpose(eqn[0], numbers.lhs_spec)
    filters = w.transpose(eqn[1], numbers.rhs_spec)
    wide = np.dtype(p["preferred_element_type"] or eqn.dtype)
    # ONNX Runtime convolves no integers of this width: products of matrices stand for it.
    if wide.kind in "iu":
        wide = np.dtype(np.float64 if wide.itemsize > 2 else np.float32)
    x, filters = convert(w, x, wide), convert(w, filters, wide)
    groups, batches = p["feature_group_count"], p["batch_group_count"]
    if batches > 1:  # groups of the batch are groups of channels
        n, c, *rest = x.shape
        x = w.reshape(x, [batches, n // batches, c, *rest])
        x = w.transpose(x, [1, 0, *range(2, x.rank)])
        x = w.reshape(x, [n // batches, batches * c, *rest])
        groups = batches
    inside = (0, 0, *(d - 1 for d in p["lhs_dilation"]))
    x = with_zeros_between(w, x, inside, w.like(0, x))
    made = correlate(w, x, filters, p["window_strides"], p["padding"], p["rhs_dilation"], groups)
    made = convert(w, made, eqn.dtype)
    order = [0] * made.rank
    for place, axis in enumerate(numbers.out_spec):
        order[axis] = place
    return w.transpose(made, order)


def counts_of_windows(*numbers: Sequence[int]) -> list[int]:
    """Return how many windows there are along each dimension.

    Args:
        numbers: sizes, padding before and after, sizes of windows, dilations and strides.
    """
    rows = zip(*numbers, strict=True)
    return [(n + a + b - (k - 1) * d - 1) // s + 1 for n, a, b, k, d, s in rows]


def correlate(
    w: Writer,
    x: Value,
    filters: Value,
    strides: Ints,
    padding: Sequence[tuple[int, int]],
    dilations: Ints,
    groups: int,
    bias: Value | None = None,
) -> Value:
    """Return the correlation of {N, C, spatial...} with {K, C / groups, spatial...}."""
    low, high = ([p[k] for p in padding] for k in (0, 1))
    if min([*low, *high], default=0) < 0:
        before, after = ([0, 0, *(min(0, n) for n in side)] for side in (low, high))
        x = w.pad(x, before, after)
        low, high = ([max(0, n) for n in side] for side in (low, high))
    spatial = counts_of_windows(x.shape[2:], low, high, filters.shape[2:], dilations, strides)
    shape = [x.shape[0], filters.shape[0], *spatial]
    if not spatial:
        x, filters = (w.reshape(v, [*v.shape, 1]) for v in (x, filters))
        return w.reshape(correlate(w, x, filters, [1], [(0, 0)], [1], groups, bias), shape)
    # ONNX allows DOUBLE here, and ONNX Runtime's CPU has no kernel of it: the kernels win.
    if x.dtype == np.float64:
        x = w.pad(x, [0, 0, *low], [0, 0, *high])
        return _by_products(w, x, filters, strides, dilations, groups, shape)
    named = attributes_of(filters, strides, dilations, [*low, *high], groups)
    return w("Conv", x, filters, bias, shape=shape, **named)


def attributes_of(
    filters: Value, strides: Any, dilations: Any, pads: Sequence[int], groups: int
) -> dict[str, Any]:
    """Return the attributes of a convolution, but for the sizes of its output."""
    named = {"strides": [*strides], "dilations": [*dilations], "pads": pads, "group": int(groups)}
    return {"kernel_shape": [*filters.shape[2:]], **named}


def _by_products(
    w: Writer, x: Value, filters: Value, strides: Ints, dilations: Ints, groups: int, shape: Ints
) -> Value:
    """Return the correlation as the sum of a product of matrices for each place of the window."""
    n, k, *spatial = shape
    depth = x.shape[1] // groups
    total: Value | None = None
    for place in np.ndindex(*filters.shape[2:]):
        starts = [0, 0, *(p * d for p, d in zip(place, dilations, strict=True))]
        ends = zip(starts[2:], spatial, strides, strict=True)
        stops = [n, x.shape[1], *(a + (m - 1) * s + 1 for a, m, s in ends)]
        part = w.slice(x, starts, stops, [1, 1, *strides])
        part = w.reshape(part, [n, groups, depth, math.prod(spatial)])
        one = w.slice(filters, [0, 0, *place], [k, depth, *(p + 1 for p in place)])
        one = w.reshape(one, [1, groups, k // groups, depth])
        made = w("MatMul", one, part, shape=[n, groups, k // groups, math.prod(spatial)])
        total = made if total is None else w("Add", total, made)
    assert total is not None
    return w.reshape(total, shape)
