"""The functions: DirectMLX's defaults, sizes read from the arrays, nothing added to the program."""

import inspect
import operator
import pickle
import re
import subprocess
import sys
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import graph_of
from jax import lax

import dml_jax
from dml_jax import OPERATORS, DmlError, Expression, TensorDesc, facts, functional
from dml_jax.lowering import reduction

N = np.random.default_rng(0).standard_normal((2, 8, 4, 6)).astype(np.float32)
X = jnp.asarray(N)
DESC = TensorDesc.of(X)


def test_defaults_are_directmlx():
    everything = dml_jax.reduce(X, "MAX")
    assert everything.shape == (1, 1, 1, 1)
    assert everything == N.max()
    for index in (dml_jax.reduce(X, "ARGMAX"), dml_jax.argmax(X)):
        assert index.dtype == np.uint32
        assert int(index.item()) == N.argmax()
    ties = jnp.array([1, 3, 3], jnp.int8)
    assert dml_jax.argmax(ties, [0]) == 1
    assert dml_jax.argmax(ties, [0], "DECREASING", "INT64") == 2


wrong: Any = dml_jax  # for calls that a type checker refuses, too


def test_no_axes_are_all_axes():
    for function in (
        dml_jax.argmax,
        dml_jax.argmin,
        lambda x, *axes: wrong.reduce(x, "SUM", *axes),
    ):
        np.testing.assert_array_equal(function(X, []), function(X))
        np.testing.assert_array_equal(function(X, []), function(X, [0, 1, 2, 3]))


def test_types_of_functions():
    """For pyright, which reads this file: arrays of either give JAX's, expressions expressions."""
    axes, sizes = np.array([1]), np.array(N.shape)
    assert_type(dml_jax.clip(N, 0, 1), jax.Array)
    assert_type(dml_jax.clip(input=X, min=0, max=1), jax.Array)
    assert_type(dml_jax.split(N, 1, [3, 5]), tuple[jax.Array, ...])
    assert_type(dml_jax.join([X, N], 1), jax.Array)
    assert_type(dml_jax.join([N, N], 1), jax.Array)
    assert_type(dml_jax.clip_grad(N, X, 0, 1), jax.Array)
    assert_type(dml_jax.reduce(N, "SUM", axes), jax.Array)
    x = dml_jax.GraphBuilder().input_tensor("x", TensorDesc("FLOAT32", sizes))
    assert_type(dml_jax.clip(x, 0, 1), Expression)
    assert_type(dml_jax.split(x, 1, [3, 5]), tuple[Expression, ...])
    assert_type(dml_jax.join([x, x], 1), Expression)
    assert_type(dml_jax.clip_grad(x, x, 0, 1), Expression)
    assert dml_jax.calc_buffer_tensor_size("FLOAT32", sizes) == 4 * N.size


@pytest.mark.parametrize("number", [float, np.float32])
def test_floats_are_kept_by_their_bits(number: type):
    for zero in (-0.0, 0.0, -0.0):
        result = np.asarray(wrong.clip(-jnp.ones(2, jnp.float32), number(zero), number(1)))
        assert (np.signbit(result) == np.signbit(zero)).all()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (jax.ShapeDtypeStruct(N.shape, N.dtype), "one of JAX or NumPy, got a ShapeDtypeStruct"),
        (
            np.ma.masked_array(N, N > 0),
            "an array float32[2,8,4,6] without a mask (x.filled() makes one), got float32[2,8,4,6]",
        ),
        ("deleted", "there, got a deleted float32[2,8,4,6]"),
    ],
)
def test_what_jax_does_not_take(array: Any, message: str):
    op = dml_jax.ElementWiseClip.infer(input_tensor=DESC, min=0, max=1)
    if isinstance(array, str):
        array = X.copy()
        array.delete()
    for call in (op, dml_jax.compile(op), lambda x: wrong.clip(x, 0, 1)):
        call(N)  # JAX is less strict with programs that have run
        with pytest.raises(DmlError) as refused:
            call(array)
        assert str(refused.value) == f"{op.c_name}: expected InputTensor to be {message}"


