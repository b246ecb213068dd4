"""Find the sizes and types of outputs that follow from the other fields."""

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dml_jax.constraints.checks import bind_names, indices_of, unbind_names, window_sizes
from dml_jax.constraints.record import Record
from dml_jax.constraints.record_expressions import (
    UnknownError,
    View,
    evaluate,
    parsed,
    places,
    root_of,
    text_of,
    value_of,
)
from dml_jax.constraints.shapes import Shapes, in_order

# What a record raises where the description is wrong; the check of the record says so.
_UNDECIDED = (UnknownError, IndexError, ValueError, ZeroDivisionError, AttributeError)


def solve_sizes(
    records: Iterable[Record],
    view: View,
    outputs: Sequence[str],
    chosen: Mapping[str, Sequence[int]] = {},
) -> dict[str, list[int | None]]:
    """Return the sizes of `outputs` that follow from the other fields; None is open.

    `view` has no outputs; `chosen` has sizes that the caller chooses, which others may follow.
    """
    sizes = _Sizes(view, outputs)
    sizes.found |= {name: list(own) for name, own in chosen.items()}
    solvers = {
        "equal": sizes.by_equal,
        "shapes": sizes.by_shapes,
        "size": sizes.by_size,
        "holds": sizes.by_holds,
    }
    active = [r for r in records if r.kind in solvers and r.is_of_newest]
    for _ in range(3):  # a record may need the sizes that a later one gives
        for record in active:
            if sizes.is_complete:
                return sizes.found
            try:
                if not record.where or record.applies(view):
                    solvers[record.kind](record.data)
            except _UNDECIDED:
                continue
    return sizes.found


class _Sizes:
    """The sizes of outputs that are found record by record.

    Attributes:
        found: by the C name of an output; None is open.
        is_complete: whether no size of an output is open.
    """

    def __init__(self, view: View, outputs: Sequence[str]):
        self.view, self.outputs, self.is_complete = view, outputs, False
        self.found: dict[str, list[int | None]] = {}

    def _put(self, name: str, d: int, size: int | None) -> None:
        if size is not None and name in self.found and self.found[name][d] is None:
            self.found[name][d] = size
            self.is_complete = self.found.keys() >= {*self.outputs} and not any(
                None in found for found in self.found.values()
            )

    def _known(self, name: str) -> Sequence[int] | None:
        """Return the sizes of a tensor, None while one is open."""
        found = self.found.get(root_of(name), [None])
        if None not in found:
            return [size for size in found if size is not None]
        return _first(name, self.view, "Sizes")

    def by_equal(self, data: Any) -> None:
        """Take the sizes of a tensor that must have the same."""
        aspects = set(data["of"])
        if not aspects & {"DimensionCount", "Sizes"}:
            return
        sizes = next((s for s in map(self._known, data["equal"]) if s is not None), None)
        if sizes is None:
            return
        for name in data["equal"]:
            if name in self.outputs:
                self.found.setdefault(name, [None] * len(sizes))
                but = evaluate(data["except"], self.view) if "except" in data else None
                for d, size in enumerate(sizes):
                    if "Sizes" in aspects and d != but:
                        self._put(name, d, size)

    def by_shapes(self, data: Any) -> None:
        """Bind the letters of patterns by the known tensors, and read the others from them."""
        shapes = Shapes(self.view)
        patterns = in_order(data["shapes"])
        for name, pattern in patterns:
            sizes = self._known(name)
            if sizes is not None:
                shapes.fit_any(name, pattern, sizes)
        for name, pattern in patterns:
            if name not in self.outputs or not isinstance(pattern[0], str):
                continue
            listed = next((k for k, e in enumerate(pattern) if e.endswith("...")), None)
            label = None if listed is None else pattern[listed][:-3]
            part: Sequence[int | None] = ()
            if label in shapes.lists:
                part = shapes.lists[label][0]
            elif listed is not None and name in self.found:
                spread = len(self.found[name]) - len(pattern) + 1
                part = [1 if label == "1" else None] * spread
            elif label not in (None, "1"):
                continue
            sizes = [None if e.endswith("...") else shapes.size(e) for e in pattern]
            if listed is not None:
                sizes[listed : listed + 1] = part
            self.found.setdefault(name, [None] * len(sizes))
            for d, size in enumerate(sizes):
                self._put(name, d, size)

    def by_size(self, data: Any) -> None:
        """Compute the last sizes from a sliding window."""
        name = root_of(data["size"])
        if name not in self.found:
            return
        wanted = [size for _, _, size, _ in window_sizes(data, self.view)]
        wanted = [math.prod(wanted)] if data.get("product") else wanted
        for d, size in zip(range(-len(wanted), 0), wanted, strict=True):
            self._put(name, len(self.found[name]) + d, size)

    def by_holds(self, data: Any) -> None:
        """Compute one size from an equation, of which it is the left side."""
        tree = parsed(data["holds"])
        if not (isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Eq)):
            return
        left = re.fullmatch(r"(\w+)\.Sizes\[(.*)\]", text_of(tree.left))
        if left is None or left[1] not in self.found or ":" in left[2]:
            return
        try:
            for index in indices_of(data, self.view, self.outputs):
                bind_names(data, self.view, index)
                size = value_of(tree.comparators[0], self.view)
                self._put(left[1], evaluate(left[2], self.view), size)
        finally:
            unbind_names(data, self.view)


def _first(name: str, view: View, aspect: str) -> Any:
    """Return an aspect of the first tensor at a path; None where the field is not given."""
    root = root_of(name)
    if root not in view.given:
        return None
    if root == name:
        return getattr(view[name], aspect)
    found = places(name, view)
    return getattr(found[0][1], aspect) if found else None


def solve_types(
    records: Iterable[Record],
    view: View,
    outputs: Sequence[str],
    chosen: Mapping[str, str] = {},
) -> dict[str, str]:
    """Return the data types of `outputs` that follow from the other fields and from `chosen` ones.

    `chosen` has the types of outputs that the caller knows; the result has these too.
    """
    found = dict(chosen)

    def known(name: str) -> str | None:
        return found.get(root_of(name)) or _first(name, view, "DataType")

    active = [r for r in records if r.kind in ("type", "equal") and r.is_of_newest]
    for record in (*active, *active):  # a record may need the type that a later one gives
        if found.keys() >= {*outputs}:
            break
        try:
            if record.applies(view):
                for name, data_type in _types(record, view, known):
                    if name in outputs and data_type is not None:
                        found.setdefault(name, data_type)
        except _UNDECIDED:
            continue
    return found


def _types(
    record: Record, view: View, known: Callable[[str], str | None]
) -> Iterator[tuple[str, str | None]]:
    """Yield (tensor, data type) that a record demands; `known` returns the type of a tensor."""
    data = record.data
    if record.kind == "equal":
        alike = data["equal"] if "DataType" in data["of"] else ()
        of = next((t for t in map(known, alike) if t is not None), None)
        yield from ((name, of) for name in alike)
    elif data["is"].endswith(".DataType"):
        other = data["is"].removesuffix(".DataType")
        yield other, known(data["type"])
        yield data["type"], known(other)
    else:
        wanted = data["is"]
        yield data["type"], wanted if wanted.isupper() else evaluate(wanted, view)
