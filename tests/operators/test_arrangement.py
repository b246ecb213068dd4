"""JOIN, DEPTH_TO_SPACE and SPACE_TO_DEPTH: sizes that do not fit."""

import pytest

from dml_jax import DepthToSpace, DmlError, Join, SpaceToDepth, TensorDesc

pytestmark = pytest.mark.usefixtures("soon")

T = TensorDesc


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
