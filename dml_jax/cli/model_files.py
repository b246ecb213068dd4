"""Models, graphs and networks for the commands: their options, and how files and stdin are read."""

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.terminal import STDIN
from dml_jax.enums import FeatureLevel
from dml_jax.errors import OF_UNSET_SIZES, DmlError, Fault, Sentence, inside, raise_if
from dml_jax.onnx.options import AS_THE_MODEL_SAYS, NetworkOptions
from dml_jax.system.files import absolute, parse_text, unreadable

if TYPE_CHECKING:
    from dml_jax.onnx import Network


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


def pairs_option(names: str, meaning: str, convert: Callable[[str], Any], text: str) -> Any:
    """Return the option of `names` that takes names with values; `meaning` is how it looks.

    A name ends at `=`, or, where no file follows, which may hold one, at `:`.
    """
    marks = "=" if convert is Path else ":="

    def callback(ctx: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Any:
        found = {}
        for value in values:
            end = max(map(value.rfind, marks))
            name, word = value[: max(end, 0)], value[end + 1 :]
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
    pairs_option(
        "-f --onnx_free_dim_name_override names",
        "NAME:SIZE, as batch:8",
        _size,
        "Size of a free dimension of an ONNX network (others have size 1), also as batch=8.",
    ),
    pairs_option(
        "-F --onnx_free_dim_denotation_override denotations",
        "NAME:SIZE, as batch:8",
        _size,
        "The same, for dimensions with this denotation, as DATA_BATCH. Repeatable.",
    ),
    pairs_option(
        "-b --binding_shape shapes",
        "NAME:SIZES, as x:2,3",
        _shape,
        "Sizes of an input of an ONNX network, as x:2,3. Repeatable.",
    ),
    pairs_option(
        "--constant constants",
        "NAME:NUMBERS, as rate:16000 (true is 1)",
        _numbers,
        "Value that an input of an ONNX network always has, as rate:16000. Repeatable.",
    ),
    pairs_option(
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

    for option in reversed(_OPTIONS):  # as decorators that stand in the order of the help
        command = option(command)
    return command


def load(
    path: Path,
    options: NetworkOptions = AS_THE_MODEL_SAYS,
    folder: Path | None = None,
    takes_graphs: bool = False,
) -> Any:
    """Return the model at `path`, or of standard input, or the graph if `takes_graphs`.

    `options` are those of networks; the model's files are in `folder`, or else in its own. Raises
    `DmlError` with all faults.
    """
    from dml_jax.dxdispatch.parsing import parse_model
    from dml_jax.dxdispatch.reading import folder_of, parse_json, read_json
    from dml_jax.graph import Graph

    if takes_graphs:
        _refuse_folder(path)
    if path.suffix.lower() == ".py":
        is_of_ort = path.is_file() and b"onnxruntime" in path.read_bytes()
        runner = f"python -m dml_jax.{'onnxruntime' if is_of_ort else 'pydirectml'}"
        text = f"'{path}' is a program: {runner} {path}"
        raise DmlError([Fault("", "", Sentence(text), "")])
    if path == STDIN:
        value = parse_text(sys.stdin.buffer.read(), "Model '-'", parse_json)
    else:
        value = read_json(path)
    if takes_graphs and isinstance(value, dict) and "Nodes" in value:
        with inside(f"Graph '{path}'"):
            return Graph.from_json(value, folder_of(path))
    shared = replace(options, is_shared=True)
    model = parse_model(value, folder or folder_of(path), str(path), shared)
    return model if path == STDIN else replace(model, path=absolute(path))


def _refuse_folder(path: Path) -> None:
    if path.is_dir():
        text = Sentence(f"'{path}' is a folder: dml-jax check {path}")
        raise DmlError([Fault("", "", text, "")])


def with_sizes_of(options: NetworkOptions, path: Path, files: Mapping[str, Path]) -> NetworkOptions:
    """Return the options with sizes of .npy `files` for free dimensions of the network at `path`.

    The caller's own sizes come first.
    """
    import numpy as np

    from dml_jax.onnx import free_names

    names, shapes = dict[str, int](), dict[str, Sequence[int]]()
    for name, dims in free_names(path).items() if path.is_file() else ():
        if name not in files or files[name].suffix != ".npy" or name in options.shapes:
            continue
        with contextlib.suppress(OSError, ValueError):  # the run says what is wrong with a file
            sizes = np.load(files[name], mmap_mode="r").shape
            if len(sizes) == len(dims):
                names |= {dim: size for dim, size in zip(dims, sizes, strict=True) if dim}
                shapes |= {name: sizes} if "" in dims else {}
    if options.denotations:  # which may be those of these dimensions
        return options
    return replace(options, names=names | {**options.names}, shapes=shapes | {**options.shapes})


def load_network(path: Path, options: NetworkOptions) -> "Network":
    """Return the network at `path`; free dimensions without a size have size 1.

    Raises `DmlError` with all faults.
    """
    from dml_jax.dxdispatch.network_files import NetworkFile

    _refuse_folder(path)
    if not path.is_file():
        missing = FileNotFoundError(0, "no such file")
        raise unreadable(path, OSError(0, "a device") if path.exists() else missing)
    try:
        return NetworkFile(path.absolute(), NetworkOptions(), options).load({})
    except DmlError as error:
        raise DmlError(_of_any_sizes(path, error.faults)) from None


def _of_any_sizes(path: Path, faults: Sequence[Fault]) -> Sequence[Fault]:
    """Return the faults of nodes that no free size cures; `faults` where there are none."""
    if any(fault.kind == OF_UNSET_SIZES for fault in faults):
        from dml_jax.onnxruntime import InferenceSession
        from dml_jax.onnxruntime.errors import ModelError, OnnxRuntimeError

        try:
            InferenceSession(path)
        except OnnxRuntimeError as error:  # another one is not of the sizes
            return error.faults if isinstance(error, ModelError) else faults
    return faults


def is_network(path: Path) -> bool:
    """Return whether a file is named as an ONNX model."""
    return path.suffix.lower() == ".onnx"


def load_file(
    path: Path,
    options: NetworkOptions,
    feature_level: FeatureLevel | None = None,
    folder: Path | None = None,
    takes_graphs: bool = False,
) -> Any:
    """Return the network at `path`, or the model or graph, as `load` takes its arguments.

    Raises `DmlError` with all faults, also if `feature_level` does not accept all its operators.
    """
    if is_network(path):
        loaded = load_network(path, options)
    else:
        loaded = load(path, options, folder, takes_graphs)
    if feature_level is not None:
        raise_if(loaded.refused_at(feature_level))
    return loaded
