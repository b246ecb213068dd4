"""What the operators of one family say of each other, and the bounds that are exact."""

import functools
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dml_jax import (
    Argmax,
    Argmin,
    DepthToSpace,
    DepthToSpace1,
    DmlError,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    Join,
    Reduce,
    SpaceToDepth,
    SpaceToDepth1,
    Split,
    TensorDataType,
    TensorDesc,
    Tile,
    operator_from_json,
)

pytestmark = pytest.mark.usefixtures("soon")

T = TensorDesc


@pytest.mark.parametrize("axis", range(3))
def test_join_of_split(axis: int):
    x = np.random.default_rng(0).integers(0, 99, (6, 7, 8)).astype(np.int32)
    sizes = [1, 2, x.shape[axis] - 3]
    pieces = [T("INT32", [n if d == axis else s for d, s in enumerate(x.shape)]) for n in sizes]
    split = Split(input_tensor=T.of(x), output_tensors=pieces, axis=axis)
    join = Join(input_tensors=pieces, output_tensor=T.of(x), axis=axis)
    np.testing.assert_array_equal(join(*split(x)), x)


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


@pytest.mark.parametrize("order", ["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_space_to_depth_undoes_depth_to_space(order: str, block: int):
    x = np.random.default_rng(0).standard_normal((2, 5 * block**2, 3, 4)).astype(np.float32)
    wide = T("FLOAT32", [2, 5, 3 * block, 4 * block])
    there = DepthToSpace1(input_tensor=T.of(x), output_tensor=wide, block_size=block, order=order)
    back = SpaceToDepth1(input_tensor=wide, output_tensor=T.of(x), block_size=block, order=order)
    np.testing.assert_array_equal(back(there(x)), x)
    np.testing.assert_array_equal(there(back(there(x))), there(x))
    if order == "DEPTH_COLUMN_ROW":
        plain = DepthToSpace(input_tensor=T.of(x), output_tensor=wide, block_size=block)
        np.testing.assert_array_equal(plain(x), there(x))
        plain = SpaceToDepth(input_tensor=wide, output_tensor=T.of(x), block_size=block)
        np.testing.assert_array_equal(plain(there(x)), x)


def clip_grad(x: np.ndarray, low: float, high: float) -> ElementWiseClipGrad:
    tensor = T.of(x)
    return ElementWiseClipGrad(
        input_tensor=tensor,
        input_gradient_tensor=tensor,
        output_gradient_tensor=tensor,
        min=low,
        max=high,
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0.1, 0.7), (1, -1), (0, 0), (-np.inf, 0.5)])
def test_gradient_of_clip_is_clip_grad(dtype: type, low: float, high: float):
    rng = np.random.default_rng(1)
    special = [low, high, np.nan, np.inf, -np.inf, -0.0, 0.0]
    x = np.concatenate([rng.standard_normal(200), special]).astype(dtype)
    gradient = rng.standard_normal(x.shape).astype(dtype)
    tensor = T.of(x)
    clip = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=low, max=high)
    grad = clip_grad(x, low, high)
    _, pullback = jax.vjp(clip, jnp.asarray(x))
    (by_autodiff,) = pullback(jnp.asarray(gradient))
    assert np.asarray(by_autodiff).tobytes() == np.asarray(grad(x, gradient)).tobytes()


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


