"""REDUCE, against NumPy in float64 and the choices its docstring states."""

import contextlib
import functools
import inspect
import itertools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import graph_of
from forms import by_many_cores, compiled_soon, of_few_elements, of_platform
from jax.experimental import jet
from jax.experimental.compute_on import compute_on
from nightly import NIGHTLY, sample
from records import record_of
from records.reduction import reduced

import dml_jax
from dml_jax import Argmax, Argmin, DmlError, Operator, Reduce, ReduceFunction, TensorDesc

TINY = float(np.finfo(np.float32).tiny)
"""A GPU may keep smaller numbers, which a CPU flushes to 0, and the other way round."""

TYPES = {
    function: [t.name for t in rows[0].types["input_tensor"] if t.name != "FLOAT64"]
    for function, rows in Reduce.support.groups.items()
}


def reference(op: Operator, x: np.ndarray) -> np.ndarray:
    """Return what NumPy computes in float64, in the type of the output."""
    with np.errstate(over="ignore", invalid="ignore"):  # of NaN that signal
        return record_of(type(op)).expected(op, [x])[0].astype(op.outputs[0].dtype)


INDEX = ("ARGMAX", "ARGMIN")


def make(function: str, x: np.ndarray | jax.Array, axes, output: str | None = None) -> Reduce:
    tensor = TensorDesc.of(x)
    output = output or ("UINT32" if function in INDEX else tensor.data_type.name)
    sizes = reduced(list(tensor.sizes), list(axes))
    return Reduce(
        function=function, input_tensor=tensor, output_tensor=TensorDesc(output, sizes), axes=axes
    )


def axes_of(rank: int) -> list[tuple[int, ...]]:
    """One axis to all: each end, adjacent pairs, every other one, all, in any order."""
    some = {(0,), (rank - 1,), (rank // 2,), tuple(range(rank)), tuple(range(0, rank, 2))}
    some |= {tuple(range(1, rank)), tuple(range(rank - 1)), (rank - 1, 0) if rank > 1 else (0,)}
    return sorted(axes for axes in some if axes)


@pytest.mark.parametrize("function", ReduceFunction, ids=str)
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 6, 8])
def test_every_function_rank_axes_and_type(function: ReduceFunction, rank: int):
    rng = np.random.default_rng(rank)
    sizes = (3, 2, 4, 2, 1, 3, 2, 2)[:rank]
    arrays = []
    for type_ in TYPES[function]:
        dtype = np.dtype(type_.lower())
        if np.issubdtype(dtype, np.floating):
            arrays.append((rng.integers(2, 14, sizes) / 8).astype(dtype))
        else:
            limits = np.iinfo(dtype)  # the whole range: sums and products wrap
            arrays.append(rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True))
    # Each axes with each type; at the higher ranks, for time, with two types in turn.
    each = len(arrays) if rank < (4 if NIGHTLY else 3) else 2
    turns = itertools.cycle(arrays)
    cases = [(next(turns), axes) for axes in axes_of(rank) for _ in range(each)]
    inputs = [x for x, _ in cases]
    ops = [make(function.name, x, axes) for x, axes in cases]
    assert {x.dtype for x in inputs} == {x.dtype for x in arrays}
    results = compiled_soon(lambda xs: [op(x) for op, x in zip(ops, xs, strict=True)])(inputs)
    for op, x, result in zip(ops, inputs, results, strict=True):
        expected = reference(op, x)
        tolerance = {"float16": 1e-3, "float32": 1e-6}.get(expected.dtype.name, 0)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0, err_msg=repr(op))


NANS = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)


