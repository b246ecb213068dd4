"""ONNX Runtime's operator tests of its web provider, each a network of one node.

`ortweb.json.xz` has them as data (microsoft/onnxruntime, js/web/test/data/ops, MIT).
"""

import json
import lzma
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import onnx
import pytest
from arrays import attended
from conformance.cases import Case
from conformance.onnx_nodes import computed, network_of, wide, with_initializers
from onnx import TensorProto, helper

FILE = Path(__file__).with_name("ortweb.json.xz")
OPSET = 17  # of tests that state none
_TYPES = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}
_ONNX_TYPES = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4}
# Relative, absolute. The expectations are of four digits.
_TOLERANCES = {"float32": (1e-4, 1e-3), "float16": (5e-3, 5e-3)}
# The inputs that decide sizes, which are initializers here.
_OF_SIZES = {"GroupQueryAttention": "input_6"}
_REFUSED = "ONNX Runtime's CPU provider refuses the model of the test"
_MISTAKEN = "ONNX Runtime's CPU provider has this package's answer, and not the test's"
_NO_PAST = "the expectation leaves out the past keys and values of the test's inputs"
# By the numbers of the test and the case.
LEFT_OUT = {
    "75.1": _REFUSED,  # a bias of another length than the last dimension
    "75.2": _REFUSED,
    "76.0": _REFUSED,  # FusedConvTranspose is no registered op type
    "76.1": _REFUSED,
    "78.0": _REFUSED,  # the private domain com.ms.internal.nhwc
    "83.0": _REFUSED,
    "137.0": _NO_PAST,
    "138.0": _NO_PAST,
    "150.0": _MISTAKEN,
    "153.1": _REFUSED,  # sizes of INT32
    "154.0": _REFUSED,  # extrapolation_value is an integer
}


def _array(tensor: Mapping[str, Any]) -> np.ndarray:
    """Return the array of a tensor of a test."""
    dtype = np.dtype(_TYPES.get(tensor["type"], tensor["type"]))
    return np.array(tensor["data"]).astype(dtype).reshape(tensor["dims"])


def _value_info(name: str, tensor: Mapping[str, Any]) -> onnx.ValueInfoProto:
    kind = tensor["type"]
    element = _ONNX_TYPES.get(kind) or helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    return helper.make_tensor_value_info(name, element, tensor["dims"])


def model_of(test: Mapping[str, Any], case: Mapping[str, Any]) -> onnx.ModelProto:
    """Return the network of one node that a case is about."""
    opset = test["opset"] or {"domain": "", "version": OPSET}
    inputs = {f"input_{i}": x for i, x in enumerate(case["inputs"]) if x and x["data"] is not None}
    names = [f"input_{i}" if f"input_{i}" in inputs else "" for i in range(len(case["inputs"]))]
    outputs = {
        f"output_{i}": x for i, x in enumerate(case["outputs"]) if x and x["data"] is not None
    }
    node = helper.make_node(
        test["operator"],
        names,
        [f"output_{i}" if f"output_{i}" in outputs else "" for i in range(len(case["outputs"]))],
        domain=opset["domain"],
        **{a["name"]: a["data"] for a in test["attributes"] or []},
    )
    graph = helper.make_graph(
        [node],
        test["name"],
        [_value_info(name, x) for name, x in inputs.items()],
        [_value_info(name, x) for name, x in outputs.items()],
    )
    domains = {"": OPSET, opset["domain"]: opset["version"]}
    imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def inputs_of(case: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays of a case by the names that its network has for them."""
    given = enumerate(case["inputs"])
    return {f"input_{i}": _array(x) for i, x in given if x and x["data"] is not None}


def _answer(test: Mapping[str, Any], case: Mapping[str, Any]) -> list[np.ndarray]:
    """Return this package's answer to a case, in the order of the outputs that the case has."""
    model, inputs = model_of(test, case), inputs_of(case)
    if (name := _OF_SIZES.get(test["operator"])) in inputs:
        model = with_initializers(model, {name: inputs.pop(name)})
    with jax.enable_x64(True):
        network = network_of(model, inputs, fallback=True)
        (results,) = computed([network], [{name: inputs[name] for name in network.inputs}])
        results = network.without_padding(results)
    found = []
    for i, tensor in enumerate(case["outputs"]):
        if tensor and tensor["data"] is not None:
            found.append(np.asarray(results[f"output_{i}"]))
    return found


def _check(test: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    """Run the node of a case; raise `AssertionError` where its answer is not the expected."""
    expectations = [x for x in case["outputs"] if x and x["data"] is not None]
    for tensor, result in zip(expectations, _answer(test, case), strict=True):
        expected = _array(tensor)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        rtol, atol = _TOLERANCES.get(tensor["type"], (0, 0))
        np.testing.assert_allclose(wide(result), wide(expected), rtol=rtol, atol=atol)


def _check_reason(reason: str, test: Mapping[str, Any], case: Mapping[str, Any]) -> None:
    """Raise `AssertionError` where the reason to leave a case out does not hold."""
    model, inputs = model_of(test, case).SerializeToString(), inputs_of(case)
    if reason == _NO_PAST:
        query, *others = (array.reshape(1, 1, 1, -1) for array in inputs.values())
        key, value, past_key, past_value = others
        present = (np.concatenate(x, 2) for x in ((past_key, key), (past_value, value)))
        expected = attended(query, *present, True)
        np.testing.assert_allclose(_answer(test, case)[0][0], expected[0, 0], rtol=1e-5)
        return
    runtime = pytest.importorskip("onnxruntime")
    try:
        session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
        answers = session.run(None, inputs)
    except Exception:  # ONNX Runtime has a class of its own for each
        assert reason == _REFUSED
        return
    assert reason == _MISTAKEN
    for result, answer in zip(_answer(test, case), answers, strict=True):
        np.testing.assert_allclose(result, answer, rtol=1e-4, atol=1e-5)


@cache
def _file() -> dict[str, Any]:
    return json.loads(lzma.decompress(FILE.read_bytes()))


def version() -> str:
    return "main"


def cases() -> list[Case]:
    """Return every case of ONNX Runtime's web tests."""
    found = []
    for t, test in enumerate(_file()["tests"]):
        for c, case in enumerate(test["cases"]):
            name = f"{test['file']}: {test['name']}, {case['name']} ({t}.{c})"
            reason = LEFT_OUT.get(f"{t}.{c}", "")
            check = partial(_check_reason, reason) if reason else _check
            found.append(Case(test["operator"], name, partial(check, test, case), reason))
    return found
