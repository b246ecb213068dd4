"""Operators as JAX functions: what XLA makes of them, and shards of them."""

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dml_jax
from dml_jax import DepthToSpace1, ElementWiseClip, Reduce, TensorDesc, Tile

SHAPE = [2, 8, 16, 16]


def described(op: type[Any], sizes: list[int], type_: str = "FLOAT32", **fields: Any) -> Any:
    return op.infer(input_tensor=TensorDesc(type_, sizes), **fields)


def clip(sizes: list[int], type_: str = "FLOAT32") -> ElementWiseClip:
    return described(ElementWiseClip, sizes, type_, min=-1, max=1)


def chain(type_: str = "FLOAT32"):
    blocks = {"block_size": 2, "order": "DEPTH_COLUMN_ROW"}
    deep = described(DepthToSpace1, SHAPE, type_, **blocks)
    tiled = described(Tile, [2, 2, 32, 32], type_, repeats=[1, 1, 2, 3])

    def call(x: jax.Array) -> jax.Array:
        return tiled(deep(clip(SHAPE, type_)(x)))

    return call


def instructions(compiled: str) -> list[str]:
    """What the entry computation runs, its parameters and free reinterpretations left out."""
    entry = compiled[compiled.index("ENTRY") :]
    found = re.findall(r"= \S+ ([a-z][\w-]*)\(", entry)
    return [op for op in found if op not in ("parameter", "bitcast", "tuple", "get-tuple-element")]


def optimised(function, *arrays: jax.Array) -> str:
    return jax.jit(function).lower(*arrays).compile().as_text() or ""


@pytest.mark.parametrize("type_", ["FLOAT32", "FLOAT16", "UINT8", "INT64"])
def test_a_chain_is_one_fusion(type_: str):
    text = optimised(chain(type_), jnp.zeros(SHAPE, type_.lower()))
    assert set(instructions(text)) <= {"fusion", "call"}
    assert len(instructions(text)) == 1


def test_a_reduction_at_the_end_adds_only_itself():
    """Nothing of the chain is materialised: the program has no temporary but the reduction's."""
    total = described(Reduce, [2, 2, 64, 96], function="SUM", axes=[1, 2, 3])
    call = chain()
    compiled = jax.jit(lambda x: total(call(x))).lower(jnp.zeros(SHAPE, jnp.float32)).compile()
    assert len(instructions(compiled.as_text() or "")) <= 2
    memory = compiled.memory_analysis()
    assert memory is not None
    assert memory.temp_size_in_bytes < 2 * 2 * 64 * 96 * 4 / 2


def test_strides_fuse_with_the_operator():
    padded = TensorDesc("FLOAT32", SHAPE, [2 * 8 * 16 * 17, 16 * 17, 17, 1])
    broadcast = TensorDesc("FLOAT32", SHAPE, [0, 256, 1, 16])
    op, out = clip(SHAPE), TensorDesc("FLOAT32", SHAPE, [2048, 1, 128, 8])
    for tensor in (padded, broadcast):

        def call(buffer: jax.Array, old: jax.Array, tensor: TensorDesc = tensor) -> jax.Array:
            return out.write(old, op(tensor.read(buffer)))

        buffers = [jnp.zeros(t.span, jnp.float32) for t in (tensor, out)]
        found = instructions(optimised(call, *buffers))
        assert set(found) <= {"fusion", "call", "transpose", "copy"}, found
        assert len(found) <= 2


def test_an_operator_is_a_static_argument_of_jit():
    traces = []

    @jax.jit
    def call(op: ElementWiseClip, x: jax.Array) -> jax.Array:
        traces.append(op)
        return op(x)

    x = jnp.linspace(-2, 2, 2 * 8 * 16 * 16, dtype=jnp.float32).reshape(SHAPE)
    for _ in range(2):
        np.testing.assert_array_equal(call(clip(SHAPE), x), np.clip(x, -1, 1))
    assert len(traces) == 1


def graph(sizes: list[int]) -> dml_jax.Graph:
    builder = dml_jax.GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", sizes))
    return builder.build(dml_jax.clip(x, -1, 1))


