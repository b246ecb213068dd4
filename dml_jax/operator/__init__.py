"""The base of all operators: from a declaration and its facts, the checks, and the call.

The class is built in steps, a module each: `declaration` has what is declared, `checks` what is
refused, `inference` the outputs that follow, `base` the call. `registry` finds operators by name,
and `fused` has activations without tensors.
"""

from dml_jax.operator.base import OPERATORS, Operator, operator_from_json, operator_type
from dml_jax.operator.declaration import Rule, rule
from dml_jax.operator.fused import FusedActivation
from dml_jax.operator.typical import typical_sizes

__all__ = [
    "OPERATORS",
    "FusedActivation",
    "Operator",
    "Rule",
    "operator_from_json",
    "operator_type",
    "rule",
    "typical_sizes",
]
