"""The base of all operators: from a declaration and its facts, the checks, and the call."""

import functools
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, overload

import jax
from jax import lax
from jax.typing import ArrayLike

from dml_jax import constraints as records
from dml_jax import enums, facts
from dml_jax import support as support_tables
from dml_jax.arrays import are_described, array_of
from dml_jax.bindable import Bindable, BindPoint
from dml_jax.constraints import Aspect, View, aspect_of, is_wrong
from dml_jax.descriptor import Descriptor, ScaleBias, Size2D, UnknownFieldError, snake_case
from dml_jax.enums import FeatureLevel, TensorDataType, TensorFlags
from dml_jax.errors import NOTHING, DmlError, Expect, Fault, Unquoted, nearest
from dml_jax.fields import (
    INT,
    UINT,
    Array,
    Boolean,
    Choice,
    Field,
    Fused,
    Integer,
    Kind,
    Real,
    Scalar,
    Structure,
    Tensor,
)
from dml_jax.support import Support
from dml_jax.tensor import DISTINCT_ADDRESSES, Placeholder, TensorDesc, shown_array

_Tensors = Sequence[tuple[str, str, TensorDesc]]  # path, field, tensor
_NEWEST = max(FeatureLevel)


class _Registry(Mapping[str, Any]):
    """The operators by their full names; a family's module is imported when it is asked for."""

    def __init__(self) -> None:
        self._built: dict[str, type[Operator]] = {}
        self._loaded: set[str] = set()

    def put(self, op: "type[Operator]") -> None:
        """Add an operator that has been declared."""
        self._built[op.c_name] = op

    def built(self, c_name: str) -> "type[Operator] | None":
        """Return the operator of a full name if it has been declared already."""
        return self._built.get(c_name)

    def _load(self, family: str) -> None:
        if family in self._loaded:
            return
        self._loaded.add(family)
        try:
            importlib.import_module(f"dml_jax.operators.{family}")
        except ModuleNotFoundError as error:
            if error.name != f"dml_jax.operators.{family}":
                raise

    def _load_all(self) -> None:
        for family in sorted({entry["family"] for entry in facts.catalogue().values()}):
            self._load(family)

    def __getitem__(self, name: str) -> "type[Operator]":
        if name not in self._built:
            short = name.removeprefix(facts.PREFIX)
            entry = facts.catalogue().get(short)
            if entry is not None and name.startswith(facts.PREFIX):
                self._load(entry["family"])
        return self._built[name]

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # pyright: ignore[reportArgumentType]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        self._load_all()
        order = {f"{facts.PREFIX}{name}": k for k, name in enumerate(facts.catalogue())}
        return iter(sorted(self._built, key=lambda name: (order.get(name, len(order)), name)))

    def __len__(self) -> int:
        self._load_all()
        return len(self._built)


OPERATORS = _Registry()
"""Every operator, by its full name (`DML_OPERATOR_REDUCE`)."""

Result = TypeVar("Result", covariant=True)


class _Lowering(Protocol[Result]):
    """What a call returns is what `lower` does: so type checkers know one output from several."""

    def lower(self, *arrays: Any, **_: Any) -> Result: ...
    def _check_arrays(self, arrays: Sequence[Any]) -> None: ...


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


