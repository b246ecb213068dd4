"""One timed run of a network on a device, from the files of its inputs to those of its outputs."""

import contextlib
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dml_jax.dxdispatch.executor import check_memory, check_temporary
from dml_jax.dxdispatch.file_inputs import Pictures, read_inputs
from dml_jax.dxdispatch.repetition import Timing, Track
from dml_jax.errors import DmlError, Fault, printable
from dml_jax.memory.compiled import Compiled
from dml_jax.memory.compiled import compile as compile_bindable
from dml_jax.system.files import check_writable, write_npy, write_whole
from dml_jax.system.free_memory import Device

if TYPE_CHECKING:
    from dml_jax.onnx import Network

MOST_SHOWN = 5  # the largest numbers of an output that are listed

Busy = Callable[[str], contextlib.AbstractContextManager[Any]]


@dataclass(frozen=True)
class NetworkRun:
    """A timed run of a network.

    Attributes:
        name: the network in reports.
        inputs, outputs: the arrays, by name; outputs without padding.
        compile_ms: the milliseconds until the first dispatch: the program, and the inputs.
        samples_ms: the milliseconds of each timed iteration.
        files: the file of each output that was written, by the output's name.
    """

    name: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    compile_ms: float
    samples_ms: list[float]
    files: Mapping[str, Path]

    @property
    def run_ms(self) -> float:
        """Return the median of the timed iterations, in milliseconds."""
        return statistics.median(self.samples_ms)

    def to_json(self) -> dict[str, Any]:
        """Return the report for JSON, with all values of the outputs."""
        median = statistics.median_high(self.samples_ms)
        return {
            "inputs": _kinds(self.inputs),
            "outputs": _kinds(self.outputs),
            "values": {name: array.tolist() for name, array in self.outputs.items()},
            "compile_ms": self.compile_ms,
            "run_ms": self.run_ms,
            "dispatches": [{"name": self.name, "samples_ms": self.samples_ms, "median_ms": median}],
            "files": [*map(str, self.files.values())],
        }


def _kinds(arrays: Mapping[str, np.ndarray]) -> dict[str, list[Any]]:
    return {name: [array.dtype.name, [*array.shape]] for name, array in arrays.items()}


def run_network(
    network: "Network",
    name: str,
    device: Device,
    timing: Timing,
    *,
    files: Mapping[str, Path],
    pictures: Pictures,
    folder: Path | None,
    say: Callable[[str], Any],
    track: Track,
    busy: Busy = contextlib.nullcontext,
) -> NetworkRun:
    """Compile a network for a device, run it as `timing` says, and write its outputs.

    Args:
        network: the network.
        name: the network in the report.
        device: the device.
        timing: options for repetition and statistics.
        files: the files of inputs, by name; other inputs are random.
        pictures: normalizes the inputs that are pictures.
        folder: the folder of the outputs, a .npy file each; None writes none.
        say: gets each line of the report.
        track: wraps the iterations, for a progress bar.
        busy: a context that shows what its body does.

    Raises `DmlError` where a file cannot be read or written, and where memory is too small.
    """
    # A run may take long: a file that cannot be written is refused before it begins.
    targets, start = _output_files(network, folder), time.perf_counter()
    network = network.with_inputs(
        [n for n in network.defaults if n in files and n not in network.fixed]
    )
    with busy(f"Compiling {name}"):
        program = compile_network(network, name, device)
    inputs = read_inputs(network, files, pictures)
    if network.free:
        say(printable(f"Sizes (others: -f NAME:SIZE, -b NAME:SIZES): {network.describe()}"))
    for input_name, text in pictures.said.items():
        say(printable(f"Input '{input_name}': {text}"))
    # Inputs are on the device before the clock starts, as DxDispatch's resources are.
    arrays = [jax.device_put(array, device) for array in inputs.values()]
    compile_ms = 1e3 * (time.perf_counter() - start)
    if timing.verbosity > 0:
        say(f"Initialize '{printable(name)}': {compile_ms:.4f} ms")
    results: list[Any] = []

    def dispatch() -> None:
        results[:] = jax.tree.leaves(program(*arrays))

    samples = timing.measure(name, dispatch, lambda: jax.block_until_ready(results), track)
    for line in timing.report(name, samples):
        say(line)
    outputs = _outputs_of(network, results)
    network.signature.within(outputs, inputs)
    for output, path in targets.items():
        write_whole(path, lambda file, a=outputs[output]: write_npy(file, a))
    return NetworkRun(name, inputs, outputs, compile_ms, samples, targets)


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
