"""Starts of a decoder from programs and records on disk, which another process wrote.

A start that finds them loads no network and traces nothing. It reads the weights of the file in
threads, and the programs: one that derives arrays from weights, one that makes an empty cache, and
one for each length of a step.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import onnx
from onnx import helper

from dml_jax.genai.decoder_networks import DecoderNetworks, Lengths
from dml_jax.genai.folder import Folder
from dml_jax.onnx.files.external_data import files_of
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.runtime.platform import default_device
from dml_jax.runtime.program_cache import ProgramCache

_READERS = 2  # threads that read weights: of a file that the system has in memory, a copy
_LAST = "start"  # the record of the step that another process called last


class StepRecord(NamedTuple):
    """What the parameters of a step are made of.

    A `NetworkRecord` would have the graph that derives arrays from weights too, whose nodes are
    checked again when they are read. The program of that graph is read in less time.

    Attributes:
        lengths: the sizes of the network.
        kept: the names of the weights that calls read as they are.
        derived: the number of arrays that follow from weights.
        weights: the names of the weights that these follow from; `kept` where there are none.
    """

    lengths: Lengths
    kept: Sequence[str]
    derived: int
    weights: Sequence[str]


class CachedStart:
    """The `programs` and records of the decoder of `networks` on one CPU, in the folder `place`."""

    def __init__(self, networks: DecoderNetworks, place: Path):
        self._networks, folder = networks, networks.folder
        self.programs = ProgramCache(place, _digest(folder, networks.keeps_int4))
        self._tensors = {tensor.name: tensor for tensor in folder.proto.graph.initializer}
        self._derived: Sequence[jax.Array] = ()
        self._soon: Future[Any] | None = None
        record = self._read(_LAST)
        if record is not None:
            # While a program reads its prompt and makes tokens of it, the weights are read.
            reader = ThreadPoolExecutor(1, "dml_jax reads")
            self._soon = reader.submit(self._parameters, record)
            reader.shutdown(wait=False)

    def parameters(self, lengths: Lengths) -> tuple[Sequence[str], Sequence[jax.Array]]:
        """Return the names of the weights that a step reads as they are, and its parameters."""
        self.wait()
        record = self._read(str(lengths)) or self._record(lengths)
        return record.kept, self._parameters(record)

    def wait(self) -> None:
        """Wait for the thread that reads weights. Raises what it raised."""
        if self._soon is not None:
            soon, self._soon = self._soon, None
            soon.result()

    def _read(self, name: str) -> StepRecord | None:
        record = self.programs.read_record(self._file(name))
        return record if isinstance(record, StepRecord) else None

    def _file(self, name: str) -> Path:
        return self.programs.record_file(name, default_device())  # pyright: ignore

    def _record(self, lengths: Lengths) -> StepRecord:
        """Return the record of a network; write it where its weights are as in the file."""
        network: Any = self._networks.of(lengths)
        kept, count = network.prepared_from
        record = StepRecord(lengths, kept, count, sorted(network.weights) if count else kept)
        tensors = ((self._tensors.get(name), w) for name, w in network.weights.items())
        if all(t and (tuple(t.dims), _type_of(t)) == (w.shape, w.dtype) for t, w in tensors):
            for name in (str(lengths), _LAST):
                self.programs.write_record(self._file(name), record)
        return record

    def _parameters(self, record: StepRecord) -> Sequence[jax.Array]:
        """Return the arrays that a record names: weights, and those that follow from them."""
        weights = self._weights(record.kept)
        # Networks of all lengths derive the same arrays: one program makes them once.
        if len(self._derived) != record.derived:
            weights |= self._weights(record.weights)

            def derive(weights: Mapping[str, Any]) -> Sequence[Any]:
                network: Any = self._networks.of(record.lengths)
                return network.prepared(weights)[len(record.kept) :]

            name = f"prepare {record.derived}"
            prepare = CompiledFunction(name, derive, cache=self.programs)
            self._derived = prepare.compute_now({name: weights[name] for name in record.weights})
            store = self._networks.store
            store.derived.update({(name, k): x for k, x in enumerate(self._derived)})
        return (*(weights[name] for name in record.kept), *self._derived)

    def _weights(self, names: Sequence[str]) -> dict[str, jax.Array]:
        """Return weights by name; those that are not on the device are read."""
        known = self._networks.weights
        missing = [self._tensors[name] for name in names if name not in known]
        with ThreadPoolExecutor(_READERS, "dml_jax reads") as readers:
            arrays = [*readers.map(self._networks.folder.files.array, missing)]
        read = dict(zip((tensor.name for tensor in missing), arrays, strict=True))
        added = self._networks.store.put_named(read)
        return {name: added[name] if name in added else known[name] for name in names}


def _type_of(tensor: onnx.TensorProto) -> np.dtype:
    return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))


def _digest(folder: Folder, keeps_int4: bool) -> str:
    """Return what tells decoders apart: their networks, and the files of their weights."""
    model = json.dumps(folder.model, sort_keys=True)
    with (folder.path / folder.filename).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    stamps = [
        (str(path.resolve()), found.st_size, found.st_mtime_ns)
        for path in files_of(folder.proto, folder.files)
        if (found := path.stat())
    ]
    digest.update(repr((model, keeps_int4, stamps)).encode())
    return digest.hexdigest()
