"""Recurrent networks: one `lax.scan` over time, of all directions together.

Letters name sizes: S steps, N sequences, I inputs, K hidden units, D directions, G gates. Arrays of
floats are FLOAT32. Weights and recurrences of FLOAT16 multiply inputs and states that are rounded
to FLOAT16. Recurrences are [D, G * K, K], or [D, K, G * K], as a product reads
them, where `is_turned`.

Steps store their gates on a CPU: a kernel of XLA that computes several gates from the product, and
the new states, has no vector instructions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.dtypes import wide_type
from dml_jax.lowering.platform_forms import stored
from dml_jax.lowering.precision import operands, precision

Function = Callable[[jax.Array], jax.Array]
States = tuple[jax.Array, ...]


# So many hidden units at most, of which two steps are one pass of the loop.
FEW_UNITS = 256
# So many steps are one pass of the loop on a GPU, where a kernel is shorter than its launch.
UNROLLED = 8


def product(x: jax.Array, weight: jax.Array | Function, is_turned: bool = False) -> jax.Array:
    """Return `x @ weight^T` of `x` [D, N, K] and `weight` [D, M, K], direction by direction.

    `weight` is [D, K, M] where it `is_turned`. A function in its place computes the product.
    """
    if callable(weight):
        return weight(x)
    dimensions = (((2,), (1,) if is_turned else (2,)), ((0,), (0,)))
    return _multiply(lax.convert_element_type(x, weight.dtype), weight, dimensions)


def _multiply(a: jax.Array, b: jax.Array, dimensions: Any) -> jax.Array:
    """Return a product, of FLOAT16 with FLOAT32 sums."""
    return lax.dot_general(*operands(a, b), dimensions, precision(), wide_type(a.dtype))


def parts_of_input(
    x: jax.Array, weight: jax.Array | Function, is_turned: bool = False
) -> jax.Array:
    """Return the products of the input [S, N, I] and its weights, [S, D, N, G * K].

    `weight` is [D, G * K, I], or [I, D, G * K] where it `is_turned`, or a function of the input.
    """
    if callable(weight):
        return weight(x)
    x = lax.convert_element_type(x, weight.dtype)
    if not is_turned:
        dimensions = (((2,), (2,)), ((), ()))
        return _multiply(weight, x, dimensions).transpose(2, 0, 3, 1)
    flat = x.reshape(-1, x.shape[2]), weight.reshape(x.shape[2], -1)
    rows = _multiply(*flat, (((1,), (0,)), ((), ())))
    return rows.reshape(*x.shape[:2], *weight.shape[1:]).swapaxes(1, 2)


def by_direction(functions: Sequence[Function]) -> Function:
    """Return the function of [D, ...] that applies to each direction its own of `functions`."""
    if all(function == functions[0] for function in functions):
        return functions[0]
    return lambda x: jnp.stack([function(x[d]) for d, function in enumerate(functions)])


def passes(
    step: Callable[..., States],
    x: jax.Array,
    weight: jax.Array | Function,
    bias: jax.Array | None,
    states: States,
    lengths: jax.Array | None,
    is_backward: Sequence[bool],
    is_turned: bool = False,
    unroll: int | None = None,
) -> tuple[jax.Array, States]:
    """Run a cell over time, and return its output at each time [S, D, N, K] and the last states.

    Args:
        step: makes the states of the parts of the gates that follow from the input, [D, N, G * K],
            and of the states before; the first state is the output.
        x: the input, [S, N, I].
        weight: of the input, [D, G * K, I], [I, D, G * K] where it `is_turned`, or a function of
            the input: [S, D, N, G * K].
        bias: is added to the products, [D, G * K].
        states: the states before the first step, [D, N, K] each.
        lengths: the number of steps of each sequence, [N]; None: all. Later steps leave the states,
            so that a backward pass begins at the last step of a sequence; there the output is 0.
        is_backward: whether a direction runs from the last time to the first.
        is_turned: whether the weight lies as a product reads it.
        unroll: the steps of one pass of the loop; None is what a CPU gains by.
    """
    times = jnp.arange(x.shape[0], dtype=jnp.uint32)
    is_step = None if lengths is None else times[:, None] < lengths[None]
    if is_step is not None:  # what lies beyond the end, NaN too, has no part in any derivative
        x = jnp.where(is_step[:, :, None], x, x.dtype.type(0))
    parts = parts_of_input(x, weight, is_turned)
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
    if unroll is None:
        unroll = 2 if is_turned and states[0].shape[-1] <= FEW_UNITS else 1
    last, outputs = lax.scan(body, states, (in_order(parts), runs), unroll=unroll)
    return in_order(outputs), last


def rnn(recurrence: jax.Array, f: Function, is_turned: bool = False) -> Callable[..., States]:
    """Return the step `f(part + h @ recurrence^T)`; `recurrence` is [D, K, K]."""
    return lambda part, h: (f(part + product(h, recurrence, is_turned)),)


def lstm(
    recurrence: jax.Array | Function,
    peephole: jax.Array | None,
    functions: Sequence[Function],
    clip: Function,
    is_coupled: bool,
    is_turned: bool = False,
) -> Callable[..., States]:
    """Return the step of an LSTM, of the states h and c.

    The recurrence is [D, 4 * K, K], of the gates i, o, f and c, or a function as `product` takes;
    the peephole [D, 3 * K], of i, o and f. Of the functions, f is of the gates, g of the candidate,
    h of the cell; `clip` limits what f and g take. The forget gate is `1 - i` where it
    `is_coupled`.
    """
    f, g, h_of = functions
    peeps = None if peephole is None else jnp.split(peephole[:, None], 3, -1)

    def step(part: jax.Array, h: jax.Array, c: jax.Array) -> States:
        gates = stored(part + product(h, recurrence, is_turned))
        i, o, forget, new = jnp.split(gates, 4, -1)
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
    recurrence: jax.Array,
    hidden_bias: jax.Array | None,
    functions: Sequence[Function],
    is_turned: bool = False,
) -> Callable[..., States]:
    """Return the step of a GRU.

    The recurrence is [D, 3 * K, K], of the gates z, r and h. Of the functions, f is of z and r, g
    of h. `hidden_bias` [D, K] is added to the product of the gate h and the state before r
    multiplies both; where it is None, r multiplies the state before the product.
    """
    f, g = functions
    k = recurrence.shape[1 if is_turned else 2]
    of_gates, of_new = jnp.split(recurrence, [2 * k], 2 if is_turned else 1)  # once, not each step

    def step(part: jax.Array, h: jax.Array) -> States:
        if hidden_bias is None:
            gates = part[..., : 2 * k] + product(h, of_gates, is_turned)
            z, r = jnp.split(f(gates), 2, -1)
            new = g(part[..., 2 * k :] + product(r * h, of_new, is_turned))
        else:
            whole = product(h, recurrence, is_turned)
            z, r = jnp.split(stored(f(part[..., : 2 * k] + whole[..., : 2 * k])), 2, -1)
            new = g(part[..., 2 * k :] + r * (whole[..., 2 * k :] + hidden_bias[:, None]))
        return ((z.dtype.type(1) - z) * new + z * h,)

    return step
