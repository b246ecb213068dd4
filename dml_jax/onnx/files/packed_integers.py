"""Numbers of 2 and 4 bits in bytes, the lowest bits first, as MatMulNBits has them."""

import numpy as np


def unpacked_bits(array: np.ndarray, bits: int) -> np.ndarray:
    """Return the numbers of `bits` bits in bytes, along the last axis."""
    made = array[..., None] >> _places(bits) & (1 << bits) - 1
    return made.reshape(*array.shape[:-1], -1)


def packed_bits(whole: np.ndarray, bits: int) -> np.ndarray:
    """Return numbers of `bits` bits as bytes, along the last axis; the last byte is filled up."""
    places = _places(bits)
    missing = [(0, 0)] * (whole.ndim - 1) + [(0, -whole.shape[-1] % len(places))]
    parts = np.pad(whole, missing).astype(np.uint8).reshape(*whole.shape[:-1], -1, len(places))
    return np.bitwise_or.reduce(parts << places, -1)


def _places(bits: int) -> np.ndarray:
    return np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
