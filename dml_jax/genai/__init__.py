"""The Python API of ONNX Runtime GenAI on JAX: `import dml_jax.genai as og`.

It reads the folders that onnxruntime_genai's model builder writes. `python -m dml_jax.genai` runs
programs that import `onnxruntime_genai`.
"""

from dml_jax.system.unchanged_programs import need as _need

_need("onnx", "read ONNX models", "genai")

from dml_jax.genai import unsupported as _absent
from dml_jax.genai.decoder import Decoder
from dml_jax.genai.errors import GenAIError
from dml_jax.genai.folder import Config, Folder
from dml_jax.genai.generator import Generator, GeneratorParams
from dml_jax.genai.lora import Adapter
from dml_jax.genai.merging import save_merged
from dml_jax.genai.model import Adapters, Model
from dml_jax.genai.named_tensors import NamedTensors, Tensor
from dml_jax.genai.text import Tokenizer, TokenizerStream
from dml_jax.genai.unsupported import *  # noqa: F403

__all__ = [
    "Adapter",
    "Adapters",
    "Config",
    "Decoder",
    "Folder",
    "GenAIError",
    "Generator",
    "GeneratorParams",
    "Model",
    "NamedTensors",
    "Tensor",
    "Tokenizer",
    "TokenizerStream",
    "save_merged",
]
__all__ += _absent.__all__
