"""Arrays by name as the edges of a graph carry them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import Graph, Source
from dml_jax.graph.bfloat16 import held
from dml_jax.graph.parts import Edge


def inner(array: Any, edge: Edge) -> jax.Array:
    """Return an array as an edge carries it."""
    if isinstance(edge, TensorDesc):
        return held(array, edge).reshape(edge.sizes)
    return jnp.asarray(array).astype(edge.dtype).reshape(edge.sizes)


def sources_of(graph: Graph, values: Mapping[str, Any]) -> dict[Source, Any]:
    """Return the inputs of a graph that `values` has by name, as its edges carry them."""
    points = graph.named_inputs
    return {source: inner(values[name], edge) for source, name, edge in points if name in values}
