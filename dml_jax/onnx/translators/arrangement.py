"""Shapes, views, parts, joins, and tensors that are made of a size."""

import math
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax import functional as dml
from dml_jax.enums import DepthSpaceOrder, PaddingMode
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT, attribute_value
from dml_jax.onnx.files.types import Shape, dense, index_type
from dml_jax.onnx.nodes import early_versions
from dml_jax.onnx.nodes.graph_context import Site
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import inlines, translates
from dml_jax.onnx.nodes.reshapes import on_axis, reshape, spread, taken, transpose
from dml_jax.onnx.nodes.tensor import Padded, Tensor
from dml_jax.onnx.sizes import integer_ranges, output_rules, padding_rules, symbolic_sizes
from dml_jax.onnx.translators.recurrent import check_lengths

MODES = {"constant": "CONSTANT", "reflect": "REFLECTION", "edge": "EDGE", "wrap": "WRAP"}
_VIEWS = "Flatten", "Reshape", "Squeeze", "Unsqueeze"
ORDERS = {"DCR": "DEPTH_COLUMN_ROW", "CRD": "COLUMN_ROW_DEPTH"}


@translates("Shape", reads_sizes=True, elements=symbolic_sizes.shape)
def _shape(node: Node) -> np.ndarray | Expression:
    start, end = node.attribute("start", 0), node.attribute("end")
    part, count = range(node.rank())[start:end], node.tensor(0).count
    if count is None or count.axis not in part:
        return np.array([node.shape()[d] for d in part], np.int64)
    sizes = {d: np.array([node.shape()[d]], node.result_type().array_dtype) for d in part}
    pieces = [node.builder.constant(sizes[d]) for d in part]
    pieces[part.index(count.axis)] = reshape(count.number.expression, (1,))
    return dml.join(pieces, 0) if len(pieces) > 1 else pieces[0]


@translates("Size", reads_sizes=True)
def _size(node: Node) -> np.ndarray | Expression:
    count = node.tensor(0).count
    if count is None:
        return np.array(np.prod(node.shape(), dtype=np.int64))
    rest = [n for d, n in enumerate(node.shape()) if d != count.axis]
    others = node.builder.constant(np.array([math.prod(rest)], node.result_type().array_dtype))
    return dml.multiply(reshape(count.number.expression, (1,)), others)


@translates("Reshape", written_as=early_versions.RESHAPE, output=output_rules.reshape_rule)
@translates("Squeeze", "Unsqueeze", takes_scalars=True)
@translates(*_VIEWS, padding=padding_rules.reshape_rule, elements=symbolic_sizes.same)
def _view(node: Node) -> Expression:
    node.constant(1)  # the new sizes, or axes; attributes in early versions
    return reshape(node[0], node.output_shape())


@translates("ExpandDims", domain=MICROSOFT)
def _expand_dims(node: Node) -> Expression:
    axis = node.from_start(node.number(1), node.rank() + 1)
    return reshape(node[0], (*node.shape()[:axis], 1, *node.shape()[axis:]))


@translates("Transpose", padding=padding_rules.transpose_rule)
def _transpose(node: Node) -> Expression:
    order = node.attribute("perm") or [*reversed(range(node.rank()))]
    rule = f"have each of 0 to {node.rank() - 1} once"
    node.expect(sorted(order) == [*range(node.rank())], "perm", rule, order)
    if not order:
        return node[0]
    return dml.identity(transpose(node[0], order))


@translates("Expand", integers=integer_ranges.first, output=output_rules.expand_rule)
def _expand(node: Node) -> Expression | Tensor:
    node.constant(1)
    if node.output_shape() == node.shape():
        return node.tensor(0)
    return dml.identity(spread(node[0], node.output_shape() or (1,)))


@translates("Concat", padding=padding_rules.concat_rule, elements=symbolic_sizes.concat)
def _concat(node: Node) -> Expression | Padded:
    full = [k for k in range(len(node.inputs)) if not node.type(k).is_empty]
    axis = node.from_start(node.attribute("axis"), node.rank())
    x = dml.join([node[k] for k in full], axis) if len(full) > 1 else node[full[0]]
    parts = [node.tensor(k) for k in full]
    if not any(part.count and part.count.axis == axis for part in parts):
        return x
    kind = index_type()
    places = node.builder.constant(np.arange(x.sizes[axis], dtype=kind.dtype))
    index, total = places, node.builder.constant(np.zeros(1, kind.dtype))
    # The elements behind a part stand where its padding begins: places move up by the padding.
    for part in parts:
        size, count = part.shape[axis], part.count
        number = dml.cast(reshape(count.number.expression, (1,)), kind) if count else size
        total = total + number
        if count:
            index = index + dml.if_(dml.greater_than_or_equal(places, total), size - number, 0)
    return Padded(taken(x, dml.min(index, x.sizes[axis] - 1), axis), axis, total)


