"""ELEMENT_WISE_CLIP: the bounds' casts, their order, scaling, and the gradient."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dml_jax import (
    DmlError,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    ScaleBias,
    TensorDataType,
    TensorDesc,
    operator_from_json,
)

T = TensorDesc


INTEGERS = [np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
INFINITY = math.inf


def make(x, low, high, scale_bias=None) -> ElementWiseClip:
    tensor = TensorDesc.of(x)
    return ElementWiseClip(
        input_tensor=tensor, output_tensor=tensor, scale_bias=scale_bias, min=low, max=high
    )


def clipped(x, low, high, scale_bias=None) -> np.ndarray:
    return np.asarray(make(x, low, high, scale_bias)(x))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-2.9, 2.9),
        (0.5, 99.99),
        (-1e30, 1e30),
        (-INFINITY, INFINITY),
        (INFINITY, -INFINITY),
        (5, 2),
        (-(2.0**63), 2.0**64),
        (1e10, 3e38),
        (-3e38, -1e10),
    ],
)
def test_integer_bounds_truncate_then_saturate(dtype: np.dtype, low: float, high: float):
    limits = np.iinfo(dtype)
    least, most = int(limits.min), int(limits.max)

    def cast(bound: float) -> int:
        if math.isinf(bound):
            return most if bound > 0 else least
        return max(least, min(most, int(np.float32(bound))))

    values = [least, least + 1, 0, 1, 2, 3, 5, 100, most - 1, most]
    expected = [max(cast(low), min(v, cast(high))) for v in values]
    assert clipped(np.array(values, dtype), low, high).tolist() == expected


def test_min_above_max_gives_min():
    x = np.array([-5, 0, 2, 3, 9], np.float32)
    np.testing.assert_array_equal(clipped(x, 3, 2), [3] * 5)
    np.testing.assert_array_equal(clipped(x.astype(np.int8), 3.9, 2.1), [3] * 5)


def test_float16_bounds_round_to_nearest_even():
    x = np.array([-np.inf, 0, 2048, 4096], np.float16)
    # 2049 lies between 2048 and 2050; even is 2048.
    np.testing.assert_array_equal(clipped(x, -1e6, 2049), [-INFINITY, 0, 2048, 2048])
    np.testing.assert_array_equal(
        clipped(x, 0.1, 1e6), np.array([0.1, 0.1, 2048, 4096], np.float16)
    )


def test_nan():
    x = np.array([np.nan, 1], np.float32)
    np.testing.assert_array_equal(clipped(x, -1, 0.5), [np.nan, 0.5])
    for low, high, field in ((np.nan, 1, "Min"), (0, np.nan, "Max")):
        with pytest.raises(DmlError) as refused:
            make(x, low, high)
        assert (refused.value.field, refused.value.rule) == (field, "not be NaN")
    with pytest.raises(DmlError) as both:
        make(x, np.nan, np.nan)
    assert [fault.field for fault in both.value.faults] == ["Min", "Max"]


def test_bounds_are_floats():
    x = np.zeros(1, np.float32)
    op = make(x, 0.1, 1)
    assert op.min == float(np.float32(0.1))
    assert "min=0.1, max=1.0" in repr(op)
    with pytest.raises(DmlError, match=r"Max to fit a FLOAT .* got 1e\+39"):
        make(x, 0, 1e39)


@pytest.mark.parametrize("limit", [2**24 + 1, np.int64(-(2**31) + 1), 2**31 - 1])
def test_an_integer_that_no_float_holds_is_no_bound(limit: int):
    x = np.zeros(1, np.int32)
    bounds = (limit, 0) if limit < 0 else (0, limit)
    with pytest.raises(DmlError, match=f"M.. to be a FLOAT, of which .* got .*{limit}"):
        make(x, *bounds)
    assert make(x, 0, float(2**31 - 1)).max == make(x, 0, 2**31).max == 2**31


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_scale_bias_truncates_and_saturates_integers(dtype: np.dtype):
    limits = np.iinfo(dtype)
    x = np.array([0, 1, 3, 100, limits.max, limits.min], dtype)
    full = -INFINITY, INFINITY

    def saturated(value: float) -> int:
        return max(int(limits.min), min(int(limits.max), math.trunc(value)))

    half = clipped(x[:4], *full, ScaleBias(scale=0.5, bias=0))
    assert half.tolist() == [0, 0, 1, 50]
    negative = clipped(x[:4], *full, ScaleBias(scale=-0.5, bias=0))
    assert negative.tolist() == [saturated(v) for v in (0, -0.5, -1.5, -50)]
    assert clipped(x, *full, ScaleBias(scale=3e38, bias=0)).tolist() == [
        0 if v == 0 else saturated(2.0**70 * v) for v in x.tolist()
    ]
    assert clipped(x, *full, ScaleBias(scale=0, bias=-1e30)).tolist() == [limits.min] * 6


def test_scale_bias_computes_in_float32_and_rounds_once():
    x = np.array([26000, 30000], np.float16)
    # 30000 * 4 - 100000 overflows FLOAT16 on the way, and fits at the end.
    scaled = clipped(x, -INFINITY, INFINITY, ScaleBias(scale=4, bias=-100000))
    np.testing.assert_array_equal(scaled, (x.astype(np.float32) * 4 - 100000).astype(np.float16))
    big = np.array([2**53 + 2], np.int64)
    assert clipped(big, -INFINITY, INFINITY, ScaleBias(scale=1, bias=0)) == 2**53 + 2
    # FLOAT16 rounds before it clips: 2049 becomes 2048, which is below the bound.
    edge = np.array([2048], np.float16)
    assert clipped(edge, 2050, INFINITY, ScaleBias(scale=1, bias=1)) == 2050


def test_descriptors_differ_by_the_bits_of_their_floats():
    x = np.array([-1, -0.0, 0.0], np.float32)
    positive, negative = make(x, 0.0, 1), make(x, -0.0, 1)
    assert positive != negative
    call = jax.jit(lambda op, x: op(x), static_argnums=0)
    assert not np.signbit(np.asarray(call(positive, x))).any()
    assert np.signbit(np.asarray(call(negative, x)))[0]
    scaled = [make(x, 0, 1, ScaleBias(scale=np.nan, bias=0)) for _ in range(2)]
    assert scaled[0] == scaled[1]
    assert hash(scaled[0]) == hash(scaled[1])


def clip_grad(x: np.ndarray, low: float, high: float) -> ElementWiseClipGrad:
    tensor = T.of(x)
    return ElementWiseClipGrad.infer(
        input_tensor=tensor, input_gradient_tensor=tensor, min=low, max=high
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0.1, 0.7), (1, -1), (0, 0), (-np.inf, 0.5)])
def test_gradient_of_clip_is_clip_grad(dtype: type, low: float, high: float):
    rng = np.random.default_rng(1)
    special = [low, high, np.nan, np.inf, -np.inf, -0.0, 0.0]
    x = np.concatenate([rng.standard_normal(200), special]).astype(dtype)
    gradient = rng.standard_normal(x.shape).astype(dtype)
    (by_autodiff,) = jax.vjp(make(x, low, high), x)[1](gradient)
    expected = clip_grad(x, low, high)(x, gradient)
    assert np.asarray(by_autodiff).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("low, high", [(-1, 1), (0, 0), (1, -1), (-np.inf, np.inf)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_gradient_comes_through_bit_by_bit_or_not_at_all(dtype: type, low: float, high: float):
    """Infinities, NaN and the sign of zero, and its own derivatives."""
    values = [-np.inf, -2, -1, -0.0, 0.5, 1, 2, np.inf, np.nan]
    x, gradient = (a.astype(dtype).ravel() for a in np.meshgrid(values, [*values, -np.nan]))
    op = clip_grad(x, low, high)
    passes = ~((x <= low) | (x >= high))
    expected = np.where(passes, gradient, dtype(0))
    bits = f"u{expected.itemsize}"
    np.testing.assert_array_equal(np.asarray(op(x, gradient)).view(bits), expected.view(bits))
    slope = jax.grad(lambda g: op(jnp.asarray(x), g)[np.isfinite(gradient)].sum())
    np.testing.assert_array_equal(slope(jnp.asarray(gradient)), passes & np.isfinite(gradient))


def clip1(data_type: str, low, high, size: int = 1) -> ElementWiseClip1:
    tensor = T(data_type, [size])
    return ElementWiseClip1(
        input_tensor=tensor, output_tensor=tensor, min_max_data_type=data_type, min=low, max=high
    )


@pytest.mark.parametrize(
    ("data_type", "low", "high", "fields"),
    [
        ("INT32", 0.5, 3, ["Min"]),
        ("INT32", 0, 2**31, ["Max"]),
        ("UINT8", -1, 256, ["Min", "Max"]),
        ("INT8", float("-inf"), float("inf"), ["Min", "Max"]),
        ("FLOAT32", float("nan"), 1, ["Min"]),
        ("INT64", 0, 10**400, ["Max"]),
        ("INT64", "0", True, ["Min", "Max"]),
    ],
)
def test_bounds_that_do_not_fit(data_type: str, low, high, fields: list[str]):
    with pytest.raises(DmlError) as refused:
        clip1(data_type, low, high)
    assert sorted({fault.field for fault in refused.value.faults}) == sorted(fields)


def test_bounds_of_one_value_are_one_operator():
    assert clip1("FLOAT32", 0, TensorDataType.FLOAT16) == clip1("FLOAT32", 0, 2)
    rounded = float(np.float32(0.1))
    assert clip1("FLOAT32", 0.1, 1) == clip1("FLOAT32", rounded, 1) != clip1("FLOAT32", 0.2, 1)
    assert clip1("FLOAT16", 0.1, 1) != clip1("FLOAT16", rounded, 2)
    assert clip1("FLOAT16", 0, 10**6) == clip1("FLOAT16", 0, float("inf"))
    one = clip1("FLOAT32", 0, 1)
    for low, high in ((0.0, 1.0), (np.float32(0), np.int8(1)), (jnp.float32(0), np.array(1.0))):
        assert clip1("FLOAT32", low, high) == one
        assert hash(clip1("FLOAT32", low, high)) == hash(one)
    others = [clip1("FLOAT32", low, 1) for low in (-0.0, float("-inf"), 0.5)]
    assert len({one, *others}) == 4


def test_integers_round_once_to_floats():
    """2^62 + 2^38 + 1 is above the middle of two FLOAT32; by way of a double it would be on it."""
    bound = np.asarray(clip1("FLOAT32", 2**62 + 2**38 + 1, float("inf"))(np.zeros(1, np.float32)))
    assert bound.tolist() == [2.0**62 + 2.0**39]


def test_whole_floats_are_integers():
    assert np.asarray(clip1("INT16", 2.0, 5.0)(np.array([9], np.int16))).tolist() == [5]


def test_the_bounds_type_is_the_outputs():
    tensor = T("FLOAT32", [1])
    with pytest.raises(DmlError, match=r"MinMaxDataType to be FLOAT32 .*, got INT32"):
        ElementWiseClip1(
            input_tensor=tensor, output_tensor=tensor, min_max_data_type="INT32", min=0, max=1
        )


@pytest.mark.parametrize(
    ("data_type", "json", "expected"),
    [
        ("INT64", {"Int64": 2**53 + 1}, 2**53 + 1),
        ("FLOAT32", {"Float32": 0.5}, 0.5),
        ("FLOAT16", {"UInt16": 0x3C00}, 1.0),
        ("FLOAT16", 0.25, 0.25),
        ("FLOAT32", "-Inf", float("-inf")),
        ("FLOAT32", {"Float32": "-inf"}, float("-inf")),
        ("UINT8", 7, 7),
    ],
)
def test_scalars_in_json(data_type: str, json, expected):
    tensor = {"DataType": data_type, "Sizes": [1]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, "MinMaxDataType": data_type}
    op = operator_from_json(
        {"Type": "ELEMENT_WISE_CLIP1", "Desc": {**desc, "Min": json, "Max": json}}
    )
    assert isinstance(op, ElementWiseClip1)
    assert (op.min, op.max) == (expected, expected)
    for wrong in ({"Int8": 1, "Int16": 1}, {"Bytes": [1]}, {}, [1], None, {"Float": 1}):
        with pytest.raises(DmlError, match="Min"):
            operator_from_json(
                {"Type": "ELEMENT_WISE_CLIP1", "Desc": {**desc, "Min": wrong, "Max": json}}
            )
