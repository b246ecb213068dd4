"""Translates a graph of ONNX node by node."""
