"""Timed runs of networks and models for `dml-jax run`."""

import re
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import jax
import numpy as np

from dml_jax.cli.terminal import progress, working
from dml_jax.dxdispatch.executor import Executor, check_memory, check_temporary
from dml_jax.dxdispatch.file_inputs import Pictures, read_inputs
from dml_jax.dxdispatch.model import Model
from dml_jax.dxdispatch.run_model import initial_of_files
from dml_jax.errors import DmlError, Fault, printable
from dml_jax.memory.compiled import Compiled
from dml_jax.memory.compiled import compile as compile_bindable
from dml_jax.system.files import check_writable, write_npy, write_whole
from dml_jax.system.free_memory import Device

if TYPE_CHECKING:
    from dml_jax.onnx import Network

MOST_SHOWN = 5  # the largest numbers of an output that are listed
PRINT_MOST = 1000
"""The number of elements of a printed resource that a terminal gets."""


def run_network(network: "Network", name: str, device: Device, asked: Any) -> dict[str, Any]:
    """Compile a network, `name` in the report, and run it as the options `asked` say.

    Returns what JSON reports of it, where JSON is asked for. Raises `DmlError` where a file cannot
    be read or written, and where memory is too small.
    """
    # Here, since tables need rich, without which a model runs sooner.
    from dml_jax.cli.tables import show_largest, show_outputs

    if asked.hlo:
        text = compile_network(network, name, device).as_text()
        return _programs("Network", [(name, text)], asked.as_json)
    pictures, labels = Pictures(asked.mean, asked.std), None
    if asked.labels is not None:
        labels = asked.labels.read_text("utf-8", "replace").splitlines()
        if not network.signature.counted:  # else the run decides how many numbers there are
            kinds = network.output_types.items()
            zeros = {n: np.broadcast_to(k.array_dtype.type(), k.shape or ()) for n, k in kinds}
            largest_of(zeros, labels)  # raises where no output fits
    # A run may take long: a file that cannot be written is refused before it begins.
    files, programs = _output_files(network, asked.output_path), network.programs
    start = time.perf_counter()
    network = network.with_inputs(
        [n for n in network.defaults if n in asked.inputs and n not in network.fixed]
    )
    with working(f"Compiling {name}"):
        program = compile_network(network, name, device)
    inputs = read_inputs(network, asked.inputs, pictures)
    if network.free:
        asked.say(printable(f"Sizes (others: -f NAME:SIZE, -b NAME:SIZES): {network.describe()}"))
    for input_name, text in pictures.said.items():
        asked.say(printable(f"Input '{input_name}': {text}"))
    # Inputs are on the device before the clock starts, as DxDispatch's resources are.
    arrays = [jax.device_put(array, device) for array in inputs.values()]
    compile_ms = 1e3 * (time.perf_counter() - start)
    if asked.timing.verbosity > 0:
        asked.say(f"Initialize '{printable(name)}': {compile_ms:.4f} ms")
    results, samples = _measure(program, arrays, name, asked)
    outputs = _outputs_of(network, results)
    network.signature.within(outputs, inputs)
    for output, path in files.items():
        write_whole(path, lambda file, a=outputs[output]: write_npy(file, a))
    if not asked.as_json:
        show_outputs(network.without_padding(outputs))
    has_largest = labels is not None or bool(pictures.said)
    largest = largest_of(outputs, labels) if has_largest else {}
    run_ms, facts = statistics.median(samples), programs and programs.facts()
    if asked.as_json:
        median = statistics.median_high(samples)
        return {
            "load_ms": asked.load_ms,
            "inputs": _kinds(inputs),
            "outputs": _kinds(outputs),
            "values": {name: array.tolist() for name, array in outputs.items()},
            "compile_ms": compile_ms,
            "run_ms": run_ms,
            "dispatches": [{"name": name, "samples_ms": samples, "median_ms": median}],
            "files": [*map(str, files.values())],
            **({"pictures": pictures.said, "largest": largest} if has_largest else {}),
            "cache": facts,
        }
    show_largest(largest)
    for output, path in files.items():
        click.echo(printable(f"Output '{output}' written to '{path}'"))
    if not files:
        click.echo("(values: --output_path FOLDER)")
    if facts:
        click.echo(printable(f"Compiled {facts['said']} (--no-cache)"))
    count = f"median of {len(samples)}" if len(samples) > 1 else "the first one; -i 20 runs more"
    click.echo(
        f"Load {asked.load_ms:.0f} ms, compile {compile_ms:.0f} ms, run {run_ms:.3f} ms ({count})"
    )
    return {}


