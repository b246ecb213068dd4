"""Tensors of the API: arrays, and arrays by name."""

from typing import Any

import numpy as np


class Tensor:
    """An array of NumPy's, or what makes one, as the API passes it."""

    def __init__(self, array: Any):
        self._array = np.asarray(array)

    def as_numpy(self) -> np.ndarray:
        """Return the array."""
        return self._array

    def shape(self) -> list[int]:
        """Return the sizes."""
        return list(self._array.shape)

    def type(self) -> str:
        """Return the name of the type of the elements."""
        return self._array.dtype.name

    def data(self) -> Any:
        """Return the memory of the elements."""
        return np.ascontiguousarray(self._array).data


class NamedTensors(dict[str, Tensor]):
    """Tensors by name."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value if isinstance(value, Tensor) else Tensor(value))

    def keys(self) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the names."""
        return list(super().keys())
