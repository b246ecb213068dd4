"""Op types of ONNX Runtime's own domain, com.microsoft, which has no schemas here."""

from typing import Any

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes import Node, translates
from dml_jax.onnx.translators.activations import gelu_by_tanh
from dml_jax.onnx.translators.products import product
from dml_jax.onnx.views import packed, reshaped, transposed

DOMAIN = "com.microsoft"


@translates("Gelu", "BiasGelu", domain=DOMAIN)
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
    total = node[0] + node[1]
    bias = 4 if has_mean else 3
    if node.has(bias):
        total = total + node[bias]
    rank = len(total.sizes)
    scale, beta = (
        reshaped(x, (1,) * (rank - 1) + tuple(x.sizes)) if x is not None else None
        for x in (node[2], node.given(3) if has_mean else None)
    )
    epsilon = node.attribute("epsilon", 1e-12)
    y: Any = dml.mean_variance_normalization(
        total, scale, beta, [rank - 1], True, has_mean, epsilon
    )
    return (y, None, None, total)[: len(node.types)]
