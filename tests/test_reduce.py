"""REDUCE, against NumPy in float64 and the choices its docstring states."""

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from forms import by_many_cores, compiled_soon, nothing_traced
from jax.experimental.compute_on import compute_on
from samples import FUNCTION_TYPES, SAMPLES, arg, reduce, reduced

import dml_jax
from dml_jax import Argmax, Argmin, DmlError, Operator, Reduce, ReduceFunction, TensorDesc
from dml_jax.lowering import loops_cpu, reduction
from dml_jax.lowering.folds import (
    cpu,
    extreme,
    gpu,
    index,
    log_sum_exp,
    one_value,
    packed,
    placed,
)
from dml_jax.lowering.slopes import slope_sum, slopes

TYPES = {function: types for functions, types in FUNCTION_TYPES.items() for function in functions}
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
@pytest.mark.parametrize("rank", range(1, 9))
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
    each = len(arrays) if rank < 4 else 2
    turns = itertools.cycle(arrays)
    cases = [(next(turns), axes) for axes in axes_of(rank) for _ in range(each)]
    inputs = [x for x, _ in cases]
    ops = [make(function.name, x, axes) for x, axes in cases]
    assert {x.dtype for x in inputs} == {x.dtype for x in arrays}
    results = compiled_soon(lambda xs: [op(x) for op, x in zip(ops, xs, strict=True)])(inputs)
    for op, x, result in zip(ops, inputs, results, strict=True):
        (expected,) = reduce(op, x)
        tolerance = {"float16": 1e-3, "float32": 1e-6}.get(expected.dtype.name, 0)
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=0, err_msg=repr(op))


@pytest.mark.parametrize("output", ["INT64", "INT32", "UINT64", "UINT32"])
@pytest.mark.parametrize("function", INDEX)
def test_indices_come_in_every_index_type(function: str, output: str):
    x = np.random.default_rng(0).integers(0, 4, (3, 5, 4)).astype(np.int16)
    pick = np.argmax if function == "ARGMAX" else np.argmin
    for axes in [(0,), (2,), (0, 2), (2, 0), (1, 2), (0, 1, 2)]:
        result = make(function, x, axes, output)(x)
        assert result.dtype == np.dtype(output.lower())
        np.testing.assert_array_equal(result, arg(pick, x, axes))


@pytest.mark.parametrize("function", INDEX)
@pytest.mark.parametrize("length", [*range(1, 34), 1000])
def test_nan_and_ties_go_to_the_first(function: str, length: int):
    places = range(length) if length < 40 else (0, 1, 511, 512, 998, 999)
    pairs = list(itertools.combinations_with_replacement(places, 2))
    ties = np.zeros((len(pairs), length), np.float32)
    nans = np.tile(np.linspace(-1, 1, length, dtype=np.float32), (len(pairs), 1))
    for row, (i, j) in enumerate(pairs):
        ties[row, [i, j]] = 1 if function == "ARGMAX" else -1
        nans[row, [i, j]] = np.nan
    first = np.array([[i] for i, _ in pairs])
    for x in (ties, nans):
        np.testing.assert_array_equal(make(function, x, [1])(x), first)
        np.testing.assert_array_equal(make(function, x.T, [0])(np.ascontiguousarray(x.T)), first.T)


@pytest.mark.parametrize("function", INDEX)
def test_signed_zeros_tie(function: str):
    x = np.array([[-0.0, 0.0, -0.0], [0.0, -0.0, 0.0]], np.float32)
    np.testing.assert_array_equal(make(function, x, [1])(x), [[0], [0]])


