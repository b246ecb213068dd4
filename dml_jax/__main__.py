"""`python -m dml_jax`: the command line."""

import io
import os
import signal
import sys
from typing import Any


def main(on_interrupt: Any = None) -> None:
    """Runs the command line, or says how to install it.

    Args:
        on_interrupt: what handles SIGINT from the first command on; None is what does so now.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115, PTH123
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the terminal cannot show is escaped
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            import click  # noqa: F401
        except ImportError:
            sys.exit('dml-jax: the command line needs its extra: pip install "dml-jax[cli]"')
        from dml_jax.cli import cli

        signal.signal(signal.SIGTERM, _terminate)
        if on_interrupt is not None:
            signal.signal(signal.SIGINT, on_interrupt)
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
