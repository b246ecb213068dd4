"""What operators compute, as pure functions of arrays. It knows no descriptors.

Each function has a plain form in `jax.lax`, which is its meaning. Forms for one CPU or one NVIDIA
GPU stand beside it where XLA's own program of the plain form is slow. These modules choose a form:

- `reduce/primitive.py`, for reductions: by platform and devices, in every program.
- `by_platform.py`, for other functions: by platform, in programs of one device.
- `jax.lax.platform_dependent`, for convolutions: by platform, on any number of devices.

In all of them explicit axes of a mesh are automatic (`meshes.py`).

An operator has one program: by itself, in a graph, and in a program of the user.
"""
