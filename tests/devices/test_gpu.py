"""Forms for an NVIDIA GPU, computed on any device: answers and derivatives of the plain forms."""

import itertools
import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from forms import by_branches_of, compiled_soon, nothing_traced, of_platform
from nightly import sample

import dml_jax
from dml_jax.lowering import attention as attention_forms
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.precision import chosen
from dml_jax.operators import recurrent

RANDOM = np.random.default_rng(3)


def array(*shape: int, dtype: str = "float16", scale: float = 1.0) -> np.ndarray:
    return (RANDOM.normal(size=shape) * scale).astype(dtype)


def close(found: Any, expected: Any, tolerance: float = 1e-3) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(np.abs(b).max(), 1e-6))


# Gradients with forms of their own.


def f(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sin(a) @ b


def loss(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    return lambda a, b: (function(a, b) ** 2).sum()


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "gradient": lambda f: jax.grad(loss(f), (0, 1)),
    "one gradient": lambda f: jax.grad(loss(f)),
    "value": lambda f: f,
    "forward": lambda f: lambda a, b: jax.jvp(f, (a, b), (b.T[: a.shape[0]], b)),
    "hessian": lambda f: jax.hessian(loss(f)),
    "reverse twice": lambda f: jax.jacrev(jax.grad(loss(f), 1)),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(loss(f)), (0, 1)),
    "mapped": lambda f: jax.vmap(jax.grad(loss(f), (0, 1)), (0, None)),
    "gradient of mapped": lambda f: jax.grad(
        lambda a, b: jax.vmap(loss(f), (0, None))(a, b).sum(), (0, 1)
    ),
    "mapped forward": lambda f: jax.vmap(lambda a: jax.jvp(f, (a, B), (a * 2, B)), 0),
}
A, B = array(3, 4, dtype="float32"), array(4, 4, dtype="float32")
OF_GRADIENTS = (
    "gradient",
    "one gradient",
    "checkpoint",
    "mapped",
    "gradient of mapped",
    "reverse twice",
)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_derivatives_of_a_function_whose_gradient_has_a_form(name: str) -> None:
    calls = []

    def gradient(a: jax.Array, b: jax.Array, dy: jax.Array) -> Any:
        calls.append(1)
        return (dy @ b.T) * jnp.cos(a), jnp.sin(a).T @ dy

    form = by_platform(
        f, cuda=lambda a, b: f(a, b), gradients={"cuda": gradient}, whole_arrays=True
    )
    arguments = (np.stack([A, A + 1]), B)[: 1 if name == "mapped forward" else 2]
    arguments = arguments if "mapped" in name else (A, B)
    with jax.default_matmul_precision("float32"):  # a GPU's own is TF32
        expected = TRANSFORMS[name](f)(*arguments)
        with of_platform("cuda"):
            close(jax.jit(TRANSFORMS[name](form))(*arguments), expected, 1e-5)
    assert bool(calls) == (name in OF_GRADIENTS)