@pytest.mark.parametrize("function", ["MAX", "MIN", "SUM", "L1", "LOG_SUM_EXP", "L2", "AVERAGE"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_propagates(function: str, dtype: type):
    summed = function in ("L1", "L2", "AVERAGE")  # by SUM's forms
    for length in (8, 200) if summed else (1, 5, 8, 33, 64, 200):
        x = np.ones((length, length), dtype)
        np.fill_diagonal(x, np.nan)
        arrays, axes = (x, x, np.stack([x, x], 2), x[:1]), ([1], [0], [1], [0, 1])
        ops = [make(function, y, over) for y, over in zip(arrays, axes, strict=True)]
        results = jax.jit(lambda *ys, ops=ops: [op(y) for op, y in zip(ops, ys, strict=True)])
        assert all(np.isnan(result).all() for result in results(*arrays))


NANS = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)


@pytest.mark.parametrize("function", ["SUM", "MULTIPLY", "MAX"])
@pytest.mark.parametrize("length", [12, 13, 16, 17, 33, 49, 64, 65, 97, 98, 512, 513, 640, 768])
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


def test_integers_wrap():
    lowest = np.array([-(2**31), 0], np.int32)
    assert make("L1", lowest, [0])(lowest) == -(2**31)
    x = np.array([2**31 - 1, 1], np.int32)
    assert make("SUM", x, [0])(x) == -(2**31)
    y = np.array([2**63, 3], np.uint64)
    assert np.asarray(make("MULTIPLY", y, [0])(y)).tolist() == [2**63]
    assert make("SUM_SQUARE", y, [0])(y) == 9


def gradient(function: str, x, axes=(0,)):
    x = jnp.asarray(x)
    op = make(function, x, axes)
    return np.asarray(jax.grad(lambda x: op(x).sum())(x))


@pytest.fixture(params=["of the platform", "of a GPU's rows"])
def keeps_nan(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Slopes are of this form, where there are two. XLA's own maximum drops NaN on a CPU."""
    if request.param == "of the platform":
        yield True
        return
    rows = mock.patch.object(
        slopes, "_by_platform", lambda kind, x, axes: (kind.of_rows(x, axes), 1.0)
    )
    with rows, nothing_traced():
        yield jax.default_backend() != "cpu"


@pytest.mark.usefixtures("keeps_nan")
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
    # Of 1e-30 the square is 0, and 1e-30 / 0 infinite.
    np.testing.assert_allclose(gradient("L2", np.array([1e-30, 0], f32)), 0, atol=1)
    np.testing.assert_array_equal(gradient("MAX", np.ones(4096, np.float16)), [1 / 4096] * 4096)


@pytest.mark.parametrize("axis", range(4))
def test_second_derivative_of_a_product_under_vmap(axis: int):
    x = np.random.default_rng(3).uniform(0.5, 1.5, (2, 3, 4, 5)).astype(np.float32)

    def curvature(product: Any) -> jax.Array:
        over = jax.vmap(product, axis)
        return jax.jvp(lambda x: jax.jvp(over, (x,), (x,))[1], (x,), (x,))[1]

    got = curvature(lambda x: make("MULTIPLY", x, [0, 2])(x))
    np.testing.assert_allclose(got, curvature(lambda x: x.prod((0, 2), keepdims=True)), rtol=1e-5)


FLOAT_FUNCTIONS = [f.name for f in ReduceFunction if f.name not in INDEX]


@pytest.mark.parametrize("function", FLOAT_FUNCTIONS)
@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), (0, 1, 2)], ids=str)
def test_gradients_against_finite_differences(function: str, axes: tuple[int, ...]):
    # The lowering itself, since no row of REDUCE has FLOAT64.
    from dml_jax.operators.reduction import FUNCTIONS

    reduction = FUNCTIONS[ReduceFunction.of(function)]
    x = np.random.default_rng(3).uniform(0.2, 1.5, (3, 2, 4))
    weights = np.random.default_rng(4).standard_normal(reduced([3, 2, 4], list(axes)))

    def scalar(x):
        return jnp.vdot(reduction(x, axes), weights)

    exact, step = np.asarray(jax.grad(scalar)(jnp.asarray(x))), 1e-6
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        slope = (scalar(jnp.asarray(up)) - scalar(jnp.asarray(down))) / (2 * step)
        assert exact[place] == pytest.approx(float(slope), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize(
    ("axes", "messages"),
    [
        ([], ["AxisCount to be at least 1, got 0"]),
        ([3], ["Axes[0] to be in [0, 2] (InputTensor.DimensionCount is 3), got 3"]),
        ([0, 1, 0], ["Axes[2] to differ from Axes[0], got 0"]),
        ([4, 4], ["Axes[0] to be in [0, 2]", "Axes[1] to differ from Axes[0], got 4"]),
    ],
)
def test_axes(axes: list[int], messages: list[str]):
    tensor = TensorDesc("FLOAT32", [2, 2, 2])
    with pytest.raises(DmlError) as refused:
        Reduce(function="SUM", input_tensor=tensor, output_tensor=tensor, axes=axes)
    for message in messages:
        assert message in str(refused.value)


def test_all_faults_at_once():
    with pytest.raises(DmlError) as refused:
        Reduce(
            function="SUM",
            input_tensor=TensorDesc("FLOAT32", [1, 1, 3, 3]),
            output_tensor=TensorDesc("INT32", [1, 2, 1, 1], [2, 1, 1, 1]),
            axes=[3],
        )
    assert [(f.field, f.rule, f.value) for f in refused.value.faults] == [
        ("OutputTensor.DataType", "be FLOAT32 (InputTensor.DataType)", "INT32"),
        (
            "OutputTensor.Sizes[1]",
            "be 1 (InputTensor.Sizes[1]) since dimension 1 is not reduced",
            2,
        ),
        (
            "OutputTensor.Sizes[2]",
            "be 3 (InputTensor.Sizes[2]) since dimension 2 is not reduced",
            1,
        ),
    ]
    assert str(refused.value).splitlines()[2] == (
        "DML_OPERATOR_REDUCE: expected OutputTensor.Sizes[2] to be 3 (InputTensor.Sizes[2]) "
        "since dimension 2 is not reduced, got 1"
    )


@pytest.mark.usefixtures("keeps_nan")
@pytest.mark.parametrize("function", FLOAT_FUNCTIONS)
def test_second_derivatives(function: str):
    """What finite differences of the first derivative say; 0 where a function has corners."""
    x = jnp.array([[0.5, 1.25, 0.75], [1.5, 0.25, 1.0]], jnp.float32)
    op = make(function, x, [1])
    first = jax.jit(jax.grad(lambda x: op(x).sum()))
    hessian = jax.jit(jax.jacfwd(first))(x)
    step = 1e-2
    for place in np.ndindex(2, 3):
        up, down = x.at[place].add(step), x.at[place].add(-step)
        slope = [first(x) for x in (up, down)]
        np.testing.assert_allclose(hessian[place], (slope[0] - slope[1]) / (2 * step), atol=2e-3)


@pytest.mark.usefixtures("keeps_nan")
@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_log_sum_exp_is_flat_where_it_is_infinite(outer: Any, inner: Any):
    x = jnp.array([np.inf, 1, 2], jnp.float32)
    op = make("LOG_SUM_EXP", x, [0])
    assert not jnp.any(outer(inner(lambda x: op(x)[0]))(x))


@pytest.mark.parametrize("axis", [0, 1])
def test_slopes_beside_what_is_infinite(axis: int, keeps_nan: bool):
    """Also of 89, whose exponential is no float32; NaN stays in its column."""
    inf, nan, most = np.inf, np.nan, np.finfo(np.float32).max
    x = np.zeros((16, 4096), np.float32)
    x[0, :6], x[1, :6] = (inf, inf, -inf, -inf, nan, nan), (89, most, 0, inf, 0, inf)
    x[:, 6] = -inf
    expected = np.full_like(x, 1 / 16)
    expected[:, [0, 1, 3, 6]], expected[:, 2], expected[:, 4:6] = 0, [0, *[1 / 15] * 15], nan
    x, expected = (
        np.moveaxis(y if keeps_nan else np.delete(y, [4, 5], 1), 0, axis) for y in (x, expected)
    )
    op = make("LOG_SUM_EXP", x, [axis])

    def slope(x: jax.Array) -> jax.Array:
        return jax.grad(lambda x: op(x).sum())(x)

    np.testing.assert_allclose(jax.jit(slope)(x), expected, rtol=1e-6)
    second = jax.jit(lambda x: jax.jvp(slope, (x,), (jnp.ones_like(x),))[1])(x)
    np.testing.assert_allclose(second, np.where(np.isnan(expected), nan, 0), atol=1e-6)


@contextlib.contextmanager
def slopes_in_pieces() -> Iterator[None]:
    """As those of much are over its first axis on a GPU."""
    on_a_gpu = mock.patch.object(
        slope_sum.placement, "by_platform", lambda platforms, forms, default: forms["cuda"]
    )
    with mock.patch.object(slope_sum, "MUCH", 1), on_a_gpu, nothing_traced():
        yield


@pytest.mark.parametrize("function", ["MAX", "L2", "LOG_SUM_EXP"])
def test_slopes_in_pieces(function: str):
    """They derive and map as others do."""
    x = np.random.default_rng(5).integers(1, 5, (6, 1, 3)).astype(np.float32)
    weights = np.array([[[1, 2, 3]]], np.float32)
    op = make(function, x, [0])

    def total(x: jax.Array) -> jax.Array:
        return (op(x) * weights).sum()

    def derived() -> Any:
        slope = jax.grad(total)
        program = jax.jit(slope)
        batch = jnp.stack([x, x[::-1]])
        results = [program(x), slope(x), jax.vmap(slope)(batch), jax.jit(jax.hessian(total))(x)]
        _, transposed = jax.vjp(op, x)
        twice = jax.linear_transpose(lambda y: transposed(y)[0], weights)(x)
        second = jax.jacrev(slope)(x)
        return program.lower(x).as_text(), [*results, *twice, second, jax.jvp(op, (x,), (x,))[1]]

    text, expected = derived()
    with slopes_in_pieces():
        in_pieces, results = derived()
    assert "concatenate" in in_pieces and "concatenate" not in text
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, want, rtol=1e-6, atol=1e-6)


