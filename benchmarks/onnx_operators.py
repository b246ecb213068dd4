"""Single operators through `load_onnx`, beside ONNX Runtime's CPU provider: times of a call.

`python benchmarks/onnx_operators.py results.json [NODE ...]` writes a row for each cell, or for
those whose node is named, such as Conv, and needs onnxruntime. The program starts itself again with
the environment variables that docs/performance.md has for calls that allocate.
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from measuring import difference, measure, milliseconds, parser, restart_with_kept_pages, run

from dml_jax import load_onnx
from dml_jax.bench.peers import session_of

FEW = 5  # elements of a weight below which its name has the elements
RANDOM = np.random.default_rng(0)


class Cell(NamedTuple):
    """A model of one node.

    Attributes:
        group: the group of the cell.
        op: the type of the node.
        inputs: the arrays of the inputs that a call gives.
        weights: the arrays behind these, which the model holds.
        attributes: the node's attributes.
        outputs: the number of outputs.
    """

    group: str
    op: str
    inputs: Sequence[np.ndarray]
    weights: Sequence[np.ndarray | None] = ()
    attributes: Any = {}
    outputs: int = 1

    @property
    def name(self) -> str:
        weights = (w for w in self.weights if w is not None)
        words = [f"{x.dtype}{list(x.shape)}" for x in self.inputs]
        words += [str(w.tolist() if w.size < FEW else [*w.shape]) for w in weights]
        given = (f"{key}={value}" for key, value in self.attributes.items())
        return " ".join([self.op, *(word.replace(" ", "") for word in words), *given])


def array(spec: Mapping[str, Any] | None) -> np.ndarray | None:
    """Return the array that a file describes: of values, integers or normal numbers."""
    if spec is None or "values" in spec:
        return None if spec is None else np.array(spec["values"], spec["dtype"])
    shape: Any = spec["shape"]
    if "permutation" in spec:
        return RANDOM.permutation(spec["permutation"]).reshape(shape)
    if "below" in spec:
        return RANDOM.integers(0, spec["below"], shape).astype(np.int32)
    if "rows_below" in spec:  # the same place in each column
        places = RANDOM.integers(0, spec["rows_below"], shape[:1]).astype(np.int32)
        return np.broadcast_to(places[:, None], shape).copy()
    x = RANDOM.standard_normal(shape, np.float32) * np.float32(spec.get("scale", 1))
    x = np.abs(x) + 1 if spec.get("positive") else x
    return x.astype(spec.get("dtype", np.float32))


def cells() -> Iterator[Cell]:
    """Yield every cell of onnx_operators.json."""
    for known in json.loads(Path(__file__).with_suffix(".json").read_text()):
        arrays: Any = {k: [*map(array, known.pop(k, ()))] for k in ("inputs", "weights")}
        yield Cell(**known, **arrays)


def model_of(cell: Cell) -> Any:
    """Return the model, and the arrays of a call by name."""
    from onnx import ValueInfoProto, helper, numpy_helper

    inputs = {f"x{i}": x for i, x in enumerate(cell.inputs)}
    weights = [(f"w{i}" if w is not None else "", w) for i, w in enumerate(cell.weights)]
    outputs = [f"y{i}" for i in range(cell.outputs)]
    names = [*inputs, *(name for name, _ in weights)]
    types = ((n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in inputs.items())
    graph = helper.make_graph(
        [helper.make_node(cell.op, names, outputs, **cell.attributes)],
        "one",
        [helper.make_tensor_value_info(*one) for one in types],
        [ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(w, name) for name, w in weights if w is not None],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10
    ), inputs


def measured(cell: Cell) -> dict[str, Any]:
    """Return the error and the times of a cell, beside ONNX Runtime's."""
    model, inputs = model_of(cell)
    network, session = load_onnx(model), session_of(model.SerializeToString())
    on_device = jax.device_put(inputs)
    error = difference(network(on_device)["y0"], session.run(None, inputs)[0])
    own, peer = milliseconds(
        lambda: jax.block_until_ready(network(on_device)), lambda: session.run(None, inputs)
    )
    return {"group": cell.group, "error": error, "ms": own, "peer_ms": peer}


def main() -> int:
    """Measure cells; return how many fail."""
    given = parser(__doc__, "nodes, or cells,").parse_intermixed_args()
    restart_with_kept_pages()
    return measure(given, cells={cell.name: functools.partial(measured, cell) for cell in cells()})


if __name__ == "__main__":
    run(main)
