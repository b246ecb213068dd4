"""The primitives of this package: each is written as its plain form, which says what it means."""

import functools

from dml_jax.lowering.primitives import MEANINGS
from dml_jax.onnx.writing.jaxpr_nodes import Equation, write_function, writes
from dml_jax.onnx.writing.writer import Value


@writes(*MEANINGS)
def own(eqn: Equation) -> list[Value]:
    meaning = functools.partial(MEANINGS[eqn.name], **eqn.params)
    return write_function(eqn.writer, meaning, *eqn.inputs)
