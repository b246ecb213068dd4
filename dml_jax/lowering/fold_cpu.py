"""Reductions on a CPU: columns, and long rows, in blocks that are combined elementwise.

XLA fuses that with what makes the input, and vectorises it.
"""

import functools

import jax

from dml_jax.lowering.fold import LITTLE, Axes, Combine, Fold, Parts, Take, run_by_run, taken

# float32, 2 cores, jax 0.10.2, ms: XLA's own sum and this; then both behind a clip, which XLA's
# cannot fuse. [8, 4194304] over the first axis 182, 4.2; 405, 5.0. [1024, 32768] 129, 9.3; 285,
# 9.3. [4096, 4096] 3.2, 3.4; 18, 2.6. [8, 64, 65536] over the middle 10, 9.4; 83, 12. [512, 256,
# 256] 7.2, 7.2; 40, 16. With 16 blocks XLA does not fuse the producer; with 8, two passes become
# one, which computes it 64 times.
BLOCKS = 12
# Rows beyond this go through blocks first: it keeps the rounding error of a sum near that of a
# pairwise one (33554432 elements: 0.3 ulp, without 23; NumPy 0.7).
LONG_ROW = 4096


def fold(kind: Fold, x: jax.Array, axes: Axes) -> Parts:
    """What `kind` keeps of the elements along `axes`."""
    if x.size <= LITTLE:
        return kind.one_pass(kind.located(kind.start(x), axes), axes)
    stages = [functools.partial(stage, kind) for stage in (_started, _columns, _rows)]
    return run_by_run(kind, (x,), axes, *stages)


def _started(kind: Fold, parts: Parts, start: int, stop: int) -> Parts:
    """Some of the elements, and what is kept of them.

    Made of each piece, not cut from the whole: XLA would compute and store that.
    """
    pieces = kind.located(kind.start(taken(parts, start, stop)[0]), [1])
    if not kind.locates:
        return pieces
    *rest, index = pieces
    return (*rest, index + index.dtype.type(start))


def _columns(kind: Fold, parts: Parts, take: Take, combine: Combine) -> Parts:
    while parts[0].shape[1] > BLOCKS:
        parts, take, combine = _by_blocks(kind, parts, take, combine), taken, kind.combine
    pieces = [take(parts, i, i + 1) for i in range(parts[0].shape[1])]
    return tuple(part[:, 0] for part in combine(pieces))


def _rows(kind: Fold, parts: Parts, take: Take, combine: Combine) -> Parts:
    while parts[0].shape[1] > LONG_ROW and not kind.long_rows:
        parts, take, combine = _by_blocks(kind, parts, take, combine), taken, kind.combine
    rows = take(parts, 0, parts[0].shape[1])
    return kind.one_pass(tuple(part[:, :, 0] for part in rows), (1,))


def _by_blocks(kind: Fold, parts: Parts, take: Take, combine: Combine) -> Parts:
    """[k, n, c] -> [k, n // b, c]: b blocks of neighbours, combined elementwise.

    b leaves a rest, which is combined into the first elements: XLA does not fuse what updates
    in place with what reads it, so that each pass stays one loop over its input.
    """
    n = parts[0].shape[1]
    # All of them divide a multiple of 27720.
    blocks = next((b for b in range(BLOCKS, 1, -1) if 0 < n % b <= n // b), BLOCKS)
    size = n // blocks
    return kind.with_rest(
        combine([take(parts, i * size, (i + 1) * size) for i in range(blocks)]),
        take(parts, size * blocks, n),
    )
