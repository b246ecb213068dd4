"""A fold along axes: on one device in the form of its platform, across devices by agreement."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Axes, Parts, kept
from dml_jax.lowering.devices.along import Along, Layout, along
from dml_jax.lowering.devices.placement import by_platform
from dml_jax.lowering.folds import cpu, gpu
from dml_jax.lowering.folds.fold import Fold, shaped


def fold(x: jax.Array, kind: Fold, axes: Axes) -> Parts:
    """What is asked of what `kind` keeps of the elements along `axes`; these axes are dropped.

    It has no derivative of its own: what calls it has one.
    """
    return along(x, axes, Folded(kind))


@dataclass(frozen=True)
class Folded(Along):
    """What is asked of what `kind` keeps."""

    kind: Fold
    keeps = False

    def types(self, dtype: np.dtype) -> Sequence[np.dtype]:
        return self.kind.asked_types(dtype)

    def plain(self, x: jax.Array, axes: Axes) -> Parts:
        return self.kind.asked(self.kind.plain(x, axes))

    def unsharded(self, x: jax.Array, axes: Axes, platforms: Sequence[str]) -> Parts:
        kind = self.kind
        if all(x.shape[a] == 1 for a in axes):
            return kind.asked(shaped(kind.started(x, axes), kept(x.shape, axes)))
        if x.size == 0:
            return self.plain(x, axes)
        forms = {
            "cpu": lambda x: cpu.fold(kind, x, axes),
            "cuda": lambda x: gpu.fold(kind, x, axes),
        }

        def default(x: jax.Array) -> Parts:
            return kind.asked(kind.default(kind.started(x, axes), axes))

        return by_platform(platforms, forms, default)(x)

    def each(self, part: jax.Array, axes: Axes, layout: Layout) -> Parts:
        all_kept = Folded(replace(self.kind, result=None))
        parts = all_kept.unsharded(part, axes, layout.platforms)
        if self.kind.locates:
            *rest, index = parts
            parts = (*rest, _global(index, part.shape, axes, layout))
        return self.kind.asked(self.kind.across(parts, layout.over(axes)))


def _global(index: jax.Array, part: Sequence[int], axes: Axes, layout: Layout) -> jax.Array:
    """The index within the whole of an index within a device's part."""
    out, step, local_step = jnp.zeros_like(index), 1, 1
    as_type = index.dtype.type
    for a in sorted(axes, reverse=True):
        coordinate = index // as_type(local_step) % as_type(part[a])
        place = lax.axis_index(layout.names[a]).astype(index.dtype)
        out += (coordinate + place * as_type(part[a])) * as_type(step)
        step, local_step = step * layout.shape[a], local_step * part[a]
    return out
