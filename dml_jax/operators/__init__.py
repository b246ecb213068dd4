"""The operators, by family."""

from dml_jax.operators.arrangement import (
    DepthToSpace,
    DepthToSpace1,
    Join,
    SpaceToDepth,
    SpaceToDepth1,
    Split,
    Tile,
)
from dml_jax.operators.element_wise import (
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    ElementWiseClipGrad1,
)
from dml_jax.operators.reduction import Argmax, Argmin, Reduce

__all__ = [
    "Argmax",
    "Argmin",
    "DepthToSpace",
    "DepthToSpace1",
    "ElementWiseClip",
    "ElementWiseClip1",
    "ElementWiseClipGrad",
    "ElementWiseClipGrad1",
    "Join",
    "Reduce",
    "SpaceToDepth",
    "SpaceToDepth1",
    "Split",
    "Tile",
]
