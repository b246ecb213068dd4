"""The version of ONNX Runtime whose Python API this package has."""

VERSION = "1.24.0"
