"""Reductions: one primitive, the kinds of it, their forms by platform, and their derivatives."""
