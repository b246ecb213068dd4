"""Tables of `benchmarks/results`: the page of measurements, and the table in the README.

No figure is written by hand: `python docs/pages.py` writes both, and a test compares them.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pictures import Bars, bars

from dml_jax.bench.report import shown
from dml_jax.bench.rows import Results, Row, worst

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "benchmarks"))

from measured_code import is_changed  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
README_ROWS = {
    "MATRIX_MULTIPLY_INTEGER": "integer product",
    "ARGMAX": "argmax over rows",
    "MAX_POOLING": "max pooling",
    "ELEMENT_WISE_CLIP": "clip",
}

PROSE = """\
# Measurements

`python docs/pages.py` makes this page from the files in `benchmarks/results`, which
`python benchmarks/all.py` measures. [Measure a machine](benchmarks.md) says how, and
[Performance](performance.md) what the figures mean.

- A **cell** is one operator with its attributes, data type and sizes.
- A **peer** is another library that computes the same on the same arrays.
- A **speedup** is the fastest peer's time divided by ours: above 1, dml_jax is faster.
- A **mean** is the geometric mean.
- A row with a star (★) was measured before its code changed.

The CPUs are shared cloud machines: do not compare their figures across machines or days. Each
figure is the median of samples that alternate between the libraries.
"""


ON_GPUS = (
    "## ONNX networks on a GPU",
    "Networks that PyTorch exports with random weights, by `benchmarks/gpu_networks.py`, beside "
    "PyTorch: the faster of its two layouts and, in FLOAT16, of torch.compile. The first answer "
    "includes the time to load and compile; the second start finds programs and kernels in its "
    "cache. FLOAT32 is computed in full precision by both.",
)


def mean(values: Iterable[float | None]) -> str:
    """Return the geometric mean as text; "" of no values."""
    there = [value for value in values if value]
    return f"{statistics.geometric_mean(there):.2f}" if there else ""


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown; columns of figures are aligned at the right."""
    rows = [*rows]
    columns = zip(*(rows or [head]), strict=True)
    figures = (any(cell[:1].isdigit() for cell in column) for column in columns)
    marks = ["---:" if are_figures else "---" for are_figures in figures]
    lines = [head, ["---", *marks[1:]], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def runs(kind: str) -> dict[str, Results]:
    """Return the runs of the bench of a kind, by the name of the machine."""
    paths = sorted(RESULTS.glob(f"{kind}-*.json"))
    found = {path.stem.removeprefix(f"{kind}-"): Results.load(path) for path in paths}
    for row in (row for run in found.values() for row in run.rows.values()):
        if is_changed(kind, vars(row)):
            row.name, row.operator = f"{row.name} ★", f"{row.operator} ★"
    return found


def kept(kind: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (environment, rows) of the other files of a kind."""
    tables = list[tuple[dict[str, Any], dict[str, Any]]]()
    for path in sorted(RESULTS.glob(f"{kind}-*.json")):
        found = json.loads(path.read_text())
        environment, rows = found.pop("environment"), next(iter(found.values()))
        marks = {name: " ★" * is_changed(kind, row) for name, row in rows.items()}
        tables.append((environment, {f"{name}{marks[name]}": rows[name] for name in rows}))
    return tables


def _slowest(words: str, speeds: Mapping[str, float], count: int = 10) -> str:
    """Return the table of the cells with the lowest speeds; their names are code, not links."""
    lowest = sorted(speeds, key=speeds.__getitem__)[:count]
    rows = [[f"`{name}`", f"{speeds[name]:.2f}"] for name in lowest]
    return table(["slowest cells", words], rows)


def picture() -> str:
    """Draw what sets the project apart: tests of ONNX that pass, and speed, beside others."""
    text = (ROOT / "docs" / "conformance.md").read_text()
    numbers = re.search(
        r"\| \[ONNX's backend tests\].*?\| [\d.]+ \| (\d+) \| \d+ \| (\d+) \|", text
    )
    assert numbers, "the page of conformance counts the tests of ONNX"
    board = json.loads((RESULTS / "scoreboard.json").read_text())["passed"]
    passed = {"dml_jax": (int(numbers[2]), int(numbers[1])), **board}
    run = _all_operators()["cpu-2core"]
    ((_, networks),) = [one for one in kept("networks") if one[0]["cores"] == 2]
    cells = [*run.rows.values()]
    speeds = {
        "operators, jax.numpy": mean(
            row.time("jnp") / row.time("allocated") for row in cells if "jnp" in row.peers
        ),
        "operators, fastest library": mean(row.speedup for row in cells),
        "networks, ONNX Runtime": mean(row["peer_ms"] / row["ms"] for row in networks.values()),
    }
    return bars(
        [
            Bars(
                "Tests of ONNX that pass",
                [
                    (name, part / whole, f"{part} of {whole}")
                    for name, (part, whole) in passed.items()
                ],
            ),
            Bars(
                "Speed on a CPU: longer is faster, the line is the other library",
                [(name, float(speed), speed) for name, speed in speeds.items()],
                len(speeds),
                1.0,
            ),
        ]
    )


def _machine(environment: Mapping[str, Any]) -> str:
    device, cores = environment["device"], environment["cores"]
    plural = "s" if cores > 1 else ""
    name = f"{environment['cpu']}, {cores} core{plural}" if device == "cpu" else device
    return f"{name}, dml_jax {environment['dml_jax']}, jax {environment['jax']}"


# The tables.


def gains() -> str:
    """Return the figures of the page "Performance": a line for each machine, and the worst."""
    parts: list[str] = []
    rows, gradients = [], runs("gradients")
    for machine, run in _all_operators().items():
        cells = [*run.rows.values()]
        backward = gradients[machine].rows.values() if machine in gradients else ()
        rows.append(
            [
                _machine(run.environment),
                str(len({row.operator for row in cells})),
                mean(row.of_roof for row in cells),
                mean(
                    row.time("jnp") / row.time("allocated") for row in cells if "jnp" in row.peers
                ),
                mean(row.speedup for row in cells),
                mean(row.speedup for row in backward),
            ]
        )
        low = worst(cells, "speedup")
        found = [[f"`{r.name}`", f"{r.speedup:.2f}", _best(r), _ratio(r.of_roof)] for r in low]
        head = [f"slowest on {_machine(run.environment)}", "speedup", "peer", "of the roof"]
        parts += [table(head, found), *_note(run)]
    head = ["", "operators", "of the roof", "over jax.numpy", "over the fastest peer"]
    parts.insert(0, table([*head, "gradients over jax.numpy"], rows))
    found = [
        [
            _machine(known),
            str(len(networks)),
            mean(one["peer_ms"] / one["ms"] for one in networks.values()),
        ]
        for known, networks in kept("networks")
    ]
    parts.append(table(["", "ONNX networks", "over ONNX Runtime"], found))
    if any("★" in part for part in parts):
        parts.append("A row with a star was measured before its code changed.")
    return "\n\n".join(parts)


def _best(row: Row) -> str:
    """Return the name of the fastest peer."""
    return min(row.peers, key=row.time)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value else ""


def _all_operators() -> dict[str, Results]:
    """Return the runs of all operators, with the times of torch.compile."""
    found, compiled = runs("operators"), runs("compiled")
    for machine, run in found.items():
        for name, other in (compiled[machine].rows if machine in compiled else {}).items():
            if name in run.rows:
                times = {k: v for k, v in other.seconds.items() if k in other.peers}
                run.rows[name].seconds |= times
    return found


def _note(run: Results) -> list[str]:
    """Return what a reader of a run must know, where its options have a note."""
    return [run.options["note"]] if "note" in run.options else []


def _of_all_operators() -> list[str]:
    """Return the sections of all operators, a machine each."""
    parts, gradients = [], runs("gradients")
    for machine, run in _all_operators().items():
        backward = [*gradients[machine].rows.values()] if machine in gradients else []
        rows = [*run.rows.values()]
        head = ["", "cells", "of the roof", "speedup", *["gradient"] * bool(backward)]

        def lines(
            key: Callable[[Row], str], rows: list[Row] = rows, backward: list[Row] = backward
        ) -> list[list[str]]:
            groups: dict[str, list[Row]] = {}
            for row in rows:
                groups.setdefault(key(row), []).append(row)
            return [
                [
                    name,
                    str(len(of)),
                    mean(r.of_roof for r in of),
                    mean(r.speedup for r in of),
                    *([mean(r.speedup for r in backward if key(r) == name)] if backward else []),
                ]
                for name, of in groups.items()
            ]

        parts += [
            f"### {_machine(run.environment)}",
            *_note(run),
            table(head, [*lines(lambda row: row.family), *lines(lambda row: "**all**")]),
            _slowest("speedup", {row.name: row.speedup for row in rows if row.peers}),
        ]
        low = worst([row for row in rows if row.copy_bytes], "of_roof")
        if low:
            parts.append(_slowest("of the roof", {row.name: row.of_roof for row in low}))
        if slow := {row.name: row.speedup for row in backward if row.peers}:
            parts.append(_slowest("speedup of the gradient", slow))
        parts += ["#### Each operator", table(head, lines(lambda row: f"`{row.operator}`"))]
    return parts


def _limits() -> list[str]:
    """Return the tables of the limits of devices."""
    parts = []
    for run in runs("limits").values():
        rows = [
            [
                f"{row.operator} {row.variant}",
                shown(row.rate / 1e9) if row.operator not in ("product", "launch") else "",
                shown(row.operations / row.time() / 1e9) if row.operations else "",
                shown(row.time() * 1e6),
            ]
            for row in run.rows.values()
        ]
        head = ["", "GB/s", "GFLOP/s", "us"]
        parts += [f"### {_machine(run.environment)}", table(head, rows)]
    return ["## Limits of devices", *parts] if parts else []


def _beside_onnx_runtime() -> list[str]:
    """Return the tables of `onnx_networks.py --operators`."""
    parts = []
    for known, cells in kept("onnx-operators"):
        speeds = {name: c["peer_ms"] / c["ms"] for name, c in cells.items()}
        groups: dict[str, list[float]] = {}
        for name, cell in cells.items():
            groups.setdefault(cell["group"], []).append(speeds[name])
        rows = [[name, str(len(of)), mean(of)] for name, of in groups.items()]
        head = ["", "cells", "speedup"]
        parts += [f"### {_machine(known)}", table(head, rows), _slowest("speedup", speeds)]
    return parts


def _networks() -> list[str]:
    """Return the tables of `onnx_networks.py`."""
    parts = []
    for known, networks in kept("networks"):
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
            for name, row in networks.items()
        ]
        speeds = (row["peer_ms"] / row["ms"] for row in networks.values())
        rows.append(["**all**", *[""] * 6, mean(speeds)])
        head = ["", "nodes", "operators", "largest error", "first answer, s"]
        head += ["ms", "ONNX Runtime, ms", "speedup"]
        parts += [f"### {_machine(known)}", table(head, rows)]
    return parts


PROFILES = """\
Of the time of some calls, the three largest parts, the slowest network first: a profile by
`benchmarks/onnx_networks.py --profile`. ONNX Runtime computes a product of bytes, a step of a
quantized LSTM, or a whole recurrent network in one kernel each.

- **convolution**, **product**, **reduction**, **elements**: kernels of these; *elements* are
  element-wise loops, depthwise convolutions among them.
- **copy**: kernels that only move elements.
- **loop**: a loop between the kernels of its body.
- **between kernels**: the call from Python, starts of kernels, and threads that wait.
"""


def _profiles() -> list[str]:
    """Return the tables of the kinds of kernels that the time of networks goes to."""
    parts = []
    for known, networks in kept("networks"):
        slowest = sorted(networks.items(), key=lambda one: one[1]["peer_ms"] / one[1]["ms"])
        rows = [
            [
                name,
                f"{row['peer_ms'] / row['ms']:.2f}",
                *(
                    word
                    for kind, part in _largest(row["kernels"])
                    for word in (kind, f"{part:.2f}")
                ),
            ]
            for name, row in slowest
            if "kernels" in row
        ]
        if rows:
            head = ["", "speedup", "first", "part", "second", "part", "third", "part"]
            parts += [f"### {_machine(known)}", table(head, rows)]
    return [PROFILES.rstrip(), *parts] if parts else []


def _largest(kernels: Mapping[str, float], count: int = 3) -> list[tuple[str, float]]:
    """Return the kinds of kernels with the largest parts; kinds that are missing have none."""
    found = sorted(kernels.items(), key=lambda one: -one[1])[:count]
    return found + [("", 0.0)] * (count - len(found))


def _hundred() -> list[str]:
    """Return the tables of `onnx_networks.py --all`: what runs, and what is missing."""
    parts = []
    for known, networks in kept("hundred-networks"):
        ran = {name: row for name, row in networks.items() if "error" in row}
        right = sum(row["is_right"] for row in ran.values())
        packages = len({row["package"] for row in networks.values()})
        rows = [
            [
                name,
                row["what"],
                f"`{row['package']}`",
                row["license"],
                str(row["nodes"]),
                row["against"],
                f"{row['error']:.0e}",
                "" if row["is_right"] else "the error is above the tolerance",
            ]
            for name, row in ran.items()
        ]
        rows += [
            [name, row["what"], f"`{row['package']}`", row["license"], *[""] * 3, _reason(row)]
            for name, row in networks.items()
            if name not in ran
        ]
        timed = {name: row for name, row in ran.items() if "ms" in row}
        times = [
            [
                name,
                f"{row['first_s']:.1f}",
                *(f"{row[k]:.2f}" for k in ("ms", "peer_ms")),
                f"{row['peer_ms'] / row['ms']:.2f}",
            ]
            for name, row in timed.items()
        ]
        speeds = [row["peer_ms"] / row["ms"] for row in timed.values()]
        times.append(["**all**", *[""] * 3, mean(speeds)])
        head = ["", "what", "package", "licence", "nodes", "beside", "largest error", "missing"]
        columns = ["", "first answer, s", "ms", "ONNX Runtime, ms", "speedup"]
        said = (
            f"{len(ran)} of {len(networks)} networks of {packages} packages run, and {right} are "
            "right within their tolerance."
        )
        parts += [f"### {_machine(known)}", said, table(head, rows), table(columns, times)]
    return parts


def _reason(row: Mapping[str, Any]) -> str:
    """Return the first line of what is missing, without marks that break a table."""
    return row["missing"].splitlines()[0].replace("|", "/").replace("<", "&lt;")


def _networks_on_gpus() -> list[str]:
    """Return the tables of `gpu_networks.py`, a machine and a type each."""
    parts = []
    for known, networks in kept("gpu-networks"):
        kinds = dict.fromkeys(k for row in networks.values() for k in row if k != "code")
        for kind in kinds:
            cells = {name: row[kind] for name, row in networks.items() if kind in row}
            shown = {
                "largest error": ("error", ".0e"),
                "first answer, s": ("first_s", ".1f"),
                "second start, s": ("kept_s", ".1f"),
                "ms": ("ms", ".2f"),
                "PyTorch, ms": ("eager_ms", ".2f"),
                "torch.compile, ms": ("compile_ms", ".2f"),
            }
            known_of = {k for cell in cells.values() for k, v in cell.items() if v is not None}
            shown = {title: of for title, of in shown.items() if of[0] in known_of}
            head, rows, speeds = [kind, *shown, "speedup"], [], []
            for name, cell in cells.items():
                peers = [cell[k] for k in ("eager_ms", "compile_ms") if cell.get(k)]
                speeds.append(min(peers) / cell["ms"])
                given = ((cell.get(k), how) for k, how in shown.values())
                figures = ["" if value is None else f"{value:{how}}" for value, how in given]
                rows.append([name, *figures, f"{speeds[-1]:.2f}"])
            rows.append(["**all**", *[""] * (len(head) - 2), mean(speeds)])
            parts += [f"### {_machine(known)}, {kind}", table(head, rows)]
    return [*ON_GPUS, *parts] if parts else []


def _files() -> list[str]:
    """Return the tables of `onnx_networks.py --files`."""
    parts = []
    for path in sorted(RESULTS.glob("files-*.json")):
        found = json.loads(path.read_text())
        saved = [
            [n, str(r["weights"]), "other sizes" if r["error"] is None else f"{r['error']:.0e}"]
            for n, r in found["saved"].items()
        ]
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
    for known, programs in kept("programs"):
        speeds = {name: row["peer_ms"] / row["ms"] for name, row in programs.items()}
        rows = [
            [name, f"{row['error']:.0e}", *(f"{row[k]:.2f}" for k in ("ms", "peer_ms")), speed]
            for (name, row), speed in zip(
                programs.items(), (f"{s:.2f}" for s in speeds.values()), strict=True
            )
        ]
        rows.append(["**all**", *[""] * 3, mean(speeds.values())])
        head = ["", "largest error", "ms", "PyTorch, ms", "speedup"]
        parts += [f"### {_machine(known)}", table(head, rows)]
    return parts


def _programs_of_others() -> list[str]:
    """Return the tables of `onnxruntime_programs.py`."""
    parts = []
    for path in sorted(RESULTS.glob("onnxruntime-programs-*.json")):
        found = json.loads(path.read_text())
        rows = [
            [
                f"{row['packages'][0]}",
                "the same" if row["error"] == 0 else f"{row['error']:.0e}",
                f"{row['first']:.1f}",
                f"{row['peer_first']:.1f}",
                f"{row['steady'] * 1000:.1f}",
                f"{row['peer_steady'] * 1000:.1f}",
            ]
            for row in found["programs"].values()
        ]
        head = ["", "largest difference", "first, s", "ONNX Runtime, s"]
        head += ["later, ms", "ONNX Runtime, ms"]
        parts += [f"### {_machine(found['environment'])}", table(head, rows)]
    return parts


def page() -> str:
    """Return the page of measurements."""
    parts = [
        PROSE.rstrip(),
        "## All operators",
        "Each operator is timed beside the `jax.numpy` expression and other libraries. Times "
        "include the allocation of outputs. *Of the roof* is the shortest time that a copy's "
        "bandwidth and a product's rate allow, divided by the measured time. Products of integers "
        "have no roof.",
        *_of_all_operators(),
        *_limits(),
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
        "## Where the time of networks goes",
        *_profiles(),
        "## A hundred ONNX networks",
        "Networks that packages ship, by `benchmarks/onnx_networks.py --all`: at most two of "
        "a package or of an architecture. Each is compared with ONNX Runtime, or with ONNX's own "
        "evaluator in float64 where ONNX Runtime is less exact.",
        *_hundred(),
        *_networks_on_gpus(),
        "## ONNX networks as files",
        "Files that dml_jax writes, computed by ONNX Runtime without its optimizations, beside "
        "JAX: gradients by all weights and batches by `jax.vmap`, exported, and networks saved "
        "with other weights. An error is a part of the largest absolute value of a result.",
        *_files(),
        "## PyDirectML programs",
        "The calls of Microsoft's sample programs, by `benchmarks/pydirectml_programs.py`: a "
        "compute after the first one, beside the same calls in PyTorch. The last weights of "
        "mobilenet are random.",
        *_programs(),
        "## Programs of ONNX Runtime",
        "Packages that other people wrote for ONNX Runtime, unchanged, by "
        "`benchmarks/onnxruntime_programs.py`: the first call, which compiles, and later calls "
        "with the same data. Times are processor time of all threads. The difference is that of "
        "the numbers among the answers; all words are the same.",
        *_programs_of_others(),
    ]
    return "\n\n".join(parts) + "\n"


PLATFORMS = """\
# Where the tests ran

`pytest --ran benchmarks/results/ran.json` adds a row. Each row is one run of the tests on one
device, in the types and at the feature levels of each operator. `tests/devices/test_libtpu.py`
compiles every operator for a TPU and runs none.
"""


def language_models() -> str:
    """Return the tables of `language_models.py`: an architecture in a form each."""
    parts = []
    for known, folders in kept("language-models"):
        rows = [
            [
                *name.split(" ", 1),
                *(str(row[k]) for k in ("steps", "right", "near")),
                f"{row['rate']:.0f}",
                *(f"{row['rate'] / row[k]:.2f}" for k in ("genai_rate", "transformers_rate")),
                f"{row['genai_prompt_s'] / row['prompt_s']:.2f}",
            ]
            for name, row in folders.items()
        ]
        head = ["", "form", "steps", "right", "near", "tokens a second", "beside GenAI"]
        head += ["beside transformers", "prompt beside GenAI"]
        parts.append(f"On {_machine(known)}:\n\n{table(head, rows)}")
    for known, found in kept("large-decoder"):
        head = ["a decoder of 1.1 billion weights", "rows", "tokens a second", "first token, s"]
        rows = [
            [*name.rsplit(", ", 1), str(row["tokens_s"]), str(row.get("first_token_s", ""))]
            for name, row in found.items()
            if "tokens_s" in row
        ]
        parts.append(f"On {_machine(known)}:\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def platforms() -> str:
    """Return the page of the machines and versions that the tests ran on."""
    columns = ("device", "python", "jax", "tests", "passed", "failed", "error", "skipped", "date")
    runs = json.loads((RESULTS / "ran.json").read_text())
    rows = [[str(run[column]) for column in columns] for run in runs]
    return f"{PLATFORMS}\n{table(list(columns), rows)}\n"


def figures() -> str:
    """Return the README's table: a few cells of one machine, and the mean over networks."""
    run = runs("operators")["cpu-2core"]
    ((known, networks),) = [one for one in kept("networks") if one[0]["cores"] == 2]
    speeds = [row["peer_ms"] / row["ms"] for row in networks.values()]
    rows = []
    for operator, words in README_ROWS.items():
        row = next(row for row in run.rows.values() if row.operator.split()[0] == operator)
        sizes = " x ".join(str(n) for n in row.sizes if n > 1)
        pair = (f"{row.time(name) * 1e3:.1f}" for name in ("jnp", "allocated"))
        rows.append([f"{words}, {row.data_type} {sizes}", *pair])
    return "\n\n".join(
        [
            table(["milliseconds", "jax.numpy", "dml_jax"], rows),
            f"Each inside a `jax.jit`, on {_machine(run.environment)}. "
            f"On {len(speeds)} ONNX networks dml_jax runs at {mean(speeds)} of ONNX Runtime's "
            f"speed (geometric mean), on {_machine(known)}.",
        ]
    )