def test_slopes_of_what_is_infinite_are_linear():
    """Also if they are derived by the result's gradient alone, as beside a constant x."""
    for function, x in (("MULTIPLY", [np.inf, 2, 3, 4]), ("MAX", [np.inf, 1]), ("L2", [0, 0])):
        x, one = np.array(x, np.float32), np.ones(1, np.float32)
        _, transposed = jax.vjp(make(function, x, [0]), x)
        (want,) = transposed(one)
        _, (got,) = jax.jvp(transposed, (one,), (one,))
        np.testing.assert_array_equal(got, want)


@pytest.mark.usefixtures("keeps_nan")
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


@pytest.mark.parametrize("function", FLOAT_FUNCTIONS)
@pytest.mark.parametrize("axes", [(0,), (0, 1)], ids=str)
def test_many_columns(function: str, axes: tuple[int, ...]):
    """Leading axes of wide tensors are summed in another way on CPU: to the same answer."""
    x = np.random.default_rng(5).uniform(0.2, 1.5, (3, 2, 2**15 + 1)).astype(np.float32)
    op = make(function, x, axes)
    np.testing.assert_allclose(op(x), reduce(op, x)[0], rtol=1e-5, atol=1e-6)
    few = np.ascontiguousarray(x[..., :64])
    slopes = [
        jax.grad(lambda x, op=op: op(x).sum())(jnp.asarray(x))
        for op, x in ((op, x), (make(function, few, axes), few))
    ]
    np.testing.assert_allclose(slopes[0][..., :64], slopes[1], rtol=1e-5)
    batch = np.stack([x, 2 * x])
    np.testing.assert_allclose(jax.vmap(op)(batch)[1], op(2 * x), rtol=1e-5, atol=1e-6)


def indices(op: type[Argmax] | type[Argmin], x: np.ndarray, axes, direction: str) -> Operator:
    tensor = TensorDesc.of(x)
    return op.infer(
        input_tensor=tensor, axes=axes, axis_direction=direction, output_data_type="UINT32"
    )


