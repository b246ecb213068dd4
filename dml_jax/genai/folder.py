"""Folders of language models as ONNX Runtime GenAI has them: genai_config.json and its files."""

import copy
import functools
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx

from dml_jax.errors import NOTHING, Sentence, Unquoted, nearest
from dml_jax.genai.errors import absent, as_genai_errors, fitting, refusal
from dml_jax.genai.optimum_folders import (
    PLAIN,
    members,
    of_export,
    unprune,
    whole,
    without_branches,
)
from dml_jax.genai.unsupported import MEMORY
from dml_jax.onnx.files.external_data import Folder as Files
from dml_jax.onnx.files.external_data import files_of
from dml_jax.runtime.platform import platform
from dml_jax.system.files import read_bytes, similar_file

CONFIG = "genai_config.json"
_STATES = "encoder_hidden_states"
# A broken graph is edited here before any check of its nodes: what it lacks is a fault of the file.
_FITTING = fitting("the network", "be a decoder's")

_NAMES = {
    **{name: name for name in ("input_ids", "attention_mask", "position_ids", "logits")},
    "past_key_names": "past_key_values.%d.key",
    "past_value_names": "past_key_values.%d.value",
    "present_key_names": "present.%d.key",
    "present_value_names": "present.%d.value",
}


def merge_json(base: Any, over: Any) -> Any:
    """Return a JSON value with the members of another one put over it."""
    if not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return over
    return {**base, **{key: merge_json(base.get(key), value) for key, value in over.items()}}


_LAYERS_MAX = 10_000
_OTHERS = {
    "encoder": "encoders (a folder of optimum's may have one)",
    **dict.fromkeys(("vision", "speech"), "networks for images and sound"),
    "embedding": "embeddings in a network of their own",
    "pipeline": "decoders in several files",
    "past_names": "keys and values in one tensor a layer",
    "past_conv_names": "states of convolutions",
    "past_recurrent_names": "recurrent states",
    "past_key_scale_names": "keys and values with scales",
    "block_table": "keys and values in pages",
}
"""Members of `model`, `decoder` and its `inputs` whose folders are refused."""


