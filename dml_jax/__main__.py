"""`python -m dml_jax`: the command line."""

import io
import os
import signal
import sys
from typing import Any


def main() -> None:
    """Runs the command line, or says how to install it."""
    signal.signal(signal.SIGTERM, _terminate)
    if sys.stdout is None:  # the shell closed it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            import click  # noqa: F401
        except ImportError:
            sys.exit('dml-jax: the command line needs its extra: pip install "dml-jax[cli]"')
        from dml_jax.cli import cli

        cli(prog_name="dml-jax")
    except KeyboardInterrupt:  # before there was a command
        print("Interrupted.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except OSError as error:
        sys.exit(f"The report cannot be written: {error.strerror or error}")


def _terminate(*_: Any) -> None:
    """Ends as Ctrl-C does, so that a file half written is taken away; 128 + SIGTERM."""
    sys.exit(143)


if __name__ == "__main__":
    main()
