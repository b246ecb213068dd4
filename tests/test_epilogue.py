"""What becomes of a reduction's results, as one operation of a GPU's kernel."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir
from test_reduce import make

from dml_jax.bindable import whole_program
from dml_jax.lowering import epilogue

mapped = Primitive("mapped_on_any_platform")
mapped.def_abstract_eval(epilogue._shape)
mlir.register_lowering(mapped, epilogue._mapped)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / np.float32(3),
        lambda x: lax.convert_element_type(lax.log(x * x + np.float32(1)), np.float16),
        lambda x: lax.bitcast_convert_type(x, np.int32) ^ np.int32(5),
        lambda x: lax.real(lax.complex(x, x)) + lax.imag(lax.complex(x, -x)),
        lambda x: x,
    ],
)
@pytest.mark.parametrize("shape", [(), (7,), (3, 1, 5)])
def test_it_is_a_map(function: Callable[[jax.Array], jax.Array], shape: tuple[int, ...]):
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    program = jax.jit(lambda x: mapped.bind(x, function=function))
    assert "stablehlo.map" in program.lower(x).as_text()
    result, expected = program(x), jax.jit(function)(x)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("function", "dtype", "shape", "axes", "alone", "inside"),
    [
        ("AVERAGE", "float32", (64, 1000), (1,), True, False),
        ("AVERAGE", "float16", (64, 1000), (1,), True, False),
        ("AVERAGE", "float32", (64, 1000), (0, 1), True, False),
        ("AVERAGE", "float32", (4, 300, 64), (1,), True, False),
        ("AVERAGE", "float32", (4, 200, 64), (1,), False, False),  # Triton's
        ("AVERAGE", "float32", (40000, 1), (1,), False, False),  # nothing is reduced
        ("SUM", "float32", (64, 1000), (1,), False, False),
        ("L2", "float16", (64, 1000), (1,), False, False),  # a root has one operand
        ("LOG_SUM_EXP", "float32", (64, 1000), (1,), True, True),
        ("LOG_SUM_EXP", "float16", (64, 1000), (1,), True, True),
        ("MAX", "int32", (64, 1000), (1,), True, True),
        ("MAX", "int32", (1000, 64), (1,), False, False),
        ("MAX", "int32", (64, 1000), (0,), False, False),
        ("ARGMAX", "uint8", (64, 1000), (1,), True, True),
    ],
)
def test_where_it_is(
    function: str,
    dtype: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    alone: bool,
    inside: bool,
):
    """Where nothing else is to fuse with what is reduced, as `x - average(x)` does."""
    x = np.ones(shape, dtype)
    op = make(function, x, axes)
    for program, expected in ((whole_program(op), alone), (op, inside)):
        traced = jax.jit(program).trace(jax.ShapeDtypeStruct(shape, x.dtype))
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
        assert ("stablehlo.map" in text) == expected
        assert "stablehlo.map" not in traced.lower(lowering_platforms=("cpu",)).as_text()
