"""Primitives of JAX as ONNX nodes, by family, for `dml_jax.onnx.writing.jaxpr_nodes`."""
