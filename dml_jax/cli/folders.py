"""Folders for `dml-jax check`: a table of what runs, of what is missing, and of feature levels."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from dml_jax.cli.model_files import load_file
from dml_jax.cli.pydirectml_programs import read_program
from dml_jax.cli.tables import show_cells
from dml_jax.cli.terminal import faults_as_values, say_json
from dml_jax.enums import FeatureLevel
from dml_jax.errors import OF_UNSET_SIZES, DmlError, Fault, Unquoted, printable
from dml_jax.onnx.options import NetworkOptions

_SHOWN = 3  # faults of a file in the table; --json has all


@dataclass(frozen=True)
class Checked:
    """What `dml-jax check` says of one file of a folder.

    Attributes:
        path: the file, from the folder on.
        kind: model, graph, network or program.
        level: the lowest feature level that has all of it; None where there are faults.
        faults: what is missing or wrong.
    """

    path: Path
    kind: str
    level: FeatureLevel | None
    faults: tuple[Fault, ...] = ()


def check_files(
    folder: Path, options: NetworkOptions, feature_level: FeatureLevel | None
) -> Iterator[Checked]:
    """Yield what is to be said of each model, graph, network and program in a folder, by name.

    JSON files that are none of these are left out, and Python files that do not import PyDirectML.
    """
    found = (p for p in folder.rglob("*") if p.suffix.lower() in _KINDS and not p.is_dir())
    for path in sorted(found):
        kind, name = _KINDS[path.suffix.lower()], path.relative_to(folder)
        try:
            if kind == "program":
                program = check_program(path, name, feature_level)
                if program is not None:
                    yield program
                continue
            if kind == "model":
                kind = _kind_of_json(path)
            if kind:
                known = replace(options, is_shared=True)
                loaded = load_file(path, known, feature_level, takes_graphs=True)
                yield Checked(name, kind, loaded.minimum_feature_level)
        except DmlError as error:
            yield Checked(name, kind, None, error.faults)


def check_program(path: Path, name: Path, feature_level: FeatureLevel | None) -> Checked | None:
    """Return what is to be said of a Python file, None where it does not import PyDirectML.

    Raises `DmlError` if the file cannot be read, or is no Python.
    """
    program = read_program(path)
    if program is None:
        return None
    faults, lowest = [*program.faults], program.feature_level
    if feature_level is not None and lowest > feature_level:
        rule, value = f"be at least {lowest}", Unquoted(feature_level)
        faults.append(Fault("", "the feature level", rule, value))
    return Checked(name, "program", None if faults else lowest, tuple(faults))


_KINDS = {".json": "model", ".py": "program", ".onnx": "network"}


def _kind_of_json(path: Path) -> str:
    """Return what a JSON file holds, "" for neither. Raises `DmlError` if it cannot be read."""
    from dml_jax.dxdispatch.reading import read_json

    value = read_json(path)
    keys = value.keys() if isinstance(value, dict) else ()
    return "graph" if "Nodes" in keys else "model" if "dispatchables" in keys else ""


def show_folder(folder: Path, files: list[Checked], as_json: bool) -> None:
    """Print the table of a folder."""
    if as_json:
        values = [
            {
                "file": file.path.as_posix(),
                "kind": file.kind,
                "runs": not file.faults,
                "feature_level": file.level.suffix if file.level else None,
                "faults": faults_as_values(file.faults),
            }
            for file in files
        ]
        say_json({"folder": str(folder), "files": values})
        return
    rows = []
    for file in files:
        unset = [fault for fault in file.faults if fault.kind == OF_UNSET_SIZES]
        others = [fault for fault in file.faults if fault.kind != OF_UNSET_SIZES]
        lines = [str(fault) for fault in (*unset, *others[:_SHOWN])]
        rest = len(others) - _SHOWN
        lines += [f"... {rest} more (--json has all)"] * (rest > 0)
        level = file.level.suffix if file.level else ""
        is_running = "needs sizes" if unset else "no" if file.faults else "yes"
        rows.append(
            (printable(file.path.as_posix()), file.kind, is_running, level, "\n".join(lines))
        )
    if rows:
        show_cells(("File", "Kind", "Runs", "Lowest level", "Missing"), *rows)
    count = sum(not file.faults for file in files)
    click.echo(f"{printable(str(folder))}: {count} of {len(files)} files run.")
    if any(file.kind == "program" for file in files):
        click.echo("Programs are read, not run: names and arguments are checked, sizes are not.")
