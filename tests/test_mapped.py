"""Programs that map each element by itself, cut and join, on a CPU: what their loops are over."""

import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import in_form
from jax import lax

import dml_jax
from dml_jax import (
    ElementWiseClip,
    ElementWiseClipGrad,
    GraphBuilder,
    Split,
    TensorDesc,
    functional,
)
from dml_jax.lowering import loops_cpu

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="the form is for CPUs")

SIZES = (6, 20, 64, 33)
X = np.random.default_rng(3).integers(0, 200, SIZES).astype(np.uint8)


def loops(text: str) -> list[str]:
    """The shapes that the loops of a program are over, those of calls included."""
    return re.findall(r"= \w+\[([\d,]*)\]\S* fusion\(", text)


def _compiled(function: Callable[..., Any], *xs: Any) -> Any:
    return jax.jit(in_form("cpu", function)).lower(*xs).compile()


@pytest.mark.parametrize(
    ("sizes", "rows"),
    [
        (SIZES, "120,2112"),
        ((330, 1, 28, 28), "330,784"),
        ((6, 1, 20, 64, 1, 33), "120,2112"),
        ((6, 20, 64, 33, 1), "120,2112"),
        ((1000, 40), "40000"),
        ((1001, 35), "91,385"),  # cores could not share it as one axis
        ((1, 1001, 35, 1), "91,385"),
        ((331 * 137,), "137,331"),
        ((6, 20, 64, 8), "120,512"),
        ((1000, 63, 3, 3), "1000,567"),
        ((6, 20, 64, 75), "6,20,64,75"),
        ((2, 2, 8, 33), "2,2,8,33"),
    ],
)
def test_short_rows_are_put_together(sizes: tuple[int, ...], rows: str):
    tensor = TensorDesc("UINT8", sizes)
    op = ElementWiseClip.infer(input_tensor=tensor, min=50, max=150)
    x = np.resize(X, sizes)
    compiled = dml_jax.compile(op)
    np.testing.assert_array_equal(compiled(x), x.clip(50, 150))
    assert loops(compiled.as_text()) == [rows]


def test_of_several_inputs_with_a_form_of_the_platform():
    tensor = TensorDesc("FLOAT16", SIZES)
    tensors = dict.fromkeys(ElementWiseClipGrad._tensor_fields, tensor)
    op = ElementWiseClipGrad(**tensors, min=50, max=150)
    x, gradient = X.astype(np.float16), X[::-1].astype(np.float16)
    compiled = dml_jax.compile(op)
    expected = np.where((x > 50) & (x < 150), gradient, np.float16(0))
    np.testing.assert_array_equal(compiled(x, gradient), expected)
    assert loops(compiled.as_text()) == ["120,2112"]


def test_a_graph_of_them():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("UINT8", SIZES))
    low = functional.clip(x, 50, 255)
    graph = builder.build([functional.clip(low, 0, 150), low])
    compiled = dml_jax.compile(graph)
    both, low = compiled(X)
    np.testing.assert_array_equal(both, X.clip(50, 150))
    np.testing.assert_array_equal(low, X.clip(50, 255))
    assert set(loops(compiled.as_text())) == {"120,2112"}


