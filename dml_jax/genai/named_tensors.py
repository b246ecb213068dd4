"""Tensors of the API: arrays, and arrays by name."""

from typing import Any

import numpy as np

from dml_jax.genai.errors import refusal


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


def as_tokens(tokens: Any, batch: int) -> np.ndarray:
    """Return tokens as [batch, length] INT32. Raises `GenAIError` where they are none."""
    array = np.asarray(tokens.as_numpy() if hasattr(tokens, "as_numpy") else tokens)
    if array.size == 0:
        raise refusal("the tokens", "be one or more", array)
    if array.dtype.kind not in "iu":
        raise refusal("the tokens", "be whole numbers", array)
    if array.size % batch or (array.ndim == 2 and array.shape[0] != batch) or array.ndim > 2:
        raise refusal("the tokens", f"have batch_size ({batch}) rows", list(array.shape))
    return array.reshape(batch, -1).astype(np.int32)
