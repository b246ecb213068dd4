"""The conformance page of the docs: every source of cases, what was run, what passed.

`python tests/conformance/report.py` runs all cases and writes the page; the tests run the same
cases, and hold the page to them.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))  # as pytest has it

import jax  # noqa: E402
from conformance.cases import Case  # noqa: E402

import dml_jax  # noqa: E402

if TYPE_CHECKING:
    from conformance.backend import Outcomes
    from conformance.onnx_nodes import Outcome

PAGE = TESTS.parent / "docs/conformance.md"


@dataclass(frozen=True)
class Source:
    """Somebody else's answers.

    Attributes:
        module: the module of this folder that has their `cases()` and `version()`.
        title: what they are.
        link: where they come from.
        needs: the package that the cases cannot be had without; "" where none is needed.
        is_sampled: whether the tests run a sample, and the nightly command every case.
    """

    module: str
    title: str
    link: str
    needs: str = ""
    is_sampled: bool = False

    @property
    def is_there(self) -> bool:
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    def cases(self) -> list[Case]:
        return importlib.import_module(f"conformance.{self.module}").cases()

    def version(self) -> str:
        """Return the version of what gave the answers."""
        return importlib.import_module(f"conformance.{self.module}").version()


ONNX_TESTS = "https://github.com/onnx/onnx/tree/main/onnx/backend/test"
OF_PYTORCH = "https://github.com/pytorch/pytorch/tree/main/torch/testing/_internal/opinfo"
OF_WPT = "https://github.com/web-platform-tests/wpt/tree/master/webnn/conformance_tests"
OF_ORT = "https://github.com/microsoft/onnxruntime/tree/main/js/web/test/data/ops"
SOURCES = {
    "onnxruntime": Source(
        "onnxruntime_nodes",
        "ONNX Runtime (CPU) on random nodes",
        "https://onnxruntime.ai",
        needs="onnxruntime",
    ),
    "torch": Source(
        "torch_answers",
        "PyTorch (CPU) on random descriptors, gradients included",
        "https://pytorch.org",
    ),
    "opinfo": Source(
        "opinfo",
        "PyTorch's own samples of its operators, with first and second gradients",
        OF_PYTORCH,
    ),
    "webnn": Source("webnn", "WebNN's tests of web-platform-tests", OF_WPT, is_sampled=True),
    "ortweb": Source(
        "ortweb", "ONNX Runtime's tests of its web provider", OF_ORT, "onnx", is_sampled=True
    ),
}


@dataclass
class Count:
    """How many cases there are, were run, and passed."""

    cases: int = 0
    run: int = 0
    passed: int = 0

    def add(self, case: Case, passed: bool) -> None:
        self.cases += 1
        if not case.left_out:
            self.run += 1
            self.passed += passed

    def row(self, *cells: str) -> str:
        numbers = (self.cases, self.run, self.passed, self.cases - self.run)
        return f"| {' | '.join([*cells, *map(str, numbers)])} |"


NUMBERS = "cases | run | passed | left out |"
RULE = "---: | ---: | ---: | ---: |"


def sections(source: Source, cases: list[Case], failed: list[str]) -> tuple[str, list[str]]:
    """A source's row of the first table, and its section."""
    total, groups = Count(), {}
    for case in cases:
        passed = case.name not in failed
        total.add(case, passed)
        groups.setdefault(case.group, Count()).add(case, passed)
    lines = [f"## {source.title}", "", f"| operator | {NUMBERS}", f"| --- | {RULE}"]
    lines += [count.row(group) for group, count in groups.items()]
    reasons: dict[str, list[str]] = {}
    for case in cases:
        if case.left_out:
            reasons.setdefault(case.left_out, []).append(f"`{case.name}`")
    if reasons:
        lines += ["", "| left out because | tests |", "| --- | --- |"]
        lines += [f"| {reason} | {', '.join(names)} |" for reason, names in reasons.items()]
    if failed:
        lines += ["", f"Failed: {', '.join(failed)}."]
    return total.row(f"[{source.title}]({source.link})", source.version()), lines


INTRODUCTION = """# Conformance

Operators against other people's tests and other people's implementations.
`python tests/conformance/report.py` runs all of it and writes this page; the tests
(`test_conformance.py` beside it) run a sample of the three suites, and all random cases, and
compare the page with them. The nightly command runs every case.

ONNX's tests go through `dml_jax.load_onnx`, which makes each of them a graph of DirectML
operators. Where ONNX and DirectML differ, ONNX's answer is the right one, and the graph computes it
of several operators. A test gives all tensors as inputs. Tensors that DirectML takes as attributes
(the sizes of a Reshape, the bounds of a Slice) are initializers here. The tests have the tolerance
that they state; FLOAT16 and BFLOAT16 results may differ by two units in the last place, and results
of DFT by one unit of the largest element. Tests that DirectML's operators cannot compute run with
`fallback=True`; the last column counts them. Outputs whose size depends on data are cut to the
count.

ONNX Runtime and PyTorch are compared exactly where elements are moved or picked (ARGMAX, CLIP, MAX,
SPLIT, ...); sums and the like, and gradients, to some units in the last place. Two uses of CLIP are
left out. With min > max PyTorch returns max, and DirectML min. At a bound PyTorch's gradient is 1,
and DirectML's is 0.

WebNN's tests go through this package's functions, as Chromium maps WebNN's operators to DirectML,
and have the tolerances of that suite's own table. ONNX Runtime's tests of its web provider are
networks of one node; a test that is left out is proved to be mistaken.

PyTorch's samples of its operators are compared with its answers in float64: in FLOAT32, and in
FLOAT64 as networks compute it. Two samples of an operator are kept;
`python -m conformance.opinfo all`, in tests/ and with PyTorch, compares every sample.
"""

