"""The line that says why a call takes long."""

import contextlib
import sys
import threading
from collections.abc import Iterator

SECONDS = 3.0
"""After so long a person thinks that a program hangs."""


class SlowNotice:
    """Writes the lines `texts` to stderr, each once, where something takes long."""

    def __init__(self, *texts: str):
        self._texts = [*texts]

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Write a line where the body of the `with` statement takes long."""
        timer = threading.Timer(SECONDS, self._write)
        timer.daemon = True
        if self._texts:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _write(self) -> None:
        with contextlib.suppress(IndexError):  # another thread wrote it
            print(self._texts.pop(), file=sys.stderr)  # noqa: T201
