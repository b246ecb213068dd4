"""Records of the operators that compare, and of those of truth values and of bits."""

from collections.abc import Callable
from typing import Any

import numpy as np

from records import Record


def unsigned(x: np.ndarray) -> np.ndarray:
    """Return the bits of each element, as an unsigned integer."""
    return x.view(f"uint{8 * x.itemsize}")


def of_truth(function: Callable[..., np.ndarray]) -> Record:
    """Return the record of a function of truth values."""
    return Record(lambda op, *xs: function(*(x != 0 for x in xs)))


def of_values(function: Callable[..., np.ndarray]) -> Record:
    """Return the record of a comparison."""
    return Record(lambda op, *xs: function(*xs))


def of_bits(function: Callable[..., np.ndarray]) -> Record:
    """Return the record of a function of bits."""

    def reference(op: Any, *xs: np.ndarray) -> np.ndarray:
        return function(*map(unsigned, xs)).view(xs[0].dtype)

    return Record(reference, no_gradient="bits have no derivative", of_bits=True)


def shift(move: Callable[[int, int], int]) -> Record:
    """Return the record of a shift, by Python's integers of any size."""

    def reference(op: Any, x: np.ndarray, count: np.ndarray) -> np.ndarray:
        pairs = zip(x.ravel().tolist(), count.ravel().tolist(), strict=True)
        ones = 2 ** (8 * x.itemsize) - 1
        moved = [move(value, min(places, 64)) & ones for value, places in pairs]
        return np.array(moved, x.dtype).reshape(x.shape)

    return Record(reference, values={"a_tensor": (0, 51), "b_tensor": (0, 14)})


def is_infinity(op: Any, x: np.ndarray) -> np.ndarray:
    wanted = {"EITHER": (1, -1), "POSITIVE": (1,), "NEGATIVE": (-1,)}[op.infinity_mode.name]
    return np.isinf(x) & np.isin(np.sign(x), wanted)


COMPARISONS = {
    "EQUALS": np.equal,
    "GREATER_THAN": np.greater,
    "LESS_THAN": np.less,
    "GREATER_THAN_OR_EQUAL": np.greater_equal,
    "LESS_THAN_OR_EQUAL": np.less_equal,
}
TRUTH = {"AND": np.logical_and, "OR": np.logical_or, "XOR": np.logical_xor, "NOT": np.logical_not}
BITS = {"AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor, "NOT": np.invert}

RECORDS = {
    **{f"ELEMENT_WISE_LOGICAL_{name}": of_truth(f) for name, f in TRUTH.items()},
    **{f"ELEMENT_WISE_LOGICAL_{name}": of_values(f) for name, f in COMPARISONS.items()},
    **{f"ELEMENT_WISE_BIT_{name}": of_bits(f) for name, f in BITS.items()},
    "ELEMENT_WISE_BIT_COUNT": Record(lambda op, x: np.bitwise_count(unsigned(x)), of_bits=True),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": shift(lambda x, places: x << places),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": shift(lambda x, places: x >> places),
    "ELEMENT_WISE_IS_NAN": Record(lambda op, x: np.isnan(x)),
    # All modes of the enumeration are allowed.
    "ELEMENT_WISE_IS_INFINITY": Record(is_infinity, unbroken=("one_of",)),
}
