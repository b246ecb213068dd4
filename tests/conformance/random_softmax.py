"""PyTorch's functions for softmax; several axes go as one after they are moved to the end."""

from collections.abc import Callable
from typing import Any

import torch  # pyright: ignore[reportMissingImports]


def _over_axes(function: Callable[[torch.Tensor, int], torch.Tensor]) -> Any:
    """Return a peer over several axes, of a function over one."""

    def peer(op: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        def call(x: torch.Tensor) -> torch.Tensor:
            axes = sorted(op.axes)
            last = torch.movedim(x, axes, [k - len(axes) for k in range(len(axes))])
            rows = function(last.flatten(-len(axes)), -1).reshape(last.shape)
            return torch.movedim(rows, [k - len(axes) for k in range(len(axes))], axes)

        return call

    return peer


def _hardmax(x: torch.Tensor, axis: int) -> torch.Tensor:
    places = torch.arange(x.shape[axis])
    return (places == torch.argmax(x, axis, keepdim=True)).to(x.dtype)


PEERS: dict[str, Any] = {
    "ACTIVATION_SOFTMAX": lambda op: lambda x: torch.softmax(x, -1),
    "ACTIVATION_SOFTMAX1": _over_axes(torch.softmax),
    "ACTIVATION_LOG_SOFTMAX": lambda op: lambda x: torch.log_softmax(x, -1),
    "ACTIVATION_LOG_SOFTMAX1": _over_axes(torch.log_softmax),
    "ACTIVATION_HARDMAX": lambda op: lambda x: _hardmax(x, -1),
    "ACTIVATION_HARDMAX1": _over_axes(_hardmax),
}
WITHOUT: dict[str, str] = {}
