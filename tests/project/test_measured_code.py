"""Rows of results name the code that they measured; a release has tables of its own code."""

import functools
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dml_jax import OPERATORS

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import measured_code as code  # noqa: E402  # pyright: ignore[reportMissingImports]

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*-*.json"))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package, whose code is read."""
    copy = tmp_path / "dml_jax"
    shutil.copytree(code.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code, "PACKAGE", copy)
    yield copy
    forget()


def forget() -> None:
    code._module.cache_clear()
    code._registered.cache_clear()
    code.digest_of_rooms.cache_clear()
    code.digest_of_operator.cache_clear()


def digests() -> dict[str, str]:
    """Of four operators, and of networks."""
    forget()
    names = ("ACTIVATION_SOFTMAX", "TILE", "ELEMENT_WISE_CLIP", "REDUCE")
    found = {name: code.digest_of_operator(name) for name in names}
    return {**found, "networks": code.digest_of_rooms("networks")}


@functools.cache
def digests_of_the_copy() -> dict[str, str]:
    """Of the files before they change, which are the same in each test."""
    return digests()


def changed(file: Path, old: str, new: str) -> set[str]:
    """Whose digest changes with a part of a file."""
    before, text = digests_of_the_copy(), file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    after = digests()
    return {name for name in before if before[name] != after[name]}


def test_comments_and_docstrings_are_no_code(package: Path):
    softmax = package / "lowering" / "softmax.py"
    assert not changed(softmax, '"""Softmax', '"""A comment on softmax')
    assert not changed(softmax, "\ndef softmax(", "\n\n# A comment.\ndef softmax(")


@pytest.mark.parametrize(
    "file, old, new, whose",
    [
        ("lowering/softmax.py", "jnp.exp(_below", "lax.exp(_below", {"ACTIVATION_SOFTMAX"}),
        ("lowering/clamp.py", "lax.select(x >= h", "lax.select(x > h", {"ELEMENT_WISE_CLIP"}),
        ("lowering/arrangement.py", "if r > 1", "if r != 1", {"TILE"}),
        ("lowering/reduce/derivatives.py", "scale / (size", "scale * (size", {"REDUCE"}),
        ("operators/arrangement.py", "arrangement.tile(x", "arrangement.tile(+x", {"TILE"}),
        ("runtime/platform.py", "import", "import sys, ", set()),
    ],
)
def test_code_is_what_leads_from_lower(
    package: Path, file: str, old: str, new: str, whose: set[str]
):
    assert changed(package / file, old, new) == whose | {"networks"}


def test_every_operator_has_code_of_its_own():
    names = [op.short_name for op in OPERATORS.values()]
    assert len({code.digest_of_operator(name) for name in names}) == len(names)


@pytest.mark.skipif(
    "\n## Unreleased\n" in (ROOT / "CHANGELOG.md").read_text(),
    reason="code changes between releases, and the tables are measured for a release",
)
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_tables_of_a_release_are_of_its_code(path: Path):
    """All but a tenth of the rows."""
    tables = [t for name, t in json.loads(path.read_text()).items() if name in code.TABLES]
    rows = [
        row for table in tables for row in (table if isinstance(table, list) else table.values())
    ]
    kind = code.kind_of(path)
    marked = [row for row in rows if code.is_changed(kind, row)]
    assert rows and len(marked) <= len(rows) / 10
