"""Which version of an operator expresses a call of a function, and the call that it makes."""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from dml_jax.enums import is_bfloat16
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.functional import hints
from dml_jax.functional.cache_keys import NUMBERS
from dml_jax.functional.call import Call, Place
from dml_jax.functional.descriptors import Arguments, fields_of, in_float32, operator_of
from dml_jax.functional.family import Family
from dml_jax.functional.inputs import (
    arrays_of,
    broadcast_targets,
    data_type_of,
    dtype_of,
    fitted_ranks,
    flat,
    is_operand,
    shape_of,
    split_inputs,
    types_of_conditions,
    types_of_numbers,
)
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.operator import Operator

_BITS = "ELEMENT_WISE_BIT_"
_FLOAT32 = np.dtype(np.float32)


def call_of(
    family: Family,
    given: Mapping[str, Any],
    places: Mapping[str, int | str],
    graph: GraphBuilder | None,
) -> Call:
    """Return the call of a function with the arguments `given`, of the version that expresses them.

    Args:
        family: what is known of the function.
        given: the arguments by name, without `graph`.
        places: the position, or the name, of each argument in a call of this shape.
        graph: the builder of a graph that the caller names.
    """
    arguments = chosen_version(family, given, _may_go_beyond(given, graph))
    inputs, types, targets = arguments.inputs, arguments.types, arguments.targets
    make, rounded = functools.partial(operator_of, arguments), None
    if arguments.is_narrow:
        op, rounded = in_float32(make, inputs, arguments.values)
    else:
        op = make(BFLOAT16)
    hints.check_64_bits(op, flat(inputs))
    at: list[Place] = []
    sizes: list[Any] = []
    taken: list[Any] = []
    for name, value in inputs.items():
        argument = arguments.origins.get(name, name)
        place = places.get(argument, argument)
        if isinstance(value, tuple):
            at += [(place, item) for item in range(len(value))]
        else:
            at.append((place, None))
        for array in arrays_of(value):
            target = targets.get(name)
            sizes.append(None if target == shape_of(array) else target)
            taken.append(types[name] if isinstance(array, NUMBERS) else None)
    result, is_fitted = arguments.result, arguments.is_fitted
    return Call(op, at, taken, sizes, result, rounded, family.returned(op), is_fitted)


def _may_go_beyond(given: Mapping[str, Any], graph: GraphBuilder | None) -> bool:
    """Return whether the graph of a call takes nodes beyond DirectML."""
    values = (v for a in given.values() for v in (a if isinstance(a, (list, tuple)) else (a,)))
    builder = next((v.builder for v in values if isinstance(v, Expression)), graph)
    return builder is not None and builder.beyond


def chosen_version(family: Family, given: Mapping[str, Any], beyond: bool) -> Arguments:
    """Return the arguments of a call, by the fields of the first version that expresses them.

    No operator is constructed here. Where no version expresses the arguments, they are those of the
    version that fails last, whose construction says what is wrong: one without a field for an
    argument fails first, then one that has no words for the call, then one whose fields or rows
    refuse values. A graph that may go `beyond` DirectML asks all versions once more.
    """
    failures: list[tuple[int, Arguments | DmlError]] = []
    is_only = len(family.operators) == 1 and not beyond
    for is_wide in (False, True)[: 1 + beyond]:
        failures.clear()
        for operator in family.operators:
            progress, result = 0, None
            try:
                fields, origins = _by_field(family, operator, given, is_wide)
                progress = 1
                result = _arguments(family, operator, fields, origins, is_wide)
                if is_only:
                    return result
                described = fields_of(result, _FLOAT32)  # bfloat16 is computed as FLOAT32
                progress = 2
                if not operator.expresses(described, is_wide):
                    return result
                progress = 3
            except DmlError as error:
                result = result or error
            failures.append((progress, result))
    _, result = max(failures, key=lambda failure: failure[0])
    if isinstance(result, DmlError):
        raise result
    return result


def _by_field(
    family: Family, operator: type[Operator], given: Mapping[str, Any], beyond: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments by field, and the argument of each field.

    Raises `DmlError` where the version of the operator has no field for an argument.
    """
    fields: dict[str, Any] = {}
    origins: dict[str, str] = {}
    optional = {f.name for f in operator.outputs_of() if f.optional}
    left_out: set[str] = set()
    arguments = {**family.defaults, **given}
    arguments.pop("graph", None)
    for argument, value in arguments.items():
        if argument.endswith("data_type"):
            value = data_type_of(operator.c_name, argument, value, beyond)
        f = family.field_of(operator, argument)
        name = family.fields.get(argument, argument)
        if argument in operator.arguments:
            fields[argument], origins[argument] = value, argument
        elif f is not None and f.tensor and f.tensor.output:
            left_out |= set() if value else {f.name}
        elif f and (f.tensor or argument not in family.tensors or not is_operand(value)):
            fields[f.name], origins[f.name] = value, argument
        elif name in ("output_sizes", "output_data_type"):
            fields[name] = value
        elif value is not None and not _is_default(family, argument, value):
            rule = f"be left out (dml_jax.{family.name})"
            raise DmlError([Fault(operator.c_name, argument, rule, value)])
    if "output_data_type" in family.defaults and "output_data_type" not in given:
        tied = {n for f in operator.outputs_of() for n in operator.contract.fields_of_type(f.name)}
        # The type follows from a tensor of the same type; a number has none, and takes the default.
        if any(not isinstance(fields.get(name), (*NUMBERS, type(None))) for name in tied):
            fields["output_data_type"] = None
    fields = operator.call_of(fields)
    if left_out:
        fields["outputs"] = optional - left_out
    return fields, origins


def _is_default(family: Family, argument: str, value: Any) -> bool:
    """Return whether a value is the default of an argument, in whatever spelling."""
    default = family.defaults[argument]
    if default is inspect.Parameter.empty or is_operand(value):
        return False
    for f in filter(None, (family.field_of(op, argument) for op in family.operators)):
        if f.tensor is not None:
            continue  # whether an output is made
        try:
            return f.kind.convert(value) == f.kind.convert(default)
        except DmlError:
            return False
    return value == default


def _arguments(
    family: Family,
    operator: type[Operator],
    fields: Mapping[str, Any],
    origins: Mapping[str, str],
    beyond: bool,
) -> Arguments:
    """Return the arguments as the operator reads them: arrays of its types, sizes and ranks."""
    inputs, values = split_inputs(operator, fields)
    hints.check_constant(operator.c_name, {f.name: f.c_name for f in operator.fields}, values)
    found = (family.field_of(operator, argument) for argument in family.conditions)
    bools = types_of_conditions(operator, inputs, [f.name for f in found if f is not None])
    types = bools | types_of_numbers(operator, inputs, values, bools)
    is_narrow = BFLOAT16 in map(dtype_of, flat(inputs)) or BFLOAT16 in types.values()
    named = (v for v in values.values() if isinstance(v, (str, type, np.dtype)))
    is_narrow = is_narrow or any(map(is_bfloat16, named))
    if is_narrow and operator.short_name.startswith(_BITS):
        rule = "be no bfloat16, which is computed as FLOAT32: its bits are others"
        raise DmlError([Fault(operator.c_name, "the type", rule, Unquoted("bfloat16"))])
    targets = broadcast_targets(operator, inputs, values)
    fitted = fitted_ranks(operator, inputs, values, targets)
    return Arguments(
        operator,
        inputs,
        {**values, **fitted.attributes},
        types,
        targets,
        fitted.sizes,
        fitted.result,
        origins,
        is_narrow,
        bool(fitted.sizes or bools),
        beyond,
    )
