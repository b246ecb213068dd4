"""What operators compute, as pure functions of arrays. It knows no descriptors.

Each function has a plain form in `jax.lax`, which is its meaning. Forms for one CPU or one NVIDIA
GPU stand beside it where XLA's own program of the plain form is slow.
"""
