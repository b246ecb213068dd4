"""Declare an operator: its fields, support and constraints come from `dml_jax.facts`."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, ClassVar

from dml_jax import enums, facts
from dml_jax.constraints import Record, records_of
from dml_jax.description import support
from dml_jax.description.descriptor import Descriptor, ScaleBias, Size2D, snake_case
from dml_jax.description.fields import (
    INT,
    UINT,
    Array,
    Boolean,
    Choice,
    Field,
    Fused,
    Kind,
    Real,
    Scalar,
    Structure,
    Tensor,
)
from dml_jax.description.support import Support
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.errors import Expect, nearest
from dml_jax.operator.callable import Bindable, BindPoint

Rule = Callable[[Any, Expect], None]


def rule(*fields: str) -> Callable[[Rule], Rule]:
    """Mark a method as a rule that no record can say, and name the fields that it reads.

    The method is called with a collector of faults, `expect`, where none of `fields` is missing or
    wrong: `expect(holds, "Axis", "be below 4", axis)`.
    """

    def marked(method: Rule) -> Rule:
        method.reads = fields  # pyright: ignore[reportFunctionMemberAccess]
        return method

    return marked


_KINDS: dict[str, Kind] = {
    "input": Tensor(),
    "output": Tensor(output=True),
    "UINT": UINT,
    "INT": INT,
    "BOOL": Boolean(),
    "FLOAT": Real(),
    "SCALE_BIAS": Structure(ScaleBias),
    "SIZE_2D": Structure(Size2D),
    "OPERATOR_DESC": Fused(),
}
_SHOWN: dict[str, Any] = {"UINT": int, "INT": int, "BOOL": bool, "FLOAT": float}


def _fields_of_facts(lines: Sequence[str]) -> tuple[Field, ...]:
    """Return the fields that the facts of an operator list."""
    parts = [re.fullmatch(r"(\w+)(?:\[(\w+)\])?(\?)? (\w+)", line).groups() for line in lines]  # pyright: ignore[reportOptionalMemberAccess]
    counts = {count for _, count, _, _ in parts}
    typed_by = next((c for k, _, _, c in parts if k == "TENSOR_DATA_TYPE"), "")
    enumerations = enums.by_prefix()
    fields = []
    for word, count, optional, c_name in parts:
        if c_name in counts:
            continue
        if word == "SCALAR_UNION":
            kind, shown = Scalar(typed_by), float
        elif word in _KINDS:
            kind, shown = _KINDS[word], _SHOWN.get(word, object)
        else:
            enumeration = enumerations[f"DML_{word}"]
            kind, shown = Choice(enumeration), enumeration | str
        if isinstance(kind, Tensor):
            shown = TensorDesc
        elif isinstance(kind, Structure):
            shown = kind.descriptor
        if count:
            kind, shown = Array(kind), Sequence[shown]
        default = None if optional else MISSING
        shown = shown | None if optional else shown
        fields.append(
            Field(snake_case(c_name), c_name, kind, bool(optional), default, count, shown)
        )
    return tuple(fields)


class Declared(Descriptor, Bindable):
    """The declaration of an operator: its fields, its constraints, its rules."""

    short_name: ClassVar[str]  # "REDUCE"
    family: ClassVar[str]  # the module that declares it
    support: ClassVar[Support]
    constraints: ClassVar[Sequence[Mapping[str, Any]]] = ()
    in_place: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # output -> inputs that it may lie on
    formula: ClassVar[str] = ""  # of the output, where the docstring has no paragraph of it
    function: ClassVar[Any] = None  # of arrays and attributes, where the operator may be fused
    by_element: ClassVar[bool] = False  # whether it maps each element by itself, wherever it lies
    sums_bfloat16: ClassVar[bool] = False  # products in FLOAT32, as matrix units do
    typical_attributes: ClassVar[Sequence[Mapping[str, Any]]] = ({},)  # of each typical use
    _tensor_fields: ClassVar[tuple[str, ...]]
    _rules: ClassVar[tuple[Rule, ...]]

    if TYPE_CHECKING:  # fields come from the facts; the stubs beside the package have their types

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, op: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(c_name=op and f"{facts.PREFIX}{op}", **kwargs)
        if op is None:
            return
        entry = facts.catalogue().get(op)
        cls.short_name, cls.family = op, cls.__module__.rpartition(".")[2]
        is_in_place = bool(cls.in_place)
        if entry is not None and not inspect.get_annotations(cls):
            cls._declare(_fields_of_facts(entry["fields"]))
            tensors = {f.c_name: f.name for f in cls.fields if f.tensor}
            choices = {
                f.c_name: f.kind.enumeration for f in cls.fields if isinstance(f.kind, Choice)
            }
            cls.support = support.of_facts(entry["support"], tensors, choices)
            cls.constraints = entry["constraints"]
            is_in_place = entry.get("in_place", False)
        cls._tensor_fields = tuple(f.name for f in cls.fields if f.tensor)
        marked = [v for base in reversed(cls.__mro__) for v in vars(base).items()]
        cls._rules = tuple(v for v in dict(marked).values() if hasattr(v, "reads"))
        wrong = "; ".join(cls._half_declared())
        if wrong:
            raise TypeError(f"{cls.c_name} is half declared: {wrong}")
        if entry is None or ("support" in vars(cls) and cls.support._fields == ()):
            cls.support = cls.support.of(cls._tensor_fields)
            _ = cls.support.groups  # a row that misses a tensor is refused here
        cls.in_place = cls._pairs_in_place() if is_in_place else {}

    @classmethod
    def _half_declared(cls) -> Iterator[str]:
        """Yield each part that the declaration lacks, or that cannot be."""
        names, (package, _, family) = facts.catalogue(), cls.__module__.rpartition(".")
        if cls.short_name not in names and not cls.fields:
            yield f"the facts have no {cls.short_name}{nearest(cls.short_name, names)}"
            return
        if package == "dml_jax.operators" and family != names[cls.short_name]["family"]:
            yield f"its family is {names[cls.short_name]['family']}, not {family}"
        for part in ("support", "lower"):
            if getattr(cls, part, None) is getattr(Declared, part, None):
                yield f"it lacks {part}"
        if not any(f.tensor and f.tensor.output for f in cls.fields):
            yield "it lacks an output"
        named = facts.class_name_of(cls.short_name)
        if cls.__name__ != named:
            yield f"its class is {cls.__name__}, not {named}"
        chosen = cls.support.by if hasattr(cls, "support") else None
        if chosen not in (None, *(f.name for f in cls.fields)):
            yield f"its support goes by {chosen!r}, which is no field"
        for f in cls.fields:
            of = f.kind.type_field if isinstance(f.kind, Scalar) else None
            if of not in (None, *(other.c_name for other in cls.fields)):
                yield f"{f.c_name} is of the type {of}, which is no field"

    @classmethod
    def alike(cls, aspect: str) -> list[tuple[str, ...]]:
        """Return the groups of tensor fields that must agree in "DataType" or "Sizes"."""
        names = {f.c_name: f.name for f in cls.fields if f.tensor}
        groups = []
        for record in cls.constraints:
            tied: Sequence[str] = ()
            is_whole = aspect == "DataType" or "except" not in record
            if aspect in record.get("of", ()) and is_whole:
                tied = [name.replace("[*]", "") for name in record["equal"]]
            elif aspect == "DataType" and "type" in record:
                tied = record["type"], record["is"].removesuffix(".DataType")
            groups.append(tuple(names[name] for name in tied if name in names))
        return [group for group in groups if len(group) > 1]

    @classmethod
    def _pairs_in_place(cls) -> dict[str, tuple[str, ...]]:
        """Return the inputs that each output may lie on: those of its sizes, and its type if any.

        Exactly the same bytes are demanded when memory is bound, and so elements of one width.
        """

        def partners(output: Field, aspect: str) -> set[str]:
            return set().union(*(g for g in cls.alike(aspect) if output.name in g))

        inputs = [f.name for f in cls.fields if f.tensor and not f.tensor.output]
        pairs: dict[str, tuple[str, ...]] = {}
        for f in cls.outputs_of():
            of_size = [name for name in inputs if name in partners(f, "Sizes")]
            of_type = [name for name in of_size if name in partners(f, "DataType")]
            pairs[f.name] = tuple((of_type or of_size) if cls.constraints else inputs)
        return pairs

    # What an operator may declare.

    def expected_sizes(self) -> Mapping[str, Any]:
        """Return tensor field -> the sizes it must have (a sequence of them for a list).

        None is a size that does not follow.
        """
        return {}

    def because(self, field: str, dimension: int) -> str:
        """Return where an expected size comes from, as an error message says it."""
        return ""

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        """Return the types of outputs that follow from no record, where `infer` is not told."""
        return {}

    def lower(self, *arrays: Any, **_: Any) -> Any:
        """Compute the outputs from one array for each input."""
        raise NotImplementedError

    @classmethod
    @functools.cache
    def _records(cls) -> tuple[Record, ...]:
        alike = {"equal": [f.c_name + "[*]" * f.is_array for f in cls.fields if f.tensor]}
        of_own = not cls.constraints and cls.short_name not in facts.catalogue()
        return records_of([{**alike, "of": ["DataType"]}] if of_own else cls.constraints)

    @classmethod
    def outputs_of(cls) -> list[Field]:
        """Return the fields of the outputs."""
        return [f for f in cls.fields if f.tensor and f.tensor.output]

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """Yield (path, field, tensor) of all tensors, of the outputs or of the inputs.

        The path is DirectML's spelling: `InputTensor`, `OutputTensors[1]`. Optional tensors that
        are not given are left out.
        """
        for f in self.fields:
            if f.tensor and output in (None, f.tensor.output):
                yield from tensors_of(f, getattr(self, f.name))

    def bind_points(self) -> Iterator[BindPoint]:
        """Yield where memory is bound: the tensor fields that are given, by their C names."""
        for f in self.fields:
            value = getattr(self, f.name)
            if f.tensor is not None and value is not None:
                tensors = value if f.is_array else (value,)
                yield BindPoint(f.c_name, tensors, f.tensor.output, f.is_array)

    @classmethod
    def _by_c_name(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {f.c_name: values[f.name] for f in cls.fields if f.name in values}


def tensors_of(f: Field, value: Any) -> Iterator[tuple[str, str, TensorDesc]]:
    """Yield (path, field, tensor) of each tensor in the value of a field."""
    if f.tensor is None or value is None:
        return
    if f.is_array:
        for index, tensor in enumerate(value):
            yield f"{f.c_name}[{index}]", f.name, tensor
    else:
        yield f.c_name, f.name, value
