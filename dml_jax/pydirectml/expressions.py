"""Expressions, of which graphs are built, and the activations that operators apply."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dml_jax import (
    functional,  # noqa: F401  (registers what the signs of expressions mean)
    graph,
)
from dml_jax.description.descriptor import ScaleBias
from dml_jax.errors import Unquoted
from dml_jax.operator import FusedActivation as Fused
from dml_jax.operator import operator_type
from dml_jax.pydirectml.arguments import NUMBERS, checked, guarded, refuse
from dml_jax.pydirectml.enumerations import Member, OperatorType
from dml_jax.pydirectml.tensors import TensorDesc


class Size2D:
    """A width and a height."""

    @checked
    def __init__(self, width: int, height: int, /) -> None:
        self.width, self.height = width, height


class FusedActivation:
    """An activation that an operator applies to its result.

    Args:
        activation: the activation; INVALID is none.
        param_1, param_2: its parameters in the order of its structure, such as alpha and beta.
    """

    @checked
    def __init__(self, activation: OperatorType, param_1: float = 0, param_2: float = 0) -> None:
        self._activation, self._parameters = activation, (param_1, param_2)

    def _fused(self) -> Fused | None:
        if self._activation is OperatorType.INVALID:
            return None
        kind = operator_type(self._activation.name)
        names = [f.name for f in kind.fields if not f.tensor]
        return Fused(kind, **dict(zip(names, self._parameters, strict=False)))


NO_ACTIVATION = FusedActivation(OperatorType.INVALID)


def _calls(name: str, with_number: Callable[..., Any] | None = None) -> Any:
    """Return the method that applies the operator `name`, or `with_number` to a number."""

    def method(self: "Expression", other: Any) -> Any:
        if isinstance(other, Expression):
            return node(name, {"a_tensor": self, "b_tensor": other})
        if isinstance(other, NUMBERS) and with_number is not None:
            return with_number(self, float(other))
        return NotImplemented

    return method


def _scaled(scale: Callable[[float], float], bias: Callable[[float], float]) -> Any:
    """Return the function that computes x * scale(f) + bias(f) of an expression and a number."""

    def function(x: "Expression", f: float) -> "Expression":
        pair = ScaleBias(scale=scale(f), bias=bias(f))
        return node("ELEMENT_WISE_IDENTITY", {"input_tensor": x}, scale_bias=pair)

    return function


def _divided(x: "Expression", f: float) -> "Expression":
    if f == 0:
        raise refuse("Expression", "the divisor", "not be 0", f)
    return _scaled(lambda f: 1 / f, lambda f: 0)(x, f)


class Expression:
    """A tensor of a graph that is not built yet.

    It has the operators `+ - * / %` with expressions, `+ - * /` with numbers, and `-`.
    """

    __array_ufunc__ = None  # so that NumPy's numbers leave their operators to it

    def __init__(self) -> None:
        self._source: graph.Expression | None = None

    @classmethod
    def _of(cls, source: graph.Expression) -> "Expression":
        made = cls()
        made._source = source
        return made

    @property
    def _there(self) -> graph.Expression:
        if self._source is None:
            raise refuse("Expression", "an expression", "be computed", Unquoted("an empty one"))
        return self._source

    def get_output_desc(self) -> TensorDesc:
        """Return the type, sizes and layout of the tensor."""
        return TensorDesc._of(self._there.desc)

    def __neg__(self) -> "Expression":
        return node("ELEMENT_WISE_NEGATE", {"input_tensor": self})

    def _reciprocal(self, f: float) -> "Expression":
        return Expression._of(guarded(lambda: f / self._there))

    __add__ = _calls("ELEMENT_WISE_ADD", _scaled(lambda f: 1, lambda f: f))
    __radd__ = __add__
    __sub__ = _calls("ELEMENT_WISE_SUBTRACT", _scaled(lambda f: 1, lambda f: -f))
    __rsub__ = _calls("ELEMENT_WISE_SUBTRACT", _scaled(lambda f: -1, lambda f: f))
    __mul__ = _calls("ELEMENT_WISE_MULTIPLY", _scaled(lambda f: f, lambda f: 0))
    __rmul__ = __mul__
    __truediv__ = _calls("ELEMENT_WISE_DIVIDE", _divided)
    __rtruediv__ = _calls("ELEMENT_WISE_DIVIDE", _reciprocal)
    __mod__ = _calls("ELEMENT_WISE_MODULUS_TRUNCATE")


def node(name: str, inputs: Mapping[str, Any], **fields: Any) -> Any:
    """Return the output, or outputs, of an operator of expressions.

    Args:
        name: the operator.
        inputs: its input tensors by field: an expression, a list of such, or None.
        fields: its attributes; `output_sizes` and `outputs` as of `Operator.infer`.
    """
    given: list[graph.Expression] = []
    for f, value in inputs.items():
        listed = value if isinstance(value, list) else [value]
        if not isinstance(value, list) and (value is None or value._source is None):
            if not any(f == field.name and field.optional for field in operator_type(name).fields):
                raise refuse("Expression", f, "be computed", Unquoted("an empty expression"))
            fields[f] = None
            continue
        sources = [expression._there for expression in listed]
        descs = [source.desc for source in sources]
        fields[f] = descs if isinstance(value, list) else descs[0]
        given += sources
    return guarded(lambda: _applied(name, given, fields))


def _applied(name: str, given: Sequence[graph.Expression], fields: dict[str, Any]) -> Any:
    for field, value in fields.items():
        if isinstance(value, Member):
            fields[field] = value.name
        elif isinstance(value, FusedActivation):
            fields[field] = value._fused()
    made = given[0].builder.apply(operator_type(name).infer(**fields), *given)
    several = isinstance(made, tuple)
    return tuple(map(Expression._of, made)) if several else Expression._of(made)
