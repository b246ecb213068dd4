"""Memory that begins where XLA wants it, which JAX takes as it is on a CPU."""

import contextlib
import mmap
import threading
from collections.abc import Callable, Iterator

import numpy as np

# Bytes of an array: JAX copies smaller ones in less time than these checks take. A tensor of so
# many bytes stays in its file until it is read.
LARGE = 1 << 16
# Bytes. XLA's loops on a CPU begin at multiples of it, and JAX copies an array that does not.
_ALIGNMENT = 64
# Runs at once whose pages are used again. More runs at once are rare, and their pages go back.
_RUNS = 4


def empty(count: int) -> np.ndarray:
    """Return bytes without values, in memory that JAX takes as it is on a CPU."""
    # Pages of the system: NumPy asks for huge ones, whose first use is slow.
    if count >= LARGE:
        return np.frombuffer(mmap.mmap(-1, count), np.uint8)
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count]


def align(array: np.ndarray, memory: Callable[[int], np.ndarray] = empty) -> np.ndarray:
    """Return an array that JAX takes as it is on a CPU: a copy of a large one that it would not.

    `memory` gives bytes for the copy, as `empty` does.
    """
    is_placed = array.flags.c_contiguous and array.ctypes.data % _ALIGNMENT == 0
    if array.nbytes < LARGE or array.dtype.kind not in "biufcV" or is_placed:
        return array
    made = memory(array.nbytes).view(array.dtype).reshape(array.shape)
    made[...] = array
    made.flags.writeable = array.flags.writeable
    return made


class Pages:
    """Memory for copies of large arrays, which later runs use again: new pages are slow.

    Two runs at once have pages of their own.
    """

    def __init__(self) -> None:
        self._free, self._lock = list[np.ndarray](), threading.Lock()

    @contextlib.contextmanager
    def lent(self) -> Iterator[Callable[[int], np.ndarray]]:
        """Yield what gives memory, as `empty` does, until the `with` statement ends.

        After an error it is not used again: a program may read it still.
        """
        taken = list[np.ndarray]()

        def take(count: int) -> np.ndarray:
            with self._lock:
                # Pages up to twice as large: of much larger ones most would lie idle.
                fitting = [k for k, own in enumerate(self._free) if 1 <= own.nbytes / count <= 2]
                taken.append(self._free.pop(fitting[0]) if fitting else empty(count))
            return taken[-1][:count]

        yield take
        if taken:
            with self._lock:
                self._free = [*taken, *self._free][: _RUNS * len(taken)]
