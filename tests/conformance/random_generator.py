"""PyTorch's functions for constants, sequences and diagonals."""

import math
from typing import Any

import torch  # pyright: ignore[reportMissingImports]


def _sequence(op: Any) -> Any:
    sizes = op.output_tensor.sizes
    k = torch.arange(math.prod(sizes), dtype=torch.float64)
    return lambda: (op.value_start + k * op.value_delta).reshape(sizes)


def _diagonal(op: Any) -> Any:
    return lambda: torch.where(_distances(op) == op.offset, op.value, 0.0)


def _band(op: Any) -> Any:
    """Fill what `torch.tril` and `torch.triu` keep; outside of it where the range is inverted."""
    begin, end = sorted((op.diagonal_fill_begin, op.diagonal_fill_end))
    begin, end = max(begin, -100), min(end, 100)  # PyTorch's own bounds are the matrix's
    ones = torch.ones(op.output_tensor.sizes)
    within = torch.tril(torch.triu(ones, begin), end - 1) == 1
    if op.diagonal_fill_begin > op.diagonal_fill_end:
        within = ~within
    value = torch.tensor(op.value, dtype=torch.float64)
    return lambda *xs: torch.where(within, value, xs[0] if xs else torch.zeros(()).double())


def _distances(op: Any) -> torch.Tensor:
    *_, height, width = op.output_tensor.sizes
    distances = torch.arange(width) - torch.arange(height)[:, None]
    return distances.expand(op.output_tensor.sizes)


PEERS: dict[str, Any] = {
    "FILL_VALUE_CONSTANT": lambda op: lambda: torch.full(op.output_tensor.sizes, op.value),
    "FILL_VALUE_SEQUENCE": _sequence,
    "DIAGONAL_MATRIX": _diagonal,
    "DIAGONAL_MATRIX1": _band,
}
WITHOUT = {"RANDOM_GENERATOR": "PyTorch's Philox has another layout; Random123's vectors are tests"}
