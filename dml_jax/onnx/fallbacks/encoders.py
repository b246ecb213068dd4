"""Encoders of ai.onnx.ml whose classes are numbers: a search, and a comparison."""

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import Bounds, fallback
from dml_jax.onnx.translators.tabular import DOMAIN


def search(keys: np.ndarray, x: jax.Array) -> jax.Array:
    """Return the place of each element of `x` in sorted `keys`, of any other the length of these.

    NaN is a key too. A key that the type of `x` does not hold is found nowhere.
    """
    dtype = np.dtype(x.dtype)
    (kept,) = np.nonzero((keys.astype(dtype) == keys) | (keys != keys))
    if not len(kept):
        return jnp.full(x.shape, len(keys), np.int32)
    own = jnp.asarray(keys[kept].astype(dtype))
    place = jnp.minimum(jnp.searchsorted(own, x), len(kept) - 1)
    is_equal = (own[place] == x) | ((own[place] != own[place]) & (x != x))
    return jnp.where(is_equal, jnp.asarray(kept, np.int32)[place], len(keys))


def _numbers(node: Node, name: str) -> np.ndarray:
    """Return the keys or the values of a LabelEncoder."""
    for kind, dtype in (("tensor", None), ("int64s", np.int64), ("floats", np.float32)):
        given = node.attribute(f"{name}_{kind}")
        if given is not None and len(given):
            return np.asarray(given, dtype)
    raise node.refusal(name, "be numbers", None)


def _values(node: Node) -> np.ndarray:
    """Return the values of a LabelEncoder, the one of all other keys last."""
    values, default = _numbers(node, "values"), node.attribute("default_tensor")
    if default is None:
        default = node.attribute("default_int64" if values.dtype.kind == "i" else "default_float")
    return np.append(values, np.asarray(default, values.dtype))


def _bounds(node: Node, index: int) -> Bounds | None:
    values = _values(node)
    return (int(values.min()), int(values.max())) if values.dtype.kind == "i" else None


@fallback("LabelEncoder", domain=DOMAIN, integers=_bounds)
def _label(node: Node, x: jax.Array) -> jax.Array:
    keys, values = _numbers(node, "keys"), _values(node)
    rule = f"have {len(keys)} elements, as the keys have"
    node.expect(len(values) == len(keys) + 1, "values", rule, len(values) - 1)
    keys, first = np.unique(keys, return_index=True)
    return jnp.asarray(values[np.append(first, len(values) - 1)])[search(keys, x)]


@fallback("OneHotEncoder", domain=DOMAIN)
def _one_hot(node: Node, x: jax.Array) -> jax.Array:
    """Return 1 at the category of each element, which may be none of them."""
    rule = "be 1 (0 asks for an error where an element is no category)"
    node.expect(node.attribute("zeros"), "zeros", rule, 0)
    kind = np.int64 if has_x64() else np.int32
    categories = np.array(node.attribute("cats_int64s"), np.int64)
    is_equal = (x == x)[..., None] & (x.astype(kind)[..., None] == categories.astype(kind))
    return (is_equal & (categories.astype(kind) == categories)).astype(np.float32)
