"""Run a program that imports `onnxruntime_genai`: `python -m dml_jax.genai PROGRAM.py`."""

import sys

import dml_jax.genai
from dml_jax import running
from dml_jax.genai.errors import GenAIError


def _install() -> None:
    sys.modules["onnxruntime_genai"] = dml_jax.genai


if __name__ == "__main__":
    running.run(
        "dml_jax.genai", sys.argv[1:], _install, lambda error: isinstance(error, GenAIError)
    )
