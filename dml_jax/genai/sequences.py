"""The tokens of a batch of sequences, which have one length, and where they end."""

from collections.abc import Sequence
from typing import Any

import numpy as np


class Sequences:
    """The tokens of a batch.

    Args:
        ends: the tokens that end a sequence.
        tokens: the first tokens, [batch, length].

    Attributes:
        count: how many tokens a sequence has.
        begin: how many of them are the prompt's.
        last: the tokens that came last, [batch]; those that end sequences are here alone.
        has_ended: which sequences have ended, [batch].
        read: the columns that the model read last, from one place to another.
        is_read: whether the model has read the last token for a caller, who may ask for outputs.
    """

    def __init__(self, ends: Sequence[int], tokens: np.ndarray):
        self._ends = np.array(ends, np.int32)
        self.restart(tokens)

    def restart(self, tokens: np.ndarray) -> None:
        """Have other tokens in place of all."""
        batch, count = tokens.shape
        # Columns, [batch, n] each, of NumPy or JAX: a token stays on its device until it is read,
        # and a copy of all tokens at each one would take longer than the token.
        self._parts: list[Any] = [tokens]
        self.count = self.begin = count
        self.read, self.is_read = (max(count - 1, 0), count), False
        self.last = np.zeros(batch, np.int32)
        self.has_ended = np.zeros(batch, bool)
        # (sequence, start, end) of paddings: columns of the tokens that the API gives back, and no
        # rows of the cache.
        self._gaps: list[tuple[int, int, int]] = []

    @property
    def tokens(self) -> np.ndarray:
        """Return the tokens, [batch, length]."""
        parts = [np.asarray(part) for part in self._parts]
        self._parts = [np.concatenate(parts, 1)] if len(parts) > 1 else parts
        return self._parts[0]

    def append_prompt(self, tokens: np.ndarray, lengths: Sequence[int]) -> None:
        """Append tokens, [batch, length], of which each sequence has its first `lengths`."""
        end = self.count + tokens.shape[1]
        self._gaps += [(row, self.count + n, end) for row, n in enumerate(lengths)]
        self._parts.append(tokens)
        self.read, self.is_read = (self.count, end), True
        self.count = self.begin = end
        self.has_ended[:] = False

    def mark_read(self) -> None:
        """Take note that the model reads the last token, if it has not read it."""
        if not self.is_read:
            self.read, self.is_read = (self.count - 1, self.count), True

    def append(self, column: Any) -> None:
        """Append a token to each sequence, [batch, 1]."""
        self._parts.append(column)
        self.count += 1

    def continue_from(self, order: np.ndarray, tokens: np.ndarray) -> None:
        """Let each sequence go on with the tokens of another one, by `order`, and a token."""
        # All tokens are copied, since each beam may go on with another one's.
        self.last = tokens
        self._parts = [np.concatenate([self.tokens[order], tokens[:, None]], 1)]
        self.count += 1

    def end_with(self, tokens: np.ndarray) -> bool:
        """Take note of the next tokens; return whether all sequences have ended.

        The tokens that end the last ones of them are no part of the sequences.
        """
        self.last = tokens
        self.has_ended |= (tokens[:, None] == self._ends).any(1)
        return bool(self.has_ended.all())

    def mask(self, end: int) -> np.ndarray:
        """Return which tokens up to a place are no paddings, [batch, end]: 1 or 0."""
        mask = np.ones((len(self.last), end), np.int64)
        for row, first, last in self._gaps:
            mask[row, first:last] = 0
        return mask


def without_padding(tokens: np.ndarray, pad: int | None) -> np.ndarray:
    """Return tokens without the padding at their end; one token where all are padding."""
    (places,) = np.nonzero(tokens != pad)
    return tokens[: places[-1] + 1] if places.size else tokens[:1]
