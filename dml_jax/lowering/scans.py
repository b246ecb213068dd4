"""Running sums and products along an axis, and the first elements of sorted lines."""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import is_float, ordered_bits, wide
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.reduction import argmax

Combine = Callable[[jax.Array, jax.Array], jax.Array]
Places = Callable[[jax.Array, int], jax.Array]

# A CPU takes a step along an axis for all lines at once. Fewer lines than this are cut into pieces
# of half as many elements, and a step is one of all pieces.
FEW_LINES = 8
# Elements of a piece from which a search for the first pieces of a line gains: of a CPU, of a GPU.
LEAST_PIECE, GPU_PIECE = 24, 4


def _cumulative(
    combine: Combine,
    whole: Callable[..., jax.Array],
    x: jax.Array,
    axis: int,
    reverse: bool,
    exclusive: bool,
) -> jax.Array:
    """Return the elements up to each one along `axis` combined, as `whole` of `jax.lax` does.

    `reverse` begins at the end of the axis, `exclusive` leaves the element itself out.
    """
    y = lax.rev(wide(x), [axis] if reverse else [])
    if exclusive:
        y = _pad(y, axis, 1, -1, _identity(y, combine))
    steps = functools.partial(_by_steps, axis=axis, combine=combine)
    y = by_platform(functools.partial(whole, axis=axis), cpu=steps, whole_arrays=False)(y)
    return lax.convert_element_type(lax.rev(y, [axis] if reverse else []), x.dtype)


cumulative_sum = functools.partial(_cumulative, lax.add, lax.cumsum)
cumulative_product = functools.partial(_cumulative, lax.mul, lax.cumprod)


def _identity(x: jax.Array, combine: Combine) -> jax.Array:
    return jnp.asarray(0 if combine is lax.add else 1, x.dtype)


def _pad(x: jax.Array, axis: int, before: int, behind: int, value: jax.Array) -> jax.Array:
    widths = [(before, behind, 0) if d == axis else (0, 0, 0) for d in range(x.ndim)]
    return lax.pad(x, value, widths)


def _by_steps(x: jax.Array, axis: int, combine: Combine) -> jax.Array:
    """Return what lax.cumsum does, by one step for each place of the axis, or of its pieces."""
    size, identity = x.shape[axis], _identity(x, combine)
    if size <= FEW_LINES or x.size // size >= FEW_LINES:
        lines = jnp.moveaxis(x, axis, 0)

        def step(carry: jax.Array, line: jax.Array) -> tuple[jax.Array, jax.Array]:
            made = combine(carry, line)
            return made, made

        _, made = lax.scan(step, jnp.full_like(lines[0], identity), lines)
        return jnp.moveaxis(made, 0, axis)
    before, behind = x.shape[:axis], x.shape[axis + 1 :]
    piece = FEW_LINES // 2
    count = math.ceil(size / piece)
    pieces = _pad(x, axis, 0, count * piece - size, identity)
    pieces = _by_steps(pieces.reshape(*before, count, piece, *behind), axis + 1, combine)
    ends = _pad(lax.index_in_dim(pieces, -1, axis + 1, False), axis, 1, -1, identity)
    starts = jnp.expand_dims(_by_steps(ends, axis, combine), axis + 1)
    made = combine(jnp.broadcast_to(starts, pieces.shape), pieces)
    return lax.slice_in_dim(made.reshape(*before, -1, *behind), 0, size, axis=axis)


def top_k(
    x: jax.Array, axis: int, k: int, increasing: bool, index_type: np.dtype
) -> tuple[jax.Array, jax.Array]:
    """Return the first `k` elements of each line along `axis`, sorted, and their indices.

    `increasing` has the smallest first, or else the largest. NaN is before all numbers, and equal
    elements stay in the order of their indices.
    """
    keys = jnp.moveaxis(_keys(x, increasing), axis, -1)
    if k == 1:
        first = argmax(keys, [keys.ndim - 1], np.dtype(np.int32))
    elif keys.dtype.itemsize == 4:
        # As arguments: the cache would keep the constants of the first call.
        first = _first_places(k, LEAST_PIECE, GPU_PIECE)(keys)
    else:
        first = _by_sort(keys, k)
    index = jnp.moveaxis(first, -1, axis)
    values = jnp.take_along_axis(x, index, axis, mode="promise_in_bounds")
    return values, lax.convert_element_type(index, index_type)


