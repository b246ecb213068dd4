"""Generators: sequences of tokens that a model goes on with."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.errors import Unquoted
from dml_jax.genai.beam_search import Beams, continued, reordered
from dml_jax.genai.decoder import CHUNKS
from dml_jax.genai.errors import absent, raised, refusal
from dml_jax.genai.model import Adapters, Model, as_tokens
from dml_jax.genai.sampling import SearchOptions, key_of, picked, repeating
from dml_jax.genai.token_blocks import Block, Numbers, State
from dml_jax.genai.unsupported import DRAFTS
from dml_jax.system.processor import check_process


class GeneratorParams:
    """The options of generators of `model`, which are those of its genai_config.json at first."""

    def __init__(self, model: Model):
        self.model = model
        found = dict(model.folder.config.get("search") or {})
        found.setdefault("max_length", model.folder.context_length)
        self.options = SearchOptions.of(found)

    def set_search_options(self, **options: Any) -> None:
        """Set options of the search by name, as `SearchOptions` has them."""
        made = SearchOptions.of({**vars(self.options), **options})
        made.check(self.model.folder.context_length)
        self.options = made

    def get_search_options(self) -> dict[str, Any]:
        """Return the options of the search by name."""
        return {n: v if isinstance(v, bool) else float(v) for n, v in vars(self.options).items()}

    def set_guidance(self, type: str, data: str, enable_ff_tokens: bool = False) -> None:  # noqa: A002
        """Refuse grammars that guide a search."""
        if type or data:
            raise absent("guidance", "generate without a grammar, and check the answer")

    set_speculative_options = get_speculative_options = DRAFTS

    def try_graph_capture_with_max_batch_size(self, size: int) -> None:
        """Do nothing: programs are always compiled."""


class Generator:
    """Sequences that `model` goes on with, by the options `params`."""

    def __init__(self, model: Model, params: GeneratorParams):
        self._of = self._model = model
        self._options = params.options
        self._options.check(model.folder.context_length)
        self._decoder, self._key = model.decoder, key_of(self._options.random_seed)
        self._batch = self._options.batch_size * self._options.num_beams
        with raised():
            check_process()
            rows = self._decoder.rows(self._options.max_length)
            self._rows, self._cache = rows, self._decoder.cache(self._batch, rows)
        self._ends = np.array(model.folder.eos_token_ids, np.int32)
        self._held: dict[tuple[int, int], Any] = {}  # by the length of a chunk, and of the mask
        self._start(0)

    def _start(self, length: int) -> None:
        batch, folder = self._batch, self._model.folder
        self._beams: Beams | None = None
        if self._options.num_beams > 1:
            self._beams = Beams(self._options, folder.eos_token_ids, folder.pad_token_id)
        self._tokens: list[Any] = []  # columns, [batch, n]: arrays of NumPy or of JAX
        self._count = self._begin = length  # tokens, and those of the prompt
        self._filled = [0] * batch  # rows of the cache, of each sequence
        self._waiting: list[np.ndarray] = [np.zeros(0, np.int32)] * batch  # not in the cache yet
        self._logits: jax.Array | None = None
        self._best: jax.Array | None = None  # the most likely tokens of these logits, [batch, 1]
        self._seen: jax.Array | None = None
        self._next = np.zeros(batch, np.int32)
        self._read = max(length - 1, 0), length  # the columns that the model read last
        self._gaps: list[tuple[int, int, int]] = []  # (sequence, start, end) of paddings
        self._is_answered = False  # whether the last token's logits were computed for a caller
        self._has_ended = np.zeros(batch, bool)
        self._blocks: list[Block] = []  # what a device computes ahead: two at most
        self._state: State | None = None  # after the last one of them
        self._used = 0  # tokens of the first one that were handed out
        self._keys: jax.Array | None = None  # of the last one that was handed out as a whole

    @property
    def _sequences(self) -> np.ndarray:
        """Return the tokens, [batch, length]."""
        if not self._tokens:
            return np.zeros((self._batch, 0), np.int32)
        parts = [np.asarray(part) for part in self._tokens]
        self._tokens = [np.concatenate(parts, 1)] if len(parts) > 1 else parts
        return self._tokens[0]

    def append_tokens(self, tokens: Any) -> None:
        """Append tokens to the sequences, and compute what follows them.

        Args:
            tokens: [length], [batch, length] or a `Tensor`. Sequences of a batch are padded by the
                model's pad_token_id, at their ends; in front of others it is a token.

        Raises `GenAIError` where there are none, too many, or some that the model has not.
        """
        if self._beams is not None and self._count:
            raise refusal(
                "append_tokens", "be called once where num_beams is more than 1", "another"
            )
        array = as_tokens(tokens, self._options.batch_size)
        if self._decoder.is_encoding and not self._count:
            self._encode(array)
            self._start_decoder()
        else:
            self._appended(array)

    append_token_sequences = append_tokens

    def _appended(self, array: np.ndarray) -> None:
        """Append tokens, [batch_size, length], to the sequences of the decoder."""
        array = array.repeat(self._options.num_beams, 0)
        most, vocabulary = self._options.max_length, self._model.folder.vocab_size
        if self._count + array.shape[1] > most:
            rule = f"be at most {most - self._count}, so that sequences have at most max_length"
            rule += f" ({most})"
            raise refusal("the number of tokens", rule, array.shape[1])
        pad = self._model.folder.pad_token_id if self._options.batch_size > 1 else None
        rows = [_unpadded(row, pad) for row in array]
        if array.min() < 0 or (vocabulary and max(map(np.max, rows)) >= vocabulary):
            raise refusal("the tokens", f"be in [0, {vocabulary - 1}]", array)
        self._forget_ahead()
        for row, added in enumerate(rows):
            self._waiting[row] = np.concatenate([self._waiting[row], added])
            start = self._count + len(added)
            self._gaps.append((row, start, self._count + array.shape[1]))
        self._tokens.append(array)
        self._read, self._is_answered = (self._count, self._count + array.shape[1]), True
        self._count += array.shape[1]
        self._begin = self._count
        self._see(array)
        self._has_ended[:] = False
        self._compute(1 if self._steps > 1 else 2)

    def _encode(self, source: np.ndarray) -> None:
        """Let the encoder read tokens or features."""
        with raised():
            source = source.repeat(self._options.num_beams, 0)
            self._cache = self._decoder.encoded(self._cache, source)

    def _start_decoder(self) -> None:
        """Append the tokens that a decoder starts with, and the likeliest language among them."""
        folder, batch = self._model.folder, self._options.batch_size
        starts = folder.start_token_ids
        place = starts.index(None) if None in starts else len(starts)
        self._appended(np.array([starts[:place]] * batch, np.int32))
        if place == len(starts):
            return
        languages = np.array(folder.language_ids, np.int32)
        logits = self.get_logits()[:: self._options.num_beams, 0, languages]
        rest = np.array([starts[place + 1 :]] * batch, np.int32)
        self._appended(np.concatenate([languages[logits.argmax(-1)][:, None], rest], 1))

    def _see(self, tokens: Any) -> None:
        """Take note of tokens that occur, where they are counted."""
        if self._options.repetition_penalty == 1 or not self._model.folder.vocab_size:
            return
        if self._seen is None:
            self._seen = jnp.zeros((self._batch, self._model.folder.vocab_size), bool)
        rows = jnp.arange(self._batch, dtype=np.int32)[:, None]
        self._seen = self._seen.at[rows, jnp.asarray(tokens)].set(True)

    def _compute(self, least: int = 2) -> None:
        """Run the tokens that wait through the model: `least` of them or more as a chunk."""
        batch = self._batch
        total = max(f + len(w) for f, w in zip(self._filled, self._waiting, strict=True))
        width = self._decoder.width(self._rows, total)
        while any(map(len, self._waiting)):
            longest = max(map(len, self._waiting))
            most = CHUNKS[1] * (4 if batch > 1 or self._steps == 1 else 1)
            length = _chunk(longest, width - max(self._filled), least, most)
            counts = np.array([min(length, len(w)) for w in self._waiting], np.int32)
            tokens = np.zeros((batch, length), np.int32)  # a model may not have its pad_token_id
            for row, count in enumerate(counts):
                tokens[row, :count] = self._waiting[row][:count]
            is_last = np.array(
                [c and c == len(w) for c, w in zip(counts, self._waiting, strict=True)]
            )
            self._waiting = [w[c:] for c, w in zip(counts, self._waiting, strict=True)]
            before, logits = self._logits, self._run(tokens, counts, width)
            if before is not None and not is_last.all():
                self._logits = jnp.where(is_last[:, None], logits, before)
                self._best = None

    def _run(self, tokens: Any, counts: np.ndarray, width: int) -> jax.Array:
        """Run tokens through the model, and keep the logits and the most likely tokens."""
        batch, length = tokens.shape
        with raised():
            if (length, width) not in self._held:
                held = self._decoder.holding(batch, length, self._rows, width)
                self._held[length, width] = held
            self._logits, self._best, self._cache = self._model.step(batch)(
                held=self._held[length, width],
                cache=self._cache,
                tokens=jnp.asarray(tokens),  # as those that come from the device: one program
                counts=counts,
                width=width,
            )
        self._filled = [f + int(c) for f, c in zip(self._filled, counts, strict=True)]
        assert self._logits is not None
        return self._logits

    def generate_next_token(self) -> None:
        """Append the next token to each sequence; the pad_token_id to one that has ended.

        Where all sequences have ended with it, they are left as they are.

        Raises `GenAIError` where there are no tokens yet, or as many as there may be.
        """
        if not self._count:
            rule = "be called after append_tokens"
            raise refusal("generate_next_token", rule, "a call without tokens")
        if self._count >= self._options.max_length:
            rule = f"be called before sequences have max_length ({self._options.max_length}) tokens"
            raise refusal("generate_next_token", rule, Unquoted("a call after it"))
        if self.is_done():
            self._next = np.full_like(self._next, self._model.folder.pad_token_id)
            return
        self._answer()
        self._is_answered = False
        if self._goes_ahead():
            self._hand_out()
            return
        self._forget_ahead()
        self._compute()
        if self._beams is not None:
            self._advance(self._beams)
            return
        column: Any = self._chosen()
        if self._has_ended.any():
            pad = np.int32(self._model.folder.pad_token_id)
            column = jnp.where(self._has_ended[:, None], pad, column)
        kept = self._logits, self._best
        width = self._decoder.width(self._rows, max(self._filled) + 1)
        is_known = self._steps == 1 and (1, width) in self._held  # else others come ahead
        goes_on = is_known and self._count + 1 < self._options.max_length
        if goes_on:  # the device goes on before the token is read
            self._run(column, np.ones(len(self._filled), np.int32), width)
        if self._ends_with(np.asarray(column)[:, 0]):
            self._logits, self._best = kept
            if goes_on:
                self._filled = [f - 1 for f in self._filled]
                self._cache = self._decoder.cut(self._cache, self._filled)
            return
        self._tokens.append(column)
        self._count += 1
        self._see(column)
        if not goes_on:  # the token is there before that program is compiled
            self._waiting = [*self._next[:, None]]

    def _ends_with(self, tokens: np.ndarray) -> bool:
        """Take note of the next tokens; return whether all sequences have ended.

        The tokens that end the last ones of them are no part of the sequences.
        """
        self._next = tokens
        self._has_ended |= (tokens[:, None] == self._ends).any(1)
        return bool(self._has_ended.all())

    def _answer(self) -> None:
        """Take note that the model reads the last token, if it has not read it."""
        if not self._is_answered:
            self._read, self._is_answered = (self._count - 1, self._count), True

    @property
    def _steps(self) -> int:
        """Return how many tokens a program computes."""
        is_single = self._options.no_repeat_ngram_size or self._beams is not None
        return 1 if is_single or self._model.folder.rules else self._model.ahead

    @property
    def _planned(self) -> int:
        """Return how many tokens sequences have with those that are computed ahead."""
        return self._count + self._steps * len(self._blocks) - self._used

    def _width_ahead(self) -> int | None:
        """Return the size of the mask of the next steps; None where it is not one for all."""
        start = max(self._filled) + self._planned - self._count
        end = min(start + self._steps, self._options.max_length)
        widths = {self._decoder.width(self._rows, total) for total in (start + 1, end)}
        return widths.pop() if len(widths) == 1 else None

    def _goes_ahead(self) -> bool:
        """Return whether the next token is one of several that a program computes."""
        if self._blocks:
            return True
        is_next = self._steps > 1 and all(len(w) == 1 for w in self._waiting)
        return is_next and self._width_ahead() is not None

    def _hand_out(self) -> None:
        """Append the next one of the tokens that are computed ahead.

        A device computes the block after it at the same time.
        """
        while len(self._blocks) < 2 and self._planned < self._options.max_length:
            width = self._width_ahead()
            if width is None:
                break
            self._go_ahead(width)
        block = self._blocks[0]
        if not self._used:
            self._blocks[0] = block = Block(np.asarray(block.tokens), block.keys)
        self._used += 1
        if self._ends_with(block.tokens[self._used - 1]):
            return
        self._tokens.append(self._next[:, None])
        self._count += 1
        self._filled = [f + 1 for f in self._filled]
        self._waiting = [*self._next[:, None]]
        if self._used == self._steps:
            self._blocks, self._used, self._keys = self._blocks[1:], 0, block.keys

    def _go_ahead(self, width: int) -> None:
        """Let the device compute the next block."""
        options, batch = self._options, self._batch
        if self._state is None:
            tokens, ended = jnp.asarray(np.stack(self._waiting)), jnp.array(self._has_ended)
            count = jnp.asarray(np.int32(self._count))
            self._state = State(tokens, count, ended, self._key, self._seen)
            self._logits = self._best = None
        with raised():
            if (1, width) not in self._held:
                self._held[1, width] = self._decoder.holding(batch, 1, self._rows, width)
            block, self._cache, self._state = self._model.steps(batch)(
                self._held[1, width],
                self._cache,
                self._state,
                Numbers.of(options),
                width=width,
                **options.of_programs,
            )
        block.tokens.copy_to_host_async()
        self._blocks.append(block)

    def _forget_ahead(self) -> None:
        """Leave out tokens that are computed and not handed out: the last one waits again."""
        if self._state is None:
            return
        keys = self._blocks[0].keys if self._used else self._keys
        if keys is not None:
            self._key = keys[self._used - 1]
        self._blocks, self._state, self._used, self._keys = [], None, 0, None
        self._cache = self._decoder.cut(self._cache, self._filled)
        self._seen = None
        self._see(self._sequences)

    def _advance(self, beams: Beams) -> None:
        """Append the next token to each beam, which takes over the rows of the one before it."""
        logits, sequences = self._logits, self._sequences
        assert logits is not None
        numbers = {
            "penalty": np.float32(self._options.repetition_penalty),
            "beams": self._options.num_beams,
        }
        ways = continued(logits, self._seen, self._banned(), beams.sums, **numbers)
        self._next, order = beams.advance(jax.device_get(ways), sequences)
        self._tokens = [np.concatenate([sequences[order], self._next[:, None]], 1)]
        self._count += 1
        self._cache, self._seen = reordered((self._cache, self._seen), order)
        self._filled = [self._filled[row] for row in order]
        self._see(self._next[:, None])
        self._has_ended = beams.done
        if not self.is_done():
            self._waiting = [*self._next[:, None]]

    def _banned(self) -> np.ndarray | None:
        """Return which tokens may not come next, [batch, vocabulary]; None: all may."""
        options, logits, folder = self._options, self._logits, self._model.folder
        assert logits is not None
        rules, size, count = folder.rules, options.no_repeat_ngram_size, self._count
        if not rules and not size and count >= options.min_length:
            return None
        never = list(folder.eos_token_ids if count < options.min_length else ())
        never += rules.get("suppress_tokens", ())
        first, last = (rules.get(f"forced_{end}_token_id", []) for end in ("bos", "eos"))
        if count == self._begin + (self._begin == 1 and bool(first)):
            never += rules.get("begin_suppress_tokens", ())
        banned = np.zeros(logits.shape, bool)
        if size and count >= size:
            banned |= repeating(self._sequences, size, logits.shape[1])
        for *words, word in rules.get("bad_words_ids", ()):
            if len(words) <= count:
                tail = self._sequences[:, count - len(words) :]
                banned[:, word] |= (tail == words).all(1)
        banned[:, never] = True
        forced = last if count == options.max_length - 1 and last else first if count == 1 else []
        if forced:
            banned[:], banned[:, forced] = True, False
        return banned

    def _chosen(self) -> jax.Array:
        """Return the next token of each sequence, [batch, 1]."""
        options, logits, banned = self._options, self._logits, self._banned()
        assert logits is not None
        if not options.draws and self._seen is None and banned is None and self._best is not None:
            return self._best
        key = self._key
        if options.draws:
            self._key, key = jax.random.split(self._key)
        chosen = picked(
            logits,
            self._seen,
            banned,
            key,
            penalty=np.float32(options.repetition_penalty),
            temperature=np.float32(options.temperature),
            top_p=np.float32(options.top_p),
            **options.of_programs,
        )
        return chosen[:, None]

    def is_done(self) -> bool:
        """Return whether all sequences have ended, or have max_length tokens."""
        return bool(self._has_ended.all()) or self._count >= self._options.max_length

    def get_next_tokens(self) -> np.ndarray:
        """Return the token that was appended last to each sequence, [batch * num_beams]."""
        return self._next

    def get_sequence(self, index: int) -> np.ndarray:
        """Return the tokens of a sequence: of beams the answers of each prompt, best one first."""
        count = self._options.batch_size * self._options.num_return_sequences
        if not 0 <= index < count:
            raise refusal("the index", f"be in [0, {count - 1}]", index)
        if self._beams is not None and self._count:
            return self._beams.sequence(index, self._sequences)
        return self._sequences[index].copy()

    @property
    def program_count(self) -> int:
        """Return how many programs were called."""
        return len(self._held)

    def token_count(self) -> int:
        """Return how many tokens a sequence has."""
        return self._count

    def get_logits(self) -> np.ndarray:
        """Return the logits of the next token, [batch, 1, vocabulary]."""
        self._forget_ahead()
        self._compute()
        if self._logits is None:
            raise refusal("get_logits", "be called after append_tokens", "a call without tokens")
        self._answer()
        return np.array(self._logits)[:, None]

    def set_logits(self, logits: Any) -> None:
        """Put logits in place of those of the next token, [batch, 1, vocabulary]."""
        self._forget_ahead()
        self._compute()
        array = np.asarray(logits, np.float32)
        wanted = (0,) if self._logits is None else self._logits.shape
        if array.size != np.prod(wanted):
            raise refusal("the logits", f"have {int(np.prod(wanted))} elements", list(array.shape))
        self._logits, self._best = jnp.asarray(array.reshape(wanted)), None

    def rewind_to(self, length: int) -> None:
        """Leave out all tokens but the first `length` ones; of a batch, 0 alone."""
        if not 0 <= length <= self._count:
            raise refusal("the length", f"be in [0, {self._count}]", length)
        if length and self._batch > 1:
            rule = "be 0 where batch_size or num_beams is more than 1"
            raise refusal("the length", rule, length)
        self._forget_ahead()
        kept = self._sequences[:, :length]
        self._start(length)
        self._cache = self._decoder.cut(self._cache, [max(length - 1, 0)] * self._batch)
        if length:  # the last one is computed again, for its logits
            self._tokens, self._filled = [kept], [length - 1]
            self._waiting = [kept[0, -1:]]
            self._see(kept)

    def set_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Append the tokens that are the input `input_ids`.

        A decoder with an encoder of sound also takes `input_features`, [batch, channels, times] or
        those of one sound: log-mel values.
        """
        inputs = dict(inputs)
        if self._decoder.is_encoding and "input_features" in inputs and not self._count:
            given = inputs.pop("input_features")
            features = np.asarray(given.as_numpy() if hasattr(given, "as_numpy") else given)
            self._encode(features.reshape(-1, *features.shape[-2:]))
            if "input_ids" in inputs:
                self._appended(as_tokens(inputs.pop("input_ids"), self._options.batch_size))
            else:
                self._start_decoder()
        others = [name for name in inputs if name != "input_ids"]
        if others:
            raise refusal("the inputs", "be input_ids alone", ", ".join(others))
        if "input_ids" in inputs:
            self.append_tokens(inputs["input_ids"])

    def get_output(self, name: str) -> np.ndarray:
        """Return an output of the model, when it read tokens last.

        Logits, and others as `hidden_states`, are those of each token that it read, [batch, length,
        ...]: of a prompt until the second token after it. Keys and values have max_length rows
        where the option past_present_share_buffer is set, else as many as tokens were read.
        """
        outputs, end = [present for _, present in self._model.folder.caches], self._read[1]
        if len(self._cache["buffers"]) != len(outputs):  # all tokens are read at each step
            outputs = []
        logits, ranks = self._model.folder.names["logits"], dict[str, int]()
        if self._beams is not None or self._decoder.is_encoding:
            if name == logits and self._count:
                return self.get_logits()
        elif self._count:
            made = self._model.folder.proto.graph.output
            ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in made}
            if name not in outputs and ranks.get(name) in (0, 3):  # 0: the file does not say it
                return self._output_of(name, *self._read)
        if name not in outputs:
            others = [n for n, rank in ranks.items() if rank in (0, 3)] or [logits]
            rule = f"be one of {', '.join([*others, *outputs])}"
            raise refusal("the output", rule, name)
        self._forget_ahead()
        self._compute()
        buffer = np.asarray(self._cache["buffers"][outputs.index(name)])
        copies = buffer.shape[1] // self._decoder.heads[0]  # of each head, on several devices
        filled = self._decoder.filled(buffer[:, ::copies], max(self._filled))[:, :, :end]
        if not self._options.past_present_share_buffer or self._beams is not None:
            return filled
        rest = self._options.max_length - filled.shape[2]
        return np.pad(filled, ((0, 0), (0, 0), (0, rest), (0, 0)))

    def _output_of(self, name: str, start: int, end: int) -> np.ndarray:
        """Return an output of tokens from one place to another; paddings have those before."""
        mask = self._mask(end)
        order = np.argsort(1 - mask, axis=1, kind="stable")  # paddings come last
        tokens = np.take_along_axis(self._sequences[:, :end], order, 1)
        places = np.maximum(np.cumsum(mask, 1) - 1, 0)[:, start:, None]
        return np.take_along_axis(self._model.output(name, tokens, self._rows), places, 1)

    def _mask(self, end: int) -> np.ndarray:
        """Return which tokens up to a place are no paddings, [batch, end]: 1 or 0."""
        mask = np.ones((self._batch, end), np.int64)
        for row, first, last in self._gaps:
            mask[row, first:last] = 0
        return mask

    def get_input(self, name: str) -> np.ndarray:
        """Return what the model read last: `input_ids`, or its `attention_mask`, INT64."""
        names, (start, end) = self._model.folder.names, self._read
        if name == names["attention_mask"]:
            return self._mask(end)
        if name != names["input_ids"]:
            raise refusal("the input", "be input_ids or attention_mask", name)
        return self._sequences[:, start:end].astype(np.int64)

    def set_model_input(self, name: str, value: Any) -> None:
        """Append tokens, the input `input_ids`."""
        self.set_inputs({name: value})

    def set_active_adapter(self, adapters: Adapters, name: str) -> None:
        """Let an adapter, loaded as `name`, change the products from the next token on.

        Raises `GenAIError` for a name that was not loaded, and for adapters of another model.
        """
        if adapters.model.decoder is not self._of.decoder:
            raise refusal("the adapters", "be those of the generator's model", "others")
        self._forget_ahead()
        self._model = adapters.adapted(name)
        self._decoder, self._held = self._model.decoder, {}

    def set_runtime_option(self, name: str, value: str) -> None:
        """Do nothing: the options are ONNX Runtime's own."""

    get_speculative_stats = set_hidden_states = DRAFTS

    def snapshot_state(self) -> None:
        """Do nothing: rewind_to knows each state."""


def _unpadded(tokens: np.ndarray, pad: int | None) -> np.ndarray:
    """Return tokens without the padding at their end; one token where all are padding."""
    (places,) = np.nonzero(tokens != pad)
    return tokens[: places[-1] + 1] if places.size else tokens[:1]


def _chunk(count: int, room: int, least: int, most: int) -> int:
    """Return the length of the next chunk of `count` tokens, where `room` rows are left.

    Less than `least` tokens go one by one, and more than `most` by the longest chunk.
    """
    for length in CHUNKS:
        if length <= room and (count > most if length == CHUNKS[0] else count >= least):
            return length
    return 1
