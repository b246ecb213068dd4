"""Programs that answer soon: compiled quickly for their first calls, and well in a thread.

A new size costs a compile, most of which makes the program fast. A size that comes once or twice is
answered sooner without that. Once the quick program has taken a part of the time that it took to
compile, a thread compiles the good one, which takes its place. It rounds as XLA's optimizations
have it, so the last digits of an answer may be others from there on.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from dml_jax.runtime.compiler_options import are_refused
from dml_jax.runtime.platform import platform

Arrays = Mapping[str, Any]

QUICK = {"xla_backend_optimization_level": 0}
_PART = 0.1  # of the seconds of the quick compile, spent in calls, after which the good one pays


class Runnable(Protocol):
    """A network, as far as its programs are concerned."""

    @property
    def programs(self) -> Any: ...
    @property
    def constants(self) -> Any: ...
    def run(self, inputs: Arrays) -> dict[str, Any]: ...
    def lowered(self, inputs: Arrays) -> Any: ...
    def later(self, inputs: Arrays, more: Mapping[str, Any] | None = None) -> tuple[Any, Any]: ...
    def forget(self) -> None: ...


class _Worker:
    """A thread that compiles one program after the other; the end of Python waits for one alone."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, work: Callable[[], None]) -> None:
        """Let the thread do something, after what it was given before."""
        with self._lock:
            self._waiting.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dml_jax compiles")
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting or not threading.main_thread().is_alive():
                    self._thread = None
                    return
                work = self._waiting.popleft()
            work()


_WORKER = _Worker()


class QuickProgram:
    """The program of a network, for arrays of its types.

    Args:
        network: the network.
        is_quick: whether the first calls have a program that was compiled quickly. GPUs have none.
        seconds: how long the quick compile of a kept program took; 0 for another one.
    """

    def __init__(self, network: Runnable, is_quick: bool = True, seconds: float = 0):
        self._network, self._lock = network, threading.Lock()
        self._lowered: Any = None
        self._program: Any = None
        self.seconds, self._spent = seconds, 0.0
        self._is_settled = False
        self.is_good = not is_quick or platform() != "cpu"

    def run(self, inputs: Arrays) -> dict[str, Any]:
        """Return the outputs by name, of all inputs by name in their types."""
        if self.is_good:
            return self._network.run(inputs)
        if self._program is None and not self._compile(inputs):
            return self._network.run(inputs)
        start, program = time.perf_counter(), vars(self)["_program"]
        results = program(self._network.constants, inputs)
        for result in results.values():
            result.block_until_ready()
        self._settle(time.perf_counter() - start, inputs)
        return results

    def _compile(self, inputs: Arrays) -> bool:
        """Compile quickly; return whether XLA knows the options."""
        start = time.perf_counter()
        try:
            if self._network.programs is None:
                self._lowered = self._network.lowered(inputs)
                self._program = self._lowered.compile(QUICK)
            else:
                self._program, ready = self._network.later(inputs, QUICK)
                ready()
        except (ValueError, RuntimeError) as error:
            if not are_refused(error):
                raise
            self.is_good = True
        self.seconds = self.seconds or time.perf_counter() - start
        return not self.is_good

    def _settle(self, seconds: float, inputs: Arrays) -> None:
        """Let the thread compile the good program, once that pays."""
        with self._lock:
            self._spent += seconds
            if self._is_settled or self._spent < _PART * self.seconds:
                return
            lowered, self._lowered, self._is_settled = self._lowered, None, True
        compiled = self._network.later(inputs)[1] if lowered is None else lowered.compile

        def work() -> None:
            try:
                compiled()  # calls of the network find it
            finally:
                self.is_good = True

        _WORKER.add(work)

    def forget(self) -> None:
        """Drop the compiled programs; the next run compiles again."""
        with self._lock:
            self._lowered = self._program = None
            self._spent, self._is_settled = 0.0, False
        self._network.forget()
