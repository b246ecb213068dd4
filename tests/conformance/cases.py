"""What every source of conformance cases gives: a name, and a check that raises where it fails."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Case:
    """One comparison with what someone else says.

    Attributes:
        group: what it compares: an ONNX operator, or one of DirectML's.
        name: unique within its source.
        check: raises `AssertionError` where the answers differ; for a case that is left out, where
            the reason for that no longer holds.
        left_out: why the case cannot be run; "" where it can.
    """

    group: str
    name: str
    check: Callable[[], None]
    left_out: str = ""


def compare(results: Sequence[ArrayLike], expected: Sequence[np.ndarray], **tolerance: Any):
    """The same number of results, of the same shapes and types, with values this near."""
    for result, answer in zip(results, expected, strict=True):
        array = np.asarray(result)
        assert (array.shape, array.dtype) == (answer.shape, answer.dtype)
        if tolerance:
            np.testing.assert_allclose(array, answer, **tolerance)
        else:
            np.testing.assert_array_equal(array, answer)
