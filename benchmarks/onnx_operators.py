"""Single operators through `load_onnx`, beside ONNX Runtime's CPU provider: times of a call.

`python benchmarks/onnx_operators.py results.json [NODE ...]` writes a row for each cell, or for
those whose node is named, such as Conv, and needs onnxruntime. The program starts itself again with
the environment variables that docs/performance.md has for calls that allocate.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from measuring import (
    Row,
    difference,
    measure,
    milliseconds,
    parser,
    restart_with_kept_pages,
    run,
)

from dml_jax import load_onnx
from dml_jax.bench.peers import session_of

FEW = 5  # elements of a weight below which its name has the elements
RANDOM = np.random.default_rng(0)


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


def name_of(
    op: str, inputs: Sequence[Any], weights: Sequence[Any], attributes: Mapping[str, Any]
) -> str:
    """Return the name of a cell: its node, the arrays of a call and of the model, attributes."""
    words = [f"{x.dtype}{list(x.shape)}" for x in inputs]
    words += [str(w.tolist() if w.size < FEW else [*w.shape]) for w in weights if w is not None]
    given = (f"{key}={value}" for key, value in attributes.items())
    return " ".join([op, *(word.replace(" ", "") for word in words), *given])


def cells() -> dict[str, functools.partial[Row]]:
    """Return a call for each cell of onnx_operators.json."""
    found = {}
    for known in json.loads(Path(__file__).with_suffix(".json").read_text()):
        arrays = {k: [*map(array, known.get(k, ()))] for k in ("inputs", "weights")}
        cell = {"attributes": {}, "outputs": 1, **known, **arrays}
        words = {k: cell[k] for k in ("op", "inputs", "weights", "attributes")}
        found[name_of(**words)] = functools.partial(measured, **cell)
    return found


def measured(
    group: str, op: str, inputs: Any, weights: Any, attributes: Mapping[str, Any], outputs: int
) -> Row:
    """Return the error and the times of a node with weights in the model, beside ONNX Runtime's."""
    from onnx_models import model_of, node

    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    names = [*feeds, *(f"w{i}" if w is not None else "-" for i, w in enumerate(weights))]
    held = {f"w{i}": w for i, w in enumerate(weights) if w is not None}
    results = [f"y{i}" for i in range(outputs)]
    made = node(op, " ".join(names), " ".join(results), **attributes)
    types = {name: (x.dtype, x.shape) for name, x in feeds.items()}
    model = model_of([made], types, results, held)
    network, session = load_onnx(model), session_of(model.SerializeToString())
    on_device = jax.device_put(feeds)
    error = difference(network(on_device)["y0"], session.run(None, feeds)[0])
    own, peer = milliseconds(
        lambda: jax.block_until_ready(network(on_device)), lambda: session.run(None, feeds)
    )
    return {"group": group, "error": error, "ms": own, "peer_ms": peer}


def main() -> int:
    """Measure cells; return how many fail."""
    given = parser(__doc__, "nodes, or cells,").parse_intermixed_args()
    restart_with_kept_pages()
    return measure(given, cells=cells())


if __name__ == "__main__":
    run(main)
