"""Beam search: the sequences that are most likely as a whole, as ONNX Runtime GenAI finds them.

Each prompt has `num_beams` sequences at a time. A step looks at twice as many of the most likely
ways to go on; those that end are kept as answers, the others are the beams of the next step.
"""

import copy
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.sampling import SearchOptions, adjust_logits


@functools.partial(jax.jit, donate_argnames="cache")
def reorder_sequences(cache: Any, order: Any) -> Any:
    """Return a cache, or other arrays [sequences, ...], with their sequences in another order.

    `order` says which sequence each one is after it; the memory of `cache` is taken over.
    """
    return jax.tree.map(lambda x: jnp.take(x, order, axis=0, mode="clip"), cache)


@functools.partial(jax.jit, static_argnames="beams")
def likeliest_ways(
    logits: jax.Array, seen: Any, banned: Any, sums: Any, *, penalty: Any, beams: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the 2 * beams most likely ways to go on, each [prompts, 2 * beams].

    They are the sums of the logarithms of their tokens' probabilities, the tokens, and the beams
    that they go on with. `adjust_logits` changes `logits`, [prompts * beams, vocabulary], by
    `seen`, `banned` and `penalty`; `sums` are those of the `beams` of each prompt, [prompts *
    beams].
    """
    chances = jax.nn.log_softmax(adjust_logits(logits, seen, banned, penalty), -1)
    count = logits.shape[-1]
    whole = (chances + sums[:, None]).reshape(-1, beams * count)
    best, places = jax.lax.top_k(whole, min(2 * beams, beams * count))
    return best, places % count, places // count


class Beams:
    """The beams of a batch of prompts, and the answers that have ended with one of `ends`.

    `options` are those of the search; `pad` is the token of prompts whose search is done.

    Attributes:
        sums: the sums of the logarithms of the beams' probabilities, [prompts * num_beams].
        done: which prompts' searches are done, [prompts].
    """

    def __init__(self, options: SearchOptions, ends: list[int], pad: int):
        self._options, self._ends, self._pad = options, frozenset(ends), pad
        prompts, beams = options.batch_size, options.num_beams
        # All beams are equal at first: one of them counts, or all would go on alike.
        first = np.arange(beams) == 0
        self.sums = np.tile(np.where(first, 0, -1e9), prompts).astype(np.float32)
        self.done = np.zeros(prompts, bool)
        self._answers: list[list[tuple[float, np.ndarray]]] = [[] for _ in range(prompts)]

    def _kept(self, prompt: int, tokens: np.ndarray, total: float) -> None:
        """Keep an answer, if it is among the best."""
        power, answers = np.float32(self._options.length_penalty), self._answers[prompt]
        score = np.float32(total) / np.float32(len(tokens)) ** power
        answers.append((float(score), tokens.copy()))
        answers.sort(key=lambda answer: -answer[0])  # the first one of equals stays before others
        del answers[self._options.num_beams :]

    def advance(
        self, ways: tuple[np.ndarray, np.ndarray, np.ndarray], sequences: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the next token of each beam, and the sequence that it goes on with.

        `ways` is what `likeliest_ways` returns, and `sequences` the tokens of the beams, [prompts *
        num_beams, length].
        """
        beams, length = self._options.num_beams, sequences.shape[1]
        tokens = np.full(len(sequences), self._pad, np.int32)
        order = np.arange(len(sequences), dtype=np.int32)
        for prompt in np.flatnonzero(~self.done).tolist():
            start, place = prompt * beams, 0
            for k, (total, token, beam) in enumerate(zip(*(w[prompt] for w in ways), strict=True)):
                if int(token) in self._ends:
                    if k < beams:
                        self._kept(prompt, sequences[start + beam], total)
                    continue
                row = start + place
                self.sums[row], tokens[row], order[row] = total, token, start + beam
                place += 1
                if place == beams:
                    break
            self.done[prompt] = self._is_done(prompt, ways[0][prompt].max(), length)
        return tokens, order

    def _is_done(self, prompt: int, best: float, length: int) -> bool:
        """Return whether a prompt has its answers: enough, and none of its beams gets better."""
        answers = self._answers[prompt]
        if len(answers) < self._options.num_beams:
            return False
        least, power = answers[-1][0], self._options.length_penalty
        return self._options.early_stopping or not least < best / length**power

    def sequence(self, index: int, sequences: np.ndarray) -> np.ndarray:
        """Return the answer `index`: of each prompt num_return_sequences, the best one first.

        The tokens of beams in `sequences` are answers where a search is not done.
        """
        prompt, place = divmod(index, self._options.num_return_sequences)
        found, beams = copy.deepcopy(self), self._options.num_beams
        if not self.done[prompt]:
            for row in range(prompt * beams, (prompt + 1) * beams):
                found._kept(prompt, sequences[row], float(self.sums[row]))
        return found._answers[prompt][place][1]
