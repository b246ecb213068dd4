"""Every snippet of the docs is run: what the pages show is what happens.

A page's Python blocks run in order, as one session: those with prompts as doctests, the others as
they stand. A block of `json title="x.json"` is that file; the `dml-jax` commands of a console block
print what stands below them, where `...` stands for anything.
"""

import doctest
import importlib
import inspect
import json
import re
import shlex
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from click.testing import CliRunner
from facts import DOCUMENTED

from dml_jax import OPERATORS, FeatureLevel
from dml_jax.cli import cli
from dml_jax.cli.terminal import devices, name_of
from dml_jax.documentation import Documentation, matrices

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

from pages import MEMBERS, operator_page, page_of, pages  # noqa: E402  # pyright: ignore[reportMissingImports]

WRITTEN = sorted((ROOT / "docs").rglob("*.md"))
MADE: dict[str, Any] = dict(pages())
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name: str, text: str) -> list[str]:
    """Runs the page's blocks; returns their kinds."""
    session: dict[str, object] = {}
    kinds = []
    for kind, rest, block in BLOCK.findall(text):
        kinds.append(kind)
        title = re.search(r'title="([^"]+)"', rest)
        if kind == "json" and title:
            Path(title[1]).write_text(block)
        elif kind == "python":
            if not block.startswith(">>>"):
                exec(compile(block, name, "exec"), session)
            parsed = doctest.DocTestParser().get_doctest(block, session, name, name, 0)
            runner = doctest.DocTestRunner(optionflags=OPTIONS)
            runner.run(parsed, clear_globs=False)
            session |= parsed.globs
            assert runner.failures == 0, f"{name}: see the captured output"
        elif kind == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
                check_command(name, command, expected)
    return kinds


def check_command(name: str, command: str, expected: str) -> None:
    words = shlex.split(command)
    assert words[0] == "dml-jax", (name, command)
    shown = CliRunner().invoke(cli, words[1:]).output.replace(name_of(devices()[0]), "cpu:0")
    same = doctest.OutputChecker().check_output(expected, shown, OPTIONS)
    assert same, f"{name}: {command}\n{shown}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder but for the examples; operators that a page adds are gone afterwards."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    known = dict(OPERATORS)
    yield tmp_path
    for name in set(OPERATORS) - set(known):
        del OPERATORS[name]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_written_pages(page: Path, folder: Path):
    run_page(page.name, page.read_text())


@pytest.mark.parametrize("page", [*WRITTEN, *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_files_that_pages_name_are_there(page: Path):
    """`fold.py`, `folds/fold.py`, or from the root `dml_jax/lowering/folds/fold.py`."""
    rooms = ("dml_jax", "tests", "docs", "benchmarks", "examples")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    files += ROOT.glob("*.py")
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in files]
    for name in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        assert any(path.endswith(f"/{name}") for path in paths), name


@pytest.mark.parametrize("op", OPERATORS.values(), ids=lambda op: op.__name__)
def test_operators_pages(op: type, folder: Path):
    text = MADE[page_of(op)]
    assert "python" in run_page(op.__name__, text)
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text):
        assert MADE[f"operators/{picture}"].startswith("<svg")
    assert "![" in text


@pytest.mark.parametrize("op", OPERATORS.values(), ids=lambda op: op.__name__)
def test_no_operator_is_half_declared(op: type):
    """Its docstring has all parts, and there is a worked example."""
    text = Documentation.of(op)
    assert text.summary.endswith(".")
    assert "\n" not in text.summary
    assert re.search("`[^`]+ = [^`]+`", "\n".join(text.formula)), "a formula"
    assert text.gradient.endswith(".")
    assert set(text.fields) == {f.name for f in op.fields}
    assert all(text.fields.values())
    assert text.source == f"{op.c_name.replace('OPERATOR_', '')}_OPERATOR_DESC"
    assert text.example or DOCUMENTED[op.c_name]["examples"], "a worked example"
    assert all(m.ranks for m in matrices(op))
    for part in ("## Formula", "## Feature levels", "## Gradient", "## Memory", "## Source"):
        assert part in operator_page(op, [], [])


