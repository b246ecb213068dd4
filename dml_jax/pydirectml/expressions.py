"""Expressions, of which graphs are built, and the activations that operators apply."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from dml_jax import (
    functional,  # noqa: F401  (registers what the signs of expressions mean)
    graph,
)
from dml_jax.description import descriptor
from dml_jax.errors import Unquoted
from dml_jax.operator import FusedActivation as Fused
from dml_jax.operator import Operator, operator_type
from dml_jax.operators.windowed import Windowed
from dml_jax.pydirectml.arguments import NUMBERS, converts_arguments, refuse, with_own_errors
from dml_jax.pydirectml.enumerations import Member, OperatorType
from dml_jax.pydirectml.tensors import TensorDesc

__all__ = ["Expression", "FusedActivation", "Size2D"]


class Size2D:
    """A width and a height."""

    @converts_arguments
    def __init__(self, width: int, height: int, /) -> None:
        self.width, self.height = width, height


class FusedActivation:
    """An activation that an operator applies to its result.

    Args:
        activation: the activation; INVALID is none.
        param_1, param_2: its parameters in the order of its structure, such as alpha and beta.
    """

    @converts_arguments
    def __init__(self, activation: OperatorType, param_1: float = 0, param_2: float = 0) -> None:
        self._activation, self._parameters = activation, (param_1, param_2)

    def _operator(self) -> Fused | None:
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
            return node(name, {"a": self, "b": other})
        if isinstance(other, NUMBERS) and with_number is not None:
            return with_number(self, float(other))
        return NotImplemented

    return method


def _scale(scale: Callable[[float], float], bias: Callable[[float], float]) -> Any:
    """Return the function that computes x * scale(f) + bias(f) of an expression and a number."""

    def function(x: "Expression", f: float) -> "Expression":
        pair = descriptor.ScaleBias(scale=scale(f), bias=bias(f))
        return node("ELEMENT_WISE_IDENTITY", {"input": x, "scale_bias": pair})

    return function


def _divide(x: "Expression", f: float) -> "Expression":
    if f == 0:
        raise refuse("Expression", "the divisor", "not be 0", f)
    return _scale(lambda f: 1 / f, lambda f: 0)(x, f)


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
        return node("ELEMENT_WISE_NEGATE", {"input": self})

    def _reciprocal(self, f: float) -> "Expression":
        return Expression._of(with_own_errors(lambda: f / self._there))

    __add__ = _calls("ELEMENT_WISE_ADD", _scale(lambda f: 1, lambda f: f))
    __radd__ = __add__
    __sub__ = _calls("ELEMENT_WISE_SUBTRACT", _scale(lambda f: 1, lambda f: -f))
    __rsub__ = _calls("ELEMENT_WISE_SUBTRACT", _scale(lambda f: -1, lambda f: f))
    __mul__ = _calls("ELEMENT_WISE_MULTIPLY", _scale(lambda f: f, lambda f: 0))
    __rmul__ = __mul__
    __truediv__ = _calls("ELEMENT_WISE_DIVIDE", _divide)
    __rtruediv__ = _calls("ELEMENT_WISE_DIVIDE", _reciprocal)
    __mod__ = _calls("ELEMENT_WISE_MODULUS_TRUNCATE")


def node(name: str, arguments: Mapping[str, Any], outputs: Sequence[str] | None = None) -> Any:
    """Return the output, or outputs, of the operator `name` of expressions.

    Of `arguments`, `a` is the field `a`, or the tensor of the field `a_tensor` or `a_tensors`.
    `outputs` has the fields of the outputs to make; None makes all.
    """
    kind, given = operator_type(name), list[graph.Expression]()
    known, fields = {f.name: f for f in kind.fields}, dict[str, Any]()
    for argument, value in arguments.items():
        word = argument
        # PyDirectML's names of arguments are those of fields without their ending.
        spellings = (word, f"{word}_tensor", f"{word}_tensors", word.removesuffix("s"))
        f = next((known[spelling] for spelling in spellings if spelling in known), None)
        if f is None:  # the sizes of the output, where [] lets them follow
            fields[argument] = value or None
        elif f.tensor is None:
            fields[f.name] = value
        elif f.optional and (value is None or value._source is None):
            fields[f.name] = None
        else:
            sources = _sources(f.name, value if f.is_array else [value])
            descs = [source.desc for source in sources]
            fields[f.name] = descs if f.is_array else descs[0]
            given += sources
    return with_own_errors(lambda: _apply(kind, given, fields, outputs))


def _sources(field: str, expressions: Sequence["Expression | None"]) -> list[graph.Expression]:
    """Return the expressions of a graph. Raises `PyDirectMLError` where one is empty."""
    if not expressions:
        raise refuse("Expression", field, "have at least 1 expression", [])
    found = [e._source for e in expressions if e is not None and e._source is not None]
    if len(found) < len(expressions):
        raise refuse("Expression", field, "be computed", Unquoted("an empty expression"))
    return found


def _apply(
    kind: type[Operator],
    given: Sequence[graph.Expression],
    fields: Mapping[str, Any],
    outputs: Sequence[str] | None,
) -> Any:
    described = {name: _field_value(value) for name, value in fields.items()}
    if issubclass(kind, Windowed):
        described = kind.filled(described)
    made = given[0].builder.apply(kind.infer(**described, outputs=outputs), *given)
    several = isinstance(made, tuple)
    return tuple(map(Expression._of, made)) if several else Expression._of(made)


def _field_value(value: Any) -> Any:
    match value:
        case Member():
            return value.name
        case FusedActivation():
            return value._operator()
        case Size2D():
            return descriptor.Size2D(width=value.width, height=value.height)
        case list():
            return [_field_value(item) for item in value]
    return value


OPERATORS: dict[str, str] = {}
"""The operator that each function of PyDirectML adds, by the function's name."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def adds(
    name: str,
    results: Callable[..., Any] | None = None,
    option: str = "",
    outputs: Mapping[Any, Sequence[str]] = {},
) -> Callable[[_Function], _Function]:
    """Return the decorator that turns a signature into the function that adds the operator `name`.

    `results` makes the result of several outputs; an output that is not asked for is empty. The
    argument `option` chooses the outputs, by their fields in `outputs` for each of its values.
    """

    def decorate(signature: _Function) -> _Function:
        @functools.wraps(signature)
        def function(*positional: Any, **named: Any) -> Any:
            bound = inspect.signature(signature).bind(*positional, **named)
            bound.apply_defaults()
            arguments = bound.arguments
            if results is None:
                return node(name, arguments)
            chosen = outputs[arguments.pop(option)]
            made = node(name, arguments, chosen)
            found = dict(zip(chosen, made if isinstance(made, tuple) else (made,), strict=True))
            fields = [f.name for f in operator_type(name).outputs_of()]
            return results(*(found.get(field, Expression()) for field in fields))

        OPERATORS[signature.__name__] = name
        return converts_arguments(cast(_Function, function))

    return decorate
