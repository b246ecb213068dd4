"""Determinants and inverses of matrices, and Fourier transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import wide
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.translators.signals import transform


@fallback("Det")
def _determinant(node: Node, x: jax.Array) -> jax.Array:
    return jnp.linalg.det(wide(x)).astype(x.dtype)


@fallback("Inverse", domain=MICROSOFT)
def _inverse(node: Node, x: jax.Array) -> jax.Array:
    return jnp.linalg.inv(wide(x)).astype(x.dtype)


def _complex(x: jax.Array) -> jax.Array:
    """Return [..., 1] or [..., 2] as complex numbers."""
    return x[..., 0] if x.shape[-1] == 1 else lax.complex(x[..., 0], x[..., 1])


def _parts(x: jax.Array) -> jax.Array:
    return jnp.stack([jnp.real(x), jnp.imag(x)], -1)


@fallback("DFT")
def _transform(node: Node, x: jax.Array, *_: Any) -> jax.Array:
    axis, count = transform(node)[:2]
    numbers, kind = _complex(x), x.dtype
    is_inverse, is_half = (node.attribute(name) for name in ("inverse", "onesided"))
    if is_inverse and is_half:
        return jnp.fft.irfft(numbers, count, axis)[..., None].astype(kind)
    function = jnp.fft.ifft if is_inverse else jnp.fft.rfft if is_half else jnp.fft.fft
    return _parts(function(numbers, count, axis)).astype(kind)


@fallback("STFT")
def _short_transforms(
    node: Node, x: jax.Array, step: Any, window: Any = None, length: Any = None
) -> jax.Array:
    numbers = _complex(x) if x.ndim == 3 else x
    count = int(node.number(3) if window is None else node.number(3, window.shape[0]))
    stride = int(node.number(1))
    starts = np.arange((numbers.shape[1] - count) // stride + 1) * stride
    frames = numbers[:, starts[:, None] + np.arange(count)[None]]
    frames = frames if window is None else frames * window.reshape(1, 1, count)
    is_half = bool(node.attribute("onesided")) and not jnp.iscomplexobj(numbers)
    return _parts((jnp.fft.rfft if is_half else jnp.fft.fft)(frames, axis=2)).astype(x.dtype)
