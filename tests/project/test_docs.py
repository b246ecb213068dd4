"""Every snippet of the docs is run, and no link is dead."""

import importlib
import inspect
import json
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from documented_facts import DOCUMENTED
from language_folders import write_folder
from processes import python
from snippets import run_page

from dml_jax import OPERATORS, FeatureLevel, Operator
from dml_jax.operator.documentation import Documentation, matrices

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from pages import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    MEMBERS,
    families,
    navigation,
    operator_page,
    page_of,
    pages,
    written,
)

WRITTEN = sorted((ROOT / "docs").rglob("*.md"))
MADE: dict[str, Any] = dict(pages())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder but for the examples; operators that a page adds are gone afterwards."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    known = dict(OPERATORS)
    yield tmp_path
    for name in set(OPERATORS) - set(known):
        OPERATORS._built.pop(name)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_written_pages(page: Path, folder: Path):
    if page.name == "language-models.md":
        write_folder(folder / "FOLDER")
    run_page(page.name, page.read_text())


@pytest.mark.parametrize("page", [*WRITTEN, *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_files_that_pages_name_are_there(page: Path):
    """`fold.py`, `folds/fold.py`, or from the root `dml_jax/lowering/folds/fold.py`."""
    rooms = ("dml_jax", "tests", "docs", "benchmarks", "examples", "tools")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    files += ROOT.glob("*.py")
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in files]
    for name in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        assert any(path.endswith(f"/{name}") for path in paths), name


@pytest.mark.parametrize("op", OPERATORS.values(), ids=lambda op: op.__name__)
def test_operators_pages(op: type, folder: Path, monkeypatch: pytest.MonkeyPatch):
    text, called = MADE[page_of(op)], []
    plain = Operator.__call__
    monkeypatch.setattr(
        Operator, "__call__", lambda self, *xs: (called.append(type(self)), plain(self, *xs))[1]
    )
    run_page(op.__name__, text)
    assert op in called, f"{op.__name__}: a call, of this version: docs/calls.txt"
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text):
        assert MADE[f"operators/{picture}"].startswith("<svg")


def test_the_pages_of_operators_say_the_meaning_first():
    expected = ["Formula", "Examples", "Choices", "Gradient", "Fields", "Memory", "Source"]
    expected.append("Feature levels")
    for op in OPERATORS.values():
        found = re.findall(r"^## (.+)$", MADE[page_of(op)], re.MULTILINE)
        assert found == [part for part in expected if part in found]
        assert set(expected) - set(found) <= {"Choices"}


def test_the_menu_has_every_operator_in_its_family():
    menu = navigation()
    listed = [op for ops in families().values() for op in ops]
    assert len(listed) == len(OPERATORS)
    assert set(listed) == set(OPERATORS.values())
    for title, ops in families().items():
        family = menu.partition(f"    * {title}\n")[2]
        assert re.findall(r"        \* \[\w+\]\((.+)\)", family)[: len(ops)] == [
            page_of(op) for op in ops
        ]


@pytest.mark.parametrize(
    "path, text", list(written()), ids=lambda value: getattr(value, "name", "")
)
def test_what_is_generated_is_up_to_date(path: Path, text: str):
    assert path.read_text() == text, "python docs/pages.py"


@pytest.mark.parametrize("op", OPERATORS.values(), ids=lambda op: op.__name__)
def test_no_operator_is_half_declared(op: type):
    """Its docstring, with those of its bases, has all parts."""
    text = Documentation.of(op)
    assert text.summary.endswith(".")
    assert "\n" not in text.summary.strip() or text.summary.count("\n") == 1
    assert text.gradient.endswith(".")
    assert any("`" in part for part in text.formula), "a formula"
    assert set(text.fields) == {f.name for f in op.fields}
    assert all(text.fields.values())
    assert text.source == f"{op.c_name.replace('OPERATOR_', '')}_OPERATOR_DESC"
    assert all(m.ranks for m in matrices(op))
    for part in ("## Feature levels", "## Gradient", "## Memory", "## Source"):
        assert part in operator_page(op, [], [])


def test_the_catalogue_has_every_operator_and_level():
    text = MADE["operators/index.md"]
    for name, facts in DOCUMENTED.items():
        assert f"[{name.removeprefix('DML_OPERATOR_')}](" in text
        for row in facts["support"]:
            assert f" {FeatureLevel.of(row['feature_level'])} |" in text


def test_the_levels_of_a_family_fit_a_screen():
    """Operators with the same levels share a row."""
    tables = MADE["operators/index.md"].partition("# By feature level")[2].split("\n## ")[1:]
    assert [table.partition(": levels")[0] for table in tables] == [*families()]
    for table, ops in zip(tables, families().values(), strict=True):
        rows = [line for line in table.splitlines() if line.startswith("| [")]
        assert len(rows) <= 12
        assert all(f"[{op.short_name}](" in "".join(rows) for op in ops)


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
    target = tmp_path_factory.mktemp("site")
    built = python("-m", "mkdocs", "build", "--strict", "-d", target, cwd=ROOT)
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


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("LayerNormalization", "mean_variance_normalization1"),
        ("jax.nn.gelu", "activation_gelu"),
        ("torch.cumsum", "cumulative_summation"),
        ("jnp.cumsum", "cumulative_summation"),
        ("ActivationHardmax", "activation_hardmax1"),
    ],
)
def test_search_finds_operators_by_their_names_elsewhere(site: Path, word: str, page: str):
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"] for entry in index["docs"] if word in entry["text"]}
    assert f"operators/{page}/" in found
    assert any(location.startswith("names/") for location in found)


def test_members_of_the_reference_are_there():
    for name, members in MEMBERS.items():
        module, _, part = name.rpartition(".")
        cls = getattr(importlib.import_module(f"dml_jax.{module}"), part)
        fields = {field for base in cls.__mro__ for field in inspect.get_annotations(base)}
        kept = {"faults", "array"}  # what only __init__ sets
        assert [m for m in members.split() if not hasattr(cls, m) and m not in fields | kept] == []


def test_pages_can_be_read_in_one_sitting():
    """The words that people wrote, code included; what scripts write is not counted."""
    made = {"measurements.md", "conformance.md", "functions.md", "platforms.md"}
    counted = [path for path in WRITTEN if path.name not in made]
    counted += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    filled = re.compile(r"<!-- (\w+) -->.*?<!-- end of \1 -->", re.DOTALL)
    texts = (filled.sub("", path.read_text()) for path in counted)
    assert sum(len(text.split()) for text in texts) <= 18500
    assert len((ROOT / "docs" / "performance.md").read_text().splitlines()) <= 120
