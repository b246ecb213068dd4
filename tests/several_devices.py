"""Several devices: the default ones where there are eight, else those that the host pretends."""

import jax
import pytest

SEVERAL = jax.devices() if jax.device_count() >= 8 else jax.devices("cpu")
"""conftest.py asks for eight of the host."""

by_default = pytest.mark.skipif(
    jax.device_count() < 3, reason="the default backend has fewer than three devices"
)
"""Of tests about the device that is taken where none is named."""
