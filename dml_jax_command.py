"""The entry point of the command `dml-jax`.

It is no part of the package, because to import the package is to import JAX, which takes a while.
Ctrl-C during that import would end in a traceback, or be lost.
"""

import os
import signal
from typing import Any


def main() -> None:
    """Run the command line; during the imports SIGINT ends at once, as SIGTERM does."""
    signal.signal(signal.SIGTERM, _end)
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:  # a shell ignores it for commands in the background
        signal.signal(signal.SIGINT, _end)
    from dml_jax.__main__ import main, terminate

    def ready() -> None:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, terminate)

    main(ready)


def _end(number: int, _: Any) -> None:
    if number == signal.SIGINT:
        os.write(2, b"Interrupted.\n")
    os._exit(128 + number)
