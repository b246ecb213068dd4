"""Rewrites of graphs: `pattern` walks, matches and replaces nodes; the other modules are rewrites.

`DEFAULT` has those that `load_onnx` makes the program of a network by.
"""

from collections.abc import Sequence

from dml_jax.rewrite.cancelling_pairs import CASTS, IDENTITIES, TRANSPOSES
from dml_jax.rewrite.channels_last import CHANNELS_LAST, ChannelsLast
from dml_jax.rewrite.filters import BATCH_NORMALIZATIONS, PLACES
from dml_jax.rewrite.fused_attention import ATTENTIONS
from dml_jax.rewrite.pattern import Found, GraphRewrite, Rewrite, refusals, rewritten
from dml_jax.rewrite.quantized_products import QUANTIZED
from dml_jax.rewrite.weight_layouts import MATRICES, PRODUCTS, RECURRENCES, ROWS

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
    "refusals",
    "rewritten",
]
