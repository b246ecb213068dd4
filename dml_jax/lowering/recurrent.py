"""Recurrent networks: one `lax.scan` over time, of all directions together.

Letters name sizes: S steps, N sequences, I inputs, K hidden units, D directions, G gates. All
arrays of floats are FLOAT32.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.scale_bias import precision

Function = Callable[[jax.Array], jax.Array]
States = tuple[jax.Array, ...]


def product(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return `x @ weight^T` of `x` [D, N, K] and `weight` [D, M, K], direction by direction."""
    return lax.dot_general(x, weight, (((2,), (2,)), ((0,), (0,))), precision=precision())


def by_direction(functions: Sequence[Function]) -> Function:
    """Return the function of [D, ...] that applies to each direction its own of `functions`."""
    if all(function == functions[0] for function in functions):
        return functions[0]
    return lambda x: jnp.stack([function(x[d]) for d, function in enumerate(functions)])


def passes(
    step: Callable[..., States],
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None,
    states: States,
    lengths: jax.Array | None,
    is_backward: Sequence[bool],
) -> tuple[jax.Array, States]:
    """Run a cell over time, and return its output at each time [S, D, N, K] and the last states.

    Args:
        step: makes the states of the parts of the gates that follow from the input, [D, N, G * K],
            and of the states before; the first state is the output.
        x: the input, [S, N, I].
        weight: of the input, [D, G * K, I].
        bias: is added to the products, [D, G * K].
        states: the states before the first step, [D, N, K] each.
        lengths: the number of steps of each sequence, [N]; None: all. Later steps leave the states,
            so that a backward pass begins at the last step of a sequence; there the output is 0.
        is_backward: whether a direction runs from the last time to the first.
    """
    times = jnp.arange(x.shape[0], dtype=jnp.uint32)
    is_step = None if lengths is None else times[:, None] < lengths[None]
    if is_step is not None:  # what lies beyond the end, NaN too, has no part in any derivative
        x = jnp.where(is_step[:, :, None], x, x.dtype.type(0))
    parts = lax.dot_general(weight, x, (((2,), (2,)), ((), ())), precision=precision())
    parts = parts.transpose(2, 0, 3, 1)
    if bias is not None:
        parts = parts + bias[None, :, None]

    def in_order(array: jax.Array) -> jax.Array:
        """Return [S, D, ...] with the times of backward passes reversed."""
        flipped = [array[::-1, d] if back else array[:, d] for d, back in enumerate(is_backward)]
        return jnp.stack(flipped, 1)

    def body(old: States, now: tuple[jax.Array, Any]) -> tuple[States, jax.Array]:
        part, runs = now
        new = step(part, *old)
        if runs is None:
            return new, new[0]
        kept = tuple(jnp.where(runs, a, b) for a, b in zip(new, old, strict=True))
        return kept, jnp.where(runs, new[0], new[0].dtype.type(0))

    runs = None
    if is_step is not None:
        runs = in_order(jnp.stack([is_step] * len(is_backward), 1))[..., None]
    last, outputs = lax.scan(body, states, (in_order(parts), runs))
    return in_order(outputs), last


def rnn(recurrence: jax.Array, f: Function) -> Callable[..., States]:
    """Return the step `f(part + h @ recurrence^T)`; `recurrence` is [D, K, K]."""
    return lambda part, h: (f(part + product(h, recurrence)),)


def lstm(
    recurrence: jax.Array,
    peephole: jax.Array | None,
    functions: Sequence[Function],
    clip: Function,
    is_coupled: bool,
) -> Callable[..., States]:
    """Return the step of an LSTM, of the states h and c.

    Args:
        recurrence: [D, 4 * K], of the gates i, o, f and c.
        peephole: [D, 3 * K], of the gates i, o and f.
        functions: f of the gates, g of the candidate, h of the cell.
        clip: limits what f and g take.
        is_coupled: whether the forget gate is `1 - i`.
    """
    f, g, h_of = functions
    peeps = None if peephole is None else jnp.split(peephole[:, None], 3, -1)

    def step(part: jax.Array, h: jax.Array, c: jax.Array) -> States:
        i, o, forget, new = jnp.split(part + product(h, recurrence), 4, -1)
        if peeps is not None:
            i, forget = i + peeps[0] * c, forget + peeps[2] * c
        i = f(clip(i))
        forget = i.dtype.type(1) - i if is_coupled else f(clip(forget))
        c = forget * c + i * g(clip(new))
        if peeps is not None:
            o = o + peeps[1] * c
        return f(clip(o)) * h_of(c), c

    return step


def gru(
    recurrence: jax.Array, hidden_bias: jax.Array | None, functions: Sequence[Function]
) -> Callable[..., States]:
    """Return the step of a GRU.

    Args:
        recurrence: [D, 3 * K, K], of the gates z, r and h.
        hidden_bias: [D, K], is added to the product of the gate h and the state before r
            multiplies both; None: r multiplies the state before the product.
        functions: f of the gates z and r, g of the gate h.
    """
    f, g = functions
    k = recurrence.shape[-1]
    of_gates, of_new = jnp.split(recurrence, [2 * k], 1)  # once, not at each step

    def step(part: jax.Array, h: jax.Array) -> States:
        if hidden_bias is None:
            gates = part[..., : 2 * k] + product(h, of_gates)
            z, r = jnp.split(f(gates), 2, -1)
            new = g(part[..., 2 * k :] + product(r * h, of_new))
        else:
            whole = product(h, recurrence)
            z, r = jnp.split(f(part[..., : 2 * k] + whole[..., : 2 * k]), 2, -1)
            new = g(part[..., 2 * k :] + r * (whole[..., 2 * k :] + hidden_bias[:, None]))
        return ((z.dtype.type(1) - z) * new + z * h,)

    return step
