"""The model of a folder, with or without an adapter."""

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh

from dml_jax.errors import Unquoted, bugs_within, nearest
from dml_jax.genai.cached_start import CachedStart
from dml_jax.genai.decoder import Decoder
from dml_jax.genai.decoder_forms import BufferedDecoder, decoder_of
from dml_jax.genai.decoder_programs import DecoderPrograms
from dml_jax.genai.errors import as_genai_errors, refusal
from dml_jax.genai.folder import Config
from dml_jax.genai.lora import Adapter
from dml_jax.genai.unsupported import MultiModalProcessor, StreamingProcessor
from dml_jax.onnx.files.external_data import files_of
from dml_jax.runtime.platform import default_device, platform
from dml_jax.system.files import cache_folder

# Tokens of one program. A GPU waits for the host between steps; a CPU does where a step takes less
# time than what Python does for it: where the files have at most `_SMALL` bytes.
_STEPS_OF_GPU, _STEPS_OF_SMALL = 16, 8
_SMALL = 1 << 24
_DEVICES = {"cpu": "CPU", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM", "tpu": "TPU"}


class Model:
    """The model of a folder.

    All that computes goes through it, so that one place says what went wrong: a fault of a folder
    or of a call is a `GenAIError`, and a bug of this package an `InternalError`.

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
        config: Config | str | Path,
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
        place = cache_folder() if cache is True else Path(cache) if cache else None
        with self.door():
            decoder = decoder_of(self.folder, keeps_int4, mesh_of(devices))
            start = None if place is None else _start_of(decoder, place)
            self.ahead = ahead or _steps_of(decoder, start)
            self._adopt(decoder, start)

    def _adopt(self, decoder: Decoder, start: CachedStart | None) -> None:
        self.decoder = decoder
        self.programs = DecoderPrograms(decoder, self.ahead, start, self.door)
        _ = decoder.note  # says what devices cannot divide

    @contextlib.contextmanager
    def door(self) -> Iterator[None]:
        """Raise faults inside as `GenAIError`, and bugs as `InternalError` of this folder."""
        with as_genai_errors(), bugs_within(f"the folder '{self.folder.path}'"):
            try:
                yield
            except (jax.errors.JaxRuntimeError, MemoryError) as error:  # XLA's own: a full device
                text = Unquoted(str(error).partition("\n")[0] or type(error).__name__)
                raise refusal("the device", "compute the model", text) from error

    @property
    def type(self) -> str:
        """Return the name of the architecture."""
        return self.folder.type

    @property
    def device_type(self) -> str:
        """Return the name of the device that JAX computes on."""
        return _DEVICES.get(platform(), platform())

    def adapted(self, adapter: Adapter) -> "Model":
        """Return the model with an adapter, whose weights are among those of its decoder.

        Both models have the other weights in common.
        """
        other = copy.copy(self)
        with self.door():
            if self.programs.start is not None:
                self.programs.start.wait()  # the weights that a thread reads are common ones too
            other.folder = self.folder.having(adapter.applied())
            # Other programs: those that are kept are of the folder's own files.
            other._adopt(self.decoder.with_folder(other.folder), None)
        return other

    def report(self) -> str:
        """Return what the model is made of, once it has run."""
        networks, start = self.decoder.networks, self.programs.start
        weights = networks.weights or self.decoder.weights
        size = sum(w.nbytes for w in weights.values())
        lines = [f"{self.type}: {self.folder.layers} layers, {len(weights)} weights, {size} bytes"]
        derived = sum(array.nbytes for array in networks.store.derived.values())
        lines.append(f"computed from weights once: {derived} bytes")
        lines += [self.decoder.note] if self.decoder.note else []
        lines += [] if start is None else [start.programs.report()]
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
        with as_genai_errors():
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


def _start_of(decoder: Decoder, place: Path) -> CachedStart | None:
    """Return the programs in a folder: of one CPU, for a decoder of buffers; else None."""
    is_one = isinstance(decoder, BufferedDecoder) and decoder.networks.mesh is None
    is_kept = is_one and platform() == "cpu" and default_device() is not None
    return CachedStart(decoder.networks, place) if is_kept else None


def _steps_of(decoder: Decoder, start: CachedStart | None) -> int:
    """Return how many tokens a program of a decoder computes."""
    folder, mesh = decoder.networks.folder, decoder.networks.mesh
    if platform() == "gpu" and mesh is None:
        return _STEPS_OF_GPU
    is_one = isinstance(decoder, BufferedDecoder) and mesh is None and start is None
    if platform() != "cpu" or not is_one:
        return 1
    files = files_of(folder.proto, folder.files)
    size = folder.proto.ByteSize() + sum(path.stat().st_size for path in files)
    return _STEPS_OF_SMALL if size <= _SMALL else 1


def mesh_of(count: int) -> Mesh | None:
    """Return the first devices of JAX as a mesh; None for one. Raises `GenAIError`."""
    known = jax.devices()
    if not 1 <= count <= len(known):
        rule = f"be in [1, {len(known)}], as JAX has"
        if platform() == "cpu":
            rule += " (XLA_FLAGS=--xla_force_host_platform_device_count=8 divides a CPU)"
        raise refusal("the number of devices", rule, count)
    return None if count == 1 else Mesh(np.array(known[:count]), ("heads",))
