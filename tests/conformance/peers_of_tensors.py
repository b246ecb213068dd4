"""PyTorch's functions for products, normalizations, softmax, indices, slices and running sums."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.nn import functional  # pyright: ignore[reportMissingImports]

from dml_jax import AxisDirection

ACTIVATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "ACTIVATION_RELU": torch.relu,
    "ACTIVATION_ELU": functional.elu,
    "ACTIVATION_TANH": torch.tanh,
    "ACTIVATION_SOFTSIGN": functional.softsign,
    "ACTIVATION_SOFTMAX": lambda y: torch.softmax(y, -1),
    "ACTIVATION_SOFTMAX1": lambda y, axes: torch.exp(y - torch.logsumexp(y, axes, True)),
}


def activated(op: Any, y: torch.Tensor) -> torch.Tensor:
    """Return `y` behind the fused activation of an operator."""
    fused = op.fused_activation
    return y if fused is None else ACTIVATIONS[fused.Type](y, **fused.attributes)


def placed(op: Any, tensors: Any) -> Iterator[Any]:
    """Yield the tensor of each input field, None for one that is left out."""
    given = iter(tensors)
    for f in op.fields:
        if f.tensor and not f.tensor.output:
            yield None if getattr(op, f.name) is None else next(given)


def gemm(op: Any, *tensors: torch.Tensor) -> torch.Tensor:
    a, b, c = placed(op, tensors)
    a, b = (x.mT if t.value else x for x, t in ((a, op.trans_a), (b, op.trans_b)))
    y = op.alpha * (a @ b)
    return activated(op, y if c is None else y + op.beta * c)


def integers(op: Any, tensors: Any) -> torch.Tensor:
    a, a_zero, b, b_zero = tensors
    a = a.long() - (0 if a_zero is None else a_zero.long().reshape(-1, 1))
    return a @ (b.long() - (0 if b_zero is None else b_zero.long().reshape(1, -1)))


def to_float(op: Any, *tensors: torch.Tensor) -> torch.Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, bias = placed(op, tensors)
    whole = integers(op, (a, a_zero, b, b_zero)).float()
    real = whole * a_scale.reshape(-1, 1) * b_scale.reshape(1, -1)
    return real if bias is None else real + bias


def batch(op: Any, *tensors: torch.Tensor) -> torch.Tensor:
    x, mean, variance, scale, bias = tensors
    return scale * (x - mean) * torch.rsqrt(variance + op.epsilon) + bias


def batch_gradient(
    op: Any, x: Any, dy: Any, mean: Any, variance: Any, scale: Any
) -> Sequence[torch.Tensor]:
    points = [t.clone().requires_grad_() for t in (x, scale, torch.zeros_like(scale))]
    return torch.autograd.grad(batch(op, points[0], mean, variance, *points[1:]), points, dy)


def training(op: Any, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
    x, scale, bias, add = placed(op, tensors)
    axes = [d for d, n in enumerate(scale.shape) if n == 1]
    mean = x.mean(axes, True) if axes else x
    variance = x.var(axes, correction=0, keepdim=True) if axes else torch.zeros_like(x)
    y = batch(op, x, mean, variance, scale, bias)
    return activated(op, y if add is None else y + add), mean, variance


def mean_variance(op: Any, *tensors: torch.Tensor) -> torch.Tensor:
    uses_mean, uses_variance = op.uses
    x, scale, bias = placed(op, tensors)
    x = x - x.mean(op.axes, True) if uses_mean else x
    if uses_variance:
        x = x * torch.rsqrt(torch.square(x).mean(op.axes, True) + op.epsilon)
    x = x if scale is None else x * scale
    return activated(op, x if bias is None else x + bias)


def over_axes(function: Callable[[torch.Tensor, int], torch.Tensor]) -> Any:
    """Return a peer of several axes, which go as one after they are moved to the end."""

    def peer(op: Any, x: torch.Tensor) -> torch.Tensor:
        axes = sorted(op.axes)
        last = torch.movedim(x, axes, [k - len(axes) for k in range(len(axes))])
        rows = function(last.flatten(-len(axes)), -1).reshape(last.shape)
        return torch.movedim(rows, [k - len(axes) for k in range(len(axes))], axes)

    return peer


def hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    places = torch.arange(x.shape[axis])
    return (places == torch.argmax(x, axis, keepdim=True)).to(x.dtype)


def counted(indices: Any, size: int) -> Any:
    """Return indices from the start, in the range of a dimension."""
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices).clamp(0, size - 1)


def gather(op: Any, x: Any, indices: Any) -> Any:
    places = counted(indices, x.shape[op.axis]).flatten()
    return x.index_select(op.axis, places).reshape(op.output_tensor.sizes)


def gather_nd(op: Any, x: Any, indices: Any) -> Any:
    x = x.reshape(x.shape[x.ndim - op.input_dimension_count :])
    places = indices.reshape(indices.shape[indices.ndim - op.indices_dimension_count :])
    columns = [counted(i, n) for i, n in zip(places.unbind(-1), x.shape, strict=False)]
    return x[tuple(columns)].reshape(op.output_tensor.sizes)


def nonzero(op: Any, x: Any) -> Any:
    sizes, found = op.output_coordinates_tensor.sizes, x.nonzero()
    rows = torch.zeros(sizes[-2:], dtype=found.dtype)
    rows[: len(found)] = found[:, x.ndim - sizes[-1] :]
    return torch.full(op.output_count_tensor.sizes, len(found)), rows.reshape(sizes)


def cut(x: Any, starts: Any, strides: Any, counts: Any) -> Any:
    for d, (start, stride, count) in enumerate(zip(starts, strides, counts, strict=True)):
        x = x.index_select(d, torch.arange(count) * stride + start)
    return x


def window(op: Any, counts: Any) -> tuple[Any, Any, Any]:
    strides = op.input_window_strides
    parts = zip(op.input_window_offsets, op.input_window_sizes, strides, strict=True)
    return [o + (n - 1 if s < 0 else 0) for o, n, s in parts], strides, counts


def slice_grad(op: Any, gradient: Any) -> Any:
    x = torch.zeros(op.output_gradient_tensor.sizes, dtype=gradient.dtype, requires_grad=True)
    return torch.autograd.grad(cut(x, *window(op, gradient.shape)), x, gradient)[0]


def cumulative(name: str, exclusive: str, identity: float) -> Any:
    def peer(op: Any, x: Any) -> Any:
        turned = [op.axis] if op.axis_direction == AxisDirection.DECREASING else []
        x = x.flip(turned)
        if getattr(op, exclusive):
            first = torch.full_like(x.narrow(op.axis, 0, 1), identity)
            x = torch.cat([first, x.narrow(op.axis, 0, x.shape[op.axis] - 1)], op.axis)
        return getattr(torch, name)(x, op.axis).flip(turned)

    return peer


def top_k(op: Any, x: Any) -> Any:
    """Sort stably: torch.topk leaves ties open."""
    largest = getattr(op, "axis_direction", None) != AxisDirection.INCREASING
    found = torch.sort(x, dim=op.axis, descending=largest, stable=True)
    return [part.narrow(op.axis, 0, op.k) for part in found]


PEERS: dict[str, Any] = {
    "GEMM": gemm,
    "MATRIX_MULTIPLY_INTEGER": lambda op, *xs: integers(op, placed(op, xs)),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": to_float,
    "BATCH_NORMALIZATION": lambda op, *xs: activated(op, batch(op, *xs)),
    "BATCH_NORMALIZATION_GRAD": batch_gradient,
    "BATCH_NORMALIZATION_TRAINING": training,
    "MEAN_VARIANCE_NORMALIZATION": mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": mean_variance,
    "MEAN_VARIANCE_NORMALIZATION2": mean_variance,
    "LP_NORMALIZATION": lambda op, x: functional.normalize(x, op.p, op.axis, op.epsilon),
    "ACTIVATION_SOFTMAX": lambda op, x: torch.softmax(x, -1),
    "ACTIVATION_SOFTMAX1": over_axes(torch.softmax),
    "ACTIVATION_LOG_SOFTMAX": lambda op, x: torch.log_softmax(x, -1),
    "ACTIVATION_LOG_SOFTMAX1": over_axes(torch.log_softmax),
    "ACTIVATION_HARDMAX": lambda op, x: hardmax(x, -1),
    "ACTIVATION_HARDMAX1": over_axes(hardmax),
    "GATHER": gather,
    "GATHER_ELEMENTS": lambda op, x, i: x.gather(op.axis, counted(i, x.shape[op.axis])),
    "GATHER_ND": gather_nd,
    "NONZERO_COORDINATES": nonzero,
    "SLICE": lambda op, x: cut(x, op.offsets, op.strides, op.sizes),
    "SLICE1": lambda op, x: cut(x, *window(op, op.output_tensor.sizes)),
    "SLICE_GRAD": slice_grad,
    "CUMULATIVE_SUMMATION": cumulative("cumsum", "has_exclusive_sum", 0),
    "CUMULATIVE_PRODUCT": cumulative("cumprod", "has_exclusive_product", 1),
    "TOP_K": top_k,
    "TOP_K1": top_k,
}

_WINDOWS = "PyTorch's windows are of channels and of odd size; test_normalization.py has these"
_OPEN = "PyTorch leaves open which of several indices writes"
_MODES = "PyTorch's modes take paddings below the size only; numpy.pad is the reference"
_ATTENTION = "PyTorch's takes separate tensors, and a mask that is added; see test_masks.py"
_RECURRENT = "PyTorch's have one activation, no lengths and no peepholes; see test_recurrent.py"
WITHOUT = {
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": "compared with ONNX Runtime in test_matrix.py",
    "BATCH_NORMALIZATION_TRAINING_GRAD": "PyTorch takes no statistics; see test_normalization.py",
    "LOCAL_RESPONSE_NORMALIZATION": _WINDOWS,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": _WINDOWS,
    "GATHER_ND1": "PyTorch has no batch dimensions here; GATHER_ND is compared",
    "SCATTER": _OPEN,
    "SCATTER_ND": _OPEN,
    "ONE_HOT": "PyTorch refuses indices out of range",
    "PADDING": _MODES,
    "PADDING1": _MODES,
    "REVERSE_SUBSEQUENCES": "PyTorch has none",
    "MULTIHEAD_ATTENTION": _ATTENTION,
    "MULTIHEAD_ATTENTION1": _ATTENTION,
    "RNN": _RECURRENT,
    "LSTM": _RECURRENT,
    "GRU": _RECURRENT,
}
