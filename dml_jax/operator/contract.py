"""The contract of an operator: what its description must meet.

`Contract.check` finds the faults of a description, sizes among them: by the support rows, the
constraint records, the rules of the operator, and the sizes that it expects. `Contract.refused_at`
asks a feature level. `dml_jax.operator.inference` has what follows from a description.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dml_jax import constraints
from dml_jax.constraints import Aspect, aspect_of, is_wrong
from dml_jax.description.descriptor import UnknownFieldError
from dml_jax.description.fields import Field
from dml_jax.description.tensor import DISTINCT_ADDRESSES, TensorDesc
from dml_jax.enums import FeatureLevel, TensorDataType, TensorFlags
from dml_jax.errors import NOTHING, OF_RANGE, Expect, Fault, Unquoted, field_of
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


class Contract:
    """What the description of an operator must meet.

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
    def is_element_wise(self) -> bool:
        """Return whether all tensors have the same sizes, of any rank, and no axis is named."""
        tensors = {f.name for f in self.fields if f.tensor}
        newest = (rows[0] for rows in self.operator.support.groups.values())
        least = {low for row in newest for low, _ in row.ranks.values()}
        is_named = not self._by_name.keys().isdisjoint(("axis", "axes"))
        return least == {1} and not is_named and tensors in map(set, self.alike("Sizes"))

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
        by, expect = op.support.by, Expect(self.c_name)
        if by is None or by in present:
            group = present[by] if by else None
            faults += op.support.faults(self.c_name, tensors, group, beyond=op.beyond)
        for f in given:
            if f.is_array and present[f.name] is not None and not present[f.name]:
                expect(False, f.count or f.c_name, "be at least 1", 0)
        op._check_counts(expect.faults, present)
        self._check_outputs(expect, tensors)
        # Records do not look at what is wrong; with a count, the lists are that it counts.
        wrong: set[Aspect] = set()
        for fault in (*faults, *expect.faults):
            root, aspect = aspect_of(fault.field)
            wrong |= {(c_name, aspect) for c_name in (root, *op._counts.get(root, ()))}
        made = [present[f.name] for f in self.outputs if f.name in present]
        if len(made) == len(self.outputs) and all(value is None for value in made):
            names = ", ".join(f.c_name for f in self.outputs)
            demand = "be given, or another output" if "," in names else "be given"
            expect(False, self.outputs[0].c_name, demand, NOTHING)
        view = op.view(self._right(present, wrong))
        constraints.check(self.operator.records(), view, expect, wrong, NEWEST)
        self._check_rules(op, expect, wrong, present)
        self._check_sizes(op, expect, tensors, wrong, present)
        faults += expect.faults

    def _right(self, present: Mapping[str, Any], wrong: Collection[Aspect]) -> dict[str, Any]:
        """Return the fields that are present and right."""
        right = (f.name for f in self.fields if (f.c_name, "") not in wrong)
        return {name: present[name] for name in right if name in present}

    def _check_outputs(self, expect: Expect, tensors: _Tensors) -> None:
        """Check that outputs are memory of their own, each element at an address of its own."""
        names = {f.name for f in self.outputs}
        for path, name, tensor in tensors:
            if name not in names:
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
        right.__dict__.update(self._right(present, wrong))
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
            sizes = expected.get(path)
            if sizes is None:
                continue
            if len(sizes) != tensor.dimension_count:
                rule = f"be {len(sizes)}"
                expect(False, f"{path}.DimensionCount", rule, tensor.dimension_count)
                continue
            for d, (size, got) in enumerate(zip(sizes, tensor.sizes, strict=True)):
                if size not in (None, got):
                    text = f"be {size} {op.because(name, d)}".rstrip()
                    expect(False, f"{path}.Sizes[{d}]", text, got)

    def refused_at(self, op: Declared, level: FeatureLevel) -> tuple[Fault, ...]:
        """Return why a feature level refuses a description; nothing where it accepts it."""
        faults = op.support.faults(self.c_name, list(op.tensors()), op.support_group, level)
        expect = Expect(self.c_name)
        of_level = [record for record in self.operator.records() if record.levels]
        if of_level:
            constraints.check(of_level, op.view(op.__dict__), expect, set(), level)
        for f in self.fields:
            values = getattr(op, f.name)
            for value in values if isinstance(values, tuple) else (values,):
                if isinstance(value, FusedActivation) and value.introduced > level:
                    text = f"be in feature level {level} (it came with {value.introduced})"
                    expect(False, f.c_name, text, Unquoted(value.operator.short_name))
        at = f" at feature level {level}"
        return (*faults, *(replace(f, rule=f.rule + at) for f in expect.faults))


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
