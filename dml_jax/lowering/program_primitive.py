"""The primitive of a program whose derivatives are programs of the same kind.

JAX has no reverse mode of a loop whose length data say, for which it would have to store the steps,
and no batch of two arrays of a convolution whose size is a symbol of an export.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import sequential_vmap
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters import ad

from dml_jax.lowering.axes import are_known
from dml_jax.lowering.primitives import register, transpose_program


def whole(function: Callable[..., Any], *xs: Any, in_steps: bool = False) -> list[jax.Array]:
    """Return what `function(*xs)` returns, a list of arrays, by one primitive.

    With `in_steps` it is the sum over the steps 0 to `xs[0]` - 1, which `function` gets in its
    place. Later steps have to give 0. A derivative computes again what it reads.
    """
    given = [np.int32(0), *xs[1:]] if in_steps else xs
    return PROGRAM.bind(*xs, program=jax.make_jaxpr(function)(*given), in_steps=in_steps)


def _meaning(*xs: Any, program: ClosedJaxpr, in_steps: bool) -> list[Any]:
    run = jaxpr_as_fun(program)
    if not in_steps:
        return run(*xs)

    def body(step: Any, totals: list[Any]) -> list[Any]:
        return jax.tree.map(jnp.add, totals, run(lax.convert_element_type(step, np.int32), *xs[1:]))

    zeros = [lax.full_like(xs[1], 0, y.dtype, y.shape) for y in program.out_avals]
    return lax.fori_loop(0, xs[0], body, zeros)


def _jvp(primals: Any, tangents: Any, program: ClosedJaxpr, in_steps: bool) -> Any:
    moving = [k for k, dx in enumerate(tangents) if type(dx) is not ad.Zero]
    count = len(primals)

    def slopes(*both: Any) -> Any:
        def of_moving(*ys: Any) -> Any:
            xs = dict(enumerate(both[:count])) | dict(zip(moving, ys, strict=True))
            return jaxpr_as_fun(program)(*xs.values())

        return jax.jvp(of_moving, tuple(both[k] for k in moving), both[count:])[1]

    results = PROGRAM.bind(*primals, program=program, in_steps=in_steps)
    return results, whole(slopes, *primals, *(tangents[k] for k in moving), in_steps=in_steps)


def _transpose(cotangents: Any, *xs: Any, program: ClosedJaxpr, in_steps: bool) -> list[Any]:
    return transpose_program(program, xs, cotangents, functools.partial(whole, in_steps=in_steps))


def _batch(xs: Any, dims: Any, program: ClosedJaxpr, in_steps: bool) -> Any:
    run = jaxpr_as_fun(program)
    if in_steps:
        xs, dims = [jnp.max(xs[0]), *xs[1:]], [None, *dims[1:]]
    sizes = [x.shape[d] for x, d in zip(xs, dims, strict=True) if d is not None]
    if not in_steps and len(sizes) > 1 and not are_known(sizes):
        run = sequential_vmap(run)
    results = whole(jax.vmap(run, dims), *xs, in_steps=in_steps)
    return results, [0] * len(results)


PROGRAM = register(
    "dml_program",
    _meaning,
    types=lambda *_, program, in_steps: program.out_avals,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    is_compiled=False,
)
