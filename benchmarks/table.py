"""The cells of the comparison: variants of the fourteen first operators, over sizes and types."""

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from transformed import Backward, Mapped, Transformed

from dml_jax import functional
from dml_jax.description.descriptor import ScaleBias
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import AxisDirection, DepthSpaceOrder, ReduceFunction, TensorDataType
from dml_jax.errors import DmlError, Fault, Unquoted, nearest
from dml_jax.graph import GraphBuilder
from dml_jax.operator import OPERATORS
from dml_jax.operator.callable import Bindable
from dml_jax.operators import (
    Argmax,
    Argmin,
    DepthToSpace,
    DepthToSpace1,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    ElementWiseClipGrad1,
    Join,
    Reduce,
    SpaceToDepth,
    SpaceToDepth1,
    Split,
    Tile,
)

Sizes = tuple[int, ...]

LOW, HIGH = 0.5, 1.5
"""The range of the random floats: positive, for logarithms, and near 1, so that products last."""


@dataclass(frozen=True)
class Cell:
    """One thing to measure.

    Attributes:
        kind: the operator (`REDUCE`), a chain (`CLIP -> REDUCE`), a transformation (`BACKWARD`), or
            a model's dispatchable.
        variant: which one of its kind (`SUM [1]`).
        function: what is called.
    """

    kind: str
    variant: str
    function: Bindable | Transformed

    @property
    def tensor(self) -> TensorDesc:
        """What it is measured over: the first input, or what inputs of several sizes become."""
        function = self.function
        if isinstance(function, Backward):
            function = function.operator
        inputs = function.inputs
        return inputs[0] if len({t.sizes for t in inputs}) == 1 else function.outputs[0]

    @property
    def name(self) -> str:
        """`REDUCE SUM [1] FLOAT32[8,64,256,256]`: no other cell's."""
        return " ".join(part for part in (self.kind, self.variant, self.tensor.shown()) if part)

    @property
    def group(self) -> str:
        """The kind; of REDUCE with the function, of a transformation with the operator."""
        if isinstance(self.function, Transformed):
            operator = self.function.operator
            words = (self.kind, operator.short_name, str(getattr(operator, "function", "")))
            return " ".join(filter(None, words))
        return f"{self.kind} {self.variant.split()[0]}" if self.kind == "REDUCE" else self.kind

    @property
    def largest(self) -> int:
        """Bytes of its largest tensor."""
        return max(map(_bytes, (*self.function.inputs, *self.function.outputs)))

    @property
    def bytes_in(self) -> int:
        """Bytes that must be read: each element of each input once."""
        return sum(map(_bytes, self.function.inputs))

    @property
    def bytes_out(self) -> int:
        """Bytes that must be written: each element of each output once."""
        return sum(map(_bytes, self.function.outputs))

    @property
    def bytes(self) -> int:
        return self.bytes_in + self.bytes_out

    @property
    def reads(self) -> bool:
        """Whether nearly all that it moves is read, as a reduction does."""
        return 8 * self.bytes_out <= self.bytes_in


def _bytes(tensor: TensorDesc) -> int:
    return math.prod(tensor.sizes) * tensor.dtype.itemsize


# Variants: of one input tensor, every way to use the operator that is worth a figure.

Variants = Callable[[TensorDesc], Iterator[tuple[str, Callable[[], Bindable | Transformed]]]]


def _bounds(tensor: TensorDesc) -> dict[str, Any]:
    """Bounds that half of the random elements lie outside of."""
    if np.issubdtype(tensor.dtype, np.integer):
        limits = np.iinfo(tensor.dtype)
        quarter = 2 ** (limits.bits - 2)  # so that FLOAT holds the bounds
        return {"min": int(limits.min) + quarter, "max": int(limits.max) + 1 - quarter}
    return {"min": 0.75, "max": 1.25}


def _clip(tensor: TensorDesc) -> Any:
    make = functools.partial(ElementWiseClip.infer, input_tensor=tensor, **_bounds(tensor))
    yield "", make
    yield "ScaleBias", functools.partial(make, scale_bias=ScaleBias(scale=0.5, bias=0.25))


