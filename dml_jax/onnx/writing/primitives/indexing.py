"""Gathers and scatters: by the places of elements in the array as one row."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.strided_memory import packed_strides
from dml_jax.onnx.writing.jaxpr_nodes import Equation, writes
from dml_jax.onnx.writing.primitives.element_wise import chosen
from dml_jax.onnx.writing.writer import Value, Writer, places_of

_REDUCTIONS = {f"scatter-{name}": name for name in ("add", "mul", "max", "min")}


def _starts(
    w: Writer, indices: Value, named: Sequence[int], own: Sequence[int], of_batch: Sequence[int]
) -> dict[int, Value]:
    """Return where each window begins by dimension of the operand, in the shape of the batch.

    The indices are of the dimensions `named`; dimensions `own` are those `of_batch`.
    """
    shape = indices.shape[:-1]
    indices = w.cast(indices, np.int64)
    found = {}
    for k, axis in enumerate(named):
        found[axis] = w.reshape(w.part(indices, indices.rank - 1, k, k + 1), shape)
    for axis, place in zip(own, of_batch, strict=True):
        sizes = [n if k == place else 1 for k, n in enumerate(shape)]
        found[axis] = w.indices(np.arange(shape[place]).reshape(sizes))
    return found


def _inside(w: Writer, starts: dict[int, Value], most: dict[int, int]) -> Value | None:
    """Return where windows lie inside of the operand."""
    result: Value | None = None
    for axis, start in starts.items():
        is_low = w.compare("GreaterOrEqual", start, w.indices(0))
        both = w("And", is_low, w.compare("LessOrEqual", start, w.indices(most[axis])))
        result = both if result is None else w("And", result, both)
    return result


def _clamp(w: Writer, starts: dict[int, Value], most: dict[int, int]) -> dict[int, Value]:
    """Return the nearest places at which windows lie inside of the operand."""
    return {a: w("Min", w("Max", s, w.indices(0)), w.indices(most[a])) for a, s in starts.items()}


def _places(
    w: Writer, starts: dict[int, Value], steps: dict[int, int], batch: Sequence[int]
) -> Value:
    """Return where windows begin in the operand as one row."""
    place: Value = w.indices(np.zeros([1] * len(batch), np.int64))
    for a, start in starts.items():
        place = w("Add", place, w("Mul", start, w.indices(steps[a])))
    return w.expand(place, batch)


@writes("gather")
def gather(eqn: Equation) -> Value:
    w, (x, indices), p = eqn.writer, eqn.inputs, eqn.params
    numbers, sizes = p["dimension_numbers"], p["slice_sizes"]
    named, own = numbers.start_index_map, numbers.operand_batching_dims
    starts = _starts(w, indices, named, own, numbers.start_indices_batching_dims)
    most = {a: x.shape[a] - sizes[a] for a in range(x.rank)}
    inside = _inside(w, starts, most) if p["mode"] == lax.GatherScatterMode.FILL_OR_DROP else None
    starts, batch = _clamp(w, starts, most), indices.shape[:-1]
    kept = [a for a in range(x.rank) if a not in {*numbers.collapsed_slice_dims, *own}]
    is_by_rows = all(sizes[a] == (1 if a in starts else x.shape[a]) for a in range(x.rank))
    first = [a for a in range(x.rank) if a in starts] if is_by_rows else [*range(x.rank)]
    rest = [a for a in kept if a not in first]
    moved = w.transpose(x, [*first, *rest])
    steps = dict(zip(first, packed_strides([x.shape[a] for a in first]), strict=True))
    place = _places(w, starts, steps, batch)
    if not is_by_rows:
        grid = w.indices(places_of([sizes[a] for a in kept], [steps[a] for a in kept]))
        place = w("Add", w.reshape(place, [*batch, *[1] * len(kept)]), grid)
    rows = [x.shape[a] for a in rest]
    table = w.reshape(moved, [math.prod(x.shape[a] for a in first), *rows])
    made = w("Gather", table, place, shape=[*place.shape, *rows], axis=0)
    made = w.reshape(made, [*batch, *(sizes[a] for a in kept)])
    if inside is not None:
        fill = p["fill_value"]
        if fill is None:
            is_float = x.dtype.kind == "f" or x.dtype == jnp.bfloat16
            limits = np.iinfo(x.dtype if x.dtype.kind in "iu" else np.int8)
            fill = limits.max if x.dtype.kind == "u" else limits.min
            fill = np.nan if is_float else False if x.dtype == bool else fill
        inside = w.reshape(w.expand(inside, batch), [*batch, *[1] * len(kept)])
        made = chosen(w, inside, made, w.like(fill, x))
    of_batch, of_window = iter(range(len(batch))), iter(range(len(batch), made.rank))
    is_window = [k in numbers.offset_dims for k in range(made.rank)]
    return w.transpose(made, [next(of_window if own else of_batch) for own in is_window])


@writes("scatter", *_REDUCTIONS)
def scatter(eqn: Equation) -> Value:
    """Write each element of the updates to its place in a row; those outside go to its end."""
    w, (x, indices, updates), p = eqn.writer, eqn.inputs, eqn.params
    numbers = p["dimension_numbers"]
    named, own = numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims
    starts = _starts(w, indices, named, own, numbers.scatter_indices_batching_dims)
    kept = [a for a in range(x.rank) if a not in {*numbers.inserted_window_dims, *own}]
    window = [updates.shape[k] for k in numbers.update_window_dims]
    sizes = {**dict.fromkeys(range(x.rank), 1), **dict(zip(kept, window, strict=True))}
    most = {a: x.shape[a] - sizes[a] for a in range(x.rank)}
    inside = _inside(w, starts, most)
    batch, count, steps = indices.shape[:-1], math.prod(x.shape), packed_strides(x.shape)
    if p["mode"] == lax.GatherScatterMode.CLIP:
        inside, starts = None, _clamp(w, starts, most)
    place = _places(w, starts, dict(enumerate(steps)), batch)
    place = w.reshape(place, [*batch, *[1] * len(kept)])
    place = w("Add", place, w.indices(places_of(window, [steps[a] for a in kept])))
    if inside is not None:
        inside = w.reshape(w.expand(inside, batch), [*batch, *[1] * len(kept)])
        place = w.where(inside, place, w.indices(count))
    of_batch = [k for k in range(updates.rank) if k not in numbers.update_window_dims]
    moved = w.transpose(updates, [*of_batch, *numbers.update_window_dims])
    total = [math.prod(updates.shape)]
    row = w.concatenate([w.reshape(x, [count]), w.constant(np.zeros(1, x.dtype))], 0)
    inputs = row, w.reshape(place, total), w.reshape(moved, total)
    named = {"axis": 0, "reduction": _REDUCTIONS.get(eqn.name)}
    made = w("ScatterElements", *inputs, shape=[count + 1], **named)
    return w.reshape(w.slice(made, [0], [count]), x.shape)
