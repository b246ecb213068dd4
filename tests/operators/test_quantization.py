"""Casts, quantization, and 4-bit tensors: against NumPy, exactly, and against ONNX Runtime."""

import functools
from typing import Any

import dispatch_models
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import answers, command, model_of, node, runtime
from dispatch_models import buffer, dispatch, filled, model_file, show
from records import records

import dml_jax
from dml_jax import (
    Buffer,
    Cast,
    Dequantize,
    DmlError,
    DynamicQuantizeLinear,
    ElementWiseDequantizeLinear,
    ElementWiseQuantizeLinear,
    Quantize,
    TensorDesc,
    compile,
)
from dml_jax.lowering import quantization
from dml_jax.lowering.convolution.integers import integer_convolution
from dml_jax.lowering.matrix import integer_product
from dml_jax.lowering.windows import Window

FLOATS = ("float64", "float32", "float16")
INTEGERS = tuple(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64))
T = TensorDesc


def specials(type_: str) -> np.ndarray:
    """Return elements at which conversions differ: ends, neighbours, halves and fractions."""
    if type_ in INTEGERS:
        limits = np.iinfo(type_)
        ends = [int(limits.min), int(limits.max), int(limits.max) // 2, 2049, 0, 1, 2**24 + 1]
        return np.array([v & (2**limits.bits - 1) for v in ends], f"uint{limits.bits}").view(type_)
    info = np.finfo(type_)
    powers = [2.0**n for n in (7, 8, 15, 16, 24, 31, 32, 63, 64)]
    with np.errstate(over="ignore"):
        ends = np.array([0, 1e30], type_)
        near = [np.nextafter(np.array(p, type_), e) for p in powers for e in ends]
    rest = [0.5, 1.5, 2.5, -0.7, 65519.99, 65520, 1e30, 1e300, info.smallest_subnormal, info.tiny]
    small = [2.0**-149, 2.0**-149 * 1.5, 2.0**-149 * 0.5, 2.0**-127, 2.0**-126 * (1 - 2.0**-24)]
    odd = [np.inf, np.nan, 0.0, 2.0**-24, 2.0**-25, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40]
    with np.errstate(over="ignore"):
        whole = np.array([*powers, *near, *rest, *small, *odd], type_)
    return np.concatenate([whole, -whole])


@pytest.mark.parametrize("given", FLOATS + INTEGERS)
def test_casts_between_all_types(given: str):
    x = specials(given)
    casts = [
        Cast(input_tensor=T(given.upper(), x.shape), output_tensor=T(to.upper(), x.shape))
        for to in FLOATS + INTEGERS
    ]
    results = jax.jit(lambda x: [op(x) for op in casts])(x)
    for cast, result in zip(casts, results, strict=True):
        (expected,) = records()["CAST"].expected(cast, [x])
        assert result.dtype == expected.dtype
        differ = np.asarray(result).tobytes() != expected.tobytes()
        if differ:  # NaN has many bits
            np.testing.assert_array_equal(result, expected, err_msg=repr(cast))
            numbers = ~np.isnan(expected) if expected.dtype.kind == "f" else ...
            signs = (np.signbit(np.asarray(r)[numbers]) for r in (result, expected))
            np.testing.assert_array_equal(*signs)


def test_a_cast_of_floats_has_the_derivative_of_the_identity():
    x = np.array([1.5, 1e-40, -3e-41, 0], np.float64)
    for to in ("FLOAT32", "FLOAT16", "FLOAT64"):
        (gradient,) = jax.vjp(lambda x, to=to: dml_jax.cast(x, to), x)[1](jnp.ones(4, to.lower()))
        np.testing.assert_array_equal(gradient, np.ones(4))


def test_cast_of_bfloat16_has_the_type_that_is_asked_for():
    x = jnp.asarray([1.5, -2.25], jnp.bfloat16)
    result = dml_jax.cast(x, "FLOAT32")
    assert (result.dtype, result.tolist()) == (jnp.float32, [1.5, -2.25])
    assert dml_jax.cast(x, "INT8").tolist() == [1, -2]


@pytest.mark.parametrize("shape", [(1, 1), (1, 1000), (500, 1), (500, 1000)])
@pytest.mark.parametrize("scale", [3.0, 0.1, 0.7, 1 / 3])
def test_quantization_divides(shape: tuple[int, int], scale: float):
    """The quotient is that of a division wherever it lies near a half; no reciprocal's is."""
    scale_ = np.full(shape, scale, np.float32)
    steps = np.arange(500_000, dtype=np.float32).reshape(500, 1000) % 250 + np.float32(0.5)
    x = (steps * np.float32(scale)).astype(np.float32)
    for k in (-1, 0, 1):
        near = x if k == 0 else np.nextafter(x, np.float32(k * 1e9))
        expected = np.clip(np.round(near / scale_), 0, 255)

        def fixed(near: Any) -> Any:
            return dml_jax.quantize_linear(near, scale_, None)

        for result in (dml_jax.quantize_linear(near, scale_, None), jax.jit(fixed)(near)):
            np.testing.assert_array_equal(result, expected)


def test_halves_are_rounded_to_even_before_the_zero_point_is_added():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.inf, -np.inf, np.nan, 300], np.float32)
    ones = np.ones_like(x)
    result = dml_jax.quantize_linear(x, ones, np.full(x.shape, 3, np.uint8))
    assert result.tolist() == [3, 5, 5, 3, 1, 255, 0, 0, 255]
    result = dml_jax.quantize_linear(x, ones, np.full(x.shape, 3, np.int8), "INT8")
    assert result.tolist() == [3, 5, 5, 3, 1, 127, -128, 0, 127]


