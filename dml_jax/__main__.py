"""`python -m dml_jax`: the command line."""

import _thread
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


def main(ready: Callable[[], Any] = lambda: None) -> None:
    """Runs the command line, or says how to install it; calls `ready` when all is imported."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _not_lost
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

        ready()
        cli(prog_name="dml-jax")
    except KeyboardInterrupt:  # before there was a command
        print("Interrupted.", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    except OSError as error:
        sys.exit(f"The report cannot be written: {error.strerror or error}")


def _terminate(*_: Any) -> None:
    """Ends as Ctrl-C does, so that a file half written is taken away; 128 + SIGTERM."""
    sys.exit(143)


def _not_lost(lost: Any) -> None:
    """Interrupts once more, where Ctrl-C fell into a callback (JAX has one of the collector)."""
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(lost)


if __name__ == "__main__":
    main()
