"""Rewrites of graphs: `matching` walks, matches and replaces nodes; the other modules are rewrites.

`DEFAULT` has those that `load_onnx` makes the program of a network by.
"""

from collections.abc import Sequence

from dml_jax.rewrite.cancelling import CASTS, IDENTITIES, TRANSPOSES
from dml_jax.rewrite.folding import BATCH_NORMALIZATIONS
from dml_jax.rewrite.matching import Found, Rewrite, rewritten
from dml_jax.rewrite.widening import PRODUCTS

DEFAULT: Sequence[Rewrite] = (IDENTITIES, TRANSPOSES, CASTS, BATCH_NORMALIZATIONS)

__all__ = [
    "BATCH_NORMALIZATIONS",
    "CASTS",
    "DEFAULT",
    "IDENTITIES",
    "PRODUCTS",
    "TRANSPOSES",
    "Found",
    "Rewrite",
    "rewritten",
]
