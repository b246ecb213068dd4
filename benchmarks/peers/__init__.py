"""What a user would pick instead: each operator in NumPy, CuPy, PyTorch and ONNX Runtime.

A peer gives, for a cell, contenders by way: `allocated`, where each call makes its outputs, and
`bound`, where it writes into memory that is there already.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dml_jax.bench.timing import Mark
from peers.agreement import disagreement
from peers.arrays import Jnp, NumPy, jax_entries
from peers.common import Entry, event_mark
from peers.onnx_runtime import OnnxRuntime
from peers.pytorch import Torch

__all__ = ["NAMES", "Entry", "disagreement", "jax_entries", "peers"]


def _cupy(_: Any) -> NumPy:
    import cupy  # pyright: ignore[reportMissingImports]

    def mark() -> Mark:
        event = cupy.cuda.Event()
        return event_mark(event, lambda: event.done)

    return NumPy("cupy", cupy, mark)


def _onnxruntime(_: Any) -> OnnxRuntime:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401

    return OnnxRuntime()


_MAKERS: dict[str, Callable[[Any], Any]] = {  # of a device
    "jnp": lambda _: Jnp(),
    "numpy": lambda _: NumPy(),
    "cupy": _cupy,
    "torch": Torch,
    "torch.compile": functools.partial(Torch, compiling=True),
    "onnxruntime": _onnxruntime,
}
NAMES = tuple(_MAKERS)


def peers(device: Any, wanted: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """(name, peer, or the reason why there is none) of all that this machine may have."""
    elsewhere = {"cupy"} if device.platform == "cpu" else {"numpy", "onnxruntime"}
    for name, make in _MAKERS.items():
        if name not in elsewhere and (not wanted or name in wanted):
            try:
                yield name, make(device)
            except Exception as error:
                yield name, f"{type(error).__name__}: {error}"
