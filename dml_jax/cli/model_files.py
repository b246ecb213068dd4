"""Models, graphs and networks for the commands: read from a file or standard input."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dml_jax.cli.terminal import STDIN, read_stdin
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted, inside, raise_if
from dml_jax.onnx.options import AS_THE_MODEL_SAYS, NetworkOptions
from dml_jax.system.files import absolute, similar_file

if TYPE_CHECKING:
    from dml_jax.onnx import Network


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
    from dml_jax.dxdispatch.reading import folder_of, read_json
    from dml_jax.graph import Graph

    if takes_graphs and path.is_dir():
        raise DmlError([folder_fault(path)])
    if path.suffix.lower() == ".py":
        text = f"'{path}' is a program: python -m dml_jax.pydirectml {path}"
        raise DmlError([Fault("", "", Sentence(text), "")])
    value = read_stdin() if path == STDIN else read_json(path)
    if takes_graphs and isinstance(value, dict) and "Nodes" in value:
        with inside(f"Graph '{path}'"):
            return Graph.from_json(value, folder_of(path))
    shared = replace(options, is_shared=True)
    model = parse_model(value, folder or folder_of(path), str(path), shared)
    return model if path == STDIN else replace(model, path=absolute(path))


def folder_fault(path: Path) -> Fault:
    """Return the fault of a folder where a file is wanted."""
    return Fault("", "", Sentence(f"'{path}' is a folder: dml-jax check {path}"), "")


def load_network(
    path: Path, options: NetworkOptions, feature_level: FeatureLevel | None = None
) -> "Network":
    """Return the network at `path`; free dimensions without a size have size 1.

    Raises `DmlError` with all faults, also if `feature_level` does not accept all its operators.
    """
    from dml_jax.dxdispatch.network_files import NetworkFile

    if path.is_dir():
        raise DmlError([folder_fault(path)])
    if not path.is_file():
        rule = f"be a file that can be read{similar_file(path)}"
        value = Unquoted("a device" if path.exists() else "no such file")
        raise DmlError([Fault("", f"the file '{path}'", rule, value)])
    network = NetworkFile(path.absolute(), NetworkOptions(), options).load({})
    if feature_level is not None:
        network.validate(feature_level)
    return network


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
        return load_network(path, options, feature_level)
    loaded = load(path, options, folder, takes_graphs)
    if feature_level is not None:
        raise_if(loaded.refused_at(feature_level))
    return loaded