@pytest.mark.parametrize("function", ["SUM", "MULTIPLY", "MAX"])
@pytest.mark.parametrize("length", [12, 16, 33, 98, 640])
def test_nan_of_every_kind_in_many_rows(function: str, length: int):
    """Quiet and signalling ones of either sign, in each place, beside infinities and 3e38."""
    rows = 2**16 // length + 1
    without = np.ones((rows, length), np.float32)
    without[:, 0] = np.resize([np.inf, 3e38, 1], rows)
    pick = {"SUM": np.sum, "MULTIPLY": np.prod, "MAX": np.max}[function]
    expected = pick(without.astype(np.float64), axis=1).astype(np.float32)
    x, some = without.copy(), np.arange(0, rows, 2)
    x[some, some // 2 % length], expected[some] = np.resize(NANS, some.size), np.nan
    for count in (rows, rows - 1):
        op, some = make(function, x[:count], [1]), x[:count]
        for result in (op(some), jax.jit(lambda x, op=op: op(jnp.abs(x)))(some)):
            np.testing.assert_allclose(result[:, 0], expected[:count], rtol=1e-6)


def test_float16_accumulates_in_float32():
    x = np.full((5000,), 100, np.float16)
    big, small = np.full(5000, 100, np.float16), np.ones(5000, np.float16)
    small[0] = 2048  # in FLOAT16, 2048 + 1 is 2048
    assert make("AVERAGE", x, [0])(x) == 100
    assert make("SUM", big, [0])(big) == np.inf  # 500000 is beyond FLOAT16, rounded at the end
    assert make("SUM", small, [0])(small) == np.float16(2048 + 4999)
    assert make("L2", big, [0])(big) == np.float16(np.sqrt(5000.0) * 100)
    assert make("LOG_SUM", big, [0])(big) == np.float16(np.log(500000.0))
    cancelling = np.array([60000, 60000, -60000, -60000, 1], np.float16)
    assert make("SUM", cancelling, [0])(cancelling) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_log_sum_exp_does_not_overflow(dtype: type):
    infinity = np.inf
    rows = np.array(
        [[1000, 1000], [-1000, -1000], [-infinity, -infinity], [infinity, 0], [-infinity, 3]], dtype
    )
    log2 = np.log(2.0)
    expected = np.array([[1000 + log2], [-1000 + log2], [-infinity], [infinity], [3]], dtype)
    result = make("LOG_SUM_EXP", rows, [1])(rows)
    np.testing.assert_allclose(result, expected, rtol=1e-6 if dtype == np.float32 else 0)


def test_log_sum_of_what_has_no_logarithm():
    x = np.array([[1, -1], [-1, -2], [0, 0]], np.float32)
    result = np.asarray(make("LOG_SUM", x, [1])(x)).ravel()
    np.testing.assert_array_equal(result, [-np.inf, np.nan, -np.inf])


def gradient(function: str, x, axes=(0,)):
    x = jnp.asarray(x)
    op = make(function, x, axes)
    return np.asarray(jax.grad(lambda x: op(x).sum())(x))


def test_gradients_as_stated():
    f32 = np.float32
    np.testing.assert_array_equal(gradient("L2", np.zeros(3, f32)), [0, 0, 0])
    np.testing.assert_array_equal(gradient("MAX", np.array([2, 1, 2], f32)), [0.5, 0, 0.5])
    np.testing.assert_array_equal(gradient("MIN", np.array([2, 2, 2, 2], f32)), [0.25] * 4)
    np.testing.assert_array_equal(gradient("LOG_SUM_EXP", np.full(3, -np.inf, f32)), [0, 0, 0])
    np.testing.assert_array_equal(gradient("LOG_SUM_EXP", np.full(2, 1000, f32)), [0.5, 0.5])
    np.testing.assert_array_equal(gradient("MULTIPLY", np.array([0, 3, 2], f32)), [6, 0, 0])
    tiny = 2.0**-100  # the product underflows, one derivative of three does
    got = gradient("MULTIPLY", np.array([tiny, tiny, 4], f32))
    np.testing.assert_array_equal(got, [4 * tiny, 4 * tiny, 0])
    np.testing.assert_array_equal(gradient("L1", np.array([0, -3, 2], f32)), [0, -1, 1])
    np.testing.assert_array_equal(gradient("MAX", np.array([1, np.nan, 1], f32)), [0, 0, 0])
    # Whose squares no float32 holds.
    np.testing.assert_allclose(gradient("L2", np.array([1e-30, 0], f32)), [1, 0], 1e-6)
    np.testing.assert_allclose(gradient("L2", np.array([3e19, 4e19], f32)), [0.6, 0.8], 1e-6)
    np.testing.assert_array_equal(gradient("MAX", np.ones(4096, np.float16)), [1 / 4096] * 4096)


@pytest.mark.parametrize("axis", range(4))
def test_second_derivative_of_a_product_under_vmap(axis: int):
    x = np.random.default_rng(3).uniform(0.5, 1.5, (2, 3, 4, 5)).astype(np.float32)

    def curvature(product: Any) -> jax.Array:
        over = jax.vmap(product, axis)
        return jax.jvp(lambda x: jax.jvp(over, (x,), (x,))[1], (x,), (x,))[1]

    got = curvature(lambda x: make("MULTIPLY", x, [0, 2])(x))
    np.testing.assert_allclose(got, curvature(lambda x: x.prod((0, 2), keepdims=True)), rtol=1e-5)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ([], "AxisCount to be at least 1, got 0"),
        ([3], "Axes[0] to be in [0, 2] (InputTensor.DimensionCount is 3), got 3"),
        ([0, 1, 0], "Axes[2] to differ from Axes[0], got 0"),
        ([4, 4], "Axes[1] to differ from Axes[0], got 4"),
    ],
)
def test_axes(axes: list[int], message: str):
    tensor = TensorDesc("FLOAT32", [2, 2, 2])
    with pytest.raises(DmlError, match=re.escape(message)):
        Reduce(function="SUM", input_tensor=tensor, output_tensor=tensor, axes=axes)


