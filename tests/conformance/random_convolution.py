"""PyTorch's convolutions for each operator that convolves."""

import importlib
from typing import Any

import jax.numpy as jnp
import numpy as np


def torch() -> Any:
    """Return PyTorch, which is imported only where it is asked."""
    return importlib.import_module("torch")


def functional() -> Any:
    return torch().nn.functional


def padded(x: Any, start: Any, end: Any, value: float = 0) -> Any:
    """Return `x` with padding, or cut where it is negative."""
    edges = [n for pair in zip(reversed(start), reversed(end), strict=True) for n in pair]
    return functional().pad(x, edges, value=value)


def correlated(op: Any, x: Any, w: Any) -> Any:
    function = getattr(functional(), f"conv{len(op.strides)}d")
    x = padded(x, op.start_padding, op.end_padding)
    return function(x, w, None, op.strides, 0, op.dilations, op.group_count)


def transposed(op: Any, x: Any, w: Any) -> Any:
    rank = len(op.strides)
    function = getattr(functional(), f"conv_transpose{rank}d")
    y = function(x, w, None, op.strides, 0, 0, op.group_count, op.dilations)
    sums = [n - p for n, p in zip(op.output_tensor.sizes[2:], op.output_padding, strict=True)]
    parts = zip(sums, y.shape[2:], op.start_padding, strict=True)
    y = padded(y, [-a for a in op.start_padding], [n - size + a for n, size, a in parts])
    return padded(y, [0] * rank, op.output_padding)


def convolution(op: Any) -> Any:
    def of(x: Any, w: Any, *bias: Any) -> Any:
        if op.mode.name == "CONVOLUTION":
            w = w.flip(tuple(range(2, w.ndim)))
        y = (correlated if op.direction.name == "FORWARD" else transposed)(op, x, w)
        y = y + bias[0] if bias else y
        if op.fused_activation is None:
            return y
        activated = op.fused_activation(jnp.asarray(y.numpy()))
        return torch().from_numpy(np.array(activated))

    return of


def integer(op: Any) -> Any:
    def of(*given: Any) -> Any:
        arrays = iter(array.double() for array in given)
        x = next(arrays)
        x = x - next(arrays) if op.input_zero_point_tensor else x
        w = next(arrays)
        if op.filter_zero_point_tensor:
            w = w - next(arrays).reshape(-1, *[1] * (w.ndim - 1))
        return correlated(op, x, w)

    return of


PEERS = {"CONVOLUTION": convolution, "CONVOLUTION_INTEGER": integer}
WITHOUT = {"QUANTIZED_LINEAR_CONVOLUTION": "PyTorch's has scales that are no tensors"}
