"""Sizes that follow from data: whether a program carries them, and how large each one may be.

Within one program such a size is a count that has a largest value (`Bounded`): the output is padded
to it (`dml_jax.onnx.sizes.padding_rules`). The largest value follows from sizes that are known, as
for the places of NonZero, or `load_onnx(bounds=...)` says it. A session has a program for the sizes
of each call, and a graph within a node has no outputs of its own that a caller reads: both refuse a
node of such a size (`Cut`).
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from dml_jax import functional as dml
from dml_jax.errors import DmlError, Fault, Unquoted, nearest, raise_if
from dml_jax.graph import Expression
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.nodes import reshapes
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.number_limits import Limit
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.sizes.symbolic_sizes import Term, same_terms, terms_of

# An integer of 32 bits has a largest value by its type alone. A tensor of this many elements would
# fill the memory, so that only less than it bounds a size; a caller's bound may be more.
_LARGEST = 1 << 26
_LISTED = 8  # names of sizes in a message


@dataclass(frozen=True)
class UnknownSize:
    """A size of a node's first output that comes while the program runs.

    Attributes:
        node: the node.
        axis: the dimension of the output.
        term: the size as a sum, which may be negative: then the size is 0.
        value: makes the expression of the size.
    """

    node: Node
    axis: int
    term: Term
    value: Callable[[], Expression]

    def refusal(self) -> DmlError:
        """Return the error that nothing bounds the size."""
        name = self.node.proto.output[0]
        rule = "be known at load or to have a bound "
        rule += f"(load_onnx(..., bounds={{'{name}': ...}}) or --bounds {name}=SIZE)"
        where, value = f"the size of the output '{name}'", Unquoted("a computed size")
        return self.node.refusal(where, rule, value)


class Cut:
    """Ends a program before each node that would carry such a size."""

    def carries(self, node: Node) -> bool:
        """Return False: the next program knows the sizes."""
        return False

    def most(self, size: UnknownSize) -> int:
        """Raise `DmlError`: no size has a bound."""
        raise size.refusal()

    def shrink_to_bound(self, tensor: Tensor) -> None:
        """Leave a padded tensor as it is."""


class Bounded:
    """Carries such sizes to the end of the network, each with a largest value.

    Args:
        given: the bounds by name: of the tensor whose size it is, of its dimension in the file, of
            the tensor that says the size, or any other name for a size that has none of these.
        graph: the graph of the file.

    Attributes:
        met: the sizes that each bound was needed for, by its name.

    Raises `DmlError` for a bound below 1.
    """

    def __init__(self, given: Mapping[str, int], graph: onnx.GraphProto):
        raise_if(
            Fault("", f"bounds['{name}']", "be a size of at least 1", most)
            for name, most in given.items()
            if not isinstance(most, (int, np.integer)) or most < 1
        )
        self.given, self.met = {k: int(n) for k, n in given.items()}, dict[str, list[Tensor]]()
        self._dims = {
            v.name: [d.dim_param for d in v.type.tensor_type.shape.dim]
            for v in (*graph.value_info, *graph.output)
        }
        self._tensors = {name for node in graph.node for name in node.output}
        self._names = dict[int, str]()  # of each size that data decides, by its tensor's identity
        self._largest: dict[tuple[int, int], int] = {}  # values of the numbers in sums
        self._sizes: dict[Any, Tensor] = {}  # by the sum that each one is

    def carries(self, node: Node) -> bool:
        """Return True: what has no largest value is refused where it is asked for."""
        return True

    def most(self, size: UnknownSize) -> int:
        """Return the largest value of a size. Raises `DmlError` where nothing bounds it."""
        bounds = self.number(size).bounds
        assert bounds is not None
        return bounds[1]

    def number(self, size: UnknownSize) -> Tensor:
        """Return a size as a tensor, one for all sizes that are the same sum.

        Raises `DmlError` where nothing bounds it.
        """
        key = _key(size.term)
        if key not in self._sizes:
            self._sizes[key] = self._bounded(size)
        return self._sizes[key]

    def is_size(self, term: Term, number: Tensor) -> bool:
        """Return whether a sum is a count at all times."""
        return self._sizes.get(_key(term)) is number or same_terms([term], terms_of(number))

    def upper(self, term: Term) -> int | None:
        """Return the largest value of a sum, as far as it follows from sizes that have a bound."""
        found = [term.bounds[1]] if term.bounds and term.bounds[1] <= _LARGEST else []
        numbers = [(self._largest.get(key), n) for key, n in term.factors.items()]
        if all(most is not None for most, _ in numbers):
            found.append(term.rest + sum(n * most for most, n in numbers if most and n > 0))
        return min(found) if found else None

    def _bounded(self, size: UnknownSize) -> Tensor:
        term, name = size.term, size.node.proto.output[0]
        upper, bound = self.upper(term), self._bound_of(name, size.axis)
        bound = bound or next((n for n in size.node.proto.input if n in self.given), None)
        free = self.given.keys() - self._tensors - self.met.keys()
        if bound is None and upper is None and len(free) == 1:
            (bound,) = free
        if bound is not None:
            upper = self.given[bound] if upper is None else min(upper, self.given[bound])
        if upper is None:
            raise size.refusal()
        if len(term.factors) == 1:
            ((key, factor),) = term.factors.items()
            if factor > 0:
                self._largest.setdefault(key, (upper - term.rest) // factor)
        most, least = max(upper, 0), term.bounds[0] if term.bounds else -1
        terms = [term._replace(bounds=(least, most))] if least >= 0 else None
        number = Tensor(name, COUNT, size.value, bounds=(0, most), terms=terms)
        self._note(number, name, size.axis, bound)
        return number

    def _bound_of(self, name: str, axis: int) -> str | None:
        """Return the name of the bound of dimension `axis` of a tensor; None where it has none."""
        dims = self._dims.get(name, ())
        found = [name, *([dims[axis]] if axis < len(dims) else [])]
        return next((key for key in found if key in self.given), None)

    def _note(self, number: Tensor, name: str, axis: int, bound: str | None) -> None:
        """Note a size, dimension `axis` of the tensor `name`, and the name of its bound."""
        dims = self._dims.get(name, ())
        self._names.setdefault(id(number), (axis < len(dims) and dims[axis]) or name)
        if bound is not None:
            self.met.setdefault(bound, []).append(number)

    def shrink_to_bound(self, tensor: Tensor) -> None:
        """Give a padded tensor no more room than its bound, if it has one."""
        count = tensor.count
        assert count is not None
        bound = self._bound_of(tensor.name, count.axis)
        is_met = any(size is count.number for size in self.met.get(bound or "", ()))
        self._note(count.number, tensor.name, count.axis, None if is_met else bound)
        if bound is None or is_met or self.given[bound] >= tensor.shape[count.axis]:
            return
        sizes = [*tensor.shape]
        sizes[count.axis] = self.given[bound]
        kind = Type(tensor.type.element, tuple(sizes))
        tensor.replace(kind, reshapes.cut(tensor.expression, sizes))

    def faults(self) -> list[Fault]:
        """Return the faults of bounds that no size needed."""
        known = [*dict.fromkeys(self._names.values())]
        shown = [*known[:_LISTED], *["..."] * (len(known) > _LISTED)]
        listed = f" ({', '.join(shown) or 'there is none'})"
        rule = "name a size that data decides"
        return [
            Fault("", "bounds", rule + (nearest(name, known) or listed), name)
            for name in self.given.keys() - self.met.keys()
        ]

    def limits(self) -> Iterator[tuple[str, Tensor, Limit]]:
        """Yield the output 'NAME.size', which says the size of the bound NAME, and its limit."""
        for bound, numbers in self.met.items():
            most = self.given[bound]
            rule = f"be at most {most}, the bound that was given (a larger one holds it)"
            largest = Tensor(f"{bound}.size", COUNT, functools.partial(_largest, numbers))
            yield largest.name, largest, Limit((), f"the size '{bound}'", rule, 0, most)


SizePolicy = Bounded | Cut
"""Decides what becomes of sizes that data decides."""


def _key(term: Term) -> Any:
    return frozenset(term.factors.items()), term.rest


def _largest(numbers: Sequence[Tensor]) -> Expression:
    return functools.reduce(dml.max, [reshapes.reshape(n.expression, (1,)) for n in numbers])
