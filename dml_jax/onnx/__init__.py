"""Networks in ONNX's format as graphs of DirectML operators."""

from dml_jax.errors import missing_extra

try:
    import onnx as _onnx  # noqa: F401  (every module of this package needs it)
except ImportError:
    raise missing_extra("onnx", "read ONNX models", "onnx") from None

from dml_jax.onnx.model import free_sizes
from dml_jax.onnx.network import Network, load_onnx

__all__ = ["Network", "free_sizes", "load_onnx"]
