"""The command `dml-jax`, from its first moment on.

It is no part of the package, since to import that is to import JAX, which takes most of a second:
Ctrl-C would end in a traceback of what was being imported, or be lost in it.
"""

import os
import signal
from typing import Any


def main() -> None:
    """Runs the command line; until it is imported, SIGINT and SIGTERM end at once."""
    signal.signal(signal.SIGTERM, _end)
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:  # what a shell starts in the background does not
        signal.signal(signal.SIGINT, _end)
    from dml_jax.__main__ import main

    main(signal.default_int_handler if heeds else signal.SIG_IGN)


def _end(number: int, _: Any) -> None:
    if number == signal.SIGINT:
        os.write(2, b"Interrupted.\n")
    os._exit(128 + number)
