"""`python -m dml_jax`: the command line."""

from dml_jax_command import main

if __name__ == "__main__":
    main()