@pytest.mark.parametrize(
    ("array", "remedy"),
    [
        (N.astype(">f4"), " (x.astype('float32') converts)"),
        (N > 0, " (x.astype('float32') converts)"),
        (jax.random.split(jax.random.key(0), N.shape), ""),
        (np.zeros(N.shape, [("field", "f4")]), ""),
    ],
)
def test_the_remedy_of_another_type(array: Any, remedy: str):
    op = dml_jax.ElementWiseClip.infer(input_tensor=DESC, min=0, max=1)
    with pytest.raises(DmlError, match=re.escape(f"be an array float32[2,8,4,6]{remedy}, got")):
        op(array)


@pytest.mark.parametrize("axis", [1, np.int64(1), np.array(1), jnp.int32(1)], ids=repr)
def test_an_axis_is_any_integer(axis: Any):
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for given in (axis, axis - 2):
        for piece, expected in zip(wrong.split(x, given, [1, 3]), np.split(x, [1], 1), strict=True):
            np.testing.assert_array_equal(piece, expected)
        np.testing.assert_array_equal(wrong.reduce(x, "SUM", given), x.sum(1, keepdims=True))
        np.testing.assert_array_equal(wrong.reduce(x, "SUM", [given]), x.sum(1, keepdims=True))
        np.testing.assert_array_equal(wrong.join([x, x], given), np.concatenate([x, x], 1))


def test_an_integer_is_a_list_of_one():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(wrong.tile(x, 2), np.tile(x, 2))


def test_what_was_kept_makes_nothing_else_valid():
    """1, 1.0 and True are equal keys, and not equal fields."""
    wrong.tile(X, [2, 1, 1, 1])
    wrong.depth_to_space(X, 1)
    for call in (lambda: wrong.tile(X, [2.0, 1, 1, 1]), lambda: wrong.depth_to_space(X, True)):
        with pytest.raises(DmlError, match="an integer"):
            call()


def test_sequences_of_every_kind():
    for axes in ((1, 2), [1, 2], np.array([1, 2]), range(1, 3)):
        assert wrong.reduce(X, "MAX", axes).shape == (2, 1, 1, 6)
    assert wrong.join((x for x in (X, X)), 0).shape == (4, 8, 4, 6)


