"""The cells of the bench: typical uses of operators, over types and sizes."""

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dml_jax.bench.measured_functions import byte_count, gradient, map_over, narrow, type_name
from dml_jax.bench.operation_counts import bytes_to_move
from dml_jax.description import fields
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted
from dml_jax.graph.parts import Edge
from dml_jax.operator import Operator, operator_type

# The table where the user names no operator: one or two operators of each family.
# fmt: off
REPRESENTATIVES = (
    "ELEMENT_WISE_CLIP", "ELEMENT_WISE_CLIP_GRAD", "REDUCE", "ARGMAX", "JOIN", "TILE",
    "DEPTH_TO_SPACE1",
)
# fmt: on
VARIANTS = 2  # of each representative
TYPES = ("FLOAT32", "FLOAT16", "UINT8")
MIB = 2**20
MEBIBYTES = (8.0, 64.0)  # of the largest tensor: small cells measure the cost of a call


@dataclass(frozen=True)
class Cell:
    """A function to measure.

    Attributes:
        operator: the name of the operator, or what else is measured.
        variant: the attributes in which it differs from others of the operator.
        function: takes and returns arrays: an operator, a graph, or one of `bench.functions`.
        count: how often it stands in a network.
        family: the group of the operator.
        nodes: the names of the nodes of a network that it stands for.
    """

    operator: str
    variant: str
    function: Any
    count: int = 1
    family: str = ""
    nodes: Sequence[str] = ()

    @property
    def label(self) -> str:
        """Return the operator and its variant."""
        return f"{self.operator} {self.variant}".strip()

    @property
    def name(self) -> str:
        """Return the label with the type and sizes of the largest tensor."""
        sizes = ",".join(map(str, self.tensor.sizes))
        return f"{self.label} {type_name(self.tensor)}[{sizes}]"

    @property
    def tensor(self) -> Edge:
        """Return the largest tensor; the first of several."""
        return max((*self.function.inputs, *self.function.outputs), key=byte_count)

    @functools.cached_property
    def bytes(self) -> int:
        """Return the bytes that must move."""
        return getattr(self.function, "moved", None) or bytes_to_move(self.function)


