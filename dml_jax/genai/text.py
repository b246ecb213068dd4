"""Tokenizers: text to tokens and back, by the package tokenizers; chat templates."""

import atexit
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.errors import Unquoted
from dml_jax.genai.errors import GenAIError, as_genai_errors, fitting, refusal
from dml_jax.genai.folder import Config, Folder
from dml_jax.genai.model import Model
from dml_jax.genai.named_tensors import Tensor
from dml_jax.genai.optimum_folders import members, whole
from dml_jax.system.files import parse_text
from dml_jax.system.unchanged_programs import need

_OPTIONS = {"add_special_tokens": "false", "skip_special_tokens": "true"}
_ERROR_STREAM = threading.Lock()
_REASONING = ("reasoning_content", "thinking", "reasoning")  # names of one field of messages
_UNFINISHED = "\ufffd"  # stands for bytes that are no character yet
SECONDS_MAX, BYTES_MAX = 10, 1 << 30  # of a template: one may loop or grow without an end
_PROGRAM = Path(__file__).with_name("fill_template.py")


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


def _token_of(member: str) -> property:
    """Return a property: the token that a member of genai_config.json names."""

    def token(tokenizer: "Tokenizer") -> int:
        with as_genai_errors():
            found = whole(tokenizer._folder.model, member)
        if found is None:
            raise refusal(f"'{member}' in genai_config.json", "be there", Unquoted("none"))
        return found

    return property(token, doc=f"Return the {member} of genai_config.json.")


