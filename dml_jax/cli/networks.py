"""ONNX networks for the commands: loaded with sizes for free dimensions, shown and run."""

import collections
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from dml_jax.cli.models import folder_fault, rows_of
from dml_jax.cli.terminal import as_values, level_of, say_folded, say_json, show_table
from dml_jax.enums import FeatureLevel, TensorDataType
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted, nearest, printable
from dml_jax.files import check_writable, similar_file, write_npy, write_whole
from dml_jax.graph import Graph, OperatorNode

if TYPE_CHECKING:
    from dml_jax.bindable import BindPoint
    from dml_jax.dispatch.executor import Executor
    from dml_jax.dispatch.model import Model
    from dml_jax.dispatch.networks import NetworkFunction, Overrides
    from dml_jax.dispatch.resources import Values
    from dml_jax.onnx import Network


def is_network(path: Path) -> bool:
    """Return whether a file is named as an ONNX model."""
    return path.suffix.lower() == ".onnx"


def _pairs(meaning: str, convert: Callable[[str], Any], mark: str = ":") -> Any:
    """Return the callback of an option whose values are names and values with `mark` between."""

    def callback(ctx: click.Context, parameter: click.Parameter, values: Sequence[str]) -> Any:
        found = {}
        for value in values:
            name, _, text = value.rpartition(mark)
            try:
                if not name:
                    raise ValueError
                found[name] = convert(text)
            except ValueError:
                raise click.BadParameter(f"{value!r} is not {meaning}.") from None
        return found

    return callback


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


_OPTIONS = (
    (
        ("-f", "--onnx_free_dim_name_override", "names"),
        "NAME:SIZE",
        _pairs("NAME:SIZE, as batch:8", _size),
        "Size of a free dimension of an ONNX network (others have size 1). Repeatable.",
    ),
    (
        ("-F", "--onnx_free_dim_denotation_override", "denotations"),
        "NAME:SIZE",
        _pairs("NAME:SIZE, as batch:8", _size),
        "The same, of dimensions that ONNX denotes so, as DATA_BATCH. Repeatable.",
    ),
    (
        ("-b", "--binding_shape", "shapes"),
        "NAME:SIZES",
        _pairs("NAME:SIZES, as x:2,3", _shape),
        "Sizes of an input of an ONNX network, as x:2,3. Repeatable.",
    ),
    (
        ("--constant", "constants"),
        "NAME:NUMBERS",
        _pairs("NAME:NUMBERS, as rate:16000", _numbers),
        "Value that an input of an ONNX network always has, as rate:16000. Repeatable.",
    ),
)


def size_options(function: Any) -> Any:
    """Add the options that fix sizes and inputs of networks, and --fallback."""
    for names, metavar, callback, text in reversed(_OPTIONS):
        option = click.option(*names, metavar=metavar, multiple=True, callback=callback, help=text)
        function = option(function)
    text = "Compute nodes of ONNX networks that are no operators of DirectML too."
    return click.option("--fallback", is_flag=True, help=text)(function)


input_option = click.option(
    "--input",
    "inputs",
    metavar="NAME=FILE",
    multiple=True,
    callback=_pairs("NAME=FILE", Path, "="),
    help="File of an input of an ONNX network: .npy, a picture, or raw bytes (others are random). "
    "Repeatable.",
)


def overrides_of(
    names: Any, denotations: Any, shapes: Any, constants: Any, fallback: bool
) -> "Overrides":
    """Return the values of -f, -F, -b, --constant and --fallback."""
    from dml_jax.dispatch.networks import Overrides

    return Overrides(names, denotations, shapes, constants, fallback=fallback)


def network_model(
    path: Path, overrides: "Overrides", feature_level: FeatureLevel | None = None
) -> "Model":
    """Return the model that dispatches the network at `path` once, with memory of its own.

    Raises `DmlError` with all faults, also if `feature_level` does not accept all its operators.
    """
    from dml_jax.dispatch.model import parse_model

    if path.is_dir():
        raise DmlError([folder_fault(path)])
    if not path.is_file():
        rule = f"be a file that can be read{similar_file(path)}"
        value = Unquoted("a device" if path.exists() else "no such file")
        raise DmlError([Fault("", f"the file '{path}'", rule, value)])
    value = {
        "resources": {},
        "dispatchables": {path.name: {"type": "onnx", "sourcePath": str(path.absolute())}},
        "commands": [{"type": "dispatch", "dispatchable": path.name, "bindings": {}}],
    }
    try:
        model = parse_model(value, path.parent, str(path), overrides)
    except DmlError as error:
        outer = ("Command 0", f"Dispatchable '{path.name}'")
        raise DmlError(
            replace(f, context=tuple(part for part in f.context if part not in outer))
            for f in error.faults
        ) from None
    if feature_level is not None:
        faults = function_of(model).refused_at(feature_level)
        if faults:
            raise DmlError(faults)
    return model


