"""Recurrent networks with clipping, which DirectML has in LSTM, and quantized ones."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.lowering import recurrent
from dml_jax.lowering.dtypes import EXACT_PRODUCTS, wide
from dml_jax.lowering.element_wise import identity
from dml_jax.lowering.matrix import integer_product
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.translators.recurrent import DEFAULTS, DIRECTIONS, activations, check_lengths

_BACKWARD = {"FORWARD": [False], "BACKWARD": [True], "BIDIRECTIONAL": [False, True]}


@fallback("RNN", "GRU")
def _recurrent(node: Node, x: jax.Array, w: jax.Array, r: jax.Array, *others: Any) -> Any:
    b, lengths, h = (*others, None, None, None)[:3]
    clip, functions = _clip(node), _functions(node, DEFAULTS[node.op_type], len(w))
    clipped = [lambda value, f=f: f(clip(value)) for f in functions]
    ends = jnp.zeros((len(w), 2 * w.shape[1]), x.dtype) if b is None else b
    of_inputs, of_states = jnp.split(wide(ends), 2, 1)
    if node.op_type == "RNN":
        step = recurrent.rnn(wide(r), clipped[0])
    else:
        hidden = None
        if node.attribute("linear_before_reset", 0):
            hidden = of_states[:, -r.shape[2] :]
            of_states = of_states.at[:, -r.shape[2] :].set(0)
        step = recurrent.gru(wide(r), hidden, clipped)
    return _run(node, step, x, wide(w), of_inputs + of_states, lengths, [h], r.shape[2])


@fallback("DynamicQuantizeLSTM", domain=MICROSOFT)
def _quantized_lstm(node: Node, x: jax.Array, *inputs: Any) -> Any:
    w, r, b, lengths, h, c, peephole, w_scale, w_zero, r_scale, r_zero = inputs
    of_bytes = functools.partial(integer_product, dtype=np.float32)

    def of_inputs(x: jax.Array) -> jax.Array:
        steps, scale, zero = _round_to_bytes(x.reshape(-1, x.shape[-1]), (0, 1))
        left = steps.astype(np.uint8), zero.astype(np.uint8).reshape(1)
        weights = zip(w, w_zero.reshape(len(w), -1), w_scale, strict=True)
        parts = [of_bytes(*left, *right) * (scale * own) for *right, own in weights]
        return jnp.stack([part.reshape(*x.shape[:2], -1) for part in parts], 1)

    def of_states(h: jax.Array) -> jax.Array:
        steps, scale, zero = _round_to_bytes(h, (1, 2))
        if r.shape[1] > EXACT_PRODUCTS:
            left = steps.astype(np.uint8), zero.astype(np.uint8).reshape(-1, 1)
            total = jax.vmap(of_bytes)(*left, r, r_zero.reshape(len(r), -1))
        else:  # exact too, and faster: weights are converted once, before the first step
            total = recurrent.product(steps - zero, recurrence, is_turned=True)
        return total * (scale * r_scale.reshape(len(r), 1, -1))

    functions = _functions(node, DEFAULTS["LSTM"], len(w))
    recurrence = r.astype(np.float32) - r_zero.astype(np.float32).reshape(len(r), 1, -1)
    is_coupled = bool(node.attribute("input_forget", 0))
    cell = recurrent.lstm(of_states, peephole, functions, _clip(node), is_coupled)
    bias = None if b is None else jnp.sum(b.reshape(len(b), 2, -1), 1)
    # Elements that no step reads have no part in the range of the rounding.
    if lengths is not None:
        steps = jnp.arange(len(x), dtype=lengths.dtype)
        x = jnp.where((steps < lengths.max())[:, None, None], x, 0)
    parts = of_inputs(x)  # of all sequences to the last step of the longest: these are rounded
    return _run(node, cell, x, lambda _: parts, bias, lengths, [h, c], r.shape[1])


def _round_to_bytes(x: jax.Array, axes: Sequence[int]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return `x` as DynamicQuantizeLinear rounds what lies along `axes`, all in FLOAT32.

    These are the integers from 0 to 255, then the scale and the zero point, which have one element
    along `axes`.
    """
    # The largest of -x and x are both ends of the range, which one pass finds.
    both = jnp.stack([-x, x])
    ends = jnp.maximum(both.max([axis + 1 for axis in axes], keepdims=True), 0)
    low, high = -ends[0], ends[1]
    scale = jnp.where(high > low, (high - low) / 255, 1)
    zero = jnp.round(-low / scale)
    return jnp.clip(jnp.round(x / scale) + zero, 0, 255), scale, zero


def _clip(node: Node) -> recurrent.Function:
    most = node.attribute("clip")
    return identity if most is None else lambda value: jnp.clip(value, -most, most)


def _functions(node: Node, default: list[str], directions: int) -> list[recurrent.Function]:
    """Return the activations of the gates, each as a function of all directions."""
    found = activations(node, directions, default)
    return [recurrent.by_direction(found[k :: len(default)]) for k in range(len(default))]


def _run(
    node: Node,
    step: Callable[..., recurrent.States],
    x: jax.Array,
    w: jax.Array | recurrent.Function,
    bias: jax.Array | None,
    lengths: jax.Array | None,
    states: Sequence[jax.Array | None],
    units: int,
) -> Any:
    """Return the outputs of a cell over time: of each step, then the last states."""
    is_batch_first = bool(node.attribute("layout", 0))
    check_lengths(node, 4, x.shape[is_batch_first])
    if is_batch_first:
        x, states = jnp.swapaxes(x, 0, 1), [s if s is None else s.swapaxes(0, 1) for s in states]
    backward = _BACKWARD[DIRECTIONS[node.attribute("direction", "forward")]]
    zeros = jnp.zeros((len(backward), x.shape[1], units), wide(x).dtype)
    first = tuple(zeros if s is None else wide(s) for s in states)
    ends = None if lengths is None else lengths.astype(np.uint32)
    y, last = recurrent.passes(step, wide(x), w, bias, first, ends, backward)
    if is_batch_first:
        y, last = y.transpose(2, 0, 1, 3), [s.swapaxes(0, 1) for s in last]
    return [result.astype(x.dtype) for result in (y, *last)]
