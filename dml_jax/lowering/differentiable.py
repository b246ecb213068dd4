"""Functions whose derivatives are rules, as a primitive.

`jax.custom_jvp` drops its rule where the body of a loop (`lax.scan`) is differentiated: a second
derivative is then that of what the function is made of, which has none (a fold), or another (the
bits of floats). A primitive keeps it.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

R = TypeVar("R")

DIFFERENTIABLE = Primitive("dml_differentiable")
DIFFERENTIABLE.multiple_results = True


class Differentiable(Generic[R]):
    """A function of arrays, and of so many static arguments behind them.

    Its rule, which `defjvp` takes, is as that of a `jax.custom_jvp` whose `nondiff_argnums` these
    are. One that is `linear` is transposed as its derivative is, and is its own where it has no
    rule.
    """

    def __init__(self, function: Callable[..., R], static: int, linear: bool):
        self.function = function
        self.static = static
        self.linear = linear
        self.rule = self._itself
        functools.update_wrapper(self, function)

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        self.rule = rule
        return rule

    def _itself(self, *args: Any) -> tuple[Any, Any]:
        """The rule of what is linear. Under jit: an eager transpose would be compiled each time."""
        assert self.linear
        *static, xs, dxs = args
        places = range(len(xs), len(xs) + len(static))
        return self(*xs, *static), jax.jit(self.function, static_argnums=places)(*dxs, *static)

    def __call__(self, *args: Any) -> R:
        if not any(isinstance(x, Tracer) for x in args):
            return self.function(*args)
        count = len(args) - self.static
        applied = _Applied(self, tuple(args[count:]))
        program = jax.make_jaxpr(applied.call)(*args[:count])
        results = DIFFERENTIABLE.bind(*args[:count], applied=applied, program=program)
        return results[0] if len(results) == 1 else tuple(results)  # pyright: ignore[reportReturnType]


def differentiable(
    *, static: int = 0, linear: bool = False
) -> Callable[[Callable[..., R]], Differentiable[R]]:
    """Makes a function a `Differentiable`."""
    return lambda function: Differentiable(function, static, linear)


@dataclass(frozen=True)
class _Applied:
    """To static arguments."""

    of: Differentiable[Any]
    static: tuple[Any, ...]

    def call(self, *xs: Any) -> list[Any]:
        return jax.tree.leaves(self.of.function(*xs, *self.static))

    def jvp(self, xs: Sequence[Any], dxs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        results, tangents = self.of.rule(*self.static, tuple(xs), tuple(dxs))
        return jax.tree.leaves(results), jax.tree.leaves(tangents)

    @property
    def linear(self) -> bool:
        return self.of.linear


@dataclass(frozen=True)
class _Mapped:
    """Over axes of its arguments, by `jax.vmap`."""

    of: "_Applied | _Mapped"
    dims: tuple[int | None, ...]

    def call(self, *xs: Any) -> list[Any]:
        return jax.vmap(self.of.call, self.dims)(*xs)

    def jvp(self, xs: Sequence[Any], dxs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        dims = tuple(None if dx is None else d for d, dx in zip(self.dims, dxs, strict=True))
        return jax.vmap(self.of.jvp, (self.dims, dims))(tuple(xs), tuple(dxs))

    @property
    def linear(self) -> bool:
        return self.of.linear


@DIFFERENTIABLE.def_impl
def _evaluated(*xs: Any, applied: Any, program: ClosedJaxpr) -> list[Any]:
    return applied.call(*xs)


@DIFFERENTIABLE.def_abstract_eval
def _types(*_: Any, applied: Any, program: ClosedJaxpr) -> list[Any]:
    return program.out_avals


def _lowered(ctx: Any, *xs: Any, applied: Any, program: ClosedJaxpr) -> Any:
    return mlir.lower_fun(jaxpr_as_fun(program), multiple_results=True)(ctx, *xs)


def _jvp(primals: Any, tangents: Any, *, applied: Any, program: ClosedJaxpr) -> Any:
    if all(type(dx) is ad.Zero for dx in tangents):
        results = DIFFERENTIABLE.bind(*primals, applied=applied, program=program)
        return results, [ad.Zero(jax.typeof(y).to_tangent_aval()) for y in results]
    return applied.jvp(primals, list(map(_tangent, tangents)))


def _tangent(dx: Any) -> Any:
    """None, where there can be none."""
    aval: Any = dx.aval if type(dx) is ad.Zero else None
    is_none = aval is not None and aval.dtype == jax.dtypes.float0
    return None if is_none else ad.instantiate_zeros(dx)


def _transposed(cotangents: Any, *xs: Any, applied: Any, program: ClosedJaxpr) -> list[Any]:
    if not applied.linear:
        raise NotImplementedError("what is not linear has no transpose")
    places = [i for i, x in enumerate(xs) if ad.is_undefined_primal(x)]
    types = [jax.ShapeDtypeStruct(xs[i].aval.shape, xs[i].aval.dtype) for i in places]

    def linear(*dxs: Any) -> list[Any]:
        primals, tangents = list(xs), [None] * len(xs)
        for i, dx in zip(places, dxs, strict=True):
            primals[i], tangents[i] = jax.lax.full_like(dx, 0), dx
        return applied.jvp(primals, tangents)[1]

    found = jax.linear_transpose(linear, *types)(list(map(ad.instantiate_zeros, cotangents)))
    results: list[Any] = [None] * len(xs)
    for i, ct in zip(places, found, strict=True):
        results[i] = ct
    return results


def _batched(xs: Any, dims: Any, *, applied: Any, program: ClosedJaxpr) -> Any:
    mapped = _Mapped(applied, tuple(dims))
    program = jax.make_jaxpr(mapped.call)(*xs)
    results = DIFFERENTIABLE.bind(*xs, applied=mapped, program=program)
    return results, [0] * len(results)


mlir.register_lowering(DIFFERENTIABLE, _lowered)
ad.primitive_jvps[DIFFERENTIABLE] = _jvp
ad.primitive_transposes[DIFFERENTIABLE] = _transposed
batching.primitive_batchers[DIFFERENTIABLE] = _batched
