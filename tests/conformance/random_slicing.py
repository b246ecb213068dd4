"""PyTorch's function for each operator that cuts, pads or reverses."""

import importlib
from typing import Any


def torch() -> Any:
    """Return PyTorch, which is imported only where it is asked."""
    return importlib.import_module("torch")


def cut(x: Any, starts: Any, strides: Any, counts: Any) -> Any:
    for d, (start, stride, count) in enumerate(zip(starts, strides, counts, strict=True)):
        x = x.index_select(d, torch().arange(count) * stride + start)
    return x


def window(op: Any, counts: Any) -> tuple[Any, Any, Any]:
    offsets, sizes, strides = (
        op.input_window_offsets,
        op.input_window_sizes,
        op.input_window_strides,
    )
    ends = [o + (n - 1 if s < 0 else 0) for o, n, s in zip(offsets, sizes, strides, strict=True)]
    return ends, strides, counts


def slice_grad(op: Any) -> Any:
    def of(gradient: Any) -> Any:
        x = torch().zeros(op.output_gradient_tensor.sizes, dtype=gradient.dtype, requires_grad=True)
        y = cut(x, *window(op, gradient.shape))
        return torch().autograd.grad(y, x, gradient)[0]

    return of


PEERS = {
    "SLICE": lambda op: lambda x: cut(x, op.offsets, op.strides, op.sizes),
    "SLICE1": lambda op: lambda x: cut(x, *window(op, op.output_tensor.sizes)),
    "SLICE_GRAD": slice_grad,
}
WITHOUT = {
    "PADDING": "PyTorch's modes take paddings below the size only; numpy.pad is the reference",
    "PADDING1": "PyTorch's modes take paddings below the size only; numpy.pad is the reference",
    "REVERSE_SUBSEQUENCES": "PyTorch has none",
}
