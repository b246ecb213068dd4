"""The operators of regions, which PyTorch itself lacks."""

from typing import Any

PEERS: dict[str, Any] = {}
WITHOUT = dict.fromkeys(
    ["ROI_POOLING", "ROI_ALIGN", "ROI_ALIGN1", "ROI_ALIGN_GRAD"],
    "they are functions of torchvision, which is another package",
)
