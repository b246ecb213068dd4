"""The folds of ARGMAX and ARGMIN: an extreme element, and its index."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts, restored
from dml_jax.lowering.elementwise import where
from dml_jax.lowering.folds.extreme import COMPARED, MAX, MIN, extreme_across, extreme_over, lowest
from dml_jax.lowering.folds.fold import Fold, by_pairs
from dml_jax.lowering.folds.one_value import pairwise
from dml_jax.lowering.folds.packed import Packing
from dml_jax.lowering.wide import is_float


@functools.cache
def arg_fold(
    largest: bool, last: bool, index_type: np.dtype, on_cpu: np.dtype | None = None
) -> Fold:
    """(extreme element, its index), of which the index is asked for; of another type on a CPU.

    Elements compare by value and, where that is equal, by index: the answer is the same in whatever
    order a backend combines.
    """
    over = lax.reduce_max if last else lax.reduce_min
    across = lax.pmax if last else lax.pmin
    none = index_type.type(0 if last else np.iinfo(index_type).max)

    def same(x: jax.Array, value: jax.Array) -> jax.Array:
        """Whether x is the extreme, which is NaN where one is."""
        return (x == value) | (x != x) if is_float(x) else x == value

    def found(x: jax.Array, value: jax.Array, index: jax.Array) -> jax.Array:
        """The index where x is that value, else one that any other beats."""
        return where(same(x, value), index, none)

    def pair(a: Parts, b: Parts) -> Parts:
        wins_ties = a[1] > b[1] if last else a[1] < b[1]
        if largest:  # `beats` is true where either is NaN, `beaten` false: fewer instructions
            beats, beaten = ~(a[0] <= b[0]), a[0] < b[0]
        else:
            beats, beaten = ~(a[0] >= b[0]), a[0] > b[0]
        if not is_float(a[0]):
            first = lax.select(wins_ties, ~beaten, beats)
        else:
            a_nan, b_number = a[0] != a[0], b[0] == b[0]
            first = lax.select(wins_ties, (~beaten & b_number) | a_nan, beats & b_number)
        return lax.select(first, a[0], b[0]), lax.select(first, a[1], b[1])

    def pair_in_order(a: Parts, b: Parts) -> Parts:
        kept, other = (b, a) if last else (a, b)
        if is_float(a[0]):
            beaten = ~(other[0] <= kept[0] if largest else other[0] >= kept[0])
            beaten &= kept[0] == kept[0]
        else:
            beaten = other[0] > kept[0] if largest else other[0] < kept[0]
        return lax.select(beaten, other[0], kept[0]), lax.select(beaten, other[1], kept[1])

    combine = functools.partial(pairwise, pair)

    def reduce(parts: Parts, axes: Axes) -> Parts:
        x, index = parts
        value = extreme_over(x, axes, largest)
        return value, over(found(x, restored(value, axes), index), axes)

    def two_passes(parts: Parts, axes: Axes) -> Parts:
        x, index = parts
        (value,) = (MAX if largest else MIN).one_pass((x,), axes)
        places = found(x, restored(value, axes), index)
        # Of two values, so that XLA makes the places as it reduces, and does not store them.
        nearest, any_ = lax.reduce(
            (places, places != none),
            (none, np.False_),
            lambda a, b: ((lax.max if last else lax.min)(a[0], b[0]), a[1] | b[1]),
            axes,
        )
        return value, where(any_, nearest, none)

    def identity(dtype: np.dtype) -> Sequence[Any]:
        return lowest(dtype, largest), none

    def converted(value: jax.Array, index: jax.Array) -> Parts:
        return value, lax.convert_element_type(index, index_type)

    def agreed(parts: Parts, names: tuple[str, ...]) -> Parts:
        value = extreme_across(parts[0], names, largest)
        return value, across(found(parts[0], value, parts[1]), names)

    return Fold(
        types=lambda dtype: (dtype, index_type),
        identity=identity,
        start=lambda x: (x, lax.full_like(x, 0, index_type)),
        combine=combine,
        first=functools.partial(pairwise, pair_in_order),
        reduce=reduce,
        one_pass=two_passes,
        default=functools.partial(by_pairs, combine, identity),
        across=agreed,
        result=lambda value, index: index,
        row=24,
        locates=True,
        packing=Packing(COMPARED[last], largest, last, index_type),
        reads_twice=True,
        on_cpu=(arg_fold(largest, last, on_cpu), converted) if on_cpu else None,
    )