FLOATS = ("FLOAT32", "FLOAT16")
TWO_KEPT = ("LOG_SUM_EXP", "ARGMAX", "ARGMIN", "last ARGMAX")
SEVERAL_RUNS = (3, 23, 7, 31)
GRADIENTS = (SEVERAL_RUNS, (2, 9, 40), (4, 53, 3), (6, 5, 50, 4))
SHAPES = (SEVERAL_RUNS, (2, 9, 40), (4, 53, 3), (70, 3), (97, 3), (61, 32), (1, 129), (129, 1))
UNEVEN = ((6, 35), (35, 6), (36, 9), (35, 9), (35, 30), (3, 70), (24, 53))
UNEVEN += ((3, 5, 4), (4, 2, 9), (5, 4, 7, 6), (8, 5, 2), (4, 3, 17))
# They go as the others do, and differ in what compares or combines two: fewer shapes will do.
ALIKE = ("MULTIPLY", "MIN", "ARGMIN", "last ARGMAX")


@contextlib.contextmanager
def forms_for_many_elements(form: Any) -> Iterator[None]:
    """Reductions take the forms of a module, which go by a few elements as by millions."""
    few = {"row": 4}
    arg_fold = reduction.arg_fold
    here = mock.patch.object(placed, "cpu", form)
    little: dict[str, Any] = {"LITTLE": 0}
    on_gpu = {"AT_ONCE": 2, "MANY": 50, "THREADS": 8, "LEFT": 2}
    on_gpu |= {"BYTES": 2, "ROWS": 2, "GROUPED": range(4, 99), "GROUPS": 2}
    on_gpu |= {"FEW_COLUMNS": 3, "BESIDE": 2}
    on_gpu |= {"MULTIPLE": 2, "LONG_ROW": 60, "LANES": 2}
    on_cpu = {"BLOCKS": 7, "FUSED_AT_ONCE": 8, "FEWEST_BLOCKS": 5, "STORED_AT_ONCE": 3}
    on_cpu |= {"LONG_ROW": 24, "WHOLE_ROW": 40, "PIECE": 24}
    little |= on_gpu if form is gpu else on_cpu
    sizes = mock.patch.multiple(form, **little)
    shared = mock.patch.multiple(loops_cpu, LITTLE=0, CORES=4)
    kinds = mock.patch.multiple(
        reduction,
        LOG_EXP_SUM=dataclasses.replace(reduction.LOG_EXP_SUM, **few),
        arg_fold=lambda *which: dataclasses.replace(arg_fold(*which), **few),
    )
    of_slopes = dataclasses.replace(slopes.EXP_SUM, **few)
    slope = mock.patch.object(slopes, "EXP_SUM", of_slopes)
    few_exponentials = mock.patch.object(log_sum_exp, "FEW_EXPONENTIALS", 100)
    with here, sizes, by_many_cores(), shared, kinds, slope, few_exponentials, nothing_traced():
        yield


@pytest.mark.parametrize(
    "form, function",
    list(itertools.product([cpu, gpu], ["SUM", "MULTIPLY", "MAX", "MIN", *TWO_KEPT])),
    ids=lambda value: value if isinstance(value, str) else value.__name__.split(".")[-1],
)
def test_the_forms_for_many_elements(form: Any, function: str):
    rng = np.random.default_rng(0)
    ops: list[Operator] = []
    inputs = []
    for number, shape in enumerate(SHAPES if function in ALIKE else SHAPES + UNEVEN):
        x = (rng.integers(2, 14, shape) / 8).astype(np.float16 if number % 3 == 1 else np.float32)
        if function == "MULTIPLY":
            x = rng.choice(np.array([0.5, 1, 2], x.dtype), shape, p=[0.02, 0.96, 0.02])
        if "ARG" in function and number % 3 == 2:
            x = (8 * x).astype(np.uint8)
            x[..., :1], x[..., 1:2] = 0, 255
        elif "ARG" in function:
            x[..., :1], x[..., 1:2] = -np.inf, np.inf
            x[rng.random(shape) < 0.01] = np.nan
        if function == "LOG_SUM_EXP":
            x[rng.random(shape) < 0.6] = -np.inf
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                if function.startswith("last"):
                    ops.append(indices(Argmax, x, axes, "DECREASING"))
                else:
                    ops.append(make(function, x, axes))
                inputs.append(x)
    with forms_for_many_elements(form):
        results = compiled_soon(lambda xs: [op(x) for op, x in zip(ops, xs, strict=True)])(inputs)
    for op, x, result in zip(ops, inputs, results, strict=True):
        (expected,) = SAMPLES[op.c_name].reference(op, x)
        tolerance = 1e-3 if x.dtype == np.float16 else 1e-6
        np.testing.assert_allclose(result, expected, rtol=tolerance, err_msg=repr(op))


def test_blocks_of_columns():
    """They leave little, or fewer rows than one has are missing; uneven ones fill the threads."""
    rng = np.random.default_rng(0)
    for k, n, c in np.exp(rng.uniform(0, 14, (300, 3))).astype(int).tolist():
        count, size = gpu._blocks(gpu.MANY, k, n, c)
        assert count >= 1 and size >= 1
        assert -size < n - count * size <= n // gpu.LEFT
    for k, n, c in ((1, 6656, 18801), (1, 16411, 8209), (1, 1048576, 3), (5, 40009, 1021)):
        count, _ = gpu._blocks(gpu.MANY, k, n, c)
        assert count > 1 and k * count * c % gpu.THREADS == 0


