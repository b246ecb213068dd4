"""Calls that XLA does not inline on a CPU, so that what they return is computed once and stored."""

from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata


@jax.jit  # in a call of its own, or each eager derivative would compile it again
def stored(x: Any) -> Any:
    """The arrays of a tree, which XLA does not fuse on a CPU with what reads them.

    For what is small and read by much: the maxima of 64 rows, compared with each element of them,
    would be computed 64 times. Elsewhere a reduction is a kernel's end.
    """
    return lax.platform_dependent(x, cpu=in_memory, default=lambda x: x)


def in_memory(x: Any) -> Any:
    """The same where it is a CPU."""
    return in_a_call(lax.optimization_barrier, x)


def in_a_call(function: Callable[..., Any], *xs: Any) -> Any:
    """What the function returns, from a call that XLA does not inline."""
    with set_xla_metadata(inlineable="false"):
        return jax.jit(function)(*xs)
