"""JOIN: sizes that do not fit."""

import pytest

from dml_jax import DmlError, Join, TensorDesc

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
