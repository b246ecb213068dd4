"""Whole programs that sum short rows of what they are given, on a CPU: by XLA's own sum.

XLA does not fuse its own with what makes the rows, which here nothing does. And the package's keeps
beside a sum whether there was NaN, for LLVM to vectorise sums of squares and of FLOAT16; sums of
FLOAT32 in rows of these lengths it vectorises better without. 2 cores, jax 0.10.2, 2026-11-26, GB/s
of 33 MB, as it is and so, rows of 13 14, 16; 17 14, 22; 31 13, 25; 33 15, 29; 49 12, 28; 50 to 96
no difference; 97 18, 30; 100 to 196 none. [64, 2048, 7, 7] over (2, 3) 14, 27; over (0, 2, 3) 14,
25; INT32 in rows of 49 29, 27.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr

from dml_jax.lowering.axes import Axes
from dml_jax.lowering.devices.along import ALONG
from dml_jax.lowering.folds.cpu import SHORT_ROW
from dml_jax.lowering.folds.one_value import SUM
from dml_jax.lowering.folds.placed import Folded
from dml_jax.lowering.loops_cpu import is_little
from dml_jax.lowering.whole_programs.equations import Operands, bound, retraced

LENGTHS = range(SHORT_ROW + 1, 128)


def summed(program: ClosedJaxpr) -> ClosedJaxpr | None:
    """The program with such sums by themselves; None where it has none."""
    given = program.jaxpr.invars
    chosen = [eqn for eqn in program.jaxpr.eqns if eqn.primitive is ALONG and _gains(eqn, given)]
    if not chosen:
        return None

    def step(eqn: Any, operands: Operands) -> Operands:
        if eqn not in chosen:
            return bound(eqn, operands)
        (x,), axes = operands, eqn.params["axes"]
        rows = _rows(x.shape, axes)
        y = lax.reduce_sum(x, rows)
        others = tuple(a for a in axes if a not in rows)
        return ALONG.bind(y, **eqn.params | {"axes": others}) if others else [y]

    return retraced(program, step)


def _gains(eqn: Any, given: Any) -> bool:
    """Whether it is the sum of such rows of an input."""
    (x,) = eqn.invars
    length = math.prod(x.aval.shape[a] for a in _rows(x.aval.shape, eqn.params["axes"]))
    is_given = x in given and x.aval.dtype == jnp.float32 and not is_little(x.aval.shape)
    return is_given and length in LENGTHS and eqn.params["what"] == Folded(SUM)


def _rows(shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """The axes that are reduced and have neighbours in memory."""
    rows = list[int]()
    for a in reversed(range(len(shape))):
        if a in axes:
            rows.append(a)
        elif shape[a] > 1:
            break
    return tuple(sorted(rows))