@pytest.mark.parametrize("make", [clip, graph])
def test_what_asks_for_name_and_arguments(make: Callable[..., Callable[..., jax.Array]]):
    function, x = make([3]), jnp.arange(3, dtype=jnp.float32)
    named = f"module @jit_{function.__name__} "
    assert jax.jit(function).lower(x).as_text().startswith(named)
    by_vjp, by_jvp = jax.custom_vjp(function), jax.custom_jvp(function)
    by_vjp.defvjp(lambda x: (function(x), None), lambda _, given: (given * 3,))
    by_jvp.defjvp(lambda xs, tangents: (function(*xs), tangents[0] * 5))
    assert jax.grad(lambda x: by_vjp(x).sum())(x).tolist() == [3, 3, 3]
    assert jax.grad(lambda x: by_jvp(x).sum())(x).tolist() == [5, 5, 5]
    assert jax.named_call(function)(x).tolist() == [0, 1, 1]
    assert jax.jit(function, donate_argnums=0)(x).tolist() == [0, 1, 1]
    assert x.is_deleted()


def test_importing_starts_no_backend():
    program = (
        "import jax, dml_jax, dml_jax.dxdispatch.model, dml_jax.dxdispatch.run_model\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends, xla_bridge._backends\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("function", ["SUM", "AVERAGE"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 8), (1,)), ((2, 3, 5), (0, 2)), ((3, 33009), (0,)), ((4, 1), (1,))]
)
def test_the_transpose_of_a_sum(
    function: str, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...]
):
    """<f(x), y> = <x, transposed(y)>: each element has what its sum gets, by the number of them."""
    x = jnp.ones(shape, dtype)
    compute = functools.partial(dml_jax.reduce, function=function, axes=axes)
    y = np.arange(x.size // np.prod([shape[a] for a in axes]), dtype=dtype) % 9
    y = jnp.asarray(y.reshape([1 if a in axes else n for a, n in enumerate(shape)]))
    share = 1 if function == "SUM" else np.prod([shape[a] for a in axes])
    for way in (compute, jax.jit(compute)):
        (transposed,) = jax.linear_transpose(way, x)(y)
        assert transposed.dtype == x.dtype
        np.testing.assert_allclose(
            transposed, np.broadcast_to(np.asarray(y) / share, shape), rtol=1e-3
        )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("shape", "repeats"),
    [
        ((64, 16, 7, 7), (2, 1, 1, 1)),
        ((64, 16, 7, 7), (1, 4, 3, 1)),
        ((64, 16, 7, 7), (1, 1, 1, 3)),
        ((64, 16, 7, 7), (2, 2, 2, 2)),
        ((3, 8, 400), (1, 1, 16)),
        ((40, 50), (40, 7)),
        ((5000,), (70,)),
        ((4, 3), (1, 1)),
    ],
)
def test_the_transpose_of_a_tile(dtype: str, shape: tuple[int, ...], repeats: tuple[int, ...]):
    """The sum of all repeats, rounded once; nothing as large as these is stored."""
    x = jnp.ones(shape, dtype)
    y = np.random.default_rng(0).random(np.multiply(shape, repeats)).astype(dtype)
    parts = [n for pair in zip(repeats, shape, strict=True) for n in pair]
    expected = y.astype(np.float64).reshape(parts).sum(tuple(range(0, len(parts), 2)))

    def transposed(y: jax.Array) -> jax.Array:
        return jax.linear_transpose(lambda x: dml_jax.tile(x, repeats), x)(y)[0]

    for way in (transposed, jax.jit(transposed)):
        result = way(jnp.asarray(y))
        assert result.dtype == x.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6 if dtype == "float32" else 2**-10)
    memory = jax.jit(transposed).lower(y).compile().memory_analysis()
    assert memory is not None
    assert jax.default_backend() != "cpu" or memory.temp_size_in_bytes < 0.35 * y.nbytes


def test_what_has_no_transpose():
    x = jnp.ones(3, jnp.float32)
    with pytest.raises(NotImplementedError, match="only a linear reduction"):
        jax.linear_transpose(lambda x: dml_jax.reduce(x, "MAX", [0]), x)(x[:1])


def test_the_transpose_of_clip_grad():
    x, dy = jnp.array([-2, 0.5, 2], jnp.float32), jnp.array([1, 2, 3], jnp.float32)
    (transposed,) = jax.linear_transpose(lambda dy: dml_jax.clip_grad(x, dy, -1, 1), dy)(dy)
    np.testing.assert_array_equal(transposed, [0, 2, 0])
