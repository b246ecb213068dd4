"""Whole programs that end in what becomes of a reduction's results: on a GPU in its kernel.

XLA has another kernel where that has another operand, as AVERAGE has the number of elements. H200,
jax 0.11.2, us, AVERAGE of FLOAT32 [4, 64, 256, 256], as it is and so: over 3 20.9, 18.1; 2 19.1,
17.9; (1, 2) 21.3, 20.6; (2, 3) 21.2, 19.5; all 19.5, 18.4.

Inside of a user's program XLA may make one kernel of a reduction and of what reads its results
beside the elements again, such as `x - average(x)`; but not if there is an `epilogue`.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import Literal

from dml_jax.lowering.by_other_loops import BY_OTHER_LOOPS
from dml_jax.lowering.devices.along import ALONG
from dml_jax.lowering.epilogue import epilogue
from dml_jax.lowering.folds.fold import last_run
from dml_jax.lowering.whole_programs.equations import (
    bound,
    evaluated,
    maps_elements,
    variables,
)

# Of shorter columns XLA's Triton makes a kernel, which takes none: over 1 20.9, 26.9.
LONG_COLUMN = 2**8


def rewritten(program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The results of a traced program; None where it does not end so."""
    last = _behind_a_reduction(program.jaxpr)
    if not any(isinstance(var, Literal) for eqn in last for var in eqn.invars):
        return None

    def become(x: jax.Array) -> jax.Array:
        for eqn in last:
            (x,) = bound(eqn, [v.val if isinstance(v, Literal) else x for v in eqn.invars])
        return x

    def step(eqn: Any, operands: Sequence[Any]) -> Sequence[Any]:
        if eqn not in last:
            return bound(eqn, operands)
        both = zip(operands, eqn.invars, strict=True)
        (x,) = (x for x, var in both if not isinstance(var, Literal))
        return [epilogue(become, x) if eqn is last[-1] else x]

    return evaluated(program, xs, step)


def _behind_a_reduction(jaxpr: Any) -> list[Any]:
    """The equations behind one, where each maps what the one before it gives."""
    made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
    inputs, last = [*variables(jaxpr.outvars)], []
    while len(inputs) == 1 and inputs[0] in made:
        eqn = made[inputs[0]]
        if eqn.primitive is BY_OTHER_LOOPS:  # on a CPU
            inputs = eqn.invars
            continue
        if eqn.primitive.name == "broadcast_in_dim":  # of the axes, restored
            return last if _is_reduction(made.get(next(variables(eqn.invars), None))) else []
        if not maps_elements(eqn):
            return []
        inputs, last = [*variables(eqn.invars)], [eqn, *last]
    return []


def _is_reduction(eqn: Any) -> bool:
    """Of rows, or of long columns."""
    if eqn is None or eqn.primitive is not ALONG:
        return False
    x, axes = eqn.invars[0].aval, eqn.params["axes"]
    n, behind = last_run(x.shape, axes)
    return n >= (LONG_COLUMN if behind > 1 else 2)
