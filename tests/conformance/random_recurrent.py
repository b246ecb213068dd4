"""PyTorch's recurrent networks have one activation, no lengths and no peepholes."""

from typing import Any

PEERS: dict[str, Any] = {}
WITHOUT = dict.fromkeys(("RNN", "LSTM", "GRU"), "compared in test_recurrent.py, ONNX Runtime too")
