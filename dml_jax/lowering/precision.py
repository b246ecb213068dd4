"""How exactly products and convolutions of FLOAT32 are computed, by name."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax import lax

from dml_jax.enums import PRECISIONS
from dml_jax.errors import DmlError, Fault

# JAX keeps the programs of each value apart, as it does for its own settings.
_CHOSEN = jax.make_user_context(None)


@contextlib.contextmanager
def chosen(name: str | None) -> Iterator[None]:
    """Compute products within the body as one of `PRECISIONS` says; None is as JAX's setting says.

    JAX's own products (`jnp.dot` in a function of the caller) follow that setting, which is of the
    same name within the body. Raises `DmlError` for another name.
    """
    if name is None:
        yield
        return
    check_precision(name)
    with jax.default_matmul_precision(name), _CHOSEN(name):
        yield


def check_precision(name: str) -> None:
    """Raise `DmlError` unless a name is one of `PRECISIONS`."""
    if name not in PRECISIONS:
        raise DmlError([Fault("", "precision", f"be one of {', '.join(PRECISIONS)}", name)])


def has_tensorfloat32(device: Any) -> bool:
    """Return whether a device has products of TensorFloat32: an NVIDIA GPU from Ampere on."""
    capability = str(getattr(device, "compute_capability", "0"))
    return device.platform == "gpu" and float(capability.split(".")[0] or 0) >= 8


def chosen_name() -> str | None:
    """Return the name that the body of `chosen` is in, or None."""
    return _CHOSEN.value


def precision() -> lax.Precision | None:
    """Return the precision of FLOAT32 products.

    It is full FLOAT32, unless `chosen` or `jax_default_matmul_precision` says something else. Of
    operands that are rounded to bfloat16 every device's fastest product is exact, and sums FLOAT32.
    """
    if _CHOSEN.value == "float32":
        return lax.Precision.HIGHEST
    if _CHOSEN.value is not None:
        return lax.Precision.HIGH if _CHOSEN.value == "tensorfloat32" else lax.Precision.DEFAULT
    is_set = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    return None if is_set else lax.Precision.HIGHEST


def operands(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the operands of a product: of FLOAT32 the nearest bfloat16 where that is chosen."""
    if _CHOSEN.value != "bfloat16":
        return a, b
    return _to_bfloat16(a), _to_bfloat16(b)


def stored_operands(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return operands of a product with FLOAT32 sums, of FLOAT32 as bfloat16 where that is chosen.

    They are the numbers of `operands`, for a device that multiplies elements of 16 bits.
    """
    if _CHOSEN.value != "bfloat16" or a.dtype != np.float32:
        return a, b
    return lax.convert_element_type(a, "bfloat16"), lax.convert_element_type(b, "bfloat16")


def _to_bfloat16(x: jax.Array) -> jax.Array:
    """Return the nearest bfloat16 numbers, as FLOAT32; arrays of other types as they are."""
    if x.dtype != np.float32:
        return x
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7)
