"""Run a program: `python -m dml_jax.pydirectml PROGRAM.py [ARGUMENTS]`."""

import sys

from dml_jax.pydirectml.programs import main

if __name__ == "__main__":
    main(sys.argv[1:])
