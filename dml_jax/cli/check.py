"""`dml-jax check`: checks models whole and runs nothing."""

import sys
from pathlib import Path

import click

from dml_jax.cli.folders import Checked, check_files, check_program, show_folder
from dml_jax.cli.model_files import is_network, load_file
from dml_jax.cli.network_options import network_options
from dml_jax.cli.tables import check_network, show_model
from dml_jax.cli.terminal import INPUT, Command, json_option, level_option, reporting
from dml_jax.enums import FeatureLevel
from dml_jax.errors import NOTHING, DmlError, Fault, Sentence, inside, raise_if
from dml_jax.onnx.options import NetworkOptions


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
        faults, runs = list[Fault](), True
        for path in models:
            if path.is_dir():
                files = list(check_files(path, options, feature_level))
                if not files and len(models) == 1:  # among others it is no mistake
                    rule = "hold a model, a graph, an ONNX network or a PyDirectML program"
                    faults.append(Fault("", f"the folder '{path}'", rule, NOTHING))
                    continue
                show_folder(path, files, as_json)
                runs = runs and not any(file.faults for file in files)
                continue
            name = str(path) if len(models) > 1 else ""
            try:
                if path.suffix.lower() == ".py":
                    file = _program(path, feature_level)
                    show_folder(path, [file], as_json)
                    runs = runs and not file.faults
                    continue
                loaded = load_file(path, options, feature_level)
            except DmlError as error:  # the other models are checked all the same
                faults += (error.within(name) if name else error).faults
            else:
                (check_network if is_network(path) else show_model)(loaded, as_json, name)
        raise_if(faults)
        if not runs:  # the table has said why
            sys.exit(1)


def _program(path: Path, feature_level: FeatureLevel | None) -> Checked:
    """Return what is to be said of a program. Raises `DmlError` if it has no PyDirectML."""
    with inside(f"Program '{path}'"):
        file = check_program(path, path, feature_level)
    if file is None:
        text = f"'{path}' is a program that does not import pydirectml"
        raise DmlError([Fault("", "", Sentence(text), "")])
    return file
