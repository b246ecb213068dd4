"""Check the description of an operator, and ask feature levels about it."""

import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dml_jax import constraints
from dml_jax.constraints import Aspect, View, aspect_of, is_wrong
from dml_jax.description.descriptor import UnknownFieldError
from dml_jax.description.fields import Fused
from dml_jax.description.tensor import DISTINCT_ADDRESSES, TensorDesc
from dml_jax.enums import FeatureLevel, TensorFlags
from dml_jax.errors import NOTHING, Expect, Fault, Unquoted
from dml_jax.operator.declaration import Declared, tensors_of

NEWEST = max(FeatureLevel)

_Tensors = Sequence[tuple[str, str, TensorDesc]]  # path, field, tensor


class Checked(Declared):
    """The checks of a description, which is whole or is not made."""

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        given = [f for f in self.fields if f.name in present]
        of_tensors = [f for f in given if f.tensor is not None]
        tensors = [tensor for f in of_tensors for tensor in tensors_of(f, present[f.name])]
        if faults:
            faults[:] = _from_the_front(faults, tensors)
        wrong = {aspect_of(fault.field) for fault in faults}
        by = self.support.by
        if by is None or by in present:
            faults += self.support.faults(self.c_name, tensors, present[by] if by else None)
        expect = Expect(self.c_name)
        for f in given:
            if f.is_array and present[f.name] is not None and not present[f.name]:
                expect(False, f.count or f.c_name, "be at least 1", 0)
        self._check_counts(expect.faults, present)
        self._check_outputs(expect, tensors)
        counted = {c: {f.c_name for f in self.fields if f.count == c} for c in self._counts}
        for fault in (*faults, *expect.faults):
            root, aspect = aspect_of(fault.field)
            wrong |= {(c_name, aspect) for c_name in counted.get(root, {root})}
            wrong.add((root, aspect))
        if not self.outputs_of() or any(f.name in present for f in self.outputs_of()):
            self._check_all_outputs_absent(expect, present)
        values = self._by_c_name(present)
        known = {c: v for c, v in values.items() if (c, "") not in wrong}
        view = View(known, self._counts)
        constraints.check(self._records(), view, expect, wrong, NEWEST)
        self._check_rules(expect, wrong, present)
        self._check_sizes(expect, tensors, wrong, present)
        faults += expect.faults

    def _check_all_outputs_absent(self, expect: Expect, present: Mapping[str, Any]) -> None:
        outputs = [f for f in self.outputs_of() if present.get(f.name) is not None]
        if not outputs and all(f.name in present for f in self.outputs_of()):
            names = ", ".join(f.c_name for f in self.outputs_of())
            rule = "be given, or another output" if "," in names else "be given"
            expect(False, self.outputs_of()[0].c_name, rule, NOTHING)

    def _check_rules(
        self, expect: Expect, wrong: Collection[Aspect], present: Mapping[str, Any]
    ) -> None:
        c_names = {f.name: f.c_name for f in self.fields}
        for method in self._rules:
            reads: Sequence[str] = method.reads  # pyright: ignore[reportFunctionMemberAccess]
            if all(name in present for name in reads) and not any(
                is_wrong(wrong, c_names[name], "DimensionCount") for name in reads
            ):
                try:
                    method(self, expect)
                except UnknownFieldError:
                    continue  # it reads another field, which is missing or wrong

    def _check_outputs(self, expect: Expect, tensors: _Tensors) -> None:
        outputs = {f.name for f in self.outputs_of()}
        for path, field, tensor in tensors:
            if field not in outputs:
                continue
            if not tensor.has_distinct_addresses:
                expect(False, f"{path}.Strides", DISTINCT_ADDRESSES, list(tensor.strides or ()))
            if tensor.flags and TensorFlags.OWNED_BY_DML in tensor.flags:
                rule = "be NONE (OWNED_BY_DML is for inputs)"
                expect(False, f"{path}.Flags", rule, Unquoted(tensor.flags.name))

    def _check_sizes(
        self,
        expect: Expect,
        tensors: _Tensors,
        wrong: Collection[Aspect],
        present: Mapping[str, Any],
    ) -> None:
        """Check the sizes that `expected_sizes` demands, of the fields that are right."""
        if any(aspect == "DimensionCount" for _, aspect in wrong):
            return
        right = object.__new__(type(self))
        for f in self.fields:
            if f.name in present and (f.c_name, "") not in wrong:
                right.__dict__[f.name] = present[f.name]
        expected = {}
        try:
            demanded = right.expected_sizes()
        except UnknownFieldError:  # it rests on a field that is missing or wrong
            return
        for name, sizes in demanded.items():
            f = next(f for f in self.fields if f.name == name)
            if f.is_array:
                expected |= {f"{f.c_name}[{i}]": s for i, s in enumerate(sizes)}
            else:
                expected[f.c_name] = sizes
        for path, field, tensor in tensors:
            sizes = expected.get(path, tensor.sizes)
            if tensor.sizes == tuple(sizes):
                continue
            rank = len(sizes)
            if rank != tensor.dimension_count:
                expect(False, f"{path}.DimensionCount", f"be {rank}", tensor.dimension_count)
                continue
            for d, (size, got) in enumerate(zip(sizes, tensor.sizes, strict=True)):
                if size not in (None, got):
                    text = f"be {size} {self.because(field, d)}".rstrip()
                    expect(False, f"{path}.Sizes[{d}]", text, got)

    @functools.cached_property
    def beyond_directml(self) -> tuple[Fault, ...]:
        """Return why no feature level accepts this descriptor; empty for all but nodes of networks.

        `load_onnx(fallback=True)` makes nodes of types that DirectML lacks.
        """
        return self.refused_at(NEWEST)

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses this descriptor; nothing where it accepts it."""
        level = FeatureLevel.of(feature_level)
        group = getattr(self, self.support.by) if self.support.by else None
        faults = self.support.faults(self.c_name, list(self.tensors()), group, level)
        expect = Expect(self.c_name)
        of_level = [record for record in self._records() if record.levels]
        if of_level:
            view = View(self._by_c_name(self.__dict__), self._counts)
            constraints.check(of_level, view, expect, set(), level)
        for f in self.fields:
            values = getattr(self, f.name)
            for value in values if isinstance(values, tuple) else (values,):
                if isinstance(value, Fused.activation) and value.introduced > level:
                    text = f"be in feature level {level} (it came with {value.introduced})"
                    expect(False, f.c_name, text, Unquoted(value.operator.short_name))
        at = f" at feature level {level}"
        return (*faults, *(replace(f, rule=f.rule + at) for f in expect.faults))


def _from_the_front(faults: Sequence[Fault], tensors: _Tensors) -> list[Fault]:
    """Return the faults; one of an axis that counts from the end names DirectML's axis."""
    rank = next((tensor.dimension_count for _, _, tensor in tensors), 0)
    found = []
    for fault in faults:
        axis, is_axis = fault.value, re.fullmatch(r"Axis|Axes\[\d+\]", fault.field)
        is_axis = is_axis and fault.rule.startswith("be an integer")
        if is_axis and type(axis) is int and -rank <= axis < 0:
            rule = f"be in [0, {rank - 1}] ({axis} is {axis + rank} there)"
            fault = replace(fault, rule=rule)
        found.append(fault)
    return found
