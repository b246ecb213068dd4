"""Tables of `benchmarks/results`: the page of measurements, and the table in the README.

No figure is written by hand: `python docs/pages.py` writes both, and a test compares them.
"""

import functools
import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"

Cell = dict[str, Any]
Row = list[str]

MACHINES = ("cpu-2core", "cpu-2core-intel", "cpu-16core", "h100", "h200")
PEERS = {
    "jnp": "jax.numpy",
    "numpy": "NumPy",
    "torch": "PyTorch",
    "torch.compile": "torch.compile",
    "onnxruntime": "ONNX Runtime",
    "cupy": "CuPy",
}
WAYS = {"bound": "into given memory", "allocated": "allocated by the call"}
TRANSFORMED = {"BACKWARD": "backward passes", "VMAP": "batches under `jax.vmap`"}
SMALLEST = {"cpu": 1e6, "gpu": 64e6}
"""Bytes of all inputs, or of all outputs, from which a cell counts."""
SLOWER = 1 / 1.05
"""A cell is slower than a peer below this ratio of speeds."""
WORST = 3
"""How many of the slowest cells of a machine are listed."""
SLOWEST = 10
"""How many of the slowest cells of all operators are listed."""
EXPRESSED = {"eager": "a call", "alone": "a program", "jit": "inside a jax.jit"}
README_CELLS = {
    "argmax over the last axis": "REDUCE ARGMAX [3] FLOAT32[8,64,256,256]",
    "sum over the first axis": "REDUCE SUM [0] FLOAT32[8,64,256,256]",
    "logsumexp over the second axis": "REDUCE LOG_SUM_EXP [1] FLOAT32[8,64,256,256]",
    "clip": "ELEMENT_WISE_CLIP FLOAT32[8,64,256,256]",
}

PROSE = """\
# Measurements

`python docs/pages.py` makes this page from the files in `benchmarks/results`.
[Reading the bandwidth chart](benchmarks.md) says how the figures are measured, and
[Performance](performance.md) what they mean. To measure your own machine, run `dml-jax bench`.

- A **cell** is one operator with its attributes, data type and sizes.
- A **peer** is another library that computes the same on the same arrays.
- A **speedup** is the peer's time divided by ours: above 1, dml_jax is faster.
- A **mean** is the geometric mean over the cells that count: {cpu:g} MB and more on a CPU,
  {gpu:g} MB and more on a GPU.
- Outputs are written **into given memory**, or they are **allocated by the call**. On a GPU the
  first is the time of the kernels alone, and the second is the time of a call.

The CPUs are shared cloud machines: do not compare their figures across machines or days. Each
figure is the median of samples that alternate between the libraries.
"""


@functools.cache
def results(name: str) -> dict[str, Any]:
    """Return what `benchmarks/compare.py` has kept of the machine `name`."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def platform(name: str) -> str:
    """Return "cpu" or "gpu"."""
    return next(iter(results(name)["runs"].values()))["platform"]


def title(name: str) -> str:
    """Return a short name of a machine: `NVIDIA H200`, or `AMD EPYC, 2 cores`."""
    run = next(iter(results(name)["runs"].values()))
    if platform(name) == "gpu":
        return " ".join(run["device"].split()[:2])
    brand = run["cpu"].replace("(R)", "").replace(" Processor", "")
    return f"{brand}, {run['cores']} cores"


def counted(name: str) -> list[Cell]:
    """Return the cells of a machine that are large enough to count, gradients and batches too."""
    least = SMALLEST[platform(name)]
    cells = results(name)["cells"].values()
    return [cell for cell in cells if max(cell["bytes_in"], cell["bytes_out"]) >= least]


def plain(name: str) -> list[Cell]:
    """Return the cells that count, of operators and graphs."""
    return [cell for cell in counted(name) if cell["kind"] not in TRANSFORMED]


def times(cell: Cell, way: str) -> dict[str, float]:
    """Return the peers' times in microseconds."""
    entries = {peer: cell["times"].get(f"{peer} {way}") for peer in PEERS}
    return {peer: entry["median_us"] for peer, entry in entries.items() if entry}


def speedup(cell: Cell, way: str, peer: str = "") -> float | None:
    """Return the speedup over `peer`, or over the fastest peer; None where nothing was measured."""
    peers = times(cell, way)
    if (peer and peer not in peers) or not peers:
        return None
    return (peers[peer] if peer else min(peers.values())) / cell["times"][way]["median_us"]


