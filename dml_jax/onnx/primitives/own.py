"""The primitives of this package: each is written as its plain form, which says what it means."""

import functools

from dml_jax.onnx.programs import Equation, write_closed, write_function, writes
from dml_jax.onnx.writer import Value


@writes("dml_elements")
def elements(eqn: Equation) -> list[Value]:
    function, attributes = eqn.params["function"], eqn.params["attributes"]
    return write_function(eqn.writer, lambda *xs: function.plain(*xs, *attributes), *eqn.inputs)


@writes("dml_placed")
def placed(eqn: Equation) -> list[Value]:
    return write_closed(eqn.writer, eqn.params["default"], eqn.inputs)


@writes("dml_reduce")
def reduction(eqn: Equation) -> list[Value]:
    kind, axes = eqn.params["kind"], eqn.params["axes"]
    return write_function(eqn.writer, functools.partial(kind.plain, axes=axes), *eqn.inputs)