@pytest.mark.parametrize(("op", "function"), [(Argmax, "ARGMAX"), (Argmin, "ARGMIN")])
@pytest.mark.parametrize("length", [1, 2, 7, 33, 64, 1000])
def test_axis_direction(op: type, function: str, length: int):
    """INCREASING is REDUCE's; DECREASING counts from the other end."""
    rng = np.random.default_rng(length)
    x = rng.integers(0, 3, (40, length)).astype(np.float32)
    x[::4, rng.integers(0, length)] = np.nan
    x[1::4, rng.integers(0, length)] = np.nan
    tensors = {"input_tensor": T.of(x), "output_tensor": T("INT32", [40, 1]), "axes": [1]}
    first = op(**tensors, axis_direction="INCREASING")(x)
    np.testing.assert_array_equal(first, Reduce(function=function, **tensors)(x))
    last = op(**tensors, axis_direction="DECREASING")(x)
    np.testing.assert_array_equal(
        last, length - 1 - np.asarray(op(**tensors, axis_direction="INCREASING")(x[:, ::-1]))
    )


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (
            lambda t: ElementWiseClip(
                input_tensor=t([4]), output_tensor=t([5]), min=float("nan"), max=1
            ),
            ["Min", "OutputTensor.Sizes[0]"],
        ),
        (
            lambda t: Split(input_tensor=t([4, 4]), output_tensors=[t([3, 1]), t([3, 2])], axis=1),
            [
                "OutputTensors[*].Sizes[1]",
                "OutputTensors[0].Sizes[0]",
                "OutputTensors[1].Sizes[0]",
            ],
        ),
        (
            lambda t: Reduce(
                function="SUMM", input_tensor=t([4, 4]), output_tensor=t([4, 4]), axes=[0]
            ),
            ["Function", "OutputTensor.Sizes[0]"],
        ),
        (
            lambda t: Argmax(
                input_tensor=t([4]), output_tensor=t([1]), axes=[5], axis_direction="UP"
            ),
            ["AxisDirection", "OutputTensor.DataType", "Axes[0]"],
        ),
        (  # the channels do not follow
            lambda t: DepthToSpace(
                input_tensor=t([1, 3, 2, 2]), output_tensor=t([7, 3, 4, 1]), block_size=2
            ),
            ["InputTensor.Sizes[1]", "OutputTensor.Sizes[0]", "OutputTensor.Sizes[3]"],
        ),
        (  # nor sizes where the axes are wrong
            lambda t: Reduce(
                function="SUM", input_tensor=t([4, 4]), output_tensor=t([3, 3]), axes=[0, 7]
            ),
            ["Axes[1]"],
        ),
        (
            lambda t: Tile(input_tensor=cast(Any, 3), output_tensor=t([4]), repeats=[0]),
            ["InputTensor", "Repeats[0]"],
        ),
        (
            lambda t: Reduce(
                function="SUM", input_tensor=cast(Any, 3), output_tensor=t([4]), axes=[0, 0]
            ),
            ["InputTensor", "Axes[1]"],
        ),
        (
            lambda t: ElementWiseClip(
                input_tensor=t([4]), output_tensor=t([4]), min=cast(Any, "x"), max=float("nan")
            ),
            ["Min", "Max"],
        ),
        (  # 100000 is an INT32, if no FLOAT16
            lambda t: ElementWiseClip1(
                input_tensor=T("INT32", [2]),
                output_tensor=T("INT32", [2]),
                min_max_data_type="FLOAT16",
                min=0,
                max=100000,
            ),
            ["MinMaxDataType"],
        ),
        (
            lambda t: ElementWiseClipGrad(
                input_tensor=t([4]),
                input_gradient_tensor=cast(Any, None),
                output_gradient_tensor=t([5]),
                min=0,
                max=1,
            ),
            ["InputGradientTensor", "OutputGradientTensor.Sizes[0]"],
        ),
        (
            lambda t: DepthToSpace(
                input_tensor=t([1, 4, 2, 2]), output_tensor=t([4, 4, 1]), block_size=0
            ),
            ["OutputTensor.DimensionCount", "BlockSize"],
        ),
        (
            lambda t: Split(input_tensor=t([4, 4]), output_tensors=[], axis=7),
            ["OutputCount", "Axis"],
        ),
        (  # INT32 holds the index of 65536 * 32767 elements, if not of more
            lambda t: Argmax(
                input_tensor=t([2**16, 2**15 - 1]),
                output_tensor=T("INT32", [1, 1]),
                axes=[0, 1, 1],
                axis_direction="INCREASING",
            ),
            ["Axes[2]"],
        ),
    ],
)
def test_all_that_does_not_depend_on_what_is_wrong(make, fields: list[str]):
    with pytest.raises(DmlError) as refused:
        make(functools.partial(T, "FLOAT32"))
    assert sorted(fault.field for fault in refused.value.faults) == sorted(fields)