def in_float32(q: Any, k: Any, v: Any, scale: float, implementation: str) -> jax.Array:
    """Stand in for cuDNN's kernel, which no CPU has."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    groups = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, groups, 2) for x in (k, v))
    weights = jax.nn.softmax(jnp.einsum("bsnd,btnd->bnst", q, k) * scale, -1)
    return jnp.einsum("bnst,btnd->bsnd", weights, v).astype(np.float16)


@pytest.mark.parametrize("case", ["taken", "no library", "refused sizes"])
def test_gradients_of_attention(case: str) -> None:
    arrays = [array(2, 5, 24), array(2, 7, 24), array(2, 7, 24)]

    def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        given = {"query": q, "key": k, "value": v}
        return dml_jax.multihead_attention(0.5, -1e4, 3, 3, "NONE", **given).output

    def total(*arrays: jax.Array) -> jax.Array:
        return (attention(*arrays).astype(np.float32) ** 2).sum()

    def mapped(*arrays: jax.Array) -> Any:
        return jax.vmap(jax.grad(lambda *a: total(*(x[None] for x in a)), (0, 1, 2)))(*arrays)

    def forward(*arrays: jax.Array) -> Any:
        return jax.jvp(total, arrays, arrays)

    made = (jax.value_and_grad(total, (0, 1, 2)), mapped, forward)
    expected = [jax.jit(function)(*arrays) for function in made]
    effect = NotImplementedError if case == "refused sizes" else in_float32
    called = mock.Mock(side_effect=effect)
    kernel = mock.patch.object(jax.nn, "dot_product_attention", called)
    reason = case if case == "no library" else ""
    library = mock.patch.object(attention_forms, "missing_cudnn", lambda size: reason)
    with of_platform("cuda"), kernel, library:
        for function, wanted in zip(made, expected, strict=True):
            close(jax.jit(function)(*arrays), wanted, 4e-3)
    assert called.called == (case != "no library")


# Data movement and order.


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "uint8"])
@pytest.mark.parametrize("increasing", [False, True])
def test_the_first_elements_of_long_lines(dtype: str, increasing: bool) -> None:
    if dtype.startswith("float"):
        x = RANDOM.normal(size=(2, 3, 2001)).astype(dtype)
        x[0, 0, ::7], x[0, 1, 5:9], x[1, 0] = 0.5, np.nan, -np.inf
        x[1, 1] = np.where(np.arange(2001) % 3, 0.0, -0.0)
    else:
        limits = np.iinfo(dtype)
        x = RANDOM.integers(limits.min, limits.max, (2, 3, 2001), dtype, endpoint=True)
        x[0, 0, ::5] = limits.max
    direction = "INCREASING" if increasing else "DECREASING"
    with of_platform("cuda"):
        values, places = jax.jit(lambda x: dml_jax.top_k(x, 2, 3, direction))(x)
    wide = x.astype(np.float64)
    keys = wide if increasing else -wide
    places_of_all = np.broadcast_to(np.arange(x.shape[2]), x.shape)
    order = np.lexsort((places_of_all, np.where(np.isnan(wide), 0, keys), ~np.isnan(wide)), -1)
    np.testing.assert_array_equal(places, order[..., :3])
    np.testing.assert_array_equal(values, np.take_along_axis(x, order[..., :3], -1))


@pytest.mark.parametrize("mode", ["EDGE", "REFLECTION", "SYMMETRIC"])
def test_elements_around(mode: str) -> None:
    x = array(2, 3, 5, 1, dtype="float32")
    before, behind = [0, 2, 9, 0], [1, 0, 6, 2]
    name = {"EDGE": "edge", "REFLECTION": "reflect", "SYMMETRIC": "symmetric"}[mode]

    def padded(x: jax.Array) -> jax.Array:
        return dml_jax.padding(x, mode, 0.0, before, behind)

    def gradient(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: (padded(x) ** 3).sum())(x)

    expected = jax.jit(gradient)(x)
    with of_platform("cuda"):
        widths = [*zip(before, behind, strict=True)]
        np.testing.assert_array_equal(jax.jit(padded)(x), np.pad(x, widths, mode=name))
        close(jax.jit(gradient)(x), expected, 1e-6)
        both = jax.jit(jax.vmap(lambda x: padded(x[None])[0]))(np.stack([x[0], 2 * x[1]]))
    assert both.shape == (2, 5, 20, 3)


# Products and convolutions.


@pytest.mark.parametrize("types", [*itertools.product(["int8", "uint8"], repeat=2)])
def test_products_of_bytes_of_any_size(types: tuple[str, str]) -> None:
    for m, k, n in ((1, 1, 1), (3, 5, 7), (17, 33, 16), (16, 300, 5)):
        pair = zip(types, ((2, m, k), (2, k, n)), strict=True)
        a, b = (RANDOM.integers(-128, 128, shape).astype(dtype) for dtype, shape in pair)
        zeros = np.full((1, 1, 1, 1), 3, types[0]), np.full((1, 1, 1, 1), 5, types[1])
        left, right = a.astype(np.int64) - 3, b.astype(np.int64) - 5
        with by_branches_of("cuda"):
            found = dml_jax.matrix_multiply_integer(
                a[None], b[None], a_zero_point=zeros[0], b_zero_point=zeros[1]
            )
        np.testing.assert_array_equal(found[0], left @ right)


def test_products_of_bytes_whose_kernels_xla_does_not_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are products of FLOAT32: XLA's first kernel of INT8 counts each term twice."""
    a, b = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((3, 300), (300, 5)))

    def product(a: Any, b: Any) -> Any:
        return dml_jax.matrix_multiply_integer(a, b)

    for flags, dtype in (
        ("--xla_gpu_autotune_level=0", "f32"),
        ("--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false", "i8"),
        ("--xla_gpu_autotune_level=4", "i8"),
    ):
        monkeypatch.setenv("XLA_FLAGS", flags)
        with by_branches_of("cuda"):
            text = jax.jit(product).lower(a, b).as_text()
            np.testing.assert_array_equal(product(a, b), a.astype(int) @ b.astype(int))
        (operands,) = re.findall(r"dot_general.* : \((.*)\) ->", text)
        assert operands.count(f"x{dtype}>") == 2