def function_of(model: "Model") -> "NetworkFunction":
    """Return the network of a model of one network."""
    from dml_jax.dispatch.networks import NetworkFunction

    (dispatchable,) = model.dispatchables.values()
    assert isinstance(dispatchable.operator, NetworkFunction)
    return dispatchable.operator


def inputs_of(model: "Model", files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Return the bytes of the inputs that have files, by the names of their memory.

    Raises `DmlError` with all faults.
    """
    from dml_jax.dispatch.resources import UNKNOWN, values_of_file

    (dispatchable,) = model.dispatchables.values()
    function = function_of(model)
    points = {point.name: point for point in function.bind_points()}
    network = function.network
    known = [*network.inputs, *(n for n in network.defaults if n in points)]
    found, faults = {}, list[Fault]()
    for name, path in files.items():
        try:
            if name in network.fixed:
                rule = (
                    f"keep its default, which decided something at load (--constant {name}:VALUE)"
                )
                raise DmlError([Fault("", "--input", rule, name)])
            if name not in known:
                listed = f" ({', '.join(known)})"
                rule = f"name an input{nearest(name, known) or listed}"
                raise DmlError([Fault("", "--input", rule, name)])
            if name in function.without_memory:
                shape = list(function.network.inputs[name].shape or ())
                rule = "name an input with elements (this one needs no file)"
                raise DmlError([Fault("", "--input", rule, Unquoted(f"shape {shape}"))])
            (tensor,), resource = points[name].tensors, dispatchable.own[name]
            picture = None
            if len(tensor.sizes) >= 3:
                channels, height, width = tensor.sizes[-3:]
                picture = channels, height, width
            # An array of another type gets a message of its own.
            data_type = UNKNOWN if path.suffix.lower() == ".npy" else tensor.data_type
            values = values_of_file(str(path), path.absolute, data_type, picture)
            _check_input(function, points[name], resource.initial_size, path, values)
            data = np.ascontiguousarray(values.make()).reshape(-1).view(np.uint8)
            found[resource.name] = resource.placed(data, 0)
        except DmlError as error:
            faults += error.within(f"Input '{name}'").faults
    if faults:
        raise DmlError(faults)
    return found


def _type_of(function: "NetworkFunction", name: str) -> Any:
    """Return the type of an input, with or without a default."""
    return {**function.network.inputs, **function.network.defaults}[name]


def _check_input(
    function: "NetworkFunction", point: "BindPoint", size: int, path: Path, values: "Values"
) -> None:
    """Raise `DmlError` where the values of a file are no input of a network.

    A .npy file holds an array of the input's type and shape, or a flat one.

    Args:
        function: the network.
        point: the input.
        size: its bytes.
        path: the file.
        values: what the file holds.
    """
    (tensor,), name = point.tensors, point.name
    wanted, got = tensor.data_type, values.data_type
    if values.shape is not None and got != wanted:
        is_bool = _type_of(function, name).dtype == bool and got == TensorDataType.INT8
        if not is_bool:
            text = f"'{path}' holds {got}, the network wants {wanted} "
            text += f"(np.save(f, a.astype('{tensor.dtype.name}')))"
            raise DmlError([Fault("", "", Sentence(text), "")])
    shapes = (tensor.sizes, _type_of(function, name).shape, (math.prod(tensor.sizes),))
    if values.size == size and (values.shape is None or values.shape in shapes):
        return
    rule = f"hold {tensor.shown()}{_cure(function, point, size, values)}"
    held = f"{values.size} bytes"
    if values.shape is not None:
        held = f"{got.suffix}[{','.join(map(str, values.shape))}]"
    else:
        rule += f", {size} bytes"
    raise DmlError([Fault("", f"'{path}'", rule, Unquoted(held))])


def _cure(function: "NetworkFunction", point: "BindPoint", size: int, values: "Values") -> str:
    """Return ` (batch is 1: -f batch:8)` where free dimensions of other sizes fit the values."""
    sizes, names = point.tensors[0].sizes, function.free.get(point.name, ())
    free = [k for k, name in enumerate(names) if name is not None]
    shape = values.shape
    if (shape is None or len(shape) == 1 != len(sizes)) and len(free) == 1:
        shape = list(sizes)
        shape[free[0]] = shape[free[0]] * values.size // size
        if math.prod(shape) * size != math.prod(sizes) * values.size:
            return ""
    if shape is None or len(shape) != len(sizes) or not free:
        return ""
    other = [k for k, pair in enumerate(zip(sizes, shape, strict=True)) if pair[0] != pair[1]]
    if not set(other) <= set(free):
        return ""
    said = ", ".join(f"{names[k] or f'dimension {k}'} is {sizes[k]}" for k in other)
    options = " ".join(f"-f {names[k]}:{shape[k]}" for k in other)
    if not all(names[k] for k in other):
        options = f"-b {point.name}:{','.join(map(str, shape))}"
    return f" ({said}: {options})"


def show_network(model: "Model", as_json: bool, name: str = "") -> None:
    """Print the nodes of a network; `name` tells it from others."""
    network = function_of(model).network
    rows = [row for graph in network.graphs for row in rows_of(graph)]
    if as_json:
        nodes = [as_values(*row) for row in rows]
        say_json({**_title(name), **_summary(network), "nodes": nodes})
        return
    if name:
        click.echo(f"{printable(name)}:")
    show_table("Node", rows)
    _say_summary(network)


def check_network(model: "Model", as_json: bool, name: str = "") -> None:
    """Print the operators of a network, its memory and its arithmetic."""
    function = function_of(model)
    network, sizes = function.network, function.describe()
    operators = [n.operator for n in _nodes(network) if isinstance(n, OperatorNode)]
    counts = collections.Counter(operator.short_name for operator in operators)
    levels: dict[str, FeatureLevel] = {}
    for operator in operators:
        known = levels.setdefault(operator.short_name, min(FeatureLevel))
        levels[operator.short_name] = max(known, level_of(operator) or known)
    if as_json:
        found = {**_title(name), **_summary(network), "operators": counts, "flops": flops(function)}
        say_json({**found, "memory": dict(memory_of(function))})
        return
    if name:
        click.echo(f"{printable(name)}:")
    rows = [[key, str(count), str(levels[key])] for key, count in counts.most_common()]
    say_folded(["Operator", "Nodes", "Lowest level"], *rows)
    click.echo(sizes)
    _say_summary(network)
    parts = ", ".join(f"{count:,} of {what}" for what, count in memory_of(function))
    click.echo(f"Bytes: {parts}; {flops(function):,} floating-point operations")


def _title(name: str) -> dict[str, Any]:
    return {"model": name} if name else {}


def _nodes(network: "Network") -> Sequence[Any]:
    return [node for graph in network.graphs for node in graph.nodes]


def _summary(network: "Network") -> dict[str, Any]:
    arrays = network.weights.values()
    weights = {"count": len(arrays), "bytes": sum(a.nbytes for a in arrays)}
    return {"feature_level": network.minimum_feature_level.suffix, "weights": weights}


def _say_summary(network: "Network") -> None:
    weights = _summary(network)["weights"]
    click.echo(
        f"{len(_nodes(network))} nodes, {weights['count']} weights ({weights['bytes']:,} bytes), "
        f"from feature level {network.minimum_feature_level} on"
    )
    replaceable = [name for name in network.defaults if name not in network.fixed]
    if replaceable:
        click.echo(printable(f"Inputs with defaults (--input NAME=FILE): {', '.join(replaceable)}"))
    if network.fixed:
        fixed = ", ".join(network.fixed)
        click.echo(printable(f"Inputs with fixed defaults (--constant NAME:VALUE): {fixed}"))
    for label, reason in network.fallbacks.items():
        click.echo(printable(f"By JAX: {label}: {reason}"))


def memory_of(function: "NetworkFunction") -> list[tuple[str, int]]:
    """Return the bytes of a network's tensors, by kind.

    Tensors between nodes count as long as a node may still read them, while nodes run in order.
    """
    network = function.network
    inputs = sum(_bytes_of(function, network.inputs))
    outputs = sum(_bytes_of(function, network.output_types))
    weights = sum(array.nbytes for array in network.weights.values())
    known = [("weights", weights), ("inputs", inputs), ("outputs", outputs)]
    most = max(map(_most_between, network.graphs), default=0)
    return [*known, ("tensors between nodes at most", most)]


def _bytes_of(function: "NetworkFunction", names: Mapping[str, Any]) -> list[int]:
    """Return the bytes of the tensors of these names."""
    return [t.total_tensor_size_in_bytes for name, _, t in function.tensors() if name in names]


def _most_between(graph: Graph) -> int:
    last = {source: at for at, (_, _, sources) in enumerate(graph.plan) for source in sources}
    sizes, now, most = {}, 0, 0
    for at, (index, node, sources) in enumerate(graph.plan):
        for slot, (_, tensor) in enumerate(node.slots(output=True)):
            if tensor is not None and (index, slot) in last:
                sizes[index, slot] = tensor.total_tensor_size_in_bytes
                now += sizes[index, slot]
        most = max(most, now)
        now -= sum(sizes.get(source, 0) for source in {*sources} if last[source] == at)
    return most


def flops(function: "NetworkFunction") -> int:
    """Return the floating-point operations of a call, as XLA counts them."""
    from dml_jax.bench.arithmetic import operations

    return int(operations(function.compute, function.inputs))


def outputs_of(model: "Model", executor: "Executor") -> dict[str, np.ndarray]:
    """Return the outputs of a network that has run, by name."""
    (dispatch,) = model.dispatches
    found = {}
    for place in dispatch.tensors:
        if place.output:
            resource = model.memory[place.memory]
            values = executor.values(resource, resource.initialised)
            sizes = function_of(model).network.output_types[place.path].shape
            found[place.path] = values.reshape(sizes) if sizes is not None else values
    every = function_of(model).network.output_types
    empty = {name: np.zeros(k.shape, k.array_dtype) for name, k in every.items() if k.is_empty}
    return {name: {**found, **empty}[name] for name in every}


def files_of(model: "Model", folder: Path | None) -> dict[str, Path]:
    """Return the .npy file of each output in `folder`, none if there is no folder.

    A file has the output's name, without characters that names of files may not have. Raises
    `DmlError` if a file cannot be written, or if two outputs would have one.
    """
    files: dict[str, Path] = {}
    for name in function_of(model).network.output_types if folder is not None else ():
        path = Path(folder or "") / (re.sub(r"[^\w.-]", "_", name) + ".npy")
        for other, known in files.items():
            if known == path:
                rule = f"have another file than the output '{other}'"
                raise DmlError([Fault("", f"the output '{name}'", rule, str(path))])
        check_writable(path)
        files[name] = path
    return files


def write_outputs(outputs: Mapping[str, np.ndarray], files: Mapping[str, Path]) -> None:
    """Write the outputs that have files."""
    for name, path in files.items():
        write_whole(path, lambda file, a=outputs[name]: write_npy(file, a))


def _first_values(array: np.ndarray) -> str:
    """Return the first values of an array, with dots where there are more."""
    values = array.reshape(-1)[:_FIRST].tolist()
    shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    return ", ".join([*shown, *["..."] * (array.size > _FIRST)])


_FIRST = 4  # values of an output that a table shows


def report_run(
    report: dict[str, Any],
    outputs: Mapping[str, np.ndarray],
    times: Mapping[str, float],
    as_json: bool,
) -> None:
    """Add what `run` says of a network to `report`: the outputs' types and shapes, and the times.

    JSON has the values of the outputs too. The times are milliseconds; that of a run is the median
    of the dispatches.
    """
    report["outputs"] = {n: [a.dtype.name, list(a.shape)] for n, a in outputs.items()}
    if as_json:
        report["values"] = {n: a.tolist() for n, a in outputs.items()}
    report |= times
    report["run_ms"] = statistics.median(report["dispatches"][0]["samples_ms"])


def say_run(
    report: Mapping[str, Any], outputs: Mapping[str, np.ndarray], files: Mapping[str, Path]
) -> None:
    """Print what `report_run` gave, the first values of the outputs, and their files."""
    rows = [
        [printable(name), *map(str, kind), _first_values(outputs[name])]
        for name, kind in report["outputs"].items()
    ]
    say_folded(["Output", "Type", "Shape", "Values"], *rows)
    for name, path in files.items():
        click.echo(printable(f"Output '{name}' written to '{path}'"))
    if not files:
        click.echo("(values: --output_path FOLDER)")
    samples = report["dispatches"][0]["samples_ms"]
    click.echo(
        f"Load {report['load_ms']:.0f} ms, compile {report['compile_ms']:.0f} ms, "
        f"run {report['run_ms']:.3f} ms (median of {len(samples)})"
    )
