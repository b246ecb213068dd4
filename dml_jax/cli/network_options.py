"""Options of commands that take ONNX networks, and pictures as their inputs."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from dml_jax.onnx.options import NetworkOptions


def _size(text: str) -> int:
    if not text.isdigit():
        raise ValueError
    return int(text)


def _shape(text: str) -> tuple[int, ...]:
    return tuple(map(_size, text.split(",")))


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _numbers(text: str) -> Any:
    return [*map(_number, text.split(","))] if "," in text else _number(text)


def _of_pairs(names: str, meaning: str, convert: Callable[[str], Any], text: str) -> Any:
    """Return the option of `names` that takes names with values; `meaning` is how it looks."""
    mark = "=" if "=" in meaning else ":"

    def callback(ctx: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Any:
        found = {}
        for value in values:
            name, _, word = value.rpartition(mark)
            try:
                if not name:
                    raise ValueError
                found[name] = convert(word)
            except ValueError:
                raise click.BadParameter(f"{value!r} is not {meaning}.") from None
        return found

    metavar = meaning.partition(",")[0]
    return click.option(
        *names.split(), metavar=metavar, multiple=True, callback=callback, help=text
    )


_OPTIONS = (
    click.option(
        "--fallback",
        is_flag=True,
        help="Compute nodes that DirectML has no operator for with JAX functions.",
    ),
    _of_pairs(
        "-f --onnx_free_dim_name_override names",
        "NAME:SIZE, as batch:8",
        _size,
        "Size of a free dimension of an ONNX network (others have size 1). Repeatable.",
    ),
    _of_pairs(
        "-F --onnx_free_dim_denotation_override denotations",
        "NAME:SIZE, as batch:8",
        _size,
        "The same, for dimensions with this denotation, as DATA_BATCH. Repeatable.",
    ),
    _of_pairs(
        "-b --binding_shape shapes",
        "NAME:SIZES, as x:2,3",
        _shape,
        "Sizes of an input of an ONNX network, as x:2,3. Repeatable.",
    ),
    _of_pairs(
        "--constant constants",
        "NAME:NUMBERS, as rate:16000",
        _numbers,
        "Value that an input of an ONNX network always has, as rate:16000. Repeatable.",
    ),
    _of_pairs(
        "--bounds bounds",
        "NAME=SIZE, as frames=4000",
        _size,
        "Largest size of what data decides in an ONNX network, as frames=4000. Repeatable.",
    ),
)


def network_options(function: Any) -> Any:
    """Add the options of networks; the command takes them as `options`, a `NetworkOptions`."""

    @functools.wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        names = ("names", "denotations", "shapes", "constants", "fallback")
        options = NetworkOptions(*map(given.pop, names), bounds=given.pop("bounds"))
        return function(*arguments, options=options, **given)

    return with_options(command, *_OPTIONS)


def with_options(function: Any, *options: Any) -> Any:
    """Add `options` to a command, in the order of its help."""
    for option in reversed(options):
        function = option(function)
    return function


def _channels(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else tuple(map(float, value.split(",")))
    except ValueError:
        raise click.BadParameter(f"{value!r} is not NUMBERS, as 0.485,0.456,0.406.") from None


_INPUTS = (
    _of_pairs(
        "--input inputs",
        "NAME=FILE",
        Path,
        "File of an input of a network (others are random), or of a model's resource: .npy, a "
        "picture, or raw bytes. Repeatable.",
    ),
    click.option(
        "--mean",
        callback=_channels,
        metavar="NUMBERS",
        help="What is subtracted from pictures in [0, 1], as 0.485,0.456,0.406.",
    ),
    click.option(
        "--std",
        callback=_channels,
        metavar="NUMBERS",
        help="What pictures in [0, 1] are divided by after --mean: one number, or one for each "
        "channel.",
    ),
    click.option(
        "--labels",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A label for each number of an output, one a line: the five largest are listed.",
    ),
)


def input_options(function: Any) -> Any:
    """Add the options of files as inputs, and of labels for outputs."""
    return with_options(function, *_INPUTS)
