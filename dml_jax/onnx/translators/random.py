"""Random numbers, of RANDOM_GENERATOR.

A node's numbers follow from its attribute `seed`, or else from its name: each call of a network
gives the same ones, and two nodes give different ones.
"""

import math
import zlib
from collections.abc import Sequence

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import as_type, reshape
from dml_jax.onnx.sizes import padding_rules

# Bits of a number in [0, 1): with them, 1 minus the step is a FLOAT, so that 1 never comes out.
_BITS = 23


def _uniform(node: Node, sizes: Sequence[int], stream: int = 0) -> Expression:
    """Return numbers in [0, 1), in FLOAT32; the numbers of two streams differ."""
    seed = node.attribute("seed")
    key = zlib.crc32(node.label.encode()) if seed is None else np.float32(seed).view(np.uint32)
    state = np.array([0, 0, stream, 0, key, seed is not None], np.uint32)
    given = node.builder.constant(state.reshape(1, 1, 1, 6))
    words = dml.random_generator(given, tuple(sizes) or (1,)).values
    return dml.cast(words >> (32 - _BITS), "FLOAT32") * 2.0**-_BITS


@translates("RandomUniform", "RandomUniformLike", is_random=True, padding=padding_rules.like_rule)
def _random_uniform(node: Node) -> Expression:
    low, high = node.attribute("low"), node.attribute("high")
    return as_type(_uniform(node, node.output_shape()) * (high - low) + low, node.output_type())


@translates("RandomNormal", "RandomNormalLike", is_random=True, padding=padding_rules.like_rule)
def _random_normal(node: Node) -> Expression:
    radius, turn = (_uniform(node, node.output_shape(), stream) for stream in (0, 1))
    # Two uniform numbers make a normal one (Box and Muller). 1 minus the first is never 0.
    radius = dml.sqrt(dml.log(1.0 - radius) * -2.0)
    made = radius * dml.cos(turn * (2 * math.pi))
    return as_type(made * node.attribute("scale") + node.attribute("mean"), node.output_type())


@translates("Bernoulli", is_random=True)
def _bernoulli(node: Node) -> Expression:
    chance = dml.cast(node[0], "FLOAT32")
    return as_type(dml.less_than(_uniform(node, node.shape()), chance), node.output_type())


@translates("Multinomial", is_random=True)
def _multinomial(node: Node) -> Expression:
    batch, classes = node.shape()
    count = node.attribute("sample_size")
    chances = dml.activation_softmax(dml.cast(node[0], "FLOAT32"), [1])
    sums = reshape(dml.cumulative_summation(chances, 1, "INCREASING", False), (batch, 1, classes))
    total = dml.slice(sums, (0, 0, classes - 1), (batch, 1, 1), (1, 1, 1))
    drawn = reshape(_uniform(node, (batch, count)), (batch, count, 1)) * total
    is_past = dml.cast(dml.less_than_or_equal(sums, drawn), "FLOAT32")
    return as_type(reshape(dml.reduce(is_past, "SUM", [2]), (batch, count)), node.output_type())
