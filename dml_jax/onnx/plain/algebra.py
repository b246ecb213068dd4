"""Determinants."""

import jax
import jax.numpy as jnp

from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain


@plain("Det")
def _determinant(node: Node, x: jax.Array) -> jax.Array:
    return jnp.linalg.det(x)
