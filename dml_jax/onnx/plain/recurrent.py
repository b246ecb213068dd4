"""Recurrent networks with clipping, which DirectML has in LSTM, and quantized ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.matrix import integer_product
from dml_jax.lowering.precision import operands, precision
from dml_jax.onnx.nodes import MICROSOFT as DOMAIN
from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain
from dml_jax.onnx.translators.recurrent import DEFAULTS, DIRECTIONS

Activation = Callable[[jax.Array], jax.Array]
Product = Callable[[jax.Array, Any], jax.Array]

_QUANTIZED = "DynamicQuantize"
_STATES = {"RNN": 1, "GRU": 1, "LSTM": 2}
_SIMPLE: dict[str, Activation] = {
    "relu": lambda x: jnp.maximum(x, 0),
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "softsign": jax.nn.soft_sign,
    "tanh": jnp.tanh,
}


def _kind(node: Node) -> str:
    return node.op_type.removeprefix(_QUANTIZED)


def _activations(node: Node, directions: int) -> list[Activation]:
    default = DEFAULTS[_kind(node)]
    names = (node.attribute("activations") or default * directions)[: len(default) * directions]
    for name in names:
        if name.lower() not in _SIMPLE:
            raise node.refusal("activations", f"be of {', '.join(_SIMPLE)}", name)
    return [_SIMPLE[name.lower()] for name in names]


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    a, b = operands(a, b)
    return jnp.matmul(a, b.T, precision=precision())


@dataclass(frozen=True)
class _Quantized:
    """Weights of 8 bits, of all directions or of one.

    Attributes:
        steps: the integers, [D, K, M] or [K, M].
        scale: of all, or of each of the M columns.
        zero: the integer that stands for 0, likewise.
    """

    steps: jax.Array
    scale: jax.Array
    zero: jax.Array

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape as ONNX has it of weights that are not quantized, [D, M, K]."""
        *directions, rows, columns = self.steps.shape
        return (*directions, columns, rows)

    def __getitem__(self, d: int) -> "_Quantized":
        parts = (part.reshape(len(self.steps), -1)[d] for part in (self.scale, self.zero))
        return _Quantized(self.steps[d], *parts)


def _quantized_product(a: jax.Array, b: _Quantized) -> jax.Array:
    """Return `_product` of `a` as DynamicQuantizeLinear rounds it, exact but for the scales."""
    flat = a.reshape(-1)
    ends = jnp.maximum(jnp.stack([-flat, flat]).max(1), 0)  # one pass for both
    least, most = -ends[0], ends[1]
    scale = jnp.where(most > least, (most - least) / 255, 1)
    zero = jnp.round(-least / scale)
    steps = jnp.clip(jnp.round(a / scale) + zero, 0, 255).astype(np.uint8)
    rows, zeros = steps.reshape(-1, a.shape[-1]), zero.astype(np.uint8).reshape(1)
    total = integer_product(rows, zeros, b.steps, b.zero, np.float32)
    return (total * (scale * b.scale)).reshape(*a.shape[:-1], -1).astype(a.dtype)


def _rnn(node: Node, functions: Sequence[Activation], clip: Activation, product: Product) -> Any:
    def turn(x: jax.Array, states: Any, r: Any, bias: Any, peephole: Any) -> Any:
        (h,) = states
        return (functions[0](clip(x + product(h, r) + bias[1])),)

    return turn


def _gru(node: Node, functions: Sequence[Activation], clip: Activation, product: Product) -> Any:
    is_before = bool(node.attribute("linear_before_reset", 0))
    f, g = functions

    def turn(x: jax.Array, states: Any, r: Any, bias: Any, peephole: Any) -> Any:
        (h,) = states
        xz, xr, xh = jnp.split(x, 3, 1)
        rz, rr, rh = jnp.split(r, 3)
        bz, br, bh = jnp.split(bias[1], 3)
        update = f(clip(xz + product(h, rz) + bz))
        reset = f(clip(xr + product(h, rr) + br))
        if is_before:
            hidden = xh + reset * (product(h, rh) + bh)
        else:
            hidden = xh + product(reset * h, rh) + bh
        return ((1 - update) * g(clip(hidden)) + update * h,)

    return turn


