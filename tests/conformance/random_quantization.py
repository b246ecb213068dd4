"""PyTorch's function for each operator that casts or quantizes."""

import importlib
from typing import Any


def torch() -> Any:
    """Return PyTorch, which is imported only where it is asked."""
    return importlib.import_module("torch")


ONE_SCALE = "PyTorch quantizes with one scale, or with one for each index of an axis"


def cast(op: Any) -> Any:
    return lambda x: x.to(getattr(torch(), op.output_tensor.dtype.name))


PEERS = {"CAST": cast}
WITHOUT = {
    "ELEMENT_WISE_QUANTIZE_LINEAR": ONE_SCALE,
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": ONE_SCALE,
    "DYNAMIC_QUANTIZE_LINEAR": "compared with ONNX Runtime in test_quantization.py",
    "QUANTIZE": "compared with ONNX Runtime in test_quantization.py",
    "DEQUANTIZE": "compared with ONNX Runtime in test_quantization.py",
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": "PyTorch adds tensors of a quantized type only",
}
