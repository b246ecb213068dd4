"""What ONNX Runtime says of its package."""

from dml_jax.onnxruntime.module import VERSION


def get_package_name_and_version_info() -> tuple[str, str, str]:
    """Return the name of the package, its version, and the version of CUDA, which is ""."""
    return "onnxruntime", VERSION, ""