@pytest.mark.parametrize("type_", ["int32", "uint32", "int16", "uint16", "int8", "uint8"])
def test_differences_do_not_wrap(type_: str):
    limits = np.iinfo(type_)
    x = np.array([limits.min, limits.max, limits.min, limits.max, 5], type_)
    zero = np.array([limits.max, limits.min, limits.min, limits.max - 1, 3], type_)
    scale = np.array([1, 0.5, 3, 1, 2], np.float32)
    expected = (x.astype(np.float64) - zero.astype(np.float64)).astype(np.float32) * scale
    with jax.enable_x64(False):
        result = dml_jax.dequantize_linear(x, scale, zero)
    np.testing.assert_array_equal(result, expected)


def test_a_zero_point_is_left_out_from_6_2_on():
    fields = {"input_tensor": T("FLOAT32", [2]), "scale_tensor": T("FLOAT32", [2])}
    op = ElementWiseQuantizeLinear.infer(**fields)
    assert (str(op.minimum_feature_level), str(op.output_tensor.data_type)) == ("6_2", "UINT8")
    op = ElementWiseQuantizeLinear.infer(**fields, zero_point_tensor=T("INT8", [2]))
    assert (str(op.minimum_feature_level), str(op.output_tensor.data_type)) == ("3_0", "INT8")
    op = ElementWiseDequantizeLinear.infer(**{**fields, "input_tensor": T("INT32", [2])})
    assert str(op.minimum_feature_level) == "6_2"
    with pytest.raises(DmlError, match="ZeroPointTensor to be given at feature level 6_1"):
        op.validate("6_1")


def test_a_tensor_of_zeros_has_the_scale_1():
    for type_, zero in (("UINT8", 0), ("INT8", -128)):
        op = DynamicQuantizeLinear.infer(input_tensor=T("FLOAT16", [2, 3]), output_data_type=type_)
        values, scale, zero_point = op(np.zeros([2, 3], np.float16))
        assert (scale.dtype, scale.tolist(), zero_point.tolist()) == (np.float32, [[1.0]], [[zero]])
        assert np.unique(values).tolist() == [zero]


