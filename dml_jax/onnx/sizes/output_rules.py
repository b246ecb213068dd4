"""Largest sizes of outputs whose sizes come while the program runs: Range, Expand, Reshape, ...

Each op type's record names its rule (`SizeRules.output`), which a policy that carries such sizes
allows (`dml_jax.onnx.sizes.bounds`). A rule returns None where the sizes are known, or where more
than one of them is not.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import index_type
from dml_jax.onnx.nodes import reshapes
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.tensor import Count, Tensor
from dml_jax.onnx.sizes.bounds import UnknownSize
from dml_jax.onnx.sizes.counts import linear_count
from dml_jax.onnx.sizes.symbolic_sizes import Term, number, terms_of


@dataclass(frozen=True)
class LargestSizes:
    """The sizes of a node's output, of which one is the largest that it may be.

    Attributes:
        index: the input that decides the sizes, of which `array` takes the place.
        array: the elements that stand for it.
        axis: the dimension of the output that is padded.
        number: how many elements along it are there.
    """

    index: int
    array: np.ndarray
    axis: int
    number: Tensor


def _size_of(x: Expression) -> Expression:
    """Return a number of one element as a size: of INT64, or of INT32 without x64; at least 0."""
    return dml.max(reshapes.as_type(reshapes.reshape(x, (1,)), index_type()), 0)


def constant_rule(node: Node) -> LargestSizes | None:
    """Return the sizes of a ConstantOfShape, of which one is not known."""
    terms = terms_of(node.tensor(0))
    if terms is None or all(term.known is not None for term in terms):
        return None
    return _of_terms(node, 0, terms, [None] * len(terms))


def expand_rule(node: Node) -> LargestSizes | None:
    """Return the sizes of an Expand, of which one is not known, or is that of its input."""
    terms, shape, count = terms_of(node.tensor(1)), node.shape(), node.tensor(0).count
    if terms is None or (count is None and all(term.known is not None for term in terms)):
        return None
    rank = max(len(terms), len(shape))
    terms = [number(1)] * (rank - len(terms)) + terms
    own: list[int | Count | None] = [*[1] * (rank - len(shape)), *shape]
    if count is not None:
        own[count.axis + rank - len(shape)] = count
    return _of_terms(node, 1, terms, own)


def _of_terms(
    node: Node, index: int, terms: Sequence[Term], own: Sequence[int | Count | None]
) -> LargestSizes | None:
    """Return the sizes that terms say; `own` has the sizes of an input that is spread to them."""
    sizes, found = list[int](), list[tuple[int, Tensor]]()
    missing = len(terms) - len(terms_of(node.tensor(index)) or ())

    def element(place: int) -> Callable[[], Expression]:
        # Read at once: a constant of the largest sizes takes the tensor's place among the inputs.
        tensor = node.tensor(index)

        def value() -> Expression:
            x = tensor.expression
            return _size_of(x if x.sizes == (1,) else dml.slice(x, (place,), (1,), (1,)))

        return value

    for axis, (term, size) in enumerate(zip(terms, own, strict=True)):
        if isinstance(size, Count):
            if term.known != 1 and not node.policy.is_size(term, size.number):
                return None
            sizes.append(node.shape()[size.axis])
            found.append((axis, size.number))
        elif term.known is not None:
            sizes.append(term.known if size in (None, 1) else int(size))
        elif size in (None, 1):
            unknown = UnknownSize(node, axis, term, element(axis - missing))
            sizes.append(node.policy.most(unknown))
            found.append((axis, node.policy.number(unknown)))
        else:
            return None
    kind = node.type(index)
    return LargestSizes(index, np.array(sizes, kind.dtype), *found[0]) if len(found) == 1 else None


def reshape_rule(node: Node) -> LargestSizes | None:
    """Return the sizes of a Reshape of a padded tensor, whose padding stays at the end.

    The padded dimension may be joined with those behind it, or be parted again.
    """
    tensor, terms = node.tensor(0), terms_of(node.tensor(1)) if node.has(1) else None
    count, shape = tensor.count, node.shape()
    if count is None or terms is None or node.op_type != "Reshape":
        return None
    before = math.prod(shape[: count.axis])
    behind = math.prod(shape[count.axis + 1 :])
    is_zero_kept = not node.attribute("allowzero", 0)
    sizes = [term.known for term in terms]
    if is_zero_kept:
        sizes = [
            shape[k] if n == 0 and k < len(shape) and k != count.axis else n
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
        scaled_number = linear_count(count.number, factor, 0, 1)
        is_kept = size == 0 and is_zero_kept and axis == count.axis and factor == 1
        is_same = size is None and node.policy.is_size(terms[axis], scaled_number)
        if is_kept or is_same or size == -1:
            whole = [*_ints(head), shape[count.axis] * factor, *_ints(tail)]
            return LargestSizes(1, np.array(whole, np.int64), axis, scaled_number)
    return None


def _ints(sizes: Sequence[int | None]) -> list[int]:
    return [size or 0 for size in sizes]


def range_rule(node: Node) -> LargestSizes | None:
    """Return the size of a Range from 0 on, in steps of 1, whose end is not known."""
    start, step = node.known(0), node.known(2)
    end = node.tensor(1)
    if end.is_known or start is None or step is None or start.item() != 0 or step.item() != 1:
        return None
    integer = _integer(end)
    if integer is None:
        return None
    term = (terms_of(integer) or [number(0)])[0]
    size = UnknownSize(node, 0, term, lambda: _size_of(integer.expression))
    return LargestSizes(
        1, np.array(node.policy.most(size), end.type.dtype), 0, node.policy.number(size)
    )


def _integer(tensor: Tensor) -> Tensor | None:
    """Return a number as an integer: itself, or the integer that a Cast makes a float of."""
    if not tensor.type.is_floating:
        return tensor
    node = tensor.made_by
    if node is None or node.op_type != "Cast" or node.type().is_floating:
        return None
    return node.tensor(0)
