"""Ensembles of decision trees of ai.onnx.ml: all rows go down all trees at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import GraphBuilder
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.translators import tabular
from dml_jax.onnx.translators.tabular import DOMAIN

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees in one list; a leaf is its own child.

    Attributes:
        feature: the column that a node reads, [nodes].
        value: what it compares the column with, [nodes].
        mode: its place in `_MODES`, and the place behind these for a set, [nodes].
        children: the nodes where it goes if the comparison is false and if it is true, [nodes, 2].
        nan_is_true: whether a column that is NaN counts as true, [nodes].
        sets: the members of the set of a node, NaN where there are fewer, [nodes, members].
        roots: the first node of each tree, [trees].
        weights: what a leaf adds to each target, NaN where it adds nothing, [nodes, targets].
    """

    feature: np.ndarray
    value: np.ndarray
    mode: np.ndarray
    children: np.ndarray
    nan_is_true: np.ndarray
    sets: np.ndarray
    roots: np.ndarray
    weights: np.ndarray

    def depth(self) -> int:
        """Return the most steps from a root to a leaf, at most the number of nodes."""
        level, steps = np.unique(self.roots), 0
        while steps <= len(self.feature):
            below = np.unique(self.children[level])
            if np.array_equal(below, level):
                break
            level, steps = below, steps + 1
        return steps

    def leaves(self, x: jax.Array) -> jax.Array:
        """Return the leaf of each row of `x` in each tree, [rows, trees]."""
        rows = jnp.arange(x.shape[0], dtype=np.int32)[:, None]

        def step(_: Any, at: jax.Array) -> jax.Array:
            column, value = x[rows, jnp.asarray(self.feature)[at]], jnp.asarray(self.value)[at]
            compared = [
                *(column <= value, column < value, column >= value, column > value),
                *(column == value, column != value),
                (column[..., None] == _at(self.sets, at)).any(-1),
            ]
            mode = _at(self.mode, at)
            is_true = jnp.select([mode == k for k in range(len(compared))], compared, False)
            is_true = is_true | (jnp.isnan(column) & _at(self.nan_is_true, at))
            return jnp.where(is_true, _at(self.children[:, 1], at), _at(self.children[:, 0], at))

        roots = jnp.asarray(self.roots, np.int32)[None]
        start = jnp.broadcast_to(roots, (x.shape[0], roots.size))
        return lax.fori_loop(0, self.depth(), step, start)

    def scores(self, x: jax.Array, aggregate: str) -> jax.Array:
        """Return the aggregate over all trees, [rows, targets]."""
        weights = jnp.asarray(self.weights.astype(x.dtype))[self.leaves(x)]
        there = ~jnp.isnan(weights)
        if aggregate in ("SUM", "AVERAGE"):
            total = jnp.where(there, weights, 0).sum(1)
            return total / len(self.roots) if aggregate == "AVERAGE" else total
        extreme, none = (jnp.min, np.inf) if aggregate == "MIN" else (jnp.max, -np.inf)
        return jnp.where(there.any(1), extreme(jnp.where(there, weights, none), axis=1), 0)


def _at(array: np.ndarray, index: jax.Array) -> jax.Array:
    """Return elements of a list of the nodes; integers are INT32."""
    return jnp.asarray(array.astype(np.int32) if array.dtype.kind == "i" else array)[index]


def _numbers(node: Node, name: str) -> np.ndarray:
    """Return an attribute of numbers; from version 3 on a tensor may stand for it."""
    tensor = node.attribute(f"{name}_as_tensor")
    return np.array(node.attribute(name) or [], np.float32) if tensor is None else tensor


def _named_nodes(node: Node, kind: str, count: int) -> Trees:
    """Return the trees of an op type whose nodes have names: a tree's and its own."""
    trees, own = node.attribute("nodes_treeids"), node.attribute("nodes_nodeids")
    place = {pair: k for k, pair in enumerate(zip(trees, own, strict=True))}
    modes = node.attribute("nodes_modes")
    unknown = sorted({*modes} - {*_MODES, "LEAF"})
    if unknown:
        raise node.refusal("nodes_modes", f"be {', '.join(_MODES)} or LEAF", unknown[0])
    children = np.arange(len(own))[:, None].repeat(2, 1)
    for side, name in enumerate(("nodes_falsenodeids", "nodes_truenodeids")):
        for k, child in enumerate(node.attribute(name)):
            if modes[k] != "LEAF":
                children[k, side] = place[trees[k], child]
    weights = np.full((len(own), count), np.nan)
    for tree, leaf, target, weight in zip(
        *(node.attribute(f"{kind}_{part}") for part in ("treeids", "nodeids", "ids")),
        _numbers(node, f"{kind}_weights"),
        strict=True,
    ):
        k = place[tree, leaf]
        weights[k, target] = np.nan_to_num(weights[k, target]) + weight
    missing = node.attribute("nodes_missing_value_tracks_true") or [0] * len(own)
    return Trees(
        feature=np.array(node.attribute("nodes_featureids")),
        value=_numbers(node, "nodes_values"),
        mode=np.array([_MODES.index(mode) if mode != "LEAF" else 0 for mode in modes]),
        children=children,
        nan_is_true=np.array(missing, bool),
        sets=np.full((len(own), 1), np.nan, np.float32),
        roots=np.array([k for k in range(len(own)) if k == 0 or trees[k] != trees[k - 1]]),
        weights=weights,
    )


def _real(x: jax.Array) -> jax.Array:
    """Return [rows, columns] in a type of floats, FLOAT32 for integers."""
    x = x if x.ndim == 2 else x.reshape(1, -1)
    return x if jnp.issubdtype(x.dtype, np.floating) else x.astype(np.float32)


