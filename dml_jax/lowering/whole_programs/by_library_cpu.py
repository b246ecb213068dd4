"""Whole programs on a CPU that reduce an argument, as it is or squared, by XLA's own reduction.

XLA gives sums of FLOAT32 and extremes of bytes to a library (YNNPACK), whose loops are faster over
some sizes, and are cut into more parts than there are cores. A clip or a conversion before is not
fused with it (an absolute value is, and gains nothing), and its maximum of floats drops NaN. GB/s
read on 2 cores that copy 30, jax 0.10.2, 2026-11-26, the form of `folds.cpu` and so:

    rows of            14      28      49      64      100     128     256     1024
    SUM    FLOAT32     17, 22  26, 30  27, 33  28, 32  30, 32  28, 27  28, 27  29, 28
    MAX    UINT8       5, 8    8, 27   21, 35  25, 38  35, 39  39, 42  40, 33  39, 22

    columns of n by c  14, 28  28, 14  28, 56  28, 96  56, 56  128, 28  128, 128  512, 64
    SUM    FLOAT32     33, 28  25, 25  23, 25  23, 22  25, 30  24, 38   25, 22    22, 28
    MAX    UINT8       39, 18  27, 12  24, 35  31, 44  14, 31  13, 20   37, 72

Of [64, 1024, 7, 7] over (0, 2, 3) 34, 46; MAX of UINT8 19, 38. On 16 cores (Intel, jax 0.11.2),
where longer rows and wider columns gain, too (over 147 reductions with what `folds.cpu` stores
between axes 1.37 times as fast):

    rows of            14      28      64       256       1024      4096      8192      65536
    SUM    FLOAT32     54, 68  66, 90  90, 119  130, 172  120, 152  126, 171  126, 183  102, 30
    MAX    UINT8       13, 35  20, 68  46, 99   107, 125  132, 185  147, 179            136, 178

    columns of n by c  28, 56  56, 56  128, 14  128, 56   128, 256  512, 64   512, 256
    SUM    FLOAT32     98, 81  86, 80  74, 83   106, 134  108, 151  45, 102   106, 78
    MAX    UINT8       72, 90  80, 103 54, 57   90, 137   140, 150  103, 144  98, 148

Its sums are as close as the others: of 4096 uniform numbers within 1.6 ulp along rows, 1.1 along
columns, the others within 2.2.
"""

import os
import sys
from collections.abc import Sequence
from platform import machine
from typing import Any

import jax
import numpy as np

from dml_jax.lowering import loops_cpu
from dml_jax.lowering.devices.along import ALONG
from dml_jax.lowering.folds.extreme import MAX, MIN
from dml_jax.lowering.folds.fold import last_run
from dml_jax.lowering.folds.one_value import SUM
from dml_jax.lowering.folds.placed import Folded
from dml_jax.lowering.stored_cpu import in_memory
from dml_jax.lowering.whole_programs.equations import bound, evaluated

# Shorter rows, and columns of fewer rows or of other lengths, are slower by it.
SUM_ROW, SUM_ROWS, SUM_COLUMNS = 25, 28, range(14, 65)
BYTES_ROW, BYTES_ROWS, BYTES_COLUMNS = 13, 28, range(56, 257)
# So are longer rows on two cores.
SUM_LONG, BYTES_LONG = 128, 200
# More cores gain by more columns, of more rows; of few longer rows yet it leaves some idle.
ROWS_OF_MANY, COLUMNS_OF_MANY = 128, range(14, 257)
SUM_LONGEST, BYTES_LONGEST = 2**13, 2**16
# Elements of FLOAT32 that caches may hold. Of no more, long rows too are summed faster on two
# cores: 2097152, GB/s, in rows of 512 64, 79, of 4096 79, 87, of squares of 256 55, 91, all at once
# 44, 77; from memory they take up to a tenth longer.
CACHED = 2**22


def is_there() -> bool:
    """Whether XLA has the library: it was found on these machines, and may be switched off.

    Its loops would be slow without: MAX of UINT8 in 60000 rows of 200 8 ms in place of 0.15.
    """
    flag, flags = "xla_cpu_experimental_ynn_fusion_type", os.environ.get("XLA_FLAGS", "")
    return sys.platform == "linux" and machine() == "x86_64" and flag not in flags


def by_library(program: Any) -> Any | None:
    """The traced program with XLA's own reductions where they are faster; None where none is.

    What they leave is stored: of a difference to a maximum of bytes XLA's library makes another,
    which does not wrap.
    """
    if not is_there():
        return None
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
            return in_memory(eqn.params["what"].plain(*operands, eqn.params["axes"]))
        return bound(eqn, operands)

    return jax.make_jaxpr(lambda *xs: evaluated(program, xs, step))(*program.in_avals)


def _is_faster(what: Any, x: Any, axes: Sequence[int]) -> bool:
    """As the last of the axes tell, which the elements of a row or a column are along."""
    if not isinstance(what, Folded) or loops_cpu.is_little(x.shape):
        return False
    n, c = last_run(x.shape, axes)
    are_few = loops_cpu.CORES <= 2
    if what.kind is SUM and x.dtype == np.float32:
        if c > 1:
            few, columns = (SUM_ROWS, SUM_COLUMNS) if are_few else (ROWS_OF_MANY, COLUMNS_OF_MANY)
            return n >= few and c in columns
        if are_few and n > SUM_LONG:
            return x.size <= CACHED and (n <= SUM_LONGEST or n == x.size)
        return SUM_ROW <= n <= SUM_LONGEST
    if what.kind in (MAX, MIN) and x.dtype.kind in "iu" and x.dtype.itemsize == 1:
        if c > 1:
            return n >= BYTES_ROWS and c in BYTES_COLUMNS
        return BYTES_ROW <= n <= (BYTES_LONG if are_few else BYTES_LONGEST)
    return False
