"""Primitives that reduce along dimensions, or accumulate along one."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.onnx.writing.jaxpr_nodes import Equation, write_function, writes
from dml_jax.onnx.writing.primitives.arrangement import reverse, with_zeros_between
from dml_jax.onnx.writing.writer import Value, Writer, unwritten

_REDUCED = {f"reduce_{name}": f"Reduce{name.title()}" for name in ("sum", "prod", "max", "min")}


@writes(*_REDUCED)
def reduced(eqn: Equation) -> Value:
    w, x = eqn.writer, eqn[0]
    wrap = _signed_order(w, x) if eqn.name in ("reduce_max", "reduce_min") else None
    if wrap is not None:
        return _as_unsigned(w, w.reduce(_REDUCED[eqn.name], wrap, eqn.params["axes"]))
    return w.reduce(_REDUCED[eqn.name], x, eqn.params["axes"])


_TOP = np.int64(-(2**63))


def _signed_order(w: Writer, x: Value) -> Value | None:
    """Return INT64 in the order of UINT64; None for another type."""
    if x.dtype != np.uint64:
        return None
    return w("BitwiseXor", w.cast(x, np.int64), w.constant(_TOP))


def _as_unsigned(w: Writer, x: Value) -> Value:
    return w.cast(w("BitwiseXor", x, w.constant(_TOP)), np.uint64)


@writes("reduce_and", "reduce_or", "reduce_xor")
def of_truths(eqn: Equation) -> Value:
    w, x, axes = eqn.writer, eqn[0], eqn.params["axes"]
    if x.dtype != bool:
        raise unwritten(f"the primitive '{eqn.name}' of {x.dtype.name}")
    wide = w.cast(x, np.int32)
    if eqn.name == "reduce_xor":
        total = w.reduce("ReduceSum", wide, axes)
        return w.cast(w("BitwiseAnd", total, w.like(1, total)), bool)
    op_type = "ReduceMin" if eqn.name == "reduce_and" else "ReduceMax"
    return w.cast(w.reduce(op_type, wide, axes), bool)


@writes("argmax", "argmin")
def place_of_extreme(eqn: Equation) -> Value:
    w, (axis,) = eqn.writer, eqn.params["axes"]
    op_type = "ArgMax" if eqn.name == "argmax" else "ArgMin"
    x = _signed_order(w, eqn[0]) or eqn[0]
    # ONNX Runtime has extremes of wider types alone.
    if x.dtype == bool or x.dtype.itemsize == 2:
        x = w.cast(x, np.int32 if x.dtype.kind in "biu" else np.float32)
    return w.cast(w(op_type, x, dtype=np.int64, shape=eqn.shape, axis=axis, keepdims=0), eqn.dtype)


_Pair = Callable[[Writer, Value, Value], Value]


def _logarithm_of_sum(w: Writer, a: Value, b: Value) -> Value:
    most = w("Max", a, b)
    least = w("Min", a, b)
    rest = w("Log", w("Add", w("Exp", w("Sub", least, most)), w.like(1, a)))
    double = w("Add", most, w.like(np.log(2), a))
    return w.where(w.compare("Equal", least, most), double, w("Add", most, rest))


_COMBINED: dict[str, tuple[_Pair, Callable[[np.dtype], Any]]] = {
    "sum": (lambda w, a, b: w("Add", a, b), lambda dtype: 0),
    "prod": (lambda w, a, b: w("Mul", a, b), lambda dtype: 1),
    "max": (lambda w, a, b: w("Max", a, b), lambda dtype: _ends(dtype)[0]),
    "min": (lambda w, a, b: w("Min", a, b), lambda dtype: _ends(dtype)[1]),
    "logsumexp": (_logarithm_of_sum, lambda dtype: _ends(dtype)[0]),
}


def _ends(dtype: np.dtype) -> tuple[Any, Any]:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    if dtype.kind == "b":
        return False, True
    return -np.inf, np.inf


@writes("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def cumulative(eqn: Equation) -> Value:
    w, x, axis = eqn.writer, eqn[0], eqn.params["axis"]
    if eqn.name == "cumsum":
        return w("CumSum", x, w.indices(axis), reverse=int(eqn.params["reverse"]), shape=x.shape)
    combine, neutral = _COMBINED[eqn.name[3:]]
    x = reverse(w, x, (axis,)) if eqn.params["reverse"] else x
    step = 1
    while step < x.shape[axis]:
        before, after = [0] * x.rank, [0] * x.rank
        before[axis], after[axis] = step, -step
        x = combine(w, x, w.pad(x, before, after, neutral(x.dtype)))
        step *= 2
    return reverse(w, x, (axis,)) if eqn.params["reverse"] else x


@writes("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def in_windows(eqn: Equation) -> Value:
    """Combine the elements of each window, a dimension after the other."""
    p = eqn.params
    combine, neutral = _COMBINED[eqn.name.rpartition("_")[2]]
    w, x = eqn.writer, eqn[0]
    fill = w.like(neutral(x.dtype), x)
    x = with_zeros_between(w, x, tuple(d - 1 for d in p["base_dilation"]), fill)
    low, high = zip(*p["padding"], strict=True) if x.rank else ((), ())
    x = w.pad(x, low, high, fill)
    rows = zip(p["window_dimensions"], p["window_strides"], p["window_dilation"], strict=True)
    for axis, (size, stride, dilation) in enumerate(rows):
        reach = (x.shape[axis] - (size - 1) * dilation - 1) // stride * stride + 1
        starts = range(0, size * dilation, dilation)
        parts = [w.part(x, axis, start, start + reach, stride) for start in starts]
        x = functools.reduce(functools.partial(combine, w), parts)
    return x


@writes("sort")
def sorted_along(eqn: Equation) -> list[Value]:
    """Sort by each key from the last to the first; equal elements stay in their order."""
    w, axis = eqn.writer, eqn.params["dimension"]
    values = list(eqn.inputs)
    for key in range(eqn.params["num_keys"] - 1, -1, -1):
        x = values[key]
        ordered = _signed_order(w, x) or (w.cast(x, np.int32) if x.dtype == bool else x)
        if x.dtype == jnp.bfloat16:
            ordered = w.cast(x, np.float32)
        _, places = w.top_k(ordered, x.shape[axis], axis, False)
        values = [w("GatherElements", v, places, shape=v.shape, axis=axis) for v in values]
    return values


@writes("top_k")
def largest(eqn: Equation) -> list[Value]:
    w, x = eqn.writer, eqn[0]
    axis = eqn.params.get("axis", x.rank - 1) % x.rank
    _, places = w.top_k(_signed_order(w, x) or x, eqn.params["k"], axis)
    values = w("GatherElements", x, places, shape=places.shape, axis=axis)
    return [values, w.cast(places, eqn.types[1][0])]


@writes("select_and_scatter_add")
def select_and_scatter_add(eqn: Equation) -> list[Value]:
    """Add each element of the source at the element of its window that was selected.

    It is the derivative of a maximum or a minimum of windows. The first of equal elements counts.
    """
    p, is_least = eqn.params, eqn.params["select_prim"].name == "le"
    strides, padding = p["window_strides"], p["padding"]
    places = [*itertools.product(*map(range, p["window_dimensions"]))]
    if len(places) > _PLACES:
        raise unwritten(f"the primitive '{eqn.name}' of windows of more than {_PLACES} elements")

    def function(source: jax.Array, operand: jax.Array) -> jax.Array:
        dtype = operand.dtype
        most, least = _ends(np.dtype(dtype))[::-1]
        fill = jnp.asarray(most if is_least else least, dtype)
        x = lax.pad(operand, fill, [(low, high, 0) for low, high in padding])
        spans = [(n - 1) * stride + 1 for n, stride in zip(source.shape, strides, strict=True)]
        ends = [[k + n for k, n in zip(place, spans, strict=True)] for place in places]
        parts = [lax.slice(x, a, b, strides) for a, b in zip(places, ends, strict=True)]
        best, index = parts[0], lax.full(source.shape, 0, jnp.int32)
        for k, part in enumerate(parts[1:], 1):
            stays = best <= part if is_least else best >= part
            best, index = jnp.where(stays, best, part), jnp.where(stays, index, jnp.int32(k))
        total, zero = lax.full(x.shape, 0, dtype), jnp.asarray(0, dtype)
        for k, (place, end) in enumerate(zip(places, ends, strict=True)):
            own = jnp.where(index == jnp.int32(k), source, zero)
            rows = zip(place, end, x.shape, strides, strict=True)
            total += lax.pad(own, zero, [(a, size - b, s - 1) for a, b, size, s in rows])
        starts = [low for low, _ in padding]
        stops = [low + n for low, n in zip(starts, operand.shape, strict=True)]
        return lax.slice(total, starts, stops)

    return write_function(eqn.writer, function, *eqn.inputs)


_PLACES = 256  # elements of a window, each of which takes some nodes