def _clip1(tensor: TensorDesc) -> Any:
    tensors = {"input_tensor": tensor, "output_tensor": tensor}
    exact = {"min_max_data_type": tensor.data_type, **_bounds(tensor)}
    yield "", functools.partial(ElementWiseClip1, **tensors, **exact)


def _clip_grad(cls: Any, **more: Callable[[TensorDesc], Any]) -> Variants:
    def variants(tensor: TensorDesc) -> Any:
        tensors = dict.fromkeys(cls._tensor_fields, tensor)
        exact = {name: of(tensor) for name, of in more.items()}
        yield "", functools.partial(cls, **tensors, **exact, **_bounds(tensor))

    return variants


def _blocks(cls: Any, deep: bool) -> Variants:
    """Blocks of 2, 3, 4, 8 in both orders; the sizes cut to what the block divides."""
    orders = list(DepthSpaceOrder) if "order" in {f.name for f in cls.fields} else [None]

    def variants(tensor: TensorDesc) -> Any:
        n, c, h, w = tensor.sizes
        for order in orders:
            for block in (2, 3, 4, 8):
                cut = functools.partial(_cut, to=block**2 if deep else block)
                sizes = (n, cut(c), h, w) if deep else (n, c, cut(h), cut(w))
                fields = {"order": order} if order is not None else {}
                given = TensorDesc(tensor.data_type, sizes)
                label = f"block {block}" + (f" {order}" if order is not None else "")
                yield (
                    label,
                    functools.partial(cls.infer, input_tensor=given, block_size=block, **fields),
                )

    return variants


