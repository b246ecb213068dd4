"""An array beside how its elements are yet to be moved and repeated."""

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import jax
from jax import lax


@dataclass(frozen=True)
class Factor:
    """A part of an axis: an axis of the array behind it, or, where `axis` is None, repeats."""

    size: int
    axis: int | None


Axes = tuple[tuple[Factor, ...], ...]


@dataclass(frozen=True)
class Pending:
    """`array`, each axis of which becomes a factor of one of `axes`, outermost first.

    Neither has axes or factors of size 1. Where it is `given`, nothing of the program computes the
    array.
    """

    array: jax.Array
    axes: Axes
    given: bool

    @classmethod
    def of(cls, x: jax.Array, given: bool) -> "Pending":
        """An array as it is."""
        kept = [d for d, n in enumerate(x.shape) if n > 1]
        runs = [(Factor(n, kept.index(d)),) if n > 1 else () for d, n in enumerate(x.shape)]
        return cls(x.reshape([x.shape[d] for d in kept]), tuple(runs), given)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        return tuple(math.prod(factor.size for factor in run) for run in self.axes)

    @functools.cached_property
    def factors(self) -> tuple[Factor, ...]:
        """Of all axes."""
        return tuple(itertools.chain(*self.axes))

    @property
    def repeats(self) -> bool:
        """Whether elements are repeated."""
        return any(factor.axis is None for factor in self.factors)

    @property
    def is_number(self) -> bool:
        """Whether the array is one, which is arranged as anything is: it is repeated."""
        return self.array.ndim == 0

    @property
    def order(self) -> list[int]:
        """The array's axes as the result has them."""
        return [factor.axis for factor in self.factors if factor.axis is not None]

    @property
    def moves(self) -> bool:
        """Whether the array's axes are in another order."""
        return self.order != list(range(len(self.order)))

    @property
    def merges(self) -> bool:
        """Whether an axis of the result is several of the array, or repeats."""
        return any(len(run) > 1 for run in self.axes)

    def reshape(self, shape: Sequence[int]) -> "Pending | None":
        """None where the factors would have to be taken apart in another way than they can be."""
        left, axes = list(reversed(self.factors)), []
        for size in shape:
            run = []
            while size > 1:
                factor = left.pop()
                part = math.gcd(factor.size, size)
                if part not in (factor.size, size):
                    return None
                if part < factor.size:
                    left.append(Factor(factor.size // part, factor.axis))
                run.append(Factor(part, factor.axis))
                size //= part
            axes.append(run)
        return self._split(axes)

    def _split(self, runs: Sequence[Sequence[Factor]]) -> "Pending":
        """Several factors of an axis, in their order, are the axes that it becomes."""
        parts: list[list[int]] = [[] for _ in self.array.shape]
        for factor in itertools.chain(*runs):
            if factor.axis is not None:
                parts[factor.axis].append(factor.size)
        starts = itertools.accumulate(map(len, parts), initial=0)
        numbers = [itertools.count(start) for start in starts]

        def renumbered(factor: Factor) -> Factor:
            return Factor(factor.size, None if factor.axis is None else next(numbers[factor.axis]))

        array = self.array.reshape(list(itertools.chain(*parts)))
        return Pending(array, tuple(tuple(map(renumbered, run)) for run in runs), self.given)

    def transpose(self, permutation: Sequence[int]) -> "Pending":
        """Axis k of the result is axis `permutation[k]` of this."""
        return replace(self, axes=tuple(self.axes[axis] for axis in permutation))

    def broadcast_in_dim(self, shape: Sequence[int], axes: Sequence[int]) -> "Pending":
        """Axis k of this is axis `axes[k]` of the result."""
        runs: list[tuple[Factor, ...]] = [(Factor(n, None),) if n > 1 else () for n in shape]
        for run, axis in zip(self.axes, axes, strict=True):
            runs[axis] = run or runs[axis]
        return replace(self, axes=tuple(runs))

    def apart(self) -> jax.Array:
        """Arranged, with an axis for each factor."""
        x = self.array.transpose(self.order)
        if not self.repeats:
            return x
        kept = [i for i, factor in enumerate(self.factors) if factor.axis is not None]
        return lax.broadcast_in_dim(x, [factor.size for factor in self.factors], kept)

    @functools.cached_property
    def arranged(self) -> jax.Array:
        """The result."""
        return self.apart().reshape(self.shape)

    def flat(self) -> "Pending | jax.Array":
        """The result as one axis, of as few factors as there can be."""
        return self._split([self.factors]).simplest()

    def simplest(self) -> "Pending | jax.Array":
        """Neighbours that stay neighbours are one; an array, where nothing is to be arranged."""
        runs = [_joined(run) for run in self.axes]
        heads = sorted(j[0].axis for run in runs for j in run if j[0].axis is not None)

        def one(joined: Sequence[Factor]) -> Factor:
            axis = joined[0].axis
            size = math.prod(factor.size for factor in joined)
            return Factor(size, None if axis is None else heads.index(axis))

        axes = tuple(tuple(map(one, run)) for run in runs)
        sizes = {factor.axis: factor.size for run in axes for factor in run}
        x = Pending(self.array.reshape([sizes[i] for i in range(len(heads))]), axes, self.given)
        return x if x.moves or x.repeats or x.merges else x.array.reshape(x.shape)


def _joined(run: Iterable[Factor]) -> list[list[Factor]]:
    """The factors, those together that are neighbours in the array too."""
    joined: list[list[Factor]] = []
    for factor in run:
        if joined and _are_neighbours(joined[-1][-1], factor):
            joined[-1].append(factor)
        else:
            joined.append([factor])
    return joined


def _are_neighbours(outer: Factor, inner: Factor) -> bool:
    if outer.axis is None or inner.axis is None:
        return outer.axis == inner.axis
    return inner.axis == outer.axis + 1
