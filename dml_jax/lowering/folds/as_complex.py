"""Two things of 32 bits that a reduction keeps as one complex number, for an NVIDIA GPU.

Behind a reduction of one array XLA puts, in the same kernel, what takes nothing but its result; of
a loop over one array, all that reads it. And it reduces rows of one array faster, and does not
store what makes them, as it may of two (on an H100 it does). H200, jax 0.11.2, us, as two arrays
and so, of [8, 64, 256, 256]:

    LOG_SUM_EXP  over 3 FLOAT32 41, 37 (an H100 106, 50); over 1 39, 36, FLOAT16 30, 28
    ARGMAX       over 3 FLOAT32 36, 35; over 1 38, 37, FLOAT16 26, 24
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.lowering.axes import Parts
from dml_jax.lowering.folds.fold import Combine


def fit(parts: Parts) -> bool:
    """Whether these are two things of 32 bits."""
    return [part.dtype.itemsize for part in parts] == [4, 4]


def is_one(parts: Parts) -> bool:
    """Whether this is one number."""
    return parts[0].dtype == np.complex64


def apart(types: Sequence[np.dtype], parts: Parts) -> Parts:
    """Of one number the two things, of such types; else the parts."""
    if not is_one(parts):
        return parts
    halves = lax.real(*parts), lax.imag(*parts)
    return tuple(map(lax.bitcast_convert_type, halves, types))


def reduced(
    over: Callable[..., Any], combine: Combine, identity: Sequence[Any], parts: Parts
) -> Parts:
    """`over(parts, identity, pair)` of parts that `fit`, by `combine` of pairs: one number."""
    types = [part.dtype for part in parts]

    def pair(a: jax.Array, b: jax.Array) -> jax.Array:
        return _one(combine([apart(types, (a,)), apart(types, (b,))]))

    bits = [value.view(np.float32) for value in map(np.asarray, identity)]
    none = np.stack(bits).view(np.complex64)[0]
    return (over(_one(parts), none, pair),)


def _one(parts: Parts) -> jax.Array:
    return lax.complex(*(lax.bitcast_convert_type(part, np.float32) for part in parts))