@dataclass(frozen=True)
class Choice:
    """Which cells of operators: over each type and size that they accept.

    Attributes:
        operators: names, with or without DML_OPERATOR_; none stands for the representatives.
        types: names of data types; none stands for `TYPES`, or else the first that is accepted.
        mebibytes: sizes of the largest tensor, in MiB; none stands for `MEBIBYTES`.
        variants: at most so many of each operator.
        most_types: at most so many of each operator.
        sizes: the sizes of the first input by "", or those of inputs by name, in place of
            `mebibytes`.
        gradient: whether to measure the gradients of the operators.
        batch: operators are mapped by `jax.vmap` over so many elements, if any.
    """

    operators: Sequence[str] = ()
    types: Sequence[str] = ()
    mebibytes: Sequence[float] = ()
    variants: int | None = None
    most_types: int | None = None
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    gradient: bool = False
    batch: int = 0

    def cells(self) -> list[Cell]:
        """Return the cells.

        Raises `DmlError` for an operator that does not exist, or if no cell is left.
        """
        classes = [operator_type(name.upper()) for name in self.operators or REPRESENTATIVES]
        found = [cell for cls in classes for cell in self._of(cls)]
        if not found:
            names = " or ".join(self.operators) or "an operator of the table"
            types = Unquoted(", ".join(self.types))
            fault = Fault(names, "typical", "describe a use", NOTHING)
            if self.gradient:
                fault = Fault("", names, "have inputs and outputs of floats (--gradient)", types)
            elif self.types:
                rule = f"be a type that {names} accepts (`dml-jax operators NAME` lists them)"
                fault = Fault("", "--dtype", rule, types)
            raise DmlError([fault])
        return found

    def _of(self, cls: type[Operator]) -> Iterator[Cell]:
        kind = [f"vmap {self.batch}"] * (self.batch > 0) + ["gradient"] * self.gradient
        for data_type in (self.types or _types(cls))[: self.most_types]:
            own = "FLOAT32" if data_type == "BFLOAT16" else data_type  # DirectML has no such type
            width = max(TensorDataType.of(own).element_size, 1)
            for mebibytes in [0.0] if self.sizes else self.mebibytes or MEBIBYTES:
                uses = cls.typical(max(int(mebibytes * MIB) // width, 1), own)
                uses = _of_sizes(uses, own, self.sizes) if self.sizes else uses
                for label, use in _with_labels(uses)[: self.variants]:
                    function: Any = use if own == data_type else narrow(use)
                    function = gradient(function) if self.gradient else function
                    if function is not None:  # an operator of integers has no gradient
                        function = map_over(function, self.batch) if self.batch else function
                        words = " ".join(filter(None, [*kind, label]))
                        yield Cell(cls.short_name, words, function, 1, cls.family)


def _of_sizes(
    uses: Sequence[Operator], data_type: str, sizes: Mapping[str, Sequence[int]]
) -> list[Operator]:
    """Return the uses that take `sizes`. Raises `DmlError` if there are some, and none does."""
    found, refusals = [], []
    for use in uses:
        try:
            found.append(_with_sizes(use, data_type, sizes))
        except DmlError as error:
            refusals.append(error)
    if refusals and not found:
        raise refusals[0]
    return found


def _with_sizes(use: Operator, data_type: str, sizes: Mapping[str, Sequence[int]]) -> Operator:
    """Return a use like `use` of other sizes. Raises `DmlError` if there is none."""
    cls = type(use)
    attributes = {f.name: getattr(use, f.name) for f in cls.fields if not f.tensor}
    inputs = {f.name: getattr(use, f.name) for f in cls.fields if f.tensor and not f.tensor.output}
    if "" in sizes:
        first = tuple(sizes[""])
        for op in cls.typical(math.prod(first), data_type, first):
            is_like = all(getattr(op, name) == value for name, value in attributes.items())
            if is_like and op.inputs and tuple(op.inputs[0].sizes) == first:
                return op
        sizes = {next(iter(inputs)): first}
    for name, one in sizes.items():
        key = name if name in inputs else f"{name}_tensor"
        if inputs.get(key) is None:
            known = ", ".join(n.removesuffix("_tensor") for n, t in inputs.items() if t is not None)
            raise DmlError([Fault(cls.c_name, "--sizes", f"name an input of {known}", name)])
        inputs[key] = TensorDesc(inputs[key].data_type, one)
    given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    try:
        return cls.infer(**given, **attributes)
    except DmlError as error:
        shown = {name.removesuffix("_tensor"): "..." for name in given}
        shown |= {n.removesuffix("_tensor"): ",".join(map(str, one)) for n, one in sizes.items()}
        if "..." not in shown.values():
            raise
        rule = f"have those of all inputs ({','.join('='.join(one) for one in shown.items())})"
        got = Unquoted(" and ".join(name.removesuffix("_tensor") for name in sizes))
        fault = Fault(cls.c_name, "--sizes", rule, got)
        raise DmlError([fault, *error.faults]) from None


def cells(*arguments: Any, **options: Any) -> list[Cell]:
    """Return the cells of a `Choice`, which takes these arguments."""
    return Choice(*arguments, **options).cells()


def _types(cls: type[Operator]) -> Sequence[str]:
    """Return those of `TYPES` that an operator takes for its largest tensor, or else the first."""
    every = [t.name for t in TensorDataType if t.element_size]
    taken = [t for t in (*TYPES, *every) if cls.typical(1, t)]
    return [t for t in TYPES if t in taken] or taken[:1]


def _with_labels(uses: Sequence[Operator]) -> list[tuple[str, Operator]]:
    """Say in which attributes each descriptor differs from the others."""
    own = [f for f in uses[0].fields if not f.tensor] if uses else []
    told = [f for f in own if len({_shown(f, getattr(use, f.name)) for use in uses}) > 1]
    labels = [" ".join(_shown(f, getattr(use, f.name)) for f in told) for use in uses]
    if len({*labels}) < len(labels):
        labels = [f"{label} ({number})".strip() for number, label in enumerate(labels, 1)]
    return list(zip(labels, uses, strict=True))


def _shown(field: fields.Field, value: Any) -> str:
    """A member of an enumeration by its suffix; any other value with its field."""
    if value is None or isinstance(field.kind, fields.Choice):
        return str(value)
    return f"{field.name}={field.kind.shown(value)}".replace(", ", ",")


def matching(cells: Sequence[Cell], words: str) -> list[Cell]:
    """Return the cells whose names have `words`, written with or without signs of attributes."""
    parts = map(re.escape, _plain(words).split(" "))
    pattern = re.compile(r"(?<![A-Z_0-9])" + r"(?: \])? ".join(parts))
    return [cell for cell in cells if pattern.search(_plain(cell.name))]


def _plain(words: str) -> str:
    """Return words with few signs of attributes: `SUM axes=[0]` is `SUM AXES 0 ]`."""
    words = words.upper().replace("AXIS", "AXES").replace("]", " ] ")
    return re.sub(r"[=\[, ]+", " ", words).strip()
