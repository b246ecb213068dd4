"""PyTorch's functions for the operators of several tensors."""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]

PEERS: dict[str, Any] = {
    "ELEMENT_WISE_ADD": lambda op: torch.add,
    "ELEMENT_WISE_SUBTRACT": lambda op: torch.sub,
    "ELEMENT_WISE_MULTIPLY": lambda op: torch.mul,
    "ELEMENT_WISE_DIVIDE": lambda op: torch.div,
    "ELEMENT_WISE_MIN": lambda op: torch.minimum,
    "ELEMENT_WISE_MAX": lambda op: torch.maximum,
    "ELEMENT_WISE_MEAN": lambda op: lambda a, b: torch.lerp(a, b, 0.5),
    "ELEMENT_WISE_POW": lambda op: lambda x, e: torch.pow(_scaled(op, x), e),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda op: lambda a, b: torch.square(a - b),
    "ELEMENT_WISE_ATAN_YX": lambda op: torch.atan2,
    "ELEMENT_WISE_MODULUS_TRUNCATE": lambda op: torch.fmod,
    "ELEMENT_WISE_MODULUS_FLOOR": lambda op: torch.remainder,
    "ELEMENT_WISE_IF": lambda op: lambda c, a, b: torch.where(c != 0, a, b),
}
WITHOUT = {
    "ELEMENT_WISE_ADD1": "PyTorch adds without an activation",
    "ADAM_OPTIMIZER": "torch.optim.Adam keeps its own state; test_arithmetic.py has 20 steps of it",
}


def _scaled(op: Any, x: torch.Tensor) -> torch.Tensor:
    return x if op.scale_bias is None else x * op.scale_bias.scale + op.scale_bias.bias
