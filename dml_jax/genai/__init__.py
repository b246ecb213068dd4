"""The Python API of ONNX Runtime GenAI on JAX: `import dml_jax.genai as og`.

It reads the folders that onnxruntime_genai's model builder writes. `python -m dml_jax.genai` runs
programs that import `onnxruntime_genai`.
"""

from dml_jax.running import need as _need

_need("onnx", "read ONNX models", "genai")

from dml_jax.genai.absent import (
    Audios,
    Engine,
    EngineCapabilities,
    EngineErrorCode,
    EngineEvent,
    EngineEventBuffer,
    EngineEventFlags,
    FinishReason,
    Images,
    MtpGenerator,
    MultiModalProcessor,
    Request,
    RequestOptions,
    StreamingProcessor,
    TurnOptions,
    TurnUsage,
    disable_telemetry_events,
    enable_telemetry_events,
    get_current_gpu_device_id,
    is_cuda_available,
    is_dml_available,
    is_openvino_available,
    is_qnn_available,
    is_webgpu_available,
    register_execution_provider_library,
    set_current_gpu_device_id,
    set_log_callback,
    set_log_options,
    unregister_execution_provider_library,
)
from dml_jax.genai.adapters import Adapters
from dml_jax.genai.config import Config, Model
from dml_jax.genai.decoder import Decoder
from dml_jax.genai.errors import GenAIError
from dml_jax.genai.folder import Folder
from dml_jax.genai.generator import Generator, GeneratorParams
from dml_jax.genai.lora import Adapter
from dml_jax.genai.merging import save_merged
from dml_jax.genai.tensors import NamedTensors, Tensor
from dml_jax.genai.text import Tokenizer, TokenizerStream

__all__ = [
    "Adapter",
    "Adapters",
    "Audios",
    "Config",
    "Decoder",
    "Engine",
    "EngineCapabilities",
    "EngineErrorCode",
    "EngineEvent",
    "EngineEventBuffer",
    "EngineEventFlags",
    "FinishReason",
    "Folder",
    "GenAIError",
    "Generator",
    "GeneratorParams",
    "Images",
    "Model",
    "MtpGenerator",
    "MultiModalProcessor",
    "NamedTensors",
    "Request",
    "RequestOptions",
    "StreamingProcessor",
    "Tensor",
    "Tokenizer",
    "TokenizerStream",
    "TurnOptions",
    "TurnUsage",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_current_gpu_device_id",
    "is_cuda_available",
    "is_dml_available",
    "is_openvino_available",
    "is_qnn_available",
    "is_webgpu_available",
    "register_execution_provider_library",
    "save_merged",
    "set_current_gpu_device_id",
    "set_log_callback",
    "set_log_options",
    "unregister_execution_provider_library",
]
