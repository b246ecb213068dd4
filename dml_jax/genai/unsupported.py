"""What the API has beyond text from text: each part refuses, in one line, when it is used."""

import enum
from typing import Any

from dml_jax.errors import nearest
from dml_jax.genai.errors import absent, refusal
from dml_jax.runtime.platform import platform
from dml_jax.system.refused_names import refused_name

__all__ = ["Audios", "Images", "MtpGenerator", "MultiModalProcessor", "StreamingProcessor"]
__all__ += ["Engine", "EngineCapabilities", "EngineErrorCode", "EngineEvent", "EngineEventBuffer"]
__all__ += ["EngineEventFlags", "FinishReason", "Request", "RequestOptions", "TurnOptions"]
__all__ += ["TurnUsage", "disable_telemetry_events", "enable_telemetry_events"]
__all__ += ["get_current_gpu_device_id", "set_current_gpu_device_id"]
__all__ += ["is_cuda_available", "is_dml_available", "is_openvino_available"]
__all__ += ["is_qnn_available", "is_webgpu_available", "set_log_callback", "set_log_options"]
__all__ += ["register_execution_provider_library", "unregister_execution_provider_library"]

_LOGGED = (
    *("enabled", "ansi_tags", "append_next_tokens", "filename", "generate_next_token", "hit_eos"),
    *("hit_max_length", "model_input_shapes", "model_input_values", "model_logits"),
    *("model_output_shapes", "model_output_values", "ort_lib", "value_stats", "warning"),
)


def refusing(name: str, what: str, instead: str) -> Any:
    """Return a class of the API that refuses its use."""
    return refused_name(name, lambda _: absent(what, instead), f"Refuse {what}.")


MEMORY = refusing("MEMORY", "models in memory or in packages", "a Config takes a folder")
DRAFTS = refusing("DRAFTS", "drafts of tokens", "it generates one token after the other")
_OF_TEXT, _OF_BATCHES = "it generates text from text", "a Generator takes a batch of prompts"
Images = refusing("Images", "images", _OF_TEXT)
Audios = refusing("Audios", "audio", _OF_TEXT)
MultiModalProcessor, StreamingProcessor = (
    refusing(name, "processors of images and sound", _OF_TEXT)
    for name in ("MultiModalProcessor", "StreamingProcessor")
)
MtpGenerator = refusing("MtpGenerator", "MtpGenerator", "a Generator generates one token at a time")
Engine, EngineCapabilities, EngineEvent, EngineEventBuffer = (
    refusing(name, name, _OF_BATCHES)
    for name in ("Engine", "EngineCapabilities", "EngineEvent", "EngineEventBuffer")
)
Request, RequestOptions, TurnOptions, TurnUsage = (
    refusing(name, name, _OF_BATCHES)
    for name in ("Request", "RequestOptions", "TurnOptions", "TurnUsage")
)


FinishReason = enum.Enum(
    "FinishReason",
    "NONE EOS STOP_STRING MAX_GENERATED_TOKENS MAX_SESSION_TOKENS CANCELLED FAILED",
    start=0,
)
EngineErrorCode = enum.Enum(
    "EngineErrorCode",
    "NONE CAPACITY_DEFERRED EXECUTION_CAPACITY_EXCEEDED RETRYABLE_EXECUTION "
    "REQUEST_UNSERVICEABLE ENGINE_CONTRACT_FAILURE ENGINE_EXECUTION_FAILURE",
    start=0,
)
_FLAGS = {"NONE": 0, "TOKEN": 1, "TURN_FINISHED": 2, "CAPACITY_BLOCKED": 4, "FAILED": 8}
EngineEventFlags = enum.Enum("EngineEventFlags", {**_FLAGS, "RETRYABLE": 16})


def set_log_options(**options: Any) -> None:
    """Do nothing: nothing is logged. Raises `GenAIError` for options that GenAI has not."""
    for name in options:
        if name not in _LOGGED:
            raise refusal("the option", f"be an option of the log{nearest(name, _LOGGED)}", name)


def is_cuda_available() -> bool:
    """Return whether JAX computes on an NVIDIA GPU."""
    return platform() in ("gpu", "cuda")


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


def set_current_gpu_device_id(*given: Any) -> None:
    """Do nothing: JAX computes, on the device that it chooses, and nothing is sent."""


register_execution_provider_library = set_current_gpu_device_id
unregister_execution_provider_library = set_current_gpu_device_id
enable_telemetry_events = disable_telemetry_events = set_current_gpu_device_id
set_log_callback = set_current_gpu_device_id
