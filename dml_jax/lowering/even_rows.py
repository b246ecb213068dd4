"""Loops that a CPU's cores cannot share evenly, over rows in place of their last axis.

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
# Rows that are more than most machines' cores, and still long where it matters.
MOST_ROWS = 2**7
CORES = cores()


def inner_loops(shape: Sequence[int]) -> tuple[int, int]:
    """The sizes of the last two axes of more than one element, 1 where there are none."""
    before, last = [1, 1, *(n for n in shape if n > 1)][-2:]
    return before, last


def last_of(shape: Sequence[int]) -> int:
    """The size of the last axis of more than one element."""
    return inner_loops(shape)[1]


def is_uneven(shape: Sequence[int]) -> bool:
    """Whether a loop over such axes is one that cores cannot share evenly."""
    size, last = math.prod(shape), last_of(shape)
    return size > LITTLE and size // last < CORES and last % CORES > 0


def even_rows(shape: Sequence[int]) -> int | None:
    """In how many rows the last axis of such a loop goes, which cores can share.

    None of a prime and the like, and where the loop is even. How many there are makes little
    difference: of CLIPs three take two cores as long as 128 do.
    """
    if not is_uneven(shape):
        return None
    last = last_of(shape)
    return next((rows for rows in range(MOST_ROWS, CORES - 1, -1) if last % rows == 0), None)


BY_EVEN_LOOPS = Primitive("dml_by_even_loops")


def by_even_loops(x: jax.Array) -> jax.Array:
    """The same; what computes it elementwise loops over rows, on one CPU that cannot share it.

    For results, since XLA fuses it with nothing behind. 2 cores, jax 0.10.2, ms, before and so, of
    [3, 11184813] over 0 and [13, 2581113]: SUM FLOAT32 25, 6.9; 10, 6.6; MAX FLOAT16 26, 3.9; 13,
    3.5; ARGMAX FLOAT32 30, 7.9; 16, 11; LOG_SUM_EXP FLOAT16 264, 39; 104, 15. (A faster machine,
    with just what a reduction leaves in rows, and with what becomes of it too, FLOAT16 of the
    first: SUM 15, 1.8; AVERAGE 17, 1.6; LOG_SUM 16, 2.2; L2 15, 1.7; LOG_SUM_EXP 21, 6.2.)
    """
    return BY_EVEN_LOOPS.bind(x) if even_rows(x.shape) else x


BY_EVEN_LOOPS.def_impl(functools.partial(dispatch.apply_primitive, BY_EVEN_LOOPS))
BY_EVEN_LOOPS.def_abstract_eval(lambda x: x)
ad.primitive_jvps[BY_EVEN_LOOPS] = lambda xs, dxs: (BY_EVEN_LOOPS.bind(*xs), *dxs)
# Each of a batch has other axes before its last.
batching.primitive_batchers[BY_EVEN_LOOPS] = lambda xs, dims: (*xs, *dims)


def _lowered(ctx: Any, x: Any) -> Any:
    def in_rows(x: jax.Array) -> jax.Array:
        rows = even_rows(x.shape)
        return reshaped(x.reshape(-1, last_of(x.shape) // rows), x.shape) if rows else x

    def as_it_is(x: jax.Array) -> jax.Array:
        return x

    forms = {"cpu": in_rows} if on_one_device(ctx.module_context) else {}
    form = by_platform(platforms_of(ctx), forms, as_it_is)
    return mlir.lower_fun(form, multiple_results=False)(ctx, x)


mlir.register_lowering(BY_EVEN_LOOPS, _lowered)
needs_devices(BY_EVEN_LOOPS)
