"""Whole programs on a CPU that reduce an argument, as it is or squared, by XLA's own reduction.

XLA gives sums of FLOAT32 and extremes of integers to a library (YNNPACK), whose loops are faster
over some sizes, and are cut into more parts than there are cores. It is fused with nothing that
maps its input but a square, and its maximum of floats drops NaN. GB/s read on 2 cores that copy 30,
jax 0.10.2, 2026-11-26, the form of `folds.cpu` and so:

    rows of            14      28      49      64      100     128     256     1024
    SUM    FLOAT32     17, 22  26, 30  27, 33  28, 32  30, 32  28, 27  28, 27  29, 28
    MAX    UINT8       5, 8    8, 27   21, 35  25, 38  35, 39  39, 42  40, 33  39, 22

    columns of n by c  14, 28  28, 14  28, 56  28, 96  56, 56  128, 28  128, 128  512, 64
    SUM    FLOAT32     33, 28  25, 25  23, 25  23, 22  25, 30  24, 38   25, 22    22, 28
    MAX    UINT8       39, 18  27, 12  24, 35  31, 44  14, 31  13, 20   37, 72

Of [64, 1024, 7, 7] over (0, 2, 3) 34, 46; MAX of UINT8 19, 38. On 16 cores (Intel, jax 0.11.2), MAX
of UINT8 much as above, and longer rows and columns too:

    rows of            7       14      28      100      256       1024      4096      65536
    SUM    FLOAT32     90, 49  54, 68  61, 80  102, 125 112, 169  127, 161  119, 179  102, 30
    MAX    UINT8       65, 24  20, 50  20, 68  80, 102  108, 137  132, 185  140, 175  110, 132

    columns of n by c  28, 56  28, 256  56, 56  56, 256   128, 14  128, 256  512, 56   512, 256
    SUM    FLOAT32     98, 81  97, 101  86, 80  90, 87    88, 93   105, 127  60, 102   115, 87
    MAX    UINT8       66, 79  99, 109  80, 103 114, 141  54, 57   140, 150  96, 132   108, 162

Its sums are as close as the others: of 4096 uniform numbers within 1.6 ulp along rows, 1.1 along
columns, the others within 2.2.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dml_jax.lowering import loops_cpu
from dml_jax.lowering.devices.along import ALONG
from dml_jax.lowering.folds.extreme import MAX, MIN
from dml_jax.lowering.folds.fold import Fold, runs_of
from dml_jax.lowering.folds.one_value import SUM
from dml_jax.lowering.folds.placed import Folded
from dml_jax.lowering.whole_programs.equations import bound, evaluated


# Rows of FLOAT32 that it sums as fast, from memory, and from a cache up to twice as fast.
LONG_ROWS = range(25, 2**13 + 1)


def by_library(program: Any) -> Any | None:
    """The traced program with XLA's own reductions where they are faster; None where none is."""
    squares = {
        eqn.outvars[0]: eqn.invars[0]
        for eqn in program.jaxpr.eqns
        if eqn.primitive.name == "mul" and eqn.invars[0] is eqn.invars[1]
    }
    chosen = [
        eqn
        for eqn in program.jaxpr.eqns
        if eqn.primitive is ALONG
        and squares.get(eqn.invars[0], eqn.invars[0]) in program.jaxpr.invars
        and _is_faster(eqn.params["what"], eqn.invars[0].aval, eqn.params["axes"])
    ]
    if not chosen:
        return None

    def step(eqn: Any, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if eqn in chosen:
            return eqn.params["what"].plain(*operands, eqn.params["axes"])
        return bound(eqn, operands)

    return jax.make_jaxpr(lambda *xs: evaluated(program, xs, step))(*program.in_avals)


def _is_faster(what: Any, x: Any, axes: Sequence[int]) -> bool:
    """As the last of the axes tell, which the elements of a row or a column are along."""
    if not isinstance(what, Folded) or loops_cpu.is_little(x.shape):
        return False
    runs = runs_of(x.shape, axes)
    reduced = [i for i, (_, is_reduced) in enumerate(runs) if is_reduced]
    if not reduced:
        return False
    n, c = runs[reduced[-1]][0], math.prod(size for size, _ in runs[reduced[-1] + 1 :])
    are_many = loops_cpu.CORES > 2
    if what.kind is SUM and x.dtype == np.float32:
        if c == 1:
            return n in LONG_ROWS or n == x.size and not are_many
        return n >= 128 and 14 <= c <= 256 if are_many else n >= 28 and 14 <= c <= 64
    if what.kind in (MAX, MIN) and x.dtype.kind in "iu" and x.dtype.itemsize == 1:
        return 13 <= n and (n <= 200 or are_many) if c == 1 else n >= 28 and 56 <= c <= 256
    return False
