"""ONNX networks for the commands: loaded with sizes for free dimensions, shown and run."""

import collections
import functools
import math
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.model_files import folder_fault, load, rows_of, show_rows, titled
from dml_jax.cli.pictures import Pictures, labels_of, largest_of, say_largest
from dml_jax.cli.terminal import (
    level_of,
    progress,
    say_folded,
    say_json,
    working,
)
from dml_jax.enums import FeatureLevel, TensorDataType
from dml_jax.errors import (
    DmlError,
    Fault,
    Sentence,
    Unquoted,
    collecting,
    nearest,
    printable,
    raise_if,
)
from dml_jax.onnx.options import NetworkOptions
from dml_jax.system.files import check_writable, similar_file, write_npy, write_whole

if TYPE_CHECKING:
    import numpy as np

    from dml_jax.dxdispatch.repetition import Timing
    from dml_jax.dxdispatch.resources import Values
    from dml_jax.graph import Graph
    from dml_jax.memory.compiled import Compiled
    from dml_jax.onnx import Network
    from dml_jax.operator.call import BindPoint
    from dml_jax.system.free_memory import Device


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

    for option in reversed(_OPTIONS):
        command = option(command)
    text = "Compute nodes that DirectML has no operator for with JAX functions."
    return click.option("--fallback", is_flag=True, help=text)(command)


input_option = _of_pairs(
    "--input inputs",
    "NAME=FILE",
    Path,
    "File of an input of a network (others are random), or of a model's resource: .npy, a picture, "
    "or raw bytes. Repeatable.",
)


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


def inputs_of(
    network: "Network", files: Mapping[str, Path], pictures: Pictures
) -> "dict[str, np.ndarray]":
    """Return an array for each input of a network: of its file, or a random one.

    `pictures` normalizes those that are pictures. Raises `DmlError` with all faults.
    """
    points = {point.name: point for point in network.bind_points() if not point.output}
    known = {**network.inputs, **network.defaults}
    found, faults = {}, list[Fault]()
    for name, path in files.items():
        with collecting(faults, f"Input '{name}'"):
            if name in network.fixed:
                rule = "keep its default, which decided something at load "
                raise DmlError([Fault("", "--input", f"{rule}(--constant {name}:VALUE)", name)])
            if name not in known:
                listed = f" ({', '.join(known)})"
                rule = f"name an input{nearest(name, known) or listed}"
                raise DmlError([Fault("", "--input", rule, name)])
            if name in network.without_memory:
                shape = list(known[name].shape or ())
                rule = "name an input with elements (this one needs no file)"
                raise DmlError([Fault("", "--input", rule, Unquoted(f"shape {shape}"))])
            found[name] = _read(network, points[name], path, pictures)
    raise_if(faults)
    missing = network.random_inputs() if found.keys() < points.keys() else {}
    for name in points.keys() - found.keys():
        (tensor,) = points[name].tensors
        found[name] = missing[name].astype(tensor.dtype).reshape(tensor.sizes)
    return {name: found[name] for name in points}


def _read(network: "Network", point: "BindPoint", path: Path, pictures: Pictures) -> "np.ndarray":
    """Return the input of a network in the file at `path`. Raises `DmlError`."""
    import numpy as np

    from dml_jax.dxdispatch.resources import IMAGE_TYPES, UNKNOWN, values_of_file

    (tensor,), kind = point.tensors, path.suffix.lower()
    places, sizes = None, None
    if kind in IMAGE_TYPES:
        places = channels, height, width = _places(network, point, path)
        sizes = tensor.sizes[channels], tensor.sizes[height], tensor.sizes[width]
    # An array of another type gets a message of its own.
    data_type = UNKNOWN if kind == ".npy" else tensor.data_type
    values = values_of_file(str(path), path.absolute, data_type, sizes)
    _check_input(network, point, path, values)
    data = np.ascontiguousarray(values.make()).reshape(-1).view(np.uint8)
    if places and sizes:
        planes = pictures.normalized(point.name, path, data.view(tensor.dtype).reshape(sizes))
        return np.moveaxis(planes, 0, places[0]).reshape(tensor.sizes)
    if tensor.data_type.element_size:
        return data.view(tensor.dtype).reshape(tensor.sizes)
    return np.asarray(tensor.read(data))


