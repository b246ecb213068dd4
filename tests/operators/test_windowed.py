"""Convolution and pooling: forms, gradients, precision, sizes, and the functions' defaults."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import compiled_soon
from records import combinations, records
from records.convolution import correlation

import dml_jax as package
from dml_jax import DmlError, TensorDesc
from dml_jax.lowering.convolution import forms, integers
from dml_jax.lowering.windows import Window
from dml_jax.operator import OPERATORS

F32 = np.float32
dml_jax: Any = package  # which is called wrongly, too


def floats(*shape: int, seed: int = 0) -> Any:
    """Return random multiples of 1/8, whose products have exact sums."""
    return (np.random.default_rng(seed).integers(-16, 17, shape) / 8).astype(F32)


WINDOW = Window((3, 2), (2, 1), (1, 2), (2, -1), (1, 3))


@pytest.mark.parametrize("inside", [None, (3, 2)])
def test_forms_of_a_convolution_are_the_plain_one(inside: Any):
    x, w = floats(2, 6, 7, 6), floats(6, 2, 3, 2, seed=1)
    expected = forms.plain(x, w, WINDOW, 3, inside)
    shifted = forms.by_shifts(jnp.asarray(x), jnp.asarray(w), WINDOW, 3, inside)
    np.testing.assert_array_equal(shifted, expected)
    grouped = forms.by_groups(jnp.asarray(x), jnp.asarray(w), WINDOW, 3, inside)
    np.testing.assert_array_equal(grouped, expected)
    dense = floats(5, 6, 3, 2, seed=2)
    expected = forms.plain(x, dense, WINDOW, 1, inside)
    if inside is None:
        columns = jax.jit(lambda x, w: forms.by_columns(x, w, WINDOW))(x, dense)
        np.testing.assert_array_equal(columns, expected)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_large_window_of_each_channel_is_the_plain_form(outputs: int):
    """Values and gradients, where some rows of a window at a time are a chain."""
    window = Window((13, 9), (2, 1), (1, 2), (6, 7), (8, -1))
    x, w = floats(2, 20, 16, 18), floats(18 * outputs, 1, 13, 9, seed=1)

    def sums(function: Any) -> Any:
        slope = jax.grad(lambda x, w: (function(x, w, window, 18) ** 2).sum(), (0, 1))
        return compiled_soon(lambda x, w: (function(x, w, window, 18), *slope(x, w)))(x, w)

    x = x.transpose(0, 3, 1, 2)
    with jax.default_device(jax.devices("cpu")[0]):
        found, expected = sums(forms.on_cpu), sums(forms.plain)
    np.testing.assert_array_equal(found[0], expected[0])
    for a, b in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6 * np.abs(b).max())


@pytest.mark.parametrize("inside", [None, (2, 3, 1)])
def test_planes_are_the_plain_form(inside: Any):
    x, w = floats(2, 6, 4, 5, 3), floats(4, 3, 2, 3, 2, seed=1)
    window = Window((2, 3, 2), (1, 2, 1), (2, 1, 1), (1, 0, 2), (2, 1, -1))
    expected = forms.plain(x, w, window, 2, inside)
    planes = forms.by_planes(jnp.asarray(x), jnp.asarray(w), window, 2, inside)
    np.testing.assert_array_equal(planes, expected)


def test_a_product_of_matrices_is_the_plain_form():
    x, w = floats(2, 6, 7, 6), floats(5, 6, 1, 1, seed=1)
    window = Window((1, 1), (2, 3), (1, 1), (2, 0), (1, 3))
    expected = forms.plain(x, w, window, 1)
    product = jax.jit(lambda x, w: forms.by_product(x, w, window))(x, w)
    np.testing.assert_array_equal(product, expected)


@pytest.mark.parametrize("groups", [1, 2])
def test_integers_are_summed_exactly(groups: int):
    """A sum beyond 2^24 that FLOAT32 does not hold, in several parts."""
    channels, window = 40, Window((3, 3), (1, 2), (1, 1), (1, 1), (1, 0))
    rng = np.random.default_rng(0)
    x = rng.choice([253, 254, 255], (2, channels, 5, 6)).astype(np.int32)
    w = np.where(rng.random((4, channels // groups, 3, 3)) < 0.9, 255, -254).astype(np.int32)
    with jax.default_device(jax.devices("cpu")[0]):  # a GPU has no convolution of integers
        expected = np.asarray(forms.plain(jnp.asarray(x), jnp.asarray(w), window, groups))
    made = integers.by_exact_products(jnp.asarray(x), jnp.asarray(w), window, groups)
    assert int(np.abs(expected).max()) > 2**24 // groups
    np.testing.assert_array_equal(made, expected)


def convolve(x: Any, w: Any, **fields: Any) -> Any:
    return dml_jax.convolution(x, w, **fields)


def test_a_large_convolution_and_its_gradient():
    """Of so many windows that a CPU has the channels last."""
    x, w, g = floats(1, 2, 96, 96), floats(3, 2, 3, 3, seed=1), floats(1, 3, 94, 94, seed=2)
    y, back = jax.vjp(jax.jit(convolve), x, w)
    op = dml_jax.Convolution.infer_from(
        input_tensor=TensorDesc("FLOAT32", x.shape),
        filter_tensor=TensorDesc("FLOAT32", w.shape),
        mode="CROSS_CORRELATION",
        direction="FORWARD",
        group_count=1,
    )
    np.testing.assert_array_equal(y, correlation(op, x, w, np.float64))
    dx, dw = back(g)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    expected = np.einsum("nphw,nchwkl->pckl", g.astype(float), windows.astype(float))
    np.testing.assert_allclose(dw, expected, rtol=1e-5, atol=1e-3)
    assert np.vdot(dx, x) == pytest.approx(float(np.vdot(g, np.asarray(y))), rel=1e-5)


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD"])
@pytest.mark.parametrize("mode", ["CONVOLUTION", "CROSS_CORRELATION"])
def test_gradients_of_a_convolution(mode: str, direction: str):
    """A convolution is linear in each tensor: its derivative is itself, by the reference."""
    op_class, record = OPERATORS["DML_OPERATOR_CONVOLUTION"], records()["CONVOLUTION"]
    rng, types = np.random.default_rng(3), next(t for t, _ in combinations(op_class, record))
    while True:
        op: Any = record.operator(rng, op_class, types)
        if (op.direction.name, op.mode.name) == (direction, mode) and op.bias_tensor:
            break
    op = op.replace(fused_activation=None)
    points, moves = record.arrays(rng, op), record.arrays(rng, op)
    seed = floats(*op.output_tensor.sizes)

    @jax.jit
    def both(points: Any, moves: Any) -> Any:
        return jax.jvp(op, points, moves)[1], jax.vjp(op, *points)[1](seed)

    moved, slopes = both(points, moves)
    x, w, bias = points
    parts = [(moves[0], w, 0 * bias), (x, moves[1], 0 * bias), (0 * x, w, moves[2])]
    expected: Any = sum(record.expected(op, part)[0] for part in parts)
    np.testing.assert_allclose(moved, expected, rtol=1e-5, atol=1e-5)
    inner = sum(float(np.vdot(a, b)) for a, b in zip(slopes, moves, strict=True))
    assert inner == pytest.approx(float(np.vdot(seed, expected)), rel=1e-4, abs=1e-4)


def test_float16_is_rounded_once():
    """2048 + 1 is no FLOAT16: the bias and the activation see the sum in FLOAT32."""
    x = np.array([2048, 1], np.float16).reshape(1, 2, 1, 1)
    w, bias = np.ones((1, 2, 1, 1), np.float16), np.full((1, 1, 1, 1), -2047, np.float16)
    half = dml_jax.ActivationLinear.fused(alpha=0.5, beta=0)
    assert convolve(x, w, bias=bias, fused_activation=half).item() == 1


def test_products_have_full_precision_unless_it_is_set():
    x, w = floats(1, 2, 4, 4), floats(2, 2, 3, 3)
    program = str(jax.make_jaxpr(convolve)(x, w))
    assert "Precision.HIGHEST" in program
    with jax.default_matmul_precision("bfloat16"):
        program = str(jax.make_jaxpr(convolve)(x, w))
    assert "HIGHEST" not in program


def test_a_transposed_convolution_has_the_least_sizes_unless_others_are_given():
    x, w = floats(1, 2, 3, 4), floats(2, 3, 2, 2, seed=1)
    least = convolve(x, w, direction="BACKWARD", strides=[3, 2])
    assert least.shape == (1, 3, 8, 8)
    larger = convolve(x, w, direction="BACKWARD", strides=[3, 2], output_sizes=[1, 3, 10, 9])
    np.testing.assert_array_equal(larger[:, :, :8, :8], least)
    assert not np.asarray(larger[:, :, 8:]).any()
    with pytest.raises(DmlError, match=r"OutputTensor.Sizes\[2\]"):
        convolve(x, w, direction="BACKWARD", strides=[3, 2], output_sizes=[1, 3, 11, 8])


def test_output_padding_has_the_activated_bias():
    x, w, bias = floats(1, 1, 2, 2), floats(1, 1, 2, 2), np.full((1, 1, 1, 1), -2, F32)
    relu = dml_jax.ActivationLinear.fused(alpha=3, beta=1)
    y = convolve(
        x, w, bias=bias, direction="BACKWARD", output_padding=[1, 0], fused_activation=relu
    )
    assert y.shape == (1, 1, 4, 3)
    np.testing.assert_array_equal(y[:, :, 3], np.full((1, 1, 3), -5, F32))


def pool(x: Any, name: str, **fields: Any) -> Any:
    op = OPERATORS[f"DML_OPERATOR_{name}"]
    desc = TensorDesc("FLOAT32", x.shape)
    return op.infer(input_tensor=desc, **fields)


FIELDS: dict[str, Any] = {
    "strides": [2, 1],
    "window_size": [3, 2],
    "start_padding": [1, 2],
    "end_padding": [0, 1],
}


def test_max_pooling_grad_is_the_gradient():
    x = floats(2, 3, 7, 6) // 1  # with ties
    fields = {**FIELDS, "dilations": [2, 1]}
    op = pool(x, "MAX_POOLING2", **fields, outputs=["output_tensor"])
    g = floats(*op.output_tensor.sizes, seed=1)
    grad = pool(x, "MAX_POOLING_GRAD", **fields, input_gradient_tensor=op.output_tensor)
    y, back = jax.vjp(op, x)
    np.testing.assert_array_equal(grad(x, g), back(g)[0])
    both = pool(x, "MAX_POOLING2", **fields)
    values, indices = both(x)
    np.testing.assert_array_equal(values, y)
    in_data = np.asarray(values) > -np.inf
    assert not in_data.all()  # some windows lie in padding alone
    added = np.zeros(x.size, F32)
    np.add.at(added, np.asarray(indices)[in_data], g[in_data])
    np.testing.assert_allclose(grad(x, g), added.reshape(x.shape), rtol=1e-6)
    np.testing.assert_array_equal(back(g)[0], jax.vjp(lambda x: both(x)[0], x)[1](g)[0])


def test_windows_that_are_long():
    """Windows longer than the ones that a program adds element by element."""
    x = floats(1, 2, 23, 70)
    fields = {"strides": [2, 3], "start_padding": [1, 0], "end_padding": [0, 4]}
    for name in ("MAX_POOLING2", "AVERAGE_POOLING1", "LP_POOLING1"):
        more = {"AVERAGE_POOLING1": {"include_padding": False}, "LP_POOLING1": {"p": 1}}
        own = more.get(name, {})
        op = pool(x, name, **fields, window_size=[19, 33], dilations=[1, 2], **own)
        expected = records()[name].expected(op, [x])
        results = op(x) if isinstance(op(x), tuple) else [op(x)]
        for result, answer in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, answer, rtol=1e-6)


def test_unpooling_writes_what_lies_inside():
    x = np.arange(1, 5, dtype=F32).reshape(1, 1, 2, 2)
    indices = np.array([3, 2**32 + 1, 4, 0], np.uint64).reshape(x.shape)
    y = dml_jax.max_unpooling(x, indices, [1, 1, 1, 4])
    assert np.ravel(y).tolist() == [4, 0, 0, 1]
    slope = jax.grad(lambda x: dml_jax.max_unpooling(x, indices, [1, 1, 1, 4]).sum())(x)
    assert np.ravel(slope).tolist() == [1, 0, 0, 1]
    twice = np.array([2, 2, 9, 0], np.uint32).reshape(x.shape)  # the last one is written
    slope = jax.jacobian(lambda x: dml_jax.max_unpooling(x, twice, [1, 1, 1, 4]))(x)
    assert slope.reshape(4, 4).tolist() == [[0, 0, 0, 1], [0] * 4, [0, 1, 0, 0], [0] * 4]
    values, places = dml_jax.max_pooling(floats(1, 2, 4, 4), [2, 2], [2, 2], output_indices=True)
    whole = dml_jax.max_unpooling(values, places, [1, 2, 4, 4])
    np.testing.assert_array_equal(np.ravel(whole)[np.ravel(places)], np.ravel(values))
