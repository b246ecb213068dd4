"""The names of `onnxruntime_pybind11_state`, at their other place."""

from dml_jax.onnxruntime.capi.onnxruntime_pybind11_state import *  # noqa: F403
