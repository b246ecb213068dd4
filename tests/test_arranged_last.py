"""Forms of whole programs that arrange elements last: what they answer, what XLA makes of them."""

import functools
import math
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import by_many_cores, in_form
from hypothesis import given
from hypothesis import strategies as st

import dml_jax
from dml_jax import DepthToSpace1, GraphBuilder, TensorDesc, Tile, functional
from dml_jax.lowering import arrangement, loops_cpu, threads_gpu
from dml_jax.lowering.whole_programs import arranged_gpu, blocks_cpu, pieces_cpu, places_cpu

Step = Callable[..., Any]

KINDS = ["reshape", "transpose", "broadcast", "add", "where", "flip", "sum", "join"]

on_cpu = pytest.mark.skipif(jax.default_backend() != "cpu", reason="the form is for CPUs")
on_gpu = pytest.mark.skipif(jax.default_backend() != "gpu", reason="the form is for GPUs")


def _factors(draw: st.DrawFn, size: int) -> list[int]:
    """Sizes, some of them 1, whose product it is."""
    sizes = []
    while size > 1:
        sizes.append(draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0])))
        size //= sizes[-1]
    return draw(st.permutations([*sizes, *draw(st.sampled_from([[], [1], [1, 1]]))]))


@st.composite
def _steps(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Step]]:
    """Sizes, and functions for `jax.numpy` or NumPy that move, repeat and change elements."""
    first = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    steps, sizes = [], first
    for _ in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "reshape":
            sizes = tuple(_factors(draw, math.prod(sizes)))
            steps.append(lambda xp, x, to=sizes: x.reshape(to))
        elif kind == "transpose":
            order = draw(st.permutations(range(len(sizes))))
            sizes = tuple(sizes[k] for k in order)
            steps.append(lambda xp, x, order=order: x.transpose(order))
        elif kind == "broadcast" and math.prod(sizes) < 500:
            outer = draw(st.sampled_from([(), (2,), (3, 1)]))
            sizes = (*outer, *(n if n > 1 else draw(st.sampled_from([1, 2])) for n in sizes))
            steps.append(lambda xp, x, to=sizes: xp.broadcast_to(x, to))
        elif kind == "add":
            other = np.arange(math.prod(sizes)).reshape(sizes)
            steps.append(lambda xp, x, other=other: x + xp.asarray(other.astype(x.dtype)))
        elif kind == "where":
            steps.append(lambda xp, x: xp.where(x > 5, x - 5, x))
        elif kind == "flip" and sizes:
            steps.append(lambda xp, x: x[::-1])
        elif kind == "join" and sizes and math.prod(sizes) < 500:
            axis = draw(st.integers(0, len(sizes) - 1))
            cut = draw(st.integers(1, sizes[axis]))
            index = (slice(None),) * axis + (slice(cut),)
            steps.append(lambda xp, x, axis=axis, i=index: xp.concatenate([x[i], x], axis))
            sizes = (*sizes[:axis], cut + sizes[axis], *sizes[axis + 1 :])
        elif kind == "sum" and sizes:
            sizes = sizes[:-1]
            steps.append(lambda xp, x: x.sum(-1, dtype=x.dtype))
    return first, steps


def _applied(xp: Any, steps: list[Step], x: Any) -> tuple[Any, ...]:
    """All that the steps give, one after the other."""
    results = []
    for step in steps:
        x = xp.asarray(step(xp, x))  # NumPy warns where a number wraps around, and not an array
        results.append(x)
    return tuple(results)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@given(drawn=_steps())