@pytest.mark.parametrize("function", ["SUM", "MULTIPLY", "MAX", "MIN", "L1", "SUM_SQUARE"])
def test_signed_integers_on_a_gpu(function: str):
    """There they are reduced by their bits."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (5, 7, 9)).astype(np.int32)
    if function == "MULTIPLY":
        x = np.where(rng.random(x.shape) < 0.1, x, np.int32(-1))
    if function in ("MAX", "MIN"):
        limits = np.iinfo(np.int32)
        x[rng.random(x.shape) < 0.2] = limits.min
        x[rng.random(x.shape) < 0.2] = limits.max
    for axes in ([0], [1], [2], [0, 2], [0, 1, 2]):
        op = make(function, x, axes)
        with forms_for_many_elements(gpu):
            result = jax.jit(lambda x, op=op: op(x))(x)
        np.testing.assert_array_equal(result, reduce(op, x)[0])


def slopes_in_float64(function: str, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The derivative of the one result by each element."""
    x = x.astype(np.float64)
    if function in ("MAX", "MIN"):
        chosen = x == (np.max if function == "MAX" else np.min)(x, axes, keepdims=True)
        return chosen / chosen.sum(axes, keepdims=True)
    if function == "L2":
        return x / np.sqrt((x * x).sum(axes, keepdims=True))
    power = np.exp(x - np.max(x, axes, keepdims=True))
    return power / power.sum(axes, keepdims=True)


@pytest.mark.parametrize("form", [cpu, gpu], ids=["cpu", "gpu"])
@pytest.mark.parametrize("function", ["MAX", "MIN", "LOG_SUM_EXP", "L2"])
def test_gradients_in_the_forms_for_many_elements(form: Any, function: str):
    """Equal elements share; what is -inf beside others has no part of a softmax."""
    rng = np.random.default_rng(0)
    ops: list[Operator] = []
    inputs, weights = [], []
    shapes = GRADIENTS[-2:] if function in ALIKE else (*GRADIENTS, (61, 32), (35, 30))
    for number, shape in enumerate(shapes):
        x = (rng.integers(2, 14, shape) / 8).astype(np.float16 if number % 3 == 1 else np.float32)
        if function == "LOG_SUM_EXP":
            x = np.where(rng.random(shape) < 0.1, -np.inf, x * 8).astype(x.dtype)
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                if np.isinf(x.max(axes)).any():
                    continue
                ops.append(make(function, x, axes))
                inputs.append(x)
                weights.append(rng.integers(1, 9, ops[-1].outputs[0].sizes).astype(x.dtype))

    def gradients(xs: Any, weights: Any) -> Any:
        every = zip(ops, xs, weights, strict=True)
        return [jax.vjp(op, x)[1](weight)[0] for op, x, weight in every]

    in_pieces = slopes_in_pieces() if form is gpu else contextlib.nullcontext()
    with forms_for_many_elements(form), in_pieces:
        results = compiled_soon(gradients)(inputs, weights)
    assert len(results) > (20 if function in ALIKE else 30)
    for op, x, weight, result in zip(ops, inputs, weights, results, strict=True):
        axes = tuple(op.axes)  # pyright: ignore[reportAttributeAccessIssue]
        expected = slopes_in_float64(function, x, axes) * weight
        few = 2e-6 if jax.default_backend() == "cpu" else 1e-5  # a GPU sums by pairs
        tolerance = 1e-3 if x.dtype == np.float16 else few
        least = 1e-7 if x.dtype == np.float16 else 0  # a denormal has fewer digits
        np.testing.assert_allclose(
            result, expected, rtol=tolerance, atol=least, err_msg=f"{op!r} {x.shape}"
        )
        assert (np.asarray(result)[np.isinf(x)] == 0).all()


@pytest.mark.parametrize("function", ["MAX", "LOG_SUM_EXP"])
@pytest.mark.parametrize("n, cuts", [(64, [(2, 8), (2, 2)]), (9, [(3, 3)]), (50, [(2, 5), (5, 1)])])
def test_two_things_are_kept_in_one_loop_on_a_cpu(
    n: int, cuts: list[tuple[int, int]], function: str
):
    """Which reads x once; the gradient's own loop does so once more."""
    assert cpu._cuts(n) == cuts
    op = make(function, x := np.ones((4, n, 3000), np.float32), [1])
    gradient = jax.jit(lambda x, dy: jax.vjp(op, x)[1](dy)[0])
    text = gradient.lower(x, op(x)).compile().as_text()
    assert text is not None
    entry = text[text.index("ENTRY") :].splitlines()
    (name,) = (
        line.split()[0] for line in entry if f"f32[4,{n},3000]" in line and " parameter(" in line
    )
    if jax.default_backend() == "cpu":
        assert sum(name in line.partition(" = ")[2] for line in entry) == 2
    np.testing.assert_allclose(gradient(x, np.full((4, 1, 3000), n, np.float32)), 1)


@pytest.mark.parametrize(
    ("kind", "shape", "axes"),
    [(slopes.EXP_SUM, (4, n, 9), [1]) for n in (2, 5, 13, 26, 35)]
    + [(kind, (13, 5, 8, 3), [0, 2]) for kind in (slopes.EXP_SUM, slopes.COUNTED[True])],
)
def test_columns_that_are_not_cut_for_one_loop(kind: Any, shape: tuple[int, ...], axes: list[int]):
    """Large primes are in the way, and pairs of single elements take longer than another look."""
    assert cpu._in_one_loop(kind, jnp.zeros(shape), axes) is None


