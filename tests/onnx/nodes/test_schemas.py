"""Nodes that break ONNX's rules: ONNX Runtime refuses them, and so does a network, in one line."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from build import floats, refusal, runtime, single
from onnx import defs

from dml_jax import facts
from dml_jax.onnxruntime import InferenceSession
from dml_jax.onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

MICROSOFT = "com.microsoft"
X, VECTOR, IMAGE = floats(np.ones((2, 3))), floats(np.ones(5)), floats(np.ones((1, 2, 4, 4)))
FILTER, WIDE = (floats(np.ones((3, 2, size, size))) for size in (3, 5))
ONE = np.ones((1, 1), np.int64)
BYTES = np.ones((1, 2, 4, 4), np.uint8)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# The op type, its inputs, its attributes, and a part of the message
CASES: list[tuple[str, Sequence[Any], dict[str, Any], str]] = [
    ("Reshape", [X, ints(4)], {}, "expected the sizes to be of 6 elements, got [4]"),
    ("Reshape", [X, ints(8)], {}, "expected the sizes to be of 6 elements, got [8]"),
    ("Reshape", [X, ints(4, -1)], {}, "incompatible shapes"),
    ("Split", [VECTOR, ints(1, 2)], {"outputs": "y z"}, "sum of 'split' (3)"),
    ("Split", [VECTOR, ints(4, 4)], {"outputs": "y z"}, "sum of 'split' (8)"),
    ("Split", [VECTOR, ints(6, -1)], {"outputs": "y z"}, "expected split to have sizes of at"),
    ("Split", [VECTOR], {"outputs": "y z", "opset": 11, "split": [1, 2]}, "sum of 'split' (3)"),
    ("Conv", [IMAGE, FILTER, VECTOR], {}, "to be 3 (FilterTensor.Sizes[0])"),
    ("Conv", [IMAGE, FILTER, X.T], {}, "to have rank 1, got 2"),
    ("Conv", [IMAGE, WIDE], {}, "to span at most 4 elements (the padded input), with its dilation"),
    ("Conv", [IMAGE[:, :, :3], WIDE], {}, "to span at most 3 elements"),
    ("ConvInteger", [BYTES, np.ones((3, 2, 5, 5), np.uint8)], {"opset": 10}, "to span at most 4"),
    ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "pads": [2, 2, 0, 0]}, "less than the window"),
    ("Tile", [X, ints(2)], {}, "number of values"),
    ("Expand", [X, ints(2, 2)], {}, "ONNX refuses it"),
    ("ScatterElements", [X, ONE, X], {}, "expected updates to have the sizes [1, 1]"),
    ("ScatterElements", [X, ints(0), X[0, :1]], {}, "expected indices to have at most"),
    ("GatherElements", [X, np.ones((3, 3), np.int64)], {"axis": 1}, "have at most the sizes"),
    ("GatherElements", [X, ints(0)], {}, "expected indices to have at most"),
    ("PRelu", [X, X[0, :2]], {}, "to be 3 (InputTensor.Sizes[1]), got 2"),
    ("TopK", [VECTOR, ints(-1)], {"outputs": "y z"}, "expected K to be in [0, 5], got -1"),
    ("TopK", [VECTOR, ints(9)], {"outputs": "y z"}, "less than the requested k"),
    ("CumSum", [X, np.array(4)], {}, "expected axis to be in [-2, 1], got 4"),
    ("CumSum", [X, ints(0, 1)], {}, "expected axis to have one element"),
    ("Trilu", [VECTOR], {}, "rank must be >= 2"),
    ("OneHot", [ints(0, 1), np.array(0), floats([0, 1])], {}, "expected depth to be at least 1"),
    ("Transpose", [X], {"perm": [0]}, "expected perm to have each of 0 to 1 once"),
    ("InstanceNormalization", [IMAGE, VECTOR[:1], VECTOR[:1]], {}, "to have 2 elements, got [1]"),
    ("Gemm", [X, X.T, np.ones((3, 2), np.float32)], {}, "to be broadcast to [2, 2], got [3, 2]"),
    ("DepthToSpace", [IMAGE], {"blocksize": 2}, "to be a multiple of 4"),
    ("Clip", [X, VECTOR], {}, "to have one element, got [5]"),
    ("Relu", [X], {"foo": 3}, "expected foo to be an attribute of Relu 14, got 3"),
    ("SequenceConstruct", [X], {"foo": 3}, "expected foo to be an attribute"),
    (
        "Conv",
        [IMAGE, IMAGE],
        {"kernel_shape": [5, 5]},
        "kernel_shape to be [4, 4], as in the weight",
    ),
    ("Gelu", [X], {"opset": 20, "approximate": "erf"}, "to be one of none, tanh, got 'erf'"),
    ("Gelu", [X], {"domain": MICROSOFT, "approx": 1}, "expected approx to be an attribute of Gelu"),
    ("MaxUnpool", [IMAGE, IMAGE[:, :, :2].astype(int)], {"kernel_shape": [2, 2]}, "as X, got"),
]


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(("op_type", "inputs", "attributes", "text"), CASES)
def test_a_node_is_refused_in_one_line(
    op_type: str, inputs: Any, attributes: Any, text: str, is_known: bool
):
    arrays = {f"x{k}": array for k, array in enumerate(inputs)}
    model = single(op_type, arrays, constants=[*arrays][not is_known :], **attributes)
    model.ir_version = 8
    with pytest.raises(Exception, match=r"ONNXRuntimeError|Unexpected"):
        runtime(model, {} if is_known else {"x0": inputs[0]})
    for fallback in (False, True):
        message = refusal(model, fallback=fallback)
        assert text in message and "--fallback" not in message
        assert "\n" not in message.partition("\nwith fallback")[0]


def test_a_run_says_that_there_are_fewer_elements_than_k():
    arrays = {"x": VECTOR, "k": ints(9)}
    session = InferenceSession(single("TopK", arrays, outputs="y z").SerializeToString())
    for count in (9, -1, 9):
        with pytest.raises(Fail, match=rf"k of the TopK of 'y' to be in \[0, 5\], got {count}"):
            session.run(None, {"x": VECTOR, "k": ints(count)})


@pytest.mark.parametrize("domain", ["", MICROSOFT])
def test_a_session_of_an_unknown_attribute_is_not_made(domain: str):
    model = single("Gelu", {"x": X}, domain=domain, opset=20, foo=3)
    with pytest.raises(InvalidGraph, match="expected foo to be an attribute of Gelu"):
        InferenceSession(model.SerializeToString())


def test_attributes_without_a_schema_are_those_of_onnx_runtime():
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime_state  # pyright: ignore

    known: dict[tuple[str, str], set[str]] = {}
    for schema in runtime_state.get_all_operator_schema():
        known.setdefault((schema.domain, schema.name), set()).update(schema.attributes)
    for domain, entries in facts.attributes().items():
        for name, attributes in entries.items():
            assert {*attributes} <= known[domain, name], name
            if not defs.has(name, domain):
                assert {*attributes} == known[domain, name], name


def test_a_session_does_not_hand_on_what_onnx_refuses():
    """ONNX Runtime would end the process."""
    arrays = {"x": IMAGE, "r": floats([]), "s": floats([1, 1, 1])}
    model = single("Resize", arrays, opset=13)
    session = InferenceSession(model.SerializeToString())
    with pytest.raises(Fail, match=r"Node 'y' \(Resize\): ONNX refuses it"):
        session.run(None, arrays)
