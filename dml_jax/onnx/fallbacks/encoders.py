"""Encoders whose classes are numbers, and counts of sequences of numbers: searches."""

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


@fallback("TfIdfVectorizer")
def _count_sequences(node: Node, x: jax.Array) -> jax.Array:
    rows = x.reshape((1, -1)) if x.ndim == 1 else x
    pool, starts = node.attribute("pool_int64s"), node.attribute("ngram_counts")
    low, high = (node.attribute(f"{end}_gram_length") for end in ("min", "max"))
    places, most = node.attribute("ngram_indexes"), node.attribute("max_skip_count")
    counts = jnp.zeros((rows.shape[0], max(places) + 1), np.float32)
    number = 0
    for length, start in enumerate(starts, 1):
        end = starts[length] if length < len(starts) else len(pool)
        wanted = np.reshape(pool[start:end], (-1, length))
        own = np.array(places[number : number + len(wanted)], np.int32)
        number += len(wanted)
        if low <= length <= high:
            found = _occurrences(node, rows, wanted, most if length > 1 else 0)
            counts = counts.at[:, own].add(found)
    weights, mode = node.attribute("weights"), node.attribute("mode")
    if mode in ("IDF", "TFIDF"):
        if mode == "IDF":
            counts = (counts > 0).astype(np.float32)
        if weights is not None:
            scale = np.ones(counts.shape[1], np.float32)
            scale[places] = weights
            counts = counts * scale[None]
    return counts.reshape(counts.shape[1:]) if x.ndim == 1 else counts


def _occurrences(node: Node, rows: jax.Array, wanted: np.ndarray, skips: int) -> jax.Array:
    """Return how often each row has each of some lists of numbers, [rows, lists].

    Between two numbers of a list, `wanted[list]`, up to `skips` others may stand.
    """
    total = jnp.zeros((rows.shape[0], len(wanted)), np.float32)
    for gap in range(1, min(skips + 1, rows.shape[1]) + 1):
        count = rows.shape[1] - gap * (wanted.shape[1] - 1)
        if count <= 0 or not len(wanted):
            continue
        place = jnp.zeros((rows.shape[0], count), np.int64 if has_x64() else np.int32)
        ranks, keys = np.zeros(len(wanted), int), np.zeros(1, int)
        for k, column in enumerate(wanted.T):  # a beginning that is known, and one more number
            numbers, own = np.unique(column, return_inverse=True)
            largest = (len(keys) + 1) * (len(numbers) + 1)
            rule = "need no number above 2^31 (in 64 bits, `jax.enable_x64(True)`)"
            node.expect(has_x64() or largest < 2**31, "pool_int64s", rule, largest)
            more = search(numbers, rows[:, k * gap : k * gap + count])
            keys, ranks = np.unique(ranks * (len(numbers) + 1) + own, return_inverse=True)
            place = search(keys, place * (len(numbers) + 1) + more.astype(place.dtype))
        found = jnp.zeros((rows.shape[0], len(keys) + 1), np.float32)
        found = found.at[jnp.arange(rows.shape[0])[:, None], place].add(1)
        total = total + found[:, ranks]
    return total