def _measure(
    program: Compiled, arrays: Sequence[jax.Array], name: str, asked: Any
) -> tuple[list[Any], list[float]]:
    """Return the last results of a program, and the milliseconds of each iteration."""
    timing, results = asked.timing, list[Any]()

    def dispatch() -> None:
        results[:] = jax.tree.leaves(program(*arrays))

    track = progress(timing.milliseconds_to_run)
    samples = timing.measure(name, dispatch, lambda: jax.block_until_ready(results), track)
    for line in timing.report(name, samples):
        asked.say(line)
    return results, samples


def _kinds(arrays: Mapping[str, np.ndarray]) -> dict[str, list[Any]]:
    return {name: [array.dtype.name, [*array.shape]] for name, array in arrays.items()}


def _outputs_of(network: "Network", results: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return the outputs by name; a program gives no result for an output without elements."""
    remaining, outputs = iter(results), dict[str, np.ndarray]()
    for name, kind in network.output_types.items():
        array = np.zeros(0, kind.array_dtype) if kind.is_empty else np.asarray(next(remaining))
        outputs[name] = array.reshape(kind.shape)
    return outputs


def compile_network(network: "Network", name: str, device: Device) -> Compiled:
    """Return the program of a network for a device. Raises `DmlError` where memory is too small."""
    sizes = {
        f"{name}: {point.name} {tensor.shown()}": tensor.total_tensor_size_in_bytes
        for point in network.bind_points()
        for tensor in point.tensors
    }
    check_memory(sizes, device)
    program = compile_bindable(network, device=device)
    check_temporary(network, program.cost().bytes_temporary, device, f"Network '{name}'")
    return program


def _output_files(network: "Network", folder: Path | None) -> dict[str, Path]:
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


def largest_of(
    outputs: Mapping[str, np.ndarray], labels: Sequence[str] | None
) -> dict[str, list[tuple[int, str, float]]]:
    """Return the five largest numbers of each output of one row: index, label, number.

    With `labels`, a row has as many numbers as there are labels. Raises `DmlError` where no output
    has such a row.
    """
    found = {}
    for name, array in outputs.items():
        is_row = max(array.shape, default=1) == array.size > 1
        is_labelled = labels is not None and is_row and array.size == len(labels)
        if not np.issubdtype(array.dtype, np.floating) or not (is_labelled or labels is None):
            continue
        if is_row:
            row = array.reshape(-1)
            order = np.argsort(-row, kind="stable")[:MOST_SHOWN]
            found[name] = [(int(k), labels[k] if labels else "", float(row[k])) for k in order]
    if labels is not None and not found:
        sizes = {a.size for a in outputs.values() if max(a.shape, default=1) == a.size > 1}
        count = " or ".join(map(str, sorted(sizes))) or "no"
        rule = f"have a line for each number of an output of one row, {count} lines"
        raise DmlError([Fault("", "--labels", rule, len(labels))])
    return found


def run_model(model: Model, device: Device, asked: Any) -> dict[str, Any]:
    """Run a model as the options `asked` say; return what JSON reports of it."""
    report: dict[str, Any] = {}

    def record(kind: str, facts: dict[str, Any]) -> None:
        if asked.as_json:
            report.setdefault(kind, []).append(_plain(facts))

    executor = Executor(
        model,
        device,
        asked.say,
        asked.timing,
        progress(asked.timing.milliseconds_to_run),
        record,
        asked.output_path or Path(),
        print_most=PRINT_MOST if sys.stdout.isatty() and not asked.as_json else None,
        print_commands=asked.print_commands,
        initial=initial_of_files(model, asked.inputs),
    )
    if asked.hlo:
        return _programs("Dispatchable", executor.hlo(), asked.as_json)
    executor.run()
    return report


def _programs(kind: str, programs: Iterable[tuple[str, str]], as_json: bool) -> dict[str, Any]:
    """Print the HLO of programs, by name; return what JSON reports of them."""
    found = []
    for name, text in programs:
        found.append({"name": name, "hlo": text})
        if not as_json:
            click.echo(f"{kind} '{printable(name)}':\n{text}")
    return {"programs": found}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a result in JSON's types, with the type of values and the median."""
    if "values" in facts:
        values = facts["values"]
        return {**facts, "data_type": values.dtype.name.upper(), "values": values.tolist()}
    if "samples_ms" in facts:
        return {**facts, "median_ms": statistics.median_high(facts["samples_ms"])}
    return facts
