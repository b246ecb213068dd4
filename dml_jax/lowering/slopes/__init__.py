"""Derivatives of reductions: the slope of each element, and sums of slopes times tangents."""