def test_the_catalogue_has_every_operator_and_level():
    text = MADE["operators/index.md"]
    for name, facts in DOCUMENTED.items():
        assert f"[{name.removeprefix('DML_OPERATOR_')}](" in text
        for row in facts["support"]:
            assert f" {FeatureLevel.of(row['feature_level'])} |" in text


class Links(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, text: str):
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.targets.append(value)
            elif name == "id" and value is not None:
                self.anchors.add(value)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; strictly, so a broken page fails here."""
    import subprocess

    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(target)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return target


def test_no_dead_links_in_the_built_site(site: Path):
    found = {p: Links(p.read_text()) for p in site.rglob("*.html") if p.name != "404.html"}
    assert len(found) > len(WRITTEN) + len(OPERATORS)
    for page, links in found.items():
        for target in links.targets:
            if re.match("https?:|mailto:|data:|javascript:", target):
                assert target.startswith(("https:", "data:", "mailto:")), target
                continue
            plain, anchor = urldefrag(urljoin(page.as_uri(), target))
            path = Path(unquote(plain.removeprefix("file://")))
            path = path / "index.html" if path.is_dir() else path
            assert path.is_file(), f"{page.relative_to(site)} links to {target}"
            if anchor and path.suffix == ".html" and not anchor.startswith("__"):
                assert unquote(anchor) in found[path].anchors, f"{page.relative_to(site)}: {target}"


def test_members_of_the_reference_are_there():
    for name, members in MEMBERS.items():
        module, _, part = name.rpartition(".")
        cls = getattr(importlib.import_module(f"dml_jax.{module}"), part)
        fields = {field for base in cls.__mro__ for field in inspect.get_annotations(base)}
        kept = {"faults", "array"}  # what only __init__ sets
        assert [m for m in members.split() if not hasattr(cls, m) and m not in fields | kept] == []


@pytest.mark.parametrize("column, results", [(1, "cpu-2core"), (2, "h200"), (3, "h100")])
def test_figures_are_those_of_the_results(
    column: int, results: str, monkeypatch: pytest.MonkeyPatch
):
    """In the README, and in the measurements' first table."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import report  # pyright: ignore[reportMissingImports]

    kept = json.loads((ROOT / "benchmarks" / "results" / f"{results}.json").read_text())
    text = "\n".join(report.lines(kept))

    def found(pattern: str) -> tuple[str, ...]:
        (match,) = re.findall(pattern, text, re.MULTILINE)
        return match

    times = r"^{}: (.+) times the best peer .* of (.+) cells\); (.+) slower"
    (mean, cells, behind), (allocated, _, later) = (
        found(times.format(way)) for way in ("bound", "allocated")
    )
    below = r"^bound, {}: (.+) \(geometric mean of (.+) cells\), (.+) below"
    like_copies = "copy-like, of the copy" if column == 1 else "all"
    share, moving, slow = found(below.format(like_copies))
    of_copy, passes, missed = found(below.format("BACKWARD, target 0.67"))
    apart, families = found(r"^bound, neighbours .*: (.+) of (.+) families")

    page = (ROOT / "docs" / "measurements.md").read_text().partition("## Where it stands")[2]
    told = {
        "CPU": f"bound {mean} ({behind} of {cells}); allocated {allocated} ({later})",
        "what writes more": f"{share} ({slow} of {moving})",
        "neighbouring shapes": f"{int(families) - int(apart)} of {families}",
        "a backward pass": f"{of_copy} ({missed} of {passes})",
    }
    for start, expected in told.items():
        row = re.search(rf"^\| {start}.*", page, re.MULTILINE)
        assert row and row[0].strip("| ").split(" | ")[column] == expected
    readme = (ROOT / "README.md").read_text()
    slower = f"more than 5% slower in {behind}" if column == 1 else behind
    assert f"{mean} times ({slower})" in readme or f"; {mean} ({behind}) |" in readme
    assert f"{allocated} times ({later})" in readme or f"; {allocated} ({later}) |" in readme