class Tokenizer:
    """The tokenizer of a folder, its tokenizer.json, of a model or a config.

    Raises `GenAIError` where the folder has no tokenizer.
    """

    def __init__(self, model: Model | Config):
        self._folder: Folder = model.folder
        self._options = dict(_OPTIONS)
        if "encoder" in self._folder.model:  # whose texts end as they did in training
            self._options["add_special_tokens"] = "true"
        with as_genai_errors():
            need("tokenizers", "read tokenizers", "genai")
            data = self._folder.read("tokenizer.json")
        from tokenizers import Tokenizer as Tokens

        path = self._folder.path / "tokenizer.json"
        with _tokenizing(f"the file '{path}'", "be a tokenizer"), _without_panics():
            self._tokens = Tokens.from_buffer(data)
        self._tokens.no_padding()
        self._tokens.no_truncation()

    @property
    def bos_token_id(self) -> int:
        """Return the token that starts a text."""
        return self._folder.bos_token_id

    bot_token_id, eot_token_id = _token_of("bot_token_id"), _token_of("eot_token_id")
    bor_token_id, eor_token_id = _token_of("bor_token_id"), _token_of("eor_token_id")

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
        """Return the tokens of a text, INT32.

        Raises `GenAIError` where the model lacks one of them.
        """
        if not isinstance(text, str):
            raise refusal("the text", "be a string", text)
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise refusal("the text", "be UTF-8 (Python reads other bytes as surrogates)", text)
        special = self._options["add_special_tokens"] == "true"
        with _tokenizing("the text", "be one that the tokenizer takes"), _without_panics():
            ids = np.array(self._tokens.encode(text, add_special_tokens=special).ids, np.int32)
        last, most = max(ids, default=0), self._folder.vocab_size
        if most and last >= most:  # tokenizers may have more tokens, as of images
            token = self._tokens.id_to_token(int(last))
            raise refusal("the text", f"have none but the {most} tokens of the model", token)
        return ids

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

    def _object(self, name: str) -> dict[str, Any]:
        """Return the object in a file of the folder; an empty one without the file."""
        path = self._folder.path / name
        return members(self._folder.read(name), path) if path.exists() else {}

    @functools.cached_property
    def _templates(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the folder's templates by name, and the special tokens that they may name."""
        config, folder = self._object("tokenizer_config.json"), self._folder.path
        if "added_tokens_decoder" not in config:  # as older versions of transformers wrote it
            config |= self._object("special_tokens_map.json")
        named: Any = config.get("chat_template") or {}
        if isinstance(named, list):
            with fitting("the templates of the folder", "have a name and a text each"):
                named = {one["name"]: one["template"] for one in named}
        named = named if isinstance(named, dict) else {"default": named}
        files = {path.stem: path for path in folder.glob("chat_templates/*.jinja")}
        if (path := folder / "chat_template.jinja").exists():
            files["default"] = path
        if files:
            datas = {name: self._folder.read(str(path)) for name, path in files.items()}
            named = {
                n: parse_text(d, f"the file '{files[n]}'", bytes.decode) for n, d in datas.items()
            }
        extra = config.get("extra_special_tokens")
        tokens = {n: v for n, v in config.items() if n.endswith("_token")}
        tokens |= extra if isinstance(extra, dict) else {}
        tokens = {n: v.get("content") if isinstance(v, dict) else v for n, v in tokens.items()}
        return named, {n: v for n, v in tokens.items() if isinstance(v, str)}

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
        with as_genai_errors():
            need("jinja2", "fill in templates", "genai")
            named, special = self._templates
        values: dict[str, Any] = {"documents": None, "add_generation_prompt": add_generation_prompt}
        for name, text in (("messages", messages), ("tools", tools)):
            try:
                values[name] = json.loads(text) if text else None
            except json.JSONDecodeError as error:
                raise refusal(f"the {name}", f"be JSON ({error})", text) from None
        usual = "tool_use" if values["tools"] is not None and "tool_use" in named else "default"
        template = named.get(str(template_str or usual), template_str)
        if not template:
            rule = f"be given: the folder has {' and '.join(named) or 'no chat_template.jinja'}"
            raise refusal("template_str", rule, template_str)
        if not isinstance(template, str):
            raise refusal("the template", "be a text", template)
        said = values["messages"]
        if not (isinstance(said, list) and said and all(isinstance(one, dict) for one in said)):
            raise refusal("the messages", "be a list of objects", said)
        values["messages"] = [_without_nulls(message) for message in said]
        return filled(template, {**special, **values})


def _without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as transformers gives it to templates, its reasoning under all names."""
    known = {name: value for name, value in message.items() if value is not None}
    thought = next((known[name] for name in _REASONING if name in known), None)
    if thought is None:
        return known
    return {"thinking": thought, **known, "reasoning_content": thought}


class TokenizerStream:
    """Decodes one token after the other; a character of several tokens comes with the last one."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # the last tokens: those before them change no text behind
        self._told, self._begun = "", 0  # the text of `_ids` that is known; those that began it

    def decode(self, token: int) -> str:
        """Return the text that a token adds, "" while a character is not whole."""
        self._ids.append(int(token))
        text = self._tokenizer.decode(self._ids)
        whole = text.rstrip(_UNFINISHED)
        piece, self._told = whole[len(self._told) :], max(self._told, whole, key=len)
        if piece and whole == text:  # a decoder strips the first blank of a text, not of its rest
            self._ids = self._ids[self._begun :]
            self._told, self._begun = self._tokenizer.decode(self._ids), len(self._ids)
        return piece


class _Filler:
    """The process of chat templates, started by the first one, and after one that was ended."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0
        self._process: subprocess.Popen[str] | None = None

    def answer(self, request: str) -> str:
        """Return the line that answers a request; "" where the process ended."""
        with self._lock:
            is_own = self._owner == os.getpid()  # a fork starts one of its own
            if self._process is None or not is_own or self._process.poll() is not None:
                self._owner = os.getpid()
                self._process = subprocess.Popen(
                    [sys.executable, "-P", str(_PROGRAM), str(BYTES_MAX)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            timer, line = threading.Timer(SECONDS_MAX, self._process.kill), ""
            timer.start()
            try:
                assert self._process.stdin and self._process.stdout
                print(request, file=self._process.stdin, flush=True)
                line = self._process.stdout.readline()
            except BrokenPipeError:
                pass
            finally:
                timer.cancel()
                if not line:  # also where the caller is interrupted: the answer would be the next's
                    self.end()
            return line

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.communicate()


_FILLER = _Filler()
atexit.register(_FILLER.end)


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template of jinja2, which may name `values`, in its sandbox."""
    line = _FILLER.answer(json.dumps({"template": template, "values": values}))
    match json.loads(line or "{}"):
        case {"text": text}:
            return text
        case {"stopped": message}:
            raise refusal("the messages", "suit the template", message)
        case {"deep": _}:
            raise refusal("the template", "be less deep", Unquoted("more"))
        case {"failed": message}:
            raise refusal("the template", "fit the messages", message)
        case _:
            raise refusal("the template", f"end within {SECONDS_MAX} s", Unquoted("more"))
