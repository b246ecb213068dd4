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
from jax.experimental import jet
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir, xla

from dml_jax.lowering.axes import batched_first

ELEMENTS = Primitive("dml_elements")
Rule = Callable[..., jax.Array]


class Differentiable:
    """A function of the floats at one place of arrays of one shape and type, with derivatives.

    Attributes:
        plain: the function, `plain(*arrays, *attributes)`.
        rules: what the tangent of each array adds to the tangent of the result:
            `rule(tangent, *arrays, *attributes)`, linear in the tangent.
        linear: whether the function is linear in its first array.
    """

    def __init__(self, plain: Callable[..., jax.Array], *rules: Rule, linear: bool = False):
        self.plain, self.rules, self.linear = plain, rules, linear
        self._signature = inspect.signature(plain)
        functools.update_wrapper(self, plain)

    def __call__(self, *arguments: Any, **attributes: Any) -> jax.Array:
        """Return the function of arrays and attributes, these by place or by name."""
        given = self._signature.bind(*arguments, **attributes).args
        count = len(self.rules)
        return ELEMENTS.bind(*given[:count], function=self, attributes=given[count:])


def derived_by(
    *rules: Rule, linear: bool = False
) -> Callable[[Callable[..., jax.Array]], Differentiable]:
    """Make a function differentiable by these rules, one for each array."""
    return lambda plain: Differentiable(plain, *rules, linear=linear)


def _plain(*xs: Any, function: Differentiable, attributes: tuple[Any, ...]) -> jax.Array:
    return function.plain(*xs, *attributes)


def _type(*xs: Any, **params: Any) -> Any:
    return jax.make_jaxpr(functools.partial(_plain, **params))(*xs).out_avals[0]


def _jvp(primals: Any, tangents: Any, *, function: Differentiable, attributes: Any) -> Any:
    y = ELEMENTS.bind(*primals, function=function, attributes=attributes)
    terms = [
        rule(dx, *primals, *attributes)
        for rule, dx in zip(function.rules, tangents, strict=True)
        if type(dx) is not ad.Zero
    ]
    zero = ad.Zero(jax.typeof(y).to_tangent_aval())
    return y, functools.reduce(ad.add_tangents, terms, zero)


def _transposed(cotangent: Any, x: Any, *others: Any, function: Any, attributes: Any) -> Any:
    if not function.linear or any(map(ad.is_undefined_primal, others)):
        raise NotImplementedError(f"{function.__name__} is not linear")
    ct: Any = ad.Zero(x.aval)
    if type(cotangent) is not ad.Zero:
        ct = function(cotangent, *others, *attributes)
        if jax.typeof(ct) != x.aval:  # devices share it otherwise than `x`, as in a product
            (ct,) = jax.linear_transpose(lambda x: x * lax.full_like(ct, 1), x.aval)(ct)
    return [ct, *[None] * len(others)]


def _batched(xs: Any, dims: Any, **params: Any) -> tuple[Any, int]:
    if len(xs) == 1:
        return ELEMENTS.bind(*xs, **params), dims[0]
    return ELEMENTS.bind(*batched_first(xs, dims), **params), 0


def _taylor(primals: Any, series: Any, **params: Any) -> Any:
    return jet.jet(functools.partial(_plain, **params), primals, series, factorial_scaled=False)


ELEMENTS.def_impl(functools.partial(xla.apply_primitive, ELEMENTS))
ELEMENTS.def_abstract_eval(_type)
mlir.register_lowering(ELEMENTS, mlir.lower_fun(_plain, multiple_results=False))
ad.primitive_jvps[ELEMENTS] = _jvp
ad.primitive_transposes[ELEMENTS] = _transposed
batching.primitive_batchers[ELEMENTS] = _batched
jet.jet_rules[ELEMENTS] = _taylor