@pytest.mark.parametrize("range_", [(-3, 5), (1, 4), (-9, -2), (-1e-3, 1e-3)])
def test_dynamic_quantization_is_that_of_onnx_runtime(range_: tuple[float, float]):
    x = np.random.default_rng(1).uniform(*range_, (30, 40)).astype(np.float32)
    expected = answers("DynamicQuantizeLinear", x, outputs="y scale zero")
    for result, wanted in zip(dml_jax.dynamic_quantize_linear(x), expected, strict=True):
        np.testing.assert_array_equal(np.ravel(result), np.ravel(wanted))


@pytest.mark.parametrize("type_", ["int4", "uint4", "int8", "uint8"])
def test_blocks_are_those_of_onnx_runtime(type_: str):
    """Along the last axis, blocks of 16; there and back."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-9, 9, (6, 64)).astype(np.float32)
    scale = rng.uniform(0.1, 1, (6, 4)).astype(np.float32)
    zero = rng.integers(0, 7, (6, 4)).astype(type_)
    blocks = {"axis": 1, "block_size": 16}
    result = dml_jax.quantize(x, [scale, jnp.asarray(zero)], "SCALE_ZERO_POINT")
    assert result.dtype == type_
    back = dml_jax.dequantize(result, [scale, jnp.asarray(zero)], "SCALE_ZERO_POINT")
    whole = np.asarray(result)
    (expected,) = answers("DequantizeLinear", whole, scale, zero, **blocks)
    np.testing.assert_array_equal(back, expected)
    if type_.endswith("8"):
        (expected,) = answers("QuantizeLinear", x, scale, zero, **blocks)
        np.testing.assert_array_equal(result, expected)
    low, high = (-8, 7) if type_ == "int4" else (0, 15) if type_ == "uint4" else (-128, 255)
    steps = np.round(x / scale.repeat(16, 1)) + zero.astype(int).repeat(16, 1)
    if type_.endswith("4"):
        np.testing.assert_array_equal(whole.astype(int), np.clip(steps, low, high))


def test_blocks_divide_the_tensor():
    fields = {"input_tensor": T("FLOAT32", [4, 6]), "quantization_type": "SCALE"}
    with pytest.raises(DmlError, match=r"Sizes\[1\] to divide 6 \(InputTensor.Sizes\[1\]\), got 4"):
        Quantize.infer(**fields, quantization_tensors=[T("FLOAT32", [4, 4])])
    with pytest.raises(DmlError, match="QuantizationType"):
        Quantize.infer(
            **{**fields, "quantization_type": "NONE"}, quantization_tensors=[T("FLOAT32", [4, 1])]
        )


# 4-bit tensors in memory.


def halves(values: np.ndarray, size: int) -> np.ndarray:
    """Return bytes that hold 4-bit elements, the first in the low half, as NumPy packs bits."""
    bits = (values.astype(int).ravel() & 15).astype(np.uint8)
    buffer = np.zeros(size * 2, np.uint8)
    buffer[: bits.size] = bits
    return buffer[::2] | buffer[1::2] << 4


@pytest.mark.parametrize("type_", ["INT4", "UINT4"])
def test_the_first_of_two_elements_lies_in_the_low_half(type_: str):
    tensor = T(type_, [3])
    assert (tensor.memory_dtype, tensor.span_in_bytes) == (np.uint8, 2)
    assert tensor.total_tensor_size_in_bytes == 4
    result = tensor.read(np.array([0xF8, 0x21], np.uint8))
    signed = type_ == "INT4"
    assert result.astype(jnp.int8).tolist() == ([-8, -1, 1] if signed else [8, 15, 1])
    written = tensor.write(np.array([0, 0xAB], np.uint8), result)
    assert [hex(v) for v in written.tolist()] == ["0xf8", "0xa1"]  # the other half stays
    with pytest.raises(DmlError, match="buffer to be flat, uint8, of at least 2 elements"):
        tensor.read(np.zeros(1, np.uint8))
    with pytest.raises(DmlError, match="buffer to be flat, uint8"):
        tensor.read(jnp.zeros(4, jnp.int4))


@pytest.mark.parametrize("type_", ["INT4", "UINT4"])
@pytest.mark.parametrize("strides", [None, (1, 3), (7, 2), (0, 1), (2, 5)])
def test_strides_of_4_bit_tensors_count_elements(type_: str, strides: tuple[int, int] | None):
    rng = np.random.default_rng(3)
    elements = rng.integers(0, 16, 24)
    tensor = T(type_, [3, 4], strides)
    rows, columns = np.ix_(np.arange(3), np.arange(4))
    places = rows * (strides or (4, 1))[0] + columns * (strides or (4, 1))[1]
    expected = elements[places].astype(np.uint8).astype(tensor.dtype)
    signed = (elements[places] ^ 8) - 8 if type_ == "INT4" else elements[places]
    buffer = halves(elements, 12)
    result = jax.jit(tensor.read)(buffer)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(result).astype(int), signed)
    if strides != (0, 1):
        new = rng.integers(0, 8, (3, 4))
        written = jax.jit(tensor.write)(buffer, jnp.asarray(new.astype(tensor.dtype)))
        elements[places] = new
        np.testing.assert_array_equal(written, halves(elements, 12))


def _described(strides: tuple[int, int] | None) -> tuple[Dequantize, list[np.ndarray], np.ndarray]:
    """Return a DEQUANTIZE of INT4 in blocks, its memory, and its result."""
    rng = np.random.default_rng(4)
    q, zero = rng.integers(-8, 8, (2, 6)), rng.integers(-8, 8, (2, 2))
    scale = rng.integers(1, 9, (2, 2)).astype(np.float32) / 8
    whole = T("INT4", [2, 6], strides)
    tensors = [T("FLOAT32", [2, 2]), T("INT4", [2, 2])]
    op = Dequantize.infer(
        input_tensor=whole, quantization_type="SCALE_ZERO_POINT", quantization_tensors=tensors
    )
    elements = np.zeros(32, int)
    step = strides or (6, 1)
    elements[np.arange(2)[:, None] * step[0] + np.arange(6) * step[1]] = q
    memory = [halves(elements, 16), scale.ravel(), halves(zero, 4)]
    return op, memory, (q - zero.repeat(3, 1)) * scale.repeat(3, 1)


@pytest.mark.parametrize("strides", [None, (16, 2)])
def test_4_bit_tensors_are_bound_as_bytes(strides: tuple[int, int] | None):
    op, memory, expected = _described(strides)
    output = Buffer.of(op.output_tensor)
    table = compile(op).bind([Buffer(m) for m in memory], [output])
    table.dispatch()
    np.testing.assert_array_equal(output.array, expected)
    short = Buffer(np.zeros(2, np.uint8))
    with pytest.raises(DmlError, match=r"be bound to at least \d+ bytes"):
        compile(op).bind([short, Buffer(memory[1]), Buffer(memory[2])], [output])


def test_a_4_bit_output_is_written_to_bytes():
    x = np.array([[0, 1, 2], [-9, 7, 3]], np.float32)
    op = Quantize.infer(
        input_tensor=T("FLOAT32", [2, 3]),
        quantization_type="SCALE",
        quantization_tensors=[T("FLOAT32", [1, 1])],
        output_data_type="INT4",
    )
    output = Buffer.of(op.output_tensor)
    assert (output.array.dtype, output.size_in_bytes) == (np.uint8, 3)
    compile(op).bind([Buffer(x), Buffer(np.ones(1, np.float32))], [output]).dispatch()
    np.testing.assert_array_equal(output.array, halves(np.maximum(x, -8), 3))
    assert op.output_tensor.read(output.array).astype(jnp.int8).tolist() == [[0, 1, 2], [-8, 7, 3]]


def test_4_bit_tensors_of_a_model_are_resources_of_bytes(tmp_path: Any):
    op, memory, expected = _described(None)
    values = zip(["q", "scale", "zero"], ["UINT8", "FLOAT32", "UINT8"], memory, strict=True)
    resources = {name: buffer(array.tolist(), type_) for name, type_, array in values}
    bindings = {"InputTensor": "q", "QuantizationTensors": ["scale", "zero"], "OutputTensor": "out"}
    model = dispatch_models.model_of(
        {**resources, "out": filled(12)},
        {"dequantize": op.to_json()},
        dispatch("dequantize", **bindings),
        show("out"),
    )
    path = model_file(model, tmp_path)
    result = command("run", path)
    assert ", ".join(f"{v:g}" for v in expected.ravel()) in result.output
    results = dml_jax.run_model(dml_jax.load_model(path))
    np.testing.assert_array_equal(np.ravel(results["out"]), expected.ravel())
    np.testing.assert_array_equal(results["q"], memory[0])


def test_functions_take_arrays_of_4_bits():
    q = jnp.asarray([[-8, 7, 3, -1]], jnp.int4)
    scale = np.array([[0.5]], np.float32)
    wanted = [[-4.0, 3.5, 1.5, -0.5]]
    call = functools.partial(dml_jax.dequantize, quantization_type="SCALE")
    for function in (call, jax.jit(call)):
        assert function(q, [scale]).tolist() == wanted
    rows = jax.vmap(lambda q: call(q, [scale]))(jnp.stack([q, q]))
    assert rows.tolist() == [wanted, wanted]
    result = dml_jax.quantize(np.array(wanted, np.float32), [scale], "SCALE", "INT4")
    assert (result.dtype, result.astype(jnp.int8).tolist()) == (jnp.int4, [[-8, 7, 3, -1]])


def test_the_quotient_of_other_platforms_is_corrected():
    """A first quotient that is wrong by some units in the last place does not show."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1000, 1000, 10**5).astype(np.float32)
    scale = rng.uniform(1e-3, 9, 10**5).astype(np.float32)
    np.testing.assert_array_equal(jax.jit(quantization.corrected)(x, scale), x / scale)
    # XLA multiplies by the reciprocal of a constant, which is as wrong as a quotient on a GPU.
    by_constant = jax.jit(lambda x: quantization.corrected(x, jnp.float32(0.7)))
    np.testing.assert_array_equal(by_constant(x), x / np.float32(0.7))
    ends = np.array([np.inf, -1, 0, np.nan, 3e38], np.float32)
    divisors = np.array([2, 0, 0, 1, 1e-3], np.float32)
    with np.errstate(all="ignore"):
        expected = ends / divisors
    result = jax.jit(quantization.corrected)(ends, divisors)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("zeros", ["none", "one", "each"])
