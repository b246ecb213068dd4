"""PyTorch's function for each operator that reads a tensor on another grid."""

import importlib
from typing import Any


def upsampled(op: Any) -> Any:
    size = op.output_tensor.sizes[-2:]
    is_linear = op.interpolation_mode.name == "LINEAR"
    how = {"mode": "bilinear", "align_corners": False} if is_linear else {"mode": "nearest-exact"}

    def of(x: Any) -> Any:
        functional = importlib.import_module("torch.nn.functional")
        flat = x.reshape(-1, 1, *x.shape[-2:])
        return functional.interpolate(flat, size=size, **how).reshape(op.output_tensor.sizes)

    return of


_OWN = "PyTorch's grids have no scales apart from their sizes, and no offsets"

PEERS = {"UPSAMPLE_2D": upsampled}
WITHOUT = {
    **dict.fromkeys(["RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"], _OWN),
    **dict.fromkeys(["RESAMPLE_GRAD", "RESAMPLE_GRAD1"], _OWN),
}
