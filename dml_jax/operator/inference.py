"""Describe an operator by its inputs: its outputs follow."""

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from dml_jax.constraints import View, solve_sizes, solve_types
from dml_jax.description.descriptor import snake_case
from dml_jax.description.fields import Choice, Field
from dml_jax.description.tensor import Integers, TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.errors import NOTHING, DmlError, Fault, nearest
from dml_jax.operator.checks import NEWEST, Checked


def _are_sizes(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value)


def _is_listed(value: Any) -> bool:
    return value is None or isinstance(value, (Sequence, np.ndarray))


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


class Inferred(Checked):
    """An operator that is described without its outputs."""

    # What a function of `dml_jax.functional` asks.

    arguments: ClassVar[Sequence[str]] = ()  # of its function, beside fields; `call_of` reads them

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `infer`, from the arguments of the function by field.

        Raises `DmlError` where this version of the operator does not express them.
        """
        return arguments

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator that a function describes: `infer`, with types filled in.

        A data type that a record ties to a tensor, such as MinMaxDataType, is that tensor's.
        """
        for record in cls._records():
            if record.kind == "type" and record.data["is"].endswith(".DataType"):
                f = next((f for f in cls.fields if f.c_name == record.data["type"]), None)
                of = snake_case(record.data["is"].removesuffix(".DataType"))
                if f and isinstance(f.kind, Choice) and isinstance(fields.get(of), TensorDesc):
                    fields.setdefault(f.name, fields[of].data_type)
        return cls.infer(**fields)

    @classmethod
    @functools.cache
    def inputs_of_equal_sizes(cls) -> tuple[tuple[str, ...], ...]:
        """Return the groups of inputs whose sizes must agree, which functions broadcast."""
        single = {f.name for f in cls.fields if f.tensor and not (f.tensor.output or f.is_array)}
        groups = (tuple(n for n in group if n in single) for group in cls.alike("Sizes"))
        return tuple(group for group in groups if len(group) > 1)

    @classmethod
    def broadcast_sizes(
        cls, sizes: Mapping[str, Sequence[int] | None], attributes: Mapping[str, Any]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the sizes to which functions broadcast inputs, beside inputs of equal sizes.

        Args:
            sizes: the sizes of each array by field, None for a number.
            attributes: the other arguments of the function by field.
        """
        return {}

    @classmethod
    def fitted(
        cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Mapping[str, Any]
    ) -> Fitted:
        """Return how functions fit arrays of other ranks, after they are broadcast.

        Args:
            sizes: the sizes of each array by field, None for a number.
            attributes: the other arguments of the function by field.

        Raises `DmlError` where ranks and attributes contradict each other.
        """
        return Fitted()

    @classmethod
    @functools.cache
    def spatial_lists(cls) -> frozenset[str]:
        """Return the lists with one element for each dimension after batch and channels."""
        rules = (
            r"(?P<count>\w+) == \w+\.DimensionCount - 2",
            r"InputTensor\.DimensionCount == (?P<count>\w+) \+ 2",
        )
        found = (re.fullmatch(r, c.get("holds", "")) for r in rules for c in cls.constraints)
        counts = {match["count"] for match in found if match}
        return frozenset(f.name for f in cls.fields if f.count in counts)

    @classmethod
    @functools.cache
    def only_type_of(cls, name: str) -> TensorDataType | None:
        """Return the one type that a tensor field may have, None where there are several."""
        types = {t for rows in cls.support.groups.values() for row in rows for t in row.types[name]}
        return types.pop() if len(types) == 1 else None

    @classmethod
    @functools.cache
    def fields_of_type(cls, name: str) -> tuple[str, ...]:
        """Return the other tensor fields whose type a record ties to the type of field `name`."""
        others = (n for group in cls.alike("DataType") if name in group for n in group)
        return tuple(dict.fromkeys(n for n in others if n != name))

    @classmethod
    def infer(
        cls,
        *positional: Any,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
        **fields: Any,
    ) -> Self:
        """Return the descriptor whose outputs follow from the other fields, packed.

        Args:
            positional: none: fields are given by name.
            output_data_type: of the outputs whose type does not follow from the other fields, or
                field -> type; None takes the operator's default.
            output_sizes: of the first output, or a list for each output (None where its sizes
                follow), or field -> sizes, where they do not follow.
            outputs: the optional outputs to make; None makes all.
            fields: all fields but the outputs.

        Raises `DmlError` as the constructor does. Not for operators whose outputs are a list, such
        as SPLIT.
        """
        made = cls.outputs_of()
        names = [f.name for f in cls.fields if f not in made]
        if positional:
            raise TypeError(f"{cls.__name__}.infer takes fields by name: {', '.join(names)}")
        partial = object.__new__(cls)
        faults: list[Fault] = []
        for f in made:
            if f.name in fields:
                rule = f"be left out: {cls.__name__}.infer makes it"
                faults.append(Fault(cls.c_name, f.name, rule, fields.pop(f.name)))
            if f.is_array:
                rule = f"be given to {cls.__name__}(...): they choose their own sizes"
                faults.append(Fault(cls.c_name, f.c_name, rule, NOTHING))
        cls._fill(fields, faults, cls._convert(fields, faults), made)
        types = cls._chosen(output_data_type, made, TensorDataType.of, faults)
        partial.__dict__.update(fields)
        partial._check(faults, fields)
        if faults:
            raise DmlError(faults)
        wanted = [f for f in made if not f.optional or outputs is None or f.name in outputs]
        for f in made:
            if f not in wanted:
                fields[f.name] = None
        by_output = partial._sizes_by_output(output_sizes, wanted, faults)
        sizes = cls._chosen(by_output, (), lambda value: value, faults, "Sizes")
        fields |= partial._made(wanted, types, sizes, output_data_type, faults)
        if faults:
            raise DmlError(faults)
        return cls(**fields)

    def _sizes_by_output(
        self, sizes: Any, wanted: Sequence[Field], faults: list[Fault]
    ) -> Mapping[str, Any]:
        """Return the sizes that the caller of `infer` gives, by output."""
        if sizes is None or isinstance(sizes, Mapping):
            return sizes or {}
        names = [f.name for f in wanted]
        if isinstance(sizes, (list, tuple)) and any(map(_is_listed, sizes)):
            if len(sizes) > len(names):
                rule = f"have at most {len(names)} lists, one for each of {', '.join(names)}"
                faults.append(Fault(self.c_name, "output_sizes", rule, sizes))
            return dict(zip(names, sizes, strict=False))
        view = View(self._by_c_name(self.__dict__), self._counts)
        solved = solve_sizes(self._records(), view, [f.c_name for f in wanted], NEWEST)
        known = {f.name: solved.get(f.c_name) for f in wanted} | dict(self.expected_sizes())
        left = [name for name in names if None in (known[name] or [None])]
        if left and names[0] not in left:
            by_field = ", ".join(f"{name!r}: [...]" for name in left)
            by_output = ", ".join("[...]" if name in left else "None" for name in names)
            rule = f"say whose sizes they are: {{{by_field}}} or [{by_output}]"
            faults.append(Fault(self.c_name, "output_sizes", rule, sizes))
            return dict.fromkeys(left, sizes)
        return {names[0]: sizes}

    @classmethod
    def _chosen(
        cls,
        value: Any,
        made: Sequence[Field],
        convert: Callable[[Any], Any],
        faults: list[Fault],
        part: str = "DataType",
    ) -> dict[str, Any]:
        """Return the sizes or types that the caller of `infer` gives, by output."""
        by_field = (
            value if isinstance(value, Mapping) else dict.fromkeys((f.name for f in made), value)
        )
        chosen = {}
        for name, item in by_field.items():
            field = next((f for f in cls.outputs_of() if f.name == name), None)
            if field is None:
                hint = nearest(name, [f.name for f in cls.outputs_of()])
                faults.append(Fault(cls.c_name, str(name), f"be an output{hint}", item))
            elif item is not None:
                try:
                    chosen[name] = convert(item)
                except DmlError as error:
                    moved = error.moved(cls.c_name, f"{field.c_name}.{part}")
                    faults += [fault for fault in moved if fault not in faults]
        return chosen

    def _made(
        self,
        wanted: Sequence[Field],
        types: Mapping[str, Any],
        sizes: Mapping[str, Any],
        output_data_type: Any,
        faults: list[Fault],
    ) -> dict[str, TensorDesc]:
        """Return the outputs that `infer` makes."""
        view = View(self._by_c_name(self.__dict__), self._counts)
        c_names = [f.c_name for f in wanted]
        solved_types = solve_types(self._records(), view, c_names, NEWEST, {})
        given = {f.c_name: sizes[f.name] for f in wanted if _are_sizes(sizes.get(f.name))}
        solved_sizes: dict[str, Any] = solve_sizes(self._records(), view, c_names, NEWEST, given)
        own, defaults = self.expected_sizes(), self.default_data_types()
        free = [f for f in wanted if f.c_name not in solved_types]
        chosen = {f.c_name: t.name for f in free if (t := types.get(f.name, defaults.get(f.name)))}
        if chosen:
            solved_types |= solve_types(self._records(), view, c_names, NEWEST, chosen)
        made: dict[str, TensorDesc] = {}
        for f in wanted:
            data_type = types.get(f.name)
            if not isinstance(output_data_type, Mapping) and free and f not in free:
                data_type = None  # the one type is for the outputs that may choose
            if data_type is None and f.c_name in solved_types:
                data_type = TensorDataType.of(solved_types[f.c_name])
            data_type = data_type or defaults.get(f.name) or self._only_type(f)
            shape = sizes.get(f.name, own.get(f.name, solved_sizes.get(f.c_name)))
            if shape is None or None in tuple(shape):
                cure = f"{{{f.name!r}: [...]}}" if len(wanted) > 1 else "..."
                rule = f"be given: {type(self).__name__}.infer(..., output_sizes={cure})"
                faults.append(Fault(self.c_name, f"{f.c_name}.Sizes", rule, NOTHING))
            elif data_type is None:
                rule = f"be given: {type(self).__name__}.infer(..., output_data_type=...)"
                faults.append(Fault(self.c_name, f"{f.c_name}.DataType", rule, NOTHING))
            else:
                try:
                    made[f.name] = TensorDesc(data_type, shape)
                except DmlError as error:
                    faults += error.moved(self.c_name, f.c_name)
        return made

    def _only_type(self, f: Field) -> TensorDataType | None:
        """Return the type of an output that no record gives: its only one, or the input's."""
        group = getattr(self, self.support.by) if self.support.by else None
        allowed = self.support.groups[group][0].types[f.name]
        if len(allowed) == 1:
            return allowed[0]
        return next((t.data_type for t in self.inputs if t.data_type in allowed), None)
