# ruff: noqa: F401
"""ONNX Runtime's exceptions and enumerations, at the place where programs look for them."""

from dml_jax.onnxruntime.enumerations import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtAllocatorType,
    OrtDeviceMemoryType,
    OrtMemoryInfoDeviceType,
    OrtMemType,
    OrtSparseFormat,
)
from dml_jax.onnxruntime.errors import (
    DeviceReset,
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoadCanceled,
    ModelLoaded,
    ModelRequiresCompilation,
    NoModel,
    NoSuchFile,
    NotFound,
    NotImplemented,
    RuntimeException,
)
from dml_jax.onnxruntime.io_binding import IOBinding as SessionIOBinding
from dml_jax.onnxruntime.metadata import ModelMetadata, NodeArg
from dml_jax.onnxruntime.module import (
    copy_tensors,
    disable_telemetry_events,
    enable_telemetry_events,
    get_build_info,
    get_version_string,
    has_collective_ops,
    set_default_logger_callback,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_global_thread_pool_sizes,
    set_seed,
)
from dml_jax.onnxruntime.ort_values import OrtDevice, OrtValue
from dml_jax.onnxruntime.providers import get_all_providers, get_available_providers, get_device
from dml_jax.onnxruntime.refused import NATIVE
from dml_jax.onnxruntime.session_options import RunOptions, SessionOptions

globals().update(NATIVE)
