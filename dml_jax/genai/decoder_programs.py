"""The compiled programs of a decoder, each with the arrays that it reads.

Each program takes over the memory of the cache that it is given: keys and values are written where
they lie, and a token copies no buffer.
"""

import contextlib
import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.cached_start import CachedStart
from dml_jax.genai.decoder import CHUNKS, Cache, Decoder, rows_of
from dml_jax.genai.decoder_networks import Lengths
from dml_jax.genai.sampling import Numbers, most_likely, pick_tokens
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.runtime.platform import platform
from dml_jax.runtime.recently_used import RecentlyUsed
from dml_jax.system.slow_notice import SlowNotice

# Lengths of chunks, sizes of buffers (one for near values of max_length) and batches of a program
# that serves many requests: so many programs are more than the requests of a minute need.
_PROGRAMS = 256
_CACHE = 1  # the place of the cache among the arguments of a program, whose memory it takes over

# A host needs longer to launch the kernels of a step than a GPU to run them. A graph of kernels, of
# one launch, would be recorded again at each step, since arrays lie at other addresses. A program
# of several steps is a loop: XLA records the graph of its body once, for all turns.
_STEP_ON_A_GPU = {"xla_gpu_enable_command_buffer": ""}
# Of one sequence the long products are no products of matrices to XLA: nothing is to be tuned.
_OF_ONE_SEQUENCE = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}

Door = Callable[[], contextlib.AbstractContextManager[None]]


class State(NamedTuple):
    """What one step leaves to the next, beside the cache.

    Attributes:
        tokens: the tokens that are chosen and not in the cache yet, [batch, 1] INT32.
        count: how many tokens a sequence has, these included, INT32.
        has_ended: which sequences have ended, [batch].
        key: of the draws that come.
        seen: which tokens occurred, [batch, vocabulary]; None where no penalty counts them.
    """

    tokens: Any
    count: Any
    has_ended: Any
    key: jax.Array
    seen: jax.Array | None


class Block(NamedTuple):
    """Tokens [steps, batch] INT32, and the key after each of their draws; None without draws."""

    tokens: Any
    keys: jax.Array | None


@dataclass(frozen=True)
class Program:
    """A program of some lengths.

    Attributes:
        lengths: the lengths of its network.
        kept: the names of the first of its parameters, which are weights as they are.
        parameters: the arrays that it reads at each call, its first argument.
        call: the program.
    """

    lengths: Lengths
    kept: Sequence[str]
    parameters: Any
    call: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.call(self.parameters, *arguments)


class DecoderPrograms:
    """The programs of `decoder`, of one step and of `ahead` steps.

    `start` has the programs of other processes, None where none are kept; `door` is `Model.door`.

    Attributes:
        built: how many programs were made or read so far.
    """

    def __init__(self, decoder: Decoder, ahead: int, start: CachedStart | None, door: Door):
        self._decoder, self._ahead, self.start, self._door = decoder, ahead, start, door
        self.built = 0
        self._notice = _notice(start)
        self._programs = RecentlyUsed[Program](_PROGRAMS)

    def empty_cache(self, batch: int, rows: int) -> Cache:
        """Return an empty cache: where programs are kept, one of them makes all of it."""
        with self._door():
            if self.start is None:
                return self._decoder.cache(batch, rows)
            name, kept = f"cache {batch} {rows}", self.start.programs
            function = CompiledFunction(
                name, lambda _: self._decoder.cache(batch, rows), cache=kept
            )
            return function.compute_now(())

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

        return self._run(("step", lengths), build, cache, tokens, counts)

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
        return self._run(key, build, cache, state, numbers)

    def _run(self, key: Hashable, build: Callable[[], Program], *arguments: Any) -> Any:
        """Call the program of a key, which is built before its first call, and compiled in it."""
        is_first = key not in self._programs
        with self._door(), self._notice.watching() if is_first else contextlib.nullcontext():
            return self._programs.get_or_build(key, build)(*arguments)

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
        return Program(lengths, kept, parameters, call)

    def output(self, name: str, tokens: np.ndarray, rows: int) -> np.ndarray:
        """Return the output `name` for each of the first tokens of sequences, [batch, length, ...].

        `tokens` are [batch, length]; a buffer holds `rows` tokens, `length` or more.
        """
        decoder, (batch, length) = self._decoder, tokens.shape
        rows = decoder.width(rows, length)
        size = 1 if rows % CHUNKS[1] else CHUNKS[1]  # so that whole chunks fit

        def decode(weights: Any, cache: Cache, part: Any) -> Any:
            return decoder.decode(weights, cache, part, output=name)

        def build() -> Program:
            function = CompiledFunction(f"decode {name}", decode, donate=[_CACHE])
            return Program(Lengths(batch, size, rows, rows), (), decoder.weights, function)

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


