"""Run a program: `python -m dml_jax.onnxruntime [--no-cache] [PROGRAM.py | -m MODULE] ...`."""

import sys

from dml_jax.onnxruntime.run_program import main

if __name__ == "__main__":
    main(sys.argv[1:])
