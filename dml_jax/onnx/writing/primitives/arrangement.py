"""Primitives that move elements."""

import itertools
import math

import numpy as np

from dml_jax.lowering.strided_memory import packed_strides
from dml_jax.onnx.writing.jaxpr_nodes import Equation, writes
from dml_jax.onnx.writing.writer import Value, Writer, places_of

BEFORE_FIRST = -(2**62)  # where a slice that goes backwards ends


@writes("reshape", "squeeze", "expand_dims")
def reshape(eqn: Equation) -> Value:
    return eqn.writer.reshape(eqn[0], eqn.shape)


@writes("broadcast_in_dim")
def broadcast(eqn: Equation) -> Value:
    x, places = eqn[0], eqn.params["broadcast_dimensions"]
    sizes = [1] * len(eqn.shape)
    for n, place in zip(x.shape, places, strict=True):
        sizes[place] = n
    return eqn.writer.expand(eqn.writer.reshape(x, sizes), eqn.shape)


@writes("tile")
def tile(eqn: Equation) -> Value:
    w = eqn.writer
    return w("Tile", eqn[0], w.indices(eqn.params["reps"]), shape=eqn.shape)


@writes("transpose")
def transpose(eqn: Equation) -> Value:
    return eqn.writer.transpose(eqn[0], eqn.params["permutation"])


@writes("slice")
def slice_(eqn: Equation) -> Value:
    steps = eqn.params["strides"] or ()
    return eqn.writer.slice(eqn[0], eqn.params["start_indices"], eqn.params["limit_indices"], steps)


@writes("rev")
def reversed_along(eqn: Equation) -> Value:
    return reverse(eqn.writer, eqn[0], eqn.params["dimensions"])


def reverse(w: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    """Return `x` with the elements along some dimensions from the last to the first."""
    axes = tuple(a for a in axes if x.shape[a] > 1)
    if not axes:
        return x
    ends = ([-1] * len(axes), [BEFORE_FIRST] * len(axes), axes, [-1] * len(axes))
    return w("Slice", x, *map(w.indices, ends), shape=x.shape)


@writes("pad")
def pad(eqn: Equation) -> Value:
    w, (x, value) = eqn.writer, eqn.inputs
    low, high, inside = zip(*eqn.params["padding_config"], strict=True) if x.rank else ((), (), ())
    return w.pad(with_zeros_between(w, x, inside, value), low, high, value)


def with_zeros_between(w: Writer, x: Value, inside: tuple[int, ...], value: Value) -> Value:
    """Return `x` with `inside` times a value between its elements, by dimension."""
    for axis, count in enumerate(inside):
        n, outer, inner = x.shape[axis], x.shape[:axis], x.shape[axis + 1 :]
        if count and n > 1:
            column = w.reshape(x, [*outer, n, 1, *inner])
            after = [count if k == axis + 1 else 0 for k in range(column.rank)]
            wide = w.pad(column, [0] * column.rank, after, value)
            row = w.reshape(wide, [*outer, n * (1 + count), *inner])
            x = w.part(row, axis, 0, n * (1 + count) - count)
    return x


@writes("concatenate")
def concatenate(eqn: Equation) -> Value:
    return eqn.writer.concatenate(eqn.inputs, eqn.params["dimension"])


@writes("split")
def parts(eqn: Equation) -> list[Value]:
    ends = [0, *itertools.accumulate(eqn.params["sizes"])]
    axis, part = eqn.params["axis"], eqn.writer.part
    return [part(eqn[0], axis, start, stop) for start, stop in itertools.pairwise(ends)]


@writes("stack")
def stack(eqn: Equation) -> Value:
    w, axis = eqn.writer, eqn.params["axis"]
    shape = list(eqn.shape)
    shape[axis] = 1
    return w.concatenate([w.reshape(x, shape) for x in eqn.inputs], axis)


@writes("unstack")
def unstack(eqn: Equation) -> list[Value]:
    w, x, axis = eqn.writer, eqn[0], eqn.params["axis"]
    return [w.reshape(w.part(x, axis, k, k + 1), eqn.shape) for k in range(x.shape[axis])]


@writes("iota")
def iota(eqn: Equation) -> Value:
    w, axis = eqn.writer, eqn.params["dimension"]
    shape = [1] * len(eqn.shape)
    shape[axis] = eqn.shape[axis]
    return w.expand(w.constant(np.arange(shape[axis]).astype(eqn.dtype).reshape(shape)), eqn.shape)


@writes("empty2", "empty")
def zeros(eqn: Equation) -> Value:
    zero = eqn.writer.constant(np.zeros([1] * len(eqn.shape), eqn.dtype))
    return eqn.writer.expand(zero, eqn.shape)


@writes("dynamic_slice")
def window(eqn: Equation) -> Value:
    w, (x, *places) = eqn.writer, eqn.inputs
    sizes = eqn.params["slice_sizes"]
    if not x.rank:
        return x
    starts = _starts(w, x, sizes, places)
    stops = w("Add", starts, w.indices(sizes))
    return w("Slice", x, starts, stops, w.indices(range(x.rank)), shape=sizes)


def _starts(w: Writer, x: Value, sizes: tuple[int, ...], places: list[Value]) -> Value:
    """Return where a window begins, inside of `x`."""
    ends = w.indices([n - size for n, size in zip(x.shape, sizes, strict=True)])
    given = w.concatenate([w.reshape(w.cast(p, np.int64), (1,)) for p in places], 0)
    return w("Min", w("Max", given, w.indices(0)), ends)


@writes("dynamic_update_slice")
def dynamic_update_slice(eqn: Equation) -> Value:
    w, (x, update, *places) = eqn.writer, eqn.inputs
    if not x.rank:
        return update
    starts = _starts(w, x, update.shape, places)
    steps = packed_strides(x.shape)
    origin = w.reduce("ReduceSum", w("Mul", starts, w.indices(steps)), [0])
    flat = w("Add", w.indices(places_of(update.shape, steps).reshape(-1)), origin)
    count = math.prod(x.shape)
    values = w.reshape(update, (flat.shape[0],))
    made = w("ScatterElements", w.reshape(x, (count,)), flat, values, shape=(count,), axis=0)
    return w.reshape(made, x.shape)
