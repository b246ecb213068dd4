"""The primitive of functions of each element whose derivatives are given, and not JAX's own.

JAX differentiates the steps of a formula. A step may leave the range of its type, or cancel, where
the derivative as a whole does not. A `jax.custom_jvp` would do, but in the second derivative of a
loop JAX drops its rule.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
from jax import lax
from jax.interpreters import ad

from dml_jax.lowering.axes import batched_first
from dml_jax.lowering.primitives import register

Rule = Callable[..., jax.Array]


class Differentiable:
    """A function of floats, with derivatives.

    It is of the elements at one place of arrays of one shape, or along axes counted from the end.

    Attributes:
        plain: the function, `plain(*arrays, *attributes)`.
        rules: what the tangent of each array adds to the tangent of the result:
            `rule(tangent, *arrays, *attributes)`, linear in the tangent.
        transpose: of a function that is linear in its first array, that array's cotangent:
            `transpose(cotangent, type, *other_arrays, *attributes)`, for an array of that type.
    """

    def __init__(
        self, plain: Callable[..., jax.Array], *rules: Rule, transpose: Rule | None = None
    ):
        self.plain, self.rules, self.transpose = plain, rules, transpose
        self._signature = inspect.signature(plain)
        functools.update_wrapper(self, plain)

    def __call__(self, *arguments: Any, **attributes: Any) -> jax.Array:
        """Return the function of arrays and attributes, these by place or by name."""
        given = self._signature.bind(*arguments, **attributes).args
        count = len(self.rules)
        return ELEMENTS.bind(*given[:count], function=self, attributes=given[count:])[0]


def derived_by(
    *rules: Rule, transpose: Rule | None = None
) -> Callable[[Callable[..., jax.Array]], Differentiable]:
    """Make a function differentiable by these rules, one for each array."""
    return lambda plain: Differentiable(plain, *rules, transpose=transpose)


def _plain(*xs: Any, function: Differentiable, attributes: tuple[Any, ...]) -> list[jax.Array]:
    return [function.plain(*xs, *attributes)]


def _types(*xs: Any, **params: Any) -> Any:
    return jax.make_jaxpr(functools.partial(_plain, **params))(*xs).out_avals


def _jvp(primals: Any, tangents: Any, *, function: Differentiable, attributes: Any) -> Any:
    (y,) = ELEMENTS.bind(*primals, function=function, attributes=attributes)
    terms = [
        rule(dx, *primals, *attributes)
        for rule, dx in zip(function.rules, tangents, strict=True)
        if type(dx) is not ad.Zero
    ]
    zero = ad.Zero(jax.typeof(y).to_tangent_aval())
    return [y], [functools.reduce(ad.add_tangents, terms, zero)]


def _transpose(cotangents: Any, x: Any, *others: Any, function: Any, attributes: Any) -> Any:
    if function.transpose is None or any(map(ad.is_undefined_primal, others)):
        raise NotImplementedError(f"{function.__name__} is not linear")
    (given,) = cotangents
    ct: Any = ad.Zero(x.aval)
    if type(given) is not ad.Zero:
        ct = function.transpose(given, x.aval, *others, *attributes)
        if jax.typeof(ct) != x.aval:  # devices share it otherwise than `x`, as in a product
            (ct,) = jax.linear_transpose(lambda x: x * lax.full_like(ct, 1), x.aval)(ct)
    return [ct, *[None] * len(others)]


def _batch(xs: Any, dims: Any, **params: Any) -> Any:
    return ELEMENTS.bind(*batched_first(xs, dims), **params), [0]


ELEMENTS = register(
    "dml_elements", _plain, types=_types, jvp=_jvp, transpose=_transpose, batch=_batch
)
