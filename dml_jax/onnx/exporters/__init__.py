"""DirectML operators as ONNX nodes, by family: `dml_jax.onnx.exporting` finds them here."""
