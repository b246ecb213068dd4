"""`dml-jax check`: checks models whole and runs nothing; of folders a table of what runs."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from dml_jax.cli.model_files import is_network, load_file, network_options
from dml_jax.cli.terminal import (
    INPUT,
    Command,
    faults_as_values,
    json_option,
    level_option,
    lines_of,
    reporting,
    say_json,
)
from dml_jax.enums import FeatureLevel
from dml_jax.errors import (
    NOTHING,
    OF_SIZES,
    OF_UNSET_SIZES,
    DmlError,
    Fault,
    Sentence,
    Unquoted,
    inside,
    printable,
    raise_if,
)
from dml_jax.onnx.options import NetworkOptions

_KINDS = {".json": "model", ".py": "program", ".onnx": "network"}
_SHOWN = 4  # faults of a file in the table; --json has all


@click.command(cls=Command)
@click.argument("models", metavar="MODEL...", type=INPUT, nargs=-1, required=True)
@network_options
@level_option()
@json_option
def check(
    models: tuple[Path, ...],
    options: NetworkOptions,
    feature_level: FeatureLevel | None,
    as_json: bool,
) -> None:
    """Check each MODEL, a DxDispatch JSON model or an ONNX network, and run nothing.

    The report lists every mistake. For a model without mistakes it lists each operator with its
    tensors and its lowest feature level; for a network its operators, memory and arithmetic. With
    --json each model is a line, and so are all mistakes.

    MODEL may be a PyDirectML program, or a folder. One table says of all models, graphs, ONNX
    networks and PyDirectML programs in it which of them run, what is missing, and their lowest
    feature levels. Programs are read, and not run: only names and arguments are checked.

    \b
    dml-jax check model.json
    dml-jax check models/*.json                    check all models of a folder
    dml-jax check model.json --feature-level 2_1   would a driver of that level accept it?
    cat model.json | dml-jax check -               check the model on standard input
    dml-jax check network.onnx -f batch:8          check a network, with a batch of 8
    dml-jax check port                             a table of all that is in the folder
    dml-jax check model.json --json                add why lower levels refuse it
    """  # noqa: D301  (click reads \b as a control character)
    with reporting(as_json):
        from dml_jax.cli.tables import check_network, show_model

        faults, runs = list[Fault](), True
        for path in models:
            if path.is_dir():
                files = list(_check_files(path, options, feature_level))
                if not files and len(models) == 1:  # among others it is no mistake
                    rule = "hold a model, a graph, an ONNX network or a PyDirectML program"
                    faults.append(Fault("", f"the folder '{path}'", rule, NOTHING))
                    continue
                _show_folder(path, files, as_json)
                runs = runs and not any(file.faults for file in files)
                continue
            name = str(path) if len(models) > 1 else ""
            try:
                if path.suffix.lower() == ".py":
                    with inside(f"Program '{path}'"):
                        file = _check_program(path, path, feature_level)
                    if file is None:
                        text = f"'{path}' is a program that does not import pydirectml (python -m "
                        text += "dml_jax.onnxruntime runs programs that import onnxruntime)"
                        raise DmlError([Fault("", "", Sentence(text), "")])
                    _show_folder(path, [file], as_json)
                    runs = runs and not file.faults
                    continue
                loaded = load_file(path, options, feature_level)
            except DmlError as error:  # the other models are checked all the same
                own = (error.within(name) if name else error).faults
                if as_json or len(models) == 1:
                    faults += own
                else:
                    click.echo(lines_of(own), err=True)
                    runs = False
                continue
            if name and not as_json:
                click.echo(f"{printable(name)}:")
            show_it = check_network if is_network(path) else show_model
            show_it(loaded, as_json, {"model": name} if name else {})
        raise_if(faults)
        if not runs:  # the table has said why
            sys.exit(1)


@dataclass(frozen=True)
class _Checked:
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


def _check_files(
    folder: Path, options: NetworkOptions, feature_level: FeatureLevel | None
) -> Iterator[_Checked]:
    """Yield what is to be said of each model, graph, network and program in a folder, by name.

    JSON files that are none of these are left out, and Python files that do not import PyDirectML.
    """
    found = (p for p in folder.rglob("*") if p.suffix.lower() in _KINDS and not p.is_dir())
    for path in sorted(found):
        kind, name = _KINDS[path.suffix.lower()], path.relative_to(folder)
        try:
            if kind == "program":
                program = _check_program(path, name, feature_level)
                if program is not None:
                    yield program
                continue
            if kind == "model":
                kind = _kind_of_json(path)
            if kind:
                known = replace(options, is_shared=True)
                loaded = load_file(path, known, feature_level, takes_graphs=True)
                yield _Checked(name, kind, loaded.minimum_feature_level)
        except DmlError as error:
            yield _Checked(name, kind, None, error.faults)


def _check_program(path: Path, name: Path, feature_level: FeatureLevel | None) -> _Checked | None:
    """Return what is to be said of a Python file, None where it does not import PyDirectML.

    Raises `DmlError` if the file cannot be read, or is no Python.
    """
    from dml_jax.cli.pydirectml_programs import read_program

    program = read_program(path)
    if program is None:
        return None
    faults, lowest = program
    if feature_level is not None and lowest > feature_level:
        rule, value = f"be at least {lowest}", Unquoted(feature_level)
        faults.append(Fault("", "the feature level", rule, value))
    return _Checked(name, "program", None if faults else lowest, tuple(faults))


def _kind_of_json(path: Path) -> str:
    """Return what a JSON file holds, "" for neither. Raises `DmlError` if it cannot be read."""
    from dml_jax.dxdispatch.reading import read_json

    value = read_json(path)
    keys = value.keys() if isinstance(value, dict) else ()
    return "graph" if "Nodes" in keys else "model" if "dispatchables" in keys else ""


def _show_folder(folder: Path, files: list[_Checked], as_json: bool) -> None:
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
    from dml_jax.cli.tables import show_cells

    rows = []
    for file in files:
        kinds = {fault.kind for fault in file.faults if not fault.operator}
        unset = OF_UNSET_SIZES in kinds <= {OF_UNSET_SIZES, OF_SIZES}
        text = lines_of(file.faults, _SHOWN)
        level = file.level.suffix if file.level else ""
        is_running = "needs sizes" if unset else "no" if file.faults else "yes"
        rows.append((printable(file.path.as_posix()), file.kind, is_running, level, text))
    if rows:
        show_cells(("File", "Kind", "Runs", "Lowest level", "Missing"), *rows)
    count = sum(not file.faults for file in files)
    click.echo(f"{printable(str(folder))}: {count} of {len(files)} files run.")
    if any(file.kind == "program" for file in files):
        click.echo("Programs are read, not run: names and arguments are checked, sizes are not.")