@pytest.mark.parametrize("types", ["uint8 int8", "uint8 uint8", "int8 int8", "int8 uint8"])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_bytes_are_exact(types: str, zeros: str, groups: int):
    """The ends of the types, strides, dilations, and padding with the zero point."""
    random = np.random.default_rng(0)
    kinds = [np.dtype(name) for name in types.split()]
    bounds = [np.iinfo(kind) for kind in kinds]
    x, w = (
        random.choice([i.min, -3 if i.min else 3, 5, i.max], shape).astype(kind)
        for i, kind, shape in zip(
            bounds, kinds, [(2, 12, 9, 8), (6, 12 // groups, 3, 2)], strict=True
        )
    )
    x_zero = None if zeros == "none" else np.array([7], kinds[0])
    each = {"none": None, "one": np.array([5], kinds[1]), "each": np.arange(6).astype(kinds[1])}
    window = Window((3, 2), (2, 1), (1, 2), (1, 0), (2, 1))
    y = jax.jit(lambda x, w, *z: integer_convolution(x, z[0], w, z[1], window, groups))(
        x, w, x_zero, each[zeros]
    )
    wide = x.astype(int) - (0 if x_zero is None else 7)
    wide = np.pad(wide, [(0, 0), (0, 0), (1, 2), (0, 1)])
    filters = w.astype(int) - (
        0 if zeros == "none" else each[zeros].reshape(-1, 1, 1, 1).astype(int)
    )
    taps = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))[:, :, ::2, :, :, ::2]
    parts = taps.reshape(2, groups, -1, *taps.shape[2:])
    wanted = np.einsum("ngchwij,gpcij->ngphw", parts, filters.reshape(groups, -1, *w.shape[1:]))
    np.testing.assert_array_equal(y, wanted.reshape(2, 6, *wanted.shape[3:]))


