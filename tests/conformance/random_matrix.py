"""PyTorch's products of matrices."""

from collections.abc import Callable, Iterator
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

ACTIVATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "ACTIVATION_RELU": torch.relu,
    "ACTIVATION_ELU": torch.nn.functional.elu,
    "ACTIVATION_TANH": torch.tanh,
    "ACTIVATION_SOFTSIGN": torch.nn.functional.softsign,
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


def _gemm(op: Any) -> Callable[..., torch.Tensor]:
    def call(*tensors: torch.Tensor) -> torch.Tensor:
        a, b, c = placed(op, tensors)
        a, b = (x.mT if t.value else x for x, t in ((a, op.trans_a), (b, op.trans_b)))
        y = op.alpha * (a @ b)
        return activated(op, y if c is None else y + op.beta * c)

    return call


def _integers(op: Any, tensors: Any) -> torch.Tensor:
    a, a_zero, b, b_zero = tensors
    a = a.long() - (0 if a_zero is None else a_zero.long().reshape(-1, 1))
    return a @ (b.long() - (0 if b_zero is None else b_zero.long().reshape(1, -1)))


def _to_float(op: Any) -> Callable[..., torch.Tensor]:
    def call(*tensors: torch.Tensor) -> torch.Tensor:
        a, a_scale, a_zero, b, b_scale, b_zero, bias = placed(op, tensors)
        whole = _integers(op, (a, a_zero, b, b_zero)).float()
        return whole * a_scale.reshape(-1, 1) * b_scale.reshape(1, -1) + (
            0 if bias is None else bias
        )

    return call


PEERS: dict[str, Any] = {
    "GEMM": _gemm,
    "MATRIX_MULTIPLY_INTEGER": lambda op: lambda *xs: _integers(op, placed(op, xs)),
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": _to_float,
}
WITHOUT = {
    "QUANTIZED_LINEAR_MATRIX_MULTIPLY": "compared with ONNX Runtime in test_matrix.py",
}