def _places(network: "Network", point: "BindPoint", path: Path) -> tuple[int, int, int]:
    """Return the dimensions of an input that have the channels, height and width of a picture.

    Raises `DmlError` where no dimension can have the channels, and where the picture would shrink
    to a free height or width of size 1.
    """
    from dml_jax.dxdispatch.resources import pillow, reading

    (tensor,) = point.tensors
    with reading(str(path), path.suffix.lower()), pillow().open(path) as opened:
        width, height = opened.size
    sizes, kinds = tensor.sizes, ((-3, -2, -1), (-1, -3, -2))
    names = network.free.get(point.name) or [None] * len(sizes)
    found = [p for p in kinds if len(sizes) >= 3 and sizes[p[0]] in (1, 3, 4)]
    if not found:
        rule = "be [..., C, H, W] or [..., H, W, C] with 1, 3 or 4 channels for a picture"
        raise DmlError([Fault("", f"the input '{point.name}'", rule, Unquoted(tensor.shown()))])
    places = min(found, key=lambda p: (names[p[0]] is not None, sizes[p[0]] != 3))
    own = [*sizes]
    for place, size in ((places[1], height), (places[2], width)):
        own[place] = size if names[place] is not None and own[place] == 1 else own[place]
    if own != [*sizes]:
        rule = f"hold {tensor.shown()}{_cure_of(network, point, own)}"
        raise DmlError([Fault("", f"'{path}'", rule, Unquoted(f"{width} x {height} pixels"))])
    return places


def _check_input(network: "Network", point: "BindPoint", path: Path, values: "Values") -> None:
    """Raise `DmlError` where the values of the file at `path` are not those of the input `point`.

    A .npy file holds an array of the input's type and shape, or a flat one.
    """
    (tensor,), name = point.tensors, point.name
    wanted, got, size = tensor.data_type, values.data_type, tensor.span_in_bytes
    if values.shape is not None and got != wanted:
        is_bool = network.inputs[name].dtype == bool and got == TensorDataType.INT8
        if not is_bool:
            text = f"'{path}' holds {got}, the network wants {wanted} "
            text += f"(np.save(f, a.astype('{tensor.dtype.name}')))"
            raise DmlError([Fault("", "", Sentence(text), "")])
    shapes = (tensor.sizes, network.inputs[name].shape, (math.prod(tensor.sizes),))
    if values.size == size and (values.shape is None or values.shape in shapes):
        return
    rule = f"hold {tensor.shown()}{_cure(network, point, size, values)}"
    held = f"{values.size} bytes"
    if values.shape is not None:
        held = f"{got.suffix}[{','.join(map(str, values.shape))}]"
    else:
        rule += f", {size} bytes"
    raise DmlError([Fault("", f"'{path}'", rule, Unquoted(held))])


def _cure(network: "Network", point: "BindPoint", size: int, values: "Values") -> str:
    """Return ` (batch is 1: -f batch:8)` where free dimensions of other sizes fit the values."""
    sizes, names = point.tensors[0].sizes, network.free.get(point.name, ())
    free = [k for k, name in enumerate(names) if name is not None]
    shape = values.shape
    if (shape is None or len(shape) == 1 != len(sizes)) and len(free) == 1:
        shape = list(sizes)
        shape[free[0]] = shape[free[0]] * values.size // size
        if math.prod(shape) * size != math.prod(sizes) * values.size:
            return ""
    if shape is None or len(shape) != len(sizes) or not free:
        return ""
    return _cure_of(network, point, shape)


def _cure_of(network: "Network", point: "BindPoint", shape: Sequence[int]) -> str:
    """Return the options that give an input a shape; "" where another dimension is fixed."""
    sizes, names = point.tensors[0].sizes, network.free.get(point.name, ())
    free = [k for k, name in enumerate(names) if name is not None]
    other = [k for k, pair in enumerate(zip(sizes, shape, strict=True)) if pair[0] != pair[1]]
    if not set(other) <= set(free):
        return ""
    said = ", ".join(f"{names[k] or f'dimension {k}'} is {sizes[k]}" for k in other)
    options = " ".join(f"-f {names[k]}:{shape[k]}" for k in other)
    if not all(names[k] for k in other):
        options = f"-b {point.name}:{','.join(map(str, shape))}"
    return f" ({said}: {options})"


def show_network(network: "Network", as_json: bool, name: str = "") -> None:
    """Print the nodes of a network; `name` tells it from others."""
    show_rows("Node", rows_of(network.graph), as_json, _summary(network), name)
    if not as_json:
        _say_summary(network)


