"""The one thread that compiles programs while others run."""

import threading
from collections import deque
from collections.abc import Callable


class BackgroundCompiler:
    """A thread that compiles one program after the other.

    It ends where nothing is left to do. The end of Python waits for one program alone.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  # over the queue, and over whether a thread reads it
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
                # The thread ends with the queue: an idle one would keep Python from ending, and a
                # daemon thread within XLA may crash a process that ends.
                if not self._waiting or not threading.main_thread().is_alive():
                    self._thread = None
                    return
                work = self._waiting.popleft()
            try:
                work()
            except RuntimeError:  # XLA's: the program that is there stays
                continue


BACKGROUND = BackgroundCompiler()