def by_hand(x: jax.Array) -> jax.Array:
    """What the functions below lower to."""
    n, c, h, w = x.shape
    half = lax.full_like(x, 0.5)
    below_half = lax.select(x >= half, half, x)
    x = lax.select(x <= -half, lax.full_like(x, -0.5), below_half)
    x = x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2)
    return reduction.sum_(x.reshape(n, c // 4, 2 * h, 2 * w), (2, 3))


def by_functions(x: jax.Array) -> jax.Array:
    x = dml_jax.depth_to_space(dml_jax.clip(x, -0.5, 0.5), 2)
    return dml_jax.reduce(x, "SUM", [2, 3])


def test_they_add_nothing_to_the_program():
    def program(function) -> str:
        text = jax.jit(function).lower(X).compile().as_text() or ""
        text = re.sub(r"(metadata|sharding|frontend_attributes)=\{[^}]*\}", "", text)
        body = text[text.index("%") :]
        # Names carry a counter; what is left is opcodes, shapes and how they are wired.
        names: dict[str, str] = {}
        return re.sub(r"%[\w.-]+", lambda m: names.setdefault(m[0], f"%{len(names)}"), body)

    def opcodes(text: str) -> list[str]:
        return re.findall(r"= (\S+ [a-z][\w-]*)\(", text)

    assert opcodes(program(by_functions)) == opcodes(program(by_hand))
    np.testing.assert_array_equal(jax.jit(by_functions)(X), jax.jit(by_hand)(X))


def test_later_calls_trace_and_describe_nothing_anew(monkeypatch):
    dml_jax.reduce(X, "L1", [1, 3])
    monkeypatch.setattr(dml_jax.Reduce, "lower", None)
    monkeypatch.setattr(dml_jax.Reduce, "expected_sizes", None)
    np.testing.assert_allclose(
        dml_jax.reduce(X, "L1", [1, 3]), np.abs(N).sum((1, 3), keepdims=True), rtol=1e-5
    )


def test_every_operator_is_a_function_in_some_version():
    named = [op for entry in facts.functions().values() for op in entry["operators"]]
    assert sorted(named) == sorted(facts.catalogue())
    made = {f.__name__: f for f in (getattr(functional, name) for name in functional.FUNCTIONS)}
    listed = set(re.findall(r"DML_OPERATOR_\w+", " ".join(f.__doc__ or "" for f in made.values())))
    assert listed == {op for op in OPERATORS if op.removeprefix(facts.PREFIX) in named}
    for name, function in made.items():
        said = dict(re.findall(r"^    (\w+): (.*)", function.__doc__ or "", re.MULTILINE))
        empty = [a for a, text in said.items() if text == f"The {a.replace('_', ' ')}."]
        assert not empty, (name, empty)  # no more than the argument's name
        assert "Ellipsis" not in str(inspect.signature(function))


@pytest.mark.parametrize(
    ("fields", "faults"),
    [
        ({"Function": "SUM"}, ["Function to be spelled function (Reduce.from_json takes"]),
        ({"function": "SUM", "axis_count": 1}, ["axis_count to be left out: it is the length of"]),
        ({"function": "SUM", "AxisCount": 1}, ["AxisCount to be left out: it is the length of"]),
        ({"functoin": "SUM"}, ["functoin to be a field of DML_OPERATOR_REDUCE (did you mean 'fun"]),
        ({"function": "SUM", "axes": [-1]}, ["Axes[0] to be in [0, 3] (-1 is 3 there), got -1"]),
        ({"function": "SUM", "axes": [-5]}, ["Axes[0] to be an integer in [0, 4294967295]"]),
    ],
)
def test_other_names_and_axes_are_told_what_they_are(fields: dict[str, Any], faults: list[str]):
    tensors = {
        "input_tensor": TensorDesc.of(X),
        "output_tensor": TensorDesc("FLOAT32", [2, 8, 4, 1]),
    }
    with pytest.raises(DmlError) as error:
        dml_jax.Reduce(**{**tensors, "axes": [3], **fields})
    said = [str(fault).partition("expected ")[2] for fault in error.value.faults]
    assert [f[: len(g)] for f, g in zip(said, faults, strict=True)] == faults


def test_the_nearest_name_may_be_a_part():
    with pytest.raises(DmlError, match="did you mean 'ELEMENT_WISE_CLIP'"):
        dml_jax.operator_from_json({"Type": "DML_OPERATOR_CLIP", "Desc": {}})


def test_no_strides_are_packed_in_json():
    known = {"DataType": "FLOAT32", "Sizes": [2, 3]}
    assert TensorDesc.from_json({**known, "Strides": []}) == TensorDesc.from_json(known)


def test_sizes_broadcast_as_in_numpy():
    x, gradient = X[0, 0], X[0, 0, 0]  # (4, 6) and (6,)
    result = dml_jax.clip_grad(x, gradient, -1, 1)
    inside = np.abs(N[0, 0]) < 1
    np.testing.assert_array_equal(result, np.where(inside, N[0, 0, 0], 0))
    np.testing.assert_array_equal(
        dml_jax.clip_grad(gradient, x, -1, 1), np.where(np.abs(N[0, 0, 0]) < 1, N[0, 0], 0)
    )
    (op,) = graph_of(lambda x, g: dml_jax.clip_grad(x, g, -1, 1), x, gradient).operators
    assert isinstance(op, dml_jax.ElementWiseClipGrad)
    assert op.input_gradient_tensor == TensorDesc("FLOAT32", [4, 6], [0, 1])
    with pytest.raises(DmlError, match=r"InputGradientTensor.Sizes\[1\] to be 6"):
        dml_jax.clip_grad(x, x[:, :5], 0, 1)
    total = jax.grad(lambda g: dml_jax.clip_grad(x, g, -1, 1).sum())(gradient)
    np.testing.assert_allclose(total, inside.sum(0))
    mapped = jax.vmap(lambda g: dml_jax.clip_grad(x, g, -1, 1))(X[0, 1])
    np.testing.assert_array_equal(mapped[2], dml_jax.clip_grad(x, X[0, 1, 2], -1, 1))


def test_a_number_has_the_type_of_the_arrays():
    for x in (X, X.astype(jnp.float16), X.astype(jnp.int8)):
        result = dml_jax.clip_grad(x, 2, -1, 1)
        assert result.dtype == x.dtype
        inside = (np.asarray(x) > -1) & (np.asarray(x) < 1)
        np.testing.assert_array_equal(result, np.where(inside, np.asarray(2, x.dtype), 0))
    for x, number, type_ in (
        (X.astype(jnp.int8), 128, "int8"),
        (X.astype(jnp.int8), 0.5, "int8"),
        (X.astype(jnp.uint8), -1, "uint8"),
        (X, 2**24 + 1, "float32"),
        (X, 1e39, "float32"),
        (X, 1j, "float32"),
        (X, 10**400, "float32"),
    ):
        with pytest.raises(DmlError, match=f"InputGradientTensor to be a number .* {type_} holds"):
            wrong.clip_grad(x, number, 0, 1)
    assert np.isinf(dml_jax.clip_grad(X, float("inf"), -9, 9)).all()
    with pytest.raises(DmlError, match="InputTensor to be an array, or another argument"):
        dml_jax.clip_grad(1, 2, 0, 1)


def test_bfloat16_is_computed_in_float32_and_rounded_once():
    x = X.astype(jnp.bfloat16)
    wide = np.asarray(x, np.float32)
    result = dml_jax.reduce(x, "SUM", [1, 2])
    assert result.dtype == jnp.bfloat16
    expected = wide.sum((1, 2), keepdims=True)
    np.testing.assert_allclose(np.asarray(result, np.float32), expected, rtol=2**-8)
    one = jax.jit(lambda x: dml_jax.clip(x, -0.3, 0.3))(x)  # its bounds are FLOAT32
    rounded = jnp.asarray(np.clip(wide, np.float32(-0.3), np.float32(0.3))).astype(jnp.bfloat16)
    np.testing.assert_array_equal(np.asarray(one, np.float32), np.asarray(rounded, np.float32))
    assert dml_jax.argmax(x).dtype == np.uint32
    assert {piece.dtype for piece in dml_jax.split(x, 1, [3, 5])} == {np.dtype(jnp.bfloat16)}
    assert dml_jax.join([x, x], 0).dtype == jnp.bfloat16
    gradient = jax.grad(lambda x: dml_jax.clip(x, -1, 1).astype(jnp.float32).sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient, np.float32), (np.abs(wide) < 1) * 1.0)
    assert "bf16" not in str(jax.make_jaxpr(lambda x: dml_jax.clip(x, 0, 1))(X))


def test_bfloat16_is_not_promoted_and_no_operator_takes_it():
    x = X.astype(jnp.bfloat16)
    for other in (X, X.astype(jnp.float16)):
        with pytest.raises(DmlError, match=r"InputGradientTensor.DataType .*bfloat16"):
            dml_jax.clip_grad(x, other, 0, 1)
    op = dml_jax.ElementWiseClip.infer(input_tensor=DESC, min=0, max=1)
    for call in (
        lambda: op(x),
        lambda: TensorDesc.of(x),
        lambda: TensorDesc("BFLOAT16", [2]),
        lambda: TensorDesc(str(x.dtype), [2]),
    ):
        with pytest.raises(DmlError, match="no operator takes bfloat16, but functions of ar"):
            call()


def test_functions_are_pickled_by_name():
    assert pickle.loads(pickle.dumps(dml_jax.clip)) is dml_jax.clip


def test_names_of_python_are_not_exported():
    assert {"min", "max", "abs", "round", "pow", "slice"}.isdisjoint(functional.__all__)
    assert {"clip", "reduce"} <= {*functional.__all__}


def test_a_number_has_the_type_of_the_tensors_that_share_it():
    condition = jnp.array([1, 0], jnp.uint8)
    x = jnp.array([3, 4], jnp.float32)
    np.testing.assert_array_equal(wrong.if_(condition, x, 0.5), [3, 0.5])
    np.testing.assert_array_equal(wrong.if_(condition, x.astype(jnp.bfloat16), 0.5), [3, 0.5])
    np.testing.assert_array_equal(wrong.divide(1, x), 1 / x)


def test_a_generator_makes_an_array_or_an_expression():
    made = wrong.fill_value_constant([2, 3], "FLOAT32", 1.5)
    np.testing.assert_array_equal(made, np.full((2, 3), 1.5, np.float32))
    assert wrong.fill_value_constant([2], "bfloat16", 1).dtype == jnp.bfloat16
    builder = dml_jax.GraphBuilder()
    x = wrong.fill_value_constant([2, 3], "FLOAT32", 1.5, builder)
    graph = builder.build(dml_jax.clip(x, 0, 1))
    np.testing.assert_array_equal(graph(), np.ones((2, 3), np.float32))
    with pytest.raises(DmlError, match="graph to be a GraphBuilder, got 3"):
        wrong.fill_value_constant([2], "FLOAT32", 1, 3)


def test_several_results_are_named_and_one_left_out_is_none():
    state = jnp.zeros((1, 1, 1, 6), jnp.uint32)
    both = wrong.random_generator(state, [1, 1, 1, 4])
    assert both.values.shape == (1, 1, 1, 4)
    assert both.state.shape == state.shape
    again = pickle.loads(pickle.dumps(both))
    assert type(again) is type(both)
    np.testing.assert_array_equal(again.values, both.values)
    assert wrong.random_generator(state, [1, 1, 1, 4], output_state=False).state is None


def test_a_named_tuple_of_results_is_no_array():
    pooled = wrong.max_pooling(jnp.ones((1, 1, 4, 4), jnp.float32), 2)
    for call in (lambda: wrong.reduce(pooled, "SUM"), lambda: wrong.join([X, pooled])):
        with pytest.raises(DmlError, match=r"take \.values, got a MaxPoolingOutputs"):
            call()
    for use in (
        lambda: pooled + 1,
        lambda: X + pooled,
        lambda: pooled * 2,
        lambda: 1 - pooled,
        lambda: pooled.shape,
    ):
        with pytest.raises(AttributeError, match=r"take \.values"):
            use()
    added = operator.add  # which a linter leaves alone
    assert added(pooled, (1,))[2] == added((1,), pooled)[0] == 1


def test_layer_normalization_takes_a_scale_of_the_last_axis():
    rng = np.random.default_rng(0)
    x, scale, bias = (rng.normal(size=s).astype(np.float32) for s in ((2, 5, 8), 8, 8))
    wide = x.astype(np.float64)
    middle = wide - wide.mean(-1, keepdims=True)
    expected = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-5) * scale + bias
    result = wrong.mean_variance_normalization(x, scale, bias, axes=-1)
    np.testing.assert_allclose(result, expected, 1e-5, 1e-5)
    images, channels = x.reshape(2, 5, 4, 2), np.arange(5, dtype=np.float32)
    expected = wrong.mean_variance_normalization(images) * channels.reshape(1, 5, 1, 1)
    result = wrong.mean_variance_normalization(images, channels, np.zeros_like(channels))
    np.testing.assert_allclose(result, expected, 1e-6, 1e-6)


