"""The line that says why a run takes long: it compiles."""

import sys

from dml_jax.onnxruntime.session_options import CACHE_ENTRY, LOGGER, SessionOptions
from dml_jax.system.slow_notice import SlowNotice

_WARNING = 2  # the severity of the line


def notice_of(options: SessionOptions) -> SlowNotice:
    """Return what says that a run of a session with `options` compiles."""
    level = options.log_severity_level
    level = level if level >= 0 else LOGGER["severity"]
    # Programs without a console have no stderr.
    if not sys.stderr or not (sys.stderr.isatty() if level < 0 else level <= _WARNING):
        return SlowNotice()
    text, end = "dml_jax compiles the programs of these sizes", "Later runs of them are fast"
    if options.cache is None:
        return SlowNotice(f"{text}. {end}; the config entry {CACHE_ENTRY} keeps programs.")
    return SlowNotice(f"{text}, or loads them from its cache. {end}.")
