"""The operators, by family."""

from dml_jax.operators.arrangement import DepthToSpace1, Split, Tile
from dml_jax.operators.element_wise import ElementWiseClip
from dml_jax.operators.reduction import Reduce

__all__ = ["DepthToSpace1", "ElementWiseClip", "Reduce", "Split", "Tile"]
