"""`dml-jax check`: a model checked whole, and nothing run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dml_jax.cli.terminal import (
    FILE,
    as_values,
    json_option,
    level_option,
    reporting,
    say_json,
    show_table,
)
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault

if TYPE_CHECKING:
    from dml_jax.dispatch.model import Model


@click.command()
@click.argument("model", type=FILE)
@level_option
@json_option
def check(model: Path, feature_level: FeatureLevel | None, as_json: bool) -> None:
    """Check MODEL, a DxDispatch JSON model, and run nothing.

    Every mistake is listed; without any, each operator with its tensors and its lowest feature
    level.

    \b
    dml-jax check model.json
    dml-jax check model.json --feature-level 2_1   would a driver of that level take it?
    dml-jax check model.json --json                with the reasons that lower levels refuse it
    """  # noqa: D301  (click reads \b as a control character)
    with reporting(as_json):
        show_model(load(model, feature_level), as_json)


def load(path: Path, feature_level: FeatureLevel | None, folder: Path | None = None) -> "Model":
    """The model of a file; refused where the feature level does not take all of its operators."""
    from dml_jax.dispatch.model import load_model

    model = load_model(path, folder)
    if feature_level is not None:
        faults: list[Fault] = []
        for dispatchable in model.dispatchables.values():
            found = DmlError(dispatchable.operator.refused_at(feature_level))
            faults += found.within(dispatchable.context).faults
        if faults:
            raise DmlError(faults)
    return model


def show_model(model: "Model", as_json: bool) -> None:
    from dml_jax.drawing import kind_of

    ops = ((name, d.operator) for name, d in model.dispatchables.items())
    rows = ((name, kind_of(op), op) for name, op in ops)
    if as_json:
        say_json({"dispatchables": [as_values(*row) for row in rows]})
    else:
        show_table("Dispatchable", rows)
