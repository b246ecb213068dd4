"""What JAX has to know of a primitive, for all that this package has, and the one of programs."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import sequential_vmap
from jax.experimental import jet
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir, xla

from dml_jax.lowering.axes import are_known

MEANINGS: dict[str, Callable[..., Any]] = {}
"""What each primitive computes, by its name: of arrays and parameters, a list of results."""


def register(
    name: str,
    meaning: Callable[..., Any],
    *,
    types: Callable[..., Any],
    jvp: Callable[..., Any],
    transpose: Callable[..., Any],
    batch: Callable[..., Any],
    lower: Callable[..., Any] | None = None,
    is_compiled: bool = True,
) -> Primitive:
    """Return a primitive of several results, registered with all rules that JAX has.

    The rules have the arguments that JAX gives them. Taylor coefficients follow from `jvp`.

    Args:
        name: of the primitive in programs, the key of `MEANINGS`.
        meaning: what it computes, of arrays and parameters, in functions of JAX.
        types: the rule of the results' types.
        jvp: the rule of tangents.
        transpose: the rule of cotangents, by the arguments that it is linear in.
        batch: the rule of arrays with one axis more.
        lower: the rule of lowering; None lowers the meaning.
        is_compiled: whether a call outside of a program is compiled, and kept by its parameters.
    """
    meaning, primitive = _in_64_bits(meaning), Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(
        functools.partial(xla.apply_primitive, primitive) if is_compiled else meaning
    )
    primitive.def_abstract_eval(types)
    mlir.register_lowering(primitive, lower or mlir.lower_fun(meaning, multiple_results=True))
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    jet.jet_rules[primitive] = functools.partial(_taylor, primitive)
    MEANINGS[name] = meaning
    return primitive


def _in_64_bits(meaning: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes with 64-bit types where it reads such arrays.

    JAX may lower a program when the `jax.enable_x64` around its operations is left.
    """

    def run(*xs: Any, **params: Any) -> Any:
        is_wide = any(x.dtype.kind in "iuf" and x.dtype.itemsize == 8 for x in xs)
        with jax.enable_x64(True) if is_wide else contextlib.nullcontext():
            return meaning(*xs, **params)

    return run


def transpose_program(
    program: ClosedJaxpr,
    xs: Sequence[Any],
    cotangents: Any,
    run: Callable[..., Any] = lambda back, *given: back(*given),
) -> list[Any]:
    """Return the transpose of a program by its linear arguments, as JAX's rules return it.

    Of the arguments `xs`, those that it is linear in are undefined. `run` is called with a function
    and its arguments. `cotangents` are those of the results.
    """
    linear = [ad.is_undefined_primal(x) for x in xs]
    known = [x for x in xs if not ad.is_undefined_primal(x)]

    def back(*given: Any) -> Any:
        def forward(*moving: Any) -> Any:
            parts = iter(given), iter(moving)
            return jaxpr_as_fun(program)(*(next(parts[is_linear]) for is_linear in linear))

        types = [x.aval for x in xs if ad.is_undefined_primal(x)]
        return jax.linear_transpose(forward, *types)([*given[len(known) :]])

    found = iter(run(back, *known, *map(ad.instantiate_zeros, cotangents)))
    return [next(found) if is_linear else None for is_linear in linear]


def _taylor(primitive: Primitive, primals: Any, series: Any, **params: Any) -> tuple[Any, Any]:
    """Return the Taylor coefficients of the results: those of the derivative, integrated."""
    places = [k for k, x in enumerate(primals) if _is_smooth(x)]

    def function(*moving: Any) -> list[Any]:
        xs = dict(enumerate(primals)) | dict(zip(places, moving, strict=True))
        return [y for y in primitive.bind(*xs.values(), **params) if _is_smooth(y)]

    def slopes(*both: Any) -> list[Any]:
        return jax.jvp(function, both[: len(places)], both[len(places) :])[1]

    terms = [series[k] for k in places]
    rates = [[term * (k + 1) for k, term in enumerate(each)] for each in terms]
    starts = [*(primals[k] for k in places), *(rate[0] for rate in rates)]
    rests = [*(each[:-1] for each in terms), *(rate[1:] for rate in rates)]
    if rests[0]:
        firsts, rest = jet.jet(slopes, starts, rests, factorial_scaled=False)
    else:
        firsts = slopes(*starts)
        rest = [[]] * len(firsts)
    whole = ([first, *more] for first, more in zip(firsts, rest, strict=True))
    found = iter([rate / (k + 1) for k, rate in enumerate(rates)] for rates in whole)
    results = primitive.bind(*primals, **params)
    return results, [next(found) if _is_smooth(y) else jet.zero_series for y in results]


def _is_smooth(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, np.inexact)


# The primitive of a program whose derivatives are programs of the same kind. JAX has no reverse
# mode of a loop whose length data say, for which it would have to store the steps, and no batch of
# two arrays of a convolution whose size is a symbol of an export.


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
