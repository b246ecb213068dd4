"""What a function is, from its entry in `dml_jax.facts`: its signature, text and versions."""

import ast
import collections
import functools
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from dml_jax import facts
from dml_jax.description.fields import Choice, Field
from dml_jax.enums import TensorDataType
from dml_jax.functional import hints
from dml_jax.functional.cache_keys import either_key, tensor_key, value_key
from dml_jax.operator import OPERATORS, Operator
from dml_jax.operator.documentation import Documentation

_SPELLINGS = {"window_size": "window_sizes", "window_sizes": "window_size"}
"""Arguments that DirectMLX spells in two ways: a pool takes both."""

_SAID = {  # arguments that give no field
    "batch_size": "The number of images.",
    "compute_output_gradient": "Whether to return the gradient of the input.",
    "compute_output_roi_gradient": "Whether to return the gradient of the regions.",
    "exponent": "The power: an array, or a number, which an array of integers reads as its type.",
    "graph": "The GraphBuilder that gets a node; without one, an array is returned.",
    "image_height": "The height of the images.",
    "image_width": "The width of the images.",
    "output_axis_sizes": "The size of each piece along the axis.",
    "output_data_type": "The type of the result.",
    "output_gradient_sizes": "The sizes of the input that was sliced.",
    "output_height": "The height of each region in the result.",
    "output_indices": "Whether to return where each largest element lies, too.",
    "output_length": "The size of the result along the axis.",
    "output_options": "The results to return: Both, Sequence or Single.",
    "output_state": "Whether to return the generator's next state, too.",
    "output_sizes": "The sizes of the result. Of several results: the sizes of the first, a list "
    "for each result, or a dictionary by field.",
    "output_width": "The width of each region in the result.",
    "target_data_type": "The type of the result.",
}


class _Required:
    """The default of an argument that has to be given, behind others that may be left out."""

    def __repr__(self) -> str:
        return "..."  # `help` shows it


REQUIRED = _Required()


