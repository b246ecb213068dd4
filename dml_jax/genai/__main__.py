"""Run a program that imports `onnxruntime_genai`: `python -m dml_jax.genai PROGRAM.py`."""

import sys

import dml_jax.genai
from dml_jax.genai.errors import GenAIError
from dml_jax.system import unchanged_programs


def _install() -> None:
    sys.modules["onnxruntime_genai"] = dml_jax.genai


if __name__ == "__main__":
    unchanged_programs.run(
        "dml_jax.genai", sys.argv[1:], _install, lambda error: isinstance(error, GenAIError)
    )
