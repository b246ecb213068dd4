"""Search: which token comes next, by the options of genai_config.json's `search`."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.errors import Expect, nearest
from dml_jax.genai.errors import GenAIError, refusal
from dml_jax.genai.folder import Folder
from dml_jax.genai.sequences import Sequences


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, by the names that ONNX Runtime GenAI has for them.

    Attributes:
        batch_size: the number of sequences.
        chunk_size: is taken, and changes nothing: prompts are cut into chunks of their own.
        diversity_penalty: is taken, and changes nothing, as in ONNX Runtime GenAI.
        do_sample: whether the next token is drawn; else it is the most likely one.
        early_stopping: whether a beam search is done once it has num_beams answers; else once none
            of its beams can become better than these.
        length_penalty: the power of its length that the score of an answer of beams is divided by.
        max_length: the most tokens of a sequence, the prompt included.
        min_length: the tokens before which no sequence ends.
        no_repeat_ngram_size: the size of the groups of tokens that occur once; 0 allows all.
        num_beams: the number of sequences that a beam search keeps; 1 is no beam search.
        num_return_sequences: how many of its answers can be read.
        past_present_share_buffer: whether `get_output` gives keys and values with the rows that are
            not filled; buffers are always shared.
        random_seed: the seed of the draws; -1 stands for another one each time.
        repetition_penalty: divides logits of tokens that occurred, if positive; else multiplies.
        temperature: divides the logits of a draw.
        top_k: the number of tokens that a draw is among; 0 allows all.
        top_p: the probability that the tokens have together that a draw is among.
    """

    batch_size: int = 1
    chunk_size: int = 0
    diversity_penalty: float = 0.0
    do_sample: bool = False
    early_stopping: bool = True
    length_penalty: float = 1.0
    max_length: int = 0
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    num_beams: int = 1
    num_return_sequences: int = 1
    past_present_share_buffer: bool = False
    random_seed: int = -1
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.0

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "SearchOptions":
        """Return options of JSON's or Python's values. Raises `GenAIError` for unknown ones."""
        kinds: dict[str, Any] = {f.name: type(f.default) for f in fields(cls)}
        made, expect = {}, Expect("")
        for name, value in given.items():
            rule = f"be an option of the search{nearest(name, kinds)}"
            if not expect(name in kinds, "the option", rule, name):
                continue
            is_number = isinstance(value, (bool, int, float, np.number, np.bool_))
            is_number = is_number and abs(value) < 2**63
            is_whole = kinds[name] is not int or (is_number and float(value).is_integer())
            rule = "be a whole number" if kinds[name] is int else "be a number"
            if expect(is_number and is_whole, f"the option '{name}'", rule, value):
                made[name] = kinds[name](value)
        if expect.faults:
            raise GenAIError(expect.faults)
        return cls(**made)

    def check(self, context_length: int) -> None:
        """Raise `GenAIError` where an option is not carried out, or has no meaning."""
        expect = Expect("")

        def option(name: str, holds: bool, rule: str) -> None:
            expect(holds, f"the option '{name}'", rule, getattr(self, name))

        option("num_beams", 1 <= self.num_beams <= 32, "be in [1, 32]")
        rule = "be 1 where do_sample is true"
        option("num_beams", self.num_beams <= 1 or not self.draws, rule)
        beams = max(self.num_beams, 1)
        rule = f"be in [1, {beams}], as there are beams"
        option("num_return_sequences", 1 <= self.num_return_sequences <= beams, rule)
        option("batch_size", self.batch_size >= 1, "be at least 1")
        rule = f"be in [1, {context_length}], the model's context_length"
        option("max_length", 1 <= self.max_length <= context_length, rule)
        option("repetition_penalty", self.repetition_penalty > 0, "be greater than 0")
        is_drawn = self.do_sample
        option("temperature", not is_drawn or self.temperature >= 0, "be at least 0")
        option("top_p", not is_drawn or 0 <= self.top_p <= 1, "be in [0, 1]")
        option("top_k", not is_drawn or self.top_k >= 0, "be at least 0")
        option("no_repeat_ngram_size", self.no_repeat_ngram_size >= 0, "be at least 0")
        if expect.faults:
            raise GenAIError(expect.faults)

    @property
    def draws(self) -> bool:
        """Return whether the next token is drawn."""
        return self.do_sample and self.top_k != 1 and self.temperature > 0

    @property
    def of_programs(self) -> dict[str, Any]:
        """Return the options that a program is compiled for, as `pick_tokens` takes them."""
        return {"draws": self.draws, "top_k": max(self.top_k, 0) if self.draws else 0}


class Numbers(NamedTuple):
    """The options of a search that are inputs of a program: others need no other program."""

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


def most_likely(logits: jax.Array) -> jax.Array:
    """Return the first of the most likely tokens of each sequence, [batch], of [batch, vocabulary].

    XLA's argmax of a row takes a CPU several times as long as these two reductions.
    """
    count = logits.shape[-1]
    is_most = logits == jnp.max(logits, -1, keepdims=True)
    places = jax.lax.broadcasted_iota(np.int32, logits.shape, logits.ndim - 1)
    return jnp.min(jnp.where(is_most, places, np.int32(count - 1)), -1)


def adjust_logits(
    logits: jax.Array, seen: jax.Array | None, banned: jax.Array | None, penalty: Any
) -> jax.Array:
    """Return logits [batch, vocabulary], of which a penalty makes those that were `seen` smaller.

    The tokens that are `banned` may not come. None stands for no penalty, and for no ban.
    """
    if seen is not None:
        scaled = jnp.where(logits > 0, logits / penalty, logits * penalty)
        logits = jnp.where(seen, scaled, logits)
    if banned is not None:
        logits = jnp.where(banned, jnp.finfo(logits.dtype).min, logits)
    return logits