@pytest.mark.parametrize("form", [cpu.fold, gpu.fold])
@pytest.mark.parametrize(
    "kind",
    [
        extreme.MAX,
        one_value.SUM,
        slopes.EXP_SUM,
        slopes.COUNTED[True],
        index.arg_fold(True, False, np.dtype(np.int32), np.dtype(np.int32)),
    ],
)
@pytest.mark.parametrize(("kept", "axes"), [([1], [0]), ([0], [1]), ([0, 2], [1])])
def test_axes_of_one_element_change_nothing(form: Any, kind: Any, kept: list[int], axes: list[int]):
    """Wherever they are, reduced or not."""
    sizes = [64, 2048, 3][: len(kept) + 1]

    def steps(at: int | None, is_reduced: bool = False) -> list[str]:
        shape, over = [*sizes], [*axes]
        if at is not None:
            shape.insert(at, 1)
            over = [a + (a >= at) for a in axes] + [at] * is_reduced
        x = jax.ShapeDtypeStruct(shape, jnp.float32)
        program = jax.make_jaxpr(lambda x: form(kind, x, tuple(over)))(x)
        moves = ("reshape", "squeeze", "broadcast_in_dim")
        return [name for eqn in program.eqns if (name := eqn.primitive.name) not in moves]

    for at in range(len(sizes) + 1):
        assert steps(at, True) == steps(at) == steps(None)


def test_axes_of_one_element_are_not_in_the_way_of_one_loop():
    x = np.random.default_rng(0).integers(0, 3, (1, 6, 8, 40)).astype(np.float32)
    parts = cpu._in_one_loop(slopes.COUNTED[True], jnp.asarray(x), [0, 2])
    assert parts is not None
    top = x.max((0, 2))
    np.testing.assert_array_equal(parts[0], top)
    np.testing.assert_array_equal(parts[1], (x == top[None, :, None]).sum((0, 2)))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1000, 999), None),
        ((1000, 1000), (4, 2**17)),
        ((2048, 2048), (4, 2**17)),
        ((8192, 8192), (4, 2**17)),
        ((2**15, 2**14), (4, 2**19)),
    ],
)
def test_bytes_are_read_in_fours_on_a_gpu(monkeypatch, shape: tuple[int, int], expected: Any):
    """The columns of a thread, and how many threads there are to be."""
    asked, by_threads = [], gpu._by_threads

    def recorded(kind: Any, parts: Any, many: int, *, abreast: int = 1):
        asked.append((abreast, many) if abreast > 1 else None)
        return by_threads(kind, parts, many, abreast=abreast)

    monkeypatch.setattr(gpu, "_by_threads", recorded)
    x = jax.ShapeDtypeStruct(shape, jnp.uint8)
    largest = index.arg_fold(True, False, np.dtype(np.int32))
    jax.eval_shape(lambda x: gpu.fold(largest, x, (0,)), x)
    assert asked == [expected]


@pytest.mark.parametrize(
    ("shape", "dtype", "stages"),
    [
        ((2**15, 256, 2), "f4", ["_rows_beside"]),
        ((2**15, 64, 2), "f2", ["_rows_beside"]),  # short, but each begins a line of memory
        ((2**15, 67, 2), "f2", []),
        ((2**15, 64, 4), "f2", []),
        ((2**15, 1000, 3), "f2", ["_rows_beside"]),
        ((2**15, 256, 5), "f4", []),
        ((1, 2**17, 128), "f2", ["_in_groups"]),
        ((1, 333000, 100), "f2", []),  # of so many blocks XLA's one kernel is as fast
        ((1, 2**17, 256), "f4", ["_in_groups"]),
        ((1, 2**16, 512), "f4", []),
    ],
)
def test_stages_of_columns_on_a_gpu(
    shape: tuple[int, ...], dtype: str, stages: list[str], monkeypatch: pytest.MonkeyPatch
):
    """As docs/forms.md has measured them."""
    taken = []
    for name in ("_rows_beside", "_in_groups"):
        stage = getattr(gpu, name)
        monkeypatch.setattr(
            gpu, name, lambda *args, name=name, stage=stage: taken.append(name) or stage(*args)
        )
    largest = index.arg_fold(True, False, np.dtype(np.uint32))
    jax.eval_shape(lambda x: gpu.fold(largest, x, (1,)), jax.ShapeDtypeStruct(shape, dtype))
    assert taken == stages


NARROW = ("FLOAT16", "INT16", "UINT16", "INT8", "UINT8")


@pytest.mark.parametrize(
    "form, type_",
    [(cpu, name) for name in ("FLOAT32", "INT32", "UINT32", *NARROW)]
    + [(gpu, name) for name in ("INT32", "UINT32", *NARROW)],
    ids=lambda value: value if isinstance(value, str) else value.__name__.split(".")[-1],
)
def test_elements_beside_their_index(form: Any, type_: str):
    """All values of narrow ones, all triples of special ones, rows that are cut into several."""
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
    numbers = special[2:] if "FLOAT" in type_ else special
    long, even = rng.choice(numbers, (64, 23, 1)), rng.choice(numbers, (64, 24, 1))
    columns = rng.choice(numbers, (4, 23, 16))
    ops = [
        (indices(op_type, x, [1], direction), x)
        for op_type in (Argmax, Argmin)
        for direction in ("INCREASING", "DECREASING")
        for x in (triples, beside, beside.T[None], long, even, columns)
    ]
    little: dict[str, Any] = {"LITTLE": 0}
    if form is gpu:
        little |= {"PACKED": 2, "ROW": 4, "AT_ONCE": 2, "LEFT": 1}
    arg_fold = reduction.arg_fold
    with (
        mock.patch.object(placed, "cpu", form),
        mock.patch.multiple(form, **little),
        mock.patch.object(packed.Packing, "most", lambda *_: 5),
        mock.patch.object(
            reduction, "arg_fold", lambda *which: dataclasses.replace(arg_fold(*which), row=2)
        ),
    ):
        results = compiled_soon(lambda xs: [op(x) for (op, _), x in zip(ops, xs, strict=True)])(
            [x for _, x in ops]
        )
    for (op, x), result in zip(ops, results, strict=True):
        (expected,) = SAMPLES[op.c_name].reference(op, x)
        np.testing.assert_array_equal(result, expected, err_msg=repr(op))