def test_all_faults_at_once():
    with pytest.raises(DmlError) as refused:
        Reduce(
            function="SUM",
            input_tensor=TensorDesc("FLOAT32", [1, 1, 3, 3]),
            output_tensor=TensorDesc("INT32", [1, 2, 1, 1], [2, 1, 1, 1]),
            axes=[3],
        )
    expected = "DML_OPERATOR_REDUCE: expected OutputTensor"
    assert str(refused.value).splitlines() == [
        f"{expected}.DataType to be FLOAT32 (InputTensor.DataType), got INT32",
        f"{expected}.Sizes[1] to be 1 (InputTensor.Sizes[1]) since dimension 1 is not reduced, "
        "got 2",
        f"{expected}.Sizes[2] to be 3 (InputTensor.Sizes[2]) since dimension 2 is not reduced, "
        "got 1",
    ]


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_log_sum_exp_is_flat_where_it_is_infinite(outer: Any, inner: Any):
    x = jnp.array([np.inf, 1, 2], jnp.float32)
    op = make("LOG_SUM_EXP", x, [0])
    assert not jnp.any(outer(inner(lambda x: op(x)[0]))(x))


@pytest.mark.parametrize("axis", [0, 1])
def test_slopes_beside_what_is_infinite(axis: int):
    """Also of 89, whose exponential is no float32; NaN stays in its column."""
    inf, nan, most = np.inf, np.nan, np.finfo(np.float32).max
    x = np.zeros((16, 4096), np.float32)
    x[0, :6], x[1, :6] = (inf, inf, -inf, -inf, nan, nan), (89, most, 0, inf, 0, inf)
    x[:, 6] = -inf
    expected = np.full_like(x, 1 / 16)
    expected[:, [0, 1, 3, 6]], expected[:, 2], expected[:, 4:6] = 0, [0, *[1 / 15] * 15], nan
    x, expected = (np.moveaxis(y, 0, axis) for y in (x, expected))
    op = make("LOG_SUM_EXP", x, [axis])

    def slope(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: op(x).sum())(x)

    np.testing.assert_allclose(jax.jit(slope)(x), expected, rtol=1e-6)
    second = jax.jit(lambda x: jax.jvp(slope, (x,), (jnp.ones_like(x),))[1])(x)
    np.testing.assert_allclose(second, np.where(np.isnan(expected), nan, 0), atol=1e-6)


def test_slopes_of_what_is_infinite_are_linear():
    """Also if they are derived by the result's gradient alone, as beside a constant x."""
    for function, x in (("MULTIPLY", [np.inf, 2, 3, 4]), ("MAX", [np.inf, 1]), ("L2", [0, 0])):
        x, one = np.array(x, np.float32), np.ones(1, np.float32)
        _, transposed = jax.vjp(make(function, x, [0]), x)
        (want,) = transposed(one)
        _, (got,) = jax.jvp(transposed, (one,), (one,))
        np.testing.assert_array_equal(got, want)


def test_curvature_of_the_largest_floats():
    x = np.full(2, np.finfo(np.float32).max)
    op = make("LOG_SUM_EXP", x, [0])
    curvature = jax.hessian(lambda x: op(x)[0])(x)
    np.testing.assert_allclose(curvature, [[0.25, -0.25], [-0.25, 0.25]], rtol=1e-6)


