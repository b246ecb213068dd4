# ruff: noqa: F401, F403
"""ONNX Runtime's exceptions and enumerations, at the place where programs look for them."""

from dml_jax.onnxruntime.enumerations import *
from dml_jax.onnxruntime.errors import *
from dml_jax.onnxruntime.io_binding import IOBinding as SessionIOBinding
from dml_jax.onnxruntime.metadata import ModelMetadata, NodeArg
from dml_jax.onnxruntime.module import *
from dml_jax.onnxruntime.ort_values import OrtDevice, OrtValue
from dml_jax.onnxruntime.providers import get_all_providers, get_available_providers, get_device
from dml_jax.onnxruntime.refused import NATIVE
from dml_jax.onnxruntime.session_options import RunOptions, SessionOptions

globals().update(NATIVE)
