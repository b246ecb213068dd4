"""Rewrites of graphs: `matching` walks, matches and replaces nodes; the other modules are rewrites.

`DEFAULT` has those that `load_onnx` makes the program of a network by.
"""

from collections.abc import Sequence

from dml_jax.rewrite.attentions import ATTENTIONS
from dml_jax.rewrite.cancelling import CASTS, IDENTITIES, TRANSPOSES
from dml_jax.rewrite.folding import BATCH_NORMALIZATIONS
from dml_jax.rewrite.layouts import CHANNELS_LAST, ChannelsLast
from dml_jax.rewrite.matching import Found, GraphRewrite, Rewrite, rewritten
from dml_jax.rewrite.padding import PLACES
from dml_jax.rewrite.quantized import QUANTIZED
from dml_jax.rewrite.weights import MATRICES, RECURRENCES, ROWS
from dml_jax.rewrite.widening import PRODUCTS

DEFAULT: Sequence[Rewrite | GraphRewrite] = (
    IDENTITIES,
    TRANSPOSES,
    CASTS,
    BATCH_NORMALIZATIONS,
    PLACES,
    MATRICES,
    RECURRENCES,
    CHANNELS_LAST,
)

__all__ = [
    "ATTENTIONS",
    "BATCH_NORMALIZATIONS",
    "CASTS",
    "CHANNELS_LAST",
    "DEFAULT",
    "IDENTITIES",
    "MATRICES",
    "PLACES",
    "PRODUCTS",
    "QUANTIZED",
    "RECURRENCES",
    "ROWS",
    "TRANSPOSES",
    "ChannelsLast",
    "Found",
    "GraphRewrite",
    "Rewrite",
    "rewritten",
]
