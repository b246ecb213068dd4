"""Records of the operators that read or write where index tensors say."""

from typing import Any

import numpy as np

from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, sizes, tensors


def place(index: Any, size: int, clamp: bool = True) -> Any:
    """Return where an index is: from the start, clamped, or else None where it is out of range."""
    index = int(index)
    index += size if index < 0 else 0
    if clamp:
        return min(max(index, 0), size - 1)
    return index if 0 <= index < size else None


def gather(op: Any, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    kept = indices.reshape(indices.shape[indices.ndim - op.index_dimensions :])
    places = [place(i, x.shape[op.axis]) for i in kept.ravel()]
    return np.take(x, np.reshape(places, kept.shape), op.axis).reshape(op.output_tensor.sizes)


def gather_elements(op: Any, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    out = np.zeros(indices.shape, x.dtype)
    for at in np.ndindex(*indices.shape):
        source = place(indices[at], x.shape[op.axis])
        out[at] = x[(*at[: op.axis], source, *at[op.axis + 1 :])]
    return out


def last(x: np.ndarray, count: int) -> np.ndarray:
    return x.reshape(x.shape[x.ndim - count :])


def gather_nd(op: Any, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    x, indices = last(x, op.input_dimension_count), last(indices, op.indices_dimension_count)
    batch, count = op.batch_dimension_count, indices.shape[-1]
    sizes_ = x.shape[batch : batch + count]
    out = np.zeros((*indices.shape[:-1], *x.shape[batch + count :]), x.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        source = [place(i, n) for i, n in zip(indices[at], sizes_, strict=True)]
        out[at] = x[(*at[:batch], *source)]
    return out.reshape(op.output_tensor.sizes)


def scatter(op: Any, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    out = x.copy()
    for at in np.ndindex(*indices.shape):
        target = place(indices[at], x.shape[op.axis], clamp=False)
        if target is not None:
            out[(*at[: op.axis], target, *at[op.axis + 1 :])] = updates[at]
    return out


def scatter_nd(op: Any, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    out, indices = last(x, op.input_dimension_count), last(indices, op.indices_dimension_count)
    out, count = out.copy(), indices.shape[-1]
    updates = updates.reshape((*indices.shape[:-1], *out.shape[count:]))
    for at in np.ndindex(*indices.shape[:-1]):
        target = [place(i, n, False) for i, n in zip(indices[at], out.shape, strict=False)]
        if None not in target:
            out[tuple(target)] = updates[at]
    return out.reshape(x.shape)


def one_hot(op: Any, indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    off, on = values.ravel()[:2]
    out = np.full(op.output_tensor.sizes, off)
    for at in np.ndindex(*indices.shape):
        target = place(indices[at], out.shape[op.axis], clamp=False)
        if target is not None:
            out[(*at[: op.axis], target, *at[op.axis + 1 :])] = on
    return out


def nonzero(op: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sizes_ = op.output_coordinates_tensor.sizes
    found = np.argwhere(x)[:, x.ndim - sizes_[-1] :]
    rows = np.zeros(sizes_[-2:], np.uint32)
    rows[: len(found)] = found
    count = np.full(op.output_count_tensor.sizes, len(found), np.uint32)
    return count, rows.reshape(sizes_)


def draw_gather(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw an input with so many ones in front that the output has its rank."""
    rank = int(rng.integers(1, 5))
    kept = int(rng.integers(0, rank + 1))
    own = int(rng.integers(1, rank - max(kept - 1, 0) + 1))
    shape = [1] * (rank - own) + [int(n) for n in rng.integers(2, 5, own)]
    indices = [1] * (rank - kept) + [int(n) for n in rng.integers(1, 5, kept)]
    drawn = tensors(types, input_tensor=shape, indices_tensor=indices)
    axis = rank - own + int(rng.integers(own))
    return {**drawn, "axis": axis, "index_dimensions": kept}


def draw_elements(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng)
    axis = int(rng.integers(len(shape)))
    part = [*shape[:axis], int(rng.integers(1, 8)), *shape[axis + 1 :]]
    drawn = tensors(types, input_tensor=shape, indices_tensor=part, updates_tensor=part)
    return {**drawn, "axis": axis}


def draw_nd(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw the numbers of dimensions until the result has room."""
    has_batch = any(f.name == "batch_dimension_count" for f in op_class.fields)
    while True:
        rank, first, second, count, batch = (int(n) for n in rng.integers(1, 5, 5))
        batch = batch - 1 if has_batch else 0
        of_slice = first - batch - count
        has_room = max(first, second, second - 1 + of_slice) <= rank
        if has_room and batch < second and of_slice >= 0:
            break
    own = [int(n) for n in rng.integers(1, 5, first)]
    indices = [*own[:batch], *map(int, rng.integers(1, 4, second - 1 - batch)), count]
    result = [*indices[:-1], *own[batch + count :]]
    shapes = {"input_tensor": own, "indices_tensor": indices, "updates_tensor": result}
    whole = {name: [1] * (rank - len(shape)) + shape for name, shape in shapes.items()}
    drawn = {"input_dimension_count": first, "indices_dimension_count": second}
    return {**tensors(types, **whole), **drawn, "batch_dimension_count": batch}


def draw_one_hot(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape = sizes(rng, elements=40)
    axis = int(rng.integers(len(shape)))
    indices = [1 if d == axis else n for d, n in enumerate(shape)]
    values = [1] * (len(shape) - 1) + [int(rng.integers(2, 4))]
    named = {"indices_tensor": indices, "values_tensor": values, "output_tensor": shape}
    return {**tensors(types, **named), "axis": axis}


def draw_nonzero(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw coordinates with and without those of leading dimensions of the size 1."""
    shape = [1] * int(rng.integers(0, 3)) + sizes(rng, most=3)
    own = next((d for d, n in enumerate(shape) if n != 1), len(shape) - 1)
    count = int(rng.integers(max(len(shape) - own, 1), len(shape) + 1))
    rows = [1] * int(rng.integers(0, 2)) + [int(np.prod(shape)), count]
    named = {"output_count_tensor": [1] * int(rng.integers(1, 4))}
    return tensors(types, input_tensor=shape, output_coordinates_tensor=rows, **named)


INDICES = {"": (-4, 4), "indices_tensor": (-1.2, 1.2)}
COUNTS = {"input_dimension_count": 1, "indices_dimension_count": 1}
BATCH = {**COUNTS, "batch_dimension_count": 0}
AXIS = {"axis": 0}

OF_INPUT = {"input_tensor": 0, "output_tensor": 0}
OF_INDICES = {"indices_tensor": 0, "output_tensor": 0}

RECORDS = {
    "GATHER": Record(
        gather,
        draw_gather,
        values=INDICES,
        attributes={**AXIS, "index_dimensions": 1},
        batch=(OF_INPUT, OF_INDICES),
    ),
    "GATHER_ELEMENTS": Record(gather_elements, draw_elements, values=INDICES, attributes=AXIS),
    "GATHER_ND": Record(gather_nd, draw_nd, values=INDICES, attributes=COUNTS, batch=(OF_INDICES,)),
    "GATHER_ND1": Record(gather_nd, draw_nd, values=INDICES, attributes=BATCH),
    "SCATTER": Record(scatter, draw_elements, values=INDICES, attributes=AXIS),
    "SCATTER_ND": Record(
        scatter_nd,
        draw_nd,
        values=INDICES,
        attributes=COUNTS,
        batch="an index names any row of the result",
    ),
    "ONE_HOT": Record(
        one_hot,
        draw_one_hot,
        smallest={"values_tensor": lambda rank, types: [1] * (rank - 1) + [2], "axis": 0},
        values=INDICES,
        batch=(OF_INDICES,),
    ),
    "NONZERO_COORDINATES": Record(
        nonzero,
        draw_nonzero,
        values={"": (-0.6, 0.6)},
        batch="elements are numbered across the whole tensor",
    ),
}
