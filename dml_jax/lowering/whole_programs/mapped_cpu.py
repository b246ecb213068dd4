"""Whole programs that map each element by itself, cut and join: on a CPU, over long rows.

XLA's loops are over the axes of the result. One over a short last axis LLVM unrolls wholly,
elements one by one, and does not vectorise then. Here rows are put together until they are long,
and are mapped in a call that XLA does not inline: around it they have the axes that they had. (XLA
moves a reshape of its own accord; and one in a call behind the loop may be copied where the result
takes the input's memory.) What is cut or joined is so along an axis before the rows, or, if what is
behind it is too short, in rows that begin with it; the other forms are asked how. 2 cores, jax
0.10.2, ns a byte moved, as it is and so, a copy 0.03:

    ELEMENT_WISE_CLIP, rows of     8           9           33          64
    UINT8                     0.03, 0.03  0.93, 0.04  0.92, 0.04  0.04, 0.04
    FLOAT16                   0.03, 0.03  0.13, 0.03  0.03, 0.03  0.05, 0.05
    FLOAT32                   0.02, 0.03  0.06, 0.03  0.04, 0.04  0.03, 0.04

    SPLIT, CLIP and JOIN as a graph, [.., 72, 64, 17] over axis 1; over 2; of 33, over 1
    UINT8                     0.74, 0.04; 0.79, 0.08; 0.70, 0.04
    FLOAT16                   0.13, 0.03; 0.14, 0.07; 0.04, 0.05
    FLOAT32                   0.05, 0.04; 0.06, 0.07; 0.04, 0.04

    SPLIT, [.., 72, 64, 33] over axis 1; over 2; of 64, over 1; over 2
    UINT8                     0.07, 0.02; 0.10, 0.03; 0.10, 0.02; 0.14, 0.05
    FLOAT16                   0.09, 0.08; 0.08, 0.04; 0.07, 0.05; 0.10, 0.06
    FLOAT32                   0.03, 0.03; 0.04, 0.02; 0.04, 0.03; 0.04, 0.03
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import jaxpr_as_fun

from dml_jax.lowering import loops_cpu
from dml_jax.lowering.all_cores_cpu import written_by_all_cores
from dml_jax.lowering.stored_cpu import all_reshaped, in_a_call
from dml_jax.lowering.whole_programs.mapping import Survey, mapped, merged, shape_of_all


def in_long_rows(program: Any) -> Any | None:
    """The traced program over longer rows, of arrays that have these axes; None without a gain.

    That is where it does more, or rows are not so short.
    """
    shape = max((x.shape for x in program.in_avals), key=math.prod, default=())
    before, row = loops_cpu.inner_loops(shape)
    longest = loops_cpu.UNROLLED[-1]
    if loops_cpu.is_little(shape) or not 1 < row <= longest:
        return None
    survey = Survey.of(program)
    if survey is None or any(y.shape == () for y in program.out_avals):
        return None
    arrays, along = survey.shapes, survey.along
    # Rows that are vectorised with the axis before them: over long ones 1.5 times as long.
    if along and row < loops_cpu.UNROLLED[0] and before > longest:
        return None
    same = max(along, default=-1) + 1
    if any(len(y) != len(shape) or y[same:] != shape[same:] for y in arrays):
        return None
    # What is not cut goes as two axes at most, for both cores and a row, if not of `LONG` elements,
    # then of as many as are not unrolled; if there are not so many, as one with the last axis that
    # is cut.
    last = max(along, default=0)
    behind = loops_cpu.long_rows(shape, last) or loops_cpu.long_rows(shape, last, longest + 1)
    starts = [*range(last + 1)] if behind is None else [*range(same + 1)]
    if behind and math.prod(shape[same:behind]) > 1:
        starts.append(behind)
    if any(_rows(y, starts)[-1] <= longest for y in arrays):
        return None
    # Wide elements of such rows are joined in vectors as they are, and over the axis that is cut
    # less well. 2 cores, jax 0.10.2, ms, SPLIT, CLIPs and JOIN over 1, as they are and so: FLOAT32
    # [64, 1024, 7, 7] 0.67, 1.39; [64, 2048, 5, 5] 0.85, 1.25; [512, 512, 3, 3] 0.91, 1.19; but
    # FLOAT16 6.6, 0.75; 6.8, 0.78; 5.0, 0.69; rows of 17, over the axis before, FLOAT32 5.7, 4.6;
    # and not joined, FLOAT32 0.93, 0.64; 0.88, 0.64; 1.2, 0.80.
    are_wide = not all(map(loops_cpu.is_narrow, program.out_avals))
    are_joined = any(eqn.primitive.name == "concatenate" for eqn in program.jaxpr.eqns)
    if behind is None and row < loops_cpu.UNROLLED[0] and are_wide and are_joined:
        return None
    return merged(program, functools.partial(_rows, starts=starts))


def over(program: Any, xs: Sequence[jax.Array], loops: Sequence[int]) -> list[jax.Array]:
    """The results of a traced program that only maps elements, over these axes in place of theirs.

    Or over rows, where cores could not share them.
    """
    loops = loops_cpu.even_loops(loops) or loops
    other = merged(program, lambda shape: loops if shape else ())
    return in_axes_of(other, jaxpr_as_fun(other), program, xs)


def in_axes_of(
    other: Any, form: Callable[..., Sequence[jax.Array]], program: Any, xs: Sequence[Any]
) -> list[jax.Array]:
    """A program's results by a form of the `other`, that of arrays which have other axes.

    In a call that XLA does not inline, or it would loop over the axes that there are around it.
    """
    given = (jnp.reshape(x, aval.shape) for x, aval in zip(xs, other.in_avals, strict=True))
    results = in_a_call(lambda *xs: form(*map(written_by_all_cores, xs)), *given)
    return all_reshaped(results, [y.shape for y in program.out_avals])


def _rows(shape: Sequence[int], starts: Sequence[int]) -> tuple[int, ...]:
    """Of the axes from each start to the next one; of a number none."""
    ends = (*starts[1:], len(shape))
    axes = (math.prod(shape[i:j]) for i, j in zip(starts, ends, strict=True))
    return tuple(axes) if shape else ()


def in_even_rows(program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The results of a traced program, of one axis that cores cannot share; None where they can.

    It becomes rows, or, of a prime, all elements but one are joined with that: of one
    XLA makes no loop. (A rest of three takes FLOAT32 190 ms; bytes gain nothing.) 2 cores, jax
    0.10.2, ms, CLIP of 33554433 elements as it is, in three rows, and so joined; of 33554432:

        FLOAT32   25, 11.2, 11.5; 11.4
        FLOAT16   70,  6.1,  6.0;  5.7
        UINT8     12,  3.3; 2.5
    """
    shape = shape_of_all(program)
    if shape is None or not loops_cpu.is_uneven(shape):
        return None
    if loops_cpu.even_loops(shape):
        return over(program, xs, shape)
    size = math.prod(shape)
    if size % 2 == 0 or any(y.dtype.itemsize == 1 for y in program.out_avals):
        return None
    pieces = list[list[jax.Array]]()
    for begin, end in ((0, size - 1), (size - 1, size)):
        some = [lax.slice_in_dim(x.reshape(-1), begin, end) if x.shape else x for x in xs]
        pieces.append(mapped(program, some, lambda s, n=end - begin: (n,) if s else ()))
    return [lax.concatenate(same, 0).reshape(shape) for same in zip(*pieces, strict=True)]
