"""PyTorch's functions for convolutions, pooling, and operators that read a tensor on a grid."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]


def padded(x: Any, start: Any, end: Any, value: float = 0) -> Any:
    """Return `x` with padding, or cut where it is negative."""
    edges = [n for pair in zip(reversed(start), reversed(end), strict=True) for n in pair]
    return functional.pad(x, edges, value=value)


def spatial(name: str, op: Any) -> Any:
    """Return the function of PyTorch for as many spatial dimensions as an operator has."""
    return getattr(functional, f"{name}{len(op.strides)}d")


def correlated(op: Any, x: Any, w: Any) -> Any:
    x = padded(x, op.start_padding, op.end_padding)
    return spatial("conv", op)(x, w, None, op.strides, 0, op.dilations, op.group_count)


def transposed(op: Any, x: Any, w: Any) -> Any:
    y = spatial("conv_transpose", op)(x, w, None, op.strides, 0, 0, op.group_count, op.dilations)
    sums = [n - p for n, p in zip(op.output_tensor.sizes[2:], op.output_padding, strict=True)]
    parts = zip(sums, y.shape[2:], op.start_padding, strict=True)
    y = padded(y, [-a for a in op.start_padding], [n - size + a for n, size, a in parts])
    return padded(y, [0] * len(op.strides), op.output_padding)


def convolution(op: Any, x: Any, w: Any, *bias: Any) -> Any:
    if op.mode.name == "CONVOLUTION":
        w = w.flip(tuple(range(2, w.ndim)))
    y = (correlated if op.direction.name == "FORWARD" else transposed)(op, x, w)
    y = y + bias[0] if bias else y
    if op.fused_activation is None:
        return y
    return torch.from_numpy(np.array(op.fused_activation(jnp.asarray(y.numpy()))))


def integer(op: Any, *tensors: Any) -> Any:
    arrays = iter(array.double() for array in tensors)
    x = next(arrays)
    x = x - next(arrays) if op.input_zero_point_tensor else x
    w = next(arrays)
    if op.filter_zero_point_tensor:
        w = w - next(arrays).reshape(-1, *[1] * (w.ndim - 1))
    return correlated(op, x, w)


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
    ones = torch.ones(1, 1, *op.window_size, dtype=x.dtype)
    flat, steps = fitted(op, x).flatten(0, 1)[:, None], getattr(op, "dilations", 1)
    y = spatial("conv", op)(flat, ones, None, op.strides, 0, steps)
    return y.reshape(*x.shape[:2], *y.shape[2:])


def average(op: Any, x: Any) -> Any:
    if not op.include_padding:
        return sums(op, x) / sums(op, torch.ones_like(x)).clamp(min=1)
    if hasattr(op, "dilations"):
        return sums(op, x) / math.prod(op.window_size)
    return spatial("avg_pool", op)(fitted(op, x), tuple(op.window_size), tuple(op.strides))


def average_grad(op: Any, gradient: Any) -> Any:
    x = torch.zeros(op.output_gradient_tensor.sizes, requires_grad=True)
    return torch.autograd.grad(average(op, x), x, gradient)[0]


def lp(op: Any, x: Any) -> Any:
    return sums(op, x.abs() ** op.p) ** (1 / op.p)


def maximum(op: Any, x: Any) -> Any:
    """Return the largest elements, and their indices in the whole input."""
    wide = fitted(op, x, -math.inf)
    steps = tuple(getattr(op, "dilations", [1] * len(op.strides)))
    values, places = spatial("max_pool", op)(
        wide, tuple(op.window_size), tuple(op.strides), 0, steps, return_indices=True
    )
    coordinates = torch.unravel_index(places, wide.shape[2:])
    planes = torch.arange(math.prod(x.shape[:2]))
    index = planes.reshape(*x.shape[:2], *[1] * len(op.strides))
    for place, start, size in zip(coordinates, op.start_padding, x.shape[2:], strict=True):
        index = index * size + place - start
    return values, torch.where(values == -math.inf, 0, index)


def max_pooling(op: Any, x: Any) -> Any:
    return maximum(op, x)[: len(op.outputs)]


def max_grad(op: Any, x: Any, gradient: Any) -> Any:
    x.requires_grad_()
    return torch.autograd.grad(maximum(op, x)[0], x, gradient)[0]


def unfolded(op: Any, x: Any) -> Any:
    """Return the columns, by a convolution with one filter for each place of the window."""
    count = math.prod(op.window_sizes)
    places = torch.eye(count).reshape(count, 1, *op.window_sizes)
    flat = padded(x, op.start_padding, op.end_padding).flatten(0, 1)[:, None]
    y = spatial("conv", op)(flat, places, None, op.strides, 0, op.dilations)
    return y.reshape(x.shape[0], x.shape[1] * count, -1)


def fold(op: Any, x: Any) -> Any:
    y = torch.zeros(op.output_tensor.sizes, requires_grad=True)
    return torch.autograd.grad(unfolded(op, y), y, x.reshape(x.shape[-3:]))[0]


def upsampled(op: Any, x: Any) -> Any:
    is_linear = op.interpolation_mode.name == "LINEAR"
    how = {"mode": "bilinear", "align_corners": False} if is_linear else {"mode": "nearest-exact"}
    flat = x.reshape(-1, 1, *x.shape[-2:])
    result = functional.interpolate(flat, size=op.output_tensor.sizes[-2:], **how)
    return result.reshape(op.output_tensor.sizes)


PEERS: dict[str, Any] = {
    "CONVOLUTION": convolution,
    "CONVOLUTION_INTEGER": integer,
    "AVERAGE_POOLING": average,
    "AVERAGE_POOLING1": average,
    "AVERAGE_POOLING_GRAD": average_grad,
    "LP_POOLING": lp,
    "LP_POOLING1": lp,
    "MAX_POOLING": max_pooling,
    "MAX_POOLING1": max_pooling,
    "MAX_POOLING2": max_pooling,
    "MAX_POOLING_GRAD": max_grad,
    "UNFOLD": lambda op, x: unfolded(op, x).reshape(op.output_tensor.sizes),
    "FOLD": fold,
    "UPSAMPLE_2D": upsampled,
}

_SCALES = "PyTorch's has scales that are no tensors"
_GRIDS = "PyTorch's grids have no scales apart from their sizes, and no offsets"
WITHOUT = {
    "QUANTIZED_LINEAR_CONVOLUTION": _SCALES,
    "MAX_UNPOOLING": "PyTorch's indices count within a plane, and must lie in it",
    "QUANTIZED_LINEAR_AVERAGE_POOLING": _SCALES,
    **dict.fromkeys(("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), _GRIDS),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), _GRIDS),
    **dict.fromkeys(
        ["ROI_POOLING", "ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD"],
        "they are functions of torchvision, which is another package",
    ),
}