@translates("Split", padding=padding_rules.split_rule, written_as=early_versions.SPLIT)
def _split(node: Node) -> Any:
    given = node.constant(1)
    is_right = given is None or min(given, default=0) >= 0
    node.expect(is_right, "split", "have sizes of at least 0", given)
    sizes, axis = [node.output_shape(k) for k in range(len(node.types))], node.axis()
    pieces = [size[axis] for size in sizes]
    full = [piece for piece in pieces if piece]
    made = iter([node[0]] if len(full) == 1 else dml.split(node[0], axis, full))
    return [next(made) if piece else None for piece in pieces]


@translates("Crop")
def _crop(node: Node) -> Expression:
    *outer, height, width = node.shape()
    left, top, right, bottom = node.attribute("border")
    sizes = node.attribute("scale") or [height - top - bottom, width - left - right]
    ones = [1] * node.rank()
    return dml.slice(node[0], [0] * len(outer) + [top, left], [*outer, *sizes], ones)


@translates("Pad", integers=integer_ranges.first, padding=padding_rules.pad_rule)
def _pad_by_attributes(node: Node) -> Expression:
    pads = node.attribute("pads") or node.attribute("paddings")
    return pad(node, pads, float(node.attribute("value")))


@translates("Pad", domain=MICROSOFT, integers=integer_ranges.first)
@translates("Pad", since=11)
def _pad(node: Node) -> Expression:
    rank = node.rank()
    axes = node.constant(3)
    axes = [*range(rank)] if axes is None else [node.from_start(int(a), rank) for a in axes]
    given, pads = node.constant(1).reshape(-1), [0] * (2 * rank)
    for k, axis in enumerate(axes):
        pads[axis], pads[axis + rank] = int(given[k]), int(given[k + len(axes)])
    value = node.known(2)
    if value is None and node.has(2):
        ones = dml.fill_value_constant(node.shape(), "UINT8", 1, graph=node.builder)
        is_inside = pad(node, pads, 0, ones)
        return dml.if_(is_inside, pad(node, pads, 0), node[2])
    value = 0 if value is None or not value.size else value.reshape(-1)[0].item()
    return pad(node, pads, value)


def pad(node: Node, pads: Any, value: float, x: Expression | None = None) -> Expression:
    """Return `x`, by default the first input, cut where pads are negative, then padded."""
    rank, shape, x = node.rank(), node.shape(), node[0] if x is None else x
    low, high = pads[:rank], pads[rank:]
    if min(pads, default=0) < 0:
        starts = [max(0, -p) for p in low]
        sizes = [n - s - max(0, -p) for n, s, p in zip(shape, starts, high, strict=True)]
        if min(sizes) < 1 and node.choice("mode", MODES, "constant") == "constant":
            sizes = [sum(three) for three in zip(shape, low, high, strict=True)]
            return dml.fill_value_constant(sizes, x.desc.data_type, value, graph=node.builder)
        x = dml.slice(x, starts, sizes, [1] * rank)
    low, high = [max(0, p) for p in low], [max(0, p) for p in high]
    if not any(low) and not any(high):
        return x
    mode = PaddingMode.of(MODES[node.choice("mode", MODES, "constant")])
    return dml.padding(x, mode, value, low, high)


@translates("Tile", integers=integer_ranges.first)
def _tile(node: Node) -> Expression | Tensor:
    if node.version < 6:
        count, axis = (int(node.number(k)) for k in (1, 2))
        return dml.tile(node[0], [count if d == axis else 1 for d in range(node.rank())])
    repeats = node.constant(1).tolist()
    return node.tensor(0) if all(r == 1 for r in repeats) else dml.tile(node[0], repeats)


@translates("DepthToSpace", "SpaceToDepth", must_fit=True)
def _blocks(node: Node) -> Expression:
    order = DepthSpaceOrder.of(ORDERS[node.choice("mode", ORDERS, "DCR")])
    return node.function(node[0], node.attribute("blocksize"), order)


