"""The command `dml-jax`, from its first moment on.

It is no part of the package, since to import that is to import JAX, which takes most of a second:
Ctrl-C would end in a traceback of what was being imported, or be lost in it.
"""

import os
import signal
from typing import Any


def main() -> None:
    """Runs the command line; until all is imported, SIGINT ends at once, as SIGTERM does."""
    signal.signal(signal.SIGTERM, _end)
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:  # as it is for what a shell starts in the background
        signal.signal(signal.SIGINT, _end)
    from dml_jax.__main__ import main

    main(lambda: signal.signal(signal.SIGINT, before))


def _end(number: int, _: Any) -> None:
    if number == signal.SIGINT:
        os.write(2, b"Interrupted.\n")
    os._exit(128 + number)
