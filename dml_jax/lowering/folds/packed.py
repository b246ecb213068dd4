"""An element and its index in one integer, of which one maximum finds both.

Narrow elements go into 32 bits; elements of 32 bits into 64, on a CPU, which JAX has here whatever
`jax_enable_x64` is. ARGMAX as two arrays and packed, on 2 cores, jax 0.10.2, of 33554432 elements,
ms, FLOAT32; INT32; FLOAT16; UINT8 (SUM of FLOAT32 takes 4.5):

    rows of 256              8.3, 4.5; 9.1, 4.2; 3.3, 2.3; 1.0, 1.2
    rows of 4096             9.0, 4.1; 8.1, 4.2; 6.2, 2.1; 2.1, 1.3
    one row                  8.1, 4.1; 8.5, 3.9; 7.9, 1.9; 2.3, 1.1
    [8, 64, 65536] over 1   14.9, 5.5; 13.7, 6.7; 12.3, 3.6; 4.0, 2.1
    [8, 4194304] over 0      5.7, 4.4; 5.2, 4.5; 4.5, 3.9; 2.1, 1.5

On an NVIDIA GPU it is faster along rows, and over columns of bytes of which a thread has four
(`gpu.py` has the figures); of one column slower: H200, jax 0.11.2, TB/s read, [32, 64, 65536]
over 1 FLOAT16; UINT8 2.4, 1.6; 2.2, 0.9.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Parts
from dml_jax.lowering.elementwise import signed_type, where
from dml_jax.lowering.epilogue import epilogue
from dml_jax.lowering.folds.fold import Combine, Fold


@dataclass(frozen=True)
class Packing:
    """Elements, each above its index; the largest or the smallest integer wins.

    Floats are the integers that order as they do, NaN before all others. (Compared as floats,
    denormals would be zeros on a CPU.)

    Attributes:
        extreme: the fold of the integers: MAX where `last`, else MIN.
        largest: whether the largest element wins; elements are complemented where it and `last`
            do not want the same integers.
        last: whether the last of equal elements wins.
        index_type: the index's, when it is taken apart.
        zeros_tie: whether -0.0 equals 0.0 (and comes back as that), else it is the smaller.
    """

    extreme: Fold
    largest: bool
    last: bool
    index_type: np.dtype
    zeros_tie: bool = True

    def most(self, dtype: np.dtype) -> int:
        """How many elements have indices that fit beside them; 0 if there is no room."""
        return 1 << _index_bits(dtype) if dtype.itemsize <= 4 else 0

    def through(self, stage: Callable[[Fold, Parts, Combine], Parts], x: jax.Array) -> Parts:
        """(element, index), by a stage that starts the integers of x and reduces them."""
        integer, bits = _integer(x.dtype), _index_bits(x.dtype)
        kind = replace(self.extreme, types=lambda _: (integer,), start=self._packed, locates=True)
        with jax.enable_x64(True):
            (best,) = stage(kind, (x,), kind.combine)
            index = _low_bits(best, bits)
            value = lax.convert_element_type(best >> integer.type(bits), np.int32)
        index = lax.convert_element_type(index, self.index_type)
        value = self._complemented(value)
        return _element(value, x.dtype, self.zeros_tie), index

    @functools.partial(jax.jit, static_argnums=0)  # traced once, and not for each piece
    def _packed(self, x: jax.Array) -> Parts:
        """Each above the index 0."""
        integer = _integer(x.dtype)
        value = self._complemented(_ordered(x, self.largest, self.zeros_tie))
        value = lax.convert_element_type(value, integer)
        return (value << integer.type(_index_bits(x.dtype)),)

    def _complemented(self, value: jax.Array) -> jax.Array:
        return value if self.largest == self.last else ~value


def _integer(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.int32 if dtype.itemsize < 4 else np.int64)


def _low_bits(x: jax.Array, count: int) -> jax.Array:
    """As one function of one operand where there is one, which XLA's GPU puts behind a reduction.

    H100, jax 0.11.2, us, ARGMAX over 3 of [8, 64, 256, 256], by a mask and so, FLOAT16 28.9, 27.3;
    UINT8 15.6, 14.5. A function of 64-bit integers would be traced where JAX may not have them.
    """
    if count in (16, 32):
        return lax.convert_element_type(x, np.dtype(f"uint{count}"))
    return epilogue(lambda x: x & x.dtype.type((1 << count) - 1), x)


def _index_bits(dtype: np.dtype) -> int:
    return 8 * (_integer(dtype).itemsize - dtype.itemsize)


def _lowest(dtype: np.dtype) -> np.int32:
    """Of the signed integers that are as wide."""
    return np.int32(-1 << (8 * dtype.itemsize - 1))


def _ordered(x: jax.Array, largest: bool, zeros_tie: bool) -> jax.Array:
    """As int32, in as many bits as an element has."""
    lowest = _lowest(x.dtype)
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return lax.convert_element_type(x, np.int32) + lowest
    if jnp.issubdtype(x.dtype, jnp.signedinteger):
        return lax.convert_element_type(x, np.int32)
    bits = lax.convert_element_type(lax.bitcast_convert_type(x, signed_type(x.dtype)), np.int32)
    magnitude, sign = bits & ~lowest, bits >> np.int32(31)
    # By the bits: with x != x, XLA takes negative denormals for NaN on a GPU (jax 0.11.2, H200).
    infinite = np.int32(x.dtype.type(np.inf).view(signed_type(x.dtype)))
    is_nan = magnitude > infinite if x.dtype.itemsize < 4 else x != x
    value = (magnitude ^ sign) - sign if zeros_tie else magnitude ^ sign
    return where(is_nan, ~lowest if largest else -~lowest, value)


def _element(value: jax.Array, dtype: np.dtype, zeros_tie: bool) -> jax.Array:
    """The inverse."""
    lowest = _lowest(dtype)
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        return lax.convert_element_type(value - lowest, dtype)
    if jnp.issubdtype(dtype, jnp.signedinteger):
        return lax.convert_element_type(value, dtype)
    bits = where(value < 0, lowest - value if zeros_tie else value ^ ~lowest, value)
    return lax.bitcast_convert_type(lax.convert_element_type(bits, signed_type(dtype)), dtype)
