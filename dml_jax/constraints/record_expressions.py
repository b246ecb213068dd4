"""Read the fields of a description, and the expressions and paths of constraint records."""

import ast
import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from dml_jax.description.descriptor import Size2D
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import Enumeration

# A field, and "DataType", "DimensionCount" or "Sizes" of a tensor, "" of an attribute.
Aspect = tuple[str, str]


class UnknownError(Exception):
    """Raised where an expression reads a field that is missing or wrong."""


class TensorView:
    """A tensor as expressions read it."""

    def __init__(self, tensor: TensorDesc):
        self.Sizes = tensor.sizes
        self.DimensionCount = len(tensor.sizes)
        self.DataType = tensor.data_type.name
        self.Flags = tensor.flags.name


class _Each(tuple[Any, ...]):
    """The sizes of each of several tensors; an index picks one dimension of all."""

    def __getitem__(self, index: Any) -> Any:
        return tuple(sizes[index] for sizes in self)


class TensorViews(tuple[TensorView, ...]):
    """A list of tensors as expressions read it: `Inputs[*].Sizes[Axis]` has a size of each."""

    @property
    def Sizes(self) -> _Each:  # noqa: N802  (DirectML's name)
        return _Each(tensor.Sizes for tensor in self)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return TensorViews(found) if isinstance(index, slice) else found


def _readable(value: Any) -> Any:
    """Return a field's value as expressions read it."""
    if isinstance(value, TensorDesc):
        return TensorView(value)
    if isinstance(value, Enumeration):
        return value.suffix
    if isinstance(value, tuple):
        types = {*map(type, value)}
        if types == {TensorDesc}:
            return TensorViews(map(TensorView, value))
        return value if types <= {int, float} else tuple(map(_readable, value))
    if isinstance(value, Size2D):
        return SimpleNamespace(Width=value.width, Height=value.height)
    return value


def _stripped(sizes: Sequence[int]) -> tuple[int, ...]:
    first = next((d for d, size in enumerate(sizes) if size != 1), len(sizes))
    return tuple(sizes[first:])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "len": len,
    "min": min,
    "max": max,
    "product": math.prod,
    "sum": sum,
    "stripped": _stripped,
    "given": lambda value: value is not None,
}


_PLAIN = (int, float, bool, type(None))


class View(dict[str, Any]):
    """The fields of a description by their C names, as expressions read them: each read once.

    Args:
        values: the converted values; None for a field that is left out.
        counts: the lists that each count is the length of.

    Attributes:
        known: the fields and counts whose values are known, None included.
        given, absent: the fields that are there and not None; those that are None.
    """

    def __init__(self, values: Mapping[str, Any], counts: Mapping[str, Sequence[str]]):
        super().__init__(_FUNCTIONS)
        self._values, self._counts = values, counts
        self.known, self.given, self.absent = {*values}, set[str](), set[str]()
        for name, value in values.items():
            (self.absent if value is None else self.given).add(name)
        for count, lists in counts.items():
            if not self.known.isdisjoint(lists):
                self.known.add(count)

    def __missing__(self, name: str) -> Any:
        if name in self._values:
            value = self._values[name]
            self[name] = value if type(value) in _PLAIN else _readable(value)
        else:
            lists = [self._values.get(c) for c in self._counts.get(name, ())]
            lengths = [len(v) for v in lists if isinstance(v, tuple)]
            if not lengths:
                raise UnknownError(name)
            self[name] = lengths[0]
        return self[name]

    def count_of(self, name: str) -> str | None:
        """Return the count field of a list, if it counts no other list."""
        for count, lists in self._counts.items():
            if [*lists] == [name]:
                return count
        return None

    def lists_of(self, count: str) -> Sequence[str]:
        """Return the lists that a count field is the length of."""
        return self._counts.get(count, ())


@functools.cache
def _compiled(text: str) -> Any:
    return compile(text.replace("[*]", "[:]"), "<constraint>", "eval")


def evaluate(text: str | int, view: View) -> Any:
    """Return the value of an expression on the fields of `view`."""
    if not isinstance(text, str):
        return text
    return eval(_compiled(text), {"__builtins__": {}}, view)


@functools.cache
def text_of(node: ast.expr) -> str:
    """Return the text of a part of what `parsed` returns."""
    return ast.unparse(node)


def value_of(node: ast.expr, view: View) -> Any:
    """Return the value of a part of an expression on the fields of `view`."""
    return evaluate(text_of(node), view)


@functools.cache
def parsed(text: str) -> ast.expr:
    """Return the tree of an expression."""
    return ast.parse(text.replace("[*]", "[:]"), mode="eval").body


@functools.cache
def roots(text: str) -> frozenset[Aspect]:
    """Return the fields, with the aspects, that an expression reads."""
    found: set[Aspect] = set()
    tree = parsed(text)
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):
        inner = node.value if isinstance(node, ast.Attribute) else None
        while isinstance(inner, ast.Subscript):
            inner = inner.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name):
            found.add((inner.id, node.attr))
            plain.add(inner)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in plain and node.id not in _FUNCTIONS:
            found.add((node.id, ""))
    return frozenset(found)


@functools.cache
def root_of(path: str) -> str:
    """Return the field that a path names: `Axes` of `Axes[*]`."""
    return re.split(r"[.\[]", path)[0]


@functools.cache
def aspect_of(path: str) -> Aspect:
    """Return the field and the aspect that the path of a fault names."""
    root, *rest = re.split(r"[.\[]", path)
    aspects = ("DataType", "DimensionCount", "Sizes")
    return root, next((aspect for aspect in aspects if aspect in rest), "")


def is_wrong(wrong: Collection[Aspect], root: str, aspect: str) -> bool:
    """Return whether an aspect of a field, or one that it rests on, is among those in `wrong`."""
    if (root, "") in wrong or (root, aspect) in wrong:
        return True
    return aspect == "Sizes" and (root, "DimensionCount") in wrong


def places(text: str, view: View) -> list[tuple[str, Any]]:
    """Return (path, value) of each element that a path names: `Axes[*]` names several."""
    root = root_of(text)
    if text == root:
        return [(text, view[text])]
    if text == f"{root}[*]":
        return [(f"{root}[{i}]", value) for i, value in enumerate(view[root])]

    def walk(node: ast.expr) -> list[tuple[str, Any]]:
        if isinstance(node, ast.Name):
            return [(node.id, view[node.id])]
        if isinstance(node, ast.Attribute):
            return [(f"{t}.{node.attr}", getattr(v, node.attr, None)) for t, v in walk(node.value)]
        if not isinstance(node, ast.Subscript):
            raise TypeError(f"{text!r} is not a path")
        found = []
        for t, v in walk(node.value):
            if isinstance(node.slice, ast.Slice):
                ends = (node.slice.lower, node.slice.upper)
                start, stop = (None if e is None else value_of(e, view) for e in ends)
                indices = range(*slice(start, stop).indices(len(v)))
            else:
                index = value_of(node.slice, view)
                indices = [index + len(v) if index < 0 else index]
            found += [(f"{t}[{i}]", v[i]) for i in indices]
        return found

    return walk(parsed(text))
