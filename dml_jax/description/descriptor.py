"""C structures of DirectML.h as immutable Python objects."""

import inspect
import re
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

from dml_jax.description.fields import (
    Array,
    Choice,
    Count,
    Field,
    Float,
    Kind,
    Scalar,
    Structure,
    UInt,
)
from dml_jax.enums import Enumeration
from dml_jax.errors import (
    NOTHING,
    OF_LENGTHS,
    DmlError,
    Fault,
    Unquoted,
    field_of,
    nearest_name,
    suggested,
)
from dml_jax.system.files import is_note


def snake_case(c_name: str) -> str:
    """Return `input_tensor` for `InputTensor`, and `roi_tensor` for `ROITensor`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", c_name).lower()


def c_name_of(name: str) -> str:
    """`input_tensor` -> `InputTensor`."""
    return "".join(part.capitalize() for part in name.split("_"))


def _field_of(name: str, annotation: Any, default: Any) -> Field:
    """The field that an annotation declares."""
    optional = get_origin(annotation) in (Union, types.UnionType)
    if optional:
        (annotation,) = (a for a in get_args(annotation) if a is not type(None))
        default = None if default is MISSING else default
    kind, count, shown = None, None, annotation
    if get_origin(annotation) is Annotated:
        shown, *extras = get_args(annotation)
        for extra in extras:
            if isinstance(extra, Kind):
                kind = extra
            elif isinstance(extra, Count):
                count = extra.c_name
    elif isinstance(annotation, type) and issubclass(annotation, Enumeration):
        kind, shown = Choice(annotation), annotation | str
    elif isinstance(annotation, type) and issubclass(annotation, Descriptor):
        kind = Structure(annotation)
    if kind is None:
        kinds = "a kind of dml_jax.description.fields: Input, Output, Float, UInt, Axes, ..."
        raise TypeError(f"field {name!r} is annotated with {annotation!r}, not with {kinds}")
    if isinstance(kind, Array) and count is None:
        raise TypeError(f"field {name!r} lacks the name of its count: Annotated[..., Count('...')]")
    shown = shown | None if optional else shown
    return Field(name, c_name_of(name), kind, optional, default, count, shown)


class _OfConstructor:
    """A class's `__signature__`: that of its constructor; of an instance it is `__call__`'s."""

    def __init__(self, signature: inspect.Signature):
        self._signature = signature

    def __get__(self, instance: object, owner: type) -> inspect.Signature | None:
        return self._signature if instance is None else None  # then `inspect` asks `__call__`


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False)
class Descriptor:
    """A C structure: keyword-only, immutable, checked whole when it is made.

    A subclass annotates its fields in the structure's order, by the snake_case of their C names;
    count fields are left out: they follow from their arrays, and reappear in JSON. Equality and
    hash go by the *bits* of floats: -0.0 is not 0.0, and NaN is itself.
    """

    c_name: ClassVar[str]
    fields: ClassVar[tuple[Field, ...]] = ()
    _names: ClassVar[Mapping[str, None]] = {}
    _counts: ClassVar[dict[str, list[str]]] = {}  # a count field -> the lists that it counts
    _typed: ClassVar[Sequence[tuple[str, Scalar, str]]] = ()  # numbers, by what names their types
    _given: ClassVar[Any] = inspect.Parameter.KEYWORD_ONLY  # how fields are
    nothing: ClassVar[Unquoted] = NOTHING  # what messages say of a description without values
    beyond: bool = False  # whether it may lie beyond DirectML; no field

    def __init_subclass__(cls, c_name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if c_name is not None:
            cls.c_name = c_name
        declared = {f.name: f for f in cls.fields}
        for name, annotation in inspect.get_annotations(cls).items():
            if get_origin(annotation) is not ClassVar:
                default = cls.__dict__.get(name, MISSING)
                declared[name] = _field_of(name, annotation, default)
                if name in cls.__dict__:
                    delattr(cls, name)  # each instance has its own
        cls._declare(tuple(declared.values()))

    @classmethod
    def _declare(cls, fields: tuple[Field, ...]) -> None:
        """Sets the fields of the class, and what follows from them."""
        cls.fields = fields
        cls._names = {f.name: None for f in fields}
        cls._counts = {}
        for f in fields:
            if f.count:
                cls._counts.setdefault(f.count, []).append(f.c_name)
        names = {f.c_name: f.name for f in cls.fields}
        cls._typed = [
            (f.name, f.kind, names.get(f.kind.type_field, ""))
            for f in cls.fields
            if isinstance(f.kind, Scalar)
        ]
        none = inspect.Parameter.empty
        parameters = [
            inspect.Parameter(
                f.name,
                cls._given,
                default=none if f.default is MISSING else f.default,
                annotation=f.annotation,
            )
            for f in cls.fields
        ]
        cls.__signature__ = _OfConstructor(inspect.Signature(parameters))

    def __init__(self, /, *positional: Any, beyond: bool = False, **values: Any):
        if positional:
            names = ", ".join(f.name for f in self.fields)
            raise TypeError(f"{type(self).__name__} takes its fields by name: {names}")
        faults: list[Fault] = []
        if beyond:  # no field: equality and JSON do not go by it, but it stays in copies
            self.__dict__["beyond"] = True
        self._complete(values, faults, self._convert(values, faults, beyond))

    @classmethod
    def _convert(
        cls, values: dict[str, Any], faults: list[Fault], beyond: bool = False
    ) -> set[str | None]:
        """Converts what is given, in place; what is refused is taken out.

        Returns the fields that misnamed ones stand for.
        """
        for f in cls.fields:
            value = values.get(f.name)
            if value is None and (f.optional or f.name not in values):
                continue
            try:
                values[f.name] = (f.kind.wider if beyond else f.kind).convert(value)
            except DmlError as error:
                faults += error.moved(cls.c_name, f.c_name)
                del values[f.name]
        strange = [name for name in values if name not in cls._names]
        return {cls._misnamed(name, values, faults) for name in strange}

    def _complete(
        self, values: dict[str, Any], faults: list[Fault], broken: Collection[str | None]
    ) -> None:
        """Takes converted values, checks the whole, raises all faults (those given included).

        `broken` names fields that are missing because they have been reported already.
        """
        self._fill(values, faults, broken)
        self.__dict__.update(values)
        self._check(faults, values)
        if faults:
            raise DmlError(faults)
        for name, kind, typed_by in self._typed:  # what is refused is shown as it was given
            self.__dict__[name] = kind.of_type(values[name], values[typed_by])

    @classmethod
    def _fill(
        cls,
        values: dict[str, Any],
        faults: list[Fault],
        broken: Collection[str | None],
        but_for: Collection[Field] = (),
    ) -> None:
        """Adds defaults, and says what is missing that has not been reported."""
        reported = {field_of(fault.field) for fault in faults}
        for f in cls.fields:
            if f.name in values or f in but_for:
                continue
            if f.default is not MISSING:
                values[f.name] = f.default
            elif f.c_name not in reported and f.name not in broken:
                got = NOTHING if values else cls.nothing
                faults.append(Fault(cls.c_name, f.c_name, "be given", got))

    @classmethod
    def _misnamed(cls, name: str, values: dict[str, Any], faults: list[Fault]) -> str | None:
        """Remove an unknown keyword, report it, and return the field that it probably meant."""
        near, rule = None, ""
        for f in cls.fields:
            if name == f.c_name:
                near = f.name
                rule = f"be spelled {near} ({cls.__name__}.from_json takes DirectML's names)"
            elif f.count and f.count in (name, c_name_of(name)):
                rule = f"be left out: it is the length of {f.name}"
        if not rule:
            near = nearest_name(name, cls._names)
            rule = f"be a field of {cls.c_name}{suggested(near)}"
        faults.append(Fault(cls.c_name, name, rule, values.pop(name)))
        return near

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        """Adds what is wrong across fields; only fields in `present` can be asked."""

    @classmethod
    def _check_counts(cls, faults: list[Fault], present: Mapping[str, Any]) -> None:
        """Adds the lists that are not as long as others with the same count."""
        for count, c_names in cls._counts.items():
            if len(c_names) < 2:
                continue
            lists = [
                f for f in cls.fields if f.c_name in c_names and present.get(f.name) is not None
            ]
            for f in lists[1:]:
                first = lists[0]
                length, wanted = len(present[f.name]), len(present[first.name])
                if length != wanted:
                    rule = f"have {wanted} elements, as {first.c_name} has ({count} counts both)"
                    given = list(present[f.name])
                    faults.append(Fault(cls.c_name, f.c_name, rule, given, kind=OF_LENGTHS))

    if not TYPE_CHECKING:  # or every attribute would be there for type checkers

        def __getattr__(self, name: str) -> Any:
            """A field that is missing or wrong, while what depends on it is checked."""
            if name in type(self)._names:
                raise UnknownFieldError(name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"a descriptor is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"a descriptor is immutable: cannot delete {name!r}")

    @property
    def _key(self) -> tuple[Any, ...]:
        key = self.__dict__.get("_cached_key")
        if key is None:
            values = self.__dict__
            key = tuple(
                None if values[f.name] is None else f.kind.key(values[f.name]) for f in self.fields
            )
            # In this order: another thread that finds the key looks for the hash.
            values["_cached_hash"] = hash((self.c_name, key))
            values["_cached_key"] = key
        return key

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Descriptor) and type(other) is type(self) and self._key == other._key
        )

    def __hash__(self) -> int:
        try:
            return self.__dict__["_cached_hash"]
        except KeyError:
            return (self._key, self.__dict__["_cached_hash"])[1]

    def replace(self, /, **changes: Any) -> Self:
        """The descriptor with some fields changed, checked as a new one is."""
        return type(self)(**{**self._values(), **changes}, beyond=self.beyond)

    __replace__ = replace  # `copy.replace`

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in self.fields}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self._values(), self.beyond)

    def __repr__(self) -> str:
        shown = []
        for f in self.fields:
            value = getattr(self, f.name)
            if value is None and f.default is None:
                continue
            shown.append(f"{f.name}={f.kind.shown(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def to_json(self) -> dict[str, Any]:
        """The fields as DxDispatch's JSON has them, count fields included."""
        result: dict[str, Any] = {}
        for f in self.fields:
            value = getattr(self, f.name)
            if value is not None:
                if f.count is not None:
                    result.setdefault(f.count, len(value))
                result[f.c_name] = f.kind.to_json(value)
        return result

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The descriptor that a JSON object holds; the inverse of `to_json`.

        Enumerations by full name or suffix; count fields may be left out, and must be right where
        they are given. Raises `DmlError` with all faults, unknown fields among them.
        """
        faults: list[Fault] = []
        if not isinstance(value, Mapping):
            raise DmlError([Fault(cls.c_name, "", "be an object", value)])
        values, broken = cls._read(value, faults)
        self = object.__new__(cls)
        self._complete(values, faults, broken)
        return self

    @classmethod
    def _read(
        cls, value: Mapping[str, Any], faults: list[Fault]
    ) -> tuple[dict[str, Any], set[str | None]]:
        """Return the fields in a JSON object, and those with faults, which it adds to `faults`."""
        values: dict[str, Any] = {}
        broken: set[str | None] = set()
        meant: set[str | None] = set()
        known = {f.c_name for f in cls.fields} | {f.count for f in cls.fields if f.count}
        for name in value:
            if name not in known and not is_note(name):
                near = nearest_name(name, known)
                rule = f"be a field of {cls.c_name}{suggested(near)}"
                faults.append(Fault(cls.c_name, str(name), rule, value[name]))
                meant.add(near)
        for f in cls.fields:
            given = value.get(f.c_name, MISSING)
            if given is MISSING or (given is None and f.optional):
                if f.c_name in meant:  # said to be missing by its wrong name
                    broken.add(f.name)
                continue
            try:
                values[f.name] = f.kind.from_json(given, value)
            except DmlError as error:
                faults += error.moved(cls.c_name, f.c_name)
                broken.add(f.name)
            count = value.get(f.count) if f.count else None
            counted = type(count) is int and isinstance(given, list) and count == len(given)
            # That there is none is wrong by itself.
            if f.count in value and isinstance(given, list) and given and not counted:
                rule = f"be {len(given)} (the elements of {f.c_name})"
                faults.append(Fault(cls.c_name, str(f.count), rule, count))
        return values, broken


def _rebuilt(cls: type[Descriptor], values: dict[str, Any], beyond: bool = False) -> Descriptor:
    return cls(**values, beyond=beyond)


class UnknownFieldError(Exception):
    """Raised where a check reads a field that is missing or wrong, which has been said."""


class Size2D(Descriptor, c_name="DML_SIZE_2D"):
    """DML_SIZE_2D: a width and a height, in elements."""

    width: UInt
    height: UInt


class ScaleBias(Descriptor, c_name="DML_SCALE_BIAS"):
    """DML_SCALE_BIAS: `x * scale + bias`, applied to each element before the operator."""

    scale: Float
    bias: Float
