"""Graphs: `parts` has nodes and edges, `wiring` checks them, `builder` builds them stepwise."""

from dml_jax.graph.builder import Expression, GraphBuilder, TensorPolicy
from dml_jax.graph.graph import Graph
from dml_jax.graph.parts import (
    ConstantNode,
    FunctionNode,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    Source,
)
from dml_jax.graph.parts_of_graph import cut

__all__ = [
    "ConstantNode",
    "Expression",
    "FunctionNode",
    "Graph",
    "GraphBuilder",
    "InputEdge",
    "IntermediateEdge",
    "OperatorNode",
    "OutputEdge",
    "Source",
    "TensorPolicy",
    "cut",
]
