"""A narrow element and its index in one integer, of which one maximum finds both.

ARGMAX as two arrays and packed, FLOAT16; UINT8. On 2 cores, jax 0.10.2, of 33554432 elements, ms:

    rows of 256             13.9, 5.0; 3.0, 1.8
    rows of 4096             6.2, 2.6; 2.1, 1.7
    one row                  7.9, 2.6; 2.3, 1.5
    [8, 64, 65536] over 1   12.3, 3.2; 4.0, 1.9
    [8, 4194304] over 0      4.5, 3.7; 2.1, 2.5

On an H200, jax 0.11.2, TB/s read:

    rows of 96               0.8, 1.1; 0.5, 0.9
    rows of 256              2.3, 2.6; 1.1, 2.2
    rows of 16384            3.5, 3.4; 1.3, 2.8
    rows of 16411            1.6, 2.0; 0.9, 1.5
    [32, 64, 65536] over 1   2.4, 1.6; 2.2, 0.9
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.fold import Combine, Fold, Parts


@dataclass(frozen=True)
class Packing:
    """Elements along axis 1, each above its index; the largest or the smallest integer wins.

    Floats are the integers that order as they do, zeros as one and NaN before all others.

    Attributes:
        extreme: the fold of the integers: MAX where `last`, else MIN.
        largest: whether the largest element wins; elements are complemented where it and `last`
            do not want the same integers.
        last: whether the last of equal elements wins.
        index_type: the index's, when it is taken apart.
    """

    extreme: Fold
    largest: bool
    last: bool
    index_type: np.dtype

    def most(self, dtype: np.dtype) -> int:
        """How many elements have indices that fit beside them in 32 bits; 0 if there is no room."""
        return 1 << _index_bits(dtype) if dtype.itemsize < 4 else 0

    def through(self, stage: Callable[[Fold, Parts, Combine], Parts], x: jax.Array) -> Parts:
        """(element, index) by a stage that reduces axis 1."""
        bits = np.int32(_index_bits(x.dtype))
        value = self._complemented(_ordered(x, self.largest))
        packed = (value << bits) + lax.broadcasted_iota(np.int32, x.shape, 1)
        (best,) = stage(self.extreme, (packed,), self.extreme.combine)
        index = lax.convert_element_type(best & ((1 << bits) - 1), self.index_type)
        return _element(self._complemented(best >> bits), x.dtype), index

    def _complemented(self, value: jax.Array) -> jax.Array:
        return value if self.largest == self.last else ~value


def _index_bits(dtype: np.dtype) -> int:
    return 32 - 8 * dtype.itemsize


def _ordered(x: jax.Array, largest: bool) -> jax.Array:
    """As int32, in as many bits as an element has."""
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return lax.convert_element_type(x, np.int32) - np.int32(1 << (8 * x.dtype.itemsize - 1))
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        return lax.convert_element_type(x, np.int32)
    bits = lax.convert_element_type(lax.bitcast_convert_type(x, np.int16), np.int32)
    nan = np.int32(0x7FFF if largest else -0x7FFF)
    # By the bits: with x != x, XLA takes negative denormals for NaN on a GPU (jax 0.11.2, H200).
    is_nan = bits & 0x7FFF > 0x7C00
    return jnp.where(is_nan, nan, jnp.where(bits < 0, np.int32(-0x8000) - bits, bits))


def _element(value: jax.Array, dtype: np.dtype) -> jax.Array:
    """The inverse; of either zero 0."""
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return lax.convert_element_type(value + np.int32(1 << (8 * dtype.itemsize - 1)), dtype)
    if jnp.issubdtype(dtype, jnp.signedinteger):
        return lax.convert_element_type(value, dtype)
    bits = jnp.where(value < 0, np.int32(-0x8000) - value, value)
    return lax.bitcast_convert_type(lax.convert_element_type(bits, np.int16), dtype)
