"""Nodes and tensors of a model, as translators read them."""