def _object(members: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a member that is an object; {} for none. Raises `DmlError` for another value."""
    found = members.get(name)
    if found is not None and not isinstance(found, Mapping):
        raise refusal(f"'{name}' in {CONFIG}", "be an object", found)
    return found or {}


class Folder:
    """A folder of a language model.

    Args:
        path: the folder.
        overlay: JSON values put over those of its genai_config.json.

    Attributes:
        path: the folder.
        config_name: the name of the file that says what the folder is.
        config: the members of genai_config.json.
        model: the member `model`.
        decoder: the member `model.decoder`.
        filename: the name of the decoder's file.
        type: the name of the architecture.
        context_length: how many tokens a sequence may have.
        vocab_size: how many tokens there are.
        bos_token_id: the token that starts a text.
        eos_token_ids: the tokens that end a sequence.
        pad_token_id: the token that fills shorter sequences of a batch.
        rules: the tokens that an export never makes, and those that it must; {} for none.
        names: the names of the inputs and outputs by their part; '%d' stands for a layer.
        layers: the number of layers, each of which has keys and values.

    Raises `DmlError` where a file is missing or broken.
    """

    def __init__(self, path: str | Path, overlay: Mapping[str, Any] | None = None):
        self.path = Path(path)
        is_export = not (self.path / CONFIG).exists() and (self.path / PLAIN).exists()
        self.config_name = PLAIN if is_export else CONFIG
        # This folder, and where its config lies once symbolic links are followed.
        self._own = Files(self.path, (self.path / self.config_name).resolve().parent)
        if is_export:
            read = of_export(self.path, self.read)
        else:
            read = members(self.read(CONFIG), self.path / CONFIG)
        self.config: dict[str, Any] = merge_json(read, overlay or {})
        if "model" not in self.config:
            rule = "hold an object with a member 'model'"
            where = f"the file '{self.path / CONFIG}'"
            raise refusal("the file", rule, Unquoted("none")).within(where)
        self.model = _object(self.config, "model")
        self.decoder = _object(self.model, "decoder")
        inputs = _object(self.decoder, "inputs")
        parts = {} if is_export else {**self.model, **self.decoder, **inputs}
        for name, what in _OTHERS.items():
            if parts.get(name) is not None:
                rule = "it runs decoders of one network, with keys and values"
                raise absent(f"{what} ('{name}' in {CONFIG})", rule)
        self.filename = str(self.decoder.get("filename") or "model.onnx")
        self.type = str(self.model.get("type", ""))
        self.context_length: int = whole(self.model, "context_length") or 2048
        self.vocab_size: int = whole(self.model, "vocab_size") or 0
        self.bos_token_id: int = whole(self.model, "bos_token_id") or 0
        ids = self.model.get("eos_token_id", [])
        listed, most = ids if isinstance(ids, list) else [ids], (self.vocab_size or 2**31) - 1
        self.eos_token_ids: list[int] = [
            whole({"eos_token_id": i}, "eos_token_id", most=most) or 0 for i in listed
        ]
        pad = whole(self.model, "pad_token_id")
        self.pad_token_id: int = (self.eos_token_ids or [0])[0] if pad is None else pad
        self.rules: Mapping[str, list[Any]] = self.config.get("rules", {}) if is_export else {}
        given = {**inputs, **_object(self.decoder, "outputs")}
        given = {part: name for part, name in given.items() if isinstance(name, str)}
        self.names: Mapping[str, str] = {**_NAMES, **given}
        self.layers: int = whole(self.decoder, "num_hidden_layers", most=_LAYERS_MAX) or 0
        _ = _object(self.config, "search")

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises `DmlError` where it cannot be read, or lies outside of the folder.
        """
        path = self.path / name
        self._own.expect_within(path, f"the file '{path}'")
        return read_bytes(path)

    @functools.cached_property
    def files(self) -> Files:
        """Return where the external data of the network are."""
        place = (self.path / self.filename).parent
        self._own.expect_within(place, f"the folder '{place}'")
        return Files(place, self._own.true)

    def having(self, proto: onnx.ModelProto, files: Files | None = None) -> "Folder":
        """Return the folder with another network; `files` are where its external data are."""
        other = copy.copy(self)
        other.proto, other.files = proto, files or self.files
        return other

    @property
    def start_token_ids(self) -> list[int | None]:
        """Return the tokens that a decoder with an encoder starts with; None is a language."""
        start = whole(self.model, "decoder_start_token_id", "bos_token_id")
        return [start or 0, *(self.model.get("decoder_prompt_ids") or ())]

    @functools.cached_property
    def caches(self) -> list[tuple[str, str]]:
        """Return (input, output) of the keys and of the values of each layer."""
        kinds = [(f"past_{kind}_names", f"present_{kind}_names") for kind in ("key", "value")]
        named = [(self.names[past], self.names[present]) for past, present in kinds]
        layers = [str(k) for k in range(self.layers)]
        return [(a.replace("%d", k), b.replace("%d", k)) for k in layers for a, b in named]

    def network_of(self, name: str) -> onnx.ModelProto:
        """Return the network in a file, without its external data.

        Raises `DmlError` where it cannot be read.
        """
        proto, data = onnx.ModelProto(), self.read(name)
        try:
            proto.ParseFromString(data)
        except Exception as error:  # the package's own
            rule = Sentence(f"the file '{self.path / name}' is no ONNX model: {error}")
            raise refusal("", rule, "") from None
        return proto

    @functools.cached_property
    @_FITTING
    def proto(self) -> onnx.ModelProto:
        """Return the decoder's network, without its external data.

        Raises `DmlError` where it cannot be read, or lacks a tensor that the config names.
        """
        name = self.filename
        proto = without_branches(self.network_of(name), bool(self.layers))
        inputs = {value.name for value in proto.graph.input}
        outputs = {value.name for value in proto.graph.output}
        wanted = [(self.names["input_ids"], inputs), (self.names["logits"], outputs)]
        wanted += [(past, inputs) for past, _ in self.caches]
        wanted += [(present, outputs) for _, present in self.caches]
        is_encoding = "encoder" in self.model
        wanted += [(_STATES, inputs)] * is_encoding
        for tensor, known in wanted:
            if tensor not in known:
                rule = f"be a tensor of '{name}'{nearest(tensor, known)}"
                raise refusal(f"a name in {self.config_name}", rule, tensor)
        if not self.layers and not is_encoding:
            field = f"num_hidden_layers in {self.config_name}"
            raise refusal(field, "be 1 or more", self.layers)
        ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in proto.graph.input}
        fixed = {past: 4 for past, _ in self.caches} | ({_STATES: 3} if is_encoding else {})
        for tensor, rank in fixed.items():
            if ranks[tensor] != rank:
                rule = f"be a decoder's, whose input '{tensor}' has {rank} dimensions"
                raise refusal("the network", rule, ranks[tensor])
        if all(self.names["logits"] not in node.output for node in proto.graph.node):
            rule = f"be a decoder's, whose output '{self.names['logits']}' a node gives"
            raise refusal("the network", rule, NOTHING)
        for path in files_of(proto, self.files):
            if not os.path.isfile(path):  # noqa: PTH113  (Path raises for names that are too long)
                rule = f"be the file of the weights of '{name}'{similar_file(path)}"
                raise refusal(f"the file '{path}'", rule, Unquoted("no such file"))
        unprune(proto.graph, self.names["logits"], self.files.array)
        return proto


class Config:
    """The genai_config.json of the folder `path`, and what a program puts over it.

    Providers change nothing: JAX chooses the device.
    """

    def __init__(self, path: str | Path):
        self._path, self._overlay = str(path), dict[str, Any]()
        _ = self.folder  # says what is wrong with it

    @property
    def folder(self) -> Folder:
        """Return the folder, with the overlay over its genai_config.json."""
        with as_genai_errors():
            return Folder(self._path, self._overlay)

    def overlay(self, text: str) -> None:
        """Put JSON over genai_config.json, member by member."""
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, TypeError) as error:
            raise refusal("the overlay", f"be JSON ({error})", text) from None
        if not isinstance(value, dict):
            raise refusal("the overlay", "be an object", text)
        self._overlay = merge_json(self._overlay, value)

    def append_provider(self, name: str) -> None:
        """Warn where a provider is another one than "cpu" and JAX has nothing but a CPU."""
        if name.lower() != "cpu" and platform() == "cpu":
            text = f"append_provider({name!r}): JAX has no GPU here, so the CPU computes"
            warnings.warn(text, stacklevel=2)

    def set_provider_option(self, *given: Any) -> None:
        """Do nothing: JAX computes, on the device that it chooses."""

    clear_providers = set_provider_option
    set_decoder_provider_options_hardware_device_type = set_provider_option
    set_decoder_provider_options_hardware_device_id = set_provider_option
    set_decoder_provider_options_hardware_vendor_id = set_provider_option
    clear_decoder_provider_options_hardware_device_type = set_provider_option
    clear_decoder_provider_options_hardware_device_id = set_provider_option
    clear_decoder_provider_options_hardware_vendor_id = set_provider_option

    add_model_data = remove_model_data = from_package_ep = MEMORY
