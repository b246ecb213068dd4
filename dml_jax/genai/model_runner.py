"""Runs the tokens of sequences through a model: chunk by chunk, or several steps ahead."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.beam_search import reorder_sequences
from dml_jax.genai.decoder import CHUNKS
from dml_jax.genai.decoder_programs import Block, State
from dml_jax.genai.model import Model
from dml_jax.genai.sampling import Numbers, TokenSampler
from dml_jax.genai.sequences import Sequences


class ModelRunner:
    """The cache of a batch of sequences, the tokens that are not in it yet, and the last logits.

    `max_length` is the most tokens of a sequence.

    Attributes:
        model: the model, with or without an adapter.
        batch: the number of sequences.
        steps: how many tokens a program computes, once the prompt is read.
        rows: the number of tokens that the cache has room for.
        cache: the cache.
        filled: how many tokens of each sequence are in the cache.
        waiting: the tokens of each sequence that are not in the cache yet.
        logits: the logits of the next token, [batch, vocabulary].
        best: the most likely tokens of these logits, [batch, 1]; None where they are not known.
    """

    def __init__(self, model: Model, batch: int, max_length: int, steps: int):
        self.model, self.batch, self.steps = model, batch, steps
        self.rows = model.decoder.rows(max_length)
        self.cache = model.programs.empty_cache(batch, self.rows)
        self.filled, self.waiting = [0] * batch, [np.zeros(0, np.int32)] * batch
        self.logits: jax.Array | None = None
        self.best: jax.Array | None = None

    def restart(self, tokens: np.ndarray) -> None:
        """Go back to the first tokens of each sequence, [batch, length]; the last one waits."""
        self.logits = self.best = None
        length = tokens.shape[1]
        # The last one is computed again, for its logits.
        self.waiting = [row[length - 1 :] if length else row for row in tokens]
        self.go_back([max(length - 1, 0)] * self.batch)

    def go_back(self, filled: Sequence[int]) -> None:
        """Leave out of the cache all but the first tokens of each sequence."""
        self.filled = [*filled]
        self.cache = self.model.decoder.shorten(self.cache, self.filled)

    def compute(self, least: int = 2) -> None:
        """Run the tokens that wait through the model: `least` of them or more as a chunk."""
        batch = self.batch
        total = max(f + len(w) for f, w in zip(self.filled, self.waiting, strict=True))
        width = self.model.decoder.width(self.rows, total)
        while any(map(len, self.waiting)):
            longest = max(map(len, self.waiting))
            # One program of the longest chunk pays for a long prompt alone, where a shorter one
            # would be compiled besides.
            most = CHUNKS[1] * (4 if batch > 1 or self.steps == 1 else 1)
            length = _chunk(longest, width - max(self.filled), least, most)
            counts = np.array([min(length, len(w)) for w in self.waiting], np.int32)
            tokens = np.zeros((batch, length), np.int32)  # a model may not have its pad_token_id
            for row, count in enumerate(counts):
                tokens[row, :count] = self.waiting[row][:count]
            is_last = np.array(
                [c and c == len(w) for c, w in zip(counts, self.waiting, strict=True)]
            )
            self.waiting = [w[c:] for c, w in zip(counts, self.waiting, strict=True)]
            before, logits = self.logits, self.run(tokens, counts, width)
            # Prompts of a batch end in several chunks: each one's logits stay from its last chunk.
            if before is not None and not is_last.all():
                self.logits = jnp.where(is_last[:, None], logits, before)
                self.best = None

    def run(self, tokens: Any, counts: np.ndarray, width: int) -> jax.Array:
        """Run tokens, [batch, length], through the model; return the logits of the last ones."""
        # An array of the device, as the tokens that come from it: both have one program.
        tokens = jnp.asarray(tokens)
        results = self.model.programs.step(self.cache, tokens, counts, width)
        logits, self.best, self.cache = results
        self.logits = logits
        self.filled = [f + int(c) for f, c in zip(self.filled, counts, strict=True)]
        return logits

    def reorder(self, order: np.ndarray) -> None:
        """Let each sequence take over the cache of another one, by `order`."""
        self.cache = reorder_sequences(self.cache, order)
        self.filled = [self.filled[row] for row in order]

    def rows_of(self, place: int, end: int) -> np.ndarray:
        """Return keys or values, the buffer `place`: of all heads the rows before `end`."""
        buffer = np.asarray(self.cache["buffers"][place])
        # Several devices may have copies of a head.
        heads = buffer[:, :: buffer.shape[1] // self.model.decoder.networks.heads[0]]
        return self.model.decoder.filled_rows(heads, max(self.filled))[:, :, :end]


class TokensAhead:
    """Blocks of tokens that a device computes, while a generator hands them out one by one.

    `runner` runs the model. The tokens follow `sequences`, as `sampler` would choose them.
    """

    def __init__(self, runner: ModelRunner, sequences: Sequences, sampler: TokenSampler):
        self._runner, self._options = runner, sampler.options
        self._sequences, self._sampler = sequences, sampler
        self._clear()

    def _clear(self) -> None:
        # Two at most: one is handed out while the device computes the other. A third one would be
        # computed in vain where a sequence ends, and is no sooner there.
        self._blocks: list[Block] = []
        self._state: State | None = None  # after the last one of them
        self._used = 0  # tokens of the first one that were handed out
        self._keys: jax.Array | None = None  # of the last one that was handed out as a whole

    def _width(self) -> int | None:
        """Return the width of the next block's program; None where it is not one for all steps."""
        steps, filled = self._runner.steps, max(self._runner.filled)
        start = filled + steps * len(self._blocks) - self._used
        end = min(start + steps, self._options.max_length)
        decoder, rows = self._runner.model.decoder, self._runner.rows
        # Steps of one program see one mask: where its size changes, single steps go on.
        widths = {decoder.width(rows, total) for total in (start + 1, end)}
        return widths.pop() if len(widths) == 1 else None

    @property
    def is_next(self) -> bool:
        """Return whether the next token is one of several that a program computes."""
        if self._blocks:
            return True
        is_read = all(len(tokens) == 1 for tokens in self._runner.waiting)
        return self._runner.steps > 1 and is_read and self._width() is not None

    def next(self) -> np.ndarray:
        """Return the next token of each sequence, [batch].

        A device computes the block after it at the same time.
        """
        while len(self._blocks) < 2:
            width, ahead = self._width(), self._runner.steps * len(self._blocks) - self._used
            if width is None or self._sequences.count + ahead >= self._options.max_length:
                break
            self._launch(width)
        block = self._blocks[0]
        # The host waits here for the device, once a block.
        if not self._used:
            self._blocks[0] = block = Block(np.asarray(block.tokens), block.keys)
        self._used += 1
        return block.tokens[self._used - 1]

    def take(self, tokens: np.ndarray) -> None:
        """Take note that the tokens of `next` are part of the sequences."""
        runner, block = self._runner, self._blocks[0]
        runner.filled = [count + 1 for count in runner.filled]
        runner.waiting = [*tokens[:, None]]
        if self._used == runner.steps:
            self._blocks, self._used, self._keys = self._blocks[1:], 0, block.keys

    def _launch(self, width: int) -> None:
        """Let the device compute the next block."""
        runner, options = self._runner, self._options
        sequences, sampler = self._sequences, self._sampler
        if self._state is None:
            tokens, ended = jnp.asarray(np.stack(runner.waiting)), jnp.array(sequences.has_ended)
            count = jnp.asarray(np.int32(sequences.count))
            self._state = State(tokens, count, ended, sampler.key, sampler.seen)
            # The cache moves on beyond these: `get_logits` computes them again.
            runner.logits = runner.best = None
        numbers, static = Numbers.of(options), options.of_programs
        results = runner.model.programs.steps(runner.cache, self._state, numbers, width, **static)
        block, runner.cache, self._state = results
        # The copy starts when the block is computed, not when the host asks for its first token.
        block.tokens.copy_to_host_async()
        self._blocks.append(block)

    def forget(self) -> None:
        """Leave out tokens that are computed and not handed out: the last one waits again."""
        if self._state is None:
            return
        keys = self._blocks[0].keys if self._used else self._keys
        # The draws go on as if nothing had been computed ahead: a seed gives the same tokens.
        if keys is not None:
            self._sampler.key = keys[self._used - 1]
        self._clear()
        self._runner.go_back(self._runner.filled)
        self._sampler.restart(self._sequences.tokens)


def _chunk(count: int, room: int, least: int, most: int) -> int:
    """Return the length of the next chunk of `count` tokens, where `room` rows are left.

    Less than `least` tokens go one by one, and more than `most` by the longest chunk.
    """
    for length in CHUNKS:
        if length <= room and (count > most if length == CHUNKS[0] else count >= least):
            return length
    return 1