@pytest.mark.parametrize("type_", ["FLOAT32", "INT32", "UINT32", *NARROW])
def test_extremes_of_many_lengths(type_: str):
    """Infinities, NaN of either sign and limits anywhere in rows and columns; -0.0 alone stays."""
    dtype = TensorDesc(type_, [1]).dtype
    is_float = "FLOAT" in type_
    limits = np.finfo(dtype) if is_float else np.iinfo(dtype)
    values = [limits.min, limits.max, *((-np.inf, -0.0, 0.0, np.inf) if is_float else (0, 1))]
    rng = np.random.default_rng(0)
    inputs = []
    around = {"FLOAT32": (24, 47, 48), "FLOAT16": (39, 40)}.get(type_, (79, 80))  # PACKED_ROWS
    for length in (9, 16, 33, *around, 256):
        x = rng.integers(0, 100, (2**15 // length // 3 * 3 + 3, length)).astype(dtype)
        some = rng.random(x.shape) < 0.5 / length
        x[some] = rng.choice(np.array(values, dtype), int(some.sum()))
        if is_float:
            x[rng.random(x.shape) < 0.2 / length] = np.nan
            x[rng.random(x.shape) < 0.2 / length] = -np.nan
            x[0] = -0.0
        narrow = np.swapaxes(x.reshape(-1, 3, length), 1, 2)
        inputs += [(x, 1), (np.ascontiguousarray(x.T), 0), (np.ascontiguousarray(narrow), 1)]
    ops = [(make(function, x, [axis]), x) for function in ("MAX", "MIN") for x, axis in inputs]
    results = jax.jit(lambda xs: [op(x) for (op, _), x in zip(ops, xs, strict=True)])(
        [x for _, x in ops]
    )
    for (op, x), result in zip(ops, results, strict=True):
        (expected,) = SAMPLES[op.c_name].reference(op, x)
        np.testing.assert_array_equal(result, expected, err_msg=repr(op))
        assert not is_float or np.signbit(np.asarray(result).flat[0])


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        *((name, type_) for name in ("SUM", "MAX", *TWO_KEPT[:2]) for type_ in FLOATS),
        *((name, "INT32") for name in ("SUM", "L1", "SUM_SQUARE", "MULTIPLY", "MAX", "ARGMAX")),
    ],
)
def test_what_makes_the_input_is_not_stored(function: str, type_: str):
    """XLA fuses it with the reduction, whatever the number of rows and columns."""
    shapes: list[tuple[tuple[int, ...], list[int]]]
    shapes = [((400, n, 60), [1]) for n in (9, 13, 16, 24, 33, 48, 65, 143)]
    shapes += [((4001, n), [1]) for n in (9, 12, 40, 47, 256, 1500, 2999)]
    shapes += [((8, 100001), [0]), ((300001,), [0])]
    shapes += [((16, 8, 47, 60), [0, 2]), ((9, 47, 8, 60), [1, 3])]
    host = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    for shape, axes in shapes:
        tensor = TensorDesc(type_, shape)
        x = jax.ShapeDtypeStruct(shape, tensor.dtype, sharding=host)
        op = make(function, np.broadcast_to(tensor.dtype.type(0), shape), axes)
        program = compiled_soon(lambda x: op(x * x))  # noqa: B023
        memory = program.lower(x).compile().memory_analysis()
        size = tensor.dtype.itemsize * x.size
        assert memory is not None
        assert memory.temp_size_in_bytes < 0.4 * size, (shape, axes)


