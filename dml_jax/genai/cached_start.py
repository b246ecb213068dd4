"""Decoders whose programs are kept in a folder, with the names of what their calls hold.

A start that finds them there loads no network and traces nothing. It reads the weights of the file
in threads, makes of them what follows from them alone, and reads a program when it is called.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper

from dml_jax.genai.decoder import Cache, Decoder
from dml_jax.genai.folder import Folder
from dml_jax.onnx.files.external_data import files_of
from dml_jax.runtime.platform import default_device
from dml_jax.runtime.program_cache import ProgramCache

_READERS = 2  # threads that read weights: of a file that the system has in memory, a copy


class KeptDecoder(Decoder):
    """A decoder on a CPU whose `programs` are kept in a folder."""

    def __init__(self, folder: Folder, keeps_int4: bool, programs: Path):
        super().__init__(folder, keeps_int4)
        self._device = default_device()
        self.programs = ProgramCache(programs, _digest(folder, keeps_int4))
        self._tensors = {tensor.name: tensor for tensor in folder.proto.graph.initializer}
        self._soon: Future[Any] | None = None
        plan = self.programs.read_record(self._file("start"))
        if plan is not None:
            reader = ThreadPoolExecutor(1, "dml_jax reads")
            self._soon = reader.submit(self._held_by, plan)
            reader.shutdown(wait=False)

    def having(self, folder: Folder) -> Decoder:
        """Return the decoder of another network, whose programs are not kept."""
        other = Decoder(folder, self._keeps_int4)
        other._weights = self.weights
        return other

    def cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache, as `Decoder.cache`: one program makes all of it."""
        jitted = jax.jit(lambda: super(KeptDecoder, self).cache(batch, rows))
        return self.programs.compiled(f"cache {batch} {rows}", jitted, self._device)()

    def holding(self, batch: int, length: int, rows: int, width: int) -> Sequence[jax.Array]:
        """Return what the calls of a step hold, as `Decoder.holding` does."""
        key = [batch, length, rows, width]
        if self._soon is not None:
            soon, self._soon = self._soon, None
            soon.result()
        plan = self.programs.read_record(self._file(f"held {key}")) or self._planned(key)
        self._names[length] = plan["names"]
        return self._held_by(plan)

    def _planned(self, key: list[int]) -> dict[str, Any]:
        """Return what a network holds, by name; keep it where its weights are as in the file."""
        network: Any = self.network(*key, is_last=True)
        names, made = network.prepared_from
        given = sorted(network.weights) if made else names
        plan = {"key": key, "names": names, "made": made, "given": given}
        tensors = ((self._tensors.get(name), w) for name, w in network.weights.items())
        if all(t and (tuple(t.dims), _type_of(t)) == (w.shape, w.dtype) for t, w in tensors):
            self.programs.write_record(self._file(f"held {key}"), plan)
            self.programs.write_record(self._file("start"), plan)
        return plan

    def _file(self, name: str) -> Path:
        return self.programs.record_file(name, self._device)

    def _held_by(self, plan: Mapping[str, Any]) -> Sequence[jax.Array]:
        """Return what a plan names: weights, and what is made of weights once."""
        names, made = plan["names"], plan["made"]
        is_made = len(self._made or ()) == made
        given = self._read(names if is_made else plan["given"])
        if not is_made:
            making = jax.jit(partial(self._making, plan["key"]))
            program = self.programs.compiled(f"made {made}", making, self._device, given)
            self._made = tuple(program(given))
        self._weights = {**self._weights, **{name: given[name] for name in names}}
        return (*(given[name] for name in names), *(self._made or ()))

    def _making(self, key: Sequence[int], given: Mapping[str, Any]) -> Sequence[Any]:
        """Return what a network makes of weights."""
        network: Any = self.network(*key, is_last=True)
        names, _ = network.prepared_from
        return network.prepared(given)[len(names) :]

    def compiled(self, step: Callable[..., Any], width: int, *given: Any) -> Any:
        """Return the program of a step of arguments like `given`, the cache the second one."""
        jitted = jax.jit(partial(step, width=width), donate_argnums=1)
        return self.programs.compiled(f"step {width}", jitted, self._device, *given)

    def _read(self, names: Sequence[str]) -> dict[str, jax.Array]:
        """Return weights by name; those that are not there are read."""
        missing = [self._tensors[name] for name in names if name not in self._weights]
        with ThreadPoolExecutor(_READERS, "dml_jax reads") as readers:
            arrays = [*readers.map(self.folder.files.array, missing)]
        read = zip((tensor.name for tensor in missing), jax.device_put(arrays), strict=True)
        known = {name: self._weights[name] for name in names if name in self._weights}
        return known | dict(read)


def kept_step(decoder: KeptDecoder, step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step, for tokens and buffers of any size, whose programs a decoder keeps."""
    known: dict[Any, Any] = {}

    def call(*, held: Any, cache: Cache, tokens: Any, counts: Any, width: int) -> Any:
        key = tokens.shape, cache["buffers"][0].shape, width
        if key not in known:
            known[key] = decoder.compiled(step, width, held, cache, tokens, counts)
        return known[key](held, cache, tokens, counts)

    return call


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
