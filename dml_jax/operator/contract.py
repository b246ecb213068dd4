"""The contract of an operator: what its description must meet, and what follows from it.

`Contract.check` finds the faults of a description, sizes among them: by the support rows, the
constraint records, the rules of the operator, and the sizes that it expects. `Contract.refused_at`
asks a feature level, and `Contract.outputs_that_follow` makes the outputs of other fields.
"""

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dml_jax import constraints
from dml_jax.constraints import Aspect, View, aspect_of, is_wrong, solve_sizes, solve_types
from dml_jax.description.descriptor import UnknownFieldError
from dml_jax.description.fields import Field
from dml_jax.description.tensor import DISTINCT_ADDRESSES, TensorDesc
from dml_jax.enums import FeatureLevel, TensorDataType, TensorFlags
from dml_jax.errors import (
    NOTHING,
    OF_RANGE,
    Expect,
    Fault,
    Unquoted,
    collecting,
    field_of,
    moving,
    nearest,
)
from dml_jax.operator.declared import Declared, tensors_of
from dml_jax.operator.fused import FusedActivation

NEWEST = max(FeatureLevel)
Rule = Callable[[Any, Expect], None]
_Tensors = Sequence[tuple[str, str, TensorDesc]]  # path, field, tensor


def rule(*fields: str) -> Callable[[Rule], Rule]:
    """Mark a method as a rule that no record can say, and name the fields that it reads.

    The method is called with a collector of faults, `expect`, where none of `fields` is missing or
    wrong: `expect(holds, "Axis", "be below 4", axis)`.
    """

    def marked(method: Rule) -> Rule:
        method.reads = fields  # pyright: ignore[reportFunctionMemberAccess]
        return method

    return marked


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


