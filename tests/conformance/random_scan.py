"""PyTorch's function for running sums and products, and for the first of sorted lines."""

import importlib
from typing import Any

from dml_jax import AxisDirection


def torch() -> Any:
    """Return PyTorch, which is imported only where it is asked."""
    return importlib.import_module("torch")


def cumulative(name: str, exclusive: str, identity: float) -> Any:
    def peer(op: Any) -> Any:
        turned = [op.axis] if op.axis_direction == AxisDirection.DECREASING else []

        def of(x: Any) -> Any:
            x = x.flip(turned)
            if getattr(op, exclusive):
                first = torch().full_like(x.narrow(op.axis, 0, 1), identity)
                x = torch().cat([first, x.narrow(op.axis, 0, x.shape[op.axis] - 1)], op.axis)
            return getattr(torch(), name)(x, op.axis).flip(turned)

        return of

    return peer


def top_k(op: Any) -> Any:
    """Sort stably: torch.topk leaves ties open."""
    largest = getattr(op, "axis_direction", None) != AxisDirection.INCREASING

    def of(x: Any) -> Any:
        found = torch().sort(x, dim=op.axis, descending=largest, stable=True)
        return [part.narrow(op.axis, 0, op.k) for part in found]

    return of


PEERS = {
    "CUMULATIVE_SUMMATION": cumulative("cumsum", "has_exclusive_sum", 0),
    "CUMULATIVE_PRODUCT": cumulative("cumprod", "has_exclusive_product", 1),
    "TOP_K": top_k,
    "TOP_K1": top_k,
}
WITHOUT: dict[str, str] = {}
