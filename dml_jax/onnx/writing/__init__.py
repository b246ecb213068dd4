"""Writes graphs, operators and functions as ONNX models."""
