"""Configs and models of folders, and adapters of models by name."""

import functools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from dml_jax.errors import nearest
from dml_jax.genai.cached_start import KeptDecoder, kept_step
from dml_jax.genai.decoder import CHUNKS, Decoder
from dml_jax.genai.errors import raised, refusal
from dml_jax.genai.exported_decoders import decoder_of
from dml_jax.genai.folder import Folder, merged
from dml_jax.genai.lora import Adapter
from dml_jax.genai.sampling import most_likely
from dml_jax.genai.token_blocks import STEPS, steps_of
from dml_jax.genai.unsupported import MEMORY, MultiModalProcessor, StreamingProcessor
from dml_jax.onnx.files.external_data import files_of
from dml_jax.runtime.compiler_options import are_refused
from dml_jax.system.files import cache_folder

_SMALL = 1 << 24  # bytes of files: a step takes less time than what Python does for it
_STEPS_OF_SMALL = 8
_DEVICES = {"cpu": "CPU", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM", "tpu": "TPU"}


# A graph of kernels would be recorded again at each step, since arrays lie at other addresses. A
# program of several steps has such a graph: XLA records it once for all of them.
_GPU_OPTIONS = {"xla_gpu_enable_command_buffer": ""}
# Of one sequence the long products are no products of matrices to XLA: nothing is to be tuned.
_SOON = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


class Config:
    """The genai_config.json of the folder `path`, and what a program puts over it.

    Providers are taken, and change nothing: JAX chooses the device.
    """

    def __init__(self, path: str | Path):
        self._path, self._overlay = str(path), dict[str, Any]()
        _ = self.folder  # says what is wrong with it

    @property
    def folder(self) -> Folder:
        """Return the folder, with the overlay over its genai_config.json."""
        with raised():
            return Folder(self._path, self._overlay)

    def overlay(self, text: str) -> None:
        """Put JSON over genai_config.json, member by member."""
        try:
            value = json.loads(text)
        except (json.JSONDecodeError, TypeError) as error:
            raise refusal("the overlay", f"be JSON ({error})", text) from None
        if not isinstance(value, dict):
            raise refusal("the overlay", "be an object", text)
        self._overlay = merged(self._overlay, value)

    def set_provider_option(self, *given: Any) -> None:
        """Do nothing: JAX computes, on the device that it chooses."""

    clear_providers = append_provider = set_provider_option
    set_decoder_provider_options_hardware_device_type = set_provider_option
    set_decoder_provider_options_hardware_device_id = set_provider_option
    set_decoder_provider_options_hardware_vendor_id = set_provider_option
    clear_decoder_provider_options_hardware_device_type = set_provider_option
    clear_decoder_provider_options_hardware_device_id = set_provider_option
    clear_decoder_provider_options_hardware_vendor_id = set_provider_option

    add_model_data = remove_model_data = from_package_ep = MEMORY


class Model:
    """The model of a folder.

    Args:
        config: a `Config`, or the path of a folder.
        keeps_int4: whether quantized weights stay as they are, and are unpacked at each step. Else
            a CPU unpacks them once, into up to eight times their memory.
        devices: how many devices compute it together; the first ones that JAX has.
        ahead: how many tokens one program computes, before a generator hands them out one by one.
            None: 16 on one GPU, 8 of a small decoder on a CPU, whose programs are not kept; else 1.
        cache: whether compiled programs are kept for other processes, or the folder where they are,
            as for `dml_jax.load_onnx`. Those of one CPU are, with GroupQueryAttention.
    """

    def __init__(
        self,
        config: "Config | str | Path",
        *,
        keeps_int4: bool = False,
        devices: int = 1,
        ahead: int | None = None,
        cache: bool | str | Path = False,
    ):
        if ahead is not None and ahead < 1:
            raise refusal("the number of tokens ahead", "be at least 1", ahead)
        self.config = config if isinstance(config, Config) else Config(config)
        self.folder = self.config.folder
        programs = cache_folder() if cache is True else Path(cache) if cache else None
        with raised():
            self.decoder: Decoder = decoder_of(self.folder, keeps_int4, mesh_of(devices), programs)
            _ = self.decoder.note
        self.ahead = ahead or _steps_of(self.decoder)

    @property
    def type(self) -> str:
        """Return the name of the architecture."""
        return self.folder.type

    @property
    def device_type(self) -> str:
        """Return the name of the device that JAX computes on."""
        platform = jax.default_backend()
        return _DEVICES.get(platform, platform)

    def step(self, batch: int) -> Any:
        """Return the compiled step of the decoder, which takes over the memory of the cache.

        It gives the logits, the most likely tokens [batch, 1], and the cache.
        """
        return self._steps[batch > 1]

    @functools.cached_property
    def _steps(self) -> tuple[Any, Any]:
        """Return the steps of one sequence, and of more, which differ in XLA's options."""

        def step(held: Any, cache: Any, tokens: Any, counts: Any, width: int) -> Any:
            logits, after = self.decoder.step(held, cache, tokens, counts, width)
            return logits, most_likely(logits)[:, None], after

        if isinstance(self.decoder, KeptDecoder):
            kept = kept_step(self.decoder, step)
            return kept, kept
        names = {"static_argnames": "width", "donate_argnames": "cache"}
        return self._compiled(step, _GPU_OPTIONS, names)

    def output(self, name: str, tokens: np.ndarray, rows: int) -> np.ndarray:
        """Return an output of the network of each token of sequences from their start.

        Args:
            name: its name.
            tokens: [batch, length].
            rows: the number of tokens that a buffer holds, `length` or more.

        Returns [batch, length, ...].
        """
        decoder, (batch, length) = self.decoder, tokens.shape
        rows = decoder.width(rows, length)
        size = 1 if rows % CHUNKS[1] else CHUNKS[1]  # so that whole chunks fit
        filled = np.pad(tokens, ((0, 0), (0, -length % size)))
        cache, parts = decoder.cache(batch, rows), list[np.ndarray]()
        with raised():
            for start in range(0, length, size):
                part = filled[:, start : start + size]
                made, cache = self._decode(decoder.weights, cache, part, output=name)
                parts.append(np.asarray(made))
        return np.concatenate(parts, 1)[:, :length]

    @functools.cached_property
    def _decode(self) -> Any:
        return jax.jit(self.decoder.decode, static_argnames="output", donate_argnames="cache")

    def steps(self, batch: int) -> Any:
        """Return the compiled program of `ahead` steps, which takes over the cache's memory.

        It gives what `steps_of` gives.
        """
        return self._several[batch > 1]

    @functools.cached_property
    def _several(self) -> tuple[Any, Any]:
        """Return the programs of several steps of one sequence, and of more."""

        def steps(held: Any, cache: Any, state: Any, numbers: Any, **static: Any) -> Any:
            return steps_of(self.decoder, held, cache, state, numbers, count=self.ahead, **static)

        names = {"static_argnames": ("width", "draws", "top_k"), "donate_argnames": "cache"}
        return self._compiled(steps, {}, names)

    def _compiled(self, function: Any, options: dict[str, Any], names: Any) -> tuple[Any, Any]:
        """Return a function compiled for one sequence, and for more: XLA's options differ."""
        one, many = {**options, **_SOON}, options
        if jax.default_backend() != "gpu":
            one = many = {}
        made = (jax.jit(function, compiler_options=_known(o), **names) for o in (one, many))
        return next(made), next(made)

    def adapted(self, adapter: Adapter) -> "Model":
        """Return the model with an adapter, whose weights are among those of its decoder.

        Both models have the other weights in common.
        """
        with raised():
            other = Model.__new__(Model)  # which has no programs yet
            other.ahead = self.ahead
            other.config = self.config
            other.folder = self.folder.having(adapter.applied())
            other.decoder = self.decoder.having(other.folder)
        return other

    def report(self) -> str:
        """Return what the model is made of, once it has run."""
        kept = self.decoder.weights
        size = sum(w.nbytes for w in kept.values())
        lines = [f"{self.type}: {self.folder.layers} layers, {len(kept)} weights, {size} bytes"]
        lines.append(f"computed from weights once: {self.decoder.made_bytes} bytes")
        lines += [self.decoder.note] if self.decoder.note else []
        if isinstance(self.decoder, KeptDecoder):
            lines.append(self.decoder.programs.report())
        return "\n".join(lines)

    create_multimodal_processor = MultiModalProcessor
    create_streaming_processor = StreamingProcessor


class Adapters:
    """Adapters of `model`, by name. A `Generator` activates one of them."""

    def __init__(self, model: Model):
        self.model = model
        self._models: dict[str, Model] = {}

    def load(self, path: str | Path, name: str) -> None:
        """Read an adapter of PEFT's.

        Args:
            path: its folder, with adapter_model.safetensors and adapter_config.json.
            name: stands for it.

        Raises `GenAIError` for a name that is taken, a file that cannot be read, and products that
        the model has not.
        """
        if name in self._models:
            raise refusal("the name of an adapter", "be one that is not loaded", name)
        if Path(path).suffix == ".onnx_adapter":
            rule = "be a folder of PEFT's (from which an .onnx_adapter is converted)"
            raise refusal("the adapter", rule, str(path))
        with raised():
            self._models[name] = self.model.adapted(Adapter.load(path, self.model.folder))

    def unload(self, name: str) -> None:
        """Forget an adapter. Generators that use it go on to. Raises `GenAIError` for no name."""
        _ = self.adapted(name)
        del self._models[name]

    def adapted(self, name: str) -> Model:
        """Return the model with an adapter. Raises `GenAIError` for a name that is not loaded."""
        if name not in self._models:
            rule = f"be one that is loaded{nearest(name, self._models)}"
            raise refusal("the name of an adapter", rule, name)
        return self._models[name]


def _known(options: dict[str, Any]) -> dict[str, Any] | None:
    """Return options of XLA; None for none, and where this version of it refuses them."""
    try:
        if options:
            jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except (ValueError, RuntimeError) as error:
        if not are_refused(error):
            raise
        return None
    return options or None


def _steps_of(decoder: Decoder) -> int:
    """Return how many tokens a program of a decoder computes."""
    platform = jax.default_backend()
    if platform == "gpu" and decoder.mesh is None:
        return STEPS
    if platform != "cpu" or decoder.mesh is not None or type(decoder) is not Decoder:
        return 1
    proto, files = decoder.folder.proto, decoder.folder.files
    size = proto.ByteSize() + sum(path.stat().st_size for path in files_of(proto, files))
    return _STEPS_OF_SMALL if size <= _SMALL else 1


def mesh_of(count: int) -> Mesh | None:
    """Return the first devices of JAX as a mesh; None for one. Raises `GenAIError`."""
    known = jax.devices()
    if not 1 <= count <= len(known):
        rule = f"be in [1, {len(known)}], as JAX has"
        if jax.default_backend() == "cpu":
            rule += " (XLA_FLAGS=--xla_force_host_platform_device_count=8 divides a CPU)"
        raise refusal("the number of devices", rule, count)
    return None if count == 1 else Mesh(np.array(known[:count]), ("heads",))


def as_tokens(tokens: Any, batch: int) -> np.ndarray:
    """Return tokens as [batch, length] INT32. Raises `GenAIError` where they are none."""
    array = np.asarray(tokens.as_numpy() if hasattr(tokens, "as_numpy") else tokens)
    if array.size == 0:
        raise refusal("the tokens", "be one or more", array)
    if array.dtype.kind not in "iu":
        raise refusal("the tokens", "be whole numbers", array)
    if array.size % batch or (array.ndim == 2 and array.shape[0] != batch) or array.ndim > 2:
        raise refusal("the tokens", f"have batch_size ({batch}) rows", list(array.shape))
    return array.reshape(batch, -1).astype(np.int32)
