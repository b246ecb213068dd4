"""PyTorch's functions for comparisons, and for truth values and bits."""

from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]


def _truth(function: Callable[..., torch.Tensor]) -> Any:
    """Return a peer of truth values, of integers that PyTorch has all functions for."""
    return lambda op: lambda *xs: function(*(x.long() for x in xs))


def _bits(function: Callable[..., torch.Tensor]) -> Any:
    """Return a peer of the bits of elements, of each type."""
    kinds = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return lambda op: (
        lambda *xs: function(*(x.view(kinds[x.element_size()]) for x in xs)).view(xs[0].dtype)
    )


def _is_infinity(op: Any) -> Callable[..., torch.Tensor]:
    return {"EITHER": torch.isinf, "POSITIVE": torch.isposinf, "NEGATIVE": torch.isneginf}[
        op.infinity_mode.name
    ]


PEERS: dict[str, Any] = {
    "ELEMENT_WISE_LOGICAL_AND": _truth(torch.logical_and),
    "ELEMENT_WISE_LOGICAL_OR": _truth(torch.logical_or),
    "ELEMENT_WISE_LOGICAL_XOR": _truth(torch.logical_xor),
    "ELEMENT_WISE_LOGICAL_NOT": _truth(torch.logical_not),
    "ELEMENT_WISE_LOGICAL_EQUALS": lambda op: torch.eq,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN": lambda op: torch.gt,
    "ELEMENT_WISE_LOGICAL_LESS_THAN": lambda op: torch.lt,
    "ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL": lambda op: torch.ge,
    "ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL": lambda op: torch.le,
    "ELEMENT_WISE_IS_NAN": lambda op: torch.isnan,
    "ELEMENT_WISE_IS_INFINITY": _is_infinity,
    "ELEMENT_WISE_BIT_AND": _bits(torch.bitwise_and),
    "ELEMENT_WISE_BIT_OR": _bits(torch.bitwise_or),
    "ELEMENT_WISE_BIT_XOR": _bits(torch.bitwise_xor),
    "ELEMENT_WISE_BIT_NOT": _bits(torch.bitwise_not),
    "ELEMENT_WISE_BIT_SHIFT_LEFT": _bits(torch.bitwise_left_shift),
    "ELEMENT_WISE_BIT_SHIFT_RIGHT": _bits(torch.bitwise_right_shift),
}
WITHOUT = {"ELEMENT_WISE_BIT_COUNT": "PyTorch does not count bits"}
