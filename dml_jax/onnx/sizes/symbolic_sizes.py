"""Integers as sums: what is known at load of starts, ends and counts that come at run time.

The counter of a loop, and what is added to it, differ by a number that is known. So a slice
between both has a size that is known. Each op type's record names its rule (`SizeRules.elements`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import Bounds
from dml_jax.onnx.nodes.tensor import Tensor

# Lists of sizes and indices are short; sums of the elements of data would cost, and be useless.
_MOST = 64
_EXACT = (TensorProto.INT32, TensorProto.INT64)


class Term(NamedTuple):
    """A number that is a sum of other numbers.

    Attributes:
        factors: how often each number is in the sum, by the identity of its tensor and its place.
        rest: what is added.
        bounds: the least and the largest value; None where they are not known.
    """

    factors: Mapping[tuple[int, int], int]
    rest: int
    bounds: Bounds | None

    def plus(self, other: "Term", sign: int = 1) -> "Term":
        """Return the sum of both, or the difference where `sign` is -1."""
        added = other.times(sign)
        keys = {*self.factors, *added.factors}
        factors = {k: self.factors.get(k, 0) + added.factors.get(k, 0) for k in keys}
        a, b = self.bounds, added.bounds
        bounds = (a[0] + b[0], a[1] + b[1]) if a and b else None
        factors = {k: n for k, n in factors.items() if n}
        rest = self.rest + added.rest
        return Term(factors, rest, (rest, rest) if not factors else bounds)

    def times(self, factor: int) -> "Term":
        """Return the number `factor` times."""
        ends = sorted(end * factor for end in self.bounds or ())
        bounds = (ends[0], ends[1]) if ends else None
        factors = {k: n * factor for k, n in self.factors.items() if factor}
        return Term(factors, self.rest * factor, bounds)

    @property
    def known(self) -> int | None:
        """Return the number, None where it is not known at load."""
        return None if self.factors else self.rest


Terms = list[Term]
Rule = Callable[[Node], Terms | None]


def number(value: int) -> Term:
    """Return a number that is known."""
    return Term({}, value, (value, value))


def terms_of(tensor: Tensor) -> Terms | None:
    """Return the elements of a tensor of integers as sums; None where there are too many."""
    if tensor.type.element_count > _MOST or tensor.type.is_floating:
        return None
    if tensor.is_known:
        return [number(int(n)) for n in tensor.array.reshape(-1)]
    if tensor.terms is None:
        tensor.terms = _terms_of(tensor)
    return tensor.terms


def _terms_of(tensor: Tensor) -> Terms:
    node = tensor.made_by
    rule = None if node is None else node.record.sizes.elements
    found = rule and rule(node)
    if found is not None:
        return found
    places = range(tensor.type.element_count)
    return [Term({(id(tensor.value), k): 1}, 0, tensor.bounds) for k in places]


def same_terms(one: Terms | None, other: Terms | None) -> bool:
    """Return whether two lists of sums are equal at all times."""
    if one is None or other is None:
        return False
    sums = [[(term.factors, term.rest) for term in terms] for terms in (one, other)]
    return sums[0] == sums[1]


def same(node: Node) -> Terms | None:
    """Return the elements of the first input."""
    return terms_of(node.tensor(0))


def cast(node: Node) -> Terms | None:
    """Return the elements of the first input, which are as they are in a type of their size."""
    is_exact = not node.type().is_floating and node.result_type().element in _EXACT
    return same(node) if is_exact else None


def concat(node: Node) -> Terms | None:
    """Return the elements of all inputs, which have one dimension."""
    parts = [terms_of(t) for t in node.inputs if t is not None and len(t.shape) == 1]
    if len(parts) < len(node.inputs):
        return None
    return None if None in parts else [term for part in parts for term in part or ()]


def shape(node: Node) -> Terms | None:
    """Return the sizes of the first input, of which its count may be one."""
    padding, terms = node.tensor(0).count, [number(n) for n in node.shape()]
    if padding is not None:
        count = terms_of(padding.number)
        if count is None:
            return None
        terms[padding.axis] = count[0]
    return terms[node.attribute("start", 0) : node.attribute("end")]


def gather(node: Node) -> Terms | None:
    """Return elements of a list at places that are known."""
    terms, places = terms_of(node.tensor(0)), node.known(1)
    if terms is None or places is None or node.rank() != 1:
        return None
    return [terms[int(place)] for place in places.reshape(-1)]


def slice_between(node: Node) -> Terms | None:
    """Return elements of a list between places that are known."""
    terms = same(node)
    given = [node.known(k) if node.has(k) else None for k in (1, 2, 4)]
    is_given = given[0] is not None and given[1] is not None
    if terms is None or node.rank() != 1 or node.version < 10 or not is_given:
        return None
    places = [None if array is None else int(array.reshape(-1)[0]) for array in given]
    return terms[slice(*places)] if given[2] is not None or not node.has(4) else None


def constant(node: Node) -> Terms | None:
    """Return a list of one integer, whose length is known."""
    length, value = node.known(0), node.attribute("value")
    if length is None or length.size != 1 or value is None or value.dtype.kind not in "iu":
        return None
    return [number(int(value.reshape(-1)[0]))] * min(int(length.reshape(-1)[0]), _MOST + 1)


def equal(node: Node) -> Terms | None:
    """Return 1 where two integers are equal, 0 where they never are; None where data decides."""
    found = [_is_equal(*pair) for pair in _pairs(node, (0, 1)) or ()]
    return None if None in found or not found else [number(int(bool(x))) for x in found]


def _pairs(node: Node, indices: tuple[int, int], size: int = 1) -> list[tuple[Term, Term]] | None:
    """Return the pairs of elements of two lists or numbers; None where there are none."""
    one, other = (terms_of(node.tensor(k)) for k in indices)
    if not one or not other or max(len(t.shape) for t in node.inputs if t) > 1:
        return None
    size = max(size, len(one), len(other))
    one, other = (terms * size if len(terms) == 1 else terms for terms in (one, other))
    return [*zip(one, other, strict=True)] if len(one) == len(other) else None


def _is_equal(one: Term, other: Term) -> bool | None:
    difference = one.plus(other, -1)
    if difference.known is not None:
        return difference.known == 0
    bounds = difference.bounds
    return False if bounds and (bounds[0] > 0 or bounds[1] < 0) else None


def chosen(node: Node) -> Terms | None:
    """Return elements of the second or third input, as a condition that is known says."""
    condition = node.known(0)
    pairs = None if condition is None else _pairs(node, (1, 2), condition.size)
    if condition is None or pairs is None:
        return None
    flags = np.broadcast_to(condition.reshape(-1), (len(pairs),))
    return [a if flag else b for flag, (a, b) in zip(flags, pairs, strict=True)]


def negative(node: Node) -> Terms | None:
    """Return the negative of the first input."""
    return _each(same(node), lambda term: term.times(-1))


def product(node: Node) -> Terms | None:
    """Return the product of the first two inputs, of which one is known."""
    for number, other in ((0, 1), (1, 0)):
        factor = node.known(number)
        if factor is not None and factor.size == 1:
            times = int(factor.reshape(-1)[0])
            return _each(terms_of(node.tensor(other)), lambda term, n=times: term.times(n))
    return None


def sums(sign: int) -> Rule:
    """Return the rule of the sum of two inputs, or of their difference where `sign` is -1."""

    def of_both(node: Node) -> Terms | None:
        pairs = _pairs(node, (0, 1))
        return None if pairs is None else [a.plus(b, sign) for a, b in pairs]

    return of_both


def _each(terms: Sequence[Term] | None, function: Callable[[Term], Term]) -> Terms | None:
    return None if terms is None else [function(term) for term in terms]