class Operator(Descriptor, Bindable):
    """A DirectML operator: a checked description, and a function of JAX arrays.

    `op(x, ...)` takes one array for each input tensor that is given, in the order of the fields, of
    exactly the described sizes and type, and returns the output (a tuple of several). It is a pure
    function: it works eagerly and under jit, grad, vmap and shard_map, and is itself a static
    argument of jit. Strides do not matter to it: they are a property of memory (`TensorDesc.read`
    and `write`).

    To declare an operator of the catalogue, name it (`op="REDUCE"`) and give `lower`: its fields,
    support rows and constraints come from `dml_jax.facts`. An operator of your own annotates its
    fields and gives `support`, and `constraints` in the form of `dml_jax.constraints`. Where they
    are needed, override or add

    - methods marked with `rule`: what no constraint record can say;
    - `expected_sizes`: sizes that follow from the other fields by a rule that no record has;
    - `default_data_types`: types of outputs that the caller of `infer` may choose;
    - `lower`: the function of arrays. It is called with one array for each input field, None for an
      input that is left out, and returns one array for each output field (an output that is left
      out is dropped).

    The docstring says, a paragraph each, a summary, the formula, "Choices:" where the documentation
    is silent, "Gradient:" and "Fields:" (`dml_jax.documentation` reads them, those of the bases
    too).
    """

    short_name: ClassVar[str]  # "REDUCE"
    family: ClassVar[str]  # the module that declares it
    support: ClassVar[Support]
    constraints: ClassVar[Sequence[Mapping[str, Any]]] = ()
    in_place: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # output -> inputs that it may lie on
    formula: ClassVar[str] = ""  # of the output, where the docstring has no paragraph of it
    function: ClassVar[Any] = None  # of arrays and attributes, where the operator may be fused
    by_element: ClassVar[bool] = False  # whether it maps each element by itself, wherever it lies
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
            cls.support = support_tables.of_facts(entry["support"], tensors, choices)
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
        jax.tree_util.register_static(cls)
        OPERATORS.put(cls)

    @classmethod
    def _half_declared(cls) -> Iterator[str]:
        """Yield what the declaration lacks, or says that cannot be."""
        for part in ("support", "lower"):
            if getattr(cls, part, None) is getattr(Operator, part, None):
                yield f"it lacks {part}"
        if not any(f.tensor and f.tensor.output for f in cls.fields):
            yield "it lacks an output"
        known = OPERATORS.built(cls.c_name) or cls
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            yield f"{known.__module__}.{known.__qualname__} has that name"
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
    def _pairs_in_place(cls) -> dict[str, tuple[str, ...]]:
        """Return the inputs that each output may lie on: those of its sizes, and its type if any.

        Exactly the same bytes are demanded when memory is bound, and so elements of one width.
        """
        alike: dict[str, dict[str, set[str]]] = {"DataType": {}, "Sizes": {}}
        for aspect, partners in alike.items():
            groups = []
            for record in cls.constraints:
                if aspect in record.get("of", ()) and "except" not in record:
                    groups.append({name.replace("[*]", "") for name in record["equal"]})
                elif aspect == "DataType" and "type" in record and "levels" not in record:
                    groups.append({record["type"], record["is"].removesuffix(".DataType")})
            for f in cls.fields:
                partners[f.c_name] = set().union(*(g for g in groups if f.c_name in g), {f.c_name})
        inputs = [f for f in cls.fields if f.tensor and not f.tensor.output]
        pairs: dict[str, tuple[str, ...]] = {}
        for f in cls.outputs_of():
            of_size = [i for i in inputs if i.c_name in alike["Sizes"][f.c_name]]
            of_type = [i for i in of_size if i.c_name in alike["DataType"][f.c_name]]
            chosen = (of_type or of_size) if cls.constraints else inputs
            pairs[f.name] = tuple(i.name for i in chosen)
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

    # What every operator has.

    @classmethod
    @functools.cache
    def _records(cls) -> tuple[records.Record, ...]:
        alike = {"equal": [f.c_name + "[*]" * f.is_array for f in cls.fields if f.tensor]}
        of_own = not cls.constraints and cls.short_name not in facts.catalogue()
        return records.compiled([{**alike, "of": ["DataType"]}] if of_own else cls.constraints)

    @classmethod
    def outputs_of(cls) -> list[Field]:
        """Return the fields of the outputs."""
        return [f for f in cls.fields if f.tensor and f.tensor.output]

    # What a function of `dml_jax.functional` asks.

    arguments: ClassVar[Sequence[str]] = ()  # of its function, beside fields; `call_of` reads them

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return what `infer` takes, from the arguments of the function by field.

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
        names = {f.c_name: f.name for f in cls.fields if f.tensor and not f.tensor.output}
        groups = []
        for record in cls._records():
            if record.kind == "equal" and "Sizes" in record.data["of"]:
                group = tuple(names[n] for n in record.data["equal"] if n in names)
                if len(group) > 1 and "except" not in record.data:
                    groups.append(group)
        return tuple(groups)

    @classmethod
    @functools.cache
    def fields_of_type(cls, name: str) -> tuple[str, ...]:
        """Return the other tensor fields whose type a record ties to the type of field `name`."""
        names = {f.c_name: f.name for f in cls.fields if f.tensor}
        found: list[str] = []
        for record in cls._records():
            data, alike = record.data, []
            if record.kind == "equal" and "DataType" in data["of"]:
                alike = [names.get(n.replace("[*]", "")) for n in data["equal"]]
            elif record.kind == "type" and data["is"].endswith(".DataType"):
                alike = [names.get(data["type"]), names.get(data["is"].removesuffix(".DataType"))]
            if name in alike:
                found += [n for n in alike if n is not None and n != name]
        return tuple(dict.fromkeys(found))

    @classmethod
    def fused(cls, **attributes: Any) -> "FusedActivation":
        """Return this activation without tensors, for the field FusedActivation of another one."""
        return FusedActivation(cls, **attributes)

    @classmethod
    def infer(
        cls,
        *positional: Any,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        outputs: Collection[str] | None = None,
        **fields: Any,
    ) -> Self:
        """Return the descriptor whose outputs follow from the other fields, packed.

        Args:
            positional: none: fields are given by name.
            output_data_type: of the outputs whose type does not follow from the other fields, or
                field -> type; None takes the operator's default.
            output_sizes: of the first output, or field -> sizes, where they do not follow.
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
        sizes = cls._chosen(output_sizes, wanted[:1], lambda value: value, faults, "Sizes")
        fields |= partial._made(wanted, types, sizes, output_data_type, faults)
        if faults:
            raise DmlError(faults)
        return cls(**fields)

    @classmethod
    def _chosen(
        cls,
        value: Any,
        made: Sequence[Field],
        convert: Callable[[Any], Any],
        faults: list[Fault],
        part: str = "DataType",
    ) -> dict[str, Any]:
        """Return what the caller of `infer` says of each output, by field."""
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
        solved_types = records.solve_types(self._records(), view, c_names, _NEWEST, {})
        solved_sizes: dict[str, Any] = records.solve_sizes(self._records(), view, c_names, _NEWEST)
        own, defaults = self.expected_sizes(), self.default_data_types()
        free = [f for f in wanted if f.c_name not in solved_types]
        chosen = {f.c_name: t.name for f in free if (t := types.get(f.name, defaults.get(f.name)))}
        solved_types |= records.solve_types(self._records(), view, c_names, _NEWEST, chosen)
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
                rule = f"be given: {type(self).__name__}.infer(..., output_sizes=...)"
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

    @classmethod
    def typical(cls, elements: int, data_type: str) -> "list[Operator]":
        """Describe typical uses of the operator: one a variant, the most telling first.

        An operator overrides this where its tensors have different sizes, or where the smallest
        attributes are not typical.

        Args:
            elements: about how many elements the largest tensor has.
            data_type: the type of that tensor.

        Returns:
            The descriptors; an empty list if the operator does not take the type.
        """
        tensor = TensorDesc(data_type, typical_sizes(elements))
        fields = {
            f.name: _smallest(f.kind, tensor)
            for f in cls.fields
            if f.default is MISSING and not (f.tensor and f.tensor.output)
        }
        return cls._accepted([fields])

    @classmethod
    def _accepted(cls, variants: Iterable[Mapping[str, Any]]) -> "list[Operator]":
        """Infer a descriptor from the fields of each variant; leave out what is refused."""
        accepted: list[Operator] = []
        for fields in variants:
            with suppress(DmlError):
                accepted.append(cls.infer(**fields))
        return accepted

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """Yield (path, field, tensor) of all tensors, of the outputs or of the inputs.

        The path is DirectML's spelling: `InputTensor`, `OutputTensors[1]`. Optional tensors that
        are not given are left out.
        """
        for f in self.fields:
            if f.tensor and output in (None, f.tensor.output):
                yield from _tensors_of(f, getattr(self, f.name))

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

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        given = [f for f in self.fields if f.name in present]
        tensors = [tensor for f in given for tensor in _tensors_of(f, present[f.name])]
        if faults:
            faults[:] = _from_the_front(faults, tensors)
        wrong = {aspect_of(fault.field) for fault in faults}
        by = self.support.by
        if by is None or by in present:
            faults += self.support.faults(self.c_name, tensors, present[by] if by else None)
        expect = Expect(self.c_name)
        for f in given:
            if f.is_array and present[f.name] is not None:
                count = len(present[f.name])
                expect(count > 0, f.count or f.c_name, "be at least 1", count)
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
        records.check(self._records(), view, expect, wrong, _NEWEST)
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

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses this descriptor; nothing where it accepts it."""
        level = FeatureLevel.of(feature_level)
        group = getattr(self, self.support.by) if self.support.by else None
        faults = self.support.faults(self.c_name, list(self.tensors()), group, level)
        expect = Expect(self.c_name)
        of_level = [record for record in self._records() if record.levels]
        if of_level:
            view = View(self._by_c_name(self.__dict__), self._counts)
            records.check(of_level, view, expect, set(), level)
        for f in self.fields:
            values = getattr(self, f.name)
            for value in values if isinstance(values, tuple) else (values,):
                if isinstance(value, FusedActivation) and value.introduced > level:
                    text = f"be in feature level {level} (it came with {value.introduced})"
                    expect(False, f.c_name, text, Unquoted(value.operator.short_name))
        at = f" at feature level {level}"
        return (*faults, *(replace(f, rule=f.rule + at) for f in expect.faults))

    @overload
    def __call__(self: _Lowering[Result], *arrays: ArrayLike) -> Result: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any:
        """Return the output, or a tuple of several, given one array for each input tensor.

        Given expressions of a `GraphBuilder`, it becomes a node of the graph, and returns
        expressions. Raises `DmlError` where shapes or types are not those of the tensors.
        """
        for array in arrays:
            if isinstance(array, Placeholder):
                return array.takes(self, arrays)
        return super().__call__(*arrays)

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return all results, in their order, of arrays that are not checked; without `jax.jit`."""
        results = self.evaluate(*arrays)
        if not are_described(self.outputs, results):
            made = ", ".join(map(shown_array, results))
            needed = ", ".join(map(array_of, self.outputs))
            raise TypeError(f"{type(self).__name__}.lower makes {made} of {self}, not {needed}")
        return results

    def evaluate(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return all results; if it maps elements, of arrays of any one shape."""
        with jax.named_scope(self.c_name):
            strong = (lax.convert_element_type(a, a.dtype) for a in arrays)  # drops weak types
            return self._results(self.lower(*self._placed(strong)))

    def _results(self, made: Any) -> list[jax.Array]:
        """Return the results of the outputs that are described, of all that `lower` makes."""
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        outputs = self.outputs_of()
        if len(results) == len(outputs) and not any(f.is_array for f in outputs):
            pairs = zip(outputs, results, strict=True)
            return [r for f, r in pairs if getattr(self, f.name) is not None]
        return [result for result in results if result is not None]

    def _placed(self, arrays: Iterator[Any]) -> Iterator[Any]:
        """Yield the arrays, and None for each input that is left out."""
        for f in self.fields:
            if f.tensor and not f.tensor.output:
                value = getattr(self, f.name)
                if value is None:
                    yield None
                else:
                    yield from itertools.islice(arrays, len(value) if f.is_array else 1)

    def to_json(self) -> dict[str, Any]:
        """Return {"Type", "Desc"} as DxDispatch's JSON has them, count fields included."""
        return {"Type": self.c_name, "Desc": super().to_json()}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the operator that `to_json` gave `value`; also takes the fields by themselves.

        `Operator.from_json` takes any operator, as `operator_from_json` does. Raises `DmlError`.
        """
        if cls is Operator:
            return operator_from_json(value)  # pyright: ignore[reportReturnType]
        if not isinstance(value, Mapping) or cls._are_fields(value):
            return cls.of_fields(value)
        named, fields = _named(value)
        if named is not cls:
            raise DmlError([Fault("", "type", f"be {cls.c_name}", named.c_name)])
        return cls.of_fields(fields)

    @classmethod
    def _are_fields(cls, value: Mapping[str, Any]) -> bool:
        """Return whether an object has the fields of this operator, without the operator's name."""
        if any(f.c_name == "Type" for f in cls.fields):
            return "Desc" not in value and "desc" not in value
        return {"Type", "type"}.isdisjoint(value)

    @classmethod
    def of_fields(cls, fields: Any) -> Self:
        """Return the operator that a JSON object of its fields describes. Raises `DmlError`."""
        return super().from_json(fields)