def test_a_python_integer_is_an_index_beside_floats():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(wrong.gather(x, 2, axis=1), np.take(x, 2, axis=1))


def test_a_default_type_gives_way_to_the_type_of_a_tensor():
    x, scale = jnp.ones(3, jnp.float32), jnp.full(1, 0.5, jnp.float32)
    assert wrong.quantize_linear(x, scale).dtype == np.uint8
    assert wrong.quantize_linear(x, scale, jnp.zeros(1, jnp.int8)).dtype == np.int8
    assert wrong.quantize_linear(x, 0.5, 3, "INT8").dtype == np.int8
    with pytest.raises(DmlError, match="ZeroPointTensor"):
        wrong.quantize_linear(x, scale, jnp.zeros(1, jnp.int8), "UINT8")


def test_a_function_loads_only_its_family():
    code = (
        "import sys, dml_jax; assert 'jax' not in sys.modules; dml_jax.clip; "
        "print(*[m for m in sys.modules if m.startswith('dml_jax.operators.')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["dml_jax.operators.element_wise"]


def test_adam_takes_parameters_of_every_rank():
    rates = {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8}
    random = np.random.default_rng(3)
    for shape in ((), (3,), (2, 3), (2, 1, 3, 1, 2)):
        p, g = random.standard_normal((2, *shape)).astype(np.float32)
        for step in (1, np.uint32(1), np.ones(1, np.uint32), np.ones((1, 1, 1, 1), np.uint32)):
            got = dml_jax.adam_optimizer(jnp.asarray(p), 0, 0, jnp.asarray(g), step, **rates)
            first = np.float64(0.1) * g
            second = np.float64(0.01) * g * g
            moved = p - 0.1 * np.sqrt(0.01) / 0.1 * first / (np.sqrt(second) + 1e-8)
            np.testing.assert_allclose(got.parameters, moved, rtol=1e-5)
            np.testing.assert_allclose(got.first_moment, first, rtol=1e-5)
            np.testing.assert_allclose(got.second_moment, second, rtol=1e-5)
    x = jnp.ones((2, 3, 1, 1, 1), jnp.float32)
    with pytest.raises(DmlError, match="GradientTensor"):
        dml_jax.adam_optimizer(x, x, x, x.reshape(3, 2, 1, 1, 1), 1, **rates)
    with pytest.raises(DmlError, match=r"GradientTensor.Sizes\[2\] to be 2"):
        dml_jax.adam_optimizer(x[..., 0, 0, 0], 0, 0, x.reshape(3, 2), 1, **rates)
    with pytest.raises(DmlError, match=r"be one of UINT32 \(x.astype\('uint32'\) converts\)"):
        dml_jax.adam_optimizer(x, x, x, x, np.ones(1, np.int32), **rates)


def test_adam_of_other_ranks_is_a_node_of_a_graph():
    p, d = jnp.ones((2, 3), jnp.float32), jnp.full((2, 3), 2, jnp.float32)

    def moved(x: Any, g: Any) -> Any:
        return dml_jax.adam_optimizer(x, 0, 0, g, 1, 0.1, 0.9, 0.99, 1e-8).parameters

    np.testing.assert_allclose(graph_of(moved, p, d)(p, d), moved(p, d), rtol=1e-6)


def test_gather_takes_indices_of_any_rank():
    table = np.arange(20, dtype=np.float32).reshape(5, 4)
    for shape in ((), (3,), (2, 3), (2, 1, 3)):
        indices = np.random.default_rng(1).integers(0, 4, shape).astype(np.int32)
        for axis in (0, 1, -1):
            got = dml_jax.gather(table, indices, axis)
            np.testing.assert_array_equal(got, np.take(table, indices, axis))
            counted = dml_jax.gather(table, indices, axis, len(shape))
            np.testing.assert_array_equal(counted, np.take(table, indices, axis))
    assert dml_jax.gather(X, np.zeros((1, 1, 1, 5), np.int32), 1, 1).shape == (2, 5, 4, 6)
    half = dml_jax.gather(jnp.asarray(table, jnp.bfloat16), np.zeros(3, np.int32), 0)
    assert (half.shape, half.dtype) == ((3, 4), jnp.bfloat16)
    for axis in (-3, 2):
        with pytest.raises(DmlError, match=r"Axis to be in \[-2, 1\]"):
            dml_jax.gather(table, np.zeros((2, 3), np.int32), axis)
    with pytest.raises(DmlError, match=r"IndicesTensor.Sizes\[0\] to be 1: dimensions before"):
        dml_jax.gather(table, np.zeros((2, 3, 1), np.int32), 0, 1)


def test_an_integer_stands_for_each_spatial_dimension():
    w = jnp.ones((4, 8, 3, 3), jnp.float32)
    one = dml_jax.convolution(X, w, strides=2, start_padding=1, end_padding=1)
    listed = dml_jax.convolution(X, w, strides=[2, 2], start_padding=[1, 1], end_padding=[1, 1])
    np.testing.assert_array_equal(one, listed)
    np.testing.assert_array_equal(
        dml_jax.max_pooling(X, 2).values, dml_jax.max_pooling(X, [2, 2]).values
    )
    assert wrong.unfold(X, 2, 1, 1, 0, 0).shape == (2, 32, 15)


def test_a_bias_has_one_number_for_each_channel():
    w, bias = jnp.ones((4, 8, 1, 1), jnp.float32), jnp.arange(4, dtype=jnp.float32)
    wanted = dml_jax.convolution(X, w) + bias[None, :, None, None]
    np.testing.assert_allclose(dml_jax.convolution(X, w, bias), wanted, rtol=1e-6, atol=1e-6)


def test_ranges_are_checked_beside_repetitions():
    with pytest.raises(DmlError) as caught:
        dml_jax.reduce(X, "SUM", [1, 7, 1])
    assert sorted(fault.field for fault in caught.value.faults) == ["Axes[1]", "Axes[2]"]


def test_64_bits_are_said_once_with_both_cures():
    with jax.enable_x64(False), pytest.raises(DmlError) as caught:
        dml_jax.reduce(np.ones((2, 3), np.int64), "SUM")
    assert len(caught.value.faults) == 1
    assert "turn them on" in str(caught.value)
    assert "x.astype('int32') converts" in str(caught.value)


def test_gather_of_other_ranks_is_a_node_of_a_graph():
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    indices = np.array([[0, 1, 2], [3, 4, 0]], np.int32)
    graph = graph_of(lambda table, places: dml_jax.gather(table, places, 0), x, indices)
    np.testing.assert_array_equal(graph(x, indices), np.take(x, indices, 0))
