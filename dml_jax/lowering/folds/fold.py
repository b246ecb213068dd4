"""What a reduction is, and how one goes run by run.

Neighbouring axes of one fate are one run: what is reduced is the columns of [k, n, c], or the rows
of [k, n].
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts, kept

if TYPE_CHECKING:
    from dml_jax.lowering.folds.packed import Packing

Combine = Callable[[Sequence[Parts]], Parts]
Stage = Callable[[Parts, Combine], Parts]

# Elements up to which the time to compile counts for more.
LITTLE = 2**15


@dataclass(frozen=True, eq=False)
class Fold:
    """A reduction, as what it keeps of the elements seen so far: arrays of one shape.

    Attributes:
        types: the types of what is kept, for an element type.
        identity: what is kept of no elements, for a type.
        start: what is kept of single elements.
        combine: what is kept of several, elementwise.
        reduce: XLA's own reductions over any axes, in a form that partitions well.
        one_pass: for CPU, where XLA's loops do well: over the last axis, and of little (of what
            rounds `reduce`).
        default: for other platforms, over any axes.
        across: what devices agree on, over the named mesh axes.
        result: what is asked for of what is kept, elementwise, and of the type of the last; None is
            all of it.
        row: on a GPU, the longest rows of which a thread reads one at once; 0 leaves axes that end
            in rows to `default`.
        ahead: into how many pieces, at most, a GPU cuts a long row, to combine them before they
            are reduced (of narrow elements nearly twice as many).
        pair: where one element is kept, XLA's own function that combines two.
        rounds: whether the order of what is combined changes a float.
        locates: whether the last thing kept is an index.
        first: `combine` for single elements, each behind the one before; None is the same.
        packing: how single elements go into one integer with their index.
        reads_twice: whether `one_pass` reads elements more than once, and to combine takes longer
            than to read.
        on_cpu: the fold that a CPU does instead, and from what that keeps to what this does.
        in_turn: how a CPU does columns of two kept things that do not go in one loop; None where
            one is kept.
        logarithm: whether it keeps the logarithm of a sum of exponentials, which are many
            instructions.
    """

    types: Callable[[np.dtype], Sequence[np.dtype]]
    identity: Callable[[np.dtype], Sequence[Any]]
    start: Callable[[jax.Array], Parts]
    combine: Callable[[Sequence[Parts]], Parts]
    reduce: Callable[[Parts, Axes], Parts]
    one_pass: Callable[[Parts, Axes], Parts]
    default: Callable[[Parts, Axes], Parts]
    across: Callable[[Parts, tuple[str, ...]], Parts]
    result: Callable[..., jax.Array] | None = None
    row: int = 0
    ahead: int = 1
    pair: Callable[[jax.Array, jax.Array], jax.Array] | None = None
    rounds: bool = False
    locates: bool = False
    first: Callable[[Sequence[Parts]], Parts] | None = None
    packing: "Packing | None" = None
    reads_twice: bool = False
    on_cpu: "tuple[Fold, Callable[..., Parts]] | None" = None
    in_turn: "InTurn | None" = None
    logarithm: bool = False

    def asked(self, parts: Parts) -> Parts:
        """What is asked for of these."""
        return (self.result(*parts),) if self.result else parts

    def asked_types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        """Those of what is asked for, for an element type."""
        return self.types(dtype)[-1:] if self.result else self.types(dtype)

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        """All that is kept, in the form that XLA partitions well."""
        return self.reduce(self.started(x, axes), axes)

    def started(self, x: jax.Array, axes: Axes) -> Parts:
        """What is kept of single elements, located within the axes."""
        return self.located(self.start(x), axes)

    def is_started(self, parts: Parts) -> bool:
        """Whether these are parts; else they are elements, (x,)."""
        return [part.dtype for part in parts] == list(self.types(parts[0].dtype))

    def located(self, parts: Parts, axes: Axes, step: int = 1) -> Parts:
        """With `step` times the row-major index within the axes added to the index."""
        if not self.locates:
            return parts
        *rest, index = parts
        for a in sorted(axes, reverse=True):
            index += lax.broadcasted_iota(index.dtype, index.shape, a) * index.dtype.type(step)
            step *= index.shape[a]
        return (*rest, index)


@dataclass(frozen=True, eq=False)
class InTurn:
    """Two things kept one after the other.

    Attributes:
        first: the fold of the first of them.
        beside: what elements become, given that, which `second` folds.
        second: the fold of these.
    """

    first: Fold
    beside: Callable[[jax.Array, jax.Array], jax.Array]
    second: Fold


def run_by_run(
    kind: Fold,
    parts: Parts,
    axes: Axes,
    columns: Stage,
    rows: Stage,
    between: Callable[[Parts], Parts] = tuple,
) -> Parts:
    """Reduces one run of axes after the other, the last first.

    Args:
        kind: the reduction.
        parts: what is reduced; or the elements, (x,), which the first stage starts.
        axes: over these.
        columns: of [k, n, c] to as many as [k, c].
        rows: of [k, n, 1] to as many as [k].
        between: what the next stage takes of what one leaves, where there is one.
    """
    shape = parts[0].shape
    runs = runs_of(shape, axes)
    sizes = [n for n, _ in runs]
    step, combine = 1, kind.first or kind.combine
    reduced = [k for k, (_, is_reduced) in enumerate(runs) if is_reduced]
    for k in reversed(reduced):
        parts = parts if k == reduced[-1] else between(parts)
        inner = math.prod(sizes[k + 1 :])
        parts = shaped(parts, (math.prod(sizes[:k]), sizes[k], inner))
        if kind.is_started(parts):
            parts = kind.located(parts, [1], step)
        parts = (rows if inner == 1 else columns)(parts, combine)
        step, combine = step * sizes[k], kind.combine
        del sizes[k]
    return shaped(parts, kept(shape, axes))


def ends_in_rows(shape: Sequence[int], axes: Axes) -> bool:
    """Whether the last run has neighbours in memory: what `run_by_run` begins with."""
    return last_run(shape, axes)[1] == 1


def at_once(axes: Axes) -> Callable[[Fold, Parts, Combine], Parts]:
    """What does all of the elements, (x,), in one pass."""
    return lambda kind, parts, _: kind.one_pass(kind.started(parts[0], axes), axes)


def taken(parts: Parts, start: int, stop: int, axis: int = 1) -> Parts:
    """Some of the parts."""
    return tuple(lax.slice_in_dim(part, start, stop, axis=axis) for part in parts)


def joined(pieces: Iterable[Parts], axis: int) -> Parts:
    """The parts of each, one behind the other."""
    return tuple(lax.concatenate(same, axis) for same in zip(*pieces, strict=True))


def piece(kind: Fold, parts: Parts, start: int, stop: int) -> Parts:
    """Some of the parts; of elements, (x,), what is kept of them.

    Made of each piece, not cut from the whole: XLA would compute and store that.
    """
    parts = taken(parts, start, stop)
    return parts if kind.is_started(parts) else moved(kind, as_started(kind, parts), start)


def as_started(kind: Fold, parts: Parts) -> Parts:
    """The parts; of elements, (x,), what is kept of them, located within axis 1."""
    return parts if kind.is_started(parts) else kind.started(parts[0], [1])


def moved(kind: Fold, parts: Parts, start: int) -> Parts:
    """With `start` added to the index."""
    if not kind.locates:
        return parts
    *rest, index = parts
    return (*rest, index + index.dtype.type(start))


def by_pairs(
    combine: Combine, identity: Callable[[np.dtype], Sequence[Any]], parts: Parts, axes: Axes
) -> Parts:
    """XLA's own reduction, of all that is kept together."""
    return lax.reduce(parts, identity(parts[0].dtype), lambda a, b: combine([a, b]), axes)


def shaped(parts: Parts, shape: Sequence[int]) -> Parts:
    """The parts, reshaped."""
    return tuple(part.reshape(shape) for part in parts)


def runs_of(shape: Sequence[int], axes: Axes) -> list[tuple[int, bool]]:
    """Neighbouring axes of one fate as one: their size, and whether they are reduced.

    Axes of one element are in none.
    """
    fates = [(n, a in axes) for a, n in enumerate(shape) if n > 1]
    runs = itertools.groupby(fates, lambda fate: fate[1])
    return [(math.prod(n for n, _ in run), reduced) for reduced, run in runs]


def last_run(shape: Sequence[int], axes: Axes) -> tuple[int, int]:
    """The elements of the last run that is reduced, and how many are behind each; else (1, 1)."""
    behind = 1
    for n, reduced in reversed(runs_of(shape, axes)):
        if reduced:
            return n, behind
        behind *= n
    return 1, 1
