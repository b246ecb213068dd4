"""Reads, normalises and writes files of ONNX models."""