def mean(values: Iterable[float | None]) -> str:
    """Return the geometric mean as text; "" of no values."""
    there = [value for value in values if value is not None]
    return f"{statistics.geometric_mean(there):.2f}" if there else ""


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table in Markdown; columns of figures are aligned at the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# The tables.


def _machines() -> str:
    rows = []
    for name in MACHINES:
        runs = list(results(name)["runs"].values())
        dates = sorted(run["date"][:10] for run in runs)
        rows.append(
            [
                title(name),
                *(
                    ", ".join(sorted({run.get(of, "") for run in runs}))
                    for of in ("dml_jax", "jax")
                ),
                dates[-1],
                str(len(counted(name))),
                f"`{name}.json`",
            ]
        )
    return table(["machine", "dml_jax", "jax", "last measured", "cells that count", "file"], rows)


def _of_machines(head: Row, row: Callable[[str], Row]) -> str:
    return table(["", *head], ([title(name), *row(name)] for name in MACHINES))


def _speedups(way: str) -> str:
    def row(name: str) -> Row:
        return [mean(speedup(c, way, peer) for c in plain(name)) for peer in ("", *PEERS)]

    return _of_machines(["the fastest peer", *PEERS.values()], row)


def _slower() -> str:
    def share(name: str, way: str, peer: str) -> str:
        ratios = [speedup(cell, way, peer) for cell in plain(name)]
        there = [ratio for ratio in ratios if ratio is not None]
        return f"{100 * sum(r < SLOWER for r in there) / len(there):.0f}%" if there else ""

    def row(name: str) -> Row:
        return [share(name, way, peer) for peer in ("", "jnp") for way in WAYS]

    head = [f"{peer}, {way}" for peer in ("the fastest peer", "jax.numpy") for way in WAYS.values()]
    return _of_machines(head, row)


def _is_arg(cell: Cell) -> bool:
    return "ARG" in cell["group"]


def _is_sum(cell: Cell) -> bool:
    return cell["group"] in ("REDUCE SUM", "REDUCE MAX", "REDUCE MIN")


BANDWIDTH: dict[str, Callable[[Cell], bool]] = {
    "operators that copy": lambda c: c["limit"] == "copy",
    "sums, maxima, minima": lambda c: c["limit"] == "read" and _is_sum(c),
    "ARGMAX, ARGMIN": lambda c: c["limit"] == "read" and _is_arg(c),
    "other reductions": lambda c: c["limit"] == "read" and not _is_sum(c) and not _is_arg(c),
}


def _bandwidth() -> str:
    def row(name: str) -> Row:
        cells = plain(name)
        return [
            mean(c["times"]["bound"]["of_limit"] for c in cells if belongs(c))
            for belongs in BANDWIDTH.values()
        ]

    return _of_machines(list(BANDWIDTH), row)


def _operators() -> str:
    groups = dict.fromkeys(cell["group"] for name in MACHINES for cell in plain(name))
    rows = [
        [
            group,
            *(
                mean(speedup(c, "bound", "jnp") for c in plain(name) if c["group"] == group)
                for name in MACHINES
            ),
        ]
        for group in groups
    ]
    return table(["", *map(title, MACHINES)], rows)


def _transformed() -> str:
    rows = []
    for kind, words in TRANSFORMED.items():
        of_kind = {name: [c for c in counted(name) if c["kind"] == kind] for name in MACHINES}
        speeds = [mean(speedup(c, "bound", "jnp") for c in cells) for cells in of_kind.values()]
        copies = [mean(c["times"]["bound"]["of_copy"] for c in cells) for cells in of_kind.values()]
        rows.append([f"{words}: speedup over jax.numpy", *speeds])
        rows.append([f"{words}: share of a copy's bandwidth", *copies])
    return table(["", *map(title, MACHINES)], rows)


def _calls() -> str:
    def row(name: str) -> Row:
        small = list(results(name)["overhead"].values())
        made = [cell["construct_us"] for cell in small if cell["construct_us"] is not None]
        return [
            f"{statistics.median(made):.0f}" if made else "",
            f"{statistics.median(c['call_us'] for c in small):.0f}" if small else "",
            mean(c["call_us"] / c["plain_call_us"] for c in small),
            mean(c["compile_ms"] / c["plain_compile_ms"] for c in small),
        ]

    head = ["make a descriptor, us", "call, us", "call / jax.numpy", "compile / jax.numpy"]
    return _of_machines(head, row)


