"""Several devices: the default ones where there are eight, else those that the host pretends."""

import jax
import pytest

SEVERAL = jax.devices() if jax.device_count() >= 8 else jax.devices("cpu")
"""conftest.py asks for eight of the host."""

by_default = pytest.mark.skipif(
    jax.device_count() < 3, reason="the default backend has fewer than three devices"
)
"""Of tests about the device that is taken where none is named."""

beside_no_gpu = pytest.mark.skipif(
    jax.default_backend() != "cpu" and SEVERAL[0].platform == "cpu",
    reason="XLA for the host refuses calls of Sharding, which explicit axes leave with jax 0.11",
)
"""Of tests that lay explicit axes over the host's devices."""
