"""What exporters of operators read, and the records that `dml_jax.onnx.writing.exporters` has."""

from collections.abc import Callable
from typing import Any

from dml_jax import facts
from dml_jax.onnx.writing.writer import Value, Writer

Exporter = Callable[["Use"], Any]

EXPORTERS: dict[str, Exporter] = {}
"""What writes an operator, by its name without DML_OPERATOR_."""

_ALIKE = {"ELEMENT_WISE_TANH": "Tanh", "ACTIVATION_IDENTITY": "Identity"}
"""Op types of operators that have another one's beside them, which the facts of names have."""


def exports(*operators: str, prefix: str = "") -> Callable[[Exporter], Exporter]:
    """Register what writes some operators, whose names begin with `prefix`.

    It takes a `Use`, and returns the value or values of the outputs that are described, before a
    fused activation; NotImplemented where the traced program is written instead.
    """

    def register(exporter: Exporter) -> Exporter:
        EXPORTERS.update({prefix + name: exporter for name in operators})
        return exporter

    return register


class Use:
    """An operator as its exporter reads it.

    `use.input_tensor` is the value of the field `input_tensor`: a list for a field of tensors, None
    for one that is left out. Other names are fields of the operator.

    Args:
        writer: adds nodes.
        operator: the operator, or the attributes of a fused activation.
        inputs: the values of its input tensors, by field.
    """

    def __init__(self, writer: Writer, operator: Any, inputs: dict[str, Any]):
        self.writer, self.operator, self._inputs = writer, operator, inputs

    def __getattr__(self, name: str) -> Any:
        return self._inputs[name] if name in self._inputs else getattr(self.operator, name)

    @property
    def op_type(self) -> str:
        """Return the op type that ONNX has for the operator, in all versions of it."""
        name = self.operator.short_name.rstrip("12")
        return _ALIKE.get(name) or facts.names()[name]["onnx"][0]

    @property
    def scaled(self) -> Value:
        """Return the first input times the scale plus the bias, if there are any."""
        x: Value = next(iter(self._inputs.values()))
        w, by = self.writer, getattr(self.operator, "scale_bias", None)
        if by is None:
            return x
        return w("Add", w("Mul", x, w.like(by.scale, x)), w.like(by.bias, x))
