"""Programs of JAX as ONNX nodes: a node or some for each primitive of the traced program."""

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import dtypes
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal

from dml_jax.onnx.writing.writer import FOLDED_MAX, Value, Writer, unwritten


def _type_of(x: Any) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the type and the shape of a variable of a program."""
    return np.dtype(bool if x.aval.dtype == dtypes.float0 else x.aval.dtype), tuple(x.aval.shape)


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
        self.types = [_type_of(v) for v in eqn.outvars]

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


def write_closed_jaxpr(writer: Writer, closed: ClosedJaxpr, inputs: Sequence[Value]) -> list[Value]:
    """Write a traced program with its constants; return its outputs.

    Raises `DmlError` for a primitive that has no nodes of ONNX.
    """
    known: dict[Any, Value] = {}

    def read(x: Any) -> Value:
        if not isinstance(x, Literal):
            return known[x]
        (dtype, shape), aval = _type_of(x), cast(Any, x.aval)
        is_empty = aval.dtype == dtypes.float0  # gradients of integers, which hold nothing
        return writer.constant(np.zeros(shape, bool) if is_empty else np.asarray(x.val, dtype))

    for value in closed.consts:
        if jnp.issubdtype(jnp.result_type(value), dtypes.extended):
            raise unwritten("a random key of jax.random")
    jaxpr, constants = closed.jaxpr, map(writer.constant, closed.consts)
    known.update(zip(jaxpr.constvars, constants, strict=True))
    known.update(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        values = _fold(writer, eqn, [read(x) for x in eqn.invars])
        known.update(zip(eqn.outvars, values, strict=True))
    return [read(x) for x in jaxpr.outvars]


def write_function(writer: Writer, function: Callable[..., Any], *inputs: Value) -> list[Value]:
    """Trace a function of arrays like `inputs`, and write it; return its outputs."""
    shapes = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    return write_closed_jaxpr(writer, jax.make_jaxpr(function)(*shapes), inputs)


def _fold(writer: Writer, eqn: JaxprEqn, inputs: Sequence[Value]) -> list[Value]:
    """Return the outputs of a step: computed, where that takes small constants alone."""
    avals: list[Any] = [v.aval for v in eqn.outvars]
    if any(jnp.issubdtype(a.dtype, dtypes.extended) for a in avals):
        raise unwritten(f"the primitive '{eqn.primitive.name}' of JAX")
    size = sum(math.prod(a.shape) * a.dtype.itemsize for a in avals)
    is_known = all(x.array is not None for x in inputs) and size <= FOLDED_MAX
    if is_known and not eqn.effects and not _PROGRAMS.intersection(eqn.params):
        results = jax.tree.leaves(eqn.primitive.bind(*(x.array for x in inputs), **eqn.params))
        # A number that is repeated stays a number: a reader would take all its copies for a weight.
        is_repeated = eqn.primitive.name == "broadcast_in_dim" and results[0].dtype.kind == "f"
        if not is_repeated or results[0].size == math.prod(inputs[0].shape):
            return [writer.constant(np.asarray(x)) for x in results]
    function = PRIMITIVES.get(eqn.primitive.name)
    if function is None:
        raise unwritten(f"the primitive '{eqn.primitive.name}' of JAX")
    made = function(Equation(writer, eqn, inputs))
    return list(made) if isinstance(made, (list, tuple)) else [made]
