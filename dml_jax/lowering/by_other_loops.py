"""What is computed on a CPU by a loop over other axes than it has, wherever it occurs."""

from typing import Any

import jax

from dml_jax.lowering.all_cores_cpu import written_by_all_cores
from dml_jax.lowering.identity import identity
from dml_jax.lowering.loops_cpu import LONG, even_loops, is_little, is_narrow
from dml_jax.lowering.stored_cpu import reshaped

# Elements of a row over which a loop is not vectorised with what it reads; of odd ones up to `LONG`
# where all axes go as one, which never loses.
SHORT_ROW = 16


def by_other_loops(x: jax.Array, inner: int = 0) -> jax.Array:
    """Gives x, computed on a CPU by a loop that cores share and LLVM vectorises.

    That is one over rows where cores could not share the last axis, or, of narrow elements, over
    one axis in place of the last `inner`, if what computes x has them side by side.

    For results only, since XLA fuses nothing that comes after it. 2 cores, jax 0.10.2, ms, before
    and so, of [3, 11184813] over 0 and [13, 2581113]: SUM FLOAT32 25, 6.9; 10, 6.6; MAX FLOAT16 26,
    3.9; 13, 3.5; ARGMAX FLOAT32 30, 7.9; 16, 11; LOG_SUM_EXP FLOAT16 264, 39; 104, 15. (A faster
    machine, with just what a reduction leaves in rows, and with what becomes of it too, FLOAT16 of
    the first: SUM 15, 1.8; AVERAGE 17, 1.6; LOG_SUM 16, 2.2; L2 15, 1.7; LOG_SUM_EXP 21, 6.2.)

    GB/s read, over axis 1 of maps with short axes, before and so; behind a CLIP:

                      [.., 32, 5, 5]      [.., 32, 8, 8]      [.., 32, 13, 13]    [.., 256, 14, 14]
        SUM  FLOAT16  14, 27; 2.9, 12     9.0, 42; 2.8, 17    28, 40; 3.0, 30     40, 61; 13, 10
        MAX  FLOAT16  34, 28; 3.0, 19     43, 47; 3.0, 26     22, 37; 2.5, 19     41, 44; 14, 24
        MAX  UINT8    13, 35; 2.2, 21     50, 52; 2.3, 57     35, 38; 2.4, 39     44, 45; 11, 39

    And ms, over the last axis, all in one loop:

                      [174762, 12, 4]     [524288, 4, 4]      [100000, 12, 7]     [30840, 17, 4]
        SUM  FLOAT16  5.7, 0.4            1.6, 0.4            5.2, 0.5            5.8, 0.4
        L2   FLOAT16  2.2, 0.5            1.7, 0.6            8.5, 0.9            0.5, 0.5
        MAX  FLOAT16  0.9, 0.5            0.7, 0.4            0.8, 0.5            2.0, 0.7
        MAX  UINT8    0.4, 0.2            0.2, 0.1            0.3, 0.3            0.3, 0.1
    """
    return BY_OTHER_LOOPS.bind(x, inner=inner, reads=0) if _loops(x, inner) else x


def transposed_by_other_loops(x: jax.Array, inner: int, reads: int) -> jax.Array:
    """Gives x, whose cotangent is computed by such a loop, of so many arrays, by all cores.

    16 cores (jax 0.11.2), ms, TILE's of FLOAT32 [8, 64, 256, 256] by 2 along the last axis 10,
    4.0; of [2, 64, 256, 256] by 2 along each 9.9, 5.3; jax.numpy's 4.0, 5.7.
    """
    return _TRANSPOSED.bind(x, inner=inner, reads=reads)


def _loops(x: Any, inner: int) -> tuple[int, ...] | None:
    """The axes that are looped over in place of those of x, if others are."""
    if loops := even_loops(x.shape):
        return loops
    outer = x.ndim - inner
    sizes = [n for n in x.shape[outer:] if n > 1]
    short = SHORT_ROW if outer else LONG
    if is_narrow(x) and not is_little(x.shape) and len(sizes) > 1 and sizes[-1] <= short:
        return (*x.shape[:outer], -1)
    return None


def _looped(x: jax.Array, inner: int, reads: int) -> jax.Array:
    """By all cores, of so many arrays; by as many as XLA has it, of none."""
    loops = _loops(x, inner)
    y = x if loops is None else x.reshape(loops)
    y = written_by_all_cores(y, reads) if reads else y
    return y if loops is None else reshaped(y, x.shape)


BY_OTHER_LOOPS = identity("dml_by_other_loops", _looped)

_TRANSPOSED = identity("dml_transposed_by_other_loops", lambda x, **_: x, BY_OTHER_LOOPS)