class FusedActivation:
    """An activation without tensors, which an operator applies to its result.

    Made by `ActivationRelu.fused()`, or `ActivationElu.fused(alpha=0.5)`.

    Attributes:
        operator: the activation's class.
        attributes: its attributes, by field.
    """

    __slots__ = ("attributes", "operator")
    operator: type[Operator]
    attributes: dict[str, Any]

    def __init__(self, operator: type[Operator], /, **attributes: Any):
        if not callable(getattr(operator, "function", None)):
            name = getattr(operator, "c_name", repr(operator))
            raise DmlError([Fault(name, "", "be an activation", Unquoted(name))])
        faults: list[Fault] = []
        plain = [f for f in operator.fields if not f.tensor]
        for f in operator.fields:
            if f.tensor and attributes.get(f.name) is not None:
                rule = "be left out: an activation that is fused has no tensors"
                faults.append(Fault(operator.c_name, f.c_name, rule, attributes.pop(f.name)))
        broken = operator._convert(attributes, faults)
        tensors = [f for f in operator.fields if f.tensor]
        operator._fill(attributes, faults, broken, tensors)
        values = {f.name: attributes.get(f.name) for f in plain}
        view = View(
            {f.c_name: values[f.name] for f in plain if f.name in attributes}, operator._counts
        )
        expect = Expect(operator.c_name)
        records.check(operator._records(), view, expect, set(), _NEWEST)
        faults += expect.faults
        if faults:
            raise DmlError(faults)
        object.__setattr__(self, "operator", operator)
        object.__setattr__(self, "attributes", values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a FusedActivation is immutable: cannot set {name!r}")

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the activation of floats `x`, in the type of `x`."""
        attributes = dict(self.attributes)
        scale_bias = attributes.pop("scale_bias", None)
        if scale_bias is not None:
            x = x * x.dtype.type(scale_bias.scale) + x.dtype.type(scale_bias.bias)
        return self.operator.function(x, **attributes)

    @property
    def introduced(self) -> FeatureLevel:
        """The feature level that introduced the activation."""
        return self.operator.support.introduced

    # As constraint records read it.

    @property
    def Type(self) -> str:  # noqa: N802
        """The name of the activation, as in constraint records."""
        return self.operator.short_name

    InputTensor = OutputTensor = None

    def to_json(self) -> dict[str, Any]:
        """Return {"Type", and the attributes beside it}, as DxDispatch's JSON has it."""
        values = {
            f.c_name: f.kind.to_json(self.attributes[f.name])
            for f in self.operator.fields
            if not f.tensor and self.attributes[f.name] is not None
        }
        return {"Type": self.operator.c_name, **values}

    @classmethod
    def from_json(cls, value: Any) -> "FusedActivation":
        """Return the activation that `to_json` gave `value`. Raises `DmlError`."""
        operator, fields = _named(value)
        if not isinstance(fields, Mapping):
            raise DmlError([Fault(operator.c_name, "", "be an object", fields)])
        faults: list[Fault] = []
        attributes: dict[str, Any] = {}
        names = {f.c_name: f for f in operator.fields}
        for c_name, item in fields.items():
            f = names.get(c_name)
            if f is None:
                rule = f"be a field of {operator.c_name}{nearest(c_name, names)}"
                faults.append(Fault(operator.c_name, str(c_name), rule, item))
            elif item is not None:
                try:
                    attributes[f.name] = f.kind.from_json(item, fields)
                except DmlError as error:
                    faults += error.moved(operator.c_name, c_name)
        if faults:
            raise DmlError(faults)
        return cls(operator, **attributes)

    def _key(self) -> tuple[Any, ...]:
        kinds = {f.name: f.kind for f in self.operator.fields}
        values = self.attributes.items()
        return self.operator.c_name, *(None if v is None else kinds[n].key(v) for n, v in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FusedActivation) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return _fused_again, (self.operator.c_name, self.attributes)

    def __repr__(self) -> str:
        kinds = {f.name: f.kind for f in self.operator.fields}
        values = [f"{n}={kinds[n].shown(v)}" for n, v in self.attributes.items() if v is not None]
        return f"{self.operator.__name__}.fused({', '.join(values)})"


def _fused_again(c_name: str, attributes: Mapping[str, Any]) -> FusedActivation:
    return FusedActivation(OPERATORS[c_name], **attributes)


Fused.activation = FusedActivation


def typical_sizes(elements: int) -> tuple[int, int, int, int]:
    """Return the sizes [N, C, H, W] of a feature map of about `elements` elements."""
    side = 2 ** min((max(elements, 1).bit_length() - 1) // 3, 8)
    channels = min(max(elements // side**2, 1), 64)
    return max(elements // (side**2 * channels), 1), channels, side, side


def _smallest(kind: Kind, tensor: TensorDesc) -> Any:
    """Return the smallest value of a field that is no trivial one; of a tensor field, `tensor`."""
    match kind:
        case Array():
            count = 2 if _smallest(kind.element, tensor) is tensor else tensor.dimension_count
            return [_smallest(kind.element, tensor)] * count
        case Integer():
            return max(kind.least, 1)
        case Choice(enumeration=members):
            return next(iter(members))
        case Tensor():
            return tensor
    return 1


def operator_type(name: Any) -> type[Operator]:
    """Return the operator class of a name with or without DML_OPERATOR_. Raises `DmlError`."""
    short = str(name).removeprefix(facts.PREFIX)
    short = facts.names_of_aliases().get(short, short)
    full = f"{facts.PREFIX}{short}"
    if isinstance(name, str) and full in OPERATORS:
        return OPERATORS[full]
    if not isinstance(name, str):
        raise DmlError([Fault("", "type", "be an operator's name", name)])
    raise DmlError([facts.unknown_operator(name)])


def operator_from_json(value: Any) -> Operator:
    """Return the operator of {"Type", "Desc"}, or with the fields beside the type.

    Both keys may be in lower case, as DxDispatch's dispatchables have them. Raises `DmlError`.
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
