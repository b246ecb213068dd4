"""PyTorch's attention takes separate tensors, and a mask that is added."""

from typing import Any

PEERS: dict[str, Any] = {}
WITHOUT = dict.fromkeys(
    ("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), "compared in test_attention.py"
)
