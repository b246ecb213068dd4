"""Primitives of JAX as ONNX nodes, by family: `dml_jax.onnx.programs` finds them here."""