@pytest.mark.parametrize("function", ["MULTIPLY", "MAX", "LOG_SUM_EXP"])
def test_gradients_without_jit(function: str):
    x = np.array([[1, 2, 3], [6, 5, 4]], np.float32)
    op = make(function, x, [0])
    slope = jax.grad(lambda x: op(x).sum())
    want = slope(x)
    with jax.disable_jit():
        np.testing.assert_allclose(slope(x), want, rtol=1e-6)


def test_slopes_of_norms_do_not_overflow():
    for element, gradient in ((3e17, 1e-22), (1e-18, 1e22)):
        x = np.full(4, element, np.float32)
        (slope,) = jax.vjp(make("L2", x, [0]), x)[1](np.array([gradient], np.float32))
        np.testing.assert_allclose(slope, gradient / 2, rtol=1e-6)


FLOATS = ("FLOAT32", "FLOAT16")


def indices(op: type[Argmax] | type[Argmin], x: np.ndarray, axes, direction: str) -> Operator:
    tensor = TensorDesc.of(x)
    return op.infer(
        input_tensor=tensor, axes=axes, axis_direction=direction, output_data_type="UINT32"
    )


@pytest.mark.parametrize("function", ["SUM", "LOG_SUM_EXP"])
@pytest.mark.parametrize(
    ("length", "tolerance"),
    [(1500, 4 * 2**-23), (2999, 4 * 2**-23), (16381, 4 * 2**-23), (2**22 + 3, 2e-7)],
)
def test_many_elements_round_little(function: str, length: int, tolerance: float):
    """Rows in pieces of one length, in one pass, and in pieces and a rest."""
    x = np.random.default_rng(0).random((-(-(2**16) // length), length), np.float32) / 1000
    op = make(function, x, [1])
    np.testing.assert_allclose(op(x), reference(op, x), rtol=tolerance)


@pytest.mark.parametrize("function", ReduceFunction, ids=str)
def test_one_element_of_many(function: ReduceFunction):
    x = np.random.default_rng(0).random((2**15 + 1, 1), np.float32)
    expected = reference(op := make(function.name, x, [1]), x)
    np.testing.assert_allclose(op(x), expected, rtol=1e-6, atol=1e-7)


def test_denormals_count_as_they_are_or_as_0():
    """FLOAT32 on a CPU, whose XLA flushes; indices and FLOAT16 never."""
    x = jnp.array([0, 2.0**-140, 2.0**-130], jnp.float32)
    for function, exact in (("MAX", 2.0**-130), ("SUM", 2.0**-130 + 2.0**-140)):
        assert float(dml_jax.reduce(x, function)[0]) in (0, exact)
    assert float(dml_jax.reduce(-x, "MIN")[0]) in (0, -(2.0**-130))
    assert dml_jax.argmax(x).tolist() == dml_jax.argmin(-x).tolist() == [2]
    narrow = jnp.array([0, 1e-7, 3e-7], jnp.float16)
    for function, exact in (("MAX", narrow[2]), ("SUM", narrow[1] + narrow[2])):
        assert dml_jax.reduce(narrow, function)[0] == exact > 0


# Forms by platform, against the same references.

EVERY = ("SUM", "MULTIPLY", "MAX", "MIN", "LOG_SUM_EXP", "ARGMAX", "ARGMIN", "last ARGMAX")
SLOPED = ("MAX", "MIN", "LOG_SUM_EXP", "L2", "MULTIPLY")
INTEGERS = ("INT32", "UINT32", "INT16", "UINT8", "INT64")
SHAPES = ((3, 23, 7, 31), (53, 3), (61, 32), (1, 129), (4, 2, 9))


def elements(function: str, shape: tuple[int, ...], dtype: str, nan: float) -> np.ndarray:
    """Draw elements with what is special for the function among them."""
    rng = np.random.default_rng(0)
    x = (rng.integers(2, 14, shape) / 8).astype(dtype)
    if function == "MULTIPLY":
        x = rng.choice(np.array([0.5, 1, 2], dtype), shape, p=[0.02, 0.96, 0.02])
    elif "ARG" in function or function in ("MAX", "MIN"):
        x[..., :1] = -np.inf
        x[rng.random(shape) < 0.01] = nan
    elif function == "LOG_SUM_EXP":
        x[rng.random(shape) < 0.5] = -np.inf
    return x


def in_form(platform: str, calls: list[tuple[Callable[..., Any], Any]]) -> list[Any]:
    """Compute in the forms of a platform for many elements, in one program."""
    functions, inputs = zip(*calls, strict=True)
    with of_few_elements(), of_platform(platform), by_many_cores():
        return compiled_soon(lambda xs: [f(*x) for f, x in zip(functions, xs, strict=True)])(inputs)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("function", EVERY)
def test_forms_for_many_elements(platform: str, function: str):
    calls: list[tuple[Operator, Any]] = []
    # A GPU's MAX is XLA's own, which drops NaN where a CPU runs it.
    drops = platform == "cuda" and function in ("MAX", "MIN") and jax.default_backend() == "cpu"
    for number, shape in enumerate(SHAPES):
        dtype = ("float32", "float16")[number % 2]
        x = elements(function, shape, dtype, nan=9 if drops else np.nan)
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                if function.startswith("last"):
                    calls.append((indices(Argmax, x, axes, "DECREASING"), (x,)))
                else:
                    calls.append((make(function, x, axes), (x,)))
    calls = sample(calls, EVERY.index(function) + (platform == "cuda"))
    for (op, (x,)), result in zip(calls, in_form(platform, calls), strict=True):
        expected = reference(op, x)
        tolerance = 1e-3 if x.dtype == np.float16 else 1e-6
        np.testing.assert_allclose(result, expected, rtol=tolerance, err_msg=repr(op))


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("type_", INTEGERS)
def test_forms_for_many_integers(platform: str, type_: str):
    """Of the whole range, so that sums and products wrap."""
    dtype = np.dtype(type_.lower())
    limits, rng = np.iinfo(dtype), np.random.default_rng(0)
    x = rng.integers(limits.min, limits.max, (5, 19, 9), dtype, endpoint=True)
    functions = [str(f) for f in TYPES if type_ in TYPES[f]]
    over = [(0,), (1,), (2,), (0, 2), (0, 1, 2)]
    calls = [(make(function, x, axes), (x,)) for function in functions for axes in over]
    calls = sample(calls, INTEGERS.index(type_) + (platform == "cuda"))
    for (op, _), result in zip(calls, in_form(platform, calls), strict=True):
        np.testing.assert_array_equal(result, reference(op, x), err_msg=repr(op))


def slopes_in_float64(function: str, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return the derivative of the one result by each element."""
    x = x.astype(np.float64)
    if function in ("MAX", "MIN"):
        chosen = x == (np.max if function == "MAX" else np.min)(x, axes, keepdims=True)
        return chosen / chosen.sum(axes, keepdims=True)
    if function == "L2":
        return x / np.sqrt((x * x).sum(axes, keepdims=True))
    if function == "MULTIPLY":
        return x.prod(axes, keepdims=True) / x
    power = np.exp(x - np.max(x, axes, keepdims=True))
    return power / power.sum(axes, keepdims=True)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("function", SLOPED)
def test_gradients_in_the_forms_for_many_elements(platform: str, function: str):
    """Equal elements share; what is -inf beside others has no part of a softmax."""
    rng = np.random.default_rng(0)
    cases = []
    for number, shape in enumerate([(3, 23, 2, 11), (2, 9, 40), (53, 3)]):
        dtype = ("float32", "float16")[number % 2]
        x = (rng.integers(2, 14, shape) / 8).astype(dtype)
        if function == "LOG_SUM_EXP":
            x = np.where(rng.random(shape) < 0.1, -np.inf, x * 8).astype(dtype)
        if function == "MULTIPLY":
            x = rng.uniform(0.9, 1.1, shape).astype(dtype)
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                if not np.isinf(x.max(axes)).any():
                    op = make(function, x, axes)
                    y = rng.integers(1, 9, op.outputs[0].sizes).astype(dtype)
                    cases.append((op, axes, x, y))

    def gradient(op: Reduce, x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.vjp(op, x)[1](y)[0]

    cases = sample(cases, SLOPED.index(function) + (platform == "cuda"))
    calls = [(functools.partial(gradient, op), (x, y)) for op, _, x, y in cases]
    for (op, axes, x, y), result in zip(cases, in_form(platform, calls), strict=True):
        expected = slopes_in_float64(function, x, axes) * y
        tolerance, least = (2e-3, 1e-6) if x.dtype == np.float16 else (1e-5, TINY)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=least, err_msg=repr(op))


@pytest.mark.parametrize(
    ("platform", "type_"),
    [
        ("cpu", "FLOAT32"),  # a GPU's form compares floats, of which a CPU has no denormals
        *itertools.product(["cpu", "cuda"], ["FLOAT16", "INT32", "UINT32", "INT16", "UINT8"]),
    ],
)
def test_elements_beside_their_index(platform: str, type_: str):
    """All values of narrow ones, and all triples of special ones."""
    dtype = TensorDesc(type_, [1]).dtype
    if "FLOAT" in type_:
        small = np.finfo(dtype).smallest_subnormal
        values = [np.nan, -np.nan, -np.inf, -2, -small, -0.0, 0.0, small, 2, np.inf]
        special = np.array(values, dtype)
    else:
        limits = np.iinfo(dtype)
        special = np.array([limits.min, limits.min + 1, limits.max - 1, limits.max, 1, 0], dtype)
    rng = np.random.default_rng(0)
    triples = np.array(list(itertools.product(special, repeat=3)), dtype)
    every = np.arange(2**16, dtype=np.uint32)
    if dtype.itemsize == 4:  # some of them, all exponents among them
        every = every << 16 | rng.integers(0, 2**16, 2**16, np.uint32)
    every = every.astype(f"u{dtype.itemsize}").view(dtype)
    beside = np.stack([every, rng.permutation(every), rng.choice(special, 2**16)], 1)
    calls = [
        (indices(op, x, [1], direction), (x,))
        for op in (Argmax, Argmin)
        for direction in ("INCREASING", "DECREASING")
        for x in (triples, beside, rng.choice(special[2:], (64, 23)))
    ]
    for (op, (x,)), result in zip(calls, in_form(platform, calls), strict=True):
        expected = reference(op, x)
        np.testing.assert_array_equal(result, expected, err_msg=repr(op))


# What a CPU's programs are, at full optimisation.


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        *((name, type_) for name in ("SUM", "MAX", "LOG_SUM_EXP", "ARGMAX") for type_ in FLOATS),
        ("SUM", "INT32"),
        ("MAX", "INT32"),
    ],
)
def test_what_makes_the_input_is_not_stored(function: str, type_: str):
    """XLA fuses it with the reduction, whatever the number of rows and columns."""
    shapes: list[tuple[tuple[int, ...], list[int]]]
    shapes = [((400, n, 60), [1]) for n in (9, 13, 24, 143)]
    shapes += [((4001, n), [1]) for n in (12, 47, 1500, 2999)]
    shapes += [((8, 100001), [0]), ((16, 8, 47, 60), [0, 2]), ((9, 47, 8, 60), [1, 3])]
    host = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    for shape, axes in sample(shapes, type_ == "FLOAT16"):
        tensor = TensorDesc(type_, shape)
        x = jax.ShapeDtypeStruct(shape, tensor.dtype, sharding=host)
        op = make(function, np.broadcast_to(tensor.dtype.type(0), shape), axes)
        program = compiled_soon(lambda x: op(x * x))  # noqa: B023
        memory = program.lower(x).compile().memory_analysis()
        assert memory is not None
        assert memory.temp_size_in_bytes < 0.4 * tensor.dtype.itemsize * x.size, (shape, axes)


# Which form a program has.


def lowered(function: str, shape: tuple[int, ...], axis: int, platform: str) -> str:
    op = make(function, np.broadcast_to(np.float32(0), shape), [axis])
    traced = jax.jit(op).trace(jax.ShapeDtypeStruct(shape, np.float32))
    return traced.lower(lowering_platforms=(platform,)).as_text()


def test_a_gpu_keeps_two_things_as_one_number():
    assert "complex<f32>" in lowered("LOG_SUM_EXP", (4096, 256), 1, "cuda")
    assert "complex<f32>" not in lowered("LOG_SUM_EXP", (4096, 256), 1, "cpu")
    assert "reduce_window" in lowered("ARGMAX", (8, 2**14, 16), 1, "cuda")


def test_odd_short_rows_go_in_pieces_on_a_gpu():
    """Which are combined before XLA's own reduction, in the same kernel."""
    (reduced,) = (
        line
        for line in lowered("MAX", (4096, 49), 1, "cuda").splitlines()
        if "stablehlo.reduce" in line
    )
    assert "(tensor<4096x16x" in reduced


def on_host(function: Any) -> Any:
    if "f" not in inspect.signature(compute_on).parameters:  # before jax 0.12
        return compute_on("device_host")(function)
    space = jax.memory.Space.Device
    return compute_on(function, compute_type="device_host", out_memory_spaces=space)  # pyright: ignore[reportCallIssue]


def test_what_is_computed_on_the_host_is_plain():
    op = make("LOG_SUM_EXP", np.ones((300, 200), np.float32), (0,))
    shape = jax.ShapeDtypeStruct((300, 200), np.float32)
    program = jax.jit(on_host(op)).trace(shape).lower(lowering_platforms=("cuda",))
    assert "complex" not in program.as_text() and "shift_left" not in program.as_text()


@pytest.mark.parametrize("function", ReduceFunction, ids=str)
def test_an_export_has_no_tuning_of_this_machine(function: ReduceFunction):
    x = np.random.default_rng(5).random((64, 3, 2048), np.float32)

    programs = []
    for machine in (contextlib.nullcontext, by_many_cores):
        with machine():
            op = make(function.name, x, (0,))
            programs.append(jax.export.export(jax.jit(op), platforms=("cpu", "cuda"))(x))
    program, other = programs
    assert program.mlir_module() == other.mlir_module()
    expected = reference(make(function.name, x, (0,)), x)
    np.testing.assert_allclose(program.call(x), expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("function", sample([*ReduceFunction]), ids=str)
def test_sizes_that_are_symbols(function: ReduceFunction):
    """As jnp's reductions; the gradient of a product is JAX's own, which takes none."""
    x = np.random.default_rng(5).random((5, 3, 4), np.float32)
    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 3, 4"), np.float32)

    def call(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
        return dml_jax.reduce(x, function.name, axes)

    for axes in [(0,), (0, 1)]:
        ways: list[Callable[..., Any]] = [jax.vmap(functools.partial(call, axes=axes))]
        if function.name not in INDEX:
            ways.append(jax.grad(lambda x, f=ways[0]: f(x).sum()))
        for way in ways:
            program = jax.export.export(jax.jit(way))(shape)
            np.testing.assert_allclose(program.call(x), way(x), rtol=1e-5)


_OF_THREE: dict[str, Callable[..., Any]] = {  # rows, in functions that jet has rules for
    "SUM": lambda a, b, c: a + b + c,
    "AVERAGE": lambda a, b, c: (a + b + c) / 3,
    "L1": lambda a, b, c: a + b + c,
    "L2": lambda a, b, c: jnp.sqrt(a * a + b * b + c * c),
    "LOG_SUM": lambda a, b, c: jnp.log(a + b + c),
    "LOG_SUM_EXP": lambda a, b, c: jnp.log(jnp.exp(a) + jnp.exp(b) + jnp.exp(c)),
    "MAX": lambda a, b, c: c,
    "MIN": lambda a, b, c: a,
    "MULTIPLY": lambda a, b, c: a * b * c,
    "SUM_SQUARE": lambda a, b, c: a * a + b * b + c * c,
}


@pytest.mark.parametrize("function", _OF_THREE)
def test_taylor_series(function: str):
    x = np.linspace(0.2, 1, 12, dtype=np.float32).reshape(3, 4)
    terms = ((x, x * x, x - 1),)
    got = jet.jet(lambda x: dml_jax.reduce(jnp.exp(x), function, [0]), (x,), terms)
    want = jet.jet(lambda x: _OF_THREE[function](*jnp.exp(x)[:, None]), (x,), terms)
    for result, expected in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("platform", [None, "cpu", "cuda"])
def test_norms_keep_their_range(platform: str | None):
    for element, count, norm in ((1e-19, 4, 2e-19), (1.05e-19, 10000, 1.05e-17), (2e19, 4, 4e19)):
        x = jnp.full(count, element, jnp.float32)
        op = make("L2", x, [0])
        with of_platform(platform):
            value, slope = jax.value_and_grad(lambda x, op=op: op(x)[0])(x)
        np.testing.assert_allclose(value, norm, rtol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(slope), 1, rtol=1e-5)


CROWDED: list[tuple[list[int], int]] = [  # and the axis that is reduced
    ([3, 1, 2, 2, 8, 8, 8], 3),
    ([3, 1, 2, 2, 8, 8, 8], 2),
    ([2, 8, 3, 8, 8, 2, 1], 0),
    ([1, 1, 8, 8, 8, 1, 2, 8], 6),
    ([3, 3, 8, 8, 2, 1, 3, 8], 4),
    ([2, 1, 8, 1, 8, 2, 2, 8], 0),
]
"""XLA's CPU in jaxlib 0.10 ends the process, or computes wrong elements, if six axes are kept."""


def whole_numbers(sizes: list[int]) -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 5, (3, *sizes)).astype(np.float32)


@pytest.mark.parametrize(("sizes", "axis"), CROWDED)
def test_sums_of_products_in_many_dimensions(sizes: list[int], axis: int):
    a, b, _ = whole_numbers(sizes)
    total = (a.astype(float) * b).sum(axis, keepdims=True)
    for function, dtype, count in (("SUM", np.float32, 1), ("AVERAGE", np.float16, sizes[axis])):

        def program(a: Any, b: Any, function: str = function) -> Any:
            return dml_jax.reduce(dml_jax.multiply(a, b), function, [axis])

        xs = a.astype(dtype), b.astype(dtype)
        for way in (jax.jit(program), graph_of(program, *xs)):
            np.testing.assert_array_equal(way(*xs), total / count)


@pytest.mark.parametrize(("sizes", "axis"), CROWDED[::5])
def test_gradients_that_are_sums_in_many_dimensions(sizes: list[int], axis: int):
    """A broadcast's gradient is a sum; that of a softmax and of a normalization have some."""
    a, b, c = whole_numbers(sizes)
    mean, total = (functools.partial(f, axis=axis, keepdims=True) for f in (np.mean, np.sum))

    def pulled(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
        return np.asarray(jax.jit(lambda x, dy: jax.vjp(function, x)[1](dy)[0])(x, b))

    scaled = pulled(lambda v: dml_jax.multiply(dml_jax.multiply(a, v), c), a.take([0], axis))
    np.testing.assert_array_equal(scaled, total(a.astype(float) * b * c))

    e = np.exp(a.astype(float))
    y = e / total(e)
    found = pulled(lambda x: dml_jax.activation_softmax(x, [axis]), a)
    np.testing.assert_allclose(found, y * (b - total(y * b)), atol=1e-5)

    options = None, None, [axis], True, True, 0.25
    found = pulled(lambda x: dml_jax.mean_variance_normalization(x, *options), a)
    centred = a - mean(a.astype(float))
    inverse = 1 / np.sqrt(mean(centred**2) + 0.25)
    along = mean(b * centred) * inverse**2
    np.testing.assert_allclose(found, inverse * (b - mean(b) - centred * along), atol=1e-5)


def test_alike_fields_make_no_other_operator():
    fields: Any = {"input_tensor": TensorDesc("FLOAT32", [2, 3]), "axes": [1]}
    most, least = (cls.infer(**fields, axis_direction="INCREASING") for cls in (Argmax, Argmin))
    assert most != least
    assert most == Argmax.from_json(most.to_json())
    with pytest.raises(DmlError, match="be DML_OPERATOR_ARGMIN"):
        Argmin.from_json(most.to_json())


def test_the_largest_index_fits():
    """2^31 elements have indices up to 2^31 - 1."""
    one = TensorDesc("INT32", [1])
    ways: Any = (Argmax, {"axis_direction": "INCREASING"}), (Reduce, {"function": "ARGMIN"})
    for cls, how in ways:
        fields = {"output_tensor": one, "axes": [0], **how}
        cls(input_tensor=TensorDesc("UINT8", [2**31]), **fields)
        with pytest.raises(DmlError, match="hold 2147483648, the largest index"):
            cls(input_tensor=TensorDesc("UINT8", [2**31 + 1]), **fields)