def test_products_of_bytes_are_exact():
    """The ends of the types, with sums of few and of many terms, one row and several."""
    random = np.random.default_rng(0)
    for shape in ((1, 3), (1, 300), (17, 40), (2, 5, 70)):
        for kinds in (("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")):
            bounds = [np.iinfo(kind) for kind in kinds]
            sizes = [shape, (*shape[:-2], shape[-1], 9)]
            a, b = (
                random.integers(i.min, i.max, size, endpoint=True).astype(i.dtype)
                for i, size in zip(bounds, sizes, strict=True)
            )
            zeros = np.array([3], kinds[0]), np.arange(9).astype(kinds[1])
            got = jax.jit(lambda a, b, z, y: integer_product(a, z, b, y, np.int32))(a, b, *zeros)
            wanted = (a.astype(int) - 3) @ (b.astype(int) - np.arange(9))
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("types", ["uint8 int8", "uint8 uint8", "int8 int8"])
def test_quantized_networks_are_those_of_onnx_runtime(types: str, per_channel: bool):
    """A convolution in both of ONNX's formats, QDQ and QOperator: at most one step apart."""
    of_x, of_w = types.split()
    random = np.random.default_rng(0)
    info = np.iinfo(of_w)
    scales = random.uniform(0.001, 0.003, 6 if per_channel else ()).astype(np.float32)
    arrays = {
        # Without VNNI, ONNX Runtime adds two products in 16 bits: those of weights below 64 fit.
        "w": random.integers(*((-64, 64) if info.min else (0, 255)), (6, 4, 3, 3)).astype(of_w),
        "w_scale": scales,
        "w_zero": np.full_like(scales, 0 if info.min else 128).astype(of_w),
        "x_scale": np.float32(0.02),
        "x_zero": np.array(3, of_x),
        "b": random.integers(-4000, 4000, 6).astype(np.int32),
        "b_scale": np.float32(0.02) * scales,
        "y_scale": np.float32(0.04),
        "y_zero": np.array(100 if of_x == "uint8" else -5, of_x),
    }
    read = "x x_scale x_zero w w_scale w_zero y_scale y_zero b"
    sizes: dict[str, Any] = {"pads": [1] * 4, "strides": [2, 1]}
    nodes = {
        "QDQ": [
            node("DequantizeLinear", "x x_scale x_zero", "x_real", axis=0),
            node("DequantizeLinear", "w w_scale w_zero", "w_real", axis=0),
            node("DequantizeLinear", "b b_scale", "b_real", axis=0),
            node("Conv", "x_real w_real b_real", "real", **sizes),
            node("QuantizeLinear", "real y_scale y_zero", "y"),
        ],
        "QOperator": [node("QLinearConv", read, "y", **sizes)],
    }
    bounds = np.iinfo(of_x)
    x = random.integers(bounds.min, bounds.max, (2, 4, 9, 8)).astype(of_x)
    weights = {name: np.asarray(array) for name, array in arrays.items()}
    for name, format_nodes in nodes.items():
        model = model_of(format_nodes, {"x": (of_x, x.shape)}, ["y"], weights, opset=21)
        (expected,) = runtime(model, {"x": x})
        result = np.asarray(dml_jax.load_onnx(model)(x)["y"])
        assert len(np.unique(expected)) > 50
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1, name