def _keys(x: jax.Array, increasing: bool) -> jax.Array:
    """Return integers of 32 or 64 bits that decrease in the order in which elements come."""
    size = max(x.dtype.itemsize, 4)
    signed = jnp.dtype(f"int{8 * size}")
    if not is_float(x):
        if x.dtype == jnp.dtype(f"uint{8 * size}"):
            keys = lax.bitcast_convert_type(x, signed) ^ signed.type(np.iinfo(signed).min)
        else:
            keys = lax.convert_element_type(x, signed)
        return ~keys if increasing else keys
    y = wide(x)
    bits = lax.bitcast_convert_type(y, signed)
    keys = ordered_bits(bits)
    keys = jnp.where(keys == signed.type(-1), signed.type(0), keys)  # -0
    keys = ~keys if increasing else keys
    most = np.iinfo(signed).max
    infinity = np.array(np.inf, y.dtype).view(signed)
    return jnp.where((bits & signed.type(most)) > infinity, signed.type(most), keys)


def _by_sort(keys: jax.Array, k: int) -> jax.Array:
    places = lax.broadcasted_iota(jnp.int32, keys.shape, keys.ndim - 1)
    return lax.sort((~keys, places), num_keys=1, is_stable=True)[1][..., :k]


def _by_floats(keys: jax.Array, k: int) -> jax.Array:
    """Return what `_by_sort` does, from the FLOAT32 of which XLA's CPU compares the bits."""
    return lax.top_k(lax.bitcast_convert_type(ordered_bits(keys), jnp.float32), k)[1]


def _by_pieces(keys: jax.Array, k: int, least: int, first: Places) -> jax.Array:
    """Return what `first` does, of the `k` pieces of a line that have the largest maxima.

    For an element of another piece, each of these pieces has one that comes before it. Both numbers
    of keys that are compared, of maxima and of elements, are near the root of `k` times the size.
    It gains from pieces of `least` elements on.
    """
    *lines, size = keys.shape
    piece = math.isqrt(size // k)
    if piece < least:
        return first(keys, k)
    count = math.ceil(size / piece)
    lowest = keys.dtype.type(np.iinfo(keys.dtype).min)
    pieces = _pad(keys, keys.ndim - 1, 0, count * piece - size, lowest)
    pieces = pieces.reshape(*lines, count, piece)
    chosen = lax.sort(first(lax.reduce_max(pieces, [pieces.ndim - 1]), k))
    found = jnp.take_along_axis(pieces, chosen[..., None], -2, mode="promise_in_bounds")
    at = first(found.reshape(*lines, k * piece), k)
    line = jnp.take_along_axis(chosen, at // piece, -1, mode="promise_in_bounds")
    return line * piece + at % piece


@functools.cache
def _first_places(k: int, least: int, of_gpu: int) -> Callable[[jax.Array], jax.Array]:
    """Return the function of the places of the `k` largest keys of 32 bits, the first of equals.

    One CPU takes XLA's own top-k, which XLA does not divide among devices as it divides a sort. One
    GPU sorts less of long lines. A piece has at least `least` elements, on a GPU `of_gpu`.
    """
    cpu = functools.partial(_by_pieces, k=k, least=least, first=_by_floats)
    cuda = functools.partial(_by_pieces, k=k, least=of_gpu, first=_by_sort)
    return by_platform(functools.partial(_by_sort, k=k), cpu=cpu, cuda=cuda, whole_arrays=True)
