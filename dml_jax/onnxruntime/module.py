"""The functions of ONNX Runtime's module: versions, logging, telemetry, seeds."""

import platform
from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax.errors import with_article
from dml_jax.onnxruntime.ort_values import OrtValue
from dml_jax.onnxruntime.session_options import LOGGER

__all__ = [
    "copy_tensors",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_build_info",
    "get_version_string",
    "has_collective_ops",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_callback",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_global_thread_pool_sizes",
    "set_seed",
]

VERSION = "1.24.0"
"""The version of ONNX Runtime whose Python API this package has."""


def get_version_string() -> str:
    """Return the version of ONNX Runtime whose API this is."""
    return VERSION


def get_build_info() -> str:
    """Return what computes: dml_jax."""
    return "dml_jax on XLA"


def has_collective_ops() -> bool:
    """Return False: no operators compute over several processes."""
    return False


def _level(name: str, value: Any, last: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"expected {name} to be an int, got {with_article(type(value))}")
    if not 0 <= value <= last:
        raise RuntimeError(f"expected {name} to be in [0, {last}], got {value}")


def set_default_logger_severity(severity: int) -> None:
    """Let sessions say that a run compiles, up to the severity 2; from 0 (verbose) to 4 (fatal)."""
    _level("severity", severity, 4)
    LOGGER["severity"] = severity


def set_default_logger_verbosity(verbosity: int) -> None:
    """Do nothing: sessions log nothing. `verbosity` is a number."""
    _level("verbosity", verbosity, 2**31 - 1)


def set_default_logger_callback(callback: Any, severity: int = 2) -> None:
    """Do nothing: sessions log nothing, and `callback` is never called."""
    _level("severity", severity, 4)


def set_seed(seed: int) -> None:
    """Do nothing: random nodes draw the same numbers in each run. `seed` is a number."""
    _level("seed", seed, 2**63 - 1)


def disable_telemetry_events() -> None:
    """Do nothing: nothing is ever sent."""


enable_telemetry_events = disable_telemetry_events


def set_global_thread_pool_sizes(
    intra_op_num_threads: int = 0, inter_op_num_threads: int = 0
) -> None:
    """Do nothing: XLA takes the threads of the machine."""


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: Any = None
) -> None:
    """Do nothing: JAX loads the libraries of CUDA."""


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy the elements of values into others of the same types and shapes, without a `stream`."""
    for source, target in zip(src, dst, strict=True):
        target.update_inplace(np.asarray(source.numpy()))


def print_debug_info() -> None:
    """Print the versions of what computes."""
    from importlib import metadata

    lines = [f"onnxruntime API {VERSION}, by dml_jax", f"Python {platform.python_version()}"]
    lines += [f"{name} {metadata.version(name)}" for name in ("jax", "jaxlib", "numpy", "onnx")]
    print("\n".join(lines))
