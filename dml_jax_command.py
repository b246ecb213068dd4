"""The entry point of the command `dml-jax`.

It is no part of the package, because to import the package is to import JAX, which takes a while.
Ctrl-C during that import would end in a traceback, or be lost.
"""

import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def main() -> None:
    """Run the command line; during the imports SIGINT ends at once, as SIGTERM does."""
    signal.signal(signal.SIGTERM, _end)
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:  # a shell ignores it for commands in the background
        signal.signal(signal.SIGINT, _end)
    from dml_jax.system import console

    def ready() -> None:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, console.terminate)

    console.main(lambda: run(ready))


def run(ready: Callable[[], Any] = lambda: None) -> None:
    """Run the command line, or say how to install it; call `ready` when JAX is imported."""
    from dml_jax.errors import install_command

    if not all(map(importlib.util.find_spec, ("click", "rich"))):
        sys.exit(f"dml-jax: the command line needs its extra: {install_command('cli')}")
    from dml_jax.cli import cli

    cli(prog_name="dml-jax", obj=ready)


def _end(number: int, _: Any) -> None:
    if number == signal.SIGINT:
        os.write(2, b"Interrupted.\n")
    os._exit(128 + number)
