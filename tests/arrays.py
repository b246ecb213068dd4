"""Arrays that tests share, attention of them, and what a function makes of them."""

import math
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dml_jax import Graph, GraphBuilder, TensorDesc


def float32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def float16(values: Any) -> np.ndarray:
    return np.array(values, np.float16)


def normal(*sizes: int, seed: int = 0) -> np.ndarray:
    """Return random FLOAT32 elements."""
    return float32(np.random.default_rng([seed, *sizes]).standard_normal(sizes))


def by_heads(x: Any, heads: int = 2) -> np.ndarray:
    """Return arrays [batch, sequence, heads * size] as [batch, heads, sequence, size]."""
    return np.asarray(x).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def attended(q: Any, k: Any, v: Any, is_seen: Any = True) -> np.ndarray:
    """Return the attention of arrays [batch, heads, sequence, size], in float64.

    A query that sees nothing gives 0.
    """
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, 1) for x in (k, v))
    scores = np.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
    is_seen = np.broadcast_to(is_seen, scores.shape)
    weights = np.where(is_seen, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bhst,bhtd->bhsd", weights / np.where(total == 0, 1, total), v)


def made_by(function: Callable[..., Any], *xs: Any) -> set[str]:
    """Return the names of the operators that a function makes, without DML_OPERATOR_."""
    text = jax.jit(function).lower(*xs).as_text(debug_info=True)
    return set(re.findall(r"DML_OPERATOR_(\w+)", text))


def graph_of(function: Callable[..., Any], *arrays: Any) -> Graph:
    """Return the graph of a function of arrays, of which each is an input."""
    builder = GraphBuilder()
    inputs = [builder.input_tensor(f"x{k}", TensorDesc.of(a)) for k, a in enumerate(arrays)]
    return builder.build(function(*inputs))
