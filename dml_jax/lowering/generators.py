"""Arrays from numbers: constants, sequences, diagonals, and random bits."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import is_float
from dml_jax.lowering.rounding import as_float

# Philox4x32 with 10 rounds: its multipliers, and what is added to its key from round to round.
_ROUNDS = 10
_MULTIPLIERS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)


def number(value: float | int, dtype: np.dtype) -> Any:
    """Return a number that the type `dtype` holds as one of that type."""
    return dtype.type(value if is_float(dtype) else int(value))


def sequence(sizes: Sequence[int], dtype: np.dtype, start: Any, delta: Any) -> jax.Array:
    """Return `start + k * delta` for the row-major index k of each element.

    Floats are computed in float64 and rounded once; integers wrap.
    """
    k = lax.iota(jnp.uint32, math.prod(sizes)).reshape(sizes)
    start, delta = (jnp.asarray(number(v, dtype)) for v in (start, delta))
    with jax.enable_x64(True):
        wide = jnp.float64 if is_float(dtype) else dtype
        k, start, delta = (lax.convert_element_type(v, wide) for v in (k, start, delta))
        result = start + k * delta
        return as_float(result, dtype) if is_float(dtype) else result


def band(sizes: Sequence[int], begin: int, end: int) -> jax.Array:
    """Return where `begin <= x - y < end` for column x and row y of the last two dimensions.

    With begin > end, where that is not so for the two exchanged. Distances are modulo 2^32, which
    no two places of one tensor are apart.
    """
    height, width = sizes[-2:]
    low, high = (min(max(bound, 1 - height), width) for bound in sorted((begin, end)))
    x, y = (lax.broadcasted_iota(jnp.uint32, sizes, len(sizes) - d) for d in (1, 2))
    inside = x - y - jnp.uint32(low % 2**32) < jnp.uint32(high - low)
    return ~inside if begin > end else inside


def advanced(counter: Sequence[jax.Array], steps: jax.Array) -> list[jax.Array]:
    """Return a counter of four words, the lowest first, after `steps`; modulo 2^128."""
    words, carry = [], steps
    for word in counter:
        words.append(word + carry)
        carry = lax.convert_element_type(words[-1] < carry, jnp.uint32)
    return words


def _product(words: jax.Array, factor: np.uint32) -> tuple[jax.Array, jax.Array]:
    """Return the high and the low 32 bits of `words * factor`.

    Programs of several devices cannot have `lax.mulhi`, which JAX does not lower there.
    """
    with jax.enable_x64(True):
        whole = lax.convert_element_type(words, jnp.uint64) * jnp.uint64(factor)
        high = lax.convert_element_type(whole >> jnp.uint64(32), jnp.uint32)
    return high, words * factor


def philox(counter: Sequence[jax.Array], key: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Return the four words of Philox4x32-10 (Salmon and others, 2011) for each counter."""
    a, b, c, d = counter
    for _ in range(_ROUNDS):
        (high_a, low_a), (high_c, low_c) = map(_product, (a, c), _MULTIPLIERS)
        a, b, c, d = high_c ^ b ^ key[0], low_c, high_a ^ d ^ key[1], low_a
        key = [word + step for word, step in zip(key, _WEYL, strict=True)]
    return a, b, c, d


def random_bits(state: jax.Array, sizes: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    """Return random words by Philox4x32-10, and the state after them.

    `state` has the counter in its first four words and the key in the other two, the lowest word
    first. Elements 4i to 4i + 3 are the words of counter + i; each element is computed by itself,
    since to interleave four arrays takes longer.
    """
    words = [word.reshape(()) for word in jnp.split(state.reshape(6), 6)]
    counter, key = words[:4], words[4:]
    elements = math.prod(sizes)
    k = lax.iota(jnp.uint32, elements).reshape(sizes)
    word = lax.convert_element_type(k & jnp.uint32(3), jnp.int32)
    bits = lax.select_n(word, *philox(advanced(counter, k >> jnp.uint32(2)), key))
    after = advanced(counter, jnp.uint32(-(-elements // 4)))
    return bits, jnp.stack([*after, *key]).reshape(state.shape)
