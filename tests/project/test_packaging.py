"""What is shipped is whole, and what describes it agrees. `.ci/run` builds and installs it."""

import re
import tomllib
from pathlib import Path

import jax
import pytest
from packaging.version import Version
from processes import python

import dml_jax
from dml_jax import OPERATORS, Tile

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
CHANGELOG, CITATION = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
PYTHONS = ["3.11", "3.12", "3.13"]


def test_one_version_everywhere():
    assert f"\nversion: {dml_jax.__version__}\n" in CITATION
    headings = re.findall(r"^## ([\w.]+)", CHANGELOG, re.MULTILINE)
    assert next(name for name in headings if name != "Unreleased") == dml_jax.__version__


def test_the_release_is_dated():
    (date,) = re.findall(rf"^## {re.escape(dml_jax.__version__)}, ([\d-]{{10}})$", CHANGELOG, re.M)
    assert f"\ndate-released: {date}\n" in CITATION


def test_tools_have_one_version_everywhere():
    """Those that judge the code, so that a commit of yesterday is judged alike tomorrow."""
    dev = dict(r.split("==") for r in EXTRAS["dev"] if not r.startswith("dml-jax"))
    assert {"ruff", "pyright", "import-linter"} <= set(dev)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    pinned = re.findall(r'"([\w-]+)==([\d.]+)"', hooks)
    assert {name for name, _ in pinned} == {"ruff", "import-linter"}
    assert all(dev[name] == version for name, version in pinned)
    assert set(re.findall(r"- id: ([\w-]+)", hooks)) >= {"ruff-check", "pyright", "lint-imports"}


def test_the_nightly_job_is_the_nightly_command():
    text = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert "schedule:" in text and "bash .ci/nightly\n" in text
    command = (ROOT / ".ci" / "nightly").read_text()
    for part in ("fuzz_files.py", "large.py", "AVX2", "libtpu", "onnx_networks.py", "newest-jax"):
        assert part in command
    for version in PYTHONS:
        assert version in command


def test_one_licence_everywhere():
    assert PROJECT["project"]["license"] == "MIT"
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert "\nlicense: MIT\n" in CITATION


def test_extras_that_are_named_are_there():
    """In the docs, in messages, and of each other."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    texts = [path.read_text() for path in (*paths, *(ROOT / "dml_jax").rglob("*.py"))]
    texts += (requirement for requirements in EXTRAS.values() for requirement in requirements)
    lists = (re.findall(r"(?:dml-jax|\.)\[([a-z,]+)\]", text) for text in texts)
    named = {extra for found in lists for extras in found for extra in extras.split(",")}
    assert {"cli", "show", "export", "test", "dev"} <= named <= set(EXTRAS)


def test_the_core_needs_jax_and_numpy_alone():
    names = [re.split("[^a-z]", r)[0] for r in PROJECT["project"]["dependencies"]]
    assert names == ["jax", "jaxlib", "numpy"]
    code = (
        "import sys; import jax; before = set(sys.modules); import dml_jax;"
        "assert 'dml_jax.dxdispatch' not in sys.modules and callable(dml_jax.run_model);"
        "print(*sorted({m.partition('.')[0] for m in set(sys.modules) - before}"
        " - set(sys.stdlib_module_names)))"
    )
    loaded = python("-c", code).stdout.split()
    assert {"dml_jax"} <= set(loaded) <= {"dml_jax", "jax", "jaxlib", "numpy", "ml_dtypes"}


def test_an_operator_needs_no_docstring_to_run():
    """`python -OO` strips them."""

    class Bare(Tile, op="BARE"):
        pass

    assert OPERATORS._built.pop("DML_OPERATOR_BARE") is Bare
    assert Bare.__doc__ is None


def test_the_workflow_tries_every_system_and_python():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    for command in ("bash .ci/run", "bash .ci/smoke", "bash .ci/smoke --newest-jax"):
        assert f"- run: {command}\n" in text
    for system in ("ubuntu-latest", "macos-latest", "windows-latest"):
        assert system in text
    classifiers = PROJECT["project"]["classifiers"]
    for version in PYTHONS:
        assert f'"{version}"' in text
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"


def test_jax_is_bounded_by_what_was_tested():
    version = Version(jax.__version__)
    for requirement in PROJECT["project"]["dependencies"][:2]:
        bounds = re.fullmatch(r"\w+>=([\d.]+),<([\d.]+)", requirement)
        assert bounds and Version(bounds[1]) <= version < Version(bounds[2])


def test_modules_import_their_own_layer_and_lower_ones():
    pytest.importorskip("importlinter", reason="import-linter comes with the extra dev")
    from importlinter.cli import lint_imports

    assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == 0


@pytest.mark.parametrize("name", ["setup", "check"])
def test_contributing_has_two_commands(name: str):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (command,) = re.findall(rf"<!-- command: {name} -->\n```sh\n(.*)\n```", text)
    assert ".venv/bin/" in command
    assert f"CONTRIBUTING.md {name}" in (ROOT / ".ci" / "run").read_text()


def test_the_sdist_names_what_there_is():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all((ROOT / name).exists() for name in included)
    visible = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert visible - {"dist", "site", "out", "pyproject.toml"} <= set(included)
