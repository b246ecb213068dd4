"""Builders that tests share: networks, files, sessions of ONNX Runtime, commands."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner, Result
from onnx import helper, numpy_helper, parser

from dml_jax import DmlError, OperatorNode, load_onnx
from dml_jax.cli import cli
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


def in_function(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Any, Sequence[Any]]],
    outputs: Sequence[str],
    constants: Arrays,
    opset: int = 18,
) -> Any:
    """Return a model that calls a function of these nodes, whose constants are known at load."""
    tensors = {n: numpy_helper.from_array(a) for n, a in constants.items()}
    every = [*(node("Constant", "", n, value=t) for n, t in tensors.items()), *nodes]
    imports = [helper.make_opsetid(d, 1 if d else opset) for d in {"", *(n.domain for n in nodes)}]
    function = helper.make_function("local", "F", [*inputs], outputs, every, imports)
    call = node("F", " ".join(inputs), " ".join(outputs), domain="local")
    return model_of([call], inputs, outputs, opset=opset, functions=[function])


def parse(text: str, opset: int = 18, **initializers: np.ndarray) -> Any:
    """Return the model of a text; `name (inputs) => (outputs) { nodes }` alone has an opset."""
    head = (
        "" if text.lstrip().startswith("<") else f'<ir_version: 10, opset_import: ["": {opset}]> '
    )
    model = parser.parse_model(head + text)
    weights = [numpy_helper.from_array(a, name) for name, a in initializers.items()]
    model.graph.initializer.extend(weights)
    return model


def saved(model: Any, folder: Path, name: str = "n.onnx") -> Path:
    """Write a model, or a text of one, to a file of a folder; return its path."""
    model = parse(model) if isinstance(model, str) else model
    (folder / name).write_bytes(model.SerializeToString())
    return folder / name


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Return a node; names are parted by blanks, and "-" leaves one out."""
    names = [["" if n == "-" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op_type, names[0], names[1], **attributes)


def single(
    op_type: str,
    arrays: Mapping[str, np.ndarray | None],
    *,
    opset: int = 18,
    outputs: str = "y",
    constants: Sequence[str] = (),
    domain: str = "",
    version: int = 1,
    **attributes: Any,
) -> Any:
    """Return a model of one node, whose `constants` are initializers; None leaves an input out."""
    there = {n: a for n, a in arrays.items() if a is not None}
    inputs = {n: (a.dtype, a.shape) for n, a in there.items() if n not in constants}
    names = " ".join(n if n in there else "-" for n in arrays)
    weights = {name: there[name] for name in constants}
    made = node(op_type, names, outputs, domain=domain, **attributes)
    model = model_of([made], inputs, outputs.replace("-", "").split(), weights, opset)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, version))
    return model


def case(op_type: str, **given: Any) -> tuple[Any, dict[str, Any]]:
    """Return a model of one node, and its inputs.

    `given` has arrays, of which those in lower case are initializers, and what `single` takes.
    """
    arrays = {n: a for n, a in given.items() if isinstance(a, np.ndarray | np.generic)}
    others = {n: value for n, value in given.items() if n not in arrays}
    constants = [name for name in arrays if name.islower()]
    inputs = {n: a for n, a in arrays.items() if n not in constants}
    return single(op_type, arrays, constants=constants, **others), inputs


def external(array: np.ndarray, name: str, **entries: str) -> Any:
    """Return a tensor whose elements lie in another file, where `entries` say."""
    tensor = numpy_helper.from_array(array, name)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def floats(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def session(model: Any, as_written: bool = False) -> Any:
    """Return a session of ONNX Runtime on the CPU, without its warnings; of a model or a path.

    The nodes are `as_written`, or others that ONNX Runtime makes of them.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if as_written:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, str | Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def runtime(model: Any, inputs: Arrays) -> list[Any]:
    """Return what ONNX Runtime computes."""
    return list(session(model).run(None, dict(inputs)))


def close(result: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Compare shapes, types and elements."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result, expected, rtol, atol)


def same_as_runtime(
    model: Any,
    inputs: Arrays | list[Arrays],
    rtol: float = 1e-5,
    atol: float = 1e-6,
    has_types: bool = False,
    **options: Any,
) -> Network:
    """Compare the outputs of a network, without padding, with those of ONNX Runtime; return it.

    `inputs` are those of a call, or of each of several calls. `options` are those of `load_onnx`.
    Where it `has_types`, the types of the outputs are compared too.
    """
    network = load_onnx(model, **options)
    for given in inputs if isinstance(inputs, list) else [inputs]:
        results = network.without_padding(network({n: given[n] for n in network.inputs}))
        for output, expected in zip(model.graph.output, runtime(model, given), strict=True):
            result = results[output.name]
            assert not has_types or result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, rtol, atol)
    return network


def alike(found: Any, expected: Any, **tolerance: float) -> None:
    """Check that outputs of sessions have the same types, sizes and elements."""
    assert type(found) is type(expected)
    if isinstance(expected, list):
        for pair in zip(found, expected, strict=True):
            alike(*pair, **tolerance)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        np.testing.assert_allclose([*found.values()], [*expected.values()], **tolerance)
    elif isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if expected.dtype == object:
            assert found.tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(found, expected, **tolerance)
    else:
        assert found == expected


def answers(
    op_type: str, *arrays: Any, outputs: str = "y", opset: int = 21, **attributes: Any
) -> list[Any]:
    """Return what ONNX Runtime computes of one node; arrays of 4 bits are constants."""
    given = {f"i{k}": array for k, array in enumerate(arrays)}
    constants = [name for name, array in given.items() if array.dtype.name.endswith("int4")]
    model = single(op_type, given, opset=opset, outputs=outputs, constants=constants, **attributes)
    return runtime(model, {name: a for name, a in given.items() if name not in constants})


def command(*words: Any, status: int = 0, **options: Any) -> Result:
    """Return what `dml-jax WORDS` says, which ends with `status`; `options` are click's."""
    result = CliRunner().invoke(cli, [*map(str, words)], catch_exceptions=False, **options)
    assert result.exit_code == status, result.output
    return result


def refusal(model: Any, **arguments: Any) -> str:
    with pytest.raises(DmlError) as error:
        load_onnx(model, **arguments)
    return str(error.value)


def operators_of(network: Network) -> list[str]:
    assert network.graph is not None
    return [n.operator.c_name for n in network.graph.nodes if isinstance(n, OperatorNode)]
