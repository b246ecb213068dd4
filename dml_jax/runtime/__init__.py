"""Compiles, caches and runs programs of graphs; knows no ONNX."""