def _scores(node: Node, trees: Trees, x: jax.Array, aggregate: str) -> jax.Array:
    """Return the scores of the rows, of trees that read no column beyond the last."""
    if trees.feature.min(initial=0) < 0 or trees.feature.max(initial=0) >= x.shape[1]:
        rule = f"be columns of the input, from 0 to {x.shape[1] - 1}"
        raise node.refusal("nodes_featureids", rule, int(trees.feature.max(initial=0)))
    return trees.scores(x, aggregate)


def _post_transform(node: Node, scores: jax.Array, name: str) -> jax.Array:
    """Return scores behind the `post_transform` called `name`; they may be FLOAT64."""
    if name == "NONE":
        return scores
    builder = GraphBuilder(beyond=True)
    x = builder.input_tensor("scores", TensorDesc.of(scores))
    return builder.build(tabular.post_transform(node, x, name)).compute(scores)[0]


@fallback("TreeEnsembleRegressor", domain=DOMAIN)
def _regressor(node: Node, x: jax.Array) -> jax.Array:
    count = node.attribute("n_targets") or 1
    trees, x = _named_nodes(node, "target", count), _real(x)
    scores = _scores(node, trees, x, node.attribute("aggregate_function"))
    added = _numbers(node, "base_values")
    scores = scores + jnp.asarray(added.astype(x.dtype))[None] if added.size else scores
    return _post_transform(node, scores, node.attribute("post_transform")).astype(np.float32)


@fallback("TreeEnsembleClassifier", domain=DOMAIN)
def _classifier(node: Node, x: jax.Array) -> Sequence[Any]:
    """Return the labels and the scores, [rows, classes].

    Two classes whose weights are all of one have one score: that of the second class. The other is
    1 less it where all weights are positive, and minus it else.
    """
    labels = node.attribute("classlabels_int64s")
    count = len(labels or node.attribute("classlabels_strings"))
    trees, x = _named_nodes(node, "class", count), _real(x)
    scores = _scores(node, trees, x, "SUM")
    added = _numbers(node, "base_values").astype(x.dtype)
    name = node.attribute("post_transform")
    classes = {*node.attribute("class_ids")}
    if count == 2 and len(classes) == 1:
        rule = "have at most 1 element, where all weights are of one class"
        node.expect(added.size < 2, "base_values", rule, added.size)
        is_positive = bool((_numbers(node, "class_weights") >= 0).all())
        one = scores[:, min(classes)] + (added[0] if added.size else 0)
        best = (one > (0.5 if is_positive else 0)).astype(np.int32)
        other = 1 - one if is_positive and name != "LOGISTIC" else -one
        scores = jnp.stack([other, one], 1)
        scores = _post_transform(node, scores, name) if name == "LOGISTIC" else scores
    else:
        scores = scores + jnp.asarray(added)[None] if added.size else scores
        best, scores = scores.argmax(1), _post_transform(node, scores, name)
    if not labels:
        return [None, scores.astype(np.float32)]
    kind = node.types[0].array_dtype if node.types[0] else np.dtype(np.int64)
    return [jnp.asarray(np.array(labels).astype(kind))[best], scores.astype(np.float32)]


@fallback("TreeEnsemble", domain=DOMAIN)
def _ensemble(node: Node, x: jax.Array) -> jax.Array:
    """Return the targets of trees whose leaves are a list of their own."""
    splits, modes = node.attribute("nodes_splits"), node.attribute("nodes_modes")
    leaves = node.attribute("leaf_weights")
    inner, total = len(splits), len(splits) + len(leaves)
    children = np.arange(total)[:, None].repeat(2, 1)
    for side, name in enumerate(("false", "true")):
        child, is_leaf = (node.attribute(f"nodes_{name}{part}") for part in ("nodeids", "leafs"))
        children[:inner, side] = np.array(child) + inner * np.array(is_leaf)
    weights = np.full((total, node.attribute("n_targets") or 1), np.nan)
    weights[inner + np.arange(len(leaves)), node.attribute("leaf_targetids")] = leaves
    missing = np.array(node.attribute("nodes_missing_value_tracks_true") or [0] * inner, bool)

    def with_zeros(array: Any, fill: Any = 0) -> np.ndarray:
        array = np.asarray(array)
        return np.concatenate([array, np.full((len(leaves), *array.shape[1:]), fill, array.dtype)])

    trees = Trees(
        feature=with_zeros(node.attribute("nodes_featureids")),
        value=with_zeros(splits),
        mode=with_zeros(modes.astype(np.int32)),
        children=children,
        nan_is_true=with_zeros(missing),
        sets=with_zeros(_sets(node, modes), np.nan),
        roots=np.array(node.attribute("tree_roots")),
        weights=weights,
    )
    scores = _scores(node, trees, x, _AGGREGATES[node.attribute("aggregate_function")])
    return _post_transform(node, scores, _TRANSFORMS[node.attribute("post_transform")])


def _sets(node: Node, modes: np.ndarray) -> np.ndarray:
    """Return the sets of the nodes that have one; NaN stands between them in the attribute."""
    has_set = np.flatnonzero(modes == len(_MODES))
    if not has_set.size:
        return np.full((len(modes), 1), np.nan, np.float32)
    values = node.attribute("membership_values")
    parts = [part[~np.isnan(part)] for part in np.split(values, np.flatnonzero(np.isnan(values)))]
    sets = np.full((len(modes), max(1, *map(len, parts))), np.nan, values.dtype)
    for k, part in zip(has_set, parts, strict=False):
        sets[k, : len(part)] = part
    return sets