def _lstm(node: Node, functions: Sequence[Activation], clip: Activation, product: Product) -> Any:
    f, g, h = functions
    is_coupled = bool(node.attribute("input_forget", 0))

    def turn(x: jax.Array, states: Any, r: Any, bias: Any, peephole: Any) -> Any:
        hidden, cell = states
        gates = jnp.split(x + product(hidden, r) + bias[1], 4, 1)
        pi, po, pf = jnp.split(peephole, 3)
        add = f(clip(gates[0] + pi * cell))
        keep = 1 - add if is_coupled else f(clip(gates[2] + pf * cell))
        cell = keep * cell + add * g(clip(gates[3]))
        out = f(clip(gates[1] + po * cell))
        return out * h(cell), cell

    return turn


_TURNS = {"RNN": _rnn, "GRU": _gru, "LSTM": _lstm}


@plain("DynamicQuantizeLSTM", domain=DOMAIN)
def _quantized_lstm(node: Node, x: jax.Array, *inputs: Any) -> Any:
    w, r, b, lengths, h, c, peephole, w_scale, w_zero, r_scale, r_zero = inputs

    weights = _Quantized(w, w_scale, w_zero), _Quantized(r, r_scale, r_zero)
    return _turns(node, _quantized_product, x, *weights, b, lengths, h, c, peephole)


@plain("RNN", "GRU")
def _recurrent(node: Node, *inputs: Any) -> Any:
    return _turns(node, _product, *inputs)


def _turns(
    node: Node,
    product: Product,
    x: jax.Array,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    *rest: Any,
) -> Any:
    kind = _kind(node)
    count, is_batch_first = _STATES[kind], bool(node.attribute("layout", 0))
    x = jnp.moveaxis(x, 1, 0) if is_batch_first else x
    steps, batch, _ = x.shape
    directions, hidden = r.shape[0], r.shape[2]
    way, most = DIRECTIONS[node.attribute("direction", "forward")], node.attribute("clip")
    functions = _activations(node, directions)
    states = [*rest, *[None] * 3][:count]
    peepholes = rest[2] if len(rest) > 2 and rest[2] is not None else None
    zeros = jnp.zeros((directions, batch, hidden), x.dtype)
    if is_batch_first:
        states = [None if s is None else jnp.moveaxis(s, 1, 0) for s in states]
    states = [zeros if s is None else s for s in states]
    ends = jnp.full(batch, steps, np.int32) if lengths is None else lengths.astype(np.int32)

    def clip(value: jax.Array) -> jax.Array:
        return value if most is None else jnp.clip(value, -most, most)

    outputs, finals = [], []
    for d in range(directions):
        bias = jnp.zeros(2 * w.shape[1], x.dtype) if b is None else b[d]
        halves = jnp.split(bias, 2)
        peephole = jnp.zeros(3 * hidden, x.dtype) if peepholes is None else peepholes[d]
        own = functions[d * len(DEFAULTS[kind]) :][: len(DEFAULTS[kind])]
        turn, weights = _TURNS[kind](node, own, clip, product), r[d]
        is_backward = way == "BACKWARD" or d == 1
        places = jnp.arange(steps, dtype=np.int32)[:, None]
        order = jnp.where(is_backward, jnp.maximum(ends[None] - 1 - places, 0), places)
        rows = jnp.take_along_axis(x, order[:, :, None], 0)
        rows = jnp.where(places[:, :, None] < ends.max(), rows, 0)  # `product` may look at all
        fed = product(rows, w[d]) + halves[0]

        def advance(
            state: Any,
            step: Any,
            turn: Any = turn,
            weights: Any = weights,
            halves: Any = halves,
            peephole: Any = peephole,
        ) -> Any:
            number, row = step
            made = turn(row, state, weights, halves, peephole)
            is_there = (number < ends)[:, None]
            state = tuple(jnp.where(is_there, a, s) for a, s in zip(made, state, strict=True))
            return state, jnp.where(is_there, made[0], 0)

        numbers = jnp.arange(steps, dtype=np.int32)
        final, made = lax.scan(advance, tuple(s[d] for s in states), (numbers, fed))
        if is_backward:
            is_there = (places < ends[None])[:, :, None]
            made = jnp.where(is_there, jnp.take_along_axis(made, order[:, :, None], 0), 0)
        outputs.append(made)
        finals.append(final)
    y = jnp.stack(outputs, 1)
    last = [jnp.stack(state) for state in zip(*finals, strict=True)]
    if is_batch_first:
        y, last = jnp.transpose(y, (2, 0, 1, 3)), [jnp.moveaxis(s, 0, 1) for s in last]
    return y, *last
