"""Arrays of a network: as ONNX has them outside, and as edges of its graph carry them inside.

Inside, a scalar has the sizes [1], BOOL is UINT8, and 64-bit integers have 32 bits while 64-bit
types are off in JAX. bfloat16 may stand for FLOAT on both sides.
"""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import DmlError, Fault
from dml_jax.graph import Graph
from dml_jax.graph.bfloat16 import BFLOAT16, is_narrow
from dml_jax.graph.graph import inner, sources_of
from dml_jax.graph.parts import ArrayType, Edge
from dml_jax.onnx.files.types import COUNT, Type

Function = Callable[[Sequence[Graph], Sequence[Any]], Sequence[Any]]
"""Takes graphs that it runs and arrays, None for one that is left out; returns arrays."""


def edge_of(kind: Type, beyond: bool, flags: TensorFlags | str = "NONE") -> Edge:
    """Return what an edge carries for a tensor: an array where DirectML has no such tensor.

    A graph that may go `beyond` DirectML has tensors of all types.
    """
    shape = kind.shape or ()
    with contextlib.suppress(DmlError):
        return TensorDesc(kind.edge_type(beyond), shape or (1,), flags=flags, beyond=beyond)
    return ArrayType(kind.array_dtype, shape)


def outer(array: Any, kind: Type) -> jax.Array:
    """Return an array as ONNX has it. Raises `DmlError` where its type has another size."""
    array, shape = jnp.asarray(array), kind.shape or ()
    if array.size != math.prod(shape):
        raise DmlError([Fault("", "an output", f"have the declared shape {shape}", array.shape)])
    array = array.reshape(shape)
    dtype = kind.array_dtype
    is_kept = array.dtype == dtype or (is_narrow(array) and dtype == np.float32)
    return array if is_kept else array.astype(dtype)


def computed(graph: Graph, values: Mapping[str, Any], kinds: Sequence[Type]) -> list[jax.Array]:
    """Return the outputs of a graph, of types `kinds`, as ONNX has them, then counts and indices.

    `values` has the inputs of the graph by name, and may have others.
    """
    results = graph.computed(sources_of(graph, values))
    kinds = [*kinds, *[COUNT] * len(graph.counted)]
    made = [outer(x, kind) for x, kind in zip(results, kinds, strict=False)]
    return [*made, *results[len(made) :]]


def on_edges(
    function: Function, taken: Sequence[Type | None], given: Sequence[Type | None], beyond: bool
) -> Callable[..., list[jax.Array]]:
    """Return a function of ONNX's arrays as a function of a `FunctionNode`.

    It computes in FLOAT what it reads as bfloat16, and rounds its FLOAT results to bfloat16 then.
    `taken` has None for an input that is left out, `given` for a result without elements, which no
    edge carries. `beyond` is as for `edge_of`.
    """
    edges = [None if kind is None else edge_of(kind, beyond) for kind in given]

    def run(graphs: Sequence[Graph], *arrays: Any) -> list[jax.Array]:
        read, is_rounded = list[Any](), False
        for array, kind in zip(arrays, taken, strict=True):
            array = None if kind is None else outer(array, kind)
            if kind is not None and array is not None and array.dtype != kind.array_dtype:
                array, is_rounded = array.astype(kind.array_dtype), True
            read.append(array)
        results = []
        made = zip(function(graphs, read), given, edges, strict=True)
        for array, kind, edge in made:
            if kind is not None and edge is not None:
                result = outer(array, kind)
                is_float32 = is_rounded and kind.array_dtype == np.float32
                result = result.astype(BFLOAT16) if is_float32 else result
                results.append(inner(result, edge))
        return results

    return run
