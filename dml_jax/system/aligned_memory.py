"""Memory that begins where XLA wants it, which JAX takes as it is on a CPU."""

import mmap

import numpy as np

LARGE = 1 << 16  # bytes of a tensor's elements, from which they stay in the file
_ALIGNMENT = 64  # bytes: XLA's, on a CPU


def empty(count: int) -> np.ndarray:
    """Return bytes without values, in memory that JAX takes as it is on a CPU."""
    if count >= LARGE:  # pages of the system: NumPy asks for huge ones, whose first use is slow
        return np.frombuffer(mmap.mmap(-1, count), np.uint8)
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count]


def aligned(array: np.ndarray) -> np.ndarray:
    """Return an array that JAX takes as it is on a CPU: a copy of a large one that it would not."""
    is_plain = array.dtype.kind in "biufcV" and array.flags.c_contiguous
    if array.nbytes < LARGE or not is_plain or array.ctypes.data % _ALIGNMENT == 0:
        return array
    made = empty(array.nbytes).view(array.dtype).reshape(array.shape)
    made[...] = array
    made.flags.writeable = array.flags.writeable
    return made
