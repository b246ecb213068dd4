"""What a user would pick instead: each operator in NumPy, CuPy, PyTorch and ONNX Runtime.

A peer gives, for a cell, contenders by way: `allocated`, where each call makes its outputs, and
`bound`, where it writes into memory that is there already.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dml_jax.bench.timing import Mark
from peers.agreement import disagreement
from peers.arrays import Jnp, NumPy, jax_entries
from peers.common import Entry, event_mark
from peers.onnx_runtime import OnnxRuntime
from peers.pytorch import Torch

__all__ = ["NAMES", "Entry", "disagreement", "jax_entries", "peers"]

NAMES = ("jnp", "numpy", "cupy", "torch", "torch.compile", "onnxruntime")


def peers(device: Any, wanted: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """(name, peer, or the reason why there is none) of all that this machine may have."""
    on_cpu = device.platform == "cpu"

    def cupy() -> Any:
        import cupy  # pyright: ignore[reportMissingImports]

        def mark() -> Mark:
            event = cupy.cuda.Event()
            return event_mark(event, lambda: event.done)

        return NumPy("cupy", cupy, mark)

    def onnxruntime() -> Any:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401

        return OnnxRuntime()

    makers: dict[str, Callable[[], Any]] = {
        "jnp": Jnp,
        **({"numpy": NumPy} if on_cpu else {"cupy": cupy}),
        "torch": lambda: Torch(device),
        "torch.compile": lambda: Torch(device, compiling=True),
        **({"onnxruntime": onnxruntime} if on_cpu else {}),
    }
    for name, make in makers.items():
        if not wanted or name in wanted:
            try:
                yield name, make()
            except Exception as error:
                yield name, f"{type(error).__name__}: {error}"