def _worst() -> str:
    rows = []
    for name in MACHINES:
        ratios = {cell["name"]: speedup(cell, "bound") for cell in plain(name)}
        there = {cell: ratio for cell, ratio in ratios.items() if ratio is not None}
        for cell in sorted(there, key=there.__getitem__)[:WORST]:
            rows.append([cell, title(name), f"{there[cell]:.2f}"])
    return table(["cell", "machine", "speedup"], rows)


def _scaling() -> str:
    found: dict[str, dict[int, Any]] = {}
    for entry in json.loads((RESULTS / "h200-scaling.json").read_text())["results"]:
        found.setdefault(entry["cell"], {})[entry["devices"]] = entry
    devices = sorted({count for row in found.values() for count in row})
    rows = [
        [cell, *(f"{row[n]['median_us'] / 1e3:.3f}" if n in row else "" for n in devices)]
        for cell, row in found.items()
    ]
    return table(
        ["ms, with the same load on each", *(f"{n} GPU{'s' * (n > 1)}" for n in devices)], rows
    )


def _of_all_operators() -> list[str]:
    """Return the sections of `families.py`: every operator beside its jax.numpy expression."""
    parts = []
    for path in sorted(RESULTS.glob("families-*.json")):
        found = json.loads(path.read_text())
        cells: dict[str, list[Cell]] = {}
        for cell in found["cells"].values():
            cells.setdefault(cell["family"], []).append(cell)
        rows = [
            [words, str(len(of)), *(mean(c["ratios"][way] for c in of) for way in EXPRESSED)]
            for words, of in [*cells.items(), ("**all**", list(found["cells"].values()))]
        ]
        worst = sorted(found["cells"], key=lambda name: found["cells"][name]["ratios"]["jit"])
        slow = [[name, f"{found['cells'][name]['ratios']['jit']:.2f}"] for name in worst[:SLOWEST]]
        parts += [
            f"### {_machine(found['environment'])}",
            table(["", "cells", *EXPRESSED.values()], rows),
            table(["slowest cells", "inside a jax.jit"], slow),
        ]
    return parts


def _machine(environment: dict[str, Any]) -> str:
    device = environment["device"]
    cores = environment["cores"]
    plural = "s" if cores > 1 else ""
    name = f"{environment['cpu']}, {cores} core{plural}" if device == "cpu" else device
    return f"{name}, jax {environment['jax']}"


def _beside_onnx_runtime() -> list[str]:
    """Return the tables of `onnx_operators.py`."""
    parts = []
    for path in sorted(RESULTS.glob("onnx-operators-*.json")):
        found = json.loads(path.read_text())
        speeds = {name: c["peer_ms"] / c["ms"] for name, c in found["cells"].items()}
        groups: dict[str, list[float]] = {}
        for name, cell in found["cells"].items():
            groups.setdefault(cell["group"], []).append(speeds[name])
        rows = [[name, str(len(of)), mean(of)] for name, of in groups.items()]
        slow = [[name, f"{speeds[name]:.2f}"] for name in sorted(speeds, key=speeds.__getitem__)]
        parts += [
            f"### {_machine(found['environment'])}",
            table(["", "cells", "speedup"], rows),
            table(["slowest cells", "speedup"], slow[:SLOWEST]),
        ]
    return parts


def _networks() -> list[str]:
    """Return the tables of `onnx_networks.py`."""
    parts = []
    for path in sorted(RESULTS.glob("networks-*.json")):
        found = json.loads(path.read_text())
        rows = [
            [
                name,
                str(row["nodes"]),
                str(row["operators"]),
                f"{row['error']:.0e}",
                f"{row['first_s']:.1f}",
                f"{row['ms']:.2f}",
                f"{row['peer_ms']:.2f}",
                f"{row['peer_ms'] / row['ms']:.2f}",
            ]
            for name, row in found["networks"].items()
        ]
        speeds = (row["peer_ms"] / row["ms"] for row in found["networks"].values())
        rows.append(["**all**", *[""] * 6, mean(speeds)])
        head = ["", "nodes", "operators", "largest error", "first answer, s"]
        head += ["ms", "ONNX Runtime, ms", "speedup"]
        parts += [f"### {_machine(found['environment'])}", table(head, rows)]
    return parts


def _programs() -> list[str]:
    """Return the tables of `pydirectml_programs.py`."""
    parts = []
    for path in sorted(RESULTS.glob("programs-*.json")):
        found = json.loads(path.read_text())
        speeds = {name: row["peer_ms"] / row["ms"] for name, row in found["programs"].items()}
        rows = [
            [
                name,
                f"{row['error']:.0e}",
                f"{row['ms']:.2f}",
                f"{row['peer_ms']:.2f}",
                f"{speeds[name]:.2f}",
            ]
            for name, row in found["programs"].items()
        ]
        rows.append(["**all**", *[""] * 3, mean(speeds.values())])
        head = ["", "largest error", "ms", "PyTorch, ms", "speedup"]
        parts += [f"### {_machine(found['environment'])}", table(head, rows)]
    return parts


