"""Single operators through `load_onnx`, beside ONNX Runtime's CPU provider: times of a call.

`python benchmarks/onnx_operators.py results.json [GROUP ...]` writes the results, prints a row for
each cell, and needs onnxruntime. The groups: convolution, grouped, pooling, normalization,
resampling, products, indexing, scans, recurrent. The program starts itself again with the
environment variables that docs/performance.md has for calls that allocate.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from kept_pages import restart_with_kept_pages
from onnx_networks import difference, milliseconds, save, session_of

from dml_jax import load_onnx

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
        shapes = [f"{x.dtype}{list(x.shape)}".replace(" ", "") for x in self.inputs]
        shapes += [
            str(x.tolist() if x.size < FEW else [*x.shape]).replace(" ", "")
            for x in self.weights
            if x is not None
        ]
        given = (f"{key}={value}" for key, value in self.attributes.items())
        return " ".join([self.op, *shapes, *given])


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
    from onnx import helper, numpy_helper

    names = [f"x{i}" for i in range(len(cell.inputs))]
    held = [f"w{i}" if w is not None else "" for i, w in enumerate(cell.weights)]
    outputs = [f"y{i}" for i in range(cell.outputs)]
    node = helper.make_node(cell.op, names + held, outputs, **cell.attributes)
    types = [helper.np_dtype_to_tensor_dtype(x.dtype) for x in cell.inputs]
    shapes = [x.shape for x in cell.inputs]
    results = [types[0], helper.np_dtype_to_tensor_dtype(np.dtype(np.int64))]
    graph = helper.make_graph(
        [node],
        "one",
        list(map(helper.make_tensor_value_info, names, types, shapes)),
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(outputs, results, strict=False)],
        [
            numpy_helper.from_array(w, name)
            for name, w in zip(held, cell.weights, strict=True)
            if w is not None
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return model, dict(zip(names, cell.inputs, strict=True))


def measured(cell: Cell) -> dict[str, Any]:
    """Return the error and the times of a cell, beside ONNX Runtime's."""
    model, inputs = model_of(cell)
    network, session = load_onnx(model), session_of(model.SerializeToString())
    on_device = jax.device_put(inputs)
    results = network(on_device)
    (answer, *_) = session.run(None, inputs)
    own, peer = milliseconds(
        lambda: jax.block_until_ready(network(on_device)), lambda: session.run(None, inputs)
    )
    error = difference(results["y0"], answer)
    return {"group": cell.group, "error": error, "ms": own, "peer_ms": peer}


def main(results: Path, groups: list[str]) -> None:
    """Measure the cells of some groups, or of all."""
    found: dict[str, Any] = {}
    for cell in cells():
        if not groups or cell.group in groups:
            found[cell.name] = row = measured(cell)
            speed = row["peer_ms"] / row["ms"]
            print(f"{speed:6.2f} {row['error']:8.1e} {row['ms']:9.3f} ms {cell.name}", flush=True)  # noqa: T201
            save(results, cells=found)
    for group in dict.fromkeys(row["group"] for row in found.values()):
        speeds = [r["peer_ms"] / r["ms"] for r in found.values() if r["group"] == group]
        print(f"{statistics.geometric_mean(speeds):6.2f} {group}, {len(speeds)} cells")  # noqa: T201


if __name__ == "__main__":
    restart_with_kept_pages()
    main(Path(sys.argv[1]), sys.argv[2:])
