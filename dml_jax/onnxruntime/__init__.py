"""ONNX Runtime's Python module, whose programs run here as they are.

`import dml_jax.onnxruntime as ort` in a program, or run an unmodified one with
`python -m dml_jax.onnxruntime PROGRAM.py` or `-m MODULE`, for which `import onnxruntime` finds this
package. Classes, functions, argument names and defaults are those of ONNX Runtime 1.24. The package
onnxruntime computes what only the host can, such as nodes of strings, and has the parts
`quantization`, `tools` and `transformers`; otherwise it need not be installed.

Choices:

- A run of new sizes compiles a program for these. A session keeps 32 of them, or as many as the
  session config entry `session.dml_jax_programs` says.
- A run takes a number for an input too, where ONNX Runtime wants an array.
- Random nodes draw the same numbers in each run.
- Custom libraries, sparse tensors, adapters, compiled models, allocators, devices of providers,
  files in the format .ort and `optimized_model_filepath` are refused where they are used.
"""

from typing import NoReturn

from dml_jax.errors import nearest
from dml_jax.system.unchanged_programs import need as _need

_need("onnx", "read ONNX models", "onnx")

from dml_jax.onnxruntime import capi, enumerations, module
from dml_jax.onnxruntime.enumerations import *  # noqa: F403
from dml_jax.onnxruntime.io_binding import IOBinding
from dml_jax.onnxruntime.metadata import ModelMetadata, NodeArg
from dml_jax.onnxruntime.module import *  # noqa: F403
from dml_jax.onnxruntime.module import VERSION as __version__  # noqa: N811
from dml_jax.onnxruntime.ort_values import OrtDevice, OrtValue
from dml_jax.onnxruntime.providers import get_all_providers, get_available_providers, get_device
from dml_jax.onnxruntime.refused import MODULE as _REFUSED
from dml_jax.onnxruntime.session import InferenceSession
from dml_jax.onnxruntime.session_options import RunOptions, SessionOptions

__all__ = [
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtDevice",
    "OrtValue",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "__version__",
    "capi",
    "get_all_providers",
    "get_available_providers",
    "get_device",
]
__all__ += enumerations.__all__
__all__ += module.__all__

SessionIOBinding = IOBinding
onnxruntime_validation = capi.onnxruntime_validation
package_name, version, cuda_version = onnxruntime_validation.get_package_name_and_version_info()
globals().update(_REFUSED)


def __getattr__(name: str) -> NoReturn:
    """Raise `AttributeError`, which names the nearest name."""
    text = f"module 'onnxruntime' of dml_jax has no attribute {name!r}"
    if name in ("quantization", "tools", "transformers"):
        raise AttributeError(f"{text} (import onnxruntime.{name}, of the package onnxruntime)")
    raise AttributeError(text + nearest(name, __all__))
