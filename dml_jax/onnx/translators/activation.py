"""Activations."""

import math
from collections.abc import Sequence

import numpy as np

from dml_jax import functional as dml
from dml_jax.errors import Unquoted
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import function_of, translates
from dml_jax.onnx.nodes.reshapes import on_axis
from dml_jax.onnx.sizes import counts, padding_rules

ACTIVATIONS: dict[str, Sequence[str]] = {  # the attributes that are arguments of the function
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ()),
    **dict.fromkeys(("Celu", "Elu", "LeakyRelu", "Swish", "ThresholdedRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "Shrink": ("bias", "lambd"),
}
_ROWS = "Hardmax", "LogSoftmax", "Softmax"
# ONNX's function body of HardSwish has 1/6 as a FLOAT, and not as the exact fraction.
_SIXTH = float(np.float32(1 / 6))


@translates(*ACTIVATIONS, padding=padding_rules.by_element)
def _activation(node: Node) -> Expression:
    x, values = node[0], map(node.attribute, ACTIVATIONS[node.op_type])
    if node.op_type == "Shrink" and not node.type().is_floating:  # its bias is a FLOAT
        return dml.cast(node.function(dml.cast(x, "FLOAT32"), *values), node.output_type())
    return node.function(x, *values)


def with_activation(node: Node, x: Expression, given: Sequence[float] | None = None) -> Expression:
    """Return `x` behind the activation that an attribute of ONNX Runtime's node names, if one does.

    Its parameters are those `given`, or else attributes of the node.
    """
    name = node.attribute("activation", "")
    if given is None:
        values = [node.attribute(f"activation_{word}") for word in ("alpha", "beta", "gamma")]
        given = [value for value in values if value is not None]
    if not name:
        return x
    if name == "Clip":
        return dml.clip(x, given[0], given[1])
    if name not in ACTIVATIONS:
        raise node.refusal("activation", f"be one of {', '.join([*ACTIVATIONS, 'Clip'])}", name)
    return function_of(name)(x, *given[: len(ACTIVATIONS[name])])


@translates("Affine")
def _affine(node: Node) -> Expression:
    return dml.activation_linear(node[0], node.attribute("alpha", 1.0), node.attribute("beta", 0.0))


@translates("ParametricSoftplus", "ScaledTanh")
def _of_two_parameters(node: Node) -> Expression:
    is_tanh = node.op_type == "ScaledTanh"
    function = dml.activation_scaled_tanh if is_tanh else dml.activation_parametric_softplus
    alpha, beta = (node.attribute(name) for name in ("alpha", "beta"))
    if alpha is None or beta is None:
        raise node.refusal("alpha and beta", "be given", Unquoted("nothing"))
    return function(node[0], alpha, beta)


@translates(*_ROWS, misread_before=13)
@translates(*_ROWS, padding=padding_rules.softmax_rule(counts.least, flattened_before=13))
def _rows(node: Node) -> Expression:
    axis = node.axis()  # before version 13, all dimensions from it on are one row
    end = axis + 1 if node.version >= 13 else max(node.rank(), 1)
    return node.function(node[0], [*range(axis, end)])


@translates("HardSwish", padding=padding_rules.by_element)
def _hard_swish(node: Node) -> Expression:
    return dml.activation_hard_swish(node[0], _SIXTH, 0.5)


@translates("Gelu", padding=padding_rules.by_element)
def _gelu(node: Node) -> Expression:
    if node.choice("approximate", ("none", "tanh")) == "tanh":
        return gelu_by_tanh(node[0])
    return dml.activation_gelu(node[0])


@translates("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT, padding=padding_rules.by_element)
def _biased_gelu(node: Node) -> Expression:
    x = node[0] + node[1] if node.has(1) else node[0]
    return gelu_by_tanh(x) if node.op_type == "FastGelu" else dml.activation_gelu(x)


@translates("BiasSplitGelu", domain=MICROSOFT)
def _split_gelu(node: Node) -> Expression:
    x = node[0] + node[1]
    half = x.sizes[-1] // 2
    value, gate = dml.split(x, len(x.sizes) - 1, (half, half))
    return value * dml.activation_gelu(gate)


@translates("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: Node) -> Expression:
    return dml.activation_swish(node[0], node.attribute("alpha", 1.702))


def gelu_by_tanh(x: Expression) -> Expression:
    """Return the form of GELU that a hyperbolic tangent approximates."""
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    # 0.5 * (1 + tanh(u)) is sigmoid(2 * u): one operator in place of three.
    return x * dml.activation_sigmoid(inner * 2.0)


@translates("PRelu", misread_before=7)
def _prelu(node: Node) -> Expression:
    x, slope, rank, dtype = node[0], node[1], node.rank(), node.type().dtype
    slope = on_axis(slope, 1, rank) if node.version < 7 and rank > 1 else slope
    if dtype.kind == "u" or dtype.itemsize == 8:  # types that the activation lacks
        return dml.if_(dml.less_than(x, 0), x * slope, x)
    return dml.activation_parameterized_relu(x, slope)