def test_only_axes_count_from_the_end():
    x = T("FLOAT32", [2, 3])
    made: Any = {"input_tensor": x, "output_tensor": T("UINT32", [1, 3]), "axes": [0]}
    with pytest.raises(DmlError, match="expected AxisDirection to be one of"):
        Argmax(**made, axis_direction=cast(Any, -1))
    misnamed: Any = {"input_tensors": [x], "output_tensor": x, "Axis": -1}
    with pytest.raises(DmlError, match="expected Axis to be spelled axis"):
        Join(**misnamed)


def test_infer_says_once_what_is_misnamed():
    fields: Any = {"function": "SUM", "input": T("FLOAT32", [2, 3]), "axes": [0]}
    with pytest.raises(DmlError, match="did you mean 'input_tensor'") as refused:
        Reduce.infer(**fields)
    assert [fault.field for fault in refused.value.faults] == ["input"]
    fields |= {"input_tensor": fields.pop("input"), "axes": [5], "output_data_type": "FLOAT23"}
    with pytest.raises(DmlError) as refused:
        Reduce.infer(**fields)
    assert [f.field for f in refused.value.faults] == ["OutputTensor.DataType", "Axes[0]"]


def clip1(data_type: str, low, high, size: int = 1) -> ElementWiseClip1:
    tensor = T(data_type, [size])
    return ElementWiseClip1(
        input_tensor=tensor, output_tensor=tensor, min_max_data_type=data_type, min=low, max=high
    )


def test_64_bit_bounds_are_exact():
    x = np.array([0, 2**53 + 2, 2**62], np.int64)
    assert np.asarray(clip1("INT64", 2**53 + 1, 2**53 + 1, 3)(x)).tolist() == [2**53 + 1] * 3
    y = np.array([2**64 - 1], np.uint64)
    assert np.asarray(clip1("UINT64", 0, 2**64 - 2)(y)).tolist() == [2**64 - 2]


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


@pytest.mark.parametrize(
    ("sizes", "output", "axis", "faults"),
    [
        ([[2, 3], [2, 4]], [2, 6], 1, {"OutputTensor.Sizes[1]": 6}),
        ([[2, 3], [3, 4]], [2, 7], 1, {"InputTensors[1].Sizes[0]": 3}),
        (
            [[2, 3], [4]],
            [2, 7],
            1,
            {"InputTensors[1].DimensionCount": 1},  # the sum does not follow
        ),
        ([[2, 3], [2, 4]], [2, 7], 2, {"Axis": 2}),
        ([[2, 3]], [2, 3, 1], 0, {"OutputTensor.DimensionCount": 3}),
    ],
)
def test_join_of_what_does_not_fit(sizes, output, axis: int, faults: dict):
    with pytest.raises(DmlError) as refused:
        Join(
            input_tensors=[T("FLOAT32", s) for s in sizes],
            output_tensor=T("FLOAT32", output),
            axis=axis,
        )
    assert {fault.field: fault.value for fault in refused.value.faults} == faults


@pytest.mark.parametrize(
    ("op", "sizes", "block", "message"),
    [
        (SpaceToDepth, [1, 1, 4, 6], 4, "InputTensor.Sizes[3] to be a multiple of 4 (BlockSize)"),
        (SpaceToDepth, [1, 1, 5, 7], 2, "InputTensor.Sizes[2] to be a multiple of 2 (BlockSize)"),
        (
            DepthToSpace,
            [1, 6, 4, 4],
            2,
            "InputTensor.Sizes[1] to be a multiple of 4 (BlockSize*BlockSize)",
        ),
        (DepthToSpace, [1, 6, 4, 4], 0, "BlockSize to be at least 1, got 0"),
    ],
)
def test_blocks_that_do_not_fit(op: type, sizes: list[int], block: int, message: str):
    with pytest.raises(DmlError) as refused:
        op(input_tensor=T("FLOAT32", sizes), output_tensor=T("FLOAT32", sizes), block_size=block)
    assert message in str(refused.value)
