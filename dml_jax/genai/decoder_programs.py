"""The compiled programs of a decoder, each with the arrays that it reads.

Each program takes over the memory of the cache that it is given: keys and values are written where
they lie, and a token copies no buffer.
"""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dml_jax.genai.cached_start import CachedStart
from dml_jax.genai.decoder import CHUNKS, Cache, Decoder, rows_of
from dml_jax.genai.decoder_networks import Lengths
from dml_jax.genai.sampling import most_likely
from dml_jax.genai.token_blocks import Block, Numbers, State, steps_of
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.runtime.platform import platform
from dml_jax.runtime.recently_used import RecentlyUsed

# Lengths of chunks, sizes of buffers (one for near values of max_length) and batches of a program
# that serves many requests: so many programs are more than the requests of a minute need.
_PROGRAMS = 256
_CACHE = 1  # the place of the cache among the arguments of a program, whose memory it takes over

# A graph of kernels would be recorded again at each step, since arrays lie at other addresses. A
# program of several steps has such a graph: XLA records it once for all of them.
_STEP_ON_A_GPU = {"xla_gpu_enable_command_buffer": ""}
# Of one sequence the long products are no products of matrices to XLA: nothing is to be tuned.
_OF_ONE_SEQUENCE = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}

Door = Callable[[], contextlib.AbstractContextManager[None]]


@dataclass(frozen=True)
class Program:
    """A program of some lengths.

    Attributes:
        lengths: the lengths of its network.
        kept: the names of the first of its parameters, which are weights as they are.
        parameters: the arrays that it reads at each call.
        function: what compiles it.
        call: the program; the parameters are its first argument.
    """

    lengths: Lengths
    kept: Sequence[str]
    parameters: Any
    function: CompiledFunction
    call: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.call(self.parameters, *arguments)


