"""PyTorch's formulas, and its derivatives, for the normalizations."""

from collections.abc import Callable, Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from conformance.random_matrix import activated, placed


def _axes(x: torch.Tensor) -> list[int]:
    return [d for d, n in enumerate(x.shape) if n == 1]


def _batch(op: Any, *tensors: torch.Tensor) -> torch.Tensor:
    x, mean, variance, scale, bias = tensors
    return scale * (x - mean) * torch.rsqrt(variance + op.epsilon) + bias


def _gradient(op: Any) -> Callable[..., Sequence[torch.Tensor]]:
    def call(x: Any, dy: Any, mean: Any, variance: Any, scale: Any) -> Sequence[torch.Tensor]:
        points = [t.clone().requires_grad_() for t in (x, scale, torch.zeros_like(scale))]
        y = _batch(op, points[0], mean, variance, *points[1:])
        return torch.autograd.grad(y, points, dy)

    return call


def _training(op: Any) -> Callable[..., Sequence[torch.Tensor]]:
    def call(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        x, scale, bias, add = placed(op, tensors)
        axes = _axes(scale)
        mean = x.mean(axes, True) if axes else x
        variance = x.var(axes, correction=0, keepdim=True) if axes else torch.zeros_like(x)
        y = _batch(op, x, mean, variance, scale, bias)
        return activated(op, y if add is None else y + add), mean, variance

    return call


def _mean_variance(op: Any) -> Callable[..., torch.Tensor]:
    uses_mean, uses_variance = op.uses

    def call(*tensors: torch.Tensor) -> torch.Tensor:
        x, scale, bias = placed(op, tensors)
        x = x - x.mean(op.axes, True) if uses_mean else x
        if uses_variance:
            x = x * torch.rsqrt(torch.square(x).mean(op.axes, True) + op.epsilon)
        x = x if scale is None else x * scale
        return activated(op, x if bias is None else x + bias)

    return call


PEERS: dict[str, Any] = {
    "BATCH_NORMALIZATION": lambda op: lambda *xs: activated(op, _batch(op, *xs)),
    "BATCH_NORMALIZATION_GRAD": _gradient,
    "BATCH_NORMALIZATION_TRAINING": _training,
    "MEAN_VARIANCE_NORMALIZATION": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": _mean_variance,
    "MEAN_VARIANCE_NORMALIZATION2": _mean_variance,
    "LP_NORMALIZATION": lambda op: (
        lambda x: torch.nn.functional.normalize(x, op.p, op.axis, op.epsilon)
    ),
}
OTHER_WINDOWS = "PyTorch's windows are of channels and of odd size; test_normalization.py has these"
WITHOUT = {
    "BATCH_NORMALIZATION_TRAINING_GRAD": "PyTorch takes no statistics; see test_normalization.py",
    "LOCAL_RESPONSE_NORMALIZATION": OTHER_WINDOWS,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": OTHER_WINDOWS,
}
