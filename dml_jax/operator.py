"""The base of all operators: from one declaration, the checks, the support query and the call."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Protocol, Self, TypeVar, overload

import jax
from jax import lax
from jax.typing import ArrayLike

from dml_jax.arrays import are_described, array_of
from dml_jax.bindable import Bindable, BindPoint
from dml_jax.descriptor import Descriptor, UnknownFieldError, c_name_of
from dml_jax.enums import FeatureLevel, TensorDataType, TensorFlags
from dml_jax.errors import (
    NOTHING,
    DmlError,
    Expect,
    Fault,
    Unquoted,
    field_of,
    nearest,
)
from dml_jax.fields import Field, Scalar
from dml_jax.support import Support
from dml_jax.tensor import (
    DISTINCT_ADDRESSES,
    Placeholder,
    TensorDesc,
    shown_array,
)

_Tensors = Sequence[tuple[str, str, TensorDesc]]  # path, field, tensor

OPERATORS: "dict[str, type[Operator]]" = {}
"""Every operator there is, by its full name (`DML_OPERATOR_REDUCE`)."""


Result = TypeVar("Result", covariant=True)


class _Lowering(Protocol[Result]):
    """What a call returns is what `lower` does: so type checkers know one output from several."""

    def lower(self, *arrays: Any, **_: Any) -> Result: ...
    def _check_arrays(self, arrays: Sequence[Any]) -> None: ...


class Operator(Descriptor, Bindable):
    """A DirectML operator: a checked description, and a function of JAX arrays.

    `op(x, ...)` takes one array for each input tensor, in the order of the fields, of exactly the
    described sizes and type, and returns the output (a tuple of them where there are several). It
    is a pure function: it works eagerly and under jit, grad, vmap and shard_map, and is itself a
    static argument of jit. Strides do not matter to it: they are a property of memory
    (`TensorDesc.read` and `write`).

    To declare an operator: annotate its fields, give `support`, and override

    - `check`: what its page demands beyond types and sizes;
    - `expected_sizes`: the sizes that its other tensors must have, given its inputs and attributes;
    - `same_data_type`: the tensors that share one type, where not all do;
    - `lower`: the function of arrays, one line that calls `dml_jax.lowering`. It is given one for
      each input, None for one that is left out, and gives one for each output there is.

    Its docstring says, a paragraph each, a summary, the formula, "Choices:" where the documentation
    is silent, "Gradient:", "Fields:" and "Source:" (`dml_jax.documentation` reads them).
    """

    short_name: ClassVar[str]  # "REDUCE"
    support: ClassVar[Support]
    by_element: ClassVar[bool] = False  # whether it maps each element by itself, wherever it lies
    _tensor_fields: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, op: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(c_name=op and f"DML_OPERATOR_{op}", **kwargs)
        cls._tensor_fields = tuple(f.name for f in cls.fields if f.tensor)
        if op is not None:
            cls.short_name = op
            wrong = "; ".join(cls._half_declared())
            if wrong:
                raise TypeError(f"{cls.c_name} is half declared: {wrong}")
            cls.support = cls.support.resolved(list(cls._tensor_fields))
            jax.tree_util.register_static(cls)
            OPERATORS[cls.c_name] = cls

    @classmethod
    def _half_declared(cls) -> Iterator[str]:
        """What the declaration lacks, or says that cannot be."""
        for part in ("support", "expected_sizes", "lower"):
            if getattr(cls, part, None) is getattr(Operator, part, None):
                yield f"it lacks {part}"
        if not any(f.tensor and f.tensor.output for f in cls.fields):
            yield "it lacks an output"
        known = OPERATORS.get(cls.c_name, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            yield f"{known.__module__}.{known.__qualname__} has that name"
        named = c_name_of(cls.short_name.lower())
        if cls.__name__ != named:
            yield f"its class is {cls.__name__}, not {named}"
        chosen = cls.support.by if hasattr(cls, "support") else None
        if chosen not in (None, *(f.name for f in cls.fields)):
            yield f"its support goes by {chosen!r}, which is no field"
        for f in cls.fields:
            of = f.kind.type_field if isinstance(f.kind, Scalar) else None
            if of not in (None, *(other.c_name for other in cls.fields)):
                yield f"{f.c_name} is of the type {of}, which is no field"

    # What an operator declares.

    def check(self, expect: Expect) -> None:
        """What the operator's page demands of its attributes."""

    def expected_sizes(self) -> Mapping[str, Any]:
        """Tensor field -> the sizes it must have (a sequence of them for an array of tensors).

        None is a size that does not follow, where `check` found a tensor wrong.
        """
        raise NotImplementedError

    def because(self, field: str, dimension: int) -> str:
        """Where an expected size comes from, as an error message says it."""
        return ""

    def same_data_type(self) -> tuple[str, ...]:
        """The tensor fields that share one data type: all of them, if not overridden."""
        return self._tensor_fields

    def inferred_data_type(self) -> TensorDataType:
        """Of the outputs that `infer` makes: the first input's, if not overridden."""
        return self.inputs[0].data_type

    def lower(self, *arrays: Any, **_: Any) -> Any:
        """The function: one array for each input, one array or several out."""
        raise NotImplementedError

    # What every operator has.

    @classmethod
    def infer(
        cls,
        *positional: Any,
        output_data_type: TensorDataType | str | None = None,
        **fields: Any,
    ) -> Self:
        """The descriptor whose outputs follow from the other fields: packed, of the right sizes.

        Args:
            positional: none: fields are given by name.
            output_data_type: of the outputs; None is what `inferred_data_type` says.
            fields: all fields but the outputs.

        Raises `DmlError` as the constructor does. Not for operators whose outputs choose their own
        sizes, such as SPLIT.
        """
        outputs = [f for f in cls.fields if f.tensor and f.tensor.output]
        names = [f.name for f in cls.fields if f not in outputs]
        if positional:
            raise TypeError(f"{cls.__name__}.infer takes fields by name: {', '.join(names)}")
        partial = object.__new__(cls)
        faults: list[Fault] = []
        for f in outputs:
            if f.name in fields:
                rule = f"be left out: {cls.__name__}.infer makes it"
                faults.append(Fault(cls.c_name, f.name, rule, fields.pop(f.name)))
            if f.is_array:
                rule = f"be given to {cls.__name__}(...): they choose their own sizes"
                faults.append(Fault(cls.c_name, f.c_name, rule, NOTHING))
        cls._fill(fields, faults, cls._convert(fields, faults), outputs)
        data_type = None
        if output_data_type is not None:
            try:
                data_type = TensorDataType.of(output_data_type)
            except DmlError as error:
                faults += error.moved(cls.c_name, f"{outputs[0].c_name}.DataType")
        partial.__dict__.update(fields)
        partial._check(faults, fields)
        if faults:
            raise DmlError(faults)
        if data_type is None:
            data_type = partial.inferred_data_type()
        sizes = partial.expected_sizes()
        for f in outputs:
            try:
                fields[f.name] = TensorDesc(data_type, sizes[f.name])
            except DmlError as error:
                faults += error.moved(cls.c_name, f.c_name)
        if faults:
            raise DmlError(faults)
        return cls(**fields)

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """(path, field, tensor) of all tensors, of the outputs or of the inputs.

        The path is DirectML's spelling: `InputTensor`, `OutputTensors[1]`. Optional tensors that
        are not given are left out.
        """
        for f in self.fields:
            if f.tensor and output in (None, f.tensor.output):
                yield from _tensors_of(f, getattr(self, f.name))

    def bind_points(self) -> Iterator[BindPoint]:
        """Where memory is bound: the tensor fields that are given, by their C names."""
        for f in self.fields:
            value = getattr(self, f.name)
            if f.tensor is not None and value is not None:
                tensors = value if f.is_array else (value,)
                yield BindPoint(f.c_name, tensors, f.tensor.output, f.is_array)

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        given = [f for f in self.fields if f.name in present]
        tensors = [tensor for f in given for tensor in _tensors_of(f, present[f.name])]
        if faults:
            faults[:] = _from_the_front(faults, tensors)
        by = self.support.by
        unsupported: set[str] = set()
        if by is None or by in present:
            found = self.support.faults(self.c_name, tensors, present[by] if by else None)
            unsupported = {fault.field for fault in found}
            faults += found
        expect = Expect(self.c_name)
        for f in given:
            if f.is_array:
                count = len(present[f.name])
                expect(count > 0, f.count or f.c_name, "be at least 1", count)
        self._check_outputs(expect, tensors)
        # What depends on a field that is missing or wrong is not asked. Of a rank that no row has
        # rules of sizes would look for dimensions that are not there.
        wrong = [fault.field for fault in expect.faults]
        wrong += [path for path in unsupported if path.endswith("DimensionCount")]
        known = self._but_for(wrong)
        with suppress(UnknownFieldError):
            types = [t for t in tensors if f"{t[0]}.DataType" not in unsupported]
            known._check_types(expect, types)
        with suppress(UnknownFieldError):
            known.check(expect)
        with suppress(UnknownFieldError):
            wrong = [fault.field for fault in expect.faults]
            known._but_for(wrong, of_tensors=False)._check_sizes(expect, tensors)
        # A rank or type that no row has is said once, by the row.
        faults += (fault for fault in expect.faults if fault.field not in unsupported)

    def _but_for(self, paths: Sequence[str], of_tensors: bool = True) -> Self:
        """Itself without the fields that these are in."""
        if not paths:
            return self
        wrong = {field_of(path) for path in paths}
        known = object.__new__(type(self))
        for f in self.fields:
            keeps = wrong.isdisjoint((f.c_name, f.count)) or (f.tensor and not of_tensors)
            if f.name in self.__dict__ and keeps:
                known.__dict__[f.name] = self.__dict__[f.name]
        return known

    def _check_outputs(self, expect: Expect, tensors: _Tensors) -> None:
        outputs = {f.name for f in self.fields if f.tensor and f.tensor.output}
        for path, field, tensor in tensors:
            if field not in outputs:
                continue
            if not tensor.has_distinct_addresses:
                expect(False, f"{path}.Strides", DISTINCT_ADDRESSES, list(tensor.strides or ()))
            if tensor.flags and TensorFlags.OWNED_BY_DML in tensor.flags:
                rule = "be NONE (OWNED_BY_DML is for inputs)"
                expect(False, f"{path}.Flags", rule, Unquoted(tensor.flags.name))

    def _check_types(self, expect: Expect, tensors: _Tensors) -> None:
        shared = self.same_data_type()
        alike = [(path, tensor.data_type) for path, field, tensor in tensors if field in shared]
        for path, data_type in alike[1:]:
            if data_type != alike[0][1]:
                rule = f"be {alike[0][1]} ({alike[0][0]}.DataType)"
                expect(False, f"{path}.DataType", rule, data_type.shown())

    def _check_sizes(self, expect: Expect, tensors: _Tensors) -> None:
        expected = {}
        for name, sizes in self.expected_sizes().items():
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
                    rule = f"be {size} {self.because(field, d)}".rstrip()
                    expect(False, f"{path}.Sizes[{d}]", rule, got)

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Why a feature level does not take this descriptor; empty where it does."""
        level = FeatureLevel.of(feature_level)
        group = getattr(self, self.support.by) if self.support.by else None
        return tuple(self.support.faults(self.c_name, list(self.tensors()), group, level))

    @overload
    def __call__(self: _Lowering[Result], *arrays: ArrayLike) -> Result: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any:
        """The output, or a tuple of several, given one array for each input tensor.

        Given expressions of a `GraphBuilder`, it becomes a node of the graph, and returns
        expressions. Raises `DmlError` where shapes or types are not those of the tensors.
        """
        for array in arrays:
            if isinstance(array, Placeholder):
                return array.takes(self, arrays)
        return super().__call__(*arrays)

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """All results, in their order, of arrays that are not checked; without `jax.jit`."""
        results = self.evaluate(*arrays)
        if not are_described(self.outputs, results):
            made = ", ".join(map(shown_array, results))
            needed = ", ".join(map(array_of, self.outputs))
            raise TypeError(f"{type(self).__name__}.lower makes {made} of {self}, not {needed}")
        return results

    def evaluate(self, *arrays: Any) -> Sequence[jax.Array]:
        """Compute all results; where it maps elements, of arrays of any one shape."""
        with jax.named_scope(self.c_name):
            strong = (lax.convert_element_type(a, a.dtype) for a in arrays)  # drops weak types
            return jax.tree.leaves(self.lower(*self._placed(strong)))

    def _placed(self, arrays: Iterator[Any]) -> Iterator[Any]:
        """The arrays, and None for each input that may be left out and is."""
        for f in self.fields:
            if f.tensor and not f.tensor.output:
                value = getattr(self, f.name)
                if value is None:
                    yield None
                else:
                    yield from itertools.islice(arrays, len(value) if f.is_array else 1)

    def to_json(self) -> dict[str, Any]:
        """{"Type", "Desc"} as DxDispatch's JSON has them, count fields included."""
        return {"Type": self.c_name, "Desc": super().to_json()}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The inverse of `to_json`; also takes the fields by themselves. Raises `DmlError`.

        `Operator.from_json` takes any operator, as `operator_from_json` does.
        """
        if cls is Operator:
            return operator_from_json(value)  # pyright: ignore[reportReturnType]
        if not isinstance(value, Mapping) or {"Type", "type"}.isdisjoint(value):
            return cls.of_fields(value)
        named, fields = _named(value)
        if named is not cls:
            raise DmlError([Fault("", "type", f"be {cls.c_name}", named.c_name)])
        return cls.of_fields(fields)

    @classmethod
    def of_fields(cls, fields: Any) -> Self:
        """The operator that a JSON object of its fields describes. Raises `DmlError`."""
        return super().from_json(fields)


def operator_type(name: Any) -> type[Operator]:
    """The operator class of a name with or without DML_OPERATOR_. Raises `DmlError`."""
    full = name if str(name).startswith("DML_OPERATOR_") else f"DML_OPERATOR_{name}"
    if full not in OPERATORS:
        known = [op.short_name for op in OPERATORS.values()]
        hint = nearest(full.upper().replace("DML_OPERATOR_", ""), known)
        rule = f"be an operator that is built ({', '.join(known)}){hint}"
        raise DmlError([Fault("", "type", rule, name)])
    return OPERATORS[full]


def operator_from_json(value: Any) -> Operator:
    """The operator of {"Type", "Desc"}, or with the fields beside the type. Raises `DmlError`.

    Both keys may be in lower case, as DxDispatch's dispatchables have them.
    """
    named, fields = _named(value)
    return named.of_fields(fields)


def _named(value: Any) -> tuple[type[Operator], Any]:
    """The class of {"Type", "Desc"}, and the fields."""
    if not isinstance(value, Mapping):
        raise DmlError([Fault("DML_OPERATOR_DESC", "", "be an object", value)])
    for pair in (("Type", "type"), ("Desc", "desc")):
        if all(name in value for name in pair):
            rule = f"stand alone, not beside {pair[0]}"
            raise DmlError([Fault("", pair[1], rule, value[pair[1]])])
    name = value.get("Type", value.get("type", NOTHING))
    if not isinstance(name, str) or name is NOTHING:
        raise DmlError([Fault("", "type", "be an operator's name", name)])
    fields = {key: item for key, item in value.items() if key not in ("Type", "type")}
    return operator_type(name), fields.get("Desc", fields.get("desc", fields))


def _tensors_of(f: Field, value: Any) -> Iterator[tuple[str, str, TensorDesc]]:
    """(path, field, tensor) of a field: none, one, or several."""
    if f.tensor is None or value is None:
        return
    if f.is_array:
        for index, tensor in enumerate(value):
            yield f"{f.c_name}[{index}]", f.name, tensor
    else:
        yield f.c_name, f.name, value


def _from_the_front(faults: Sequence[Fault], tensors: _Tensors) -> list[Fault]:
    """The faults, where an axis counts from the end with what that is for DirectML."""
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