def page() -> str:
    """Return the page of measurements."""
    cpu, gpu = (SMALLEST[kind] / 1e6 for kind in ("cpu", "gpu"))
    parts = [PROSE.format(cpu=cpu, gpu=gpu).rstrip(), "## Machines", _machines()]
    for way, words in WAYS.items():
        parts += [f"## Speedup, outputs {words}", _speedups(way)]
    parts += [
        "## Slower cells",
        "The share of cells that are more than 5% slower than a peer.",
        _slower(),
        "## Share of the memory's bandwidth",
        "Operators that copy beside XLA's copy of the same type; reductions beside XLA's read of "
        "it. TILE writes more than it reads, and a read of a narrow type can be slow, so that a "
        "share can be above 1.",
        _bandwidth(),
        "## By operator",
        "Speedup over jax.numpy, outputs into given memory.",
        _operators(),
        "## Gradients and batches",
        _transformed(),
        "## Small tensors",
        "Tensors of 1 to 4096 elements: the time of a call under `jax.jit`, and of compiling it.",
        _calls(),
        "## Slowest cells",
        "The cells with the lowest speedup over the fastest peer, outputs into given memory.",
        _worst(),
        "## All operators",
        "Every operator beside the plain jax.numpy expression, outputs allocated by the call: a "
        "call by itself, a compiled program of nothing else, a part of a jax.jit.",
        *_of_all_operators(),
        "## Single operators beside ONNX Runtime",
        "Models of one node, a call from Python, outputs allocated by the call. Both libraries use "
        "all cores, and keep freed memory: dml_jax by the environment variables of "
        "[Performance](performance.md#memory-on-a-cpu).",
        *_beside_onnx_runtime(),
        "## ONNX networks",
        "Networks with batch 1, after the first call, beside ONNX Runtime on the CPU. An error is "
        "a part of the largest absolute value of an output. The first answer includes the time to "
        "load, lower and compile. On one core, times are processor time.",
        *_networks(),
        "## PyDirectML programs",
        "Microsoft's sample programs by `benchmarks/pydirectml_programs.py`: a compute after the "
        "first one, beside the same calls in PyTorch.",
        *_programs(),
        "## Several GPUs",
        "NVIDIA H200, by `benchmarks/scaling.py`. [Sharding](guides/sharding.md) says what the "
        "devices send each other.",
        _scaling(),
    ]
    return "\n\n".join(parts) + "\n"


PLATFORMS = """\
# Where the tests ran

`pytest --ran benchmarks/results/ran.json` adds a row. Every test computes on the device of its row,
in the types and at the feature levels of each operator; `tests/test_libtpu.py` compiles every
operator for a TPU and runs none.
"""


def platforms() -> str:
    """Return the page of the machines and versions that the tests ran on."""
    columns = ("device", "python", "jax", "tests", "passed", "failed", "error", "skipped", "date")
    runs = json.loads((RESULTS / "ran.json").read_text())
    rows = [[str(run[column]) for column in columns] for run in runs]
    return f"{PLATFORMS}\n{table(list(columns), rows)}\n"


def figures() -> str:
    """Return the README's table: a few cells of one machine, and the mean over networks."""
    cells = results(MACHINES[0])["cells"]
    version = max(run["dml_jax"] for run in results(MACHINES[0])["runs"].values())
    networks = json.loads((RESULTS / "networks-cpu-2core.json").read_text())
    speeds = [row["peer_ms"] / row["ms"] for row in networks["networks"].values()]
    rows = []
    for words, cell in README_CELLS.items():
        found = cells[cell]["times"]
        pair = (found["jnp bound"]["median_us"] / 1e3, found["bound"]["median_us"] / 1e3)
        rows.append([words, *(f"{ms:.1f}" for ms in pair)])
    return "\n\n".join(
        [
            table(["milliseconds", "jax.numpy", "dml_jax"], rows),
            f"The array is FLOAT32 [8, 64, 256, 256], the machine {title(MACHINES[0])}, dml_jax "
            f"{version}. {len(speeds)} ONNX networks run at {mean(speeds)} times the speed of ONNX "
            f"Runtime, in the geometric mean, on {_machine(networks['environment'])}.",
        ]
    )
