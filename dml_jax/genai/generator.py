"""Generators: sequences of tokens that a model goes on with."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.errors import Unquoted
from dml_jax.genai.beam_search import Beams, likeliest_ways, reorder_sequences
from dml_jax.genai.errors import absent, as_genai_errors, refusal
from dml_jax.genai.model import Adapters, Model
from dml_jax.genai.model_runner import ModelRunner, TokensAhead
from dml_jax.genai.named_tensors import as_tokens
from dml_jax.genai.sampling import SearchOptions, TokenSampler, banned_tokens
from dml_jax.genai.sequences import Sequences, without_padding
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
    """Sequences that `model` goes on with, by the options `params`.

    Its parts: `Sequences` has the tokens, `ModelRunner` the cache and the logits, `TokenSampler`
    chooses tokens of logits, `TokensAhead` has those that a device computes ahead, and `Beams` the
    sequences of a beam search.
    """

    def __init__(self, model: Model, params: GeneratorParams):
        self._base, self._options = model, params.options
        self._options.check(model.folder.context_length)
        with as_genai_errors():
            check_process()
        options = self._options
        batch = options.batch_size * options.num_beams
        is_single = options.no_repeat_ngram_size or options.num_beams > 1 or model.folder.rules
        # Rules and beams look at all tokens on the host before the next one is chosen.
        steps = 1 if is_single else model.ahead
        self._runner = ModelRunner(model, batch, options.max_length, steps)
        self._sampler = TokenSampler(options, model.folder.vocab_size)
        nothing = np.zeros((batch, 0), np.int32)
        self._sequences = Sequences(model.folder.eos_token_ids, nothing)
        self._ahead = TokensAhead(self._runner, self._sequences, self._sampler)
        self._beams = self._new_beams()

    def _new_beams(self) -> Beams | None:
        options, folder = self._options, self._base.folder
        is_single = options.num_beams == 1
        return None if is_single else Beams(options, folder.eos_token_ids, folder.pad_token_id)

    @property
    def _model(self) -> Model:
        """Return the model, with its adapter if one is active."""
        return self._runner.model

    def append_tokens(self, tokens: Any) -> None:
        """Append tokens to the sequences, and compute what follows them.

        Args:
            tokens: [length], [batch, length] or a `Tensor`. Sequences of a batch are padded by the
                model's pad_token_id, at their ends; in front of others it is a token.

        Raises `GenAIError` where there are none, too many, or some that the model has not.
        """
        if self._beams is not None and self._sequences.count:
            rule = "be called once where num_beams is more than 1"
            raise refusal("append_tokens", rule, "another")
        array = as_tokens(tokens, self._options.batch_size)
        if self._model.decoder.is_encoding and not self._sequences.count:
            self._encode(array)
            self._start_decoder()
        else:
            self._append(array)

    append_token_sequences = append_tokens

    def _append(self, array: np.ndarray) -> None:
        """Append tokens, [batch_size, length], to the sequences of the decoder."""
        array = array.repeat(self._options.num_beams, 0)
        sequences, folder = self._sequences, self._model.folder
        most, vocabulary = self._options.max_length, folder.vocab_size
        if sequences.count + array.shape[1] > most:
            rule = f"be at most {most - sequences.count}, so that sequences have at most max_length"
            rule += f" ({most})"
            raise refusal("the number of tokens", rule, array.shape[1])
        # One sequence has no padding: there the pad_token_id, often the end of a text, is a token.
        pad = folder.pad_token_id if self._options.batch_size > 1 else None
        rows = [without_padding(row, pad) for row in array]
        if array.min() < 0 or (vocabulary and max(map(np.max, rows)) >= vocabulary):
            raise refusal("the tokens", f"be in [0, {vocabulary - 1}]", array)
        self._ahead.forget()
        runner = self._runner
        pairs = zip(runner.waiting, rows, strict=True)
        runner.waiting = [np.concatenate([before, row]) for before, row in pairs]
        sequences.append_prompt(array, [len(row) for row in rows])
        self._sampler.see(array)
        # A single token waits where it can be the first of a block, whose program reads it.
        runner.compute(1 if runner.steps > 1 else 2)

    def _encode(self, source: np.ndarray) -> None:
        """Let the encoder read tokens or features."""
        source = source.repeat(self._options.num_beams, 0)
        with self._model.door():
            self._runner.cache = self._model.decoder.encode(self._runner.cache, source)

    def _start_decoder(self) -> None:
        """Append the tokens that a decoder starts with, and the likeliest language among them."""
        folder, batch = self._model.folder, self._options.batch_size
        starts = folder.start_token_ids
        place = starts.index(None) if None in starts else len(starts)
        self._append(np.array([starts[:place]] * batch, np.int32))
        if place == len(starts):
            return
        languages = np.array(folder.model["language_ids"], np.int32)
        logits = self.get_logits()[:: self._options.num_beams, 0, languages]
        rest = np.array([starts[place + 1 :]] * batch, np.int32)
        self._append(np.concatenate([languages[logits.argmax(-1)][:, None], rest], 1))

    def generate_next_token(self) -> None:
        """Append the next token to each sequence; the pad_token_id to one that has ended.

        Where all sequences have ended with it, they are left as they are.

        Raises `GenAIError` where there are no tokens yet, or as many as there may be.
        """
        sequences, most = self._sequences, self._options.max_length
        if not sequences.count:
            rule = "be called after append_tokens"
            raise refusal("generate_next_token", rule, "a call without tokens")
        if sequences.count >= most:
            rule = f"be called before sequences have max_length ({most}) tokens"
            raise refusal("generate_next_token", rule, Unquoted("a call after it"))
        if self.is_done():
            sequences.last = np.full_like(sequences.last, self._model.folder.pad_token_id)
            return
        sequences.mark_read()
        sequences.is_read = False
        if self._ahead.is_next:
            tokens = self._ahead.next()
            if not sequences.end_with(tokens):
                sequences.append(tokens[:, None])
                self._ahead.take(tokens)
            return
        self._ahead.forget()
        self._runner.compute()
        if self._beams is not None:
            self._advance(self._beams)
        else:
            self._step()

    def _step(self) -> None:
        """Append the token that logits say, and let the device go on before the host reads it."""
        runner, sequences, folder = self._runner, self._sequences, self._model.folder
        logits, best = runner.logits, runner.best
        assert logits is not None
        banned = banned_tokens(folder, self._options, sequences, logits.shape)
        column: Any = self._sampler.choose(logits, banned, best)
        if sequences.has_ended.any():
            pad = np.int32(folder.pad_token_id)
            column = jnp.where(sequences.has_ended[:, None], pad, column)
        width = self._model.decoder.width(runner.rows, max(runner.filled) + 1)
        # A program that is not there yet is compiled after the token is handed out, not before.
        # Where others come ahead, it is never called.
        programs = self._model.programs
        is_known = runner.steps == 1 and programs.has_step(runner.batch, runner.rows, width)
        goes_on = is_known and sequences.count + 1 < self._options.max_length
        if goes_on:
            runner.run(column, np.ones(self._runner.batch, np.int32), width)
        if sequences.end_with(np.asarray(column)[:, 0]):
            runner.logits, runner.best = logits, best
            if goes_on:
                runner.go_back([count - 1 for count in runner.filled])
            return
        sequences.append(column)
        self._sampler.see(column)
        if not goes_on:
            runner.waiting = [*sequences.last[:, None]]

    def _advance(self, beams: Beams) -> None:
        """Append the next token to each beam, which takes over the rows of the one before it."""
        runner, sequences, sampler = self._runner, self._sequences, self._sampler
        logits, options = runner.logits, self._options
        assert logits is not None
        banned = banned_tokens(self._model.folder, options, sequences, logits.shape)
        search = {"penalty": np.float32(options.repetition_penalty), "beams": options.num_beams}
        ways = likeliest_ways(logits, sampler.seen, banned, beams.sums, **search)
        tokens, order = beams.advance(jax.device_get(ways), sequences.tokens)
        sequences.continue_from(order, tokens)
        runner.reorder(order)
        sampler.seen = reorder_sequences(sampler.seen, order)
        sampler.see(tokens[:, None])
        sequences.has_ended = beams.done
        if not self.is_done():
            runner.waiting = [*tokens[:, None]]

    def is_done(self) -> bool:
        """Return whether all sequences have ended, or have max_length tokens."""
        is_full = self._sequences.count >= self._options.max_length
        return bool(self._sequences.has_ended.all()) or is_full

    def get_next_tokens(self) -> np.ndarray:
        """Return the token that was appended last to each sequence, [batch * num_beams]."""
        return self._sequences.last

    def get_sequence(self, index: int) -> np.ndarray:
        """Return the tokens of a sequence: of beams the answers of each prompt, best one first."""
        count = self._options.batch_size * self._options.num_return_sequences
        if not 0 <= index < count:
            raise refusal("the index", f"be in [0, {count - 1}]", index)
        if self._beams is not None and self._sequences.count:
            return self._beams.sequence(index, self._sequences.tokens)
        return self._sequences.tokens[index].copy()

    def token_count(self) -> int:
        """Return how many tokens a sequence has."""
        return self._sequences.count

    def get_logits(self) -> np.ndarray:
        """Return the logits of the next token, [batch, 1, vocabulary]."""
        self._ahead.forget()
        self._runner.compute()
        if self._runner.logits is None:
            raise refusal("get_logits", "be called after append_tokens", "a call without tokens")
        self._sequences.mark_read()
        return np.array(self._runner.logits)[:, None]

    def set_logits(self, logits: Any) -> None:
        """Put logits in place of those of the next token, [batch, 1, vocabulary]."""
        self._ahead.forget()
        self._runner.compute()
        array, known = np.asarray(logits, np.float32), self._runner.logits
        shape = (0,) if known is None else known.shape
        if array.size != np.prod(shape):
            raise refusal("the logits", f"have {int(np.prod(shape))} elements", list(array.shape))
        self._runner.logits, self._runner.best = jnp.asarray(array.reshape(shape)), None

    def rewind_to(self, length: int) -> None:
        """Leave out all tokens but the first `length` ones; of a batch, 0 alone."""
        if not 0 <= length <= self._sequences.count:
            raise refusal("the length", f"be in [0, {self._sequences.count}]", length)
        if length and self._runner.batch > 1:
            rule = "be 0 where batch_size or num_beams is more than 1"
            raise refusal("the length", rule, length)
        self._ahead.forget()
        tokens = self._sequences.tokens[:, :length]
        self._beams = self._new_beams()
        for part in (self._sequences, self._runner, self._sampler):
            part.restart(tokens)

    def set_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Append the tokens that are the input `input_ids`.

        A decoder with an encoder of sound also takes `input_features`, [batch, channels, times] or
        those of one sound: log-mel values.
        """
        inputs = dict(inputs)
        is_start = self._model.decoder.is_encoding and not self._sequences.count
        if is_start and "input_features" in inputs:
            given = inputs.pop("input_features")
            features = np.asarray(given.as_numpy() if hasattr(given, "as_numpy") else given)
            self._encode(features.reshape(-1, *features.shape[-2:]))
            if "input_ids" in inputs:
                self._append(as_tokens(inputs.pop("input_ids"), self._options.batch_size))
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
        runner, folder = self._runner, self._model.folder
        outputs = [present for _, present in folder.caches if self._model.decoder.has_buffers]
        logits, ranks = folder.names["logits"], dict[str, int]()
        if self._beams is not None or self._model.decoder.is_encoding:
            # Beams change their rows, and an encoder's text is not read again.
            if name == logits and self._sequences.count:
                return self.get_logits()
        elif self._sequences.count:
            ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in folder.proto.graph.output}
            if name not in outputs and ranks.get(name) in (0, 3):  # 0: the file does not say it
                return self._output_of(name, *self._sequences.read)
        if name not in outputs:
            others = [n for n, rank in ranks.items() if rank in (0, 3)] or [logits]
            rule = f"be one of {', '.join([*others, *outputs])}"
            raise refusal("the output", rule, name)
        self._ahead.forget()
        runner.compute()
        rows = runner.rows_of(outputs.index(name), self._sequences.read[1])
        if not self._options.past_present_share_buffer or self._beams is not None:
            return rows
        room = self._options.max_length - rows.shape[2]
        return np.pad(rows, ((0, 0), (0, 0), (0, room), (0, 0)))

    def _output_of(self, name: str, start: int, end: int) -> np.ndarray:
        """Return an output of tokens from one place to another; paddings have those before."""
        mask = self._sequences.mask(end)
        order = np.argsort(1 - mask, axis=1, kind="stable")  # paddings come last
        tokens = np.take_along_axis(self._sequences.tokens[:, :end], order, 1)
        places = np.maximum(np.cumsum(mask, 1) - 1, 0)[:, start:, None]
        output = self._model.programs.output(name, tokens, self._runner.rows)
        return np.take_along_axis(output, places, 1)

    def get_input(self, name: str) -> np.ndarray:
        """Return what the model read last: `input_ids`, or its `attention_mask`, INT64."""
        names, (start, end) = self._model.folder.names, self._sequences.read
        if name == names["attention_mask"]:
            return self._sequences.mask(end)
        if name != names["input_ids"]:
            raise refusal("the input", "be input_ids or attention_mask", name)
        return self._sequences.tokens[:, start:end].astype(np.int64)

    def set_model_input(self, name: str, value: Any) -> None:
        """Append tokens, the input `input_ids`."""
        self.set_inputs({name: value})

    def set_active_adapter(self, adapters: Adapters, name: str) -> None:
        """Let an adapter, loaded as `name`, change the products from the next token on.

        Raises `GenAIError` for a name that was not loaded, and for adapters of another model.
        """
        if adapters.model.decoder is not self._base.decoder:
            raise refusal("the adapters", "be those of the generator's model", "others")
        self._ahead.forget()
        # Tokens that the cache has were read by the model before, as in ONNX Runtime GenAI.
        self._runner.model = adapters.adapted(name)

    def set_runtime_option(self, name: str, value: str) -> None:
        """Do nothing: the options are ONNX Runtime's own."""

    get_speculative_stats = set_hidden_states = DRAFTS

    def snapshot_state(self) -> None:
        """Do nothing: rewind_to knows each state."""
