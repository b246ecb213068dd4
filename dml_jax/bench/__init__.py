"""Measures a device, and how near each operator comes to what its memory allows."""
