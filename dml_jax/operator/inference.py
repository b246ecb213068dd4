"""What follows from the fields of an operator: its outputs, and how a function fits its arrays."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dml_jax.constraints import View, solve_sizes, solve_types
from dml_jax.description.fields import Field
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.errors import NOTHING, Fault, collecting, moving, nearest
from dml_jax.operator.declared import Declared


@dataclass(frozen=True)
class Fitted:
    """How a function fits its arrays to the ranks of an operator; every field keeps its order.

    Attributes:
        sizes: the sizes of each fitted input, by field.
        attributes: the attributes that change with the ranks.
        result: the sizes of each result of the function; None leaves those of the outputs.
    """

    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    result: tuple[int, ...] | None = None


def with_rank(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return sizes with as many ones in front as give `rank`; the first are multiplied if more."""
    first = len(sizes) - rank + 1
    if first > 1:
        return (math.prod(sizes[:first]), *sizes[first:])
    return (1,) * (rank - len(sizes)) + tuple(sizes)


def per_channel(sizes: Mapping[str, tuple[int, ...] | None], *fields: str) -> Fitted:
    """Return how arrays of one number for each channel get the input's rank."""
    x, known = sizes["input_tensor"] or (), {name: sizes.get(name) or () for name in fields}
    rest = (1,) * len(x[2:])
    return Fitted({n: (1, *own, *rest) for n, own in known.items() if len(own) == 1 < len(x)})


def outputs_that_follow(
    op: Declared,
    wanted: Sequence[Field],
    data_type: Any,
    output_sizes: Any,
    faults: list[Fault],
) -> dict[str, TensorDesc]:
    """Return the outputs `wanted` of a description without outputs, packed.

    The caller of `Operator.infer` gives `output_sizes`, and types as `types_by_output` has
    them.
    """
    view, c_names = op.view(op.__dict__), [f.c_name for f in wanted]
    types, one_type = data_type
    sizes = _sizes_by_output(op, view, output_sizes, wanted, faults)
    solved_types = solve_types(op.records(), view, c_names)
    given = {f.c_name: sizes[f.name] for f in wanted if _are_sizes(sizes.get(f.name))}
    solved: dict[str, Any] = solve_sizes(op.records(), view, c_names, given)
    own, defaults = _own_sizes(op), op.default_data_types()
    free = [f for f in wanted if f.c_name not in solved_types]
    chosen = {f.c_name: t.name for f in free if (t := types.get(f.name, defaults.get(f.name)))}
    if chosen:
        solved_types |= solve_types(op.records(), view, c_names, chosen)
    made: dict[str, TensorDesc] = {}
    for f in wanted:
        # One type is for the outputs that may choose.
        is_open = f in free or not (one_type and free)
        kind = types.get(f.name) if is_open else None
        if kind is None and f.c_name in solved_types:
            kind = TensorDataType.of(solved_types[f.c_name], op.beyond)
        kind = kind or defaults.get(f.name) or _only_type(op, f)
        shape = sizes.get(f.name, own.get(f.name, solved.get(f.c_name)))
        call = f"{type(op).__name__}.infer(..., output_"
        if shape is None or None in tuple(shape):
            cure = f"{{{f.name!r}: [...]}}" if len(wanted) > 1 else "..."
            demand = f"be given: {call}sizes={cure})"
            faults.append(Fault(op.c_name, f"{f.c_name}.Sizes", demand, NOTHING))
        elif kind is None:
            demand = f"be given: {call}data_type=...)"
            faults.append(Fault(op.c_name, f"{f.c_name}.DataType", demand, NOTHING))
        else:
            with collecting(faults), moving(op.c_name, f.c_name):
                made[f.name] = TensorDesc(kind, shape, beyond=op.beyond)
    return made


def _only_type(op: Declared, f: Field) -> TensorDataType | None:
    """Return the type of an output that no record gives: its only one, or the input's."""
    allowed = op.support.groups[op.support_group][0].types[f.name]
    if len(allowed) == 1:
        return allowed[0]
    return next((t.data_type for t in op.inputs if t.data_type in allowed), None)


def types_by_output(
    operator: type[Declared], value: Any, faults: list[Fault]
) -> tuple[Mapping[str, Any], bool]:
    """Return the types that the caller of `infer` gives, by output, and whether it is one."""
    is_one = not isinstance(value, Mapping)
    by_field = dict.fromkeys((f.name for f in operator.outputs_of()), value) if is_one else value
    return _of_outputs(operator, by_field, "DataType", TensorDataType.of, faults), is_one


def _sizes_by_output(
    op: Declared, view: View, sizes: Any, wanted: Sequence[Field], faults: list[Fault]
) -> Mapping[str, Any]:
    """Return the sizes that the caller of `infer` gives, by output."""
    names = [f.name for f in wanted]
    if sizes is None or isinstance(sizes, Mapping):
        by_field = sizes or {}
    elif isinstance(sizes, (list, tuple)) and any(map(_is_listed, sizes)):
        if len(sizes) > len(names):
            demand = f"have at most {len(names)} lists, one for each of {', '.join(names)}"
            faults.append(Fault(op.c_name, "output_sizes", demand, sizes))
        by_field = dict(zip(names, sizes, strict=False))
    else:
        solved = solve_sizes(op.records(), view, [f.c_name for f in wanted])
        known = {f.name: solved.get(f.c_name) for f in wanted} | _own_sizes(op)
        left = [name for name in names if None in (known[name] or [None])]
        by_field = {names[0]: sizes}
        if left and names[0] not in left:
            fields = ", ".join(f"{name!r}: [...]" for name in left)
            listed = ", ".join("[...]" if name in left else "None" for name in names)
            demand = f"say whose sizes they are: {{{fields}}} or [{listed}]"
            faults.append(Fault(op.c_name, "output_sizes", demand, sizes))
            by_field = dict.fromkeys(left, sizes)
    return _of_outputs(type(op), by_field, "Sizes", lambda value: value, faults)


def _of_outputs(
    operator: type[Declared],
    by_field: Mapping[str, Any],
    part: str,
    convert: Callable[[Any], Any],
    faults: list[Fault],
) -> dict[str, Any]:
    """Return the converted sizes or types (`part`) of outputs."""
    chosen, known = {}, {f.name: f.c_name for f in operator.outputs_of()}
    for name, item in by_field.items():
        if name not in known:
            demand = f"be an output{nearest(name, known)}"
            faults.append(Fault(operator.c_name, str(name), demand, item))
        elif item is not None:
            found: list[Fault] = []
            with collecting(found), moving(operator.c_name, f"{known[name]}.{part}"):
                chosen[name] = convert(item)
            faults += [fault for fault in found if fault not in faults]
    return chosen


def _own_sizes(op: Declared) -> dict[str, Any]:
    """Return the sizes that an operator says itself."""
    return {**op.expected_sizes(), **op.default_sizes()}


def _are_sizes(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value)


def _is_listed(value: Any) -> bool:
    return value is None or isinstance(value, (Sequence, np.ndarray))
