"""What the checks of an operator say where fields are wrong, and what they still check."""

import functools
from typing import Any, cast

import pytest

from dml_jax import (
    Argmax,
    DepthToSpace,
    DmlError,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    Join,
    Operator,
    Reduce,
    Split,
    TensorDesc,
    Tile,
)
from dml_jax.description.fields import Input, Output
from dml_jax.description.support import ALL_TYPES, rows

T = TensorDesc


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
            ["OutputTensors[*].Sizes[1]", "OutputTensors[0].Sizes[0]", "OutputTensors[1].Sizes[0]"],
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


def test_an_operator_of_ones_own_says_what_its_declaration_lacks():
    def declare(record: Any) -> None:
        class Copy(Operator, op="COPY"):
            """Copies elements: `output = input`.

            Gradient: the output's.

            Fields:
                input_tensor: the tensor.
                output_tensor: the copy.
            """

            input_tensor: Input
            output_tensor: Output
            support = rows(("1_0", (1, 8), ALL_TYPES))
            constraints = (record,)

            def lower(self, x: Any) -> Any:
                return x

    names = ["InputTensr", "OutputTensor"]
    with pytest.raises(TypeError, match=r"one of the keys .*equal.*, got 'equals'"):
        declare({"equals": names})
    with pytest.raises(TypeError, match=r"names 'InputTensr'.*did you mean 'InputTensor'"):
        declare({"equal": names, "of": ["Sizes"]})
    with pytest.raises(TypeError, match=r'without its name: class Nameless\(.*op="NAMELESS"\)'):

        class Nameless(Operator):
            input_tensor: Input
            support = rows(("1_0", (1, 8), ALL_TYPES))
            constraints = ()
