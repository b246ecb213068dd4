"""Run a program that imports `onnxruntime_genai`: `python -m dml_jax.genai PROGRAM.py`."""

import os
import runpy
import sys
from pathlib import Path

import dml_jax.genai
from dml_jax.genai.errors import GenAIError


def main(arguments: list[str]) -> None:
    """Run a program; it finds this module as `onnxruntime_genai`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(
            "Usage: python -m dml_jax.genai PROGRAM.py [ARGUMENTS]",
            file=sys.stdout if arguments else sys.stderr,
        )
        sys.exit(0 if arguments else 2)
    path = Path(arguments[0])
    if not path.is_file():
        print(f"dml_jax.genai: can't open file '{path}'", file=sys.stderr)
        sys.exit(2)
    sys.modules["onnxruntime_genai"] = dml_jax.genai
    sys.argv = arguments
    sys.path.insert(0, os.path.realpath(path.parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except GenAIError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT, as shells expect


if __name__ == "__main__":
    main(sys.argv[1:])
