"""Operators of ai.onnx.ml that are arithmetic on the columns of a table."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import as_type, of_rank, reshape, resize, taken

DOMAIN = "ai.onnx.ml"

_LEAST = 1e-30  # of the divisor of a Normalizer
_ALMOST_0 = 1e-7  # to SOFTMAX_ZERO


def _real(node: Node, index: int = 0) -> Expression:
    """Return input `index` in FLOAT32, in which ONNX Runtime computes all of these."""
    return as_type(node[index], "FLOAT32")


def _columns(node: Node, x: Expression, values: Sequence[float]) -> Expression:
    """Return numbers, one for each column of `x` or one for all, beside `x`."""
    array = np.array(values, x.dtype).reshape((1,) * (len(x.sizes) - 1) + (-1,))
    return node.builder.constant(array)


@translates("Scaler", domain=DOMAIN)
def _scaler(node: Node) -> Expression:
    x = _real(node)
    if node.attribute("offset"):
        x = x - _columns(node, x, node.attribute("offset"))
    return x * _columns(node, x, node.attribute("scale")) if node.attribute("scale") else x


@translates("Normalizer", domain=DOMAIN)
def _normalizer(node: Node) -> Expression:
    x, axis = _real(node), node.rank() - 1
    norm: Any = node.choice("norm", ("L1", "L2", "MAX"))
    if norm == "MAX":
        most = dml.reduce(x, "MAX", [axis])
        return x / dml.if_(dml.equals(most, 0.0), 1.0, most)
    return x / dml.max(dml.reduce(x, norm, [axis]), _LEAST)


@translates("Binarizer", domain=DOMAIN)
def _binarizer(node: Node) -> Expression:
    x, least = node[0], node.attribute("threshold")
    least = least if node.type().is_floating else math.floor(least)
    return dml.cast(dml.greater_than(x, least), node.output_type())


@translates("Imputer", domain=DOMAIN)
def _imputer(node: Node) -> Expression:
    x, kind = node[0], "float" if node.type().is_floating else "int64"
    values = _columns(node, x, node.attribute(f"imputed_value_{kind}s"))
    missing = node.attribute(f"replaced_value_{kind}")
    return dml.if_(dml.is_nan(x) if missing != missing else dml.equals(x, missing), values, x)


@translates("ArrayFeatureExtractor", domain=DOMAIN)
def _extractor(node: Node) -> Expression:
    x = of_rank(node[0], max(node.rank(), 2))
    return taken(x, reshape(node[1], (math.prod(node.shape(1)),)), len(x.sizes) - 1)


@translates("FeatureVectorizer", domain=DOMAIN)
def _vectorizer(node: Node) -> Expression:
    parts = []
    for index, wanted in enumerate(node.attribute("inputdimensions")):
        x, rank = _real(node, index), node.rank(index)
        node.expect(rank == 2, f"input {index}", "have 2 dimensions", rank)
        parts.append(resize(x, (x.sizes[0], wanted)))
    return dml.join(parts, 1) if len(parts) > 1 else parts[0]


def _linear(node: Node, count: int) -> Expression:
    """Return `count` linear functions of the rows, [rows, count]."""
    x = of_rank(_real(node), 2)
    weights = np.array(node.attribute("coefficients"), np.float32).reshape(count, -1)
    rule = f"have {count * x.sizes[1]} elements"
    node.expect(weights.shape[1] == x.sizes[1], "coefficients", rule, weights.size)
    y = dml.gemm(x, node.builder.constant(weights), None, "NONE", "TRANSPOSE")
    added = node.attribute("intercepts")
    return y + _columns(node, y, added) if added else y


def post_transform(node: Node, x: Expression, name: str) -> Expression:
    """Return scores behind the `post_transform` called `name`."""
    if name == "NONE":
        return x
    if name == "LOGISTIC":
        return dml.activation_sigmoid(x)
    if name == "SOFTMAX":
        return dml.activation_softmax(x, [1])
    if name == "SOFTMAX_ZERO":  # what is almost 0 stays so
        most = dml.reduce(x, "MAX", [1])
        is_some = dml.greater_than(dml.abs(x), _ALMOST_0)
        powers = dml.if_(is_some, dml.exp(x - most), x * dml.exp(dml.negate(most)))
        total = dml.reduce(powers, "SUM", [1])
        is_zero = dml.equals(total, 0.0)
        return dml.if_(is_zero, 0.5, powers / dml.if_(is_zero, 1.0, total))
    raise node.refusal("post_transform", "be NONE, LOGISTIC, SOFTMAX or SOFTMAX_ZERO", name)


@translates("LinearRegressor", domain=DOMAIN)
def _regressor(node: Node) -> Expression:
    scores = _linear(node, node.attribute("targets"))
    return post_transform(node, scores, node.attribute("post_transform"))


@translates("LinearClassifier", domain=DOMAIN)
def _classifier(node: Node) -> Any:
    """Return the labels, None of strings, and the scores."""
    labels = node.attribute("classlabels_ints")
    known = len(labels or node.attribute("classlabels_strings") or [])
    columns = node.shape()[-1]
    count = len(node.attribute("coefficients")) // columns
    scores = _linear(node, count)
    if count == 1 and known == 2:
        scores = dml.join([dml.negate(scores), scores], 1)
    scores = post_transform(node, scores, node.attribute("post_transform"))
    if node.types[0] is None or node.types[0].name == "STRING":
        return None, scores
    rows, kind = scores.sizes[0], node.output_type(0)
    if scores.sizes[1] == 1:
        least = 0.0 if node.attribute("post_transform") == "NONE" else 0.5
        is_one = reshape(dml.greater_than_or_equal(scores, least), (rows,))
        return dml.cast(is_one, kind) * (labels[0] if labels else 1), scores
    best = reshape(dml.argmax(scores, [1], "INCREASING", "INT32"), (rows,))
    table = np.array(labels or range(scores.sizes[1]), np.int64).astype(kind.dtype)
    return taken(node.builder.constant(table), best, 0), scores
