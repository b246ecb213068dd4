"""Tokens that a device computes ahead of those that a generator hands out."""

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.decoder_programs import Block, State
from dml_jax.genai.model_runner import ModelRunner
from dml_jax.genai.sampling import Numbers, TokenSampler
from dml_jax.genai.sequences import Sequences


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
