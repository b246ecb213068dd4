"""`dml-jax check`: a model checked whole, and nothing run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dml_jax.cli.terminal import (
    INPUT,
    STDIN,
    as_values,
    json_option,
    level_option,
    read_stdin,
    reporting,
    say_json,
    show_table,
)
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault

if TYPE_CHECKING:
    from dml_jax.dispatch.model import Model


@click.command()
@click.argument("models", metavar="MODEL...", type=INPUT, nargs=-1, required=True)
@level_option
@json_option
def check(models: tuple[Path, ...], feature_level: FeatureLevel | None, as_json: bool) -> None:
    """Check each MODEL, a DxDispatch JSON model, and run nothing.

    Every mistake is listed; without any, each operator with its tensors and its lowest feature
    level. With --json a line for each model, and one for what is wrong.

    \b
    dml-jax check model.json
    dml-jax check models/*.json                    all of a folder
    dml-jax check model.json --feature-level 2_1   would a driver of that level take it?
    cat model.json | dml-jax check -               that of standard input
    dml-jax check model.json --json                with the reasons that lower levels refuse it
    """  # noqa: D301  (click reads \b as a control character)
    with reporting(as_json):
        faults: list[Fault] = []
        for path in models:
            name = str(path) if len(models) > 1 else ""
            try:
                loaded = load(path, feature_level)
            except DmlError as error:  # the others are checked all the same
                faults += (error.within(name) if name else error).faults
            else:
                show_model(loaded, as_json, name)
        if faults:
            raise DmlError(faults)


def load(
    path: Path, feature_level: FeatureLevel | None = None, folder: Path | None = None
) -> "Model":
    """The model of a file, or `STDIN`; refused where the level does not take all its operators."""
    from dml_jax.dispatch.model import load_model, parse_model

    stdin = path == STDIN
    model = parse_model(read_stdin(), folder or Path()) if stdin else load_model(path, folder)
    if feature_level is not None:
        faults: list[Fault] = []
        for dispatchable in model.dispatchables.values():
            found = DmlError(dispatchable.operator.refused_at(feature_level))
            faults += found.within(dispatchable.context).faults
        if faults:
            raise DmlError(faults)
    return model


def show_model(model: "Model", as_json: bool, name: str = "") -> None:
    """Its operators; by `name` where it is one of several."""
    from dml_jax.diagrams import kind_of

    ops = ((key, d.operator) for key, d in model.dispatchables.items())
    rows = ((key, kind_of(op), op) for key, op in ops)
    if as_json:
        known = {"model": name} if name else {}
        say_json(known | {"dispatchables": [as_values(*row) for row in rows]})
    else:
        show_table(name or "Dispatchable", rows)
