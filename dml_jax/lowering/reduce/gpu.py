"""Reductions on an NVIDIA GPU.

XLA's own reductions are as fast as the memory where they keep one array, but for short odd rows and
signed integers. Reductions of two arrays (a maximum and a sum beside it, an element and its index)
are up to fifty times slower. `fold` has their form: up to AT_ONCE elements are combined at once; of
a longer row up to PIECES pieces are combined elementwise, and one reduction does the rest, of
complex numbers where both arrays have 32 bits. Longer columns are windows, of each of which XLA
makes a loop in one thread. Up to LITTLE elements XLA reduces both arrays.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import (
    LITTLE,
    Axes,
    Parts,
    joined,
    pairwise,
    reduced_shape,
    restored,
    run_by_run,
    runs_of,
    shaped,
    taken,
)
from dml_jax.lowering.dtypes import wide, wide_type

Combine = Callable[[Sequence[Parts]], Parts]

AT_ONCE = 24  # elements that one thread combines at once; more take long to compile
PIECES = 8  # pieces of a long row that are combined before they are reduced
MANY = 2**17  # threads that fill the memory's bandwidth
THREADS = 2**7  # threads that are launched together: results are a multiple, or each is tested
ODD_ROW = 2**7  # elements of an odd row whose elements XLA reads one by one


# One array.


def by_xla(own: Any, op: Callable[[Any, Any], Any], identity: Any, x: jax.Array, axes: Axes) -> Any:
    """Reduce by XLA's own `own`; short rows that are not aligned are cut, and combined by `op`."""
    runs = runs_of(x.shape, axes)
    n, is_row = runs[-1]
    is_odd = is_row and AT_ONCE // 2 < n <= ODD_ROW and n % 4 != 0 and x.dtype.itemsize <= 4
    if x.size <= LITTLE or not is_odd:
        return restored(own(x, axes), axes)
    rows = (wide(x).reshape(-1, n),)
    (y,) = _combined(PIECES // 2, lambda ps: (pairwise(op, [p for (p,) in ps]),), identity, rows)
    y = y.reshape(*(size for size, _ in runs[:-1]), -1)
    y = own(y, [i for i, (_, is_reduced) in enumerate(runs) if is_reduced])
    return lax.convert_element_type(y, x.dtype).reshape(reduced_shape(x.shape, axes))


def by_bits(own: Any, is_ordered: bool) -> Any:
    """Return XLA's reduction, of int32 as uint32 in the same order: Triton is slow with signs."""
    sign = np.uint32(2**31 if is_ordered else 0)

    def reduced(x: jax.Array, axes: Axes) -> jax.Array:
        if x.dtype != jnp.int32:
            return own(x, axes)
        bits = own(lax.bitcast_convert_type(x, np.uint32) ^ sign, axes)
        return lax.bitcast_convert_type(bits ^ sign, np.int32)

    return reduced


# Two arrays.


@dataclass(frozen=True, eq=False)
class Pair:
    """A reduction that keeps two arrays.

    Attributes:
        identity: what is kept of no elements, for the type of the first array.
        combine: combines several pairs of arrays elementwise.
    """

    identity: Callable[[np.dtype], Sequence[Any]]
    combine: Combine


def fold(kind: Pair, parts: Parts, axes: Axes) -> Parts:
    """Reduce two arrays along `axes`, which have size 1 in the results."""
    types = [wide_type(part.dtype) for part in parts]
    apart = functools.partial(_apart, types)
    if parts[0].size <= LITTLE:
        both = _by_pairs(kind, parts, axes)
        return tuple(restored(part, axes) for part in both)

    def stage(parts: Parts, is_first: bool) -> Parts:
        k, n, c = parts[0].shape
        if n <= AT_ONCE:
            flat = shaped(parts, (k, n * c))
            return kind.combine([taken(flat, i * c, (i + 1) * c) for i in range(n)])
        return _rows(kind, shaped(parts, (k, n))) if c == 1 else _columns(kind, parts)

    return apart(run_by_run(tuple(map(wide, parts)), axes, stage, apart))


def _by_pairs(kind: Pair, parts: Parts, axes: Axes) -> Parts:
    """Reduce by XLA's own reduction, of both arrays together."""
    identity = kind.identity(parts[0].dtype)
    return tuple(lax.reduce(parts, identity, lambda a, b: kind.combine([a, b]), axes))


def _rows(kind: Pair, parts: Parts) -> Parts:
    """[k, n] -> [k, 1]: pieces are combined by the kernel that reduces what they leave."""
    over = functools.partial(lax.reduce, dimensions=[1])
    parts = _combined(PIECES, kind.combine, kind.identity(parts[0].dtype), parts)
    return shaped(_as_one(over, kind, parts), (parts[0].shape[0], 1))


def _combined(most: int, combine: Combine, identity: Sequence[Any], parts: Parts) -> Parts:
    """[k, n] -> [k, size]: combine at most so many pieces, each a power of two long.

    The last piece is filled with what is kept of nothing.
    """
    n = parts[0].shape[1]
    size = max(1 << (-(-n // most) - 1).bit_length(), 8)
    pieces = [taken(parts, at, min(at + size, n)) for at in range(0, n, size)]
    around = [(0, 0, 0), (0, -n % size, 0)]
    filled = (lax.pad(part, none, around) for part, none in zip(pieces[-1], identity, strict=True))
    return combine([*pieces[:-1], tuple(filled)]) if len(pieces) > 1 else pieces[0]


def _columns(kind: Pair, parts: Parts) -> Parts:
    """[k, n, c] -> [k, c]: each thread goes through a block of neighbouring rows of a column.

    Blocks are so many that their results are a multiple of `THREADS`. What they and the rows behind
    them leave is reduced again.
    """
    k, n, c = parts[0].shape
    count = -(-MANY * (2 if c % 8 else 1) // (k * c))
    step = THREADS // math.gcd(THREADS, k * c)
    count = -(-count // step) * step if count > 1 else 1
    if 2 * count > n:
        count = 1
    size = n // count
    blocks = shaped(taken(parts, 0, count * size), (k * count, size, c))
    over = functools.partial(
        lax.reduce_window,
        window_dimensions=[1, size, 1],
        window_strides=[1, size, 1],
        padding=[(0, 0)] * 3,
    )
    if count == 1:
        return shaped(_as_one(over, kind, blocks), (k, c))
    identity = kind.identity(parts[0].dtype)
    left = over(blocks, identity, lambda a, b: kind.combine([a, b]))
    # Else XLA may compute the blocks again for each element that is made of them.
    left = lax.optimization_barrier(shaped(tuple(left), (k, count, c)))
    if count * size < n:
        left = joined([left, taken(parts, count * size, n)], 1)
    return _by_pairs(kind, left, (1,))


# Two arrays of 32 bits as one of complex numbers. Behind a reduction of one array XLA puts, in the
# same kernel, what takes nothing but its result, and it reduces rows of one array faster.


def _apart(types: Sequence[Any], parts: Parts) -> Parts:
    """Return the two arrays, of these types, that one complex array is made of."""
    if len(parts) == 2:
        return parts
    halves = lax.real(*parts), lax.imag(*parts)
    return tuple(map(lax.bitcast_convert_type, halves, types))


def _as_one(over: Callable[..., Any], kind: Pair, parts: Parts) -> Parts:
    """Reduce by `over(operands, identity, function)`, two arrays of 32 bits as one."""
    types, identity = [part.dtype for part in parts], kind.identity(parts[0].dtype)
    if [t.itemsize for t in types] != [4, 4]:
        return tuple(over(parts, identity, lambda a, b: kind.combine([a, b])))

    def one(parts: Parts) -> jax.Array:
        return lax.complex(*(lax.bitcast_convert_type(part, np.float32) for part in parts))

    def pair(a: jax.Array, b: jax.Array) -> jax.Array:
        return one(kind.combine([_apart(types, (a,)), _apart(types, (b,))]))

    bits = [np.asarray(value, t).view(np.float32) for value, t in zip(identity, types, strict=True)]
    return (over(one(parts), np.stack(bits).view(np.complex64)[0], pair),)