@pytest.mark.skipif(jax.default_backend() != "gpu", reason="kernels are a GPU's")
def test_products_of_bytes_by_kernels_that_xla_tried() -> None:
    options = {"xla_gpu_autotune_level": 4, "xla_gpu_enable_triton_gemm": True}
    for m, k, n in ((1, 2, 1), (17, 48, 16), (64, 256, 64), (1, 33026, 1)):
        a, b = (RANDOM.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
        product = jax.jit(dml_jax.matrix_multiply_integer, compiler_options=options)
        np.testing.assert_array_equal(product(a, b), a.astype(int) @ b.astype(int))


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((2, 8, 9, 7), (6, 8, 3, 3), {"start_padding": 1, "end_padding": 1}),
    "1x1": ((2, 8, 9, 7), (6, 8, 1, 1), {"strides": 2}),
    "groups": ((1, 4, 6, 5), (4, 2, 2, 3), {"group_count": 2, "dilations": 2}),
    "depthwise": ((2, 8, 9, 7), (8, 1, 3, 3), {"group_count": 8}),
    "patches": ((2, 3, 8, 6), (5, 3, 4, 2), {"strides": [4, 2]}),
    "patches of a part": ((2, 3, 9, 6), (5, 3, 4, 2), {"strides": [4, 2]}),
    "1-D": ((2, 8, 9), (6, 8, 3), {"start_padding": 2}),
    "mirrored": ((2, 8, 9, 7), (6, 8, 3, 2), {"mode": "CONVOLUTION"}),
    "backward": ((2, 8, 5, 4), (8, 3, 4, 4), {"direction": "BACKWARD", "strides": 2}),
    "backward of groups": (
        (1, 4, 3, 4),
        (4, 2, 3, 2),
        {"direction": "BACKWARD", "group_count": 2, "start_padding": 1, "end_padding": 0},
    ),
    "backward, mirrored": (
        (2, 8, 5, 4),
        (8, 3, 3, 2),
        {"direction": "BACKWARD", "mode": "CONVOLUTION", "strides": 3},
    ),
}


