"""Chat templates, in a process of their own: one may loop or grow without an end."""

import atexit
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dml_jax.errors import Unquoted
from dml_jax.genai.errors import refusal

SECONDS_MAX, BYTES_MAX = 10, 1 << 30
_PROGRAM = Path(__file__).with_name("fill_template.py")


class _Filler:
    """The process, which is started by the first template, and after one that was ended."""

    def __init__(self) -> None:
        self._lock, self._owner = threading.Lock(), 0
        self._process: subprocess.Popen[str] | None = None

    def answer(self, request: str) -> str:
        """Return the line that answers a request; "" where the process ended."""
        with self._lock:
            is_own = self._owner == os.getpid()  # a fork starts one of its own
            if self._process is None or not is_own or self._process.poll() is not None:
                self._owner = os.getpid()
                self._process = subprocess.Popen(
                    [sys.executable, "-P", str(_PROGRAM), str(BYTES_MAX)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            timer, line = threading.Timer(SECONDS_MAX, self._process.kill), ""
            timer.start()
            try:
                assert self._process.stdin and self._process.stdout
                print(request, file=self._process.stdin, flush=True)
                line = self._process.stdout.readline()
            except BrokenPipeError:
                pass
            finally:
                timer.cancel()
                if not line:  # also where the caller is interrupted: the answer would be the next's
                    self.end()
            return line

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()
            process.communicate()


_FILLER = _Filler()
atexit.register(_FILLER.end)


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template of jinja2, in its sandbox.

    It may name `values`: numbers, texts, lists and dicts. Raises `GenAIError` where it fails, or
    takes more than 10 s or 1 GiB.
    """
    line = _FILLER.answer(json.dumps({"template": template, "values": values}))
    match json.loads(line or "{}"):
        case {"text": text}:
            return text
        case {"stopped": message}:
            raise refusal("the messages", "suit the template", message)
        case {"deep": _}:
            raise refusal("the template", "be less deep", Unquoted("more"))
        case {"failed": message}:
            raise refusal("the template", "fit the messages", message)
        case _:
            raise refusal("the template", f"end within {SECONDS_MAX} s", Unquoted("more"))
