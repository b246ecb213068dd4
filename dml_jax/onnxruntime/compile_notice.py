"""The line that says why a run takes long: it compiles."""

import contextlib
import sys
import threading
from collections.abc import Iterator

from dml_jax.onnxruntime.session_options import CACHE_ENTRY, LOGGER, SessionOptions

SECONDS = 3.0
"""After so long a person thinks that a program hangs."""
_WARNING = 2  # the severity of the line


class CompileNotice:
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
            print(self._texts.pop(), file=sys.stderr)


def notice_of(options: SessionOptions) -> CompileNotice:
    """Return what says that a run of a session with `options` compiles."""
    level = options.log_severity_level
    level = level if level >= 0 else LOGGER["severity"]
    # Programs without a console have no stderr.
    if not sys.stderr or not (sys.stderr.isatty() if level < 0 else level <= _WARNING):
        return CompileNotice()
    text, end = "dml_jax compiles the programs of these sizes", "Later runs of them are fast"
    if options.cache is None:
        return CompileNotice(f"{text}. {end}; the config entry {CACHE_ENTRY} keeps programs.")
    return CompileNotice(f"{text}, or loads them from its cache. {end}.")
