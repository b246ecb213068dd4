"""Tables of `benchmarks/results`: the page of measurements, and the table in the README.

No figure is written by hand: `python docs/pages.py` writes both, and a test compares them.
"""

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"

Cell = dict[str, Any]
Row = list[str]

SLOWEST = 10
"""How many of the slowest cells of all operators are listed."""
EXPRESSED = {"eager": "a call", "alone": "a program", "jit": "inside a jax.jit"}
README_CELLS = {
    "integer product, 2896 x 2896": "MATRIX_MULTIPLY_INTEGER INT32[1,1,2896,2896]",
    "argmax over rows": "ARGMAX axes=[3] INCREASING FLOAT32[2,64,128,128]",
    "max pooling": "MAX_POOLING strides=[2,2] window_size=[2,2] start_padding=[0,0] "
    "end_padding=[0,0] FLOAT32[2,64,128,128]",
    "clip": "ELEMENT_WISE_CLIP FLOAT32[2,64,128,128]",
}

PROSE = """\
# Measurements

`python docs/pages.py` makes this page from the files in `benchmarks/results`.
[Reading the bandwidth chart](benchmarks.md) says how the figures are measured, and
[Performance](performance.md) what they mean. To measure your own machine, run `dml-jax bench`.

- A **cell** is one operator with its attributes, data type and sizes.
- A **peer** is another library that computes the same on the same arrays.
- A **speedup** is the peer's time divided by ours: above 1, dml_jax is faster.
- A **mean** is the geometric mean.

The CPUs are shared cloud machines: do not compare their figures across machines or days. Each
figure is the median of samples that alternate between the libraries.
"""


def mean(values: Iterable[float | None]) -> str:
    """Return the geometric mean as text; "" of no values."""
    there = [value for value in values if value is not None]
    return f"{statistics.geometric_mean(there):.2f}" if there else ""


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table in Markdown; columns of figures are aligned at the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


# The tables.


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
        speeds = {name: cell["ratios"]["jit"] for name, cell in found["cells"].items()}
        parts += [
            f"### {_machine(found['environment'])}",
            table(["", "cells", *EXPRESSED.values()], rows),
            _slowest("inside a jax.jit", speeds),
        ]
    return parts


def _slowest(words: str, speeds: Mapping[str, float]) -> str:
    """Return the table of the cells with the lowest speeds; their names are code, not links."""
    worst = sorted(speeds, key=speeds.__getitem__)[:SLOWEST]
    return table(["slowest cells", words], [[f"`{name}`", f"{speeds[name]:.2f}"] for name in worst])


def _machine(environment: dict[str, Any]) -> str:
    device = environment["device"]
    cores = environment["cores"]
    plural = "s" if cores > 1 else ""
    name = f"{environment['cpu']}, {cores} core{plural}" if device == "cpu" else device
    return f"{name}, dml_jax {environment['dml_jax']}, jax {environment['jax']}"


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
        parts += [
            f"### {_machine(found['environment'])}",
            table(["", "cells", "speedup"], rows),
            _slowest("speedup", speeds),
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


def _files() -> list[str]:
    """Return the tables of `onnx_files.py`."""
    parts = []
    for path in sorted(RESULTS.glob("files-*.json")):
        found = json.loads(path.read_text())
        saved = [[n, str(r["weights"]), f"{r['error']:.0e}"] for n, r in found["saved"].items()]
        exported = [
            [
                name,
                str(row["weights"]),
                *(str(row[f"{part}_nodes"]) for part in ("gradient", "batch")),
                *(f"{row[f'{part}_error']:.0e}" for part in ("gradient", "batch")),
            ]
            for name, row in found["exported"].items()
        ]
        head = ["", "weights", "nodes of the gradient", "nodes of the batch"]
        head += ["error of the gradient", "error of the batch"]
        parts += [f"### {_machine(found['environment'])}", table(head, exported)]
        parts.append(table(["saved with other weights", "weights", "largest error"], saved))
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
    parts = [
        PROSE.rstrip(),
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
        "## ONNX networks as files",
        "Files that dml_jax writes, computed by ONNX Runtime without its optimizations, beside "
        "JAX: gradients by all weights and batches by `jax.vmap`, exported, and networks saved "
        "with other weights. An error is a part of the largest absolute value of a result.",
        *_files(),
        "## PyDirectML programs",
        "Microsoft's sample programs by `benchmarks/pydirectml_programs.py`: a compute after the "
        "first one, beside the same calls in PyTorch.",
        *_programs(),
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
    operators = json.loads((RESULTS / "families-cpu-2core.json").read_text())
    networks = json.loads((RESULTS / "networks-cpu-2core.json").read_text())
    speeds = [row["peer_ms"] / row["ms"] for row in networks["networks"].values()]
    rows = []
    for words, cell in README_CELLS.items():
        found = operators["cells"][cell]["times"]
        pair = [found[f"{whose} jit"]["median_us"] / 1e3 for whose in ("plain", "ours")]
        rows.append([words, *(f"{ms:.1f}" for ms in pair)])
    return "\n\n".join(
        [
            table(["milliseconds", "jax.numpy", "dml_jax"], rows),
            f"Each inside a `jax.jit`, on {_machine(operators['environment'])}. "
            f"{len(speeds)} ONNX networks run at {mean(speeds)} times the speed of ONNX Runtime, "
            f"in the geometric mean, on {_machine(networks['environment'])}.",
        ]
    )
