"""Programs of JAX as ONNX nodes: a node or some for each primitive of the traced program."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from dml_jax.onnx.writer import FOLDED_MAX, Value, Writer, unwritten

_FLOAT0 = jax.dtypes.float0  # the type of gradients of integers, which hold nothing


def _stored(dtype: Any) -> np.dtype:
    return np.dtype(bool if dtype == _FLOAT0 else dtype)


Written = Callable[["Equation"], Any]

PRIMITIVES: dict[str, Written] = {}
"""What writes a primitive of JAX, by its name: takes an `Equation`, returns the value or values."""


def writes(*primitives: str) -> Callable[[Written], Written]:
    """Register what writes some primitives of JAX."""

    def register(function: Written) -> Written:
        PRIMITIVES.update(dict.fromkeys(primitives, function))
        return function

    return register


_PROGRAMS = {"jaxpr", "call_jaxpr", "fun_jaxpr", "branches", "body_jaxpr", "platforms"}
"""The parameters of primitives that run programs, whose steps are computed one by one."""


class Equation:
    """One step of a program, as what writes it reads it.

    Args:
        writer: adds nodes.
        eqn: the step.
        inputs: its inputs.
    """

    def __init__(self, writer: Writer, eqn: JaxprEqn, inputs: Sequence[Value]):
        self.writer, self.inputs, self.params = writer, inputs, eqn.params
        self.name: str = eqn.primitive.name
        self.types = [(_stored(v.aval.dtype), tuple(v.aval.shape)) for v in eqn.outvars]

    def __getitem__(self, index: int) -> Value:
        return self.inputs[index]

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the first output."""
        return self.types[0][0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the first output."""
        return self.types[0][1]


def write_program(
    writer: Writer, jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[Value]
) -> list[Value]:
    """Write a traced program; return its outputs.

    Args:
        writer: adds nodes.
        jaxpr: the program.
        constants: the arrays or values that it is closed over.
        inputs: its inputs.

    Raises `DmlError` for a primitive that has no nodes of ONNX.
    """
    known: dict[Any, Value] = {}

    def read(x: Any) -> Value:
        if not isinstance(x, Literal):
            return known[x]
        if x.aval.dtype == _FLOAT0:
            return writer.constant(np.zeros(x.aval.shape, bool))
        return writer.constant(np.asarray(x.val, x.aval.dtype))

    for var, array in zip(jaxpr.constvars, constants, strict=True):
        known[var] = array if isinstance(array, Value) else writer.constant(np.asarray(array))
    known.update(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        values = _folded(writer, eqn, [read(x) for x in eqn.invars])
        known.update(zip(eqn.outvars, values, strict=True))
    return [read(x) for x in jaxpr.outvars]


def write_closed(writer: Writer, closed: ClosedJaxpr, inputs: Sequence[Value]) -> list[Value]:
    """Write a traced program with its constants; return its outputs."""
    return write_program(writer, closed.jaxpr, closed.consts, inputs)


def write_function(writer: Writer, function: Callable[..., Any], *inputs: Value) -> list[Value]:
    """Trace a function of arrays like `inputs`, and write it; return its outputs."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    return write_closed(writer, jax.make_jaxpr(function)(*shapes), inputs)


def _folded(writer: Writer, eqn: JaxprEqn, inputs: Sequence[Value]) -> list[Value]:
    """Return the outputs of a step: computed, where that takes small constants alone."""
    if any(jax.dtypes.issubdtype(v.aval.dtype, jax.dtypes.extended) for v in eqn.outvars):
        raise unwritten(f"the primitive '{eqn.primitive.name}' of JAX")
    size = sum(int(np.prod(v.aval.shape)) * v.aval.dtype.itemsize for v in eqn.outvars)
    is_known = all(x.array is not None for x in inputs) and size <= FOLDED_MAX
    if is_known and not eqn.effects and not _PROGRAMS.intersection(eqn.params):
        results: Any = eqn.primitive.bind(*(x.array for x in inputs), **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        return [writer.constant(np.asarray(x)) for x in results]
    function = _primitives().get(eqn.primitive.name)
    if function is None:
        raise unwritten(f"the primitive '{eqn.primitive.name}' of JAX")
    made = function(Equation(writer, eqn, inputs))
    return list(made) if isinstance(made, (list, tuple)) else [made]


@functools.cache
def _primitives() -> dict[str, Written]:
    from dml_jax.onnx import primitives

    for module in pkgutil.iter_modules(primitives.__path__, f"{primitives.__name__}."):
        importlib.import_module(module.name)
    return PRIMITIVES