@pytest.mark.parametrize("name", sample([*CONVOLUTIONS]))
def test_convolutions_of_float16(name: str) -> None:
    shape, filters, options = CONVOLUTIONS[name]
    x, w = array(*shape), array(*filters, scale=0.2)
    channels = dml_jax.convolution(x, w, **options).shape[1]
    bias = array(1, channels, *[1] * (len(shape) - 2))

    def convolved(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
        relu = dml_jax.ActivationRelu.fused()
        return dml_jax.convolution(x, w, b, fused_activation=relu, **options)

    def gradients(*arrays: jax.Array) -> Any:
        return jax.grad(lambda *a: (convolved(*a).astype(np.float32) ** 2).sum(), (0, 1, 2))(
            *arrays
        )

    def mapped(x: jax.Array, w: jax.Array, b: jax.Array) -> Any:
        return jax.vmap(lambda x: convolved(x[None], w, b)[0])(x)

    def everything(*arrays: jax.Array) -> Any:
        return convolved(*arrays), gradients(*arrays), mapped(*arrays)

    with nothing_traced():
        expected = compiled_soon(everything)(x, w, bias)
    with by_branches_of("cuda"):
        close(compiled_soon(everything)(x, w, bias), expected)


def test_a_sum_of_float16_is_rounded_behind_its_bias() -> None:
    x, w = (np.full((1, 7, 1, 1), 128, np.float16) for _ in range(2))
    bias = np.full((1, 1, 1, 1), -65504, np.float16)
    with by_branches_of("cuda"):
        y = jax.jit(lambda x, w, b: dml_jax.convolution(x, w, b))(x, w, bias)
    assert float(y[0, 0, 0, 0]) == 7 * 128 * 128 - 65504  # the sum alone is infinite in FLOAT16


@pytest.mark.parametrize(
    ("cell", "direction"), [("lstm", "FORWARD"), ("gru", "BIDIRECTIONAL"), ("rnn", "BIDIRECTIONAL")]
)
def test_cells_of_float16(cell: str, direction: str) -> None:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[cell]
    directions, units = 1 + (direction == "BIDIRECTIONAL"), 6
    x = array(1, 5, 3, 5)
    w, r = (array(1, directions, gates * units, n, scale=0.4) for n in (5, units))
    b = array(1, 1, directions, 2 * gates * units)
    lengths = np.array([5, 0, 4], np.uint32).reshape(1, 1, 1, 3)
    options = {"linear_before_reset": True} if cell == "gru" else {}

    def sequence(*arrays: jax.Array) -> jax.Array:
        function = getattr(dml_jax, cell)
        given = dict(zip(("weight", "recurrence", "bias"), arrays[1:], strict=True))
        given |= {"sequence_lengths": lengths, "direction": direction, **options}
        result = function(arrays[0], **given)
        return getattr(result, "sequence", result)

    def gradients(*arrays: jax.Array) -> Any:
        total = lambda *a: (sequence(*a).astype(np.float32) ** 2).sum()  # noqa: E731
        return jax.grad(total, (0, 1, 2, 3))(*arrays)

    def both(*arrays: jax.Array) -> Any:
        return sequence(*arrays), gradients(*arrays)

    arrays = (x, w, r, b)
    with nothing_traced():
        expected = compiled_soon(both)(*arrays)
    with by_branches_of("cuda"), mock.patch.object(recurrent, "UNROLLED", 2):
        close(compiled_soon(both)(*arrays), expected, 5e-3)


def test_products_of_bfloat16_have_operands_of_16_bits() -> None:
    a, b = array(5, 40, dtype="float32"), array(40, 7, dtype="float32")

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        with chosen("bfloat16"):
            return dml_jax.gemm(a[None, None], b[None, None])[0, 0]

    with by_branches_of("cuda"):
        text = jax.jit(product).lower(a, b).as_text()
        found = jax.jit(product)(a, b)
        gradient = jax.jit(jax.grad(lambda a, b: (product(a, b) ** 2).sum()))(a, b)
    assert "(tensor<1x1x5x40xbf16>, tensor<1x1x40x7xbf16>) -> tensor<1x1x5x7xf32>" in text
    left, right = (x.astype(ml_dtypes.bfloat16).astype(np.float64) for x in (a, b))
    close(found, left @ right, 1e-6)
    close(gradient, 2 * (left @ right) @ right.T, 1e-2)
