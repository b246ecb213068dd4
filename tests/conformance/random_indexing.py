"""PyTorch's function for each operator that reads or writes where index tensors say."""

import importlib
from typing import Any


def torch() -> Any:
    """Return PyTorch, which is imported only where it is asked."""
    return importlib.import_module("torch")


def counted(indices: Any, size: int) -> Any:
    """Return indices from the start, in the range of a dimension."""
    indices = indices.long()
    return torch().where(indices < 0, indices + size, indices).clamp(0, size - 1)


def gather(op: Any) -> Any:
    def of(x: Any, indices: Any) -> Any:
        places = counted(indices, x.shape[op.axis]).flatten()
        return x.index_select(op.axis, places).reshape(op.output_tensor.sizes)

    return of


def gather_nd(op: Any) -> Any:
    def of(x: Any, indices: Any) -> Any:
        x = x.reshape(x.shape[x.ndim - op.input_dimension_count :])
        places = indices.reshape(indices.shape[indices.ndim - op.indices_dimension_count :])
        columns = [counted(i, n) for i, n in zip(places.unbind(-1), x.shape, strict=False)]
        return x[tuple(columns)].reshape(op.output_tensor.sizes)

    return of


def nonzero(op: Any) -> Any:
    def of(x: Any) -> Any:
        sizes = op.output_coordinates_tensor.sizes
        found = x.nonzero()
        rows = torch().zeros(sizes[-2:], dtype=found.dtype)
        rows[: len(found)] = found[:, x.ndim - sizes[-1] :]
        count = torch().full(op.output_count_tensor.sizes, len(found))
        return count, rows.reshape(sizes)

    return of


PEERS = {
    "GATHER": gather,
    "GATHER_ELEMENTS": lambda op: lambda x, i: x.gather(op.axis, counted(i, x.shape[op.axis])),
    "GATHER_ND": gather_nd,
    "NONZERO_COORDINATES": nonzero,
}
WITHOUT = {
    "GATHER_ND1": "PyTorch has no batch dimensions here; GATHER_ND is compared",
    "SCATTER": "PyTorch leaves open which of several indices writes",
    "SCATTER_ND": "PyTorch leaves open which of several indices writes",
    "ONE_HOT": "PyTorch refuses indices out of range",
}
