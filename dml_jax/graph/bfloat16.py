"""Nodes of a graph that compute bfloat16 arrays, which DirectML lacks, in place of FLOAT32.

bfloat16 spreads: a node that reads a bfloat16 array computes in FLOAT32, and rounds its FLOAT32
results to bfloat16, once. CAST asks for its type, and rounds nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.graph.parts import AnyNode, FunctionNode

BFLOAT16 = np.dtype(jnp.bfloat16)


def is_narrow(array: Any) -> bool:
    """Return whether an array is one of bfloat16."""
    return getattr(array, "dtype", None) == BFLOAT16


def computed(node: AnyNode, arrays: Sequence[Any]) -> Sequence[Any]:
    """Return the results of a node; an operator's are bfloat16 where it reads bfloat16 arrays."""
    operator = getattr(node, "operator", None)
    if operator is None or not any(map(is_narrow, arrays)):
        return node(*arrays)
    if isinstance(node, FunctionNode):
        return [_rounded(result) for result in node(*map(_wide, arrays))]
    if operator.sums_bfloat16 and all(map(is_narrow, arrays)):
        results = operator.evaluate(*arrays)
    else:
        results = operator.compute(*map(_wide, arrays))
    if operator.short_name == "CAST":
        return results
    return [_rounded(result) for result in results]


def through_float32(function: Callable[..., jax.Array], array: Any, *arguments: Any) -> jax.Array:
    """Return `function(array, *arguments)`, in FLOAT32 and rounded where the array is bfloat16."""
    result = function(_wide(array), *arguments)
    return _rounded(result) if is_narrow(array) else result


def _wide(array: Any) -> Any:
    return array.astype(np.float32) if is_narrow(array) else array


def _rounded(result: jax.Array) -> jax.Array:
    return result.astype(BFLOAT16) if result.dtype == np.float32 else result