def test_they_answer_what_the_function_does(
    drawn: tuple[tuple[int, ...], list[Step]], dtype: Any, platform: str
):
    sizes, steps = drawn
    x = np.arange(math.prod(sizes)).astype(dtype).reshape(sizes)
    form = in_form(platform, functools.partial(_applied, jnp, steps))
    with (
        by_many_cores(),
        mock.patch.multiple(loops_cpu, LITTLE=0, UNROLLED=range(2, 6), VECTORISED=9, LONG=3),
        mock.patch.multiple(threads_gpu, LITTLE=0),
        mock.patch.multiple(blocks_cpu, CACHED=0, UNROLLED_BLOCK=0, WIDE=0),
        mock.patch.multiple(pieces_cpu, CACHED=0),
        mock.patch.multiple(places_cpu, SHORTEST=2, VECTORISED=3),
    ):
        results = jax.jit(form)(x)
    for result, expected in zip(results, _applied(np, steps, x), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def _blocks_apart(x: np.ndarray, block: int) -> np.ndarray:
    """DEPTH_TO_SPACE, as its page's formula has it."""
    n, depth, h, w = x.shape
    c = depth // block**2
    y = np.empty((n, c, h * block, w * block), x.dtype)
    for i in range(block):
        for j in range(block):
            first = (i * block + j) * c
            y[:, :, i::block, j::block] = x[:, first : first + c]
    return y


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("block", [2, 3, 5, 8, 12])
@pytest.mark.parametrize("width", [6, 8])
def test_blocks_as_words(dtype: Any, block: int, width: int):
    shape = 2, 2 * block**2, 3, width
    x = np.random.default_rng(5).integers(0, 200, shape).astype(dtype)
    y, narrow = _blocks_apart(x, block), x.itemsize < 4
    words = block != 5 and (width == 8 or not narrow or x.itemsize == 2)
    cases = [
        (lambda x: arrangement.depth_to_space(x, block, True), x, y, words and narrow),
        (
            lambda y: arrangement.space_to_depth(y, block, True),
            y,
            x,
            words and (block, dtype) != (2, np.float64),
        ),
    ]
    for function, array, expected, as_words in cases:
        results, asked = _exchanges(function, array)
        np.testing.assert_array_equal(results, expected)
        assert asked == [as_words]


def _exchanges(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[Any, list[bool]]:
    """What the form for a GPU gives, and each time whether it exchanged elements of words."""
    asked: list[bool] = []

    def exchanged(x: Any) -> Any:
        y = exchange(x)
        asked.append(y is not None)
        return y

    exchange = arranged_gpu.exchanged
    exchanges = mock.patch.object(arranged_gpu, "exchanged", exchanged)
    with mock.patch.object(threads_gpu, "LITTLE", 0), exchanges, jax.enable_x64(True):
        return jax.jit(in_form("cuda", function))(*arrays), asked


def test_what_is_computed_is_not_exchanged():
    x = np.random.default_rng(5).integers(0, 200, (1, 36, 6, 12)).astype(np.uint8)

    def twice(x: jax.Array) -> jax.Array:
        return arrangement.space_to_depth(arrangement.depth_to_space(x, 2, True), 3, True)

    def added(x: jax.Array) -> jax.Array:
        return arrangement.depth_to_space(x + jnp.uint8(1), 3, True)

    for function in (twice, added):
        results, asked = _exchanges(function, x)
        np.testing.assert_array_equal(results, function(jnp.asarray(x)))
        assert not any(asked)


def _kernels(text: str) -> list[str]:
    """The shapes that the loops of the whole program are over."""
    return re.findall(r"= \w+\[([\d,]*)\]\S* fusion\(", text[text.index("ENTRY") :])


@on_cpu
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "UINT8"])
def test_blocks_are_one_loop_over_their_factors(data_type: str):
    tensor = TensorDesc(data_type, [2, 18, 64, 40])
    op = DepthToSpace1.infer(input_tensor=tensor, block_size=3, order="DEPTH_COLUMN_ROW")
    x = np.random.default_rng(3).integers(0, 200, tensor.sizes).astype(tensor.dtype)
    np.testing.assert_array_equal(op(x), _blocks_apart(x, 3))
    compiled = dml_jax.compile(op)
    np.testing.assert_array_equal(compiled(x), _blocks_apart(x, 3))
    assert _kernels(compiled.as_text()) == ["2,128,3,40,3"]


@on_cpu
def test_axes_of_one_element_are_not_copied():
    tensor = TensorDesc("FLOAT32", [4, 16, 48, 64])
    op = DepthToSpace1.infer(input_tensor=tensor, block_size=4, order="COLUMN_ROW_DEPTH")
    assert op.outputs[0].sizes[1] == 1
    assert _kernels(dml_jax.compile(op).as_text()) == ["4,48,4,64,4"]


