"""Text from text, word by word: what the command `generate` does."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.genai.errors import refusal
from dml_jax.genai.generator import Generator, GeneratorParams
from dml_jax.genai.model import Model
from dml_jax.genai.text import Tokenizer

_COPIED = 1 << 25  # elements
_COPIES = 8  # in a row, so that a GPU does not wait for Python


@dataclass
class Answer:
    """What a generator did, for statistics.

    Attributes:
        prompt: the number of tokens of the prompt.
        seconds: when each token came, from the start.
        waits: how long those took whose program was loaded or compiled first.
        token_bytes: the bytes that a step reads: weights, and the filled part of the cache.
        left_out: the number of messages that had no place any more.
    """

    prompt: int = 0
    seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    token_bytes: int = 0
    left_out: int = 0

    @property
    def rate(self) -> float:
        """Return the tokens a second after the first one, `waits` apart; 0 where there is none."""
        count = len(self.seconds) - 1 - len(self.waits)
        return count / (self.seconds[-1] - self.seconds[0] - sum(self.waits)) if count > 0 else 0.0

    def values(self) -> dict[str, Any]:
        """Return the statistics, for JSON."""
        share = self.rate * self.token_bytes / copy_rate() if self.rate else 0.0
        return {
            "prompt_tokens": self.prompt,
            "tokens": len(self.seconds),
            "first_token_s": round(self.seconds[0], 3) if self.seconds else None,
            "tokens_a_second": round(self.rate, 2),
            "share_of_bandwidth": round(share, 3),
        }


class Talk:
    """A conversation with `model`, by `options` of the search; others are those of the folder."""

    def __init__(self, model: Model, options: dict[str, Any]):
        self.model, self.tokenizer = model, Tokenizer(model)
        params = GeneratorParams(model)
        params.set_search_options(**options)
        self._generator = Generator(model, params)
        self._has_beams = params.options.num_beams > 1
        self._limit, self._messages = params.options.max_length, list[dict[str, str]]()
        self._told = ""  # the text that the generator has read
        self.answer = Answer()

    def said(self, text: str, is_chat: bool) -> Iterator[str]:
        """Yield the answer to a text, piece by piece.

        If it `is_chat`, the text is a message, for the folder's template; else the model goes on
        with the text itself. Where a conversation is full, its oldest messages are left out. Raises
        `GenAIError` where the text is empty, or too long.
        """
        start, self.answer = time.perf_counter(), Answer()
        if not text.strip():
            raise refusal("the prompt", "have words", text)
        if is_chat:
            self._messages.append({"role": "user", "content": text})
        tokens = self.tokenizer.encode(self._new_text() if is_chat else text)
        while is_chat and len(tokens) >= self._room and len(self._messages) > 2:
            del self._messages[:2]
            self.answer.left_out, self._told = self.answer.left_out + 2, ""
            tokens = self.tokenizer.encode(self._new_text())
        room = self._room
        if len(tokens) >= room:
            rule = f"have less than {room} tokens (max_length is {self._limit})"
            raise refusal("the prompt", rule, len(tokens))
        if self.model.decoder.is_encoding:
            self._generator.rewind_to(0)
        self._generator.append_tokens(tokens)
        yield from self._stream(start, len(tokens))

    @property
    def _room(self) -> int:
        """Return the number of tokens that a prompt is less than."""
        if self.model.decoder.is_encoding:
            return self.model.folder.context_length + 1  # of the encoder, which starts anew
        return self._limit - self._generator.token_count()

    def heard(self, features: np.ndarray) -> Iterator[str]:
        """Yield the text of a sound, piece by piece, of its log-mel values, [channels, times].

        Raises `GenAIError` where the model reads none, or others.
        """
        start, self.answer = time.perf_counter(), Answer()
        if not self.model.decoder.is_encoding:
            raise refusal("features", "be given to a model with an encoder", self.model.type)
        self._generator.rewind_to(0)
        self._generator.set_inputs({"input_features": features})
        yield from self._stream(start, self._generator.token_count())

    def _new_text(self) -> str:
        """Return what the last message adds to what was told, by the template."""
        whole = self.tokenizer.apply_chat_template(json.dumps(self._messages))
        if self._told and whole.startswith(self._told):
            return whole[len(self._told) :]
        self._generator.rewind_to(0)  # the first message, or a template that changed what was told
        return whole

    def _stream(self, start: float, count: int) -> Iterator[str]:
        self.answer.prompt, waiting = count, 0
        stream, made, shown = self.tokenizer.create_stream(), list[int](), 0
        ends = self.model.folder.eos_token_ids
        before = self._generator.token_count()
        while not self._generator.is_done():
            asked, built = time.perf_counter(), self.model.programs.built
            self._generator.generate_next_token()
            token = int(self._generator.get_next_tokens()[0])
            self.answer.seconds.append(time.perf_counter() - start)
            if self.model.programs.built > built:
                waiting = self.model.ahead  # so many tokens are its first result
            waiting -= 1
            if waiting >= 0 and len(self.answer.seconds) > 1:
                self.answer.waits.append(time.perf_counter() - asked)
            if self._has_beams:
                continue
            if token in ends:
                break
            made.append(token)
            piece = stream.decode(token)
            shown += len(piece)
            yield piece
        if self._has_beams:  # the answer is known at the end
            made = self._generator.get_sequence(0)[before:].tolist()
        yield self.tokenizer.decode(made)[shown:]  # of a character that has not come to its end
        self.answer.token_bytes = self.model.programs.step_bytes(self._generator.token_count())
        if self._messages:
            self._messages.append({"role": "assistant", "content": self.tokenizer.decode(made)})
            messages = json.dumps(self._messages)
            kept = self.tokenizer.apply_chat_template(messages, add_generation_prompt=False)
            told = self._read()
            self._told = told if kept.startswith(told) and not self._has_beams else ""

    def _read(self) -> str:
        """Return the text of all tokens, the special ones included."""
        self.tokenizer.update_options(skip_special_tokens="false")
        try:
            return self.tokenizer.decode(self._generator.get_sequence(0))
        finally:
            self.tokenizer.update_options(skip_special_tokens="true")


def copy_rate() -> float:
    """Return the bytes a second that a copy of a large array moves, read and written."""
    array, spent = jnp.zeros(_COPIED, np.float32), list[float]()
    copy = jax.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(6):
        start = time.perf_counter()
        for _ in range(_COPIES):
            array = copy(array)
        array.block_until_ready()
        spent.append(time.perf_counter() - start)
    return 2 * _COPIES * array.nbytes / min(spent[1:])
