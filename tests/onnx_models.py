"""ONNX models for tests, and what ONNX Runtime computes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from dml_jax import DmlError, OperatorNode, load_onnx
from dml_jax.onnx import Network

Arrays = Mapping[str, np.ndarray]


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Any, Sequence[Any]]],
    outputs: Sequence[str],
    initializers: Arrays | None = None,
    opset: int = 18,
    functions: Sequence[Any] = (),
) -> Any:
    """Return a model; outputs have no declared types."""
    ins = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(t)), shape)
        for name, (t, shape) in inputs.items()
    ]
    outs = [onnx.ValueInfoProto(name=name) for name in outputs]
    weights = [numpy_helper.from_array(a, name) for name, a in (initializers or {}).items()]
    graph = helper.make_graph(nodes, "g", ins, outs, weights)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, 1) for d in {f.domain for f in functions}]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node; names are parted by blanks, and "-" leaves one out."""
    names = [["" if n == "-" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op_type, names[0], names[1], **attributes)


def single(
    op_type: str,
    arrays: Mapping[str, np.ndarray],
    *,
    opset: int = 18,
    outputs: str = "y",
    constants: Sequence[str] = (),
    domain: str = "",
    **attributes: Any,
) -> Any:
    """Return a model of one node, whose `constants` are initializers."""
    inputs = {n: (a.dtype, a.shape) for n, a in arrays.items() if n not in constants}
    names = " ".join(arrays)
    weights = {name: arrays[name] for name in constants}
    made = node(op_type, names, outputs, domain=domain, **attributes)
    model = model_of([made], inputs, outputs.replace("-", "").split(), weights, opset)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def runtime(model: Any, inputs: Arrays) -> list[Any]:
    """Return what ONNX Runtime computes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return list(session.run(None, dict(inputs)))


def refusal(model: Any, **arguments: Any) -> str:
    with pytest.raises(DmlError) as error:
        load_onnx(model, **arguments)
    return str(error.value)


def operators_of(network: Network) -> list[str]:
    assert network.graph is not None
    return [n.operator.c_name for n in network.graph.nodes if isinstance(n, OperatorNode)]
