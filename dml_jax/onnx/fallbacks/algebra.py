"""Determinants and inverses of matrices."""

import jax
import jax.numpy as jnp

from dml_jax.lowering.dtypes import wide
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback


@fallback("Det")
def _determinant(node: Node, x: jax.Array) -> jax.Array:
    return jnp.linalg.det(wide(x)).astype(x.dtype)


@fallback("Inverse", domain=MICROSOFT)
def _inverse(node: Node, x: jax.Array) -> jax.Array:
    return jnp.linalg.inv(wide(x)).astype(x.dtype)
