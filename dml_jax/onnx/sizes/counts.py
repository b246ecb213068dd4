"""Counts of padded tensors: whether two are equal, and what follows from one."""

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import COUNT
from dml_jax.onnx.nodes.tensor import Count, Tensor
from dml_jax.onnx.sizes.symbolic_sizes import Terms, number, terms_of


def same_count(one: Count, other: Count) -> bool:
    """Return whether two tensors have as many elements along the dimensions that are padded."""
    return one.number is other.number or same_terms(terms_of(one.number), terms_of(other.number))


def same_padding(one: Count, other: Count) -> bool:
    """Return whether two tensors are padded along one dimension, with as many elements there."""
    return one.axis == other.axis and same_count(one, other)


def same_terms(one: Terms | None, other: Terms | None) -> bool:
    """Return whether two lists of sums are equal at all times."""
    if one is None or other is None:
        return False
    sums = [[(term.factors, term.rest) for term in terms] for terms in (one, other)]
    return sums[0] == sums[1]


def scaled(count: Tensor, factor: int, more: int, divisor: int) -> Tensor:
    """Return the count of what is made of counted elements: (count * factor + more) / divisor.

    It is rounded down, and at least 0.
    """
    if (factor, more, divisor) == (1, 0, 1):
        return count

    def value() -> Expression:
        x = count.expression * factor + more if factor != 1 else count.expression + more
        x = dml.max(x, 0)
        return x / divisor if divisor != 1 else x

    made = Tensor(f"{count.name} * {factor} + {more}", COUNT, value)
    terms, bounds = terms_of(count), count.bounds
    if bounds is not None:
        ends = [max(0, end * factor + more) // divisor for end in bounds]
        made.bounds = ends[0], ends[1]
    if terms is not None and divisor == 1:
        made.terms = [term.times(factor).plus(number(more)) for term in terms]
    return made