def _notice(start: CachedStart | None) -> SlowNotice:
    """Return what says on a terminal that a call compiles, or reads what `start` keeps."""
    if not sys.stderr or not sys.stderr.isatty():
        return SlowNotice()
    cache = "" if start is None else ", or loads them from its cache"
    return SlowNotice(f"dml_jax compiles the programs of these lengths{cache}. Then tokens come.")


def steps_of(
    decoder: Decoder,
    parameters: Sequence[Any],
    cache: Cache,
    state: State,
    numbers: Numbers,
    *,
    count: int,
    width: int,
    draws: bool,
    top_k: int,
) -> tuple[Block, Cache, State]:
    """Return the next tokens, and the cache and the state after them, of `count` steps.

    A sequence that has ended goes on with the pad_token_id. Steps behind max_length leave the cache
    as it is, and their tokens have no meaning. `parameters` are those of the network of one token,
    and `width` is what `Decoder.width` returns; `draws` and `top_k` are as for `pick_tokens`.
    """
    folder = decoder.networks.folder
    ends, batch = np.array(folder.eos_token_ids, np.int32), state.tokens.shape[0]

    def turn(index: Any, carried: tuple[Block, Cache, State]) -> tuple[Block, Cache, State]:
        block, cache, state = carried
        # Weights depend on the turn, so that nothing of them is computed before the loop, and kept.
        weights, tokens = jax.lax.optimization_barrier((parameters, state.tokens))
        # A count of 0 leaves the cache as it is: the last block may be longer than the sequence.
        counts = jnp.full(batch, state.count < numbers.max_length).astype(np.int32)
        logits, cache = decoder.step(weights, cache, tokens, counts, width)
        # No token that ends a sequence comes before min_length, which is an input of the program:
        # another length needs no other program.
        is_end = np.zeros((1, logits.shape[1]), bool)
        is_end[:, ends] = True
        key, own = jax.random.split(state.key) if draws else (state.key, state.key)
        banned = is_end & (state.count < numbers.min_length)
        chosen = pick_tokens(logits, state.seen, banned, own, numbers, draws=draws, top_k=top_k)
        chosen = jnp.where(state.has_ended, np.int32(folder.pad_token_id), chosen)
        has_ended = state.has_ended | jnp.isin(chosen, ends)
        seen = state.seen
        if seen is not None:
            seen = seen.at[jnp.arange(batch, dtype=np.int32), chosen].set(True)
        after = State(chosen[:, None], state.count + np.int32(1), has_ended, key, seen)
        return _with(block, index, chosen, key), cache, after

    tokens = jnp.zeros((count, batch), np.int32)
    keys = jnp.broadcast_to(state.key, (count,)) if draws else None
    return jax.lax.fori_loop(0, count, turn, (Block(tokens, keys), cache, state))


def _with(block: Block, index: Any, tokens: jax.Array, key: jax.Array) -> Block:
    """Return a block with the tokens of a turn, and the key after it.

    It chooses among whole arrays: a slice at a turn's place would be a copy outside of the CUDA
    graph, or one for which the host changes the graph at each turn.
    """
    is_there = jnp.arange(block.tokens.shape[0], dtype=np.int32) == index
    made = jnp.where(is_there[:, None], tokens, block.tokens)
    return Block(made, None if block.keys is None else jnp.where(is_there, key, block.keys))
