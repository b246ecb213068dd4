"""Slices and padding: versions, modes at all sizes, gradients, and what they compile to."""

import re
from typing import Any

import jax
import numpy as np
import pytest
from records.slicing import MODES

import dml_jax
from dml_jax import DmlError, Padding, PaddingMode, Slice1, TensorDesc

T = TensorDesc


def test_the_output_of_slice1_may_be_smaller_than_its_window():
    fields = {
        "input_tensor": T("INT32", [8]),
        "input_window_offsets": [1],
        "input_window_sizes": [7],
        "input_window_strides": [-3],
    }
    x = np.arange(8, dtype=np.int32)
    assert Slice1.infer(**fields)(x).tolist() == [7, 4, 1]
    assert Slice1(**fields, output_tensor=T("INT32", [2]))(x).tolist() == [7, 4]
    with pytest.raises(DmlError, match=r"OutputTensor.Sizes\[0\] to be in \[1, 3\]"):
        Slice1(**fields, output_tensor=T("INT32", [4]))


def test_padding_refuses_what_an_integer_does_not_hold():
    fields: Any = {
        "input_tensor": T("UINT8", [3]),
        "padding_value": float("nan"),
        "start_padding": [1],
        "end_padding": [0],
    }
    with pytest.raises(DmlError, match=r"PaddingValue to not be NaN \(UINT8\), got nan"):
        Padding.infer(**fields, padding_mode="CONSTANT")
    assert (
        Padding.infer(**fields, padding_mode="EDGE")(np.array([7, 8, 9], np.uint8)).tolist()[0] == 7
    )


@pytest.mark.parametrize(
    ("mode", "level"), [("CONSTANT", "1_0"), ("EDGE", "1_0"), ("SYMMETRIC", "3_0"), ("WRAP", "6_4")]
)
def test_modes_have_a_feature_level(mode: str, level: str):
    op = Padding.infer(
        input_tensor=T("FLOAT32", [1, 1, 2, 2]),
        padding_mode=mode,
        padding_value=0,
        start_padding=[0, 0, 1, 1],
        end_padding=[0, 0, 1, 1],
    )
    assert str(op.minimum_feature_level) == level


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_modes_go_on_beyond_the_size(mode: str, size: int):
    x = np.arange(size, dtype=np.int16)
    pads = [(s, e) for s in (0, 1, 2, 4, 7, 13) for e in (0, 1, 3, 9)]
    results = jax.jit(lambda x: [dml_jax.padding(x, mode, 0, s, e) for s, e in pads])(x)
    for (start, end), result in zip(pads, results, strict=True):
        np.testing.assert_array_equal(result, np.pad(x, (start, end), MODES[mode]))


def test_elements_move_without_a_gather():
    x = np.zeros((6, 8), np.float32)
    for function in (
        lambda x: dml_jax.slice(x, [1, 2], [4, 5], [-2, 1]),
        lambda x: dml_jax.slice_grad(x, [14, 20], [1, 2], [11, 15], [-2, 2]),
        *(
            lambda x, mode=mode: dml_jax.padding(x, mode, 1, [3, 9], [2, 0])
            for mode in PaddingMode.__members__
        ),
    ):
        for f in (function, lambda x, f=function: jax.vjp(f, x)[1](f(x))):
            # A GPU's form of padding is a gather.
            text = jax.jit(f).trace(x).lower(lowering_platforms=("cpu",)).as_text()
            assert not re.search(r"stablehlo\.\"?(dynamic_)?(gather|scatter|iota)", text)
