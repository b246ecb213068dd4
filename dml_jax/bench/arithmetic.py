"""The arithmetic of a program, and of a product that finds the peak of a device."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from dml_jax.errors import DmlError, Fault
from dml_jax.tensor import TensorDesc


def product(x: jax.Array, y: jax.Array) -> jax.Array:
    """Multiply matrices in full precision: the peak is the rate of XLA's program for this."""
    return lax.dot(x, y, precision=lax.Precision.HIGHEST, preferred_element_type=x.dtype)


def operations(function: Callable[..., Any], inputs: Sequence[TensorDesc]) -> float:
    """Return the floating-point operations of a call, as XLA counts them in a CPU's plain program.

    A function such as exp counts as one operation. The count is the same on all platforms: on a GPU
    products and convolutions are calls of libraries, which XLA does not count. Raises `DmlError` if
    JAX has no CPU.
    """
    try:
        host = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        rule = "name cpu too, such as cuda,cpu: operations are counted in the program of a CPU"
        value = os.environ.get("JAX_PLATFORMS", "")
        raise DmlError([Fault("", "JAX_PLATFORMS", rule, value)]) from None
    shapes = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in inputs]
    with jax.default_device(host):
        return _counted(jax.make_jaxpr(function)(*shapes))


def _counted(program: ClosedJaxpr) -> float:
    total = _once(program)
    for loop in _loops(program.jaxpr):
        body = loop.params["jaxpr"]
        total += loop.params["length"] * _counted(body) - _once(body)
    return total


def _once(program: ClosedJaxpr) -> float:
    """Return the count of XLA, which counts the body of a loop once."""
    work = jax.jit(jaxpr_as_fun(program)).lower(*program.in_avals).cost_analysis() or {}
    return work.get("flops", 0.0) + work.get("transcendentals", 0.0)


def _loops(jaxpr: Any) -> Iterator[Any]:
    """Yield the loops of a known length that are in no other loop."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "scan":
            yield equation
            continue
        for inner in jax.tree.leaves(tuple(equation.params.values())):
            if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                yield from _loops(getattr(inner, "jaxpr", inner))
