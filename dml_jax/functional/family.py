"""The versions of an operator that one function makes, from its entry in `dml_jax.facts`."""

import ast
import collections
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dml_jax import beyond, facts
from dml_jax.description.fields import Field
from dml_jax.description.tensor import is_array
from dml_jax.enums import is_bfloat16
from dml_jax.errors import DmlError, Fault, Unquoted, collecting
from dml_jax.functional import hints
from dml_jax.functional.cache_keys import NUMBERS, either_key, tensor_key, value_key
from dml_jax.functional.call import Call, Place
from dml_jax.functional.descriptors import Arguments, in_float32, operator_of
from dml_jax.functional.inputs import (
    arrays_of,
    broadcast_targets,
    data_type_of,
    dtype_of,
    fitted_ranks,
    flat,
    shape_of,
    split_inputs,
    types_of_conditions,
    types_of_numbers,
)
from dml_jax.graph import Expression
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.operator import OPERATORS, Operator
from dml_jax.operator.documentation import Documentation

_BITS = "ELEMENT_WISE_BIT_"
_SAID = {  # arguments that give no field
    "compute_output_gradient": "Whether to return the gradient of the input.",
    "compute_output_roi_gradient": "Whether to return the gradient of the regions.",
    "graph": "The GraphBuilder that gets a node; without one, an array is returned.",
    "output_data_type": "The type of the result.",
    "output_options": "The results to return: Both, Sequence or Single.",
    "output_sizes": "The sizes of the result. Of several results: the sizes of the first, a list "
    "for each result, or a dictionary by field.",
}


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
        parameters = [_parameter(text) for text in entry["arguments"]]
        if any(_is_generator(op) for op in self.operators):
            parameters.append(_parameter("graph=None"))
        self.signature = inspect.Signature(parameters)
        self.defaults = {p.name: p.default for p in parameters}
        self.tensors = {p.name for p in parameters if any(self._reads(p.name))}
        self.outputs = (
            collections.namedtuple(
                f"{facts.class_name_of(name.upper())}Outputs", self.results, module=__package__
            )
            if self.results
            else None
        )

    def _reads(self, argument: str) -> Iterator[Field]:
        """Yield the tensor fields, of each version, that an argument gives."""
        for operator in self.operators:
            f = self.field_of(operator, argument)
            if f is not None and f.tensor and not f.tensor.output:
                yield f

    def key_of(self, argument: str) -> Callable[[Any], Any]:
        """Return what makes the key by which a call is kept, of the value of an argument."""
        if argument not in self.tensors:
            return value_key
        fields = [f for op in self.operators if (f := self.field_of(op, argument)) is not None]
        return tensor_key if all(f.tensor for f in fields) else either_key

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
        entries = (f"{name}: {self._said_of(name)}" for name in self.defaults)
        lines = [
            textwrap.fill(e, 92, initial_indent="    ", subsequent_indent=" " * 8) for e in entries
        ]
        arguments = "\n".join(["Args:", *lines])
        parts = (summary, arguments, several, f"Makes {versions}.")
        return "\n\n".join(part for part in parts if part)

    def _said_of(self, argument: str) -> str:
        """Return what an argument is: the words of the field that it gives."""
        if argument in _SAID:
            return _SAID[argument]
        for operator in self.operators:
            f = self.field_of(operator, argument)
            if f is not None and not (f.tensor and f.tensor.output):
                return Documentation.of(operator).fields[f.name]
        return f"The {argument.replace('_', ' ')}."

    def bound(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name. Raises `TypeError` where they do not fit the signature."""
        required = [n for n, d in self.defaults.items() if d in (inspect.Parameter.empty, ...)]
        try:
            bound = self.signature.bind_partial(*positional, **named).arguments
            missing = [name for name in required if name not in bound]
            if not missing:
                return bound
            text = hints.missing(self.name, missing)
        except TypeError as error:
            text = str(error)
            if text.startswith("multiple values"):
                name = text.split("'")[1]
                order = [*self.defaults][: [*self.defaults].index(name) + 1]
                text += f" (the order is {', '.join(order)})"
            for name in named:
                if name not in self.defaults:
                    hint = hints.of_argument(self.name, name, self.defaults)
                    text = f"got an unexpected argument {name!r}{hint}"
        raise TypeError(f"dml_jax.{self.name}: {text}") from None

    def call(self, given: Mapping[str, Any], places: Mapping[str, int | str]) -> Call:
        """Return the call of the `given` arguments, of the lowest version that expresses them.

        `places` has the position, or the name, of each argument in a call of this shape.
        """
        refusals: list[tuple[bool, list[Fault]]] = []
        chooses_type = "output_data_type" in self.defaults and "output_data_type" not in given
        for is_default_type in (False, True)[: 1 + chooses_type]:
            for operator in self.operators:
                arguments = {**self.defaults, **given}
                for name in arguments:
                    if name.endswith("data_type"):
                        arguments[name] = data_type_of(operator.c_name, name, arguments[name])
                if is_default_type:  # the type follows from the tensors
                    arguments["output_data_type"] = None
                arguments.pop("graph", None)
                lacks, faults = True, list[Fault]()
                with collecting(faults):
                    fields, origins = self._fields_of(operator, arguments)
                    lacks = False
                    return self._described(operator, fields, origins, places)
                refusals.append((lacks, faults))
        if beyond.is_allowed() and not beyond.is_loosened():
            with beyond.loosened():
                return self.call(given, places)
        refused = [faults for lacks, faults in refusals if not lacks] or [refusals[0][1]]
        raise DmlError(min(refused, key=len))

    def _fields_of(
        self, operator: type[Operator], arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the arguments by field, and the argument of each field.

        Raises `DmlError` where the version of the operator has no field for an argument.
        """
        fields: dict[str, Any] = {}
        origins: dict[str, str] = {}
        optional = {f.name for f in operator.outputs_of() if f.optional}
        left_out: set[str] = set()
        for argument, value in arguments.items():
            f = self.field_of(operator, argument)
            name = self.fields.get(argument, argument)
            if argument in operator.arguments:
                fields[argument], origins[argument] = value, argument
            elif f is not None and f.tensor and f.tensor.output:
                left_out |= set() if value else {f.name}
            elif f is not None and not (
                f.tensor is None
                and argument in self.tensors
                and (isinstance(value, Expression) or is_array(value))
            ):
                fields[f.name], origins[f.name] = value, argument
            elif name in ("output_sizes", "output_data_type"):
                fields[name] = value
            elif value is not None and not self._is_default(argument, value):
                rule = f"be left out (dml_jax.{self.name})"
                raise DmlError([Fault(operator.c_name, argument, rule, value)])
        fields = operator.call_of(fields)
        if left_out:
            fields["outputs"] = optional - left_out
        return fields, origins

    def _is_default(self, argument: str, value: Any) -> bool:
        """Return whether a value is the default of an argument, in whatever spelling."""
        default = self.defaults[argument]
        if default is inspect.Parameter.empty or isinstance(value, Expression) or is_array(value):
            return False
        for f in filter(None, (self.field_of(op, argument) for op in self.operators)):
            if f.tensor is not None:
                continue  # whether an output is made
            try:
                return f.kind.convert(value) == f.kind.convert(default)
            except DmlError:
                return False
        return value == default

    def _described(
        self,
        operator: type[Operator],
        fields: Mapping[str, Any],
        origins: Mapping[str, str],
        places: Mapping[str, int | str],
    ) -> Call:
        inputs, values = split_inputs(operator, fields)
        hints.check_constant(operator.c_name, {f.name: f.c_name for f in operator.fields}, values)
        found = (self.field_of(operator, argument) for argument in self.conditions)
        bools = types_of_conditions(operator, inputs, [f.name for f in found if f is not None])
        types = bools | types_of_numbers(operator, inputs, values, bools)
        is_narrow = BFLOAT16 in map(dtype_of, flat(inputs)) or BFLOAT16 in types.values()
        is_narrow = is_narrow or any(map(is_bfloat16, values.values()))
        if is_narrow and operator.short_name.startswith(_BITS):
            rule = "be no bfloat16, which is computed as FLOAT32: its bits are others"
            raise DmlError([Fault(operator.c_name, "the type", rule, Unquoted("bfloat16"))])
        targets = broadcast_targets(operator, inputs, values)
        fitted = fitted_ranks(operator, inputs, values, targets)
        values = {**values, **fitted.attributes}
        arguments = Arguments(operator, inputs, values, types, targets, fitted.sizes)
        make = functools.partial(operator_of, arguments)
        rounded = None
        if is_narrow:
            op, rounded = in_float32(make, inputs, values)
        else:
            op = make(BFLOAT16)
        hints.check_64_bits(op, flat(inputs))
        at: list[Place] = []
        sizes: list[Any] = []
        taken: list[Any] = []
        for name, value in inputs.items():
            place = places.get(origins.get(name, name), origins.get(name, name))
            if isinstance(value, tuple):
                at += [(place, item) for item in range(len(value))]
            else:
                at.append((place, None))
            for array in arrays_of(value):
                wanted = targets.get(name)
                sizes.append(None if wanted == shape_of(array) else wanted)
                taken.append(types[name] if isinstance(array, NUMBERS) else None)
        returned, is_fitted = self._returned(op), bool(fitted.sizes or bools)
        return Call(op, at, taken, sizes, fitted.result, rounded, returned, is_fitted)

    def _returned(self, op: Operator) -> Callable[[Any], Any] | None:
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


def _parameter(text: str) -> inspect.Parameter:
    name, _, default = text.partition("=")
    value = ast.literal_eval(default) if default else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)


def _is_generator(operator: type[Operator]) -> bool:
    """Return whether an operator may have no input: none has to be given, by no record either."""
    demanded = any("given(" in record.data.get("holds", "") for record in operator.records())
    inputs = [f for f in operator.fields if f.tensor and not f.tensor.output]
    return not demanded and all(f.optional for f in inputs)
