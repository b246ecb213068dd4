"""What the API has beyond text from text: each part refuses, in one line, when it is used."""

import logging
from typing import Any

import jax

from dml_jax.errors import nearest
from dml_jax.genai.errors import absent, refusal

_LOG = logging.getLogger("dml_jax.genai")
_LOGGED = (
    *("enabled", "ansi_tags", "append_next_tokens", "filename", "generate_next_token", "hit_eos"),
    *("hit_max_length", "model_input_shapes", "model_input_values", "model_logits"),
    *("model_output_shapes", "model_output_values", "ort_lib", "value_stats", "warning"),
)


class _Absent:
    """A class of the API that refuses its use."""

    what, instead = "", "it generates text from text"

    def __init__(self, *args: Any, **kwargs: Any):
        raise absent(self.what, self.instead)


class Images(_Absent):
    """Pictures, which are refused."""

    what = "images"

    @classmethod
    def open(cls, *paths: str) -> "Images":
        """Refuse to read pictures."""
        return cls()

    open_bytes = open


class Audios(_Absent):
    """Sounds, which are refused."""

    what = "audio"

    @classmethod
    def open(cls, *paths: str) -> "Audios":
        """Refuse to read sounds."""
        return cls()

    open_bytes = open


class MultiModalProcessor(_Absent):
    """What prepares pictures and sounds, which is refused."""

    what = "processors of images and sound"


class StreamingProcessor(_Absent):
    """What prepares sounds as they come, which is refused."""

    what = "processors of sound"


class Engine(_Absent):
    """Continuous batching, which is refused."""

    what, instead = "Engine", "a Generator takes a batch of prompts (batch_size)"


class Request(Engine):
    """A request to an engine, which is refused."""

    what = "Request"


class RequestOptions(Engine):
    """The options of a request, which are refused."""

    what = "RequestOptions"


class TurnOptions(Engine):
    """The options of a turn, which are refused."""

    what = "TurnOptions"


class MtpGenerator(_Absent):
    """Drafts of several tokens, which are refused."""

    what, instead = "MtpGenerator", "a Generator generates one token after the other"


def set_log_options(**options: Any) -> None:
    """Turn the log on or off: `enabled`; the other options of ONNX Runtime GenAI change nothing.

    Raises `GenAIError` for options that it has not.
    """
    for name in options:
        if name not in _LOGGED:
            raise refusal("the option", f"be an option of the log{nearest(name, _LOGGED)}", name)
    _LOG.setLevel(logging.INFO if options.get("enabled", True) else logging.WARNING)


def set_log_callback(callback: Any) -> None:
    """Do nothing: the log is that of Python's logging, named dml_jax.genai."""


def is_cuda_available() -> bool:
    """Return whether JAX computes on an NVIDIA GPU."""
    return jax.default_backend() in ("gpu", "cuda")


def is_dml_available() -> bool:
    """Return True: folders for DirectML run."""
    return True


def is_openvino_available() -> bool:
    """Return False."""
    return False


is_qnn_available = is_webgpu_available = is_openvino_available


def get_current_gpu_device_id() -> int:
    """Return 0: JAX chooses the device."""
    return 0


def set_current_gpu_device_id(device: int) -> None:
    """Do nothing: JAX chooses the device (CUDA_VISIBLE_DEVICES)."""


def register_execution_provider_library(name: str, path: str) -> None:
    """Do nothing: JAX computes."""


def unregister_execution_provider_library(name: str) -> None:
    """Do nothing: JAX computes."""


def enable_telemetry_events() -> None:
    """Do nothing: nothing is sent."""


def disable_telemetry_events() -> None:
    """Do nothing: nothing is sent."""
