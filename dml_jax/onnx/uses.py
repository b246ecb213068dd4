"""What exporters of operators read, and their records: `dml_jax.onnx.exporters` has these."""

from collections.abc import Callable
from typing import Any

from dml_jax.onnx.writer import Value, Writer

Exporter = Callable[["Use"], Any]

EXPORTERS: dict[str, Exporter] = {}
"""What writes an operator, by its name without DML_OPERATOR_."""


def exports(*operators: str) -> Callable[[Exporter], Exporter]:
    """Register what writes some operators.

    It takes a `Use`, and returns the value or values of the outputs that are described, before a
    fused activation; NotImplemented where the traced program is written instead.
    """

    def register(exporter: Exporter) -> Exporter:
        EXPORTERS.update(dict.fromkeys(operators, exporter))
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
    def scaled(self) -> Value:
        """Return the first input times the scale plus the bias, if there are any."""
        x: Value = next(iter(self._inputs.values()))
        w, by = self.writer, getattr(self.operator, "scale_bias", None)
        if by is None:
            return x
        return w("Add", w("Mul", x, w.like(by.scale, x)), w.like(by.bias, x))
