"""4-bit integers in memory: two in a byte, the first in its low half."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering import strided_memory

_LOW, _WIDTH, _SIGN = np.uint8(15), np.uint8(4), np.uint8(8)


def read(
    buffer: jax.Array, sizes: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype
) -> jax.Array:
    """Return the tensor of `sizes`, of jnp.int4 or jnp.uint4, at the start of a UINT8 `buffer`."""
    bits = strided_memory.read(_unpack(buffer), sizes, strides)
    if dtype == jnp.uint4:
        return lax.convert_element_type(bits, dtype)
    signed = lax.bitcast_convert_type((bits ^ _SIGN) - _SIGN, jnp.int8)
    return lax.convert_element_type(signed, dtype)


def write(buffer: jax.Array, tensor: jax.Array, strides: tuple[int, ...] | None) -> jax.Array:
    """Return the UINT8 `buffer` with a 4-bit `tensor` at its start; other halves stay."""
    wide = jnp.int8 if tensor.dtype == jnp.int4 else jnp.uint8
    bits = lax.bitcast_convert_type(lax.convert_element_type(tensor, wide), jnp.uint8) & _LOW
    return _pack(strided_memory.write(_unpack(buffer), bits, strides))


def _unpack(buffer: jax.Array) -> jax.Array:
    """Return the halves of bytes: [n] -> [2 * n], in [0, 15]."""
    return jnp.stack([buffer & _LOW, buffer >> _WIDTH], axis=-1).reshape(-1)


def _pack(halves: jax.Array) -> jax.Array:
    """Return the bytes of halves in [0, 15]: [2 * n] -> [n]."""
    pairs = halves.reshape(-1, 2)
    return pairs[:, 0] | pairs[:, 1] << _WIDTH
