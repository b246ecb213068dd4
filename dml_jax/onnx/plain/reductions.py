"""Reductions, products, scans and the largest elements."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.onnx.nodes import Node
from dml_jax.onnx.plain import plain

_REDUCTIONS = {
    "ReduceL1": lambda x, **a: jnp.sum(jnp.abs(x), **a),
    "ReduceL2": lambda x, **a: jnp.sqrt(jnp.sum(x * x, **a)),
    "ReduceLogSum": lambda x, **a: jnp.log(jnp.sum(x, **a)),
    "ReduceLogSumExp": lambda x, **a: jax.nn.logsumexp(x, **a),
    "ReduceMax": jnp.max,
    "ReduceMean": jnp.mean,
    "ReduceMin": jnp.min,
    "ReduceProd": jnp.prod,
    "ReduceSum": jnp.sum,
    "ReduceSumSquare": lambda x, **a: jnp.sum(x * x, **a),
}


@plain(*_REDUCTIONS)
def _reduce(node: Node, x: jax.Array, axes: Any = None) -> jax.Array:
    found = node.attribute("axes") if axes is None else node.constant(1).tolist()
    if not found and node.attribute("noop_with_empty_axes", 0):
        found, single = (), x[None]
        return _REDUCTIONS[node.op_type](single, axis=(0,), keepdims=False)
    over = tuple(range(x.ndim)) if not found else tuple(found)
    keep = bool(node.attribute("keepdims"))
    return _REDUCTIONS[node.op_type](x, axis=over, keepdims=keep).astype(x.dtype)


@plain("ArgMax", "ArgMin")
def _arg(node: Node, x: jax.Array) -> jax.Array:
    axis, find = node.axis(), jnp.argmax if node.op_type == "ArgMax" else jnp.argmin
    keep, dtype = bool(node.attribute("keepdims")), node.made().array_dtype
    if node.attribute("select_last_index", 0):
        last = x.shape[axis] - 1
        return (last - find(jnp.flip(x, axis), axis, keepdims=keep)).astype(dtype)
    return find(x, axis, keepdims=keep).astype(dtype)


@plain("MatMul")
def _matmul(node: Node, a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


@plain("Gemm")
def _gemm(node: Node, a: jax.Array, b: jax.Array, c: Any = None) -> jax.Array:
    a = a.T if node.attribute("transA") else a
    b = b.T if node.attribute("transB") else b
    result = jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
    result = (result * node.attribute("alpha")).astype(a.dtype)
    if c is None or not node.attribute("beta"):
        return result
    return result + (c * node.attribute("beta")).astype(a.dtype)


@plain("Einsum")
def _einsum(node: Node, *operands: jax.Array) -> jax.Array:
    equation = node.attribute("equation").replace(" ", "")
    return jnp.einsum(equation, *operands, precision=lax.Precision.HIGHEST)


@plain("Det")
def _determinant(node: Node, x: jax.Array) -> jax.Array:
    return jnp.linalg.det(x)


@plain("CumSum", "CumProd")
def _cumulative(node: Node, x: jax.Array, axis: Any) -> jax.Array:
    along = node.from_start(int(node.constant(1).reshape(-1)[0]), x.ndim)
    is_sum = node.op_type == "CumSum"
    x = jnp.flip(x, along) if node.attribute("reverse") else x
    if node.attribute("exclusive"):
        first = [(1, 0) if d == along else (0, 0) for d in range(x.ndim)]
        x = lax.slice_in_dim(x, 0, x.shape[along] - 1, axis=along)
        x = jnp.pad(x, first, constant_values=0 if is_sum else 1)
    x = (jnp.cumsum if is_sum else jnp.cumprod)(x, along)
    return jnp.flip(x, along) if node.attribute("reverse") else x


@plain("TopK")
def _top_k(node: Node, x: jax.Array, k: Any = None) -> Any:
    count = node.attribute("k") if node.version < 10 else int(node.constant(1).reshape(-1)[0])
    axis = node.axis()
    order = jnp.argsort(x, axis, descending=bool(node.attribute("largest", 1)), stable=True)
    order = lax.slice_in_dim(order, 0, count, axis=axis)
    indices = order.astype(np.int64 if jax.config.jax_enable_x64 else np.int32)  # pyright: ignore
    return jnp.take_along_axis(x, order, axis), indices


@plain("Softmax", "LogSoftmax", since=13)
def _softmax(node: Node, x: jax.Array) -> jax.Array:
    function = jax.nn.softmax if node.op_type == "Softmax" else jax.nn.log_softmax
    return function(x, axis=node.axis())
