"""Functions take what JAX's take, and default to what DirectMLX, ONNX and PyTorch default to."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import attended, by_heads
from jax import export

import dml_jax
from dml_jax import ActivationSigmoid, ActivationTanh, DmlError

N = np.random.default_rng(7).standard_normal((2, 3, 4, 6)).astype(np.float32)
X = jnp.asarray(N)
wrong: Any = dml_jax  # for calls that a type checker refuses, too


def test_conditions_may_be_bool():
    chosen = np.where(N > 0, N, 2 * N)
    np.testing.assert_array_equal(dml_jax.if_(N > 0, X, 2 * X), chosen)
    np.testing.assert_array_equal(jax.jit(lambda x: dml_jax.if_(x > 0, x, 2 * x))(X), chosen)
    np.testing.assert_array_equal(jax.vmap(lambda x: dml_jax.if_(x > 0, x, 2 * x))(X), chosen)
    row = dml_jax.if_(X[0, 0, 0] > 0, X, 0)  # broadcast
    np.testing.assert_array_equal(row, np.where(N[0, 0, 0] > 0, N, 0))
    gradient = jax.grad(lambda x: dml_jax.if_(x > 0, x, 2 * x).sum())(X)
    np.testing.assert_array_equal(gradient, np.where(N > 0, 1, 2))


def test_element_wise_functions_take_arrays_without_dimensions():
    for name in ("activation_gelu", "exp", "is_nan", "negate"):
        function, row = getattr(dml_jax, name), X[0, 0, 0]
        np.testing.assert_allclose(jax.vmap(function)(row), function(row), rtol=1e-6)
    assert dml_jax.add(X[0, 0, 0, 0], 1).shape == dml_jax.if_(X.sum() > 0, X.sum(), 0).shape == ()


def test_logic_of_bool_gives_numbers():
    a, b = N > 0, N < 1
    for name, expected in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
        result = getattr(dml_jax, f"logical_{name}")(a, jnp.asarray(b))
        assert result.dtype == jnp.uint8
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(dml_jax.logical_not(a), ~a)
    np.testing.assert_array_equal(dml_jax.logical_and(a, True), a)
    np.testing.assert_array_equal(dml_jax.cast(a, jnp.float32), a.astype(np.float32))


@pytest.mark.parametrize("dtype", [jnp.float16, np.float16, np.dtype("float16"), "float16"])
def test_data_types_may_be_dtypes(dtype: Any):
    assert wrong.cast(X, dtype).dtype == jnp.float16
    assert wrong.cast(X, dtype) is not wrong.cast(X, jnp.int32)
    filled = wrong.fill_value_constant([2], dtype, 0.5)
    assert filled.dtype == jnp.float16


def test_dtypes_of_indices_and_quantities():
    assert wrong.argmax(X, 1, output_data_type=jnp.int32).dtype == jnp.int32
    assert wrong.quantize_linear(X, 0.5, 3, jnp.int8).dtype == jnp.int8
    assert wrong.cast(X, jnp.bfloat16).dtype == jnp.bfloat16
    with pytest.raises(DmlError, match=r"dtype to be one that DirectML has.*complex64"):
        wrong.cast(X, jnp.complex64)


def test_a_number_is_a_float_where_only_floats_are_taken():
    values = jnp.arange(4, dtype=jnp.uint8)
    result = dml_jax.dequantize_linear(values, 0.25, 1)
    assert result.dtype == jnp.float32
    np.testing.assert_array_equal(result, (np.arange(4) - 1) * 0.25)


def test_pooling_without_padding():
    expected = N.reshape(2, 3, 2, 2, 3, 2)
    means = dml_jax.average_pooling(X, 2, 2)
    np.testing.assert_allclose(means, expected.mean((3, 5)), rtol=1e-5, atol=1e-6)
    norms = dml_jax.lp_pooling(X, 2, 2)
    np.testing.assert_allclose(norms, np.sqrt((expected**2).sum((3, 5))), rtol=1e-5)
    padded = dml_jax.average_pooling(X, 2, 2, 1, 1)  # ONNX: count_include_pad = 0
    assert float(padded[0, 0, 0, 0]) == N[0, 0, 0, 0]


def test_axes_that_are_usual():
    value, index = dml_jax.top_k(X, k=2)
    np.testing.assert_array_equal(value, -np.sort(-N, -1)[..., :2])
    np.testing.assert_array_equal(index, np.argsort(-N, -1, kind="stable")[..., :2])
    np.testing.assert_array_equal(dml_jax.join([X, X]), np.concatenate([N, N]))
    np.testing.assert_array_equal(dml_jax.gather(X[0, 0], jnp.array([1], jnp.uint32)), N[0, 0, 1:2])
    np.testing.assert_allclose(
        dml_jax.cumulative_summation(X, -1), N.cumsum(-1), rtol=1e-5, atol=1e-5
    )
    norm = np.linalg.norm(N, axis=-1, keepdims=True)
    np.testing.assert_allclose(dml_jax.lp_normalization(X), N / norm, rtol=1e-5)


def test_windows_of_slices_and_padding():
    np.testing.assert_array_equal(dml_jax.slice(X, [0, 1, 0, 2], [2, 2, 3, 4]), N[:, 1:, :3, 2:6])
    gradient = dml_jax.slice_grad(X, [2, 3, 4, 8], [0, 0, 0, 1], N.shape)
    np.testing.assert_array_equal(gradient, np.pad(N, [(0, 0)] * 3 + [(1, 1)]))
    ends = [0, 0, 1, 2]
    padded = dml_jax.padding(X, start_padding=ends, end_padding=ends)
    np.testing.assert_array_equal(padded, np.pad(N, [(p, p) for p in ends]))


def test_normalization():
    mean, variance = N.mean((0, 2, 3), keepdims=True), N.var((0, 2, 3), keepdims=True)
    expected = (N - mean) / np.sqrt(variance + 1e-5)
    result = dml_jax.mean_variance_normalization(X)  # the axes of ONNX
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    for own in ((mean, variance), (mean.ravel(), variance.ravel())):
        batch = dml_jax.batch_normalization(X, *map(jnp.asarray, own), 1.0, 0.0)
        np.testing.assert_allclose(batch, expected, rtol=1e-4, atol=1e-5)
    square = X[:, :, :4, :3]
    row = np.arange(3, dtype=np.float32)
    for axes, shape in (([2, 3], (1, 3, 1, 1)), ([-1], (3,)), ((1, 2, 3), (1, 3, 1, 1))):
        found = dml_jax.mean_variance_normalization(square, row, axes=axes)
        plain = dml_jax.mean_variance_normalization(square, axes=axes)
        np.testing.assert_allclose(found, np.asarray(plain) * row.reshape(shape), rtol=1e-6)
    ones = jnp.ones(3, jnp.float32)
    trained = dml_jax.batch_normalization_training(X, ones, ones * 0)
    np.testing.assert_allclose(trained[0], expected, rtol=1e-4, atol=1e-5)


def test_ranks_and_sizes_are_said_with_their_cure():
    with pytest.raises(DmlError, match=r"be in \[4, 5\] \(x\[None, None\] has this rank\), got 2"):
        dml_jax.max_pooling(X[0, 0], 2, 2)
    np.testing.assert_array_equal(
        dml_jax.max_pooling(X[0, 0][None, None], 2, 2).values[0, 0],
        N[0, 0].reshape(2, 2, 3, 2).max((1, 3)),
    )
    with pytest.raises(DmlError) as refused:
        dml_jax.add(X, X[0, 0, 0, :5])
    (fault,) = refused.value.faults
    assert (fault.field, fault.value) == ("BTensor.Sizes[3]", 5)


def test_integers_of_fold_stand_for_each_spatial_dimension():
    columns = wrong.unfold(X, 2, 2)
    np.testing.assert_array_equal(wrong.fold(columns, 2, 2, 1, 0, 0, X.shape), X)


def test_numbers_of_numpy_are_numbers():
    for two in (2, np.int64(2), np.float64(2)):
        np.testing.assert_array_equal(wrong.pow(X, two), wrong.pow(X, 2.0))
        np.testing.assert_array_equal(wrong.multiply(two, X), 2 * X)
    assert wrong.pow(X, np.float64(3))[0, 0, 0, 0] != wrong.pow(X, np.float64(2))[0, 0, 0, 0]
    assert dml_jax.roi_align(X, jnp.ones((1, 4), jnp.float32), 0).shape == (1, 3, 1, 1)


def test_scales_may_be_numbers_vectors_and_arrays_without_dimensions():
    a, b = jnp.ones((4, 6), jnp.int8), jnp.ones((6, 5), jnp.int8)
    rows, columns = np.arange(1, 5, dtype=np.float32), np.arange(1, 6, dtype=np.float32)
    for left, right in ((rows, columns), (rows, 2.0), (np.float32(2), columns)):
        made = wrong.matrix_multiply_integer_to_float(a, left, b, right)
        wanted = 6 * np.reshape(left, (-1, 1)) * right
        np.testing.assert_array_equal(made, np.broadcast_to(wanted, (4, 5)))
    image, filters = jnp.ones((1, 3, 4, 4), jnp.uint8), jnp.ones((2, 3, 1, 1), jnp.int8)
    others = (None, filters, 1.0, None, jnp.array([0, 5], jnp.int32), jnp.float32(1))
    made = wrong.quantized_linear_convolution(image, 1.0, *others, None, "UINT8")
    np.testing.assert_array_equal(made[0, :, 0, 0], [3, 8])


def test_sizes_follow_from_scales():
    doubled = dml_jax.resample(
        X, mode="NEAREST_NEIGHBOR", rounding_direction=None, scales=[1, 1, 2, 2]
    )
    np.testing.assert_array_equal(doubled, N.repeat(2, 2).repeat(2, 3))
    small = wrong.resample(X, mode="LINEAR", scales=jnp.array([1, 1, 0.4, 0.4]))
    assert small.shape == (2, 3, 1, 2)  # ONNX rounds down
    for scales in (None, 2):
        call = functools.partial(wrong.resample, X, mode="LINEAR", scales=scales)
        with pytest.raises(DmlError, match="output_sizes to be given, or 4 scales"):
            call()


@pytest.mark.parametrize("sizes", [(2, 3, 8, 12), (2, 3, 3, 4), (2, 3, 7, 5)])
def test_no_direction_reads_what_jax_reads(sizes: tuple[int, ...]):
    found = dml_jax.resample(X, sizes, "NEAREST_NEIGHBOR", None)
    np.testing.assert_array_equal(found, jax.image.resize(X, sizes, "nearest"))


def test_regions_default_to_onnx():
    roi, batch = jnp.array([[0, 0, 3, 3]], jnp.float32), jnp.zeros(1, jnp.uint32)
    assert dml_jax.roi_align(X, roi, batch).shape == (1, 3, 1, 1)
    both = dml_jax.roi_align(X, roi, batch, spatial_scale_x=0.5, spatial_scale_y=0.5)
    np.testing.assert_array_equal(dml_jax.roi_align(X, roi, batch, spatial_scale_x=0.5), both)
    with pytest.raises(DmlError) as refused:
        dml_jax.roi_align(X, roi, batch.astype(jnp.int32))
    cure = re.search(r"x.astype\('(\w+)'\) converts", str(refused.value))
    assert cure
    assert dml_jax.roi_align(X, roi, batch.astype(cure[1])).shape == (1, 3, 1, 1)


@pytest.mark.parametrize(
    ("name", "gates", "activations"),
    [
        ("rnn", 1, [ActivationTanh]),
        ("lstm", 4, [ActivationSigmoid, ActivationTanh, ActivationTanh]),
        ("gru", 3, [ActivationSigmoid, ActivationTanh]),
    ],
)
@pytest.mark.parametrize("direction", ["FORWARD", "BIDIRECTIONAL"])
def test_recurrent_networks(name: str, gates: int, activations: list[Any], direction: Any):
    count = 2 if direction == "BIDIRECTIONAL" else 1
    rng = np.random.default_rng(1)
    x, w, r = (
        jnp.asarray(rng.standard_normal(sizes), jnp.float32)
        for sizes in ((1, 5, 2, 3), (1, count, 4 * gates, 3), (1, count, 4 * gates, 4))
    )
    function = getattr(wrong, name)
    found = function(x, w, r, direction=direction)
    names = [a.__name__.removeprefix("Activation").upper() for a in activations]
    for given in (activations * count, names * count):
        expected = function(x, w, r, activation_descs=given, direction=direction)
        np.testing.assert_array_equal(found.sequence, expected.sequence)
        assert found.sequence.shape == (5, count, 2, 4)


def test_activations_by_name():
    w = jnp.asarray(N[:1])
    for name in ("RELU", "ACTIVATION_RELU", "DML_OPERATOR_ACTIVATION_RELU"):
        np.testing.assert_array_equal(
            dml_jax.convolution(X, w, fused_activation=name),
            np.maximum(dml_jax.convolution(X, w), 0),
        )
    with pytest.raises(DmlError, match=r"FusedActivation to be an activation.*mean 'RELU'"):
        dml_jax.convolution(X, w, fused_activation="RELUU")


def test_attention_needs_the_number_of_heads_alone():
    q, k, v = np.random.default_rng(2).standard_normal((3, 2, 5, 8)).astype(np.float32)
    result = dml_jax.multihead_attention(query_head_count=2, query=q, key=k, value=v)
    expected = attended(by_heads(q), by_heads(k), by_heads(v))
    np.testing.assert_allclose(by_heads(result.output), expected, rtol=1e-4, atol=1e-5)
    seen = np.tril(np.ones((5, 5), bool))
    masked = dml_jax.multihead_attention(
        query_head_count=2, query=q, key=k, value=v, mask=np.broadcast_to(seen, (2, 2, 5, 5))
    )
    expected = attended(by_heads(q), by_heads(k), by_heads(v), seen)
    np.testing.assert_allclose(by_heads(masked.output), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(DmlError, match=r"BOOLEAN with a jax.numpy.tril of bool"):
        wrong.multihead_attention(mask_type="CAUSAL", query_head_count=2, query=q, key=k, value=v)


def test_a_cache_of_keys_keeps_its_sizes():
    q, k, v = np.random.default_rng(3).standard_normal((3, 1, 6, 8)).astype(np.float32)
    empty = jnp.zeros((1, 2, 6, 4), jnp.float32)

    def step(cache: Any, at: Any):
        one = [jax.lax.dynamic_slice_in_dim(x, at, 1, 1) for x in map(jnp.asarray, (q, k, v))]
        made = dml_jax.multihead_attention(
            query_head_count=2,
            query=one[0],
            key=one[1],
            value=one[2],
            past_key=cache[0],
            past_value=cache[1],
            past_sequence_lengths=at[None],
        )
        return (made.present_key, made.present_value), made.output

    _, outputs = jax.lax.scan(step, (empty, empty), jnp.arange(6, dtype=jnp.int32))
    expected = attended(by_heads(q), by_heads(k), by_heads(v), np.tril(np.ones((6, 6), bool)))
    found = by_heads(np.asarray(outputs)[:, 0, 0][None])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_symbolic_batch_is_mapped_over():
    """The cure that the message about symbolic sizes names."""
    (batch,) = export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((batch, 4), jnp.float32)
    for function in (lambda x: dml_jax.clip(x, 0, 1), lambda x: dml_jax.add(x, 1)):
        with pytest.raises(DmlError, match=re.escape("(symbolic ones are none: jax.vmap")):
            export.export(jax.jit(function))(shape)
    mapped = export.export(jax.jit(jax.vmap(lambda x: dml_jax.clip(x, 0, 1))))(shape)
    for size in (1, 3):
        x = np.linspace(-1, 2, 4 * size, dtype=np.float32).reshape(size, 4)
        np.testing.assert_array_equal(mapped.call(x), np.clip(x, 0, 1))


def test_the_cure_of_bool_indices_cures():
    chosen = jnp.array([True, False])
    with pytest.raises(DmlError) as refused:
        dml_jax.gather(X[0, 0], chosen)
    assert "a mask is no index: x[mask], or jax.numpy.nonzero(mask)[0]" in str(refused.value)
    found = dml_jax.gather(X[0, 0, :2], jnp.nonzero(chosen)[0].astype("uint32"))
    np.testing.assert_array_equal(found, N[0, 0, :2][np.asarray(chosen)])
