"""The arrays and attributes of a call: types of numbers, broadcast sizes, axes, ranks."""

import contextlib
import operator as python
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dml_jax.description.descriptor import c_name_of
from dml_jax.description.fields import Array, Field
from dml_jax.description.tensor import is_array, of_symbols, shown_array
from dml_jax.enums import TensorDataType, is_bfloat16
from dml_jax.errors import DmlError, Fault, Unquoted, items_of, moving
from dml_jax.functional import hints
from dml_jax.functional.cache_keys import NUMBERS
from dml_jax.graph import Expression
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.operator import Fitted, Operator, with_rank


def split_inputs(
    operator: type[Operator], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays by field, in the operator's order, and the other fields."""
    inputs: dict[str, Any] = {}
    values = dict(fields)
    for f in operator.fields:
        if f.tensor is None or f.tensor.output or f.name not in values:
            continue
        value = values.pop(f.name)
        if value is None and f.optional:
            continue
        if f.is_array:
            if is_array(value):  # or its slices would be taken
                got = shown_array(value)
                raise DmlError([Fault(operator.c_name, f.c_name, "be a list of arrays", got)])
            value = _listed(operator, f.c_name, value)
        for path, array in paths_of(f, value) if f.is_array else [(f.c_name, value)]:
            is_number = isinstance(array, NUMBERS) and not f.is_array
            if not (is_number or is_operand(array)):
                fault = Fault(operator.c_name, path, "be an array", shown_array(array))
                hint = hints.of_table(fault, 0) or " (jax.numpy.asarray(x, dtype) makes one)"
                rule = f"be an array{hint} or an Expression"
                if isinstance(array, tuple) and any(map(is_operand, array)):
                    first = "".join(f".{name}" for name in getattr(array, "_fields", ())[:1])
                    rule = f"be one array: a function returned several, take {first or '[0]'}"
                raise DmlError([replace(fault, rule=rule)])
            shape = shape_of(array) or ()
            if not all(isinstance(size, int) for size in shape):
                rule = f"be a list of integers{of_symbols(shape)}"
                raise DmlError([Fault(operator.c_name, f"{path}.Sizes", rule, shape)])
        inputs[f.name] = value
    return inputs, values


def is_operand(value: Any) -> bool:
    """Return whether a value is an array or an expression."""
    return isinstance(value, Expression) or (is_array(value) and not isinstance(value, NUMBERS))


def paths_of(f: Field, value: Any) -> list[tuple[str, Any]]:
    """Return (path, array) of each array of a field."""
    if isinstance(value, tuple):
        return [(f"{f.c_name}[{index}]", array) for index, array in enumerate(value)]
    return [(f.c_name, value)]


def arrays_of(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def flat(inputs: Mapping[str, Any]) -> list[Any]:
    return [array for value in inputs.values() for array in arrays_of(value)]


def _listed(operator: type[Operator], field: str, values: Any) -> tuple[Any, ...]:
    if type(values) is list:  # as most are: an eager call has little time
        return tuple(values)
    with moving(operator.c_name, field):
        return items_of(values)


def dtype_of(array: Any) -> Any:
    """Return the type of an array or expression, None for a number."""
    return getattr(array, "dtype", None)


def shape_of(array: Any) -> tuple[int, ...] | None:
    """Return the sizes of an array or expression, None for a number."""
    return getattr(array, "shape", None)


def data_type_of(operator: str, argument: str, value: Any, beyond: bool = False) -> Any:
    """Return a data type that is given as a dtype, such as `jnp.float16`, as a member.

    Other values are returned as they are; so is bfloat16, which has no member. Raises `DmlError`
    for a dtype that DirectML lacks, but for a call that may go `beyond` it.
    """
    if is_bfloat16(value):
        return value
    if isinstance(value, str) and value.lower() != "bool":
        return value.upper() if value.upper() in TensorDataType.by_name() else value
    if value in (bool, np.bool_) or isinstance(value, str):
        rule = "be a type that DirectML has, as UINT8 (x != 0 is an array of bool)"
        raise DmlError([Fault(operator, c_name_of(argument), rule, Unquoted("bool"))])
    if value in (int, float):
        rule = f"be a type of one width, as jax.numpy.{value.__name__}32"
        raise DmlError([Fault(operator, c_name_of(argument), rule, Unquoted(value.__name__))])
    if not isinstance(value, (type, np.dtype)):
        return value
    with moving(operator, c_name_of(argument)):
        return TensorDataType.of_dtype(value, beyond)


def _is_integer(value: Any) -> bool:
    try:
        python.index(value)
    except TypeError:
        return False
    return not isinstance(value, (bool, np.bool_))


def _axis(value: Any, rank: int) -> Any:
    """Return an axis that counts from the end as one that counts from the start."""
    is_negative = _is_integer(value) and -rank <= python.index(value) < 0
    return python.index(value) + rank if is_negative else value


def types_of_conditions(
    operator: type[Operator], inputs: Mapping[str, Any], conditions: Collection[str]
) -> dict[str, np.dtype]:
    """Return the type in which each input that is an array of bool is taken: mostly UINT8."""
    only = operator.contract.only_type_of
    return {
        name: (only(name) or TensorDataType.UINT8).dtype
        for name in conditions
        if dtype_of(inputs.get(name)) == np.bool_
    }


def types_of_numbers(
    operator: type[Operator],
    inputs: Mapping[str, Any],
    values: Mapping[str, Any],
    bools: Mapping[str, np.dtype],
) -> dict[str, np.dtype]:
    """Return the type in which each input that is a Python number is taken.

    It is the type of the arrays whose type it must have, or else that of the first array; FLOAT32
    where the operator takes floats only, and these are integers; INT32 for an index beside floats.
    `bools` has the types in which arrays of bool are taken.
    """
    numbers = [name for name, value in inputs.items() if isinstance(value, NUMBERS)]
    if not numbers:
        return {}
    known = {name: dtype_of(arrays_of(v)[0]) for name, v in inputs.items() if arrays_of(v)}
    known |= bools
    chosen = values.get("output_data_type")
    for f in operator.outputs_of():
        if chosen is not None and not isinstance(chosen, Mapping):
            with moving(operator.c_name, f"{f.c_name}.DataType"):
                known[f.name] = BFLOAT16 if is_bfloat16(chosen) else TensorDataType.of(chosen).dtype
    types: dict[str, np.dtype] = {}
    for name in numbers:
        alike = operator.contract.fields_of_type(name)
        only = operator.contract.only_type_of(name)
        free = (n for n in inputs if operator.contract.only_type_of(n) is None)  # no condition
        found = [known[n] for n in (*alike, *free) if known.get(n) is not None]
        found = found if only is None else [only.dtype]
        if not found:
            f = next(f for f in operator.fields if f.name == name)
            other = ", or another argument" if len(inputs) > 1 else ""
            rule = f"be an array{other} (numbers have no type of their own)"
            raise DmlError([Fault(operator.c_name, f.c_name, rule, inputs[name])])
        allowed = {t.name for t in operator.contract.types_of(name)}
        is_float = {n.rstrip("0123456789") for n in allowed} == {"FLOAT"}
        is_whole = np.issubdtype(found[0], np.integer)
        if is_float and is_whole:
            types[name] = np.dtype(np.float32)
        elif not any("FLOAT" in n for n in allowed) and found[0].name.upper() not in allowed:
            # an index beside floats, or a zero point of a type that is refused elsewhere
            whole = next(n for n in ("INT32", "UINT32", *sorted(allowed)) if n in allowed)
            types[name] = np.dtype(whole.lower())
        else:
            types[name] = np.dtype(found[0])
    return types


def broadcast_targets(
    operator: type[Operator], inputs: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return the sizes to which each input that must agree with others in sizes is broadcast."""
    targets: dict[str, tuple[int, ...]] = {}
    known = {name: shape_of(array) for name, array in inputs.items()}
    for name, sizes in operator.broadcast_sizes(known, values).items():
        with contextlib.suppress(ValueError):  # the descriptor says which sizes disagree
            if np.broadcast_shapes(known[name] or (), sizes) == sizes:
                targets[name] = sizes
    for names in operator.contract.inputs_of_equal_sizes:
        shapes = {n: shape_of(inputs[n]) or () for n in names if n in inputs}
        if len({*shapes.values()}) < 2 and not any(isinstance(inputs[n], NUMBERS) for n in shapes):
            continue
        try:
            targets |= dict.fromkeys(shapes, np.broadcast_shapes(*shapes.values()))
        except ValueError:  # the descriptor says which sizes disagree, but for those of 1
            rank = max(map(len, shapes.values()))
            ranked = {n: with_rank(own, rank) for n, own in shapes.items()}
            most = [max(sizes) for sizes in zip(*ranked.values(), strict=True)]
            for name, own in ranked.items():
                targets[name] = tuple(m if k == 1 else k for k, m in zip(own, most, strict=True))
    return targets


def fitted_ranks(
    operator: type[Operator],
    inputs: Mapping[str, Any],
    values: Mapping[str, Any],
    targets: Mapping[str, tuple[int, ...]],
) -> Fitted:
    """Return how single arrays of other ranks than the operator's are fitted to these.

    Arrays without dimensions, as jax.vmap has them, are arrays of one element for an element-wise
    operator, and beside other arrays.
    """
    sizes = {n: targets.get(n, shape_of(v)) for n, v in inputs.items() if not isinstance(v, tuple)}
    plain = {n: python.index(v) if _is_integer(v) else v for n, v in values.items()}
    if set(sizes.values()) == {()} and operator.contract.is_element_wise:
        return Fitted(dict.fromkeys(sizes, (1,)), result=())
    found = operator.fitted(sizes, plain)
    rank = max((len(own or ()) for own in sizes.values()), default=0)
    alone = {name: (1,) * rank for name, own in sizes.items() if own == ()} if rank else {}
    return replace(found, sizes={**alone, **found.sizes})


def normalised(operator: type[Operator], values: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return attributes with lists for integers, and axes that count from the start.

    An integer stands for each spatial dimension, in a list of these, and else for a list of one.
    """
    result = dict(values)
    sizes = values.get("output_sizes")
    if sizes is not None and not isinstance(sizes, Mapping):
        path = f"{operator.outputs_of()[0].c_name}.Sizes"
        result["output_sizes"] = (sizes,) if _is_integer(sizes) else _listed(operator, path, sizes)
    for f in operator.fields:
        value = values.get(f.name)
        if value is None or f.tensor:
            continue
        if isinstance(f.kind, Array):
            count = max(rank - 2, 1) if f.count == operator.spatial_count else 1
            items = [value] * count if _is_integer(value) else _listed(operator, f.c_name, value)
            result[f.name] = tuple(_axis(v, rank) for v in items) if f.name == "axes" else items
        elif f.name == "axis":
            result[f.name] = _axis(value, rank)
    return result
