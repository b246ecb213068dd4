"""Elements that are read or written where index tensors say."""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import bits_of, is_float, unsigned_type, wide
from dml_jax.lowering.scans import cumulative_sum

UINT32 = np.dtype(np.uint32)
Dims = tuple[int, ...]


def _places(indices: jax.Array, sizes: Sequence[int], clamp: bool = True) -> jax.Array:
    """Return indices as places from the start, in UINT32; a negative one counts from the end.

    `sizes` are those of the dimensions that the last axis of `indices` names. An index out of range
    becomes the nearest place with `clamp`, or else the size, where nothing is written.
    """
    unsigned = unsigned_type(indices.dtype)
    size = np.array(sizes, unsigned).reshape((1,) * (indices.ndim - 1) + (-1,))
    zero = unsigned.type(0)
    ahead = lax.convert_element_type(indices, unsigned)
    places = jnp.minimum(ahead, size - unsigned.type(1) if clamp else size)
    if jnp.issubdtype(indices.dtype, jnp.signedinteger):
        back = zero - ahead
        behind = jnp.where(back > size, zero if clamp else size, size - back)
        places = jnp.where(indices < 0, behind, places)
    return lax.convert_element_type(places, UINT32)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3, 4, 5))
def _read(
    x: jax.Array,
    places: jax.Array,
    dims: Dims,
    batching: Dims = (),
    offsets: Dims = (),
    is_apart: bool = False,
) -> jax.Array:
    """Return the elements of `x` at `places`, whose last axis names `dims`.

    `batching` are the dimensions that `x` and `places` share, `offsets` the dimensions of the
    result for the others of `x`. Places that are apart, no two the same, may lie beyond `x`: they
    read 0, and a gradient is written without a sum.
    """
    numbers = lax.GatherDimensionNumbers(
        offset_dims=offsets,
        collapsed_slice_dims=dims,
        start_index_map=dims,
        operand_batching_dims=batching,
        start_indices_batching_dims=batching,
    )
    sizes = [1 if d in dims + batching else n for d, n in enumerate(x.shape)]
    mode = "fill" if is_apart else "promise_in_bounds"
    return lax.gather(x, places, numbers, sizes, unique_indices=is_apart, mode=mode, fill_value=0)


@_read.defjvp
def _(dims: Dims, batching: Dims, offsets: Dims, is_apart: bool, primals, tangents):
    (x, places), (dx, _) = primals, tangents
    how = (places, dims, batching, offsets, is_apart)
    dy = _read(wide(dx), *how)  # its transpose is a sum
    y = _read(x, *how)
    return y, lax.convert_element_type(dy, x.dtype)


def gather(x: jax.Array, indices: jax.Array, axis: int) -> jax.Array:
    """Return `x[..., indices, ...]`: slices of `x` along `axis`."""
    places = _places(indices[..., None], [x.shape[axis]])
    rank, last = indices.ndim, indices.ndim + x.ndim - 1
    return _read(x, places, (axis,), (), (*range(axis), *range(axis + rank, last)))


def gather_elements(x: jax.Array, indices: jax.Array, axis: int) -> jax.Array:
    """Return the element of `x` that each index names along `axis`, in its own line."""
    places = _places(indices[..., None], [x.shape[axis]])
    return _read(x, places, (axis,), _others(x, axis))


def _others(x: jax.Array, axis: int) -> Dims:
    return tuple(d for d in range(x.ndim) if d != axis)


def gather_nd(x: jax.Array, indices: jax.Array, batch: int = 0) -> jax.Array:
    """Return slices of `x`: the last axis of `indices` names a place in the first dimensions.

    `batch` dimensions before these are shared by `x` and `indices`.
    """
    rank, count = indices.ndim - 1, indices.shape[-1]
    dims = tuple(range(batch, batch + count))
    places = _places(indices, [x.shape[d] for d in dims])
    offsets = tuple(range(rank, rank + x.ndim - batch - count))
    return _read(x, places, dims, tuple(range(batch)), offsets)