def check_network(network: "Network", as_json: bool, name: str = "") -> None:
    """Print the operators of a network, its memory and its arithmetic."""
    operators = [*network.graph.operators]
    counts = collections.Counter(operator.short_name for operator in operators)
    levels: dict[str, FeatureLevel] = {}
    for operator in operators:
        known = levels.setdefault(operator.short_name, min(FeatureLevel))
        levels[operator.short_name] = max(known, level_of(operator) or known)
    if as_json:
        found = {**titled(name), **_summary(network), "operators": counts, "flops": flops(network)}
        say_json({**found, "memory": dict(memory_of(network))})
        return
    if name:
        click.echo(f"{printable(name)}:")
    rows = [[key, str(count), str(levels[key])] for key, count in counts.most_common()]
    say_folded(["Operator", "Nodes", "Lowest level"], *rows)
    click.echo(network.describe())
    _say_summary(network)
    parts = ", ".join(f"{count:,} of {what}" for what, count in memory_of(network))
    click.echo(f"Bytes: {parts}; {flops(network):,} operations")


def _summary(network: "Network") -> dict[str, Any]:
    arrays = network.weights.values()
    weights = {"count": len(arrays), "bytes": sum(a.nbytes for a in arrays)}
    return {"feature_level": network.minimum_feature_level.suffix, "weights": weights}


def _say_summary(network: "Network") -> None:
    from dml_jax.onnx.reports import sizes_by_data

    weights = _summary(network)["weights"]
    click.echo(
        f"{network.node_count} nodes, {weights['count']} weights ({weights['bytes']:,} bytes), "
        f"from feature level {network.minimum_feature_level} on"
    )
    replaceable = [name for name in network.defaults if name not in network.fixed]
    if replaceable:
        click.echo(printable(f"Inputs with defaults (--input NAME=FILE): {', '.join(replaceable)}"))
    if network.fixed:
        fixed = ", ".join(network.fixed)
        click.echo(printable(f"Inputs with fixed defaults (--constant NAME:VALUE): {fixed}"))
    for size, count in sizes_by_data(network).items():
        click.echo(printable(f"Data decides the size '{size}' of {count} edges"))
    for label, reason in network.fallbacks.items():
        click.echo(printable(f"By JAX: {label}: {reason}"))


def memory_of(network: "Network") -> list[tuple[str, int]]:
    """Return the bytes of a network's tensors, by kind.

    Tensors between nodes count as long as a node may still read them, while nodes run in order.
    """
    sizes = [0, 0]
    for point in network.bind_points():
        sizes[point.output] += sum(t.total_tensor_size_in_bytes for t in point.tensors)
    weights = sum(array.nbytes for array in network.weights.values())
    known = [("weights", weights), ("inputs", sizes[0]), ("outputs", sizes[1])]
    return [*known, ("tensors between nodes at most", _most_between(network.graph))]


def _most_between(graph: "Graph") -> int:
    """Return the most bytes that tensors between nodes take, those within a node included."""
    from dml_jax.description.tensor import TensorDesc
    from dml_jax.graph import FunctionNode

    last = {source: at for at, (_, _, sources) in enumerate(graph.plan) for source in sources}
    sizes, now, most = {}, 0, 0
    for at, (index, node, sources) in enumerate(graph.plan):
        for slot, (_, tensor) in enumerate(node.slots(output=True)):
            if isinstance(tensor, TensorDesc) and (index, slot) in last:
                sizes[index, slot] = tensor.total_tensor_size_in_bytes
                now += sizes[index, slot]
        graphs = node.graphs if isinstance(node, FunctionNode) else ()
        most = max(most, now + max(map(_most_between, graphs), default=0))
        now -= sum(sizes.get(source, 0) for source in {*sources} if last[source] == at)
    return most


def flops(network: "Network") -> int:
    """Return the arithmetic operations of a call's operators, counted from their descriptors."""
    from dml_jax.bench.operation_counts import operations

    return int(operations(network.graph))


def files_of(network: "Network", folder: Path | None) -> dict[str, Path]:
    """Return the .npy file of each output in `folder`, none if there is no folder.

    A file has the output's name, without characters that names of files may not have. Raises
    `DmlError` if a file cannot be written, or if two outputs would have one.
    """
    files: dict[str, Path] = {}
    for name in network.output_types if folder is not None else ():
        path = Path(folder or "") / (re.sub(r"[^\w.-]", "_", name) + ".npy")
        for other, known in files.items():
            if known == path:
                rule = f"have another file than the output '{other}'"
                raise DmlError([Fault("", f"the output '{name}'", rule, str(path))])
        check_writable(path)
        files[name] = path
    return files


def _first_values(array: "np.ndarray") -> str:
    """Return the first values of an array, with dots where there are more."""
    values = array.reshape(-1)[:_FIRST].tolist()
    shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in values]
    return ", ".join([*shown, *["..."] * (array.size > _FIRST)])


