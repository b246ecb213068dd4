"""Sizes that follow from data within one program: each has a bound, and a count that is carried.

A node whose sizes come while the program runs (Range, Expand, ConstantOfShape, Reshape) gets the
largest sizes that these may be. Its output is padded to them, and the count says what is there
(`dml_jax.onnx.sizes.padding_rules`). The largest size follows from sizes that are known, as for the
places of NonZero, or `load_onnx(bounds=...)` says it. Each op type's record names its rule
(`SizeRules.output`).
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from dml_jax import functional as dml
from dml_jax.errors import Expect, Fault, Unquoted, nearest
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import COUNT, Type, index_type
from dml_jax.onnx.nodes import reshapes
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.number_limits import Limit
from dml_jax.onnx.nodes.tensor import Count, Tensor
from dml_jax.onnx.sizes.counts import same_terms, scaled
from dml_jax.onnx.sizes.symbolic_sizes import Term, number, terms_of

_MOST = 1 << 26  # a size that follows from no known size, but from the range of its type
_LISTED = 8  # names of sizes in a message


@dataclass(frozen=True)
class Sized:
    """The sizes of a node's output, of which one is the largest that it may be.

    Attributes:
        index: the input that decides the sizes, of which `array` takes the place.
        array: the elements that stand for it.
        axis: the dimension of the output that is padded.
        count: how many elements along it are there.
    """

    index: int
    array: np.ndarray
    axis: int
    count: Tensor


class SizeBounds:
    """The bounds of the sizes that data decides, as `load_onnx` is told them.

    Args:
        given: the bounds by name: of the tensor whose size it is, of its dimension in the file, of
            the tensor that says the size, or any other name for a size that has none of these.
        graph: the graph of the file.

    Attributes:
        met: the sizes that each bound was needed for, by its name.
        decided: the name of each size that data decides, by the identity of its tensor.

    Raises `DmlError` for a bound below 1.
    """

    def __init__(self, given: Mapping[str, int], graph: onnx.GraphProto):
        expect = Expect("")
        for name, most in given.items():
            is_size = isinstance(most, (int, np.integer)) and most >= 1
            expect(is_size, f"bounds['{name}']", "be a size of at least 1", most)
        expect.check()
        self.given, self.met = {k: int(n) for k, n in given.items()}, dict[str, list[Tensor]]()
        self.decided = dict[int, str]()
        self._dims = {
            v.name: [d.dim_param for d in v.type.tensor_type.shape.dim]
            for v in (*graph.value_info, *graph.output)
        }
        self._tensors = {name for node in graph.node for name in node.output}
        self._numbers: dict[tuple[int, int], int] = {}  # the largest value of a number in a sum
        self._sizes: dict[Any, Tensor] = {}  # by the sum that each one is

    def upper(self, term: Term) -> int | None:
        """Return the largest value of a sum, as far as it follows from sizes that have a bound."""
        found = [term.bounds[1]] if term.bounds and term.bounds[1] <= _MOST else []
        numbers = [(self._numbers.get(key), n) for key, n in term.factors.items()]
        if all(most is not None for most, _ in numbers):
            found.append(term.rest + sum(n * most for most, n in numbers if most and n > 0))
        return min(found) if found else None

    def named(self, name: str, axis: int) -> str | None:
        """Return the name of the bound of dimension `axis` of a tensor; None where it has none."""
        dims = self._dims.get(name, ())
        found = [name, *([dims[axis]] if axis < len(dims) else [])]
        return next((key for key in found if key in self.given), None)

    def size(
        self, node: Node, axis: int, term: Term, make: Callable[[], Tensor]
    ) -> tuple[int, Tensor]:
        """Return the largest size of a dimension of a node's output, and the size as a tensor.

        `term` is the size as a sum, which may be negative: then the size is 0. `make` makes the
        tensor. Raises `DmlError` where nothing bounds it.
        """
        known = self._sizes.get(_key(term))
        if known is not None and known.bounds is not None:
            return known.bounds[1], known
        size = make()
        self.decide(size, node.outputs[0], axis)
        most = self._most(node, axis, term, size)
        size.bounds = 0, most
        if term.bounds and term.bounds[0] >= 0:
            size.terms = [term._replace(bounds=(term.bounds[0], most))]
        self._sizes[_key(term)] = size
        return most, size

    def is_size(self, term: Term, count: Tensor) -> bool:
        """Return whether a sum is the count of a padded tensor at all times."""
        return self._sizes.get(_key(term)) is count or same_terms([term], terms_of(count))

    def _most(self, node: Node, axis: int, term: Term, size: Tensor) -> int:
        upper, key = self.upper(term), self.named(node.outputs[0], axis)
        key = key or next((name for name in node.proto.input if name in self.given), None)
        free = self.given.keys() - self._tensors - self.met.keys()
        if key is None and upper is None and len(free) == 1:
            (key,) = free
        if key is not None:
            upper = self.given[key] if upper is None else min(upper, self.given[key])
            self.meet(key, size)
        if upper is None:
            name = node.outputs[0]
            rule = "be known at load (load_onnx(..., constants={...}) gives inputs a value) or to "
            rule += f"have a bound (load_onnx(..., bounds={{'{name}': ...}}) or "
            rule += f"--bounds {name}=SIZE)"
            where = f"the size of the output '{name}'"
            raise node.refusal(where, rule, Unquoted("a computed size"))
        if len(term.factors) == 1:
            ((number, factor),) = term.factors.items()
            if factor > 0:
                self._numbers.setdefault(number, (upper - term.rest) // factor)
        return max(upper, 0)

    def meet(self, key: str, size: Tensor) -> None:
        """Remember a size that a bound was given for."""
        self.met.setdefault(key, []).append(size)

    def faults(self) -> list[Fault]:
        """Return the faults of bounds that no size needed."""
        known = [*dict.fromkeys(self.decided.values())]
        shown = [*known[:_LISTED], *["..."] * (len(known) > _LISTED)]
        listed = f" ({', '.join(shown) or 'there is none'})"
        rule = "name a size that data decides"
        return [
            Fault("", "bounds", rule + (nearest(name, known) or listed), name)
            for name in self.given.keys() - self.met.keys()
        ]

    def decide(self, size: Tensor, name: str, axis: int) -> None:
        """Remember that data decides a size, the one of a dimension of the tensor with a name."""
        dims = self._dims.get(name, ())
        self.decided.setdefault(id(size), (axis < len(dims) and dims[axis]) or name)


def _key(term: Term) -> Any:
    return frozenset(term.factors.items()), term.rest


def one_of(node: Node, index: int, place: int) -> Tensor:
    """Return an element of an input as a size: a number of INT64, or of INT32 without x64."""
    tensor = node.tensor(index)

    def value() -> Expression:
        x = tensor.expression
        x = dml.slice(x, (place,), (1,), (1,)) if x.sizes != (1,) else x
        return dml.max(reshapes.as_type(x, index_type()), 0)

    return Tensor(node.outputs[0], COUNT, value)


def filled(node: Node) -> Sized | None:
    """Return the sizes of a tensor of one value, of which one size is not known."""
    terms = terms_of(node.tensor(0))
    if terms is None or all(term.known is not None for term in terms):
        return None
    return _of_terms(node, 0, terms, [None] * len(terms))


def expanded(node: Node) -> Sized | None:
    """Return the sizes of an Expand, of which one is not known, or is that of its input."""
    terms, shape, padding = terms_of(node.tensor(1)), node.shape(), node.tensor(0).count
    if terms is None or (padding is None and all(term.known is not None for term in terms)):
        return None
    rank = max(len(terms), len(shape))
    terms = [number(1)] * (rank - len(terms)) + terms
    own: list[int | Count | None] = [*[1] * (rank - len(shape)), *shape]
    if padding is not None:
        own[padding.axis + rank - len(shape)] = padding
    return _of_terms(node, 1, terms, own)


def _of_terms(
    node: Node, index: int, terms: Sequence[Term], own: Sequence[int | Count | None]
) -> Sized | None:
    """Return the sizes that terms say; `own` has the sizes of an input that is spread to them."""
    sizes, found = list[int](), list[tuple[int, Tensor]]()
    missing = len(terms) - len(terms_of(node.tensor(index)) or ())
    for axis, (term, size) in enumerate(zip(terms, own, strict=True)):
        if isinstance(size, Count):
            if term.known != 1 and not node.bounds.is_size(term, size.number):
                return None
            sizes.append(node.shape()[size.axis])
            found.append((axis, size.number))
        elif term.known is not None:
            sizes.append(term.known if size in (None, 1) else int(size))
        elif size in (None, 1):
            make = functools.partial(one_of, node, index, axis - missing)
            most, count = node.bounds.size(node, axis, term, make)
            sizes.append(most)
            found.append((axis, count))
        else:
            return None
    kind = node.type(index)
    return Sized(index, np.array(sizes, kind.dtype), *found[0]) if len(found) == 1 else None


def viewed(node: Node) -> Sized | None:
    """Return the sizes of a Reshape of a padded tensor, whose padding stays at the end.

    The padded dimension may be joined with those behind it, or be parted again.
    """
    tensor, terms = node.tensor(0), terms_of(node.tensor(1)) if node.has(1) else None
    padding, shape = tensor.count, node.shape()
    if padding is None or terms is None or node.op_type != "Reshape":
        return None
    before = math.prod(shape[: padding.axis])
    behind = math.prod(shape[padding.axis + 1 :])
    is_zero_kept = not node.attribute("allowzero", 0)
    sizes = [term.known for term in terms]
    if is_zero_kept:
        sizes = [
            shape[k] if n == 0 and k < len(shape) and k != padding.axis else n
            for k, n in enumerate(sizes)
        ]
    for axis, size in enumerate(sizes):
        head, tail = sizes[:axis], [*sizes[axis + 1 :]]
        if -1 in tail and size != -1:  # the rest of a row
            others = math.prod(_ints(tail)) * -1
            tail[tail.index(-1)] = behind // others if others else 0
        if None in (*head, *tail) or -1 in (*head, *tail) or math.prod(_ints(head)) != before:
            continue
        rest = math.prod(_ints(tail))
        if not rest or behind % rest:
            continue
        factor = behind // rest
        count = scaled(padding.number, factor, 0, 1)
        is_kept = size == 0 and is_zero_kept and axis == padding.axis and factor == 1
        is_same = size is None and node.bounds.is_size(terms[axis], count)
        if is_kept or is_same or size == -1:
            whole = [*_ints(head), shape[padding.axis] * factor, *_ints(tail)]
            return Sized(1, np.array(whole, np.int64), axis, count)
    return None


def _ints(sizes: Sequence[int | None]) -> list[int]:
    return [size or 0 for size in sizes]


def counted(node: Node) -> Sized | None:
    """Return the size of a Range from 0 on, in steps of 1, whose end is not known."""
    start, step = node.known(0), node.known(2)
    end = node.tensor(1)
    if end.is_known or start is None or step is None or start.item() != 0 or step.item() != 1:
        return None
    whole = _whole(end)
    if whole is None:
        return None
    term = (terms_of(whole) or [number(0)])[0]

    def value() -> Expression:
        return dml.max(reshapes.as_type(reshapes.reshaped(whole.expression, (1,)), index_type()), 0)

    make = functools.partial(Tensor, node.outputs[0], COUNT, value)
    most, size = node.bounds.size(node, 0, term, make)
    return Sized(1, np.array(most, end.type.dtype), 0, size)


def _whole(tensor: Tensor) -> Tensor | None:
    """Return a number of whole ones: itself, or what it was cast of to a float."""
    if not tensor.type.is_floating:
        return tensor
    node = tensor.made_by
    if node is None or node.op_type != "Cast" or node.type().is_floating:
        return None
    found: Tensor = node.tensor(0)
    return found


def cut(tensor: Tensor, bounds: SizeBounds) -> None:
    """Give a padded output no more room than its bound, if it has one."""
    padding = tensor.count
    assert padding is not None
    bounds.decide(padding.number, tensor.name, padding.axis)
    key = bounds.named(tensor.name, padding.axis)
    if key is None or any(size is padding.number for size in bounds.met.get(key, ())):
        return
    bounds.meet(key, padding.number)
    most, shape = bounds.given[key], tensor.shape
    if most >= shape[padding.axis]:
        return
    sizes = tuple(most if k == padding.axis else n for k, n in enumerate(shape))
    tensor.replace(Type(tensor.type.element, sizes), reshapes.cut(tensor.expression, sizes))


def sizes_of(bounds: SizeBounds) -> Iterator[tuple[str, Tensor, Limit]]:
    """Yield the output 'NAME.size', which says the size of the bound NAME, and its limit."""
    for key, met in bounds.met.items():
        most = bounds.given[key]
        rule = f"be at most {most}, the bound that was given (a larger one holds it)"
        largest = Tensor(f"{key}.size", COUNT, functools.partial(_largest, met))
        yield largest.name, largest, Limit((), f"the size '{key}'", rule, 0, most)


def _largest(met: Sequence[Tensor]) -> Expression:
    return functools.reduce(dml.max, [reshapes.reshaped(n.expression, (1,)) for n in met])