ONNX_TITLE = "ONNX's backend tests"
BY_JAX = "with `fallback=True`"
EXPORTED = "models that PyTorch exported"


def counted(outcomes: "Sequence[Outcome]") -> Count:
    run = [outcome for outcome in outcomes if not outcome.left_out]
    return Count(len(outcomes), len(run), sum(not outcome.wrong for outcome in run))


def reasons_of(outcomes: "Sequence[Outcome]", field: str, title: str) -> list[str]:
    """Return the table of the reasons that `field` has, with their tests and op types."""
    reasons: dict[str, dict[str, int]] = {}
    for outcome in outcomes:
        if reason := getattr(outcome, field):
            counts = reasons.setdefault(reason, {})
            counts[outcome.test.op_type] = counts.get(outcome.test.op_type, 0) + 1
    lines = ["", f"| {title} | tests | op types |", "| --- | ---: | --- |"]
    for reason, counts in sorted(reasons.items(), key=lambda item: -sum(item[1].values())):
        lines.append(f"| {reason} | {sum(counts.values())} | {', '.join(counts)} |")
    return lines


def node_section(found: "Mapping[str, Sequence[Outcome]]") -> tuple[str, list[str]]:
    """Return the row of ONNX's tests in the first table, and their section."""
    everything = [outcome for outcomes in found.values() for outcome in outcomes]
    lines = [f"## {ONNX_TITLE}", "", f"| op type | {NUMBERS} {BY_JAX} |", f"| --- | {RULE} ---: |"]
    for op_type, outcomes in found.items():
        by_jax = sum(bool(outcome.by_jax) for outcome in outcomes)
        lines.append(f"{counted(outcomes).row(op_type)} {by_jax} |")
    lines += reasons_of(everything, "by_jax", f"{BY_JAX} because")
    lines += reasons_of(everything, "left_out", "left out because")
    cells = f"[{ONNX_TITLE}]({ONNX_TESTS})", importlib.metadata.version("onnx")
    return counted(everything).row(*cells), lines


RUNNER_TITLE = "ONNX's own runner"
RUNNER = """`onnx.backend.test.BackendTest` runs the same tests, and models, with
`dml_jax.onnx.backend`. It gives all tensors as inputs, sizes too. Where DirectML takes an input as
an attribute, the backend loads the network once more, with the integers of rank 1 and less, or
else all inputs of such a rank, as constants. A test that has no other inputs is computed at load,
by ONNX's reference implementation; a column counts these. The runner counts tests of sequences,
strings and random numbers too. The other rows are the last that ONNX's scoreboard published of a
version that ran."""


def runner_outcomes() -> "Outcomes":
    """Run all tests of ONNX's runner, in a process of its own."""
    from conformance.backend import Outcomes

    command = [sys.executable, str(Path(__file__).with_name("backend.py"))]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return Outcomes(**json.loads(text.splitlines()[-1]))


def runner_section(found: "Outcomes") -> list[str]:
    """Return the section of ONNX's own runner."""
    from conformance.backend import PUBLISHED, SCOREBOARD

    lines = [f"## {RUNNER_TITLE}", "", RUNNER, ""]
    lines += ["| backend | version | ONNX | tests | passed | at load | published |"]
    lines += ["| --- | --- | --- | ---: | ---: | ---: | --- |"]
    onnx = importlib.metadata.version("onnx")
    counts = f"{found.tests} | {found.passed} | {found.at_load} |"
    lines += [f"| dml_jax | {dml_jax.__version__} | {onnx} | {counts} |"]
    for name, folder, version, of, tests, passed, day in PUBLISHED:
        link = f"[{name}]({SCOREBOARD}/{folder})"
        lines += [f"| {link} | {version} | {of} | {tests} | {passed} | | {day} |"]
    reasons: dict[str, list[str]] = {}
    for name, why in found.others.items():
        reasons.setdefault(why.replace("|", "/"), []).append(f"`{name}`")
    lines += ["", "| did not pass because | tests | names |", "| --- | ---: | --- |"]
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        lines += [f"| {why} | {len(names)} | {', '.join(names)} |"]
    return lines


def run(case: Case) -> str:
    """Why a case does not pass; empty if it does."""
    try:
        case.check()
    except Exception as error:
        return f"{case.name}: {error}"
    return ""


def main() -> int:
    """Runs all, writes the page, and says what failed."""
    from conformance import onnx_nodes

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    found = {t: onnx_nodes.outcomes(tests) for t, tests in onnx_nodes.load().items()}
    exported = onnx_nodes.outcomes(onnx_nodes.exported())
    found |= {EXPORTED: exported}
    row, lines = node_section(found)
    rows, parts = [row], ["", *lines]
    trouble = [o.wrong for outcomes in found.values() for o in outcomes if o.wrong]
    for source in SOURCES.values():
        cases = source.cases()
        failed = {case.name: why for case in cases if (why := run(case))}
        trouble += failed.values()
        row, lines = sections(source, cases, list(failed))
        rows.append(row)
        parts += ["", *lines]
    parts += ["", *runner_section(runner_outcomes())]
    with_ = f"With dml_jax {dml_jax.__version__}, jax {jax.__version__} on {jax.default_backend()}."
    table = [f"| source | version | {NUMBERS}", f"| --- | --- | {RULE}", *rows, "", with_]
    PAGE.write_text("\n".join([INTRODUCTION, *table, *parts, ""]))
    print("\n".join([*rows, *trouble]))  # noqa: T201
    return bool(trouble)


if __name__ == "__main__":
    sys.exit(main())
