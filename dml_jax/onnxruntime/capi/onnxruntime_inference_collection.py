# ruff: noqa: F401
"""ONNX Runtime's sessions and values, at the place where programs look for them."""

from dml_jax.onnxruntime.binding import IOBinding
from dml_jax.onnxruntime.refused import MODULE
from dml_jax.onnxruntime.session import InferenceSession
from dml_jax.onnxruntime.values import OrtDevice, OrtValue

Session = InferenceSession
globals().update(MODULE)