@functools.partial(jax.jit, static_argnames=("draws", "top_k"))
def pick_tokens(
    logits: jax.Array,
    seen: jax.Array | None,
    banned: jax.Array | None,
    key: jax.Array,
    numbers: Numbers,
    *,
    draws: bool,
    top_k: int,
) -> jax.Array:
    """Return the next token of each sequence, [batch], by logits [batch, vocabulary].

    `adjust_logits` changes them by `seen`, `banned` and the penalty of `numbers`. The token is the
    first of the most likely ones, or else `draws` says that `key` draws it: by logits that the
    temperature divides, among `top_k` tokens (0: all) that have the probability top_p together (0
    or 1: all).
    """
    logits = adjust_logits(logits, seen, banned, numbers.penalty)
    if not draws:
        return most_likely(logits)
    count = min(top_k, logits.shape[-1]) if top_k > 0 else logits.shape[-1]
    best, tokens = jax.lax.top_k(logits / numbers.temperature, count)
    chances = jax.nn.softmax(best, -1)
    before = jnp.cumsum(chances, -1) - chances  # a token stays while those before it have less
    is_left = (before < numbers.top_p) | (numbers.top_p <= 0) | (numbers.top_p >= 1)
    place = jax.random.categorical(key, jnp.where(is_left, best, -jnp.inf), -1)
    return jnp.take_along_axis(tokens, place[:, None], -1)[:, 0].astype(np.int32)


def repeating(sequences: np.ndarray, size: int, vocabulary: int) -> np.ndarray:
    """Return the tokens that would end a group of `size` tokens that occurred, [batch, vocabulary].

    `sequences` are the tokens so far, [batch, length], of `vocabulary` ones that there are.
    """
    banned = np.zeros((len(sequences), vocabulary + 1), bool)  # the last one is of paddings
    groups = np.lib.stride_tricks.sliding_window_view(sequences, size, 1)
    end = sequences[:, None, sequences.shape[1] - size + 1 :]
    rows, places = np.nonzero((groups[..., :-1] == end).all(-1))
    banned[rows, np.minimum(groups[rows, places, -1], vocabulary)] = True
    return banned[:, :-1]


def banned_tokens(
    folder: Folder, options: SearchOptions, sequences: Sequences, shape: Sequence[int]
) -> np.ndarray | None:
    """Return which tokens may not come next, of the `shape` [batch, vocabulary]; None: all may.

    The rules are those of the `folder` and of the `options`.
    """
    rules, size, count = folder.rules, options.no_repeat_ngram_size, sequences.count
    if not rules and not size and count >= options.min_length:
        return None
    never = list(folder.eos_token_ids if count < options.min_length else ())
    never += rules.get("suppress_tokens", ())
    first, last = (rules.get(f"forced_{end}_token_id", []) for end in ("bos", "eos"))
    # A token that is forced behind the decoder's first one is no begin of the text.
    if count == sequences.begin + (sequences.begin == 1 and bool(first)):
        never += rules.get("begin_suppress_tokens", ())
    banned = np.zeros(shape, bool)
    if size and count >= size:
        banned |= repeating(sequences.tokens, size, shape[1])
    for *words, word in rules.get("bad_words_ids", ()):
        if len(words) <= count:
            tail = sequences.tokens[:, count - len(words) :]
            banned[:, word] |= (tail == words).all(1)
    banned[:, never] = True
    forced = last if count == options.max_length - 1 and last else first if count == 1 else []
    if forced:  # wins over all other rules, as in transformers
        banned[:], banned[:, forced] = True, False
    return banned


class TokenSampler:
    """Chooses the next tokens of a batch, by `options`, of a vocabulary of `count` tokens.

    Its `key` and what it has `seen` are those of `decoder_programs.State`.
    """

    def __init__(self, options: SearchOptions, count: int):
        self.options, self._count = options, count
        self.key = key_of(options.random_seed)
        self.seen: jax.Array | None = None

    def restart(self, tokens: np.ndarray) -> None:
        """Forget which tokens occurred, but for `tokens`, [batch, length]."""
        self.seen = None
        self.see(tokens)

    def see(self, tokens: Any) -> None:
        """Take note of tokens that occur, [batch, length], where they are counted."""
        if self.options.repetition_penalty == 1 or not self._count:
            return
        if self.seen is None:
            self.seen = jnp.zeros((len(tokens), self._count), bool)
        rows = jnp.arange(len(tokens), dtype=np.int32)[:, None]
        self.seen = self.seen.at[rows, jnp.asarray(tokens)].set(True)

    def choose(self, logits: jax.Array, banned: np.ndarray | None, best: Any) -> jax.Array:
        """Return the next token of each sequence, [batch, 1], by logits [batch, vocabulary].

        `banned` is what `banned_tokens` returns; `best` are the most likely tokens, [batch, 1], or
        None where they are not known.
        """
        options = self.options
        # The step's program has found the most likely tokens already: no other program is called.
        if not options.draws and self.seen is None and banned is None and best is not None:
            return best
        key = self.key
        if options.draws:
            self.key, key = jax.random.split(self.key)
        numbers, static = Numbers.of(options), options.of_programs
        return pick_tokens(logits, self.seen, banned, key, numbers, **static)[:, None]


def key_of(seed: int) -> jax.Array:
    """Return the key of the draws of a seed: another one each time for -1."""
    if seed == -1:
        seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
    if not 0 <= seed < 2**31:
        raise refusal("the option 'random_seed'", "be -1, or in [0, 2**31)", seed)
    data = jnp.asarray(np.array([0, seed], np.uint32))  # as jax.random.key makes it of a seed
    return jax.random.wrap_key_data(data, impl="threefry2x32")