def _last_writers(
    places: jax.Array, numbers: jax.Array, shape: Sequence[int], dims: Dims, batching: Dims = ()
) -> jax.Array:
    """Return the largest of `numbers` that each place has, plus 1; 0 where none writes.

    A maximum is the same in any order, in which XLA may write.
    """
    scatter = lax.ScatterDimensionNumbers(
        update_window_dims=(),
        inserted_window_dims=dims,
        scatter_dims_to_operand_dims=dims,
        operand_batching_dims=batching,
        scatter_indices_batching_dims=batching,
    )
    nobody = jnp.zeros(shape, UINT32)
    return lax.scatter_max(nobody, places, numbers + UINT32.type(1), scatter, mode="drop")


def scatter_elements(x: jax.Array, indices: jax.Array, updates: jax.Array, axis: int) -> jax.Array:
    """Return `x` with each update at the place that its index names along `axis`."""
    others = _others(x, axis)
    places = _places(indices[..., None], [x.shape[axis]], clamp=False)
    numbers = lax.broadcasted_iota(UINT32, indices.shape, axis)
    writers = _last_writers(places, numbers, x.shape, (axis,), others)
    written = _read(updates, _apart(writers), (axis,), others, (), True)
    return lax.select(writers > 0, written, x)


def _apart(writers: jax.Array) -> jax.Array:
    """Return the number of the update of each place, and beyond all updates where none writes."""
    beyond = lax.iota(UINT32, writers.size).reshape(writers.shape) + UINT32.type(2**31)
    number = lax.select(writers > 0, writers - UINT32.type(1), beyond)
    return lax.expand_dims(number, [writers.ndim])


def scatter_nd(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    """Return `x` with each update, a slice, at the place that the last axis of `indices` names."""
    *shape, count = indices.shape
    total = math.prod(shape)
    places = _places(indices, x.shape[:count], clamp=False)
    numbers = lax.iota(UINT32, total).reshape(shape)
    dims = tuple(range(count))
    writers = _last_writers(places, numbers, x.shape[:count], dims)
    slices = updates.reshape(total, *x.shape[count:])
    written = _read(slices, _apart(writers), (0,), (), tuple(range(count, x.ndim)), True)
    return lax.select(lax.broadcast_in_dim(writers > 0, x.shape, dims), written, x)


def one_hot(indices: jax.Array, values: jax.Array, size: int, axis: int) -> jax.Array:
    """Return lines of `size` elements along `axis`: `values[1]` at the index, `values[0]` else."""
    places = _places(indices, [size], clamp=False)
    shape = [size if d == axis else n for d, n in enumerate(indices.shape)]
    is_on = lax.broadcasted_iota(UINT32, shape, axis) == places
    off, on = wide(values.reshape(-1)[:2])
    return lax.convert_element_type(jnp.where(is_on, on, off), values.dtype)


def nonzero(x: jax.Array, rank: int) -> tuple[jax.Array, jax.Array]:
    """Return the number of nonzero elements, [1], and a row of coordinates for each.

    Coordinates are those of the last `rank` dimensions; rows past the number are 0.
    """
    flat, one = x.reshape(-1), UINT32.type(1)
    if is_float(x):  # by the bits without the sign: a CPU takes subnormals for 0
        flat = bits_of(flat) << unsigned_type(x.dtype).type(1)
    is_counted = flat != flat.dtype.type(0)
    counts = cumulative_sum(is_counted.astype(UINT32), 0, False, False)
    rows = jnp.where(is_counted, counts - one, UINT32.type(flat.size))
    found = jnp.zeros(flat.size, UINT32).at[rows].set(lax.iota(UINT32, flat.size), mode="drop")
    coordinates, step = [], 1
    for size in x.shape[: -rank - 1 : -1]:
        coordinates.append(found // UINT32.type(step) % UINT32.type(size))
        step *= size
    return counts[-1:], jnp.stack(coordinates[::-1], axis=-1)
