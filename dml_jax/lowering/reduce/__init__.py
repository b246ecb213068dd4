"""Reductions: one primitive, the kinds of it, their forms by platform, and their derivatives.

- `primitive`: the call `along_axes`, the base of all kinds, and the choice of a form, `_form`;
- `reductions`: what each kind means, and its form on a CPU, on a GPU and on several devices;
- `cpu`, `gpu`: how arrays are cut and combined there; `packed`: an element and its index as one;
- `derivatives`: derivatives.
"""