_FIRST = 4  # values of an output that a table shows


def run_network(
    network: "Network", name: str, device: "Device", timing: "Timing", asked: Any
) -> dict[str, Any]:
    """Run a network, `name` in the report, as the options `asked` of `dml-jax run` say.

    Returns what JSON reports of the run. Nothing is printed where it is asked for.
    """
    import jax
    import numpy as np

    inputs, pictures = asked.inputs, Pictures(asked.mean, asked.std)
    labels = labels_of(asked.labels)
    say = (lambda line: None) if asked.as_json else click.echo
    files, start = files_of(network, asked.output_path), time.perf_counter()
    network = network.with_inputs(
        [n for n in network.defaults if n in inputs and n not in network.fixed]
    )
    with working(f"Compiling {name}"):
        program = compiled_network(network, name, device)
    arrays = inputs_of(network, inputs, pictures)
    pictures.expect_used()
    if network.free:
        say(printable(f"Sizes (others: -f NAME:SIZE, -b NAME:SIZES): {network.describe()}"))
    for input_name, text in pictures.said.items():
        say(printable(f"Input '{input_name}': {text}"))
    placed = [jax.device_put(array, device) for array in arrays.values()]
    compile_ms = 1e3 * (time.perf_counter() - start)
    if timing.verbosity > 0:
        say(f"Initialize '{printable(name)}': {compile_ms:.4f} ms")
    results: list[Any] = []

    def dispatch() -> None:
        results[:] = jax.tree.leaves(program(*placed))

    track = progress(timing.milliseconds_to_run)
    samples = timing.measured(name, dispatch, lambda: jax.block_until_ready(results), track)
    for line in timing.report(name, samples):
        say(line)
    rest, outputs = iter(results), dict[str, np.ndarray]()
    for output, kind in network.output_types.items():
        array = np.zeros(0, kind.array_dtype) if kind.is_empty else np.asarray(next(rest))
        outputs[output] = array.reshape(kind.shape)
    network.within(outputs, arrays)
    for output, path in files.items():
        write_whole(path, lambda file, a=outputs[output]: write_npy(file, a))
    kinds = {name: [a.dtype.name, [*a.shape]] for name, a in outputs.items()}
    rows = [[printable(n), *map(str, kinds[n]), _first_values(a)] for n, a in outputs.items()]
    if not asked.as_json:
        say_folded(["Output", "Type", "Shape", "Values"], *rows)
    has_largest = labels is not None or bool(pictures.said)
    largest = largest_of(outputs, labels) if has_largest else {}
    if not asked.as_json:
        say_largest(largest, say)
    for output, path in files.items():
        say(printable(f"Output '{output}' written to '{path}'"))
    if not files:
        say("(values: --output_path FOLDER)")
    median = statistics.median_high(samples)
    return {
        "inputs": {name: [a.dtype.name, [*a.shape]] for name, a in arrays.items()},
        "outputs": kinds,
        **({"values": {n: a.tolist() for n, a in outputs.items()}} if asked.as_json else {}),
        "compile_ms": compile_ms,
        "run_ms": statistics.median(samples),
        "dispatches": [{"name": name, "samples_ms": samples, "median_ms": median}],
        "files": [*map(str, files.values())],
        **({"pictures": pictures.said, "largest": largest} if has_largest else {}),
    }


def say_times(report: Mapping[str, Any]) -> None:
    """Print the times of the report on a run, and where its program is kept."""
    if cache := report["cache"]:
        click.echo(printable(f"Compiled {cache['said']} (--no-cache)"))
    samples = report["dispatches"][0]["samples_ms"]
    click.echo(
        f"Load {report['load_ms']:.0f} ms, compile {report['compile_ms']:.0f} ms, "
        f"run {report['run_ms']:.3f} ms (median of {len(samples)})"
    )


def compiled_network(network: "Network", name: str, device: "Device") -> "Compiled":
    """Return the program of a network for a device. Raises `DmlError` where memory is too small."""
    from dml_jax import compile as compiled
    from dml_jax.dxdispatch.executor import check_memory, check_temporary

    sizes = {
        f"{name}: {point.name} {tensor.shown()}": tensor.total_tensor_size_in_bytes
        for point in network.bind_points()
        for tensor in point.tensors
    }
    check_memory(sizes, device)
    program = compiled(network, device=device)
    check_temporary(network, program.cost().bytes_temporary, device, f"Network '{name}'")
    return program
