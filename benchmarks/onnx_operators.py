"""Single operators through `load_onnx`, beside ONNX Runtime's CPU provider: times of a call.

`python benchmarks/onnx_operators.py results.json [GROUP ...]` writes the results, prints a row for
each cell, and needs onnxruntime. The groups: convolution, grouped, pooling, normalization,
resampling, products, indexing, scans, recurrent. The program starts itself again with the
environment variables that docs/performance.md has for calls that allocate.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx_networks
from kept_pages import restart_with_kept_pages

from dml_jax.bench.rows import environment
from dml_jax.host import cores

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


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return random numbers."""
    return RANDOM.standard_normal(shape, np.float32).astype(dtype)


def convolution(
    x: Sequence[int], w: Sequence[int], op: str = "Conv", dtype: Any = np.float32, **attributes: Any
) -> Cell:
    """Return a convolution that keeps sizes, but for its strides."""
    groups = attributes.get("group", 1)
    rank, dilation = len(x) - 2, attributes.get("dilations", [1])[0]
    ends = [(size - 1) * dilation // 2 for size in w[2:]]
    attributes = {"pads": ends * 2, **attributes}
    if attributes.get("strides"):
        attributes["strides"] = [attributes["strides"]] * rank
    group = "grouped" if 1 < groups < x[1] else "convolution"
    bias = w[1] * groups if op == "ConvTranspose" else w[0]
    weights = [floats(*w, dtype=dtype), floats(bias, dtype=dtype)]
    return Cell(group, op, [floats(*x, dtype=dtype)], weights, attributes)


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    for n in (1, 8):
        yield convolution((n, 64, 56, 56), (64, 64, 1, 1))
        yield convolution((n, 64, 56, 56), (64, 64, 3, 3))
        yield convolution((n, 256, 14, 14), (256, 256, 3, 3))
        yield convolution((n, 32, 28, 28), (64, 32, 5, 5))
        yield convolution((n, 3, 224, 224), (64, 3, 7, 7), strides=2)
        yield convolution((n, 64, 56, 56), (128, 64, 3, 3), strides=2)
        yield convolution((n, 96, 56, 56), (96, 1, 3, 3), group=96)
        yield convolution((n, 240, 28, 28), (240, 1, 5, 5), group=240)
        yield convolution((n, 96, 112, 112), (96, 1, 3, 3), group=96, strides=2)
        yield convolution((n, 64, 28, 28), (64, 32, 3, 3), op="ConvTranspose", strides=2)
        yield convolution((n, 256, 14, 14), (256, 8, 3, 3), group=32)
        yield convolution((n, 256, 14, 14), (256, 16, 3, 3), group=16)
        yield convolution((n, 96, 28, 28), (96, 32, 3, 3), group=3)
    yield convolution((1, 512, 7, 7), (2048, 512, 1, 1))
    yield convolution((1, 3, 256, 256), (32, 3, 9, 9))
    yield convolution((1, 32, 256, 256), (3, 32, 9, 9))
    yield convolution((1, 64, 56, 56), (64, 64, 3, 3), dilations=[2, 2])
    yield convolution((1, 128, 28, 28), (128, 64, 4, 4), "ConvTranspose", strides=2)
    yield convolution((1, 64, 1000), (64, 64, 3))
    yield convolution((1, 1, 16000), (128, 1, 255), strides=16)
    yield convolution((1, 256, 200), (256, 1, 31), group=256)
    yield convolution((1, 16, 16, 32, 32), (32, 16, 3, 3, 3))
    yield convolution((1, 3, 16, 64, 64), (16, 3, 3, 3, 3))
    yield convolution((1, 64, 56, 56), (64, 64, 3, 3), dtype=np.float16)
    yield convolution((8, 96, 56, 56), (96, 1, 3, 3), dtype=np.float16, group=96)

    for n in (1, 8):
        x = floats(n, 64, 112, 112)
        window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        yield Cell("pooling", "MaxPool", [x], attributes=window)
        yield Cell("pooling", "AveragePool", [x], attributes=window)
        yield Cell("pooling", "GlobalAveragePool", [floats(n, 512, 7, 7)])
    halves = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Cell("pooling", "MaxPool", [floats(1, 64, 112, 112)], attributes=halves)
    yield Cell("pooling", "LpPool", [floats(1, 64, 56, 56)], attributes=halves)

    one = [floats(64) for _ in range(3)] + [np.abs(floats(64)) + 1]
    yield Cell("normalization", "BatchNormalization", [floats(8, 64, 56, 56)], one)
    two = [floats(32), floats(32)]
    yield Cell("normalization", "InstanceNormalization", [floats(1, 32, 256, 256)], two)
    two = [floats(768), floats(768)]
    yield Cell("normalization", "LayerNormalization", [floats(8, 128, 768)], two)
    yield Cell("normalization", "LRN", [floats(1, 64, 56, 56)], attributes={"size": 5})
    yield Cell("normalization", "LpNormalization", [floats(64, 1024)], attributes={"axis": 1})
    yield Cell("normalization", "Softmax", [floats(64, 12, 128, 128)])

    for mode in ("nearest", "linear", "cubic"):
        for factor in (2.0, 0.5):
            scales = [None, np.array([1, 1, factor, factor], np.float32)]
            x = floats(1, 32, 128, 128)
            yield Cell("resampling", "Resize", [x], scales, {"mode": mode})

    yield Cell("products", "MatMul", [floats(512, 512)], [floats(512, 512)])
    yield Cell("products", "MatMul", [floats(128, 768)], [floats(768, 3072)])
    yield Cell("products", "MatMul", [floats(12, 128, 64), floats(12, 64, 128)])
    yield Cell("products", "Gemm", [floats(8, 2048)], [floats(2048, 1000), floats(1000)])

    def places(count: int, most: int) -> np.ndarray:
        return RANDOM.integers(0, most, count).astype(np.int32)

    for rows in (2**12, 2**18):
        x = floats(rows, 64)
        yield Cell("indexing", "Gather", [x, places(rows, rows)])
        one = np.broadcast_to(places(rows, rows)[:, None], (rows, 64)).copy()
        yield Cell("indexing", "GatherElements", [x, one], attributes={"axis": 0})
        yield Cell("indexing", "ScatterND", [x, RANDOM.permutation(rows)[:, None], x])
    for shape in ((1000, 1000), (1, 1_000_000)):
        for k in (1, 10, 100):
            yield Cell("scans", "TopK", [floats(*shape)], [np.array([k], np.int64)], outputs=2)
    for axis in (0, 1):
        yield Cell("scans", "CumSum", [floats(1000, 1000)], [np.array(axis, np.int32)])
    yield Cell("scans", "CumSum", [floats(1, 1_000_000)], [np.array(1, np.int32)])

    for op, gates in (("LSTM", 4), ("GRU", 3)):
        for n in (1, 16):
            for h in (128, 512):
                weights = [floats(1, gates * h, h) / 16, floats(1, gates * h, h) / 16]
                size = {"hidden_size": h}
                yield Cell("recurrent", op, [floats(100, n, h)], weights, size)


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
    import onnxruntime

    from dml_jax import load_onnx

    model, inputs = model_of(cell)
    network = load_onnx(model)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, cores()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    on_device = jax.device_put(inputs)
    results = network(on_device)
    (answer, *_) = session.run(None, inputs)
    wide = np.asarray(answer, np.float64)
    apart = np.abs(np.asarray(results["y0"], np.float64) - wide).max()
    own, peer = onnx_networks.milliseconds(
        lambda: jax.block_until_ready(network(on_device)), lambda: session.run(None, inputs)
    )
    error = float(apart / max(np.abs(wide).max(), 1e-9))
    return {"group": cell.group, "error": error, "ms": own, "peer_ms": peer}


def main(results: Path, groups: list[str]) -> None:
    """Measure the cells of some groups, or of all."""
    found: dict[str, Any] = {}
    for cell in cells():
        if not groups or cell.group in groups:
            found[cell.name] = row = measured(cell)
            speed = row["peer_ms"] / row["ms"]
            print(f"{speed:6.2f} {row['error']:8.1e} {row['ms']:9.3f} ms {cell.name}", flush=True)  # noqa: T201
            whole = {"environment": environment(jax.devices()[0]), "cells": found}
            results.write_text(json.dumps(whole, indent=1) + "\n")
    for group in dict.fromkeys(row["group"] for row in found.values()):
        speeds = [r["peer_ms"] / r["ms"] for r in found.values() if r["group"] == group]
        print(f"{statistics.geometric_mean(speeds):6.2f} {group}, {len(speeds)} cells")  # noqa: T201


if __name__ == "__main__":
    restart_with_kept_pages()
    main(Path(sys.argv[1]), sys.argv[2:])
