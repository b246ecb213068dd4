"""One record an operator: what the tests know of it beside its declaration and its facts.

Each module has `RECORDS`, the operators of one family of `dml_jax.operators`, by name without
DML_OPERATOR_. A record says at least what NumPy computes (`reference`); all else has a default.
"""

import contextlib
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dml_jax import TensorDesc, facts
from dml_jax.description.fields import Array, Boolean, Choice, Integer, Real, Structure
from dml_jax.enums import TensorDataType
from dml_jax.operator import OPERATORS, Fused, Operator

Rng = np.random.Generator
Types = Mapping[str, str]  # tensor field -> data type
Fields = dict[str, Any]

FLOATS = ("FLOAT64", "FLOAT32", "FLOAT16")
LENGTHS = ("length",)
"""Of `Record.unbroken`: a list is what its count field counts, the first one of several."""


@dataclass(frozen=True)
class Record:
    """What the tests know of one operator.

    Attributes:
        reference: the outputs by NumPy, `reference(op, *arrays)`: one array or a list of them, of
            any type; float arrays come in float64, others as they are. None stands for an input
            that is left out.
        draw: random fields of a valid description, `draw(rng, op_class, types)`, without outputs
            unless their sizes do not follow; None draws equal sizes for all inputs.
        smallest: the fields of a description as simple as it can be, where they are not tensors
            of one element and the simplest attributes: a value, or `value(rank, types)`. Of a
            tensor it is its sizes.
        values: the range of random elements by tensor field, "" for all others; integers too.
        attributes: fixed or drawn (a function of `rng`) values of attributes, by field, for the
            default `draw` and, where they are fixed, `smallest`.
        ulp: how far FLOAT32 results may be from the reference, in units of the last place.
        rounds_on_gpus: whether a GPU rounds what it computes on the way to FLOAT16, with that type:
            results may be one unit of the largest one from the reference there.
        no_gradient: why float outputs have no derivatives with respect to float inputs.
        types: types that go together, for operators with several; None tries the rows' own.
        of_bits: whether the reference reads float arrays in their own type, for their bits.
        special: whether the reference holds for NaN, infinities and the ends of integer types.
        unbroken: kinds of constraint records that no change of a single field breaks.
        batch: ways to spread a batch: in each the dimension of it by field, "" for all other
            tensors; None has no batch. Of a list of numbers it is the one that counts the batch.
            A text says why there is none.
    """

    reference: Callable[..., Any]
    draw: Callable[[Rng, type[Operator], Types], Fields] | None = None
    smallest: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, tuple[float, float]] = field(default_factory=lambda: {"": (-4.0, 4.0)})
    attributes: Mapping[str, Any] = field(default_factory=dict)
    ulp: float = 4
    rounds_on_gpus: bool = False
    no_gradient: str = ""
    types: Callable[[Types], bool] = lambda types: True
    of_bits: bool = False
    special: bool = True
    unbroken: tuple[str, ...] = ()
    batch: tuple[Mapping[str, int | None], ...] | str = ({"": 0},)

    def fields(self, rng: Rng, op_class: type[Operator], types: Types) -> Fields:
        """Return the fields of a random valid description with these data types."""
        if self.draw is not None:
            names = {f.name for f in op_class.fields}
            drawn = self.draw(rng, op_class, types)
            return {name: value for name, value in drawn.items() if name in names}
        shape = sizes(rng, *ranks_of(op_class, types))
        inputs = [f for f in op_class.fields if f.tensor and not f.tensor.output]
        drawn = {}
        for f in inputs:
            if not f.optional or rng.random() < 0.5:
                tensor = TensorDesc(types[f.name], shape)
                drawn[f.name] = [tensor] if f.is_array else tensor
        return drawn | self.drawn_attributes(rng, op_class, types)

    def drawn_attributes(self, rng: Rng, op_class: type[Operator], types: Types) -> Fields:
        """Return random attributes: the record's own, else one of each kind of field."""
        drawn: Fields = {}
        for f in op_class.fields:
            if f.tensor:
                continue
            if f.name in self.attributes:
                own = self.attributes[f.name]
                drawn[f.name] = own(rng) if callable(own) else own
            elif not f.optional or rng.random() < 0.5:
                drawn[f.name] = random_attribute(rng, f.kind)
        return drawn

    def operator(self, rng: Rng, op_class: type[Operator], types: Types) -> Operator:
        """Return a random operator with these data types."""
        fields = self.fields(rng, op_class, types)
        outputs = [f for f in op_class.outputs_of() if f.name not in fields]
        if not outputs:
            return op_class(**fields)
        assert len(outputs) == len(op_class.outputs_of()), (
            f"draw of {op_class.short_name} gives some outputs: give all of them, or none"
        )
        chosen = {f.name: types[f.name] for f in outputs}
        return op_class.infer(**fields, output_data_type=chosen)

    def simplest(self, op_class: type[Operator], rank: int, types: Types, group: Any) -> Operator:
        """Return the description of tensors of one element, or what `smallest` says."""
        fields: Fields = {}
        for f in op_class.fields:
            own = self.smallest.get(f.name, [1] * rank)
            own = own(rank, types) if callable(own) else own
            if f.tensor:
                tensor = None if own is None else TensorDesc(types[f.name], own)
                fields[f.name] = [tensor] if f.is_array else tensor
            elif f.name in self.smallest:
                fields[f.name] = own
            elif f.name == op_class.support.by:
                fields[f.name] = group
            elif f.name in self.attributes and not callable(self.attributes[f.name]):
                fields[f.name] = self.attributes[f.name]
            elif not f.optional:
                fields[f.name] = simplest_attribute(f.kind)
        return op_class(**fields)

    def arrays(self, rng: Rng, op: Operator, special: bool = False) -> list[np.ndarray]:
        """Return random arrays for the inputs of an operator."""
        return [
            random_array(rng, tensor, self.values.get(name, self.values.get("", (-4, 4))), special)
            for _, name, tensor in op.tensors(output=False)
        ]

    def expected(self, op: Operator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the reference's results for the outputs that are described, in their types."""
        given = iter(arrays)
        placed: list[Any] = []
        for f in op.fields:
            if f.tensor and not f.tensor.output:
                value = getattr(op, f.name)
                count = 0 if value is None else len(value) if f.is_array else 1
                placed += [next(given) for _ in range(count)] if count else [None]
        keeps = [a is None or a.dtype.kind in "iu" or self.of_bits for a in placed]
        pairs = zip(placed, keeps, strict=True)
        wide = [a if kept else a.astype(np.float64) for a, kept in pairs]
        with np.errstate(all="ignore"):
            made = self.reference(op, *wide)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        outputs = op.outputs_of()
        if len(results) == len(outputs) and not any(f.is_array for f in outputs):
            pairs = zip(outputs, results, strict=True)
            results = [r for f, r in pairs if getattr(op, f.name) is not None]
        return [np.asarray(result) for result in results]


def tensors(types: Types, **shapes: Any) -> Fields:
    """Return the tensors of these sizes that the types name."""
    return {name: TensorDesc(types[name], shape) for name, shape in shapes.items() if name in types}


def each(value: Any) -> Callable[[int, Types], list[Any]]:
    """Return an attribute of `Record.smallest`: the value once for each dimension."""
    return lambda rank, types: [value] * rank


def type_of(name: str) -> Callable[[int, Types], str]:
    """Return an attribute of `Record.smallest`: the type of a tensor."""
    return lambda rank, types: types[name]


_preferred: list[list[int]] = []


@contextlib.contextmanager
def preferring(shape: Sequence[int]) -> Iterator[None]:
    """Make `sizes` return `shape` wherever it fits."""
    _preferred.append(list(shape))
    try:
        yield
    finally:
        _preferred.pop()


def sizes(rng: Rng, least: int = 1, most: int = 8, elements: int = 200) -> list[int]:
    """Return the sizes of a small random tensor of a rank in [least, most]."""
    for shape in _preferred[-1:]:
        if least <= len(shape) <= most and np.prod(shape) <= elements:
            return list(shape)
    rank = int(rng.integers(least, min(most, max(least, 4)) + 1))
    shape: list[int] = []
    for _ in range(rank):
        room = elements // int(np.prod(shape, dtype=int))
        shape.append(int(rng.integers(1, max(1, min(6, room)) + 1)))
    return shape


def ranks_of(op_class: type[Operator], types: Types) -> tuple[int, int]:
    """Return the ranks that the newest row with these types has."""
    for rows in op_class.support.groups.values():
        for row in rows:
            if all(types[name] in [t.name for t in row.types[name]] for name in types):
                return max(r[0] for r in row.ranks.values()), min(r[1] for r in row.ranks.values())
    raise ValueError(f"{op_class.__name__} has no row with {dict(types)}")


def random_attribute(rng: Rng, kind: Any) -> Any:
    """Return a random value of a kind of field."""
    if isinstance(kind, Choice):
        return list(kind.enumeration)[int(rng.integers(len(kind.enumeration)))]
    if isinstance(kind, Boolean):
        return bool(rng.integers(2))
    if isinstance(kind, Integer):
        return int(rng.integers(0, 3))
    if isinstance(kind, Real):
        return float(rng.integers(-16, 17)) / 8
    if isinstance(kind, Structure) and kind.c_type == "DML_SCALE_BIAS":
        return kind.descriptor(scale=float(rng.choice([-2, 0.5, 2])), bias=float(rng.integers(3)))
    if isinstance(kind, Structure):
        return kind.descriptor(width=int(rng.integers(1, 4)), height=int(rng.integers(1, 4)))
    if isinstance(kind, Fused):
        return fused_activations()[int(rng.integers(len(fused_activations())))]
    raise TypeError(f"a record has to draw attributes of the kind {kind}")


def simplest_attribute(kind: Any) -> Any:
    """Return the simplest value of a kind of field."""
    if isinstance(kind, Choice):
        return next(iter(kind.enumeration))
    if isinstance(kind, Array):
        return [simplest_attribute(kind.element)]
    if isinstance(kind, Structure):
        return kind.descriptor(**dict.fromkeys((f.name for f in kind.descriptor.fields), 1))
    return 1


@functools.cache
def fused_activations() -> list[Any]:
    """Return one fused activation of each that can be fused."""
    names = next(
        record["values"]
        for record in facts.catalogue()["ELEMENT_WISE_ADD1"]["constraints"]
        if record.get("one_of") == "FusedActivation.Type"
    )
    built = [OPERATORS[f"{facts.PREFIX}{n}"] for n in names if f"{facts.PREFIX}{n}" in OPERATORS]
    return [op.fused(**{f.name: 1.0 for f in op.fields if not f.tensor}) for op in built]


def random_array(
    rng: Rng, tensor: TensorDesc, limits: tuple[float, float], special: bool = False
) -> np.ndarray:
    """Return random elements in steps, so that there are ties.

    `special` ones have NaN and infinities among them, integers the ends of their type.
    """
    low, high = limits
    ends: list[Any]
    if tensor.data_type.name in FLOATS:
        steps = rng.integers(round(low * 8), round(high * 8) + 1, tensor.sizes)
        array, ends = (steps / 8).astype(tensor.dtype), [np.nan, np.inf, -np.inf, 0.0, -0.0]
    else:
        bits = tensor.data_type.bits
        unsigned = tensor.data_type.name.startswith("U")
        least, most = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        start, stop = max(least, round(low * 5)), min(most, round(high * 5))
        array = rng.integers(start, stop + 1, tensor.sizes).astype(tensor.dtype)
        ends = [least, most]
    if special:
        flat = array.reshape(-1)
        count = max(flat.size // 5, min(len(ends), flat.size // 2))
        values = np.resize(np.array(ends, tensor.dtype), count)
        flat[rng.permutation(flat.size)[:count]] = rng.permutation(values)
    return array


def combinations(op_class: type[Operator], record: Record) -> list[tuple[Types, Any]]:
    """Return the (types, group) that the newest row of each group has: each type at least once.

    Tensors that share a type (by a constraint record) have it together; the others are changed one
    at a time.
    """
    made: list[tuple[Types, Any]] = []
    for group, rows in op_class.support.groups.items():
        row = rows[0]
        first = {name: row.types[name][0].name for name in row.types}
        for name, options in row.types.items():
            for option in options:
                types = _with_type(op_class, first, name, option, row.types)
                if types is None or not record.types(types):
                    continue
                if (types, group) not in made:
                    made.append((types, group))
    return made


def _with_type(
    op_class: type[Operator], types: Types, name: str, option: TensorDataType, allowed: Any
) -> Types | None:
    """Return the types with one tensor of another type, and the tensors that share it."""
    shared = {name}
    c_names = {f.c_name: f.name for f in op_class.fields if f.tensor}
    for record in op_class.records():
        if record.levels:
            continue
        data = record.data
        group: set[str] = set()
        if record.kind == "equal" and "DataType" in data["of"]:
            group = {c_names[n.replace("[*]", "")] for n in data["equal"]}
        elif record.kind == "type" and not data["is"].isupper() and data["type"] in c_names:
            of = data["is"].removesuffix(".DataType")
            group = {c_names[data["type"]], *([c_names[of]] if of in c_names else [])}
        if group & shared:
            shared |= group
    if any(option not in allowed[other] for other in shared):
        return None
    return {n: option.name if n in shared else t for n, t in types.items()}


@functools.cache
def records() -> dict[str, Record]:
    """Return the record of every operator, by its name without DML_OPERATOR_."""
    found: dict[str, Record] = {}
    for module in pkgutil.iter_modules(__path__):
        found |= importlib.import_module(f"{__name__}.{module.name}").RECORDS
    return found


def activated(fused: Any, y: Any) -> Any:
    """Return `y` behind a fused activation, by the activation's own record, or as it is."""
    if fused is None:
        return y
    attributes = SimpleNamespace(**fused.attributes)
    return records()[fused.operator.short_name].reference(attributes, y)


def record_of(op_class: type[Operator]) -> Record:
    """Return the record of an operator; fails by its name where there is none."""
    known = records()
    if op_class.short_name not in known:
        pytest.fail(f"{op_class.c_name} has no record in tests/records/{op_class.family}.py")
    return known[op_class.short_name]


def why_no_derivatives(op_class: type[Operator]) -> str:
    """Return why there is nothing to differentiate; an empty text where there is."""
    rows = [row for rows in op_class.support.groups.values() for row in rows]
    for output, reason in ((True, "no output is of floats"), (False, "no input is of floats")):
        names = [f.name for f in op_class.fields if f.tensor and f.tensor.output == output]
        if not any(t.name in FLOATS for row in rows for name in names for t in row.types[name]):
            return reason
    return record_of(op_class).no_gradient
