"""Op types of ONNX Runtime's own domain, com.microsoft, which has no schemas here."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.enums import MatrixTransform, TensorDataType
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx import ragged, ranges
from dml_jax.onnx.nodes import MICROSOFT as DOMAIN
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.reshapes import on_axis, packed, packed_strides, reshaped, spread, transposed
from dml_jax.onnx.translators.activations import gelu_by_tanh
from dml_jax.onnx.translators.indexing import gather_nd
from dml_jax.onnx.translators.normalizations import aligned, as_type, of_one_type
from dml_jax.onnx.translators.products import product
from dml_jax.onnx.translators.windows import conv_transposed, planes, window_of, with_planes


@translates("Gelu", "BiasGelu", domain=DOMAIN, padded=ragged.by_element)
def _gelu(node: Node) -> Expression:
    return dml.activation_gelu(node[0] + node[1] if node.has(1) else node[0])


@translates("FastGelu", domain=DOMAIN)
def _fast_gelu(node: Node) -> Expression:
    return gelu_by_tanh(node[0] + node[1] if node.has(1) else node[0])


@translates("QuickGelu", domain=DOMAIN)
def _quick_gelu(node: Node) -> Expression:
    return dml.activation_swish(node[0], node.attribute("alpha", 1.702))


@translates("BiasAdd", domain=DOMAIN)
def _bias_add(node: Node) -> Expression:
    return node[0] + node[1] + node[2]


@translates("BiasSplitGelu", domain=DOMAIN)
def _bias_split_gelu(node: Node) -> Expression:
    x = node[0] + node[1]
    half = x.sizes[-1] // 2
    value, gate = dml.split(x, len(x.sizes) - 1, (half, half))
    return value * dml.activation_gelu(gate)


ACTIVATIONS: dict[str, tuple[str, tuple[float, ...]]] = {  # the function, its parameters' defaults
    "Elu": ("activation_elu", (1.0,)),
    "HardSigmoid": ("activation_hard_sigmoid", (0.2, 0.5)),
    "LeakyRelu": ("activation_leaky_relu", (0.01,)),
    "Relu": ("activation_relu", ()),
    "Sigmoid": ("activation_sigmoid", ()),
    "Softplus": ("activation_softplus", ()),
    "Softsign": ("activation_softsign", ()),
    "Tanh": ("activation_tanh", ()),
}


def activated(node: Node, x: Expression, given: Sequence[float]) -> Expression:
    """Return `x` behind the activation that is an attribute of the node.

    Args:
        node: the node.
        x: the expression.
        given: the parameters of the activation, as far as the node has them.
    """
    name = node.attribute("activation", "")
    if not name:
        return x
    if name == "Clip":
        return dml.clip(x, given[0], given[1])
    if name not in ACTIVATIONS:
        raise node.refusal("activation", f"be one of {', '.join([*ACTIVATIONS, 'Clip'])}", name)
    function, defaults = ACTIVATIONS[name]
    return getattr(dml, function)(x, *(*given, *defaults[len(given) :])[: len(defaults)])


def _parameters(node: Node) -> list[float]:
    """Return the attributes that are parameters of an activation, as far as they are there."""
    values = [node.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [value for value in values if value is not None]


@translates("FusedMatMulActivation", domain=DOMAIN)
def _matmul_activation(node: Node) -> Expression:
    return activated(node, _matmul(node), _parameters(node))


@translates("FusedGemm", domain=DOMAIN)
def _gemm(node: Node) -> Expression:
    a, b = node[0], node[1]
    is_turned = [bool(node.attribute(f"trans{name}", 0)) for name in "AB"]
    c, sizes = None, (a.sizes[is_turned[0]], b.sizes[1 - is_turned[1]])
    if node.has(2) and node.attribute("beta", 1.0):
        c = spread(reshaped(node[2], (1,) * (2 - node.rank(2)) + node.shape(2)), sizes)
    ways = [MatrixTransform(turned) for turned in is_turned]
    alpha, beta = (node.attribute(name, 1.0) for name in ("alpha", "beta"))
    made = dml.gemm(a, b, c, ways[0], ways[1], alpha, beta)
    return activated(node, made, _parameters(node))


def _convolved(node: Node, x: Expression, weights: Expression) -> Expression:
    """Return the convolution of `x`, with its channels in dimension 1."""
    window = with_planes(window_of(node, weights.sizes[2:], x.sizes[2:]))
    spatial, x, weights = len(x.sizes) - 2, planes(x), planes(weights)
    bias = on_axis(node[2], 1, len(x.sizes)) if node.has(2) else None
    group = node.attribute("group", 1)
    made = dml.convolution(x, weights, bias, group_count=group, **window.moves)
    return reshaped(made, (*made.sizes[:2], *made.sizes[-spatial:]))


@translates("FusedConv", domain=DOMAIN)
def _conv(node: Node) -> Expression:
    made = _convolved(node, node[0], node[1])
    made = made + node[3] if node.has(3) else made
    return activated(node, made, node.attribute("activation_params") or [])


@translates("NhwcConv", domain=DOMAIN)
def _conv_of_last_channels(node: Node) -> Expression:
    if node.rank() != 4:
        raise node.refusal("X", "have 4 dimensions", node.rank())
    x, weights = (packed(transposed(node[k], (0, 3, 1, 2))) for k in (0, 1))
    return packed(transposed(_convolved(node, x, weights), (0, 2, 3, 1)))


@translates("ConvTransposeWithDynamicPads", domain=DOMAIN)
def _conv_transpose(node: Node) -> Expression:
    pads = node.constant(2)
    return conv_transposed(node, None if pads is None else [int(p) for p in pads], 3)


@translates("GroupNorm", domain=DOMAIN)
def _group_normalization(node: Node) -> Expression:
    if node.rank() != 4:
        raise node.refusal("X", "have 4 dimensions", node.rank())
    is_last, groups = bool(node.attribute("channels_last", 1)), node.attribute("groups")
    x, *parameters = of_one_type(node, 0, 1, 2)
    x = packed(transposed(x, (0, 3, 1, 2))) if is_last else x
    n, c, height, width = x.sizes
    rows = reshaped(x, (n, groups, c // groups, height * width))
    scale, bias = (reshaped(p, (1, groups, c // groups, 1)) for p in parameters)
    epsilon = node.attribute("epsilon", 1e-5)
    made: Any = dml.mean_variance_normalization(rows, scale, bias, [2, 3], True, True, epsilon)
    made = dml.activation_swish(made, 1.0) if node.attribute("activation", 0) else made
    made = reshaped(as_type(made, node.type().inner), (n, c, height, width))
    return packed(transposed(made, (0, 2, 3, 1))) if is_last else made


@translates("EmbedLayerNormalization", domain=DOMAIN)
def _embedding(node: Node) -> Any:
    batch, sequence = node.shape()
    places = node.given(8)
    if places is None:
        size = (1, sequence)
        places = dml.fill_value_sequence(size, "INT32", 0, 1, graph=node.builder)
    total = _rows_of(node[2], node[0]) + _rows_of(node[3], places)
    if node.has(4):
        total = total + _rows_of(node[4], node[1])
    gamma, beta = (reshaped(node[k], (1, 1, *node.shape(k))) for k in (5, 6))
    epsilon = node.attribute("epsilon", 1e-12)
    y: Any = dml.mean_variance_normalization(total, gamma, beta, [2], True, True, epsilon)
    if node.has(7):
        lengths = reshaped(dml.reduce(dml.cast(node[7], "INT32"), "SUM", [1]), (batch,))
    else:
        lengths = dml.fill_value_constant((batch,), "INT32", 0, graph=node.builder)
    return (y, lengths, total)[: len(node.types)]


def _rows_of(table: Expression, indices: Expression) -> Expression:
    """Return the row of a table for each of the indices, [batch, sequence]."""
    count = indices.sizes[0] * indices.sizes[1]
    found = dml.gather(table, reshaped(indices, (1, count)), 0, 1)
    return reshaped(found, (*indices.sizes, table.sizes[1]))


@translates("ExpandDims", domain=DOMAIN)
def _expand_dims(node: Node) -> Expression:
    rank = node.rank() + 1
    axis = node.from_start(int(np.reshape(node.constant(1), -1)[0]), rank)
    return reshaped(node[0], (*node.shape()[:axis], 1, *node.shape()[axis:]))


@translates("GatherND", domain=DOMAIN, padded=ragged.gathered_nd, range=ranges.first)
def _gather_nd(node: Node) -> Expression:
    leading, rest = node.shape(1)[:-1], node.shape()[node.shape(1)[-1] :]
    return reshaped(gather_nd(node), (*leading, *rest))


@translates("CDist", domain=DOMAIN)
def _distances(node: Node) -> Expression:
    (m, size), (n, _) = node.shape(0), node.shape(1)
    apart = reshaped(node[0], (m, 1, size)) - reshaped(node[1], (1, n, size))
    is_square = node.attribute("metric", "sqeuclidean") == "sqeuclidean"
    return reshaped(dml.reduce(apart, "SUM_SQUARE" if is_square else "L2", [2]), (m, n))


@translates("UnfoldTensor", domain=DOMAIN)
def _windows(node: Node) -> Expression:
    x, step, size = packed(node[0]), node.attribute("step", 1), node.attribute("size")
    axis = node.from_start(node.attribute("dim", -1), node.rank())
    if not 1 <= size <= x.sizes[axis]:
        raise node.refusal("size", f"be in [1, {x.sizes[axis]}]", size)
    sizes, strides = list(x.sizes), list(packed_strides(x.sizes))
    sizes[axis] = (sizes[axis] - size) // step + 1
    own, strides[axis] = strides[axis], strides[axis] * step
    return dml.identity(x.reinterpret([*sizes, size], [*strides, own]))


@translates("NhwcMaxPool", domain=DOMAIN)
def _max_pool_of_last_channels(node: Node) -> Expression:
    rank = node.rank()
    x = packed(transposed(node[0], (0, rank - 1, *range(1, rank - 1))))
    window = with_planes(window_of(node, node.attribute("kernel_shape"), x.sizes[2:]))
    made = dml.max_pooling(planes(x), window.sizes, **window.moves).values
    made = reshaped(made, (*made.sizes[:2], *made.sizes[2 if rank > 3 else 3 :]))
    return packed(transposed(made, (0, *range(2, rank), 1)))


# Op types that ONNX had before its version 1, and that ONNX Runtime keeps.


@translates("Affine")
def _affine(node: Node) -> Expression:
    return dml.activation_linear(node[0], node.attribute("alpha", 1.0), node.attribute("beta", 0.0))


@translates("Crop")
def _crop(node: Node) -> Expression:
    *outer, height, width = node.shape()
    left, top, right, bottom = node.attribute("border")
    sizes = node.attribute("scale") or [height - top - bottom, width - left - right]
    ones = [1] * node.rank()
    return dml.slice(node[0], [0] * len(outer) + [top, left], [*outer, *sizes], ones)


@translates("ImageScaler")
def _image_scaler(node: Node) -> Expression:
    bias = np.array(node.attribute("bias"), node[0].dtype)
    constant = on_axis(node.builder.constant(bias), 1, node.rank())
    return node[0] * node.attribute("scale", 1.0) + constant


@translates("ParametricSoftplus", "ScaledTanh")
def _of_two_parameters(node: Node) -> Expression:
    is_tanh = node.op_type == "ScaledTanh"
    function = dml.activation_scaled_tanh if is_tanh else dml.activation_parametric_softplus
    alpha, beta = (node.attribute(name) for name in ("alpha", "beta"))
    if alpha is None or beta is None:
        raise node.refusal("alpha and beta", "be given", Unquoted("nothing"))
    return function(node[0], alpha, beta)


@translates("SimplifiedLayerNormalization")
def _simplified_normalization(node: Node) -> Any:
    if len(node.types) > 1:
        raise node.refusal("output 1", "be left out", node.outputs[1])
    axis = node.from_start(node.attribute("axis", -1), node.rank())
    axes, epsilon = [*range(axis, node.rank())], node.attribute("epsilon", 1e-5)
    x, scale = of_one_type(node, 0, 1)
    scale = aligned(scale, node.rank())
    made: Any = dml.mean_variance_normalization(x, scale, None, axes, True, False, epsilon)
    return as_type(made, node.type(1).inner)


@translates("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def _matmul(node: Node) -> Expression:
    operands = []
    for index, name in enumerate("AB"):
        x, rank = node[index], node.rank(index)
        order = [*range(rank)]
        if node.attribute(f"transBatch{name}", 0):
            order = [*order[1:-1], order[0], order[-1]]
        if node.attribute(f"trans{name}", 0) and rank > 1:
            order[-2:] = order[:-3:-1]
        operands.append(x if order == [*range(rank)] else packed(transposed(x, order)))
    return product(operands[0], operands[1], node.attribute("alpha", 1.0))


@translates("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=DOMAIN)
def _skip_normalization(node: Node) -> Any:
    has_mean = node.op_type == "SkipLayerNormalization"
    for index in (1, 2):
        if len(node.types) > index and node.outputs[index]:
            raise node.refusal(f"output {index}", "be left out", node.outputs[index])
    at_bias, kind = (4 if has_mean else 3), node.type().inner
    given = [k for k in range(5) if node.has(k)]
    wide = dict(zip(given, of_one_type(node, *given, kind=TensorDataType.FLOAT32), strict=True))
    total = wide[0] + wide[1]
    total = total + wide[at_bias] if at_bias in wide else total
    rank = len(total.sizes)
    beta = aligned(wide[3], rank) if has_mean and 3 in wide else None
    epsilon = node.attribute("epsilon", 1e-12)
    y: Any = dml.mean_variance_normalization(
        total, aligned(wide[2], rank), beta, [rank - 1], True, has_mean, epsilon
    )
    return (as_type(y, kind), None, None, as_type(total, kind))[: len(node.types)]


@translates("CausalConvWithState", "LinearAttention", domain=DOMAIN)
def _as_onnx(node: Node) -> Any:
    return NotImplemented  # ONNX's function of this name is translated
