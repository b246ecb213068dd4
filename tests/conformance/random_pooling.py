"""PyTorch's function for each operator on windows."""

import math
from typing import Any

from conformance.random_convolution import functional, padded, torch


def fitted(op: Any, x: Any, value: float = 0) -> Any:
    """Return `x` with padding, up to the end of the last window that is asked for."""
    result = getattr(op, "input_gradient_tensor", None) or op.output_tensor
    steps = getattr(op, "dilations", [1] * len(op.strides))
    parts = zip(result.sizes[2:], op.strides, op.window_size, steps, strict=True)
    ends = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in parts]
    more = [e - n - a for e, n, a in zip(ends, x.shape[2:], op.start_padding, strict=True)]
    return padded(x, op.start_padding, more, value)


def sums(op: Any, x: Any) -> Any:
    """Return the sum of each window, by a convolution with ones."""
    rank = len(op.strides)
    ones = torch().ones(1, 1, *op.window_size, dtype=x.dtype)
    x = fitted(op, x)
    function = getattr(functional(), f"conv{rank}d")
    y = function(x.flatten(0, 1)[:, None], ones, None, op.strides, 0, getattr(op, "dilations", 1))
    return y.reshape(*x.shape[:2], *y.shape[2:])


def average(op: Any, x: Any) -> Any:
    if not op.include_padding:
        return sums(op, x) / sums(op, torch().ones_like(x)).clamp(min=1)
    if hasattr(op, "dilations"):
        return sums(op, x) / math.prod(op.window_size)
    x = fitted(op, x)
    function = getattr(functional(), f"avg_pool{len(op.strides)}d")
    return function(x, tuple(op.window_size), tuple(op.strides))


def average_grad(op: Any) -> Any:
    def of(gradient: Any) -> Any:
        x = torch().zeros(op.output_gradient_tensor.sizes, requires_grad=True)
        return torch().autograd.grad(average(op, x), x, gradient)[0]

    return of


def lp(op: Any, x: Any) -> Any:
    return sums(op, x.abs() ** op.p) ** (1 / op.p)


def maximum(op: Any, x: Any) -> Any:
    """Return the largest elements, and their indices in the whole input."""
    rank = len(op.strides)
    wide = fitted(op, x, -math.inf)
    function = getattr(functional(), f"max_pool{rank}d")
    steps = tuple(getattr(op, "dilations", [1] * rank))
    values, places = function(
        wide, tuple(op.window_size), tuple(op.strides), 0, steps, return_indices=True
    )
    coordinates = torch().unravel_index(places, wide.shape[2:])
    planes = torch().arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * rank)
    index = planes
    for place, start, size in zip(coordinates, op.start_padding, x.shape[2:], strict=True):
        index = index * size + place - start
    return values, torch().where(values == -math.inf, 0, index)


def max_grad(op: Any) -> Any:
    def of(x: Any, gradient: Any) -> Any:
        x.requires_grad_()
        return torch().autograd.grad(maximum(op, x)[0], x, gradient)[0]

    return of


def outputs(op: Any) -> Any:
    return lambda x: maximum(op, x)[: len(op.outputs)]


def unfolded(op: Any, x: Any) -> Any:
    """Return the columns, by a convolution with one filter for each place of the window."""
    count = math.prod(op.window_sizes)
    places = torch().eye(count).reshape(count, 1, *op.window_sizes)
    x = padded(x, op.start_padding, op.end_padding)
    function = getattr(functional(), f"conv{len(op.strides)}d")
    y = function(x.flatten(0, 1)[:, None], places, None, op.strides, 0, op.dilations)
    return y.reshape(x.shape[0], x.shape[1] * count, -1)


def unfold(op: Any) -> Any:
    return lambda x: unfolded(op, x).reshape(op.output_tensor.sizes)


def fold(op: Any) -> Any:
    def of(x: Any) -> Any:
        y = torch().zeros(op.output_tensor.sizes, requires_grad=True)
        return torch().autograd.grad(unfolded(op, y), y, x.reshape(x.shape[-3:]))[0]

    return of


PEERS = {
    "AVERAGE_POOLING": lambda op: lambda x: average(op, x),
    "AVERAGE_POOLING1": lambda op: lambda x: average(op, x),
    "AVERAGE_POOLING_GRAD": average_grad,
    "LP_POOLING": lambda op: lambda x: lp(op, x),
    "LP_POOLING1": lambda op: lambda x: lp(op, x),
    "MAX_POOLING": outputs,
    "MAX_POOLING1": outputs,
    "MAX_POOLING2": outputs,
    "MAX_POOLING_GRAD": max_grad,
    "UNFOLD": unfold,
    "FOLD": fold,
}
WITHOUT = {
    "MAX_UNPOOLING": "PyTorch's indices count within a plane, and must lie in it",
    "QUANTIZED_LINEAR_AVERAGE_POOLING": "PyTorch's has scales that are no tensors",
}
