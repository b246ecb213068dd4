"""Types beyond DirectML: a scope in which functions describe nodes that DirectML has no row for.

`load_onnx(fallback=True)` opens the scope. Within it a call that DirectML's support rows refuse is
described again by looser rows, which take every type and more dimensions. All other checks stay.
Such a node computes by the same lowering as the operator; it has no JSON and no feature level.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_ALLOWED = ContextVar("whether a call may go beyond DirectML", default=False)
_LOOSENED = ContextVar("whether support rows take every type", default=False)


def is_allowed() -> bool:
    """Return whether a call that DirectML refuses may become a node beyond DirectML."""
    return _ALLOWED.get()


def is_loosened() -> bool:
    """Return whether support rows take every type."""
    return _LOOSENED.get()


@contextlib.contextmanager
def allowed(is_on: bool = True) -> Iterator[None]:
    """Let calls in the body of the `with` statement go beyond DirectML, if `is_on`."""
    token = _ALLOWED.set(is_on)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


@contextlib.contextmanager
def loosened() -> Iterator[None]:
    """Let support rows take every type in the body of the `with` statement."""
    token = _LOOSENED.set(True)
    try:
        yield
    finally:
        _LOOSENED.reset(token)
