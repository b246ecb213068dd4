"""Slices, also between places that come while the network runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import index_type
from dml_jax.onnx.nodes import early_versions
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import OP_TYPES, OpType, Versions, translates
from dml_jax.onnx.nodes.reshapes import as_type, reshape, taken
from dml_jax.onnx.nodes.tensor import Padded
from dml_jax.onnx.sizes import integer_ranges, padding_rules, symbolic_sizes

Terms = Sequence[symbolic_sizes.Term]

# The name of Slice with starts and ends as inputs, below opset 10.
OP_TYPES["", "DynamicSlice"] = OpType(versions=Versions(written_as=early_versions.DYNAMIC_SLICE))
# Beyond all places of a tensor, and INT32 holds its sum with a size.
_FAR = 2**30


@translates("Slice", integers=integer_ranges.first, elements=symbolic_sizes.slice_between)
@translates("Slice", padding=padding_rules.slice_rule)
def _slice(node: Node) -> Any:
    if node.version < 10:
        names = ("starts", "ends")
        starts, ends = ([*map(symbolic_sizes.number, node.attribute(name))] for name in names)
        return _slice_by_ends(node, starts, ends, node.attribute("axes"), None)
    starts, ends = (symbolic_sizes.terms_of(node.tensor(k)) or [] for k in (1, 2))
    return _slice_by_ends(node, starts, ends, node.constant(3), node.constant(4))


def _slice_by_ends(
    node: Node, starts: Terms, ends: Terms, axes: Sequence[int] | None, steps: Sequence[int] | None
) -> Any:
    """Return a part of the node's first input, by ONNX's bounds.

    What starts or ends at a place that is not known at load is gathered. Its size is known where
    both places lie in the tensor and differ by a number that is known; else it is padded.
    """
    shape, count = node.shape(), node.tensor(0).count
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    windows, moving = [(0, size, 1) for size in shape], list[tuple[int, int, int]]()
    for k, (start, end, axis, step) in enumerate(zip(starts, ends, axes, steps, strict=True)):
        d = node.from_start(int(axis), len(shape), "axes")
        node.expect(step, "steps", "be other than 0", 0)
        if padding_rules.is_whole(node, d, (start, end), int(step)):
            continue
        is_known = start.known is not None and end.known is not None
        if not is_known or (count is not None and count.axis == d):
            moving.append((k, d, int(step)))
            continue
        part = range(*slice(start.known, end.known, int(step)).indices(shape[d]))
        node.expect(part, "starts and ends", "have elements between them", (start.known, end.known))
        low, high = sorted((part[0], part[-1]))
        windows[d] = (low, high - low + 1, int(step))
    x = node[0]
    if any(window != (0, size, 1) for window, size in zip(windows, shape, strict=True)):
        x = dml.slice(x, *zip(*windows, strict=True))
    lengths = list[tuple[int, Expression]]()
    for k, axis, step in moving:
        x, length = _moving(node, x, k, axis, step, (starts[k], ends[k]))
        if length is not None:
            lengths.append((axis, length))
        if isinstance(x, np.ndarray):
            return x
    rule = "be known at load in all dimensions but one, since data decides the sizes"
    node.expect(len(lengths) <= 1, "starts and ends", rule, Unquoted("computed tensors"))
    return Padded(x, *lengths[0]) if lengths else x


def _moving(
    node: Node, x: Expression, k: int, axis: int, step: int, ends: Terms
) -> tuple[Any, Expression | None]:
    """Return the elements of `x` between two places, and how many these are if data decides it.

    The places are number `k` in the Slice's inputs, of which `ends` is what is known.
    """
    size, kind, count = x.sizes[axis], index_type(), node.tensor(0).count
    is_ragged = count is not None and count.axis == axis
    limit: Any = size
    if count is not None and is_ragged:
        limit = dml.cast(reshape(count.number.expression, (1,)), kind)
    low = 0 if step > 0 else -1
    given: Terms = ends
    if not is_ragged:  # what counts from the end at all times counts from the start
        shifted = (t.bounds is not None and t.bounds[1] < 0 for t in given)
        pairs, whole = zip(given, shifted, strict=True), symbolic_sizes.number(size)
        ends = [term.plus(whole) if is_shifted else term for term, is_shifted in pairs]
    is_inside = not is_ragged and all(
        term.bounds and term.bounds[0] >= 0 and term.bounds[1] <= size + low for term in ends
    )

    def place(index: int) -> Expression:
        known = given[index].known
        if known is not None:
            array = np.array([np.clip(known, -_FAR, _FAR)], kind.dtype)
            value: Any = node.builder.constant(array)
        else:
            value = node[1 + index]
            value = dml.slice(value, (k,), (1,), (1,)) if value.sizes != (1,) else value
            value = as_type(value, kind)
        if is_inside and ends[index] is given[index]:
            return value
        value = dml.if_(dml.less_than(value, 0), value + limit, value)
        return dml.max(dml.min(value, limit + low), low)

    first, stride = place(0), abs(step)
    span = ends[1].plus(ends[0], -1).times(1 if step > 0 else -1).known
    if is_inside and span is not None:
        length, most = None, _count(span, stride)
    else:
        most = _most(ends, step, size)
        difference = place(1) - first if step > 0 else first - place(1)
        length = dml.max(difference, 0)
        length = (length + (stride - 1)) / stride if stride > 1 else length
    if not most:
        return np.zeros([0 if d == axis else n for d, n in enumerate(x.sizes)], x.dtype), None
    index = first + node.builder.constant(np.arange(most, dtype=kind.dtype) * kind.dtype.type(step))
    return taken(x, dml.max(dml.min(index, size - 1), 0), axis), length


def _count(span: Any, stride: int) -> Any:
    return np.maximum(0, -(-span // stride))


def _most(ends: Terms, step: int, size: int) -> int:
    """Return the largest size that a slice has of any number of elements up to `size`."""
    start, end, stride, low = ends[0].known, ends[1].known, abs(step), 0 if step > 0 else -1
    if start is not None and end is not None:
        sizes = np.arange(size + 1)
        at = (np.clip(p + sizes * (p < 0), low, sizes + low) for p in (start, end))
        first, last = at
        return int(_count(last - first if step > 0 else first - last, stride).max())
    span, bounds = ends[1].plus(ends[0], -1).known, ends[1].bounds
    if step > 0 and span is not None and bounds and bounds[0] >= 0:
        return int(min(_count(span, stride), _count(size, stride)))
    return int(_count(size, stride))
