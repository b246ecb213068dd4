"""Blocks of tokens: several steps of a decoder as one program, which a device gets in one launch.

A host needs longer to launch the kernels of a step than a GPU to run them. A program of several
steps is a loop; XLA makes a CUDA graph of the loop's body, once for all turns.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.decoder import Cache, Decoder
from dml_jax.genai.sampling import SearchOptions, pick_tokens


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


class Numbers(NamedTuple):
    """The options of a search that are inputs of a program."""

    max_length: Any
    min_length: Any
    penalty: Any
    temperature: Any
    top_p: Any

    @classmethod
    def of(cls, options: SearchOptions) -> "Numbers":
        """Return the numbers of options."""
        counts = np.int32(options.max_length), np.int32(options.min_length)
        others = options.repetition_penalty, options.temperature, options.top_p
        return cls(*counts, *map(np.float32, others))


class Block(NamedTuple):
    """Tokens that a program computes.

    Attributes:
        tokens: [steps, batch] INT32.
        keys: the key after each of the draws, [steps]; None where nothing is drawn.
    """

    tokens: Any
    keys: jax.Array | None


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
        chosen = pick_tokens(
            logits,
            state.seen,
            is_end & (state.count < numbers.min_length),
            own,
            penalty=numbers.penalty,
            temperature=numbers.temperature,
            top_p=numbers.top_p,
            draws=draws,
            top_k=top_k,
        )
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
