"""The conformance page of the docs: every source of cases, what was run, what passed.

`python tests/conformance/report.py` runs all cases and writes the page; the tests run the same
cases, and hold the page to them.
"""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS))  # as pytest has it

import jax  # noqa: E402
from conformance.cases import Case  # noqa: E402

import dml_jax  # noqa: E402

PAGE = TESTS.parent / "docs/conformance.md"


@dataclass(frozen=True)
class Source:
    """Somebody else's answers.

    Attributes:
        title: what they are.
        link: where they come from.
        needs: the package that the cases cannot be had without; "" where none is needed.
        version: of what gave the answers.
        cases: the cases; loads what they need.
    """

    title: str
    link: str
    needs: str
    version: Callable[[], str]
    cases: Callable[[], list[Case]]

    @property
    def is_there(self) -> bool:
        return not self.needs or importlib.util.find_spec(self.needs) is not None


def _node_tests() -> list[Case]:
    from conformance import onnx_nodes

    return onnx_nodes.node_tests()


def _exported_tests() -> list[Case]:
    from conformance import onnx_nodes

    return onnx_nodes.exported_tests()


def _random_nodes() -> list[Case]:
    from conformance import onnxruntime_nodes

    return onnxruntime_nodes.random_nodes()


def _random_operators() -> list[Case]:
    from conformance import torch_answers

    return torch_answers.random_operators()


def _torch_version() -> str:
    from conformance import torch_answers

    return torch_answers.kept()[0]


ONNX_TESTS = "https://github.com/onnx/onnx/tree/main/onnx/backend/test"
SOURCES = {
    "onnx-node": Source(
        "ONNX's backend tests of single nodes",
        f"{ONNX_TESTS}/case/node",
        "onnx",
        lambda: importlib.metadata.version("onnx"),
        _node_tests,
    ),
    "onnx-exported": Source(
        "ONNX's backend tests of models that PyTorch exported",
        f"{ONNX_TESTS}/data/pytorch-operator",
        "onnx",
        lambda: importlib.metadata.version("onnx"),
        _exported_tests,
    ),
    "onnxruntime": Source(
        "ONNX Runtime (CPU) on random nodes",
        "https://onnxruntime.ai",
        "onnxruntime",
        lambda: importlib.metadata.version("onnxruntime"),
        _random_nodes,
    ),
    "torch": Source(
        "PyTorch (CPU) on random descriptors, gradients included",
        "https://pytorch.org",
        "",
        _torch_version,
        _random_operators,
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

The operators against other people's tests and other people's implementations. The tests
(`tests/test_conformance.py`) run each case, and check the reason of each one that is left out: they
fail as soon as it no longer holds. `python tests/conformance/report.py` runs all of them and writes
this page.

ONNX's nodes are mapped as ONNX Runtime's DirectML provider maps them: `keepdims=0` is a reshape,
`select_last_index` the axis direction, Clip without a bound has the end of the type, Concat drops
tensors without elements, booleans are UINT8. ONNX's tests have the tolerance that they state. ONNX
Runtime and PyTorch are compared exactly where elements are moved or picked (ARGMAX, CLIP, MAX,
SPLIT, ...); sums and the like, and gradients, to some units in the last place.

Clipping with min > max, and its gradient at a bound, are not compared with them: there they give
max where DirectML gives min, and PyTorch passes a gradient that DirectML stops.
"""


def run(case: Case) -> str:
    """Why a case does not pass; empty if it does."""
    try:
        case.check()
    except Exception as error:
        return f"{case.name}: {error}"
    return ""


def main() -> int:
    """Runs all, writes the page, and says what failed."""
    jax.config.update("jax_enable_x64", True)
    rows, parts, trouble = [], [], []
    for source in SOURCES.values():
        cases = source.cases()
        found = {case.name: why for case in cases if (why := run(case))}
        trouble += found.values()
        row, lines = sections(source, cases, list(found))
        rows.append(row)
        parts += ["", *lines]
    with_ = f"With dml_jax {dml_jax.__version__}, jax {jax.__version__} on {jax.default_backend()}."
    table = [f"| source | version | {NUMBERS}", f"| --- | --- | {RULE}", *rows, "", with_]
    PAGE.write_text("\n".join([INTRODUCTION, *table, *parts, ""]))
    print("\n".join([*rows, *trouble]))  # noqa: T201
    return bool(trouble)


if __name__ == "__main__":
    sys.exit(main())
