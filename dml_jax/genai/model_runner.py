"""Runs the tokens of sequences through a model, chunk by chunk."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.beam_search import reorder_sequences
from dml_jax.genai.decoder import CHUNKS
from dml_jax.genai.model import Model


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


def _chunk(count: int, room: int, least: int, most: int) -> int:
    """Return the length of the next chunk of `count` tokens, where `room` rows are left.

    Less than `least` tokens go one by one, and more than `most` by the longest chunk.
    """
    for length in CHUNKS:
        if length <= room and (count > most if length == CHUNKS[0] else count >= least):
            return length
    return 1
