"""ONNX's interface of backends, as `onnxruntime.backend` has it."""

# ruff: noqa: F401
from dml_jax.onnx.backend import is_compatible, prepare, run_model, supports_device