class DecoderPrograms:
    """The programs of a decoder.

    Args:
        decoder: the decoder.
        ahead: how many steps the program of several steps has.
        start: the programs of other processes; None where none are kept.
        door: returns a context that says what went wrong inside, as `Model.door`.

    Attributes:
        built: how many programs were made or read so far.
    """

    def __init__(self, decoder: Decoder, ahead: int, start: CachedStart | None, door: Door):
        self._decoder, self._ahead, self.start, self._door = decoder, ahead, start, door
        self.built = 0
        self._programs = RecentlyUsed[Program](_PROGRAMS)

    def empty_cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache: where programs are kept, one of them makes all of it."""
        with self._door():
            if self.start is None:
                return self._decoder.cache(batch, rows)
            name, kept = f"cache {batch} {rows}", self.start.programs
            function = CompiledFunction(
                name, lambda nothing: self._decoder.cache(batch, rows), cache=kept
            )
            return function.compute_now(())

    def encode(self, cache: Cache, source: np.ndarray) -> Cache:
        """Return what `Decoder.encode` returns."""
        with self._door():
            return self._decoder.encode(cache, source)

    def step(
        self, cache: Cache, tokens: Any, counts: Any, width: int
    ) -> tuple[jax.Array, jax.Array, Cache]:
        """Return the logits, the most likely tokens [batch, 1], and the cache after tokens.

        The arguments are those of `Decoder.step`.
        """
        batch, length = tokens.shape
        lengths = self._decoder.lengths(batch, length, rows_of(cache), width, True)

        def step(parameters: Any, cache: Cache, tokens: Any, counts: Any) -> Any:
            logits, after = self._decoder.step(parameters, cache, tokens, counts, width)
            return logits, most_likely(logits)[:, None], after

        def build() -> Program:
            given = cache, tokens, counts
            return self._program(f"step {width}", step, lengths, _STEP_ON_A_GPU, given)

        with self._door():
            program = self._programs.get_or_build(("step", lengths), build)
            return program(cache, tokens, counts)

    def has_step(self, batch: int, rows: int, width: int) -> bool:
        """Return whether the program of a step of one token is there."""
        return ("step", self._decoder.lengths(batch, 1, rows, width, True)) in self._programs

    def steps(
        self, cache: Cache, state: State, numbers: Numbers, width: int, draws: bool, top_k: int
    ) -> tuple[Block, Cache, State]:
        """Return what `steps_of` returns, of `ahead` steps."""
        lengths = self._decoder.lengths(state.tokens.shape[0], 1, rows_of(cache), width, True)

        def steps(parameters: Any, cache: Cache, state: State, numbers: Numbers) -> Any:
            given = {"count": self._ahead, "width": width, "draws": draws, "top_k": top_k}
            return steps_of(self._decoder, parameters, cache, state, numbers, **given)

        def build() -> Program:
            name = f"steps {width} {draws} {top_k}"
            return self._program(name, steps, lengths, {}, (cache, state, numbers))

        key = "steps", lengths, draws, top_k, state.seen is None
        with self._door():
            return self._programs.get_or_build(key, build)(cache, state, numbers)

    def _program(
        self,
        name: str,
        function: Callable[..., Any],
        lengths: Lengths,
        options: Mapping[str, Any],
        arguments: Sequence[Any],
    ) -> Program:
        options = {**options, **(_OF_ONE_SEQUENCE if lengths.batch == 1 else {})}
        own = options if platform() == "gpu" else {}
        cache = None if self.start is None else self.start.programs
        compiled = CompiledFunction(name, function, options=own, donate=[_CACHE], cache=cache)
        if self.start is None:
            network = self._decoder.networks.of(lengths)
            kept, parameters = network.prepared_from[0], network.constants
        else:
            kept, parameters = self.start.parameters(lengths)
        self.built += 1
        # A program has one set of types, so that a program of the disk is looked up once. That of
        # `jax.jit` looks its arguments up in no time worth saving.
        call = compiled if self.start is None else compiled.program(parameters, *arguments)
        return Program(lengths, kept, parameters, compiled, call)

    def output(self, name: str, tokens: np.ndarray, rows: int) -> np.ndarray:
        """Return an output of the network of each token of sequences from their start.

        Args:
            name: its name.
            tokens: [batch, length].
            rows: the number of tokens that a buffer holds, `length` or more.

        Returns [batch, length, ...].
        """
        decoder, (batch, length) = self._decoder, tokens.shape
        rows = decoder.width(rows, length)
        size = 1 if rows % CHUNKS[1] else CHUNKS[1]  # so that whole chunks fit

        def decode(weights: Any, cache: Cache, part: Any) -> Any:
            return decoder.decode(weights, cache, part, output=name)

        def build() -> Program:
            function = CompiledFunction(f"decode {name}", decode, donate=[_CACHE])
            return Program(
                Lengths(batch, size, rows, rows), (), decoder.weights, function, function
            )

        padded, parts = np.pad(tokens, ((0, 0), (0, -length % size))), list[np.ndarray]()
        with self._door():
            program = self._programs.get_or_build(("decode", name, batch, size, rows), build)
            cache = decoder.cache(batch, rows)
            for start in range(0, length, size):
                result, cache = program(cache, padded[:, start : start + size])
                parts.append(np.asarray(result))
        return np.concatenate(parts, 1)[:, :length]

    def step_bytes(self, filled: int) -> int:
        """Return the bytes that a device reads in a step of one token, after `filled` tokens.

        Of the table of the tokens it reads a row, and of a buffer the rows that are filled.
        """
        programs = [program for program in self._programs.entries() if program.kept]
        if not programs:
            return 0
        nodes = self._decoder.networks.folder.proto.graph.node
        tables = {node.input[0] for node in nodes if node.op_type.startswith("Gather")}
        program = min(programs, key=lambda program: program.lengths.length)
        named = dict(zip(program.kept, program.parameters, strict=False))
        derived = program.parameters[len(program.kept) :]
        read = [*(array for name, array in named.items() if name not in tables), *derived]
        weights = sum(x.nbytes * math.prod(x.sharding.shard_shape(x.shape)) // x.size for x in read)
        networks = self._decoder.networks
        if not self._decoder.has_buffers:  # tokens are few bytes beside weights
            return weights
        rows = len(networks.folder.caches) * networks.device_heads * filled
        return weights + rows * networks.heads[1] * networks.cache_type.itemsize