@on_cpu
@pytest.mark.parametrize(
    ("sizes", "repeats", "copied", "kernels"),
    [
        ((2, 33, 64, 80), (1, 1, 2, 3), False, ["66,2,64,3,80"]),
        # Neighbouring rows are one, so that no loop is a short one.
        ((2, 33, 64, 40), (1, 2, 1, 1), False, ["2,2,84480"]),
        # Short rows are copied; then they are long ones.
        ((2, 33, 64, 40), (1, 1, 1, 3), True, []),
        ((2, 33, 64, 40), (1, 1, 2, 3), True, ["66,2,7680"]),
        ((2, 33, 8, 12), (1, 1, 1, 44), True, ["528,4,132"]),
        ((2, 33, 8, 12), (1, 1, 1, 17), False, ["528,17,12"]),
        ((2, 33, 8, 12), (1, 1, 1, 34), False, ["528,34,12"]),
        ((2, 33, 64, 8), (1, 1, 1, 2), False, ["4224,2,8"]),
        ((2, 1, 33, 1, 64, 40), (1, 1, 1, 1, 1, 3), True, []),
        ((2, 33, 64, 75), (1, 1, 1, 2), False, ["4224,2,75"]),
    ],
)
def test_a_tile_is_one_loop_over_its_factors(
    sizes: tuple[int, ...], repeats: tuple[int, ...], copied: bool, kernels: list[str]
):
    tensor = TensorDesc("UINT8", sizes)
    op = Tile.infer(input_tensor=tensor, repeats=repeats)
    x = np.random.default_rng(3).integers(0, 200, sizes).astype(np.uint8)
    np.testing.assert_array_equal(op(x), np.tile(x, repeats))
    compiled = dml_jax.compile(op)
    np.testing.assert_array_equal(compiled(x), np.tile(x, repeats))
    copies, others = [], []
    for line in compiled.as_text().splitlines():
        (copies if "concatenate" in line.partition("(")[0] else others).append(line)
    assert _kernels("\n".join(others)) == kernels
    assert bool(copies) == copied


@on_cpu
def test_a_graph_of_them_is_one_loop_with_names():
    tensor = TensorDesc("FLOAT16", [2, 16, 32, 64])
    builder = GraphBuilder()
    x = builder.input_tensor("x", tensor)
    shuffled = functional.depth_to_space(functional.clip(x, 10, 150), 2)
    graph = builder.build(functional.tile(shuffled, (1, 1, 2, 2)))
    values = np.random.default_rng(3).integers(0, 200, tensor.sizes).astype(np.float16)
    expected = np.tile(_blocks_apart(values.clip(10, 150), 2), (1, 1, 2, 2))
    np.testing.assert_array_equal(graph(values), expected)
    compiled = dml_jax.compile(graph)
    np.testing.assert_array_equal(compiled(values), expected)
    assert _kernels(compiled.as_text()) == ["2,4,2,32,2,2,64,2"]
    assert "2/DML_OPERATOR_TILE" in compiled.as_text()
    # Inside of other programs it fuses as any other function does, and has derivatives.
    gradient = jax.grad(lambda x: graph(x).astype(jnp.float32).sum())(jnp.asarray(values))
    np.testing.assert_array_equal(gradient, 4 * ((values > 10) & (values < 150)))


@on_gpu
@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "UINT8"])
def test_a_graph_of_them_is_one_kernel(data_type: str):
    tensor = TensorDesc(data_type, [8, 64, 256, 256])
    builder = GraphBuilder()
    x = builder.input_tensor("x", tensor)
    shuffled = functional.depth_to_space(functional.clip(x, 10, 150), 2)
    graph = builder.build(functional.tile(shuffled, (1, 1, 2, 2)))
    values = np.random.default_rng(3).integers(0, 200, tensor.sizes).astype(tensor.dtype)
    compiled = dml_jax.compile(graph)
    expected = np.tile(_blocks_apart(values.clip(10, 150), 2), (1, 1, 2, 2))
    np.testing.assert_array_equal(compiled(values), expected)
    assert len(_kernels(compiled.as_text())) == 1


def test_there_and_back_is_nothing():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [2, 16, 32, 64]))
    back = functional.space_to_depth(functional.depth_to_space(x, 2), 2)
    graph = builder.build(functional.clip(back, 0.25, 0.75))
    values = np.random.default_rng(3).random((2, 16, 32, 64), np.float32)
    np.testing.assert_array_equal(graph(values), values.clip(0.25, 0.75))
    assert "transpose(" not in dml_jax.compile(graph).as_text()