class Contract:
    """What the description of an operator must meet, and what follows from its fields.

    Attributes:
        operator: the class of the operator.
        fields: its fields.
        outputs: the fields of its outputs.
        rules: the methods that `rule` marks.
    """

    def __init__(self, operator: type[Declared]):
        self.operator, self.c_name, self.fields = operator, operator.c_name, operator.fields
        self.outputs = operator.outputs_of()
        self._by_name = {f.name: f for f in self.fields}
        marked = [v for base in reversed(operator.__mro__) for v in vars(base).items()]
        self.rules = tuple(v for v in dict(marked).values() if hasattr(v, "reads"))

    def view(self, values: Mapping[str, Any]) -> View:
        """Return the values of fields as records read them."""
        return View(self.by_c_name(values), self.operator._counts)

    def by_c_name(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of fields by their names in DirectML.h."""
        return {f.c_name: values[f.name] for f in self.fields if f.name in values}

    # Who must agree with whom.

    def alike(self, aspect: str) -> list[tuple[str, ...]]:
        """Return the groups of tensor fields that must agree in "DataType" or "Sizes"."""
        names = {f.c_name: f.name for f in self.fields if f.tensor}
        groups = []
        for record in self.operator.constraints:
            tied: Sequence[str] = ()
            is_whole = aspect == "DataType" or "except" not in record
            if aspect in record.get("of", ()) and is_whole:
                tied = [name.replace("[*]", "") for name in record["equal"]]
            elif aspect == "DataType" and "type" in record:
                tied = record["type"], record["is"].removesuffix(".DataType")
            groups.append(tuple(names[name] for name in tied if name in names))
        return [group for group in groups if len(group) > 1]

    def pairs_in_place(self) -> dict[str, tuple[str, ...]]:
        """Return the inputs that each output may lie on: those of its sizes, and its type if any.

        Exactly the same bytes are demanded when memory is bound, and so elements of one width.
        """

        def partners(output: Field, aspect: str) -> set[str]:
            return set().union(*(g for g in self.alike(aspect) if output.name in g))

        inputs = [f.name for f in self.fields if f.tensor and not f.tensor.output]
        pairs: dict[str, tuple[str, ...]] = {}
        for f in self.outputs:
            of_size = [name for name in inputs if name in partners(f, "Sizes")]
            of_type = [name for name in of_size if name in partners(f, "DataType")]
            pairs[f.name] = tuple((of_type or of_size) if self.operator.constraints else inputs)
        return pairs

    @functools.cached_property
    def inputs_of_equal_sizes(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of inputs whose sizes must agree, which functions broadcast."""
        single = {f.name for f in self.fields if f.tensor and not (f.tensor.output or f.is_array)}
        groups = (tuple(n for n in group if n in single) for group in self.alike("Sizes"))
        return tuple(group for group in groups if len(group) > 1)

    @functools.cached_property
    def spatial_lists(self) -> frozenset[str]:
        """Return the lists with one element for each dimension after batch and channels."""
        rules = (
            r"(?P<count>\w+) == \w+\.DimensionCount - 2",
            r"InputTensor\.DimensionCount == (?P<count>\w+) \+ 2",
        )
        texts = [record.get("holds", "") for record in self.operator.constraints]
        counts = {m["count"] for r in rules for m in (re.fullmatch(r, t) for t in texts) if m}
        return frozenset(f.name for f in self.fields if f.count in counts)

    def only_type_of(self, name: str) -> TensorDataType | None:
        """Return the one type that a tensor field may have, None where there are several."""
        types = self.types_of(name)
        return next(iter(types)) if len(types) == 1 else None

    def types_of(self, name: str) -> frozenset[TensorDataType]:
        """Return the types that a tensor field may have at some feature level."""
        groups = self.operator.support.groups.values()
        return frozenset(t for rows in groups for row in rows for t in row.types[name])

    def fields_of_type(self, name: str) -> tuple[str, ...]:
        """Return the other tensor fields whose type a record ties to the type of field `name`."""
        others = (n for group in self.alike("DataType") if name in group for n in group)
        return tuple(dict.fromkeys(n for n in others if n != name))

    # What is wrong with a description.

    def check(self, op: Declared, faults: list[Fault], present: Mapping[str, Any]) -> None:
        """Add to `faults` what is wrong with the fields that are `present` of a description."""
        given = [f for f in self.fields if f.name in present]
        tensors = [tensor for f in given if f.tensor for tensor in tensors_of(f, present[f.name])]
        if faults:
            faults[:] = _from_the_front(faults, tensors)
        wrong = {aspect_of(fault.field) for fault in faults}
        by = op.support.by
        if by is None or by in present:
            group = present[by] if by else None
            faults += op.support.faults(self.c_name, tensors, group, beyond=op.beyond)
        expect = Expect(self.c_name)
        for f in given:
            if f.is_array and present[f.name] is not None and not present[f.name]:
                expect(False, f.count or f.c_name, "be at least 1", 0)
        op._check_counts(expect.faults, present)
        self._check_outputs(expect, tensors)
        counted = {c: {f.c_name for f in self.fields if f.count == c} for c in op._counts}
        for fault in (*faults, *expect.faults):
            root, aspect = aspect_of(fault.field)
            wrong |= {(c_name, aspect) for c_name in (root, *counted.get(root, ()))}
        made = [present.get(f.name) for f in self.outputs if f.name in present]
        if len(made) == len(self.outputs) and all(value is None for value in made):
            names = ", ".join(f.c_name for f in self.outputs)
            demand = "be given, or another output" if "," in names else "be given"
            expect(False, self.outputs[0].c_name, demand, NOTHING)
        known = {c: v for c, v in self.by_c_name(present).items() if (c, "") not in wrong}
        view = View(known, op._counts)
        constraints.check(self.operator.records(), view, expect, wrong, NEWEST)
        self._check_rules(op, expect, wrong, present)
        self._check_sizes(op, expect, tensors, wrong, present)
        faults += expect.faults

    def _check_outputs(self, expect: Expect, tensors: _Tensors) -> None:
        """Check that outputs are memory of their own, each element at an address of its own."""
        for path, name, tensor in tensors:
            kind = self._by_name[name].tensor
            if kind is None or not kind.output:
                continue
            if not tensor.has_distinct_addresses:
                expect(False, f"{path}.Strides", DISTINCT_ADDRESSES, list(tensor.strides or ()))
            if tensor.flags and TensorFlags.OWNED_BY_DML in tensor.flags:
                demand = "be NONE (OWNED_BY_DML is for inputs)"
                expect(False, f"{path}.Flags", demand, Unquoted(tensor.flags.name))

    def _check_rules(
        self, op: Declared, expect: Expect, wrong: Collection[Aspect], present: Mapping[str, Any]
    ) -> None:
        """Check the rules that read only fields that are present and right."""
        for method in self.rules:
            reads: Sequence[str] = method.reads  # pyright: ignore[reportFunctionMemberAccess]
            c_names = [self._by_name[name].c_name for name in reads if name in present]
            is_known = not any(is_wrong(wrong, c_name, "DimensionCount") for c_name in c_names)
            if len(c_names) == len(reads) and is_known:
                try:
                    method(op, expect)
                except UnknownFieldError:
                    continue  # it reads another field, which is missing or wrong

    def _check_sizes(
        self,
        op: Declared,
        expect: Expect,
        tensors: _Tensors,
        wrong: Collection[Aspect],
        present: Mapping[str, Any],
    ) -> None:
        """Check the sizes that `expected_sizes` demands, of the fields that are right."""
        if any(aspect == "DimensionCount" for _, aspect in wrong):
            return
        right = object.__new__(type(op))
        for name, value in present.items():
            if (self._by_name[name].c_name, "") not in wrong:
                right.__dict__[name] = value
        try:
            demanded = right.expected_sizes()
        except UnknownFieldError:  # it rests on a field that is missing or wrong
            return
        expected: dict[str, Sequence[int | None]] = {}
        for name, sizes in demanded.items():
            f = self._by_name[name]
            paths = [f"{f.c_name}[{i}]" for i in range(len(sizes))] if f.is_array else [f.c_name]
            expected |= zip(paths, sizes if f.is_array else [sizes], strict=True)
        for path, name, tensor in tensors:
            sizes = expected.get(path, tensor.sizes)
            rank = len(sizes)
            if rank != tensor.dimension_count:
                expect(False, f"{path}.DimensionCount", f"be {rank}", tensor.dimension_count)
                continue
            for d, (size, got) in enumerate(zip(sizes, tensor.sizes, strict=True)):
                if size not in (None, got):
                    text = f"be {size} {op.because(name, d)}".rstrip()
                    expect(False, f"{path}.Sizes[{d}]", text, got)

    def refused_at(self, op: Declared, level: FeatureLevel) -> tuple[Fault, ...]:
        """Return why a feature level refuses a description; nothing where it accepts it."""
        faults = op.support.faults(self.c_name, list(op.tensors()), self._group_of(op), level)
        expect = Expect(self.c_name)
        of_level = [record for record in self.operator.records() if record.levels]
        if of_level:
            constraints.check(of_level, self.view(op.__dict__), expect, set(), level)
        for f in self.fields:
            values = getattr(op, f.name)
            for value in values if isinstance(values, tuple) else (values,):
                if isinstance(value, FusedActivation) and value.introduced > level:
                    text = f"be in feature level {level} (it came with {value.introduced})"
                    expect(False, f.c_name, text, Unquoted(value.operator.short_name))
        at = f" at feature level {level}"
        return (*faults, *(replace(f, rule=f.rule + at) for f in expect.faults))

    def _group_of(self, op: Declared) -> Any:
        """Return the value of the attribute by which the support rows of an operator go."""
        return getattr(op, op.support.by) if op.support.by else None

    # What follows from a description without outputs.

    def wanted(self, outputs: Collection[str] | None) -> list[Field]:
        """Return the outputs that are made: all, or of the optional ones those of `outputs`."""
        return [f for f in self.outputs if not f.optional or outputs is None or f.name in outputs]

    def outputs_that_follow(
        self,
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
        view, c_names = self.view(op.__dict__), [f.c_name for f in wanted]
        types, one_type = data_type
        sizes = self._sizes_by_output(op, view, output_sizes, wanted, faults)
        solved_types = solve_types(self.operator.records(), view, c_names, NEWEST, {})
        given = {f.c_name: sizes[f.name] for f in wanted if _are_sizes(sizes.get(f.name))}
        solved: dict[str, Any] = solve_sizes(self.operator.records(), view, c_names, NEWEST, given)
        own, defaults = _own_sizes(op), op.default_data_types()
        free = [f for f in wanted if f.c_name not in solved_types]
        chosen = {f.c_name: t.name for f in free if (t := types.get(f.name, defaults.get(f.name)))}
        if chosen:
            solved_types |= solve_types(self.operator.records(), view, c_names, NEWEST, chosen)
        made: dict[str, TensorDesc] = {}
        for f in wanted:
            # One type is for the outputs that may choose.
            is_open = f in free or not (one_type and free)
            kind = types.get(f.name) if is_open else None
            if kind is None and f.c_name in solved_types:
                kind = TensorDataType.of(solved_types[f.c_name], op.beyond)
            kind = kind or defaults.get(f.name) or self._only_type(op, f)
            shape = sizes.get(f.name, own.get(f.name, solved.get(f.c_name)))
            call = f"{type(op).__name__}.infer(..., output_"
            if shape is None or None in tuple(shape):
                cure = f"{{{f.name!r}: [...]}}" if len(wanted) > 1 else "..."
                demand = f"be given: {call}sizes={cure})"
                faults.append(Fault(self.c_name, f"{f.c_name}.Sizes", demand, NOTHING))
            elif kind is None:
                demand = f"be given: {call}data_type=...)"
                faults.append(Fault(self.c_name, f"{f.c_name}.DataType", demand, NOTHING))
            else:
                with collecting(faults), moving(self.c_name, f.c_name):
                    made[f.name] = TensorDesc(kind, shape, beyond=op.beyond)
        return made

    def _only_type(self, op: Declared, f: Field) -> TensorDataType | None:
        """Return the type of an output that no record gives: its only one, or the input's."""
        allowed = op.support.groups[self._group_of(op)][0].types[f.name]
        if len(allowed) == 1:
            return allowed[0]
        return next((t.data_type for t in op.inputs if t.data_type in allowed), None)

    def types_by_output(self, value: Any, faults: list[Fault]) -> tuple[Mapping[str, Any], bool]:
        """Return the types that the caller of `infer` gives, by output, and whether it is one."""
        is_one = not isinstance(value, Mapping)
        by_field = dict.fromkeys((f.name for f in self.outputs), value) if is_one else value
        return self._of_outputs(by_field, "DataType", TensorDataType.of, faults), is_one

    def _sizes_by_output(
        self, op: Declared, view: View, sizes: Any, wanted: Sequence[Field], faults: list[Fault]
    ) -> Mapping[str, Any]:
        """Return the sizes that the caller of `infer` gives, by output."""
        names = [f.name for f in wanted]
        if sizes is None or isinstance(sizes, Mapping):
            by_field = sizes or {}
        elif isinstance(sizes, (list, tuple)) and any(map(_is_listed, sizes)):
            if len(sizes) > len(names):
                demand = f"have at most {len(names)} lists, one for each of {', '.join(names)}"
                faults.append(Fault(self.c_name, "output_sizes", demand, sizes))
            by_field = dict(zip(names, sizes, strict=False))
        else:
            solved = solve_sizes(self.operator.records(), view, [f.c_name for f in wanted], NEWEST)
            known = {f.name: solved.get(f.c_name) for f in wanted} | _own_sizes(op)
            left = [name for name in names if None in (known[name] or [None])]
            by_field = {names[0]: sizes}
            if left and names[0] not in left:
                fields = ", ".join(f"{name!r}: [...]" for name in left)
                listed = ", ".join("[...]" if name in left else "None" for name in names)
                demand = f"say whose sizes they are: {{{fields}}} or [{listed}]"
                faults.append(Fault(self.c_name, "output_sizes", demand, sizes))
                by_field = dict.fromkeys(left, sizes)
        return self._of_outputs(by_field, "Sizes", lambda value: value, faults)

    def _of_outputs(
        self,
        by_field: Mapping[str, Any],
        part: str,
        convert: Callable[[Any], Any],
        faults: list[Fault],
    ) -> dict[str, Any]:
        """Return the converted sizes or types (`part`) of outputs."""
        chosen, known = {}, {f.name: f.c_name for f in self.outputs}
        for name, item in by_field.items():
            if name not in known:
                demand = f"be an output{nearest(name, known)}"
                faults.append(Fault(self.c_name, str(name), demand, item))
            elif item is not None:
                found: list[Fault] = []
                with collecting(found), moving(self.c_name, f"{known[name]}.{part}"):
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


def is_of_axis(fault: Fault) -> bool:
    """Return whether a fault says that an axis is no dimension."""
    return fault.kind == OF_RANGE and field_of(fault.field) in ("Axis", "Axes")


def _from_the_front(faults: Sequence[Fault], tensors: _Tensors) -> list[Fault]:
    """Return the faults; one of an axis that counts from the end names DirectML's axis."""
    rank = next((tensor.dimension_count for _, _, tensor in tensors), 0)
    found = []
    for fault in faults:
        axis: Any = fault.value
        if is_of_axis(fault) and -rank <= axis < 0:
            fault = replace(fault, rule=f"be in [0, {rank - 1}] ({axis} is {axis + rank} there)")
        found.append(fault)
    return found
