"""The default device, and its platform."""

from typing import Any

import jax

from dml_jax.system.free_memory import Device


def platform() -> str:
    """Return the platform of the default device."""
    device: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def default_device() -> Device | None:
    """Return the device of arrays without one; None where JAX's setting has a platform's name."""
    given: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    device = given or jax.devices()[0]
    return device if isinstance(device, jax.Device) else None
