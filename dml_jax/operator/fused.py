"""Activations without tensors, which an operator applies to its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax

from dml_jax import constraints
from dml_jax.description.fields import Described
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, nearest, raise_if, refused
from dml_jax.operator.declared import Declared
from dml_jax.operator.registry import OPERATORS, named


@dataclass(init=False, repr=False, eq=False, frozen=True, slots=True)
class FusedActivation:
    """An activation without tensors, which an operator applies to its result.

    Made by `ActivationRelu.fused()`, or `ActivationElu.fused(alpha=0.5)`.

    Attributes:
        operator: the activation's class.
        attributes: its attributes, by field.
    """

    operator: type[Declared]
    attributes: dict[str, Any]

    def __init__(self, operator: type[Declared], /, **attributes: Any):
        if not callable(getattr(operator, "function", None)):
            name = getattr(operator, "c_name", repr(operator))
            raise DmlError([Fault(name, "", "be an activation", Unquoted(name))])
        faults: list[Fault] = []
        plain = [f for f in operator.fields if not f.tensor]
        tensors = [f for f in operator.fields if f.tensor]
        for f in tensors:
            if attributes.get(f.name) is not None:
                rule = "be left out: an activation that is fused has no tensors"
                faults.append(Fault(operator.c_name, f.c_name, rule, attributes.pop(f.name)))
        operator._fill(attributes, faults, operator._convert(attributes, faults), tensors)
        expect, view = Expect(operator.c_name), operator.view(attributes)
        constraints.check(operator.records(), view, expect, set(), max(FeatureLevel))
        faults += expect.faults
        raise_if(faults)
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "attributes", {f.name: attributes.get(f.name) for f in plain})

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the activation of floats `x`, in the type of `x`."""
        attributes = dict(self.attributes)
        scale_bias = attributes.pop("scale_bias", None)
        if scale_bias is not None:
            x = x * x.dtype.type(scale_bias.scale) + x.dtype.type(scale_bias.bias)
        return self.operator.function(x, **attributes)

    @property
    def introduced(self) -> FeatureLevel:
        """The feature level that introduced the activation."""
        return self.operator.support.introduced

    # As constraint records read it.

    @property
    def Type(self) -> str:  # noqa: N802
        """The name of the activation, as in constraint records."""
        return self.operator.short_name

    InputTensor = OutputTensor = None

    def to_json(self) -> dict[str, Any]:
        """Return {"Type", and the attributes beside it}, as DxDispatch's JSON has it."""
        values = {
            f.c_name: f.kind.to_json(self.attributes[f.name])
            for f in self.operator.fields
            if not f.tensor and self.attributes[f.name] is not None
        }
        return {"Type": self.operator.c_name, **values}

    @classmethod
    def named(cls, name: str) -> "FusedActivation":
        """Return the activation `"RELU"`, `"ACTIVATION_RELU"` or `"DML_OPERATOR_ACTIVATION_RELU"`.

        Raises `DmlError` where there is none of this name, or where it needs attributes.
        """
        prefix = "DML_OPERATOR_ACTIVATION_"
        word = name.removeprefix("DML_OPERATOR_").removeprefix("ACTIVATION_")
        operator = OPERATORS.get(prefix + word)
        if operator is None or not callable(getattr(operator, "function", None)):
            known = [n.removeprefix(prefix) for n in OPERATORS if n.startswith(prefix)]
            raise refused(f'be an activation, as "RELU"{nearest(word, known)}', name)
        return cls(operator)

    @classmethod
    def from_json(cls, value: Any) -> "FusedActivation":
        """Return the activation that `to_json` gave `value`. Raises `DmlError`."""
        operator, fields = named(value)
        if not isinstance(fields, Mapping):
            raise DmlError([Fault(operator.c_name, "", "be an object", fields)])
        faults: list[Fault] = []
        given = {name: item for name, item in fields.items() if item is not None}
        attributes, _ = operator._read(given, faults)
        raise_if(faults)
        return cls(operator, **attributes)

    def _key(self) -> tuple[Any, ...]:
        kinds = {f.name: f.kind for f in self.operator.fields}
        values = self.attributes.items()
        return self.operator.c_name, *(None if v is None else kinds[n].key(v) for n, v in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FusedActivation) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return _fused_again, (self.operator.c_name, self.attributes)

    def __repr__(self) -> str:
        kinds = {f.name: f.kind for f in self.operator.fields}
        values = [f"{n}={kinds[n].shown(v)}" for n, v in self.attributes.items() if v is not None]
        return f"{self.operator.__name__}.fused({', '.join(values)})"


def _fused_again(c_name: str, attributes: Mapping[str, Any]) -> FusedActivation:
    return FusedActivation(OPERATORS[c_name], **attributes)


class Fused(Described):
    """DML_OPERATOR_DESC without tensors: an activation that is applied to the result."""

    c_type = "DML_OPERATOR_DESC"

    def convert(self, value: Any) -> FusedActivation:
        if isinstance(value, type) and hasattr(value, "fused"):
            return FusedActivation(value)
        if isinstance(value, str):
            return FusedActivation.named(value)
        if not isinstance(value, FusedActivation):
            raise refused('be an activation, as "RELU" or ActivationElu.fused(alpha=0.5)', value)
        return value

    def from_json(self, value: Any, siblings: Mapping[str, Any]) -> FusedActivation:
        return FusedActivation.from_json(value)
