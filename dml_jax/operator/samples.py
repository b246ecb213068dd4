"""Typical sizes and attributes, by which operators are shown and measured."""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from dml_jax.description.fields import Array, Choice, Integer, Kind, Tensor
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType

_SIZES: ContextVar[Any] = ContextVar("the sizes that typical uses have", default=None)


@contextlib.contextmanager
def sized(sizes: Sequence[int]) -> Iterator[None]:
    """Let `typical_sizes` return `sizes` in the body of the `with` statement."""
    token = _SIZES.set(tuple(sizes))
    try:
        yield
    finally:
        _SIZES.reset(token)


def typical_sizes(elements: int) -> tuple[int, int, int, int]:
    """Return the sizes [N, C, H, W] of a feature map of about `elements` elements."""
    if _SIZES.get() is not None:
        return _SIZES.get()
    side = 2 ** min((max(elements, 1).bit_length() - 1) // 3, 8)
    channels = min(max(elements // side**2, 1), 64)
    return max(elements // (side**2 * channels), 1), channels, side, side


def smallest(kind: Kind, tensor: TensorDesc) -> Any:
    """Return a small value of a field that is not a no-op; for a tensor field, `tensor`."""
    match kind:
        case Array():
            count = 2 if smallest(kind.element, tensor) is tensor else tensor.dimension_count
            return [smallest(kind.element, tensor)] * count
        case Integer():
            return max(kind.least, 1)
        case Choice(enumeration=members):
            return tensor.data_type if members is TensorDataType else next(iter(members))
        case Tensor():
            return tensor
    return 1
