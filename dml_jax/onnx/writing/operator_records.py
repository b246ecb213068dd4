"""The records of functions that write an operator as nodes of ONNX."""

from collections.abc import Callable
from typing import Any

from dml_jax import facts

Exporter = Callable[..., Any]

EXPORTERS: dict[str, Exporter] = {}
"""What writes an operator, by its name without DML_OPERATOR_."""

_ALIKE = {"ELEMENT_WISE_TANH": "Tanh", "ACTIVATION_IDENTITY": "Identity"}
"""Op types of operators that have another one's beside them, which the facts of names have."""


class Unfit(Exception):  # noqa: N818
    """Says that nodes do not compute what a use of an operator does: its program is written."""


def exports(*operators: str, prefix: str = "") -> Callable[[Exporter], Exporter]:
    """Register what writes some operators, whose names begin with `prefix`.

    It takes a writer, the operator (of a fused activation its attributes), and the value of each
    input tensor that the operator may have, the first after its scale and bias. It returns the
    value or values of the outputs that are described, before a fused activation.
    """

    def register(exporter: Exporter) -> Exporter:
        EXPORTERS.update({prefix + name: exporter for name in operators})
        return exporter

    return register


def only(fits: bool) -> None:
    """Raise `Unfit` where a use of an operator does not fit its nodes."""
    if not fits:
        raise Unfit


def op_type_of(operator: Any) -> str:
    """Return the op type that ONNX has for an operator, in all versions of it."""
    name = operator.short_name.rstrip("12")
    return _ALIKE.get(name) or facts.names()[name]["onnx"][0]
