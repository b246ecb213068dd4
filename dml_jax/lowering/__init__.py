"""What operators compute, as pure functions of arrays. It knows no descriptors.

Each function has a plain form in `jax.lax`, which is its meaning. Forms for one CPU or one NVIDIA
GPU stand beside it where XLA's own program of the plain form is slow. These modules choose a form:

- `reduce/primitive.py`, for reductions: by platform and devices, in every program.
- `platform_forms.by_platform`, for other functions: with `whole_arrays` in programs of one device,
  without on any number of devices, as convolutions need it.

In both, explicit axes of a mesh are automatic (`mesh_axes.py`).

An operator has one program: by itself, in a graph, and in a program of the user.
"""
