# ruff: noqa: F401
"""The modules that ONNX Runtime's classes and exceptions are defined in."""

from dml_jax.onnxruntime.capi import (
    _pybind_state,
    onnxruntime_inference_collection,
    onnxruntime_pybind11_state,
    onnxruntime_validation,
)
