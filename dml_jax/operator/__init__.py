"""The base of all operators: from a declaration and its facts, the checks, and the call.

`base` joins what the other modules have: `declared` what its class says, `contract` the checks of a
description, `inference` the outputs that follow, and `call` the call, which graphs have too.
"""

from collections.abc import Callable
from typing import Any

from dml_jax.operator import registry
from dml_jax.operator.base import Operator, operator_from_json
from dml_jax.operator.contract import Rule, rule
from dml_jax.operator.fused import Fused, FusedActivation
from dml_jax.operator.inference import Fitted, per_channel, with_rank
from dml_jax.operator.registry import Registry

OPERATORS: Registry[type[Operator]] = registry.OPERATORS
"""Every operator, by its full name (`DML_OPERATOR_REDUCE`)."""

operator_type: Callable[[Any], type[Operator]] = registry.operator_type

__all__ = [
    "OPERATORS",
    "Fitted",
    "Fused",
    "FusedActivation",
    "Operator",
    "Rule",
    "operator_from_json",
    "operator_type",
    "per_channel",
    "rule",
    "with_rank",
]
