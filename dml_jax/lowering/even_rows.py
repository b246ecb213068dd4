"""Loops that a CPU's cores cannot share evenly, or LLVM vectorise, over other axes.

XLA gives each core an equal part of a loop's outermost axis. Where that is the only one, and the
parts do not come out even, every element is tested for the end, and LLVM does not vectorise that.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
from jax._src import dispatch
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dml_jax.host import cores
from dml_jax.lowering.devices.placement import (
    by_platform,
    needs_devices,
    on_one_device,
    platforms_of,
)
from dml_jax.lowering.stored_cpu import reshaped

# Elements up to which one core does it, or the dispatch is what counts.
LITTLE = 2**15
# How many rows, no more than a row has elements: more than most machines have cores, else more yet.
# ms, CLIP of 131 * 256163, 1009 * 33247 and 8111 * 4139 elements, as it is and so: UINT8 8.2, 1.6;
# 8.0, 1.7; 8.4, 1.6; FLOAT16 4.9, 3.6; 4.7, 3.6; 4.9, 3.6; FLOAT32 9.9, 7.0; 8.1, 10; 14, 7.7.
ROWS = (*range(2**7, 1, -1), *range(2**7 + 1, 2**13))
CORES = cores()
# Bytes of elements, and elements of a row, over which a loop is not vectorised with what it reads.
NARROW, SHORT_ROW = 2, 16


def inner_loops(shape: Sequence[int]) -> tuple[int, int]:
    """The sizes of the last two axes of more than one element, 1 where there are none."""
    before, last = [1, 1, *(n for n in shape if n > 1)][-2:]
    return before, last


def is_uneven(shape: Sequence[int]) -> bool:
    """Whether a loop over such axes is one that cores cannot share evenly."""
    size, (_, last) = math.prod(shape), inner_loops(shape)
    return size > LITTLE and size // last < CORES and last % CORES > 0


def even_rows(shape: Sequence[int]) -> int | None:
    """In how many rows the last axis of such a loop goes, which cores can share.

    None of a prime, twice one and the like, and where the loop is even. How many there are makes
    little difference: of CLIPs three take two cores as long as 128 do.
    """
    if not is_uneven(shape):
        return None
    _, last = inner_loops(shape)
    shared = (rows for rows in ROWS if CORES <= rows <= last // rows and last % rows == 0)
    return next(shared, None)


def evened(loops: Sequence[int]) -> tuple[int, ...]:
    """The axes of a loop; of one that cores cannot share, with the last as rows, if there are any.

    2 cores, jax 0.10.2, GB/s of CLIPs of [999999, 33] as one axis and so UINT8 17, 41, FLOAT16 16,
    39, FLOAT32 19, 39.
    """
    rows = even_rows(loops)
    return (*loops[:-1], rows, loops[-1] // rows) if rows else tuple(loops)


BY_EVEN_LOOPS = Primitive("dml_by_even_loops")


def by_even_loops(x: jax.Array, behind: int | None = None) -> jax.Array:
    """Gives x, computed on a CPU by a loop that cores share and LLVM vectorises.

    That is one over rows where cores could not share the last axis, or, of narrow elements, over
    one axis in place of the short ones from `behind` on, if what computes x has them side by side.

    For results, since XLA fuses it with nothing behind. 2 cores, jax 0.10.2, ms, before and so, of
    [3, 11184813] over 0 and [13, 2581113]: SUM FLOAT32 25, 6.9; 10, 6.6; MAX FLOAT16 26, 3.9; 13,
    3.5; ARGMAX FLOAT32 30, 7.9; 16, 11; LOG_SUM_EXP FLOAT16 264, 39; 104, 15. (A faster machine,
    with just what a reduction leaves in rows, and with what becomes of it too, FLOAT16 of the
    first: SUM 15, 1.8; AVERAGE 17, 1.6; LOG_SUM 16, 2.2; L2 15, 1.7; LOG_SUM_EXP 21, 6.2.)

    GB/s read, over axis 1 of maps with short axes, before and so; behind a CLIP:

                      [.., 32, 5, 5]      [.., 32, 8, 8]      [.., 32, 13, 13]    [.., 256, 14, 14]
        SUM  FLOAT16  14, 27; 2.9, 12     9.0, 42; 2.8, 17    28, 40; 3.0, 30     40, 61; 13, 10
        MAX  FLOAT16  34, 28; 3.0, 19     43, 47; 3.0, 26     22, 37; 2.5, 19     41, 44; 14, 24
        MAX  UINT8    13, 35; 2.2, 21     50, 52; 2.3, 57     35, 38; 2.4, 39     44, 45; 11, 39
    """
    behind = x.ndim if behind is None else behind
    return BY_EVEN_LOOPS.bind(x, behind=behind) if _loops(x, behind) else x


def _loops(x: Any, behind: int) -> tuple[int, ...] | None:
    """The axes that are looped over in place of those of x, if others are."""
    if rows := even_rows(x.shape):
        _, last = inner_loops(x.shape)
        return (-1, last // rows)
    inner = [n for n in x.shape[behind:] if n > 1]
    if x.size > LITTLE and x.dtype.itemsize <= NARROW and len(inner) > 1 and inner[-1] <= SHORT_ROW:
        return (*x.shape[:behind], -1)
    return None


BY_EVEN_LOOPS.def_impl(functools.partial(dispatch.apply_primitive, BY_EVEN_LOOPS))
BY_EVEN_LOOPS.def_abstract_eval(lambda x, behind: x)
ad.primitive_jvps[BY_EVEN_LOOPS] = lambda xs, dxs, **how: (BY_EVEN_LOOPS.bind(*xs, **how), *dxs)
# Each of a batch has other axes before its last.
batching.primitive_batchers[BY_EVEN_LOOPS] = lambda xs, dims, **_: (*xs, *dims)


def _lowered(ctx: Any, x: Any, behind: int) -> Any:
    def in_rows(x: jax.Array) -> jax.Array:
        loops = _loops(x, behind)
        return x if loops is None else reshaped(x.reshape(loops), x.shape)

    def as_it_is(x: jax.Array) -> jax.Array:
        return x

    forms = {"cpu": in_rows} if on_one_device(ctx.module_context) else {}
    form = by_platform(platforms_of(ctx), forms, as_it_is)
    return mlir.lower_fun(form, multiple_results=False)(ctx, x)


mlir.register_lowering(BY_EVEN_LOOPS, _lowered)
needs_devices(BY_EVEN_LOOPS)
