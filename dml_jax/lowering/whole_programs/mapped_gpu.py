"""Whole programs that only map elements, on a GPU: by the pieces that its threads write."""

from collections.abc import Sequence
from typing import Any

import jax

from dml_jax.lowering.whole_programs import pieces_gpu
from dml_jax.lowering.whole_programs.mapping import mapped, shape_of_all


def in_pieces(program: Any, xs: Sequence[jax.Array]) -> list[jax.Array] | None:
    """The result of a traced program; None where it does more than to map."""
    if len(program.out_avals) != 1 or any(x.shape == () for x in xs):
        return None
    if shape_of_all(program) is None:
        return None

    def one(*xs: jax.Array) -> jax.Array:
        (y,) = mapped(program, xs, lambda shape: xs[0].shape if shape else ())
        return y

    return [pieces_gpu.elementwise(one, *xs)]
