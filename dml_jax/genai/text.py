"""Tokenizers: text to tokens and back, by the package tokenizers; templates."""

import contextlib
import functools
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dml_jax.files import parse_text
from dml_jax.genai.config import Config, Model
from dml_jax.genai.errors import GenAIError, need, raised, refusal
from dml_jax.genai.folder import Folder
from dml_jax.genai.templates import filled
from dml_jax.genai.tensors import Tensor

_OPTIONS = {"add_special_tokens": "false", "skip_special_tokens": "true"}
_ERROR_STREAM = threading.Lock()
_UNFINISHED = "\ufffd"  # stands for bytes that are no character yet


@contextlib.contextmanager
def _tokenizing(field: str, rule: str) -> Iterator[None]:
    """Raise the errors of the package, which has no class of its own, as `GenAIError`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GenAIError):
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        raise refusal(field, rule, str(error)) from None


@contextlib.contextmanager
def _without_panics() -> Iterator[None]:
    """Drop what Rust writes to the error stream where it panics; keep all else of it."""
    try:
        own = os.dup(2)
    except OSError:  # there is no such stream
        yield
        return
    try:
        with _ERROR_STREAM, tempfile.TemporaryFile() as held:
            os.dup2(held.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(own, 2)
            held.seek(0)
            os.write(own, held.read())
    finally:
        os.close(own)


class Tokenizer:
    """The tokenizer of a folder: its tokenizer.json.

    Args:
        model: a model, or a config.

    Raises `GenAIError` where the folder has no tokenizer, or one of more tokens than the model.
    """

    def __init__(self, model: Model | Config):
        self._folder: Folder = model.folder
        self._options = dict(_OPTIONS)
        if "encoder" in self._folder.model:  # whose texts end as they did in training
            self._options["add_special_tokens"] = "true"
        with raised():
            need("tokenizers", "read tokenizers")
            data = self._folder.read("tokenizer.json")
        from tokenizers import Tokenizer as Tokens

        path = self._folder.path / "tokenizer.json"
        with _tokenizing(f"the file '{path}'", "be a tokenizer"), _without_panics():
            self._tokens = Tokens.from_buffer(data)
        self._tokens.no_padding()
        self._tokens.no_truncation()
        count, most = self._tokens.get_vocab_size(), self._folder.vocab_size
        if most and count > most:
            rule = f"have at most {most} tokens, as the model has"
            raise refusal(f"the file '{path}'", rule, count)

    @property
    def bos_token_id(self) -> int:
        """Return the token that starts a text."""
        return self._folder.bos_token_id

    @property
    def eos_token_ids(self) -> np.ndarray:
        """Return the tokens that end a text."""
        return np.array(self._folder.eos_token_ids, np.int32)

    @property
    def pad_token_id(self) -> int:
        """Return the token that fills the shorter texts of a batch."""
        return self._folder.pad_token_id

    def update_options(self, **options: Any) -> None:
        """Set `add_special_tokens` and `skip_special_tokens`, "true" or "false"."""
        for name, value in options.items():
            text = str(value).lower()
            if name not in _OPTIONS:
                raise refusal("the option", f"be one of {', '.join(_OPTIONS)}", name)
            if text not in ("true", "false", "1", "0"):
                raise refusal(f"the option '{name}'", "be 'true' or 'false'", value)
            self._options[name] = "true" if text in ("true", "1") else "false"

    def encode(self, text: str) -> np.ndarray:
        """Return the tokens of a text, INT32."""
        if not isinstance(text, str):
            raise refusal("the text", "be a string", text)
        special = self._options["add_special_tokens"] == "true"
        with _tokenizing("the text", "be one that the tokenizer takes"), _without_panics():
            return np.array(self._tokens.encode(text, add_special_tokens=special).ids, np.int32)

    def encode_batch(self, texts: Sequence[str]) -> Tensor:
        """Return the tokens of texts, [batch, length], padded at their ends."""
        rows = [self.encode(text) for text in texts]
        longest = max((len(row) for row in rows), default=0)
        filled = np.full((len(rows), longest), self.pad_token_id, np.int32)
        for target, row in zip(filled, rows, strict=True):
            target[: len(row)] = row
        return Tensor(filled)

    def decode(self, tokens: Any) -> str:
        """Return the text of tokens."""
        ids = np.asarray(tokens).reshape(-1)
        if ids.size and (ids.dtype.kind not in "iu" or ids.min() < 0):
            raise refusal("the tokens", "be whole numbers of at least 0", ids)
        skips = self._options["skip_special_tokens"] == "true"
        with _tokenizing("the tokens", "be some that the tokenizer knows"):
            return self._tokens.decode([int(i) for i in ids], skip_special_tokens=skips)

    def decode_batch(self, tokens: Any) -> list[str]:
        """Return the texts of rows of tokens."""
        rows = tokens.as_numpy() if isinstance(tokens, Tensor) else tokens
        return [self.decode(row) for row in rows]

    def to_token_id(self, text: str) -> int:
        """Return the token that a text is; -1 where it is none, as ONNX Runtime GenAI does."""
        found = self._tokens.token_to_id(text)
        return -1 if found is None else found

    def create_stream(self) -> "TokenizerStream":
        """Return a decoder of one token after the other."""
        return TokenizerStream(self)

    @functools.cached_property
    def _template(self) -> tuple[str, dict[str, Any]]:
        """Return the folder's template and the special tokens that it may name."""
        config: Any = {}
        path = self._folder.path / "tokenizer_config.json"
        if path.exists():
            data = self._folder.read(path.name)
            config = parse_text(data, f"the file '{path}'", json.loads)
            if not isinstance(config, dict):
                raise refusal(f"the file '{path}'", "hold an object", config)
        template: Any = config.get("chat_template") or ""
        if isinstance(template, list):  # several, by name
            parts = [part for part in template if isinstance(part, dict)]
            named = {str(part.get("name")): part.get("template", "") for part in parts}
            template = named.get("default") or next(iter(named.values()), "")
        path = self._folder.path / "chat_template.jinja"
        if path.exists():
            data = self._folder.read(path.name)
            template = parse_text(data, f"the file '{path}'", lambda text: text.decode("utf-8"))
        if not isinstance(template, str):
            raise refusal("the template of the folder", "be a text", template)
        special = {}
        for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
            value = config.get(name)
            special[name] = value.get("content", "") if isinstance(value, dict) else value or ""
        return template, special

    def apply_chat_template(
        self,
        messages: str,
        *,
        template_str: str | None = None,
        tools: str | None = None,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return a conversation as the text that the model has been trained on.

        Args:
            messages: JSON, a list of objects with a `role` and a `content`.
            template_str: a template; by default that of the folder.
            tools: JSON, the tools that the model may call.
            add_generation_prompt: whether the text ends where the model's answer begins.

        Raises `GenAIError` where JSON or template are broken, there is no template, or it takes
        more than 10 s or 1 GiB.
        """
        with raised():
            need("jinja2", "fill in templates")
            template, special = self._template
        template = template_str or template
        if not template:
            rule = "be given: the folder has no chat_template.jinja"
            raise refusal("template_str", rule, template_str)
        if not isinstance(template, str):
            raise refusal("template_str", "be a text", template)
        values = {}
        for name, text in (("messages", messages), ("tools", tools)):
            try:
                values[name] = json.loads(text) if text else None
            except json.JSONDecodeError as error:
                raise refusal(f"the {name}", f"be JSON ({error})", text) from None
        values |= {**special, "add_generation_prompt": add_generation_prompt}
        return filled(template, values)


class TokenizerStream:
    """Decodes one token after the other; a character of several tokens comes with the last one."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = self._end = 0  # tokens whose text is known, and has been returned

    def decode(self, token: int) -> str:
        """Return the text that a token adds, "" while a character is not whole."""
        self._ids.append(int(token))
        before = self._tokenizer.decode(self._ids[self._start : self._end])
        text = self._tokenizer.decode(self._ids[self._start :])
        if text.endswith(_UNFINISHED) and len(self._ids) - self._end < 8:
            return ""
        self._start, self._end = self._end, len(self._ids)
        return text[len(before) :]
