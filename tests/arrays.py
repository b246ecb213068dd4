"""Arrays that tests share, and what a function makes of them: operators, or a graph."""

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


def made_by(function: Callable[..., Any], *xs: Any) -> set[str]:
    """Return the names of the operators that a function makes, without DML_OPERATOR_."""
    text = jax.jit(function).lower(*xs).as_text(debug_info=True)
    return set(re.findall(r"DML_OPERATOR_(\w+)", text))


def graph_of(function: Callable[..., Any], *arrays: Any) -> Graph:
    """Return the graph of a function of arrays, of which each is an input."""
    builder = GraphBuilder()
    inputs = [builder.input_tensor(f"x{k}", TensorDesc.of(a)) for k, a in enumerate(arrays)]
    return builder.build(function(*inputs))
