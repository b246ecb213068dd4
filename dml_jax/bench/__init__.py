"""Measures the memory bandwidth of a device, and the share of it that each operator reaches."""
