"""Axes that are reduced, and the shapes of what is left."""

from collections.abc import Sequence
from typing import TypeVar

import jax
from jax import lax

Axes = Sequence[int]
Parts = tuple[jax.Array, ...]
"""What is kept of the elements along axes: arrays of one shape."""

T = TypeVar("T")


def reduced_shape(shape: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """The shape of what is reduced along axes, which become 1."""
    return tuple(1 if a in axes else n for a, n in enumerate(shape))


def ranks(axes: Sequence[int]) -> list[int]:
    """Of distinct axes, the place of each among the sorted ones."""
    places = {axis: place for place, axis in enumerate(sorted(axes))}
    return [places[axis] for axis in axes]


def restored(x: jax.Array, axes: Axes) -> jax.Array:
    """With the axes that were reduced, as 1."""
    return lax.expand_dims(x, sorted(axes))


def kept(values: Sequence[T], axes: Axes) -> list[T]:
    """Those of the axes that are not reduced."""
    return [value for a, value in enumerate(values) if a not in axes]
