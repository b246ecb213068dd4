"""JOIN, SPLIT, DEPTH_TO_SPACE and SPACE_TO_DEPTH: inverses, and sizes that do not fit."""

import numpy as np
import pytest

from dml_jax import (
    DepthToSpace,
    DepthToSpace1,
    DmlError,
    Join,
    SpaceToDepth,
    SpaceToDepth1,
    Split,
    TensorDesc,
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
