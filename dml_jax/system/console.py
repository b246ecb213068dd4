"""Signals, closed streams and the end of a command's process."""

import _thread
import contextlib
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any


def main(command: Callable[[], Any]) -> None:
    """Run a command, and end this process if it is interrupted."""
    # A parent may let its children ignore the signal, as nohup does with others: that stays.
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
    sys.unraisablehook = _not_lost
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the shell closed it
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123
    # A terminal without UTF-8 shows names of files and tensors by escapes, and no traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        command()
    except KeyboardInterrupt:  # before a command began
        print("Interrupted.", file=sys.stderr)  # noqa: T201
        _end(_INTERRUPTED)
    except OSError as error:
        sys.exit(f"The report cannot be written: {error.strerror or error}")
    except SystemExit as ending:
        if ending.code in (_INTERRUPTED, _TERMINATED):
            _end(ending.code)
        raise


_INTERRUPTED, _TERMINATED = 130, 143  # 128 + SIGINT, 128 + SIGTERM


def _end(status: int) -> None:
    """End at once with `status`: XLA may still work, and would crash at Python's shutdown."""
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # the reader has gone
            file.flush()
    os._exit(status)


def terminate(*_: Any) -> None:
    """End as Ctrl-C does, and so remove a file that is half written."""
    sys.exit(_TERMINATED)


def _not_lost(lost: Any) -> None:
    """Interrupt again if Ctrl-C fell into a callback (JAX has one of the garbage collector)."""
    if lost.exc_type is KeyboardInterrupt:
        here = threading.get_ident()
        threading.Thread(target=_interrupt_again, args=[here], daemon=True).start()
    else:
        sys.__unraisablehook__(lost)


def _interrupt_again(main_thread: int) -> None:
    """Interrupt the main thread when it has left `_not_lost`, in which Python drops exceptions."""
    while any(
        frame.f_code is _not_lost.__code__
        for frame, _ in traceback.walk_stack(sys._current_frames()[main_thread])
    ):
        time.sleep(0.001)
    _thread.interrupt_main()
