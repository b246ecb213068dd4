"""Primitives that are written as their plain form, which says what they mean."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.primitives import MEANINGS
from dml_jax.onnx.writing.jaxpr_nodes import Equation, write_function, writes
from dml_jax.onnx.writing.writer import Value


@writes(*MEANINGS)
def own(eqn: Equation) -> list[Value]:
    """Write a primitive of this package."""
    meaning = functools.partial(MEANINGS[eqn.name], **eqn.params)
    return write_function(eqn.writer, meaning, *eqn.inputs)


def _expm1(x: jax.Array) -> jax.Array:
    """Kahan's form: (u - 1) x / log u of the rounded u = exp x is right near 0 too."""
    if x.dtype == np.float16:
        return _expm1(x.astype(np.float32)).astype(x.dtype)
    u = jnp.exp(x)
    less = u - 1
    is_near = (jnp.abs(x) < 1) & (u != 1)
    return jnp.where(u == 1, x, jnp.where(is_near, less * x / jnp.log(u), less))


def _log1p(x: jax.Array) -> jax.Array:
    """Kahan's form, as above."""
    u = x + 1
    exact = jnp.log(u) * x / (u - 1)
    return jnp.where(u == 1, x, jnp.where(jnp.abs(x) < 1, exact, jnp.log(u)))


def _bits_that_are_set(x: jax.Array) -> jax.Array:
    count = 8 * x.dtype.itemsize
    places = jnp.arange(count, dtype=x.dtype).reshape(*[1] * x.ndim, count)
    bits = lax.shift_right_logical(*jnp.broadcast_arrays(jnp.expand_dims(x, -1), places))
    return jnp.sum(bits & 1, -1, dtype=x.dtype)


def _key(x: jax.Array) -> jax.Array:
    """Return integers in the order of sorts: of floats NaN is at the ends, and -0 before 0."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    bits = lax.bitcast_convert_type(x, jnp.dtype(f"int{8 * x.dtype.itemsize}"))
    return jnp.where(bits < 0, bits ^ jnp.iinfo(bits.dtype).max, bits)


_OF_JAX: Mapping[str, Callable[..., Any]] = {
    "square": lambda x: x * x,
    "one_minus_square": lambda x: 1 - x * x,
    "rsqrt": lambda x: lax.integer_pow(lax.sqrt(x), -1),
    "exp2": lambda x: jnp.power(2, x),
    "cbrt": lambda x: jnp.sign(x) * jnp.power(jnp.abs(x), 1 / 3),
    "expm1": _expm1,
    "log1p": _log1p,
    "erfc": lambda x: 1 - lax.erf(x),
    "is_finite": lambda x: jnp.abs(x) < np.inf,
    "population_count": _bits_that_are_set,
    "le_to": lambda a, b: _key(a) <= _key(b),
    "lt_to": lambda a, b: _key(a) < _key(b),
    "eq_to": lambda a, b: _key(a) == _key(b),
}


@writes(*_OF_JAX)
def of_jax(eqn: Equation) -> list[Value]:
    """Write a primitive of JAX, whose parameters say nothing of its values."""
    return write_function(eqn.writer, _OF_JAX[eqn.name], *eqn.inputs)
