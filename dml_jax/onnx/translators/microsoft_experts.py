"""Mixtures of experts, as ONNX Runtime's own domain has them.

Each token goes through a few of many small networks, the experts, and their results are added up
by shares. Where tokens are few, the weights of their experts are taken out first; where they are
many, each expert computes all tokens, and a share of 0 leaves out what nobody asked for.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import cut, pack, reshape, spread, taken
from dml_jax.onnx.translators.activation import gelu_by_tanh
from dml_jax.onnx.translators.microsoft_quantized import real_of, unpacked_bits

Change = Callable[[Expression], Expression]
Weight = Callable[[Change], Expression | None]
"""Returns a weight, of a function that takes experts' parts of a tensor out of all."""

_ACTIVATIONS: dict[str, Change] = {
    "relu": dml.activation_relu,
    "gelu": gelu_by_tanh,
    "silu": lambda x: x * dml.activation_sigmoid(x),
    "identity": lambda x: x,
}


@translates("MoE", domain=MICROSOFT)
def _experts(node: Node) -> Expression:
    weights = {k: _plain(node, index) for k, index in ((1, 2), (2, 4), (3, 6))}
    return _mix(node, weights, {1: 3, 2: 5, 3: 7}, None)


@translates("QMoE", domain=MICROSOFT)
def _quantized_experts(node: Node) -> Expression:
    kind = node.attribute("quant_type", "int")
    node.expect(kind == "int", "quant_type", "be 'int'", kind)
    places = {1: (2, 3, 11), 2: (5, 6, 12), 3: (8, 9, 13)}
    weights = {k: _dequantize_layer(node, k, *indices) for k, indices in places.items()}
    return _mix(node, weights, {1: 4, 2: 7, 3: 10}, node.get(14))


def _plain(node: Node, index: int) -> Weight:
    return lambda own: own(node[index]) if node.has(index) else None


