# ruff: noqa: F401
"""ONNX Runtime's sessions and values, at the place where programs look for them."""

from dml_jax.onnxruntime.io_binding import IOBinding
from dml_jax.onnxruntime.ort_values import OrtDevice, OrtValue
from dml_jax.onnxruntime.refused import MODULE
from dml_jax.onnxruntime.session import InferenceSession

Session = InferenceSession
globals().update(MODULE)