def _cut(size: int, to: int) -> int:
    return max(size // to, 1) * to


def _tile(tensor: TensorDesc) -> Any:
    rank = tensor.dimension_count
    for label, repeats in {
        "trailing": (*[1] * (rank - 1), 2),
        "leading": (4, *[1] * (rank - 1)),
        **{f"inner {d}": [4 if d == i else 1 for i in range(rank)] for d in range(1, rank - 1)},
        "all": [2] * rank,
        "innermost x16": (*[1] * (rank - 1), 16),
    }.items():
        yield label, functools.partial(Tile.infer, input_tensor=tensor, repeats=repeats)


def _pieces(size: int) -> list[int]:
    """Three unequal pieces where there are as many."""
    first = max(size // 8, 1)
    rest = size - first
    return [piece for piece in (first, rest // 2, rest - rest // 2) if piece]


def _along(tensor: TensorDesc, axis: int, pieces: Sequence[int]) -> list[TensorDesc]:
    before, behind = tensor.sizes[:axis], tensor.sizes[axis + 1 :]
    return [TensorDesc(tensor.data_type, (*before, piece, *behind)) for piece in pieces]


def _split(tensor: TensorDesc) -> Any:
    sizes, last = tensor.sizes, tensor.dimension_count - 1
    pieces = {f"axis {axis}": (axis, _pieces(size)) for axis, size in enumerate(sizes)}
    if sizes[last] % 4 == 0:
        pieces[f"axis {last} in 4"] = last, [sizes[last] // 4] * 4
    for label, (axis, along) in pieces.items():
        fields = {"input_tensor": tensor, "output_tensors": _along(tensor, axis, along)}
        yield label, functools.partial(Split, **fields, axis=axis)


def _join(tensor: TensorDesc) -> Any:
    for axis, size in enumerate(tensor.sizes):
        pieces = _along(tensor, axis, _pieces(size))
        yield f"axis {axis}", functools.partial(Join.infer, input_tensors=pieces, axis=axis)


def _axes(rank: int) -> list[list[int]]:
    """Each axis, the last first; of four dimensions also some of several; all."""
    several = [[2, 3], [1, 2], [0, 2, 3]] if rank == 4 else []
    return [*([d] for d in reversed(range(rank))), *several, list(range(rank))]


def _reduce(tensor: TensorDesc) -> Any:
    for function in ReduceFunction:
        make = functools.partial(Reduce.infer, input_tensor=tensor, function=function)
        for axes in _axes(tensor.dimension_count):
            yield f"{function} {axes}", functools.partial(make, axes=axes)


def _arg(cls: Any) -> Variants:
    def variants(tensor: TensorDesc) -> Any:
        for direction in AxisDirection:
            make = functools.partial(cls.infer, input_tensor=tensor, axis_direction=direction)
            for axes in _axes(tensor.dimension_count):
                yield f"{direction} {axes}", functools.partial(make, axes=axes)

    return variants


def _chain(*inputs: TensorDesc, of: Callable[..., Any]) -> Bindable:
    builder = GraphBuilder()
    return builder.build(of(*(builder.input_tensor(f"x{i}", t) for i, t in enumerate(inputs))))


def _clipped(tensor: TensorDesc, x: Any) -> Any:
    return functional.clip(x, **_bounds(tensor))


def _pictures(tensor: TensorDesc) -> Any:
    n, c, h, w = tensor.sizes
    given = TensorDesc(tensor.data_type, (n, _cut(c, 4), h, w))

    def of(x: Any) -> Any:
        return functional.tile(functional.depth_to_space(_clipped(given, x), 2), (1, 1, 2, 2))

    yield "", functools.partial(_chain, given, of=of)


def _clip_reduce(tensor: TensorDesc) -> Any:
    for axes in _axes(tensor.dimension_count):

        def of(x: Any, axes: list[int] = axes) -> Any:
            return functional.reduce(_clipped(tensor, x), "SUM", axes)

        yield f"SUM {axes}", functools.partial(_chain, tensor, of=of)


def _split_join(tensor: TensorDesc) -> Any:
    alike = [tensor.sizes[3] // 4] * 4
    for label, axis, sizes in (("axis 1", 1, _pieces(tensor.sizes[1])), ("axis 3 in 4", 3, alike)):

        def of(x: Any, axis: int = axis, sizes: list[int] = sizes) -> Any:
            pieces = functional.split(x, axis, sizes)
            return functional.join([_clipped(tensor, piece) for piece in reversed(pieces)], axis)

        yield label, functools.partial(_chain, tensor, of=of)


# The table.

MAIN = (8, 64, 256, 256)
HALF = (4, 64, 256, 256)
LARGE = (32, 64, 512, 512)
VIDEO = (32, 3, 1080, 1920)
SQUARE = (1, 1, 4096, 4096)
ODD_SQUARE = (1, 1, 4093, 4099)
PRIMES = (5, 13, 509, 521)
ODD = (65, 13, 509, 521)
LOGITS = (1, 129280)
TALL, WIDE = (4096, 7), (7, 4096)

F32, F16, I32, U8 = (("FLOAT32",), ("FLOAT16",), ("INT32",), ("UINT8",))
OTHERS = (*F16, *I32, *U8)


@dataclass(frozen=True)
class Rows:
    """Cells of one operator: each of its variants over each of these sizes and types."""

    sizes: Sequence[Sizes]
    types: Sequence[str]
    variants: str = ""
    """A regular expression that the variants' names must have; all have the empty one."""


@dataclass(frozen=True)
class Plan:
    """How an operator is measured."""

    variants: Variants
    rows: Sequence[Rows]
    cuts: bool = False  # sizes, to what a variant takes


_SHAPES = (VIDEO, SQUARE, ODD_SQUARE, PRIMES, LOGITS, TALL, WIDE)
_ELEMENT_WISE = (Rows([MAIN], (*F32, *OTHERS)), Rows(_SHAPES, F32), Rows([VIDEO], U8))
_BLOCKS = (
    Rows([MAIN], F32),
    Rows([MAIN], OTHERS, "block [23] DEPTH"),
    Rows([VIDEO], F32, "block [24] DEPTH"),
    Rows([VIDEO], U8, "block [23] DEPTH"),
    Rows([PRIMES], F32, "block 2"),
)
_ONE = (Rows([MAIN], F32, "^$|block 2"),)
_PIECES = (
    Rows([MAIN], F32),
    Rows([MAIN], U8, "axis [13]"),
    Rows([MAIN], F16, "axis [3]"),
    Rows([VIDEO], F32, "axis 1"),
    Rows([PRIMES], F32, "axis [13]"),
    Rows([ODD], (*F32, *F16, *U8), "axis [13]"),
    Rows([LARGE], F32, "axis [03]"),
)
_CHAINS = (Rows([MAIN], (*F32, *F16, *U8)),)
_CHAINS_OF_PIECES = (*_CHAINS, Rows([VIDEO, ODD], (*F16, *U8), "axis 1"))

PLANS: dict[str, Plan] = {
    "ELEMENT_WISE_CLIP": Plan(
        _clip, (*_ELEMENT_WISE, Rows([LARGE], F32, "^$"), Rows([ODD], (*F32, *F16, *U8), "^$"))
    ),
    "ELEMENT_WISE_CLIP1": Plan(_clip1, (Rows([MAIN], (*F32, *I32)),)),
    "ELEMENT_WISE_CLIP_GRAD": Plan(
        _clip_grad(ElementWiseClipGrad), (Rows([MAIN], (*F32, *OTHERS)), Rows([PRIMES], F32))
    ),
    "ELEMENT_WISE_CLIP_GRAD1": Plan(
        _clip_grad(ElementWiseClipGrad1, min_max_data_type=lambda t: t.data_type), _ONE
    ),
    "DEPTH_TO_SPACE": Plan(_blocks(DepthToSpace, True), _ONE, cuts=True),
    "SPACE_TO_DEPTH": Plan(_blocks(SpaceToDepth, False), _ONE, cuts=True),
    "DEPTH_TO_SPACE1": Plan(
        _blocks(DepthToSpace1, True), (*_BLOCKS, Rows([LARGE], F32, "block 2 DEPTH")), cuts=True
    ),
    "SPACE_TO_DEPTH1": Plan(_blocks(SpaceToDepth1, False), _BLOCKS, cuts=True),
    "TILE": Plan(
        _tile,
        (
            Rows([MAIN], F32),
            Rows([MAIN], OTHERS, "leading|inner 1|x16"),
            Rows([PRIMES], F32),
            Rows([ODD], (*F16, *U8), "inner 1"),
            Rows([SQUARE], F32, "trailing|x16"),
        ),
    ),
    "SPLIT": Plan(_split, _PIECES),
    "JOIN": Plan(_join, _PIECES),
    "REDUCE": Plan(
        _reduce,
        (
            Rows([MAIN], F32, r"^(SUM|MAX|LOG_SUM_EXP|ARGMAX) "),
            Rows([HALF], F32, r"^(?!SUM |MAX|LOG_SUM_EXP|ARGMAX).*\[(?!2\])"),
            Rows([MAIN], F16, r"(SUM|MAX|LOG_SUM_EXP) \[(0|1|3|0, 1, 2, 3)\]"),
            Rows([MAIN], I32, r"(SUM|MAX) \[(0|1|3|0, 1, 2, 3)\]"),
            Rows([MAIN], U8, r"MAX \[(0|1|3|0, 1, 2, 3)\]"),
            Rows([SQUARE, ODD_SQUARE], F32, r"^(SUM|MAX|LOG_SUM_EXP) \[[23]\]"),
            Rows([PRIMES], F32, r"^(SUM|MAX|LOG_SUM_EXP) \[[0123]\]"),
            Rows([LOGITS], F32, r"^(SUM|MAX|LOG_SUM_EXP|ARGMAX) \[1\]"),
            Rows([TALL, WIDE], F32, r"^(SUM|MAX|LOG_SUM_EXP) \[[01]\]"),
            Rows([LARGE], F32, r"^(SUM|LOG_SUM_EXP) \[[13]\]"),
        ),
    ),
    "ARGMAX": Plan(
        _arg(Argmax),
        (
            Rows([MAIN], F32, "INC"),
            Rows([MAIN], F32, r"DEC.* \[[013]\]"),
            Rows([MAIN], OTHERS, r"INC.* \[[013]\]"),
            Rows([SQUARE, ODD_SQUARE], F32, r"INC.* \[[23]\]"),
            Rows([PRIMES], F32, r"INC.* \[[0123]\]"),
            Rows([TALL, WIDE], F32, r"INC.* \[[01]\]"),
            Rows([LARGE], F32, r"INC.* \[[13]\]"),
        ),
    ),
    "ARGMIN": Plan(_arg(Argmin), (Rows([MAIN], F32, r"\[[013]\]"),)),
}
"""The plans of the operators that are compared with peers."""

CHAINS: dict[str, Plan] = {
    "CLIP -> DEPTH_TO_SPACE1 -> TILE": Plan(_pictures, _CHAINS),
    "CLIP -> REDUCE": Plan(_clip_reduce, (Rows([MAIN], (*F32, *F16), r"\[(0|1|3|2, 3)\]"),)),
    "SPLIT -> CLIP -> JOIN": Plan(_split_join, _CHAINS_OF_PIECES),
}


def _all_variants(tensor: TensorDesc, of: Callable[[Any], Transformed]) -> Any:
    """Every operator's, transformed."""
    for name, plan in PLANS.items():
        for label, make in _made(plan, tensor):
            yield f"{name} {label}".strip(), functools.partial(_transformed, of, make)


def _transformed(of: Callable[[Any], Transformed], make: Callable[[], Bindable]) -> Transformed:
    return of(make())


def _backward(tensor: TensorDesc) -> Any:
    yield from _all_variants(tensor, Backward)


def _mapped(tensor: TensorDesc) -> Any:
    """Over the first axis, and over the second."""
    for axis in (0, 1):
        sizes = (*tensor.sizes[:axis], *tensor.sizes[axis + 1 :])
        of = functools.partial(Mapped, axis=axis, size=tensor.sizes[axis])
        for label, make in _all_variants(TensorDesc(tensor.data_type, sizes), of):
            yield f"in {axis}: {label}", make


_GRADIENTS = (
    r"^(ELEMENT_WISE_CLIP.?|.*1 block 2 DEP.*|TILE (trailing|leading|inner 1|all)"
    r"|(SPLIT|JOIN) axis [13]|REDUCE MULTIPLY \[[13]\]"
    r"|REDUCE (SUM|L2|MAX|LOG_SUM_EXP) \[(0|1|3|1, 2)\])$"
)

TRANSFORMED: dict[str, Plan] = {
    "BACKWARD": Plan(
        _backward,
        (Rows([MAIN], F32, _GRADIENTS), Rows([MAIN], F16, r"REDUCE (MAX|LOG_SUM_EXP) \[[013]\]")),
    ),
    "VMAP": Plan(
        _mapped, (Rows([MAIN], F32, r"^in .*REDUCE (SUM|MAX|LOG_SUM_EXP|ARGMAX) \[[02]\]$"),)
    ),
}
"""Operators under transformations."""


def plans() -> dict[str, Plan]:
    """Every operator's plan, the chains' and the transformations', by their cells' kinds."""
    return {**PLANS, **CHAINS, **TRANSFORMED}


def cells(
    kinds: Sequence[str] = (),
    types: Sequence[TensorDataType] = (),
    sizes: Sequence[Sizes] = (),
    limit: int = 2**28,
    every: int = 1,
) -> list[Cell]:
    """The cells of the table.

    Args:
        kinds: operators, with or without DML_OPERATOR_, chains ("CHAINS": all), BACKWARD, VMAP;
            empty: all.
        types: empty: those of the table.
        sizes: in place of the table's; an operator's variants that these do not allow are left out.
        limit: bytes of the largest tensor. The table's sizes are halved from the front until they
            fit; sizes that are given stay as they are.
        every: of each kind, only one cell of this many, the first included.

    Raises `DmlError` for a kind that there is not, or where nothing is left.
    """
    known, found = plans(), {}
    for kind in chosen(kinds):
        plan, of_kind = known[kind], {}
        rows = [replace(r, types=_taken(r, types)) for r in plan.rows]
        if sizes:
            given = [t.name for t in types] or ["FLOAT32"]
            rows = [Rows(sizes, given)]
        elif types:
            # A type that the table has no rows of runs over the first row's.
            tabled = {name for row in rows for name in row.types}
            new = [t.name for t in types if t.name not in tabled]
            rows.append(replace(plan.rows[0], types=new))
        for row in rows:
            for type_name in row.types:
                for shape in row.sizes:
                    most = None if sizes else limit
                    for cell in _variants(kind, plan, type_name, shape, most, row.variants):
                        if not (sizes and plan.cuts) or cell.tensor.sizes == tuple(shape):
                            of_kind.setdefault(cell.name, cell)
        found |= dict(list(of_kind.items())[::every])
    if not found:
        by = f"{' or '.join(kinds) or 'one of the operators'} (`dml-jax operators NAME` says which)"
        value = ", ".join([*(str(list(s)) for s in sizes), *(t.name for t in types)])
        raise DmlError([Fault("", "the sizes and types", f"be taken by {by}", Unquoted(value))])
    return list(found.values())


def _taken(row: Rows, types: Sequence[TensorDataType]) -> list[str]:
    return [name for name in row.types if not types or name in {t.name for t in types}]


def named_kinds() -> list[str]:
    """What `chosen` knows, the chains by one name."""
    return [*PLANS, "CHAINS", *TRANSFORMED]


def chosen(kinds: Iterable[str]) -> list[str]:
    """The kinds of these names; of none, all. Raises `DmlError` for one that there is not."""
    known, names = plans(), []
    for kind in kinds:
        name = kind.upper().removeprefix("DML_OPERATOR_")
        meant = list(CHAINS) if name == "CHAINS" else [name]
        if not set(meant) <= set(known):
            listed = named_kinds()
            rule = f"be one of {', '.join(listed)}{nearest(name, listed)}"
            if f"DML_OPERATOR_{name}" in OPERATORS:
                rule = "have a row in PLANS (benchmarks/table.py)"
            raise DmlError([Fault("", "the operator", rule, kind)])
        names += meant
    return names or list(known)


def _variants(
    kind: str, plan: Plan, type_name: str, sizes: Sizes, limit: int | None, pattern: str = ""
) -> list[Cell]:
    """The variants that match, and that these sizes and this type allow, each cut to the limit."""
    labels = (label for label, _ in _made(plan, TensorDesc(type_name, sizes)))
    waiting = order = [label for label in labels if re.search(pattern, label)]
    found: dict[str, Cell] = {}
    while waiting:
        made, large = dict(_made(plan, TensorDesc(type_name, sizes))), []
        for label in waiting:
            try:
                function = made[label]()
            except (DmlError, KeyError):  # not of this type or these sizes
                continue
            cell = Cell(kind, label, function)
            if limit is None or cell.largest <= limit:
                found[label] = cell
            else:
                large.append(label)
        smaller = _halved(sizes)
        waiting, sizes = large if smaller != sizes else [], smaller
    return [found[label] for label in order if label in found]


def _made(plan: Plan, tensor: TensorDesc) -> Iterator[tuple[str, Callable[[], Any]]]:
    try:
        yield from plan.variants(tensor)
    except (DmlError, ValueError, IndexError):  # of another rank
        return


def _halved(sizes: Sequence[int]) -> Sizes:
    for d, size in enumerate(sizes):
        if size > 1:
            return (*sizes[:d], size // 2, *sizes[d + 1 :])
    return tuple(sizes)


def small_cells() -> list[Cell]:
    """Of each operator the first variants over 1 to 4096 elements: what a call costs beside it."""
    found: dict[str, Cell] = {}
    for kind, plan in plans().items():
        if kind in TRANSFORMED:
            continue
        for sizes in ((1, 1, 1, 1), (1, 4, 2, 8), (1, 64, 8, 8)):
            for cell in _variants(kind, plan, "FLOAT32", sizes, None):
                found.setdefault(cell.name, cell)
                break
    return list(found.values())