@translates("ReverseSequence")
def _reverse(node: Node) -> Expression:
    time, batch = node.axis("time_axis"), node.axis("batch_axis")
    lengths = dml.cast(node[1], "UINT32") if node[1].dtype.kind == "i" else node[1]
    lengths = on_axis(lengths, batch, node.rank())
    sizes = [1 if d == time else size for d, size in enumerate(node.shape())]
    check_lengths(node, 1, node.shape()[time])
    return dml.reverse_subsequences(node[0], spread(lengths, sizes), time)


@inlines("Constant")
def _literal(site: Site) -> list[Tensor]:
    if len(site.proto.attribute) != 1:
        raise DmlError([Fault("", "attributes", "be one", len(site.proto.attribute))])
    translation, attribute, name = site.translation, site.proto.attribute[0], site.proto.output[0]
    if attribute.name in ("value_string", "value_strings"):
        rule = "be a tensor or numbers (strings are not taken)"
        raise DmlError([Fault("", attribute.name, rule, Unquoted("strings"))])
    if attribute.name not in ("value", "sparse_value"):
        dtype = np.float32 if attribute.name.startswith("value_float") else np.int64
        return [translation.constant(name, np.asarray(attribute_value(attribute), dtype))]
    is_sparse = attribute.name == "sparse_value"
    value = dense(attribute.sparse_tensor) if is_sparse else attribute_value(attribute)
    element = (attribute.sparse_tensor.values if is_sparse else attribute.t).data_type
    is_part = bool(translation.called) or value.size == 1
    return [(translation.constant if is_part else translation.weight)(name, value, element)]


@translates("ConstantOfShape", output=output_rules.constant_rule, elements=symbolic_sizes.constant)
def _constant_of_shape(node: Node) -> Expression:
    node.constant(0)
    value = node.attribute("value")
    value = 0.0 if value is None else value.reshape(-1)[0].item()
    sizes: Shape = node.output_shape() or (1,)
    return dml.fill_value_constant(sizes, node.output_type(), value, graph=node.builder)


def _of_scalars(proto: onnx.NodeProto, kinds: dict[str, Any], inputs: list[Tensor | None]) -> None:
    """Let inference take lists of one number as numbers, as ONNX Runtime does."""
    for k, (name, tensor) in enumerate(zip(proto.input, inputs, strict=True)):
        if tensor is not None and tensor.shape == (1,):
            kinds[name] = helper.make_tensor_type_proto(tensor.type.element, ())
            inputs[k] = tensor.inferred_as((), lambda array: array.reshape(()))


@translates("Range", output=output_rules.range_rule, must_fit=True, inferred_as=_of_scalars)
def _range(node: Node) -> Expression | np.ndarray:
    start, limit, delta = map(node.number, range(3))
    node.expect(delta != 0, "delta", "be other than 0", delta)
    known = node.result_type().shape  # ONNX does not infer that of 16-bit floats
    sizes = (max(0, math.ceil((limit - start) / delta)),) if known is None else known
    if not sizes[0]:
        return np.zeros(0, node.result_type().dtype)
    return dml.fill_value_sequence(sizes, node.output_type(), start, delta, graph=node.builder)


@translates("EyeLike")
def _eye(node: Node) -> Expression:
    sizes, kind, k = node.output_shape(), node.output_type(), node.attribute("k")
    return dml.diagonal_matrix(sizes, kind, 1.0, k, k + 1, graph=node.builder)


@translates("Trilu", domain=MICROSOFT)
@translates("Trilu")
def _trilu(node: Node) -> Expression:
    is_upper = node.attribute("upper", 1)
    if node.has(1) and not node.tensor(1).is_known:
        return _trilu_by_input(node, is_upper)
    k = int(np.clip(node.number(1, 0), -(2**30), 2**30))
    begin, end = (-(2**31), k) if is_upper else (k + 1, 2**31 - 1)
    *leading, rows, columns = node.shape()
    sizes = (int(np.prod(leading)), rows, columns)
    x = reshape(node[0], sizes)
    made = dml.diagonal_matrix(sizes, x.desc.data_type, 0.0, begin, end, input=x)
    return reshape(made, node.shape())


def _trilu_by_input(node: Node, is_upper: bool) -> Expression:
    """Return Trilu whose diagonal is a tensor: each element by its distance from the main one."""
    rows, columns = node.shape()[-2:]
    places = np.arange(columns)[None] - np.arange(rows)[:, None]
    distance = node.builder.constant(places.astype(node[1].dtype))
    compare = dml.greater_than_or_equal if is_upper else dml.less_than_or_equal
    is_kept = compare(distance, reshape(node[1], (1, 1)))
    return dml.if_(is_kept, node[0], 0)
