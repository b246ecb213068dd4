"""The base of all operators: from a declaration and its facts, the checks, and the call.

The class `Operator` is built in steps, each a module: `declaration` reads the fields, `checks`
finds faults, `inference` finds outputs that follow from the inputs, and `base` has the call.
`registry` finds operators by name, and `fused` has activations without tensors.
"""

from dml_jax.operator.base import OPERATORS, Operator, operator_from_json, operator_type
from dml_jax.operator.declaration import Rule, rule
from dml_jax.operator.fused import FusedActivation
from dml_jax.operator.inference import Fitted, with_rank
from dml_jax.operator.samples import typical_sizes

__all__ = [
    "OPERATORS",
    "Fitted",
    "FusedActivation",
    "Operator",
    "Rule",
    "operator_from_json",
    "operator_type",
    "rule",
    "typical_sizes",
    "with_rank",
]
