"""Convolution and pooling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.lowering.strided_memory import packed_strides
from dml_jax.onnx.files.attributes import MICROSOFT, attribute_value
from dml_jax.onnx.nodes import early_versions
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import MISREAD, translates
from dml_jax.onnx.nodes.reshapes import (
    lengthen,
    on_axis,
    pack,
    reshape,
    with_channels_last,
    with_channels_second,
)
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.sizes import integer_ranges, padding_rules
from dml_jax.onnx.translators.activation import with_activation

Ints = list[int]

# ONNX's inference below version 22 counts a window of a pool that lies in the padding alone;
# its text does not, so that earlier versions are inferred by this one.
_INFERRED = 22


@dataclass
class Window:
    """How a window moves over spatial dimensions.

    Attributes:
        sizes: the sizes of the window.
        strides, dilations: steps over the input.
        start, end: the padding, with the end that gives the output's sizes.
        declared: the padding at the end as the node says it.
    """

    sizes: Ints
    strides: Ints
    dilations: Ints
    start: Ints
    end: Ints
    declared: Ints

    @property
    def pool(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return the arguments that pools take, in their order."""
        return self.strides, self.sizes, self.start, self.end, self.dilations

    @property
    def moves(self) -> dict[str, Any]:
        """Return the arguments that convolutions take."""
        paddings = {"start_padding": self.start, "end_padding": self.end}
        return {"strides": self.strides, "dilations": self.dilations, **paddings}


