"""DirectML operators as ONNX nodes, by family, for `dml_jax.onnx.writing.export_model`."""