class Family:
    """What a function knows of its operator's versions, from its entry in `dml_jax.facts`."""

    def __init__(self, name: str):
        entry = facts.functions()[name]
        self.name = name
        self.operators: list[type[Operator]] = [
            OPERATORS[f"{facts.PREFIX}{op}"] for op in entry["operators"]
        ]
        self.fields: Mapping[str, str] = entry.get("fields", {})
        self.results: Sequence[str] = entry.get("results", ())
        self.conditions: Sequence[str] = entry.get("conditions", ())
        self.returns: str = entry.get("returns", "")
        parameters = [_parameter(text) for text in entry["arguments"]]
        if any(_is_generator(op) for op in self.operators):
            parameters.append(_parameter("graph=None"))
        self.signature = inspect.Signature(parameters)
        self.defaults = {p.name: p.default for p in parameters}
        self.spellings = {
            other: name for name, other in _SPELLINGS.items() if name in self.defaults
        }
        self.tensors = {
            p.name
            for p in parameters
            for op in self.operators
            if (f := self.field_of(op, p.name)) and f.tensor and not f.tensor.output
        }
        self.outputs = _named_tuple(name, self.results) if self.results else None

    def key_of(self, argument: str) -> Callable[[Any], Any]:
        """Return what makes the key by which a call is kept, of the value of an argument."""
        if argument not in self.tensors:
            return value_key
        fields = [f for op in self.operators if (f := self.field_of(op, argument)) is not None]
        return tensor_key if all(f.tensor for f in fields) else either_key

    @functools.cache  # noqa: B019  (a family is there for good)
    def field_of(self, operator: type[Operator], argument: str) -> Field | None:
        """Return the field of a version that an argument gives."""
        name = self.fields.get(argument, argument)
        known = {f.name: f for f in operator.fields}
        names = (name, f"{name}_tensor", f"{name}_tensors")
        return next((known[n] for n in names if n in known), None)

    @property
    def documentation(self) -> str:
        """The docstring: the first version's summary, the arguments, the results, the versions."""
        first = self.operators[0]
        summary = inspect.cleandoc(first.__doc__ or "").split("\n\n")[0]
        versions = " or ".join(op.c_name for op in self.operators)
        several = f"Returns a named tuple of {', '.join(self.results)}." if self.results else ""
        returned = textwrap.fill(" ".join(filter(None, (several, self.returns))), 92)
        entries = (f"{name}: {self._said_of(name)}" for name in self.defaults)
        lines = [
            textwrap.fill(e, 92, initial_indent="    ", subsequent_indent=" " * 8) for e in entries
        ]
        arguments = "\n".join(["Args:", *lines])
        parts = (summary, returned, arguments, f"Makes {versions}.")
        return "\n\n".join(part for part in parts if part)

    def _said_of(self, argument: str) -> str:
        """Return what an argument is: the words of the field that it gives."""
        if argument in _SAID:
            return _SAID[argument]
        for operator in self.operators:
            f = self.field_of(operator, argument)
            if f is not None and not (f.tensor and f.tensor.output):
                said = Documentation.of(operator).fields[f.name]
                members = f.kind.enumeration if isinstance(f.kind, Choice) else ()
                names = [m.suffix for m in members if not isinstance(m, TensorDataType)]
                is_short = names and not any(name in said for name in names)
                return f"{said} One of {', '.join(names)}." if is_short else said
        return f"The {argument.replace('_', ' ')}."

    def bound(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name. Raises `TypeError` where they do not fit the signature."""
        required = [n for n, d in self.defaults.items() if d in (inspect.Parameter.empty, REQUIRED)]
        try:
            bound = self.signature.bind_partial(*positional, **named).arguments
            missing = [name for name in required if name not in bound]
            if not missing:
                hints.warn_of_order(self.name, [*self.defaults], positional)
                return bound
            text = hints.missing(self.name, missing, bound.get(next(iter(self.defaults))))
            last = [*self.defaults][len(positional) - 1] if positional else ""
            if last and last not in self.tensors:  # as a k is taken for the axis before it
                text += f"; {positional[-1]!r} was read as {last}"
        except TypeError as error:
            text = str(error)
            if text.startswith("multiple values"):
                text += f" (the order is {', '.join(self.defaults)})"
            unknown = [
                f"{name!r}{hints.of_argument(self.name, name, self.defaults)}"
                for name in named
                if name not in self.defaults
            ]
            if unknown:
                one = "an unexpected argument" if len(unknown) == 1 else "unexpected arguments"
                text = f"got {one} {', '.join(unknown)}"
        raise TypeError(f"dml_jax.{self.name}: {text}") from None

    def returned(self, op: Operator) -> Callable[[Any], Any] | None:
        """Return what makes a named tuple of the results, with None for one that is left out."""
        if self.outputs is None:
            return None
        named, is_tuple = self.outputs, op.returns_tuple
        is_made = [getattr(op, f.name) is not None for f in op.outputs_of()]
        is_made += [False] * (len(self.results) - len(is_made))

        def returned(results: Any) -> Any:
            made = iter(results if is_tuple else (results,))
            return named(*(next(made) if there else None for there in is_made))

        return returned


def _named_tuple(function: str, results: Sequence[str]) -> Callable[..., Any]:
    """Return the class of several results, which names the first where it is used as an array."""
    called = f"{facts.class_name_of(function.upper())}Outputs"
    made: Any = collections.namedtuple(called, results, module=__package__)
    text = f"{called} is a tuple of several arrays: take .{results[0]}"

    def refuse(_: Any) -> Any:
        raise AttributeError(text)

    def join(own: Any, other: Any) -> Any:
        return (*own, *other) if isinstance(other, tuple) else refuse(own)

    of_arrays = (name for name in dir(jax.Array) if not name.startswith("_"))
    operators = (f"__{side}{name}__" for name in ("sub", "mul", "truediv") for side in ("", "r"))
    for name in {*of_arrays, *operators} - {*results}:
        setattr(made, name, property(refuse))
    made.__add__ = join
    made.__radd__ = lambda own, other: (*other, *own) if isinstance(other, tuple) else refuse(own)
    return made


def _parameter(text: str) -> inspect.Parameter:
    name, _, default = text.partition("=")
    value = ast.literal_eval(default) if default else inspect.Parameter.empty
    value = REQUIRED if value is ... else value
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)


def _is_generator(operator: type[Operator]) -> bool:
    """Return whether an operator may have no input: none has to be given, by no record either."""
    demanded = any("given(" in record.data.get("holds", "") for record in operator.records())
    inputs = [f for f in operator.fields if f.tensor and not f.tensor.output]
    return not demanded and all(f.optional for f in inputs)