@pytest.mark.parametrize("function", ["SUM", "LOG_SUM_EXP"])
@pytest.mark.parametrize(
    ("length", "tolerance"),
    [(1500, 4 * 2**-23), (2999, 4 * 2**-23), (16381, 4 * 2**-23), (2**22 + 3, 2e-7)],
)
def test_many_elements_round_little(function: str, length: int, tolerance: float):
    """Rows in pieces of one length, in one pass, and in pieces and a rest."""
    x = np.random.default_rng(0).random((-(-(2**16) // length), length), np.float32) / 1000
    op = make(function, x, [1])
    np.testing.assert_allclose(op(x), reduce(op, x)[0], rtol=tolerance)


@pytest.mark.parametrize("function", ReduceFunction, ids=str)
def test_one_element_of_many(function: ReduceFunction):
    x = np.random.default_rng(0).random((2**15 + 1, 1), np.float32)
    (expected,) = reduce(op := make(function.name, x, [1]), x)
    np.testing.assert_allclose(op(x), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "shape", "axis", "one"),
    [
        ("LOG_SUM_EXP", (4096, 256), 1, True),
        ("LOG_SUM_EXP", (8, 64, 2**14), 1, True),
        ("ARGMAX", (4096, 512), 1, True),
        ("ARGMAX", (1, 2**20), 1, True),
        ("ARGMAX", (8, 2**16), 1, False),  # long rows
        ("ARGMAX", (8, 2**14, 16), 1, False),  # in blocks, which are reduced again
        ("SUM", (4096, 256), 1, False),  # keeps one thing
    ],
)
def test_two_things_that_a_gpu_keeps_are_one_number(
    function: str, shape: tuple[int, ...], axis: int, one: bool
):
    op = make(function, np.broadcast_to(np.float32(0), shape), [axis])
    traced = jax.jit(op).trace(jax.ShapeDtypeStruct(shape, np.float32))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert ("complex<f32>" in text) == one


@pytest.mark.parametrize(
    ("dtype", "row", "size"),
    [
        ("float32", 49, 16),
        ("float32", 48, None),
        ("float16", 127, 32),
        ("float16", 169, None),
        ("uint8", 33, 16),
        ("uint8", 36, 16),
        ("uint8", 31, None),
    ],
)
def test_short_rows_go_in_pieces_on_a_gpu(dtype: str, row: int, size: int | None):
    """Which are combined before XLA's own reduction, in the same kernel."""
    x = jax.ShapeDtypeStruct((4096, row), dtype)
    traced = jax.jit(make("MAX", np.broadcast_to(np.zeros((), dtype), x.shape), [1])).trace(x)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    (reduced,) = (line for line in text.splitlines() if "stablehlo.reduce" in line)
    assert f"(tensor<4096x{size or row}x" in reduced


def test_only_the_platforms_form_is_traced():
    op = make("LOG_SUM_EXP", np.ones((300, 200), np.float32), (0,))
    traced = jax.jit(op).trace(jax.ShapeDtypeStruct((300, 200), np.float32))
    for platform, other in (("cpu", gpu), ("cuda", cpu)):
        with mock.patch.object(other, "fold", side_effect=AssertionError):
            traced.lower(lowering_platforms=(platform,))
            with pytest.raises(AssertionError):
                traced.lower(lowering_platforms=("cpu", "cuda"))


def on_host(function: Any) -> Any:
    if "f" not in inspect.signature(compute_on).parameters:  # before jax 0.12
        return compute_on("device_host")(function)
    space = jax.memory.Space.Device
    return compute_on(function, compute_type="device_host", out_memory_spaces=space)  # pyright: ignore[reportCallIssue]


def test_what_is_computed_on_the_host_has_its_form():
    op = make("LOG_SUM_EXP", np.ones((300, 200), np.float32), (0,))
    shape = jax.ShapeDtypeStruct((300, 200), np.float32)

    def shifts(function: Any, platform: str) -> int:
        program = jax.jit(function).trace(shape).lower(lowering_platforms=(platform,))
        return program.as_text().count("shift_left")  # the CPU's exponential has one

    assert shifts(on_host(op), "cuda") == shifts(op, "cpu") > shifts(op, "cuda")


@pytest.mark.parametrize("function", ["SUM", "MAX", "LOG_SUM_EXP", "ARGMAX"])
def test_a_program_for_several_platforms(function: str):
    x = np.random.default_rng(5).random((300, 200), np.float32)
    op = make(function, x, (0,))
    program = jax.export.export(jax.jit(op), platforms=("cpu", "cuda"))(x)
    (expected,) = SAMPLES[op.c_name].reference(op, x)
    np.testing.assert_allclose(program.call(x), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "shape", "dtype", "axis"),
    [
        ("SUM", (3, 99999), "float32", 0),  # a row that cores cannot share
        ("ARGMAX", (3, 99999), "float32", 0),
        ("MAX", (256, 8, 13, 13), "uint8", 1),  # columns of short rows
        ("AVERAGE", (256, 8, 13, 13), "float16", 1),
        ("LOG_SUM_EXP", (65536, 2, 9), "float32", 2),  # short rows
        ("SUM", (4096, 12, 4), "float16", 2),
    ],
)
def test_an_export_of_what_goes_by_other_loops(
    function: str, shape: tuple[int, ...], dtype: str, axis: int
):
    """No exported program may name a layout."""
    x = (np.random.default_rng(5).random(shape) * 100).astype(dtype)
    op = make(function, x, (axis,))
    program = jax.export.export(jax.jit(op))(x)
    (expected,) = SAMPLES[op.c_name].reference(op, x)
    np.testing.assert_allclose(program.call(x), expected, rtol=1e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize(
    ("function", "shape", "axes", "dtype", "expected"),
    [
        ("SUM", (4096, 12, 4), (2,), "float16", True),
        ("L2", (4096, 3, 5, 2, 2), (3, 4), "float16", True),
        ("MAX", (4096, 12, 4), (2,), "uint8", True),
        ("SUM", (4096, 12, 4), (2,), "float32", False),  # as fast as they are
        ("SUM", (4096, 12, 16), (2,), "float16", False),  # rows in one pass
        ("SUM", (160, 300, 4), (2,), "float16", False),  # a loop that is vectorised as it is
    ],
)
def test_what_short_rows_leave_is_one_loop(
    function: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, expected: bool
):
    """Of narrow elements on a CPU, which LLVM vectorises by no short loop."""
    x = (np.random.default_rng(5).random(shape) * 100).astype(dtype)
    op = make(function, x, axes)
    text = jax.jit(op).trace(x).lower(lowering_platforms=("cpu",)).as_text()
    (right,) = SAMPLES[op.c_name].reference(op, x)
    element = {"float16": "f16", "float32": "f32", "uint8": "ui8"}[dtype]
    assert (f"tensor<{right.size}x{element}>" in text) == expected
    np.testing.assert_allclose(op(x), right, rtol=1e-3 if dtype == "float16" else 1e-5)


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