def _dequantize_layer(node: Node, k: int, index: int, at_scale: int, at_zero: int) -> Weight:
    """Return the weight of layer `k` of all experts, whose numbers have a few bits."""
    bits = node.attribute(f"fc{k}_expert_weight_bits") or node.attribute("expert_weight_bits", 4)
    node.expect(bits in (2, 4, 8), "expert_weight_bits", "be 2, 4 or 8", bits)

    def weight(own: Change) -> Expression | None:
        if not node.has(index):
            return None
        scale, whole = own(node[at_scale]), unpacked_bits(own(node[index]), bits)
        count, rows, width = whole.sizes
        blocks = scale.sizes[2] if len(scale.sizes) == 3 else 1
        sizes = (count, rows, blocks, 1)
        if node.has(at_zero):
            zero = unpacked_bits(own(node[at_zero]), bits)
            last = blocks if len(scale.sizes) == 3 else rows
            zero = reshape(cut(zero, (*zero.sizes[:-1], last)), sizes)
        else:
            zero = node.builder.constant(np.full((1, 1, 1, 1), 1 << (bits - 1), np.uint8))
        whole = reshape(whole, (count, rows, blocks, width // blocks))
        return reshape(real_of(whole, reshape(scale, sizes), zero), (count, rows, width))

    return weight


def _shares(node: Node, weights: Expression | None) -> tuple[Expression, Expression]:
    """Return the share of each expert that a token chooses, and its number, [tokens, k]."""
    router, count = node[1], node.attribute("k", 1)
    best, places = dml.top_k(router, 1, count, "DECREASING")
    is_normalized = bool(node.attribute("normalize_routing_weights", 0))
    if weights is not None:
        chosen = dml.gather_elements(weights, places, 1)
        return chosen / dml.reduce(chosen, "SUM", [1]) if is_normalized else chosen, places
    if is_normalized:
        return dml.activation_softmax(best, [1]), places
    return dml.gather_elements(dml.activation_softmax(router, [1]), places, 1), places


def _mix(
    node: Node, weights: dict[int, Weight], biases: dict[int, int], router: Expression | None
) -> Expression:
    """Return what the experts of each token give, added up by their shares.

    Layers 1, 2 and 3 of all experts have `weights`, and the inputs `biases`. Without a `router` the
    shares follow from the logits.
    """
    node.expect(not node.attribute("use_sparse_mixer", 0), "use_sparse_mixer", "be 0", 1)
    shape = node.shape()
    tokens, width = math.prod(shape[:-1]), shape[-1]
    x = reshape(node[0], (tokens, width))
    shares, places = _shares(node, router)
    experts, count = node.shape(1)[1], shares.sizes[1]
    is_few = tokens * count < experts

    def own(x: Expression) -> Expression:
        return taken(x, reshape(places, (tokens * count,)), 0) if is_few else x

    if is_few:
        rows = spread(reshape(x, (tokens, 1, width)), (tokens, count, width))
        rows = reshape(rows, (tokens * count, 1, width))
        factor, groups = reshape(shares, (tokens, count, 1)), (tokens, count)
    else:
        rows = pack(spread(reshape(x, (1, tokens, width)), (experts, tokens, width)))
        numbers = node.builder.constant(np.arange(experts, dtype=places.dtype).reshape(-1, 1, 1))
        is_own = dml.equals(numbers, reshape(places, (1, *places.sizes)))
        share = dml.if_(is_own, reshape(shares, (1, *shares.sizes)), 0.0)
        factor, groups = dml.reduce(share, "SUM", [2]), (experts, tokens)
    made = _layers(node, rows, {k: w(own) for k, w in weights.items()}, biases, own)
    made = reshape(made, (*groups, width)) * factor
    return reshape(dml.reduce(made, "SUM", [int(is_few)]), shape)


def _layers(
    node: Node, x: Expression, weights: dict[int, Any], biases: dict[int, int], own: Change
) -> Expression:
    """Return the two layers of experts, [experts, rows, width]."""

    def layer(x: Expression, k: int) -> Expression:
        made = dml.gemm(x, weights[k], None, "NONE", "TRANSPOSE")
        if not node.has(biases[k]):
            return made
        bias = own(node[biases[k]])
        return made + reshape(bias, (bias.sizes[0], 1, bias.sizes[1]))

    made = layer(x, 1)
    kind = node.choice("activation_type", (*_ACTIVATIONS, "swiglu"), "relu")
    if kind == "swiglu":
        fused = node.attribute("swiglu_fusion", 0)
        if weights[3] is not None:
            gate, up = made, layer(x, 3)
        elif fused in (1, 2):
            gate, up = _halves(made, interleaved=fused == 1)
        else:
            raise node.refusal("swiglu_fusion", "be 1 or 2 where a third layer is left out", fused)
        return layer(_swiglu(node, gate, up), 2)
    activated = _ACTIVATIONS[kind](made)
    if weights[3] is not None:
        activated = activated * layer(x, 3)
    return layer(activated, 2)


def _halves(x: Expression, interleaved: bool) -> Sequence[Expression]:
    *outer, width = x.sizes
    half = width // 2
    pair = (half, 2) if interleaved else (2, half)
    parts = dml.split(reshape(x, (*outer, *pair)), len(outer) + interleaved, (1, 1))
    return [reshape(part, (*outer, half)) for part in parts]


def _swiglu(node: Node, gate: Expression, up: Expression) -> Expression:
    alpha, beta = node.attribute("activation_alpha", 1.0), node.attribute("activation_beta", 0.0)
    limit = node.attribute("swiglu_limit")
    is_before = not node.attribute("swiglu_limit_after_activation", 0)
    node.expect(is_before, "swiglu_limit_after_activation", "be 0", 1)
    if limit is not None and math.isfinite(limit):
        gate, up = dml.clip(gate, -math.inf, limit), dml.clip(up, -limit, limit)
    return gate * dml.activation_sigmoid(gate * alpha) * (up + beta)
