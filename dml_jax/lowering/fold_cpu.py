"""Reductions on a CPU: columns by blocks that are combined elementwise, rows in one pass.

XLA fuses both with what makes the input, and vectorises them.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.lowering.fold import LITTLE, Axes, Combine, Fold, Parts, run_by_run, shaped, taken
from dml_jax.lowering.packed import Packing

# float32, 2 cores, jax 0.10.2, ms: XLA's own sum and this; then both behind a clip, which XLA's
# cannot fuse. [8, 4194304] over the first axis 182, 4.2; 405, 5.0. [1024, 32768] 129, 9.3; 285,
# 9.3. [4096, 4096] 3.2, 3.4; 18, 2.6. [8, 64, 65536] over the middle 10, 9.4; 83, 12. [512, 256,
# 256] 7.2, 7.2; 40, 16. With 16 blocks XLA does not fuse the producer; with 8, two passes become
# one, which computes it 64 times.
BLOCKS = 12
# What rounds goes over rows of this length: it keeps the error of a sum near that of a pairwise one
# (33554432 elements: 0.7 ulp, in one pass 23; NumPy 0.7). ms 5.0, 3.7.
LONG_ROW = 1024
# One row goes over rows of this length where two passes read it (`_in_two` says why): ARGMAX of
# 33554432 elements 8.8, 6.8; behind a clip 37, 6.8.
ONE_ROW = 2**16


def fold(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """What `kind` keeps of the elements along `axes`."""
    if x.size <= LITTLE:
        return kind.one_pass(kind.started(x, axes), axes)
    if len(kind.types(x.dtype)) > 1 and _is_matrix_of_rows(x.shape, axes):
        return _in_two(kind, x, axes)
    return _whole(kind, x, axes)


def _whole(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    stages = [functools.partial(stage, kind) for stage in (_columns, _rows)]
    return run_by_run(kind, (x,), axes, *stages)


def _is_matrix_of_rows(shape: Sequence[int], axes: Axes) -> bool:
    long = [a for a, n in enumerate(shape) if n > 1]
    return len(long) == 2 and long[0] not in axes and long[1] in axes


def _in_two(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """The last row by itself.

    XLA stores what makes x where two passes read just that, and not slices of it or another shape.
    ms, ARGMAX and LOG_SUM_EXP of [131072, 256] behind a clip 41, 37, and so 9, 9; of [131073, 253]
    35, 43, and so 9, 11. Of x as it is 8 to 10 both ways.
    """
    a = next(a for a, n in enumerate(x.shape) if n > 1)
    ends = lax.split(x, (x.shape[a] - 1, 1), a)
    parts = [_whole(kind, end, axes) for end in ends]
    at = a - sum(b < a for b in axes)
    return tuple(lax.concatenate(both, at) for both in zip(*parts, strict=True))


def _started(kind: Fold, parts: Parts, start: int, stop: int) -> Parts:
    """Some of the parts; of elements, (x,), what is kept of them.

    Made of each piece, not cut from the whole: XLA would compute and store that.
    """
    parts = taken(parts, start, stop)
    if len(parts) != 1:
        return parts
    (x,) = parts
    return _moved(kind, kind.started(x, [1]), start)


def _moved(kind: Fold, parts: Parts, start: int) -> Parts:
    """With `start` added to the index."""
    if not kind.locates:
        return parts
    *rest, index = parts
    return (*rest, index + index.dtype.type(start))


def _columns(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    packing = _packing(kind, parts)
    if packing and parts[0].shape[1] <= packing.most(parts[0].dtype):
        return packing.through(_columns, *parts)
    while parts[0].shape[1] > BLOCKS:
        parts, combine = _by_blocks(kind, parts, combine), kind.combine
    pieces = [_started(kind, parts, i, i + 1) for i in range(parts[0].shape[1])]
    return tuple(part[:, 0] for part in combine(pieces))


def _by_blocks(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """[k, n, c] -> [k, n // b, c]: b blocks of neighbours, combined elementwise.

    b leaves a rest, which is combined into the first elements: XLA does not fuse what updates in
    place with what reads it, so that each pass stays one loop over its input.
    """
    n = parts[0].shape[1]
    # 2 to 12 all divide n only where 27720 does.
    blocks = next((b for b in range(BLOCKS, 1, -1) if 0 < n % b <= n // b), BLOCKS)
    size = n // blocks
    pieces = [_started(kind, parts, i * size, (i + 1) * size) for i in range(blocks)]
    return kind.with_rest(combine(pieces), _started(kind, parts, size * blocks, n))


def _rows(kind: Fold, parts: Parts, combine: Combine) -> Parts:
    """Long ones as several each, and then what these have left."""
    k, n, _ = parts[0].shape
    rounds = kind.rounds and jnp.issubdtype(parts[0].dtype, jnp.floating)
    packing = _packing(kind, parts)
    if rounds:
        longest = LONG_ROW
    elif packing:
        longest = packing.most(parts[0].dtype)
    else:
        longest = ONE_ROW if k == 1 and kind.locates and len(parts) == 1 else n
    if n > longest:
        end = n - n % longest
        whole = shaped(taken(parts, 0, end), (-1, longest, 1))
        left = shaped(_rows(kind, whole, combine), (k, -1, 1))
        left = kind.located(left, [1], longest)
        if end < n:
            rest = shaped(_rows(kind, taken(parts, end, n), combine), (k, 1, 1))
            rest = _moved(kind, rest, end)
            left = tuple(lax.concatenate(both, 1) for both in zip(left, rest, strict=True))
        return _rows(kind, left, kind.combine)
    if packing:
        return packing.through(_rows, *parts)
    return kind.one_pass(shaped(_started(kind, parts, 0, n), (k, n)), (1,))


def _packing(kind: Fold, parts: Parts) -> Packing | None:
    """Of elements that have room for an index beside them."""
    packing = kind.packing if len(parts) == 1 else None
    return packing if packing and packing.most(parts[0].dtype) else None
