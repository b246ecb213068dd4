"""`python -m dml_jax`: the command line."""

import sys


def main() -> None:
    """Runs the command line, or says how to install it."""
    try:
        import click  # noqa: F401
    except ImportError:
        sys.exit('dml-jax: the command line needs its extra: pip install "dml-jax[cli]"')
    from dml_jax.cli import cli

    cli(prog_name="dml-jax")


if __name__ == "__main__":
    main()
