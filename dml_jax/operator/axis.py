"""An axis as a dimension from the start, or its fault."""

from typing import Any

from dml_jax.description.fields import Integer
from dml_jax.errors import moving
from dml_jax.operator.declared import Declared


def axis_of(operator: type[Declared], axis: Any, rank: int) -> int:
    """Return the axis of a tensor of `rank` dimensions, which the field Axis of an operator names.

    Raises `DmlError` where it is none of them.
    """
    with moving(operator.c_name, "Axis"):
        return Integer(0, rank - 1).convert(axis)