@pytest.mark.parametrize(
    ("sizes", "axis", "loops_over"),
    [
        (SIZES, 0, {"6,20,2112"}),
        (SIZES, 1, {"6,20,2112"}),
        ((60, 1, 28, 28), 0, {"60,784"}),
        ((20, 6, 64, 8, 17), 1, {"20,6,8704"}),
        (SIZES, 3, {"7680,33"}),  # by the places of a row
        ((50, 400, 9), 2, {"50,800", "50,2400", "50,400", "50,400,9"}),  # mapped apart
    ],
)
def test_what_is_cut_mapped_and_joined(sizes: tuple[int, ...], axis: int, loops_over: set[str]):
    """In one loop, over rows that are put together of the axes behind, if there are some."""
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("UINT8", sizes))
    count = sizes[axis]
    parts = functional.split(x, axis, [2, count - 3, 1])
    clipped = [functional.clip(part, 50, 150) for part in parts]
    compiled = dml_jax.compile(builder.build([functional.join(clipped[::-1], axis)]))
    x = np.resize(X, sizes)
    first, middle, last = np.split(x.clip(50, 150), [2, count - 1], axis)
    result = compiled(x)
    np.testing.assert_array_equal(result, np.concatenate([last, middle, first], axis))
    assert set(loops(compiled.as_text())) == loops_over


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64"])
@pytest.mark.parametrize(
    ("sizes", "axis", "rows"),
    [(SIZES, 1, {"6,6,2112", "6,14,2112"}), ((60, 64, 33), 1, {"60,627", "60,1485"})],
)
def test_split_moves_all_bits(sizes: tuple[int, ...], axis: int, rows: set[str], dtype: str):
    """In rows that begin with the axis that is cut where what is behind it is short."""
    width = np.dtype(dtype).itemsize
    x = np.frombuffer(np.random.default_rng(5).bytes(math.prod(sizes) * width), dtype)
    x = x.reshape(sizes)
    pieces = np.split(x, [sizes[axis] * 3 // 10], axis)
    outputs = [TensorDesc.of(piece) for piece in pieces]
    op = Split(input_tensor=TensorDesc.of(x), output_tensors=outputs, axis=axis)
    compiled = dml_jax.compile(op)
    for result, piece in zip(compiled(x), pieces, strict=True):
        assert np.asarray(result).tobytes() == piece.tobytes()
    assert set(loops(compiled.as_text())) == rows


@pytest.mark.parametrize(
    ("sizes", "cut", "rows"),
    [(SIZES, np.s_[2:5, :7], "3,7,2112"), ((6, 5, 4, 64, 33), np.s_[2:5], "3,20,2112")],
)
def test_what_is_cut_by_a_slice(sizes: tuple[int, ...], cut: Any, rows: str):
    x = np.resize(X, sizes)
    program = _compiled(lambda x: x[cut] + np.uint8(1), x)
    assert loops(program.as_text()) == [rows]
    np.testing.assert_array_equal(program(x), x[cut] + np.uint8(1))


def test_the_result_may_take_the_memory_of_the_input():
    x = jnp.asarray(X)
    op = ElementWiseClip.infer(input_tensor=TensorDesc("UINT8", SIZES), min=50, max=150)
    compiled = jax.jit(in_form("cpu", op.lower), donate_argnums=0).lower(x).compile()
    memory = compiled.memory_analysis()
    assert memory is not None
    assert memory.alias_size_in_bytes == X.nbytes
    assert memory.temp_size_in_bytes == 0
    np.testing.assert_array_equal(compiled(x), X.clip(50, 150))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[::-1] + x,  # moves
        lambda x: x + x[:1],  # other sizes
        lambda x: x ^ x.max(),  # (x - x.max() saturates in jaxlib 0.10.2)
        lambda x: lax.concatenate([x + x, x[..., ::2]], 3),
        lambda x: lax.concatenate([x + x, x], 2)[:, ::2],
        lambda x: [part + np.uint8(1) for part in lax.split(x, [33], 3)],
        lambda x: (x + x, lax.broadcast(np.uint8(3), (6, 20, 32, 66))),
        # An array that a call makes of a number.
        lambda x: x + jax.jit(lambda n: (n + 1, lax.broadcast(n, SIZES)))(np.uint8(3))[1],
        lambda x: x + lax.broadcasted_iota(np.uint8, SIZES, 3),
        lambda x: (x ^ np.uint8(1), x.sum(3, dtype=np.uint8)),
        lambda x: lax.bitcast_convert_type(x.reshape(6, 20, 66, 8, 4), np.uint32),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_what_is_more_than_a_map_is_as_it_is(
    function: Callable[..., Any], apart: bool, monkeypatch: Any
):
    """Or mapped apart from what it is besides."""
    if not apart:
        monkeypatch.setattr(loops_cpu, "NARROW", 0)
    compiled = _compiled(function, X)
    assert apart or "120,2112" not in compiled.as_text()
    expected = jax.tree.leaves(function(jnp.asarray(X)))
    for result, value in zip(jax.tree.leaves(compiled(X)), expected, strict=True):
        np.testing.assert_array_equal(result, value)


def test_a_form_of_the_platform_without_operands():
    def function(x: jax.Array) -> jax.Array:
        number = lax.platform_dependent(cpu=lambda: np.uint8(1), default=lambda: np.uint8(2))
        return x + number

    program = _compiled(function, X)
    assert loops(program.as_text()) == ["120,2112"]
    np.testing.assert_array_equal(program(X), X + np.uint8(1))


def test_constants_and_numbers():
    other, number = X[::-1].copy(), np.float32(3.25)

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        z = lax.convert_element_type(x + jnp.asarray(other), np.float32)
        return z * lax.broadcast(y + 1, SIZES)

    program = _compiled(function, X, number)
    assert loops(program.as_text()) == ["120,2112"]
    expected = (X + other).astype(np.float32) * np.float32(4.25)
    np.testing.assert_array_equal(program(X, number), expected)