def window_of(node: Node, sizes: Sequence[int] | None, spatial: Sequence[int]) -> Window:
    """Return the window of a node over an input of the sizes `spatial`, of two dimensions at least.

    Without `sizes` it has those of the attribute `kernel_shape`.
    """
    window: Sequence[int] = node.attribute("kernel_shape") if sizes is None else sizes
    n = len(spatial)
    strides = node.attribute("strides") or [1] * n
    dilations = node.attribute("dilations") or [1] * n
    extents = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    auto = node.attribute("auto_pad", "NOTSET")
    pads = node.attribute("pads") if auto in ("NOTSET", "") else None
    start, end = (pads[:n], pads[n:]) if pads else ([0] * n, [0] * n)
    is_less = sizes is not None or all(max(p) < k for *p, k in zip(start, end, window, strict=True))
    node.expect(is_less, "pads", f"be less than the window {list(window)}", pads)
    declared = list(end)
    for d in range(n):
        if auto.startswith("SAME"):
            out = -(-spatial[d] // strides[d])
            total = max(0, (out - 1) * strides[d] + extents[d] - spatial[d])
            start[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            end[d] = declared[d] = total - start[d]
        elif node.attribute("ceil_mode", 0):
            room = spatial[d] + start[d] + end[d] - extents[d]
            out = -(-room // strides[d]) + 1
            if (out - 1) * strides[d] >= spatial[d] + start[d]:
                out -= 1  # the last window lies in the padding alone
            end[d] = max(0, (out - 1) * strides[d] + extents[d] - spatial[d] - start[d])
    return _with_planes(Window(list(window), strides, dilations, start, end, declared))


def planes(x: Expression) -> Expression:
    """Return a tensor of one spatial dimension as one of two, the first of size 1."""
    return reshape(x, (*x.sizes[:2], 1, x.sizes[2])) if len(x.sizes) == 3 else x


def _with_planes(window: Window) -> Window:
    """Return a window over two dimensions, the first of size 1, for a window over one."""
    if len(window.sizes) != 1:
        return window
    ones = [[1, *v] for v in (window.sizes, window.strides, window.dilations)]
    return Window(*ones, *[[0, *v] for v in (window.start, window.end, window.declared)])


def _convolve(node: Node, x: Expression, weights: Expression) -> Expression:
    """Return the convolution of `x`, with its channels in dimension 1."""
    window = window_of(node, weights.sizes[2:], x.sizes[2:])
    spatial, x, weights = len(x.sizes) - 2, planes(x), planes(weights)
    bias, group = _channel(node, 2, len(x.sizes)), node.attribute("group", 1)
    made = dml.convolution(x, weights, bias, group_count=group, **window.moves)
    return reshape(made, (*made.sizes[:2], *made.sizes[-spatial:]))


@translates("Conv", padding=padding_rules.window_rule, must_fit=True)
def _conv(node: Node) -> Expression:
    return _convolve(node, node[0], node[1])


@translates("FusedConv", domain=MICROSOFT)
def _fused_conv(node: Node) -> Expression:
    made = _conv(node) + node[3] if node.has(3) else _conv(node)
    return with_activation(node, made, node.attribute("activation_params") or [])


@translates("NhwcConv", domain=MICROSOFT)
def _conv_of_last_channels(node: Node) -> Expression:
    node.expect(node.rank() == 4, "X", "have 4 dimensions", node.rank())
    x, weights = (with_channels_second(node[k]) for k in (0, 1))
    return with_channels_last(_convolve(node, x, weights))


def _reach(
    given: Mapping[str, Any], spatial: Sequence[int], window: Sequence[int]
) -> tuple[Ints, Ints, Ints]:
    """Return the sizes that a transposed convolution of the attributes `given` reaches by itself.

    Then its padding and its output_padding, written out. A size that SAME means is the input's
    times the stride, or less where the elements do not reach so far: no padding is negative.
    """
    n, auto, asked = len(spatial), given.get("auto_pad", "NOTSET"), given.get("output_shape")
    strides, dilations = (given.get(k) or [1] * n for k in ("strides", "dilations"))
    natural = [(spatial[d] - 1) * strides[d] + (window[d] - 1) * dilations[d] + 1 for d in range(n)]
    more = given.get("output_padding") or [0] * n
    pads = given.get("pads") if auto in ("NOTSET", "") else None
    if not asked and not auto.startswith("SAME"):
        return natural, list(pads or [0] * 2 * n), more
    most = [size + own for size, own in zip(natural, more, strict=True)]
    sizes = asked[-n:] if asked else [min(spatial[d] * strides[d], most[d]) for d in range(n)]
    totals = [max(0, m - size) for m, size in zip(most, sizes, strict=True)]
    start = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in totals]
    lacking = [start[d] + sizes[d] - natural[d] for d in range(n)]
    return natural, [*start, *(max(0, -k) for k in lacking)], [max(0, k) for k in lacking]


def _with_pads(proto: onnx.NodeProto, _: Any, inputs: Sequence[Tensor | None]) -> None:
    """Write out the padding that the sizes of an output mean.

    Inference lacks sizes below those of the input, and adds output_padding to those that SAME
    means, against ONNX's text.
    """
    given = {a.name: attribute_value(a) for a in proto.attribute}
    x, window = (tensor.shape[2:] if tensor is not None else () for tensor in inputs[:2])
    asked = given.get("output_shape")
    if len(x) != len(window) or len(asked or x) < len(x):
        return
    if asked or given.get("auto_pad", "").startswith("SAME"):
        _, given["pads"], given["output_padding"] = _reach(given, x, window)
        given["auto_pad"] = "NOTSET"
        given.pop("output_shape", None)
        del proto.attribute[:]
        proto.attribute.extend(helper.make_attribute(k, v) for k, v in given.items())


@translates("ConvTranspose", misread_before=MISREAD, inferred_as=_with_pads)
@translates("ConvTranspose", padding=padding_rules.window_rule, must_fit=True)
def _conv_transpose(node: Node) -> Expression:
    return _convolve_transposed(node, node.attributes, 2)


@translates("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def _conv_transpose_with_pads(node: Node) -> Expression:
    pads = [int(p) for p in node.constant(2, ())]
    return _convolve_transposed(node, {**node.attributes, "pads": pads}, 3)


def _convolve_transposed(node: Node, given: Mapping[str, Any], at_bias: int) -> Expression:
    """Return the transposed convolution of attributes `given`, with input `at_bias` as its bias."""
    x, shape, weights = node[0], node.shape(), node.shape(1)
    n, group, asked = len(shape) - 2, given.get("group", 1), given.get("output_shape")
    strides, dilations = (given.get(k) or [1] * n for k in ("strides", "dilations"))
    natural, pads, more = _reach(given, shape[2:], weights[2:])
    start, sizes, behind, end = pads[:n], *([0] * n for _ in range(3))
    for d in range(n):
        sizes[d] = natural[d] + more[d] - pads[d] - pads[d + n]
        if asked:
            most = natural[d] + max((given.get("output_padding") or [0] * n)[d], strides[d] - 1)
            is_right = 1 <= asked[d - n] <= most
            node.expect(is_right, "output_shape", f"be in [1, {most}]", asked[d - n])
        lacking = max(0, start[d] + sizes[d] - natural[d])
        # DirectML adds the rest, which is less than a stride, by itself.
        behind[d] = lacking // strides[d]
        end[d] = max(0, natural[d] + behind[d] * strides[d] - start[d] - sizes[d])
    window = _with_planes(Window(list(weights[2:]), strides, dilations, start, end, end))
    x = planes(lengthen(x, [n + k for n, k in zip(x.sizes, [0, 0, *behind], strict=True)]))
    sizes = (shape[0], weights[1] * group, *([1] * (n == 1)), *sizes)
    given = {"group_count": group, "output_sizes": sizes, **window.moves}
    bias = _channel(node, at_bias, len(x.sizes))
    return dml.convolution(x, planes(node[1]), bias, direction="BACKWARD", **given)


@translates("ConvInteger", must_fit=True)
def _conv_integer(node: Node) -> Expression:
    x = planes(node[0])
    window = window_of(node, node.shape(1)[2:], node.shape()[2:])
    zeros, group = [_channel(node, k, len(x.sizes)) for k in (2, 3)], node.attribute("group")
    inputs = x, zeros[0], planes(node[1]), zeros[1]
    return dml.convolution_integer(*inputs, group_count=group, **window.moves)


@translates("QLinearConv", domain=MICROSOFT)
@translates("QLinearConv", must_fit=True)
def _quantized_conv(node: Node) -> Expression:
    is_last = bool(node.attribute("channels_last", 0))
    x, weights = with_channels_second(node[0]) if is_last else node[0], node[3]
    window, spatial = window_of(node, weights.sizes[2:], x.sizes[2:]), len(x.sizes) - 2
    x, group = planes(x), node.attribute("group", 1)
    c = {k: _channel(node, k, len(x.sizes)) for k in (1, 2, 4, 5, 6, 7, 8)}
    inputs = x, c[1], c[2], planes(weights), c[4], c[5], c[8], c[6], c[7]
    kind = node.type(7).inner
    made = dml.quantized_linear_convolution(*inputs, kind, group_count=group, **window.moves)
    made = reshape(made, (*made.sizes[:2], *made.sizes[-spatial:]))
    return with_channels_last(made) if is_last else made


def _channel(node: Node, index: int, rank: int) -> Any:
    """Return an input with an element for each channel, or for all; None where it is left out."""
    return on_axis(node[index], 1, rank) if node.has(index) else None


@translates("AveragePool", misread_before=7, inferred_since=_INFERRED)
@translates("AveragePool", padding=padding_rules.window_rule)
def _average_pool(node: Node) -> Expression:
    x = planes(node[0])
    window = window_of(node, None, node.shape()[2:])
    is_counted = bool(node.attribute("count_include_pad", 0))
    # ONNX counts the cells of the declared padding alone, DirectML all cells of a window: ONNX
    # wins, by zeros that are written out.
    if is_counted and window.end != window.declared:
        low, high = [0, 0, *window.start], [0, 0, *window.declared]
        x = dml.padding(x, "CONSTANT", 0.0, low, high)
        pairs = zip(window.end, window.declared, strict=True)
        window.start, is_counted = [0] * len(window.start), False
        window.end = [max(0, end - own) for end, own in pairs]
    return dml.average_pooling(x, *window.pool, is_counted)


@translates("LpPool", written_as=early_versions.LP_POOL, inferred_since=_INFERRED)
@translates("LpPool", padding=padding_rules.batch_rule)
def _lp_pool(node: Node) -> Expression:
    window = window_of(node, None, node.shape()[2:])
    return dml.lp_pooling(planes(node[0]), *window.pool, int(node.attribute("p")))


@translates("MaxPool", misread_before=MISREAD, inferred_since=_INFERRED)
@translates("MaxPool", padding=padding_rules.window_rule, integers=integer_ranges.top_k)
def _max_pool(node: Node) -> Any:
    window = window_of(node, None, node.shape()[2:])
    has_indices = len(node.types) > 1 and node.types[1] is not None
    given = {"output_indices": has_indices, **window.moves}
    values, indices = dml.max_pooling(planes(node[0]), window.sizes, **given)
    if not has_indices:
        return values
    assert indices is not None
    indices = dml.cast(indices, node.output_type(1))
    if node.attribute("storage_order", 0):
        indices = _column_major(indices, node.shape()[2:])
    return values, indices


def _column_major(indices: Expression, spatial: Sequence[int]) -> Expression:
    """Return indices that count in row-major order as ones that count the other way round."""
    plane = int(np.prod(spatial))
    first = dml.divide(indices, plane) * plane
    rest, result = indices - first, first
    step = 1
    for d in range(len(spatial)):
        below = int(np.prod(spatial[d + 1 :]))
        place = dml.divide(rest, below)
        rest, result = rest - place * below, result + place * step
        step *= spatial[d]
    return result


@translates("NhwcMaxPool", domain=MICROSOFT)
def _max_pool_of_last_channels(node: Node) -> Expression:
    x = with_channels_second(node[0])
    window = window_of(node, None, x.sizes[2:])
    made = dml.max_pooling(planes(x), window.sizes, **window.moves).values
    made = reshape(made, (*made.sizes[:2], *made.sizes[2 if node.rank() > 3 else 3 :]))
    return with_channels_last(made)


@translates("UnfoldTensor", domain=MICROSOFT)
def _windows(node: Node) -> Expression:
    x, step, size = pack(node[0]), node.attribute("step", 1), node.attribute("size")
    axis = node.from_start(node.attribute("dim", -1), node.rank())
    node.expect(1 <= size <= x.sizes[axis], "size", f"be in [1, {x.sizes[axis]}]", size)
    sizes, strides = list(x.sizes), list(packed_strides(x.sizes))
    sizes[axis] = (sizes[axis] - size) // step + 1
    own, strides[axis] = strides[axis], strides[axis] * step
    return dml.identity(x.reinterpret([*sizes, size], [*strides, own]))


@translates("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", padding=padding_rules.batch_rule)
def _global_pool(node: Node) -> Any:
    if node.rank() < 3:
        return node.tensor(0)
    n, c, *spatial = node.shape()
    x, size = reshape(node[0], (n, c, 1, int(np.prod(spatial)))), [1, int(np.prod(spatial))]
    ones, zeros = [1, 1], [0, 0]
    if node.op_type == "GlobalAveragePool":
        return dml.average_pooling(x, ones, size, zeros, zeros, ones, False)
    if node.op_type == "GlobalMaxPool":
        return dml.max_pooling(x, size).values
    return dml.lp_pooling(x, ones, size, zeros, zeros, ones, int(node.attribute("p")))


@translates("MaxUnpool")
def _max_unpool(node: Node) -> Expression:
    n, c, *spatial = node.shape()
    d = len(spatial)
    kernel = node.attribute("kernel_shape")
    strides = node.attribute("strides") or [1] * d
    pads = node.attribute("pads") or [0] * 2 * d
    inferred = [(spatial[k] - 1) * strides[k] + kernel[k] - pads[k] - pads[k + d] for k in range(d)]
    flat = (n, c, 1, int(np.prod(spatial)))
    rule = f"have the sizes {list(node.shape())}, as X"
    node.expect(node.shape(1) == node.shape(), "I", rule, list(node.shape(1)))
    indices = reshape(dml.cast(node[1], "UINT32"), flat)
    sizes = (n, c, 1, int(np.prod(inferred)))
    made = reshape(dml.max_unpooling(reshape(node[0], flat), indices, sizes), (n, c, *inferred))
    asked = node.constant(2)
    if asked is None:
        return made
    return lengthen(made, [max(pair) for pair in zip(map(int, asked), made.sizes, strict=True)])


@translates("Col2Im")
def _fold(node: Node) -> Expression:
    sizes, window = ([int(v) for v in node.constant(k)] for k in (1, 2))
    n = len(sizes)
    pads = node.attribute("pads") or [0] * 2 * n
    strides, dilations = (node.attribute(k) or [1] * n for k in ("strides", "dilations"))
    sizes = node.output_shape()
    return dml.fold(node[0], window, strides, dilations, pads[:n], pads[n:], sizes)
