"""Fourier transforms, and counts of sequences of numbers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.fallbacks.encoders import search
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import fallback
from dml_jax.onnx.translators.signals import transform


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


@fallback("TfIdfVectorizer")
def _count_sequences(node: Node, x: jax.Array) -> jax.Array:
    rows = x.reshape((1, -1)) if x.ndim == 1 else x
    pool, starts = node.attribute("pool_int64s"), node.attribute("ngram_counts")
    low, high = (node.attribute(f"{end}_gram_length") for end in ("min", "max"))
    places, most = node.attribute("ngram_indexes"), node.attribute("max_skip_count")
    counts = jnp.zeros((rows.shape[0], max(places) + 1), np.float32)
    number = 0
    for length, start in enumerate(starts, 1):
        end = starts[length] if length < len(starts) else len(pool)
        wanted = np.reshape(pool[start:end], (-1, length))
        own = np.array(places[number : number + len(wanted)], np.int32)
        number += len(wanted)
        if low <= length <= high:
            found = _occurrences(node, rows, wanted, most if length > 1 else 0)
            counts = counts.at[:, own].add(found)
    weights, mode = node.attribute("weights"), node.attribute("mode")
    if mode in ("IDF", "TFIDF"):
        if mode == "IDF":
            counts = (counts > 0).astype(np.float32)
        if weights is not None:
            scale = np.ones(counts.shape[1], np.float32)
            scale[places] = weights
            counts = counts * scale[None]
    return counts.reshape(counts.shape[1:]) if x.ndim == 1 else counts


def _occurrences(node: Node, rows: jax.Array, wanted: np.ndarray, skips: int) -> jax.Array:
    """Return how often each row has each of some lists of numbers, [rows, lists].

    Between two numbers of a list, `wanted[list]`, up to `skips` others may stand.
    """
    total = jnp.zeros((rows.shape[0], len(wanted)), np.float32)
    for gap in range(1, min(skips + 1, rows.shape[1]) + 1):
        count = rows.shape[1] - gap * (wanted.shape[1] - 1)
        if count <= 0 or not len(wanted):
            continue
        place = jnp.zeros((rows.shape[0], count), np.int64 if has_x64() else np.int32)
        ranks, keys = np.zeros(len(wanted), int), np.zeros(1, int)
        for k, column in enumerate(wanted.T):  # a beginning that is known, and one more number
            numbers, own = np.unique(column, return_inverse=True)
            largest = (len(keys) + 1) * (len(numbers) + 1)
            rule = "need no number above 2^31 (in 64 bits, `jax.enable_x64(True)`)"
            node.expect(has_x64() or largest < 2**31, "pool_int64s", rule, largest)
            more = search(numbers, rows[:, k * gap : k * gap + count])
            keys, ranks = np.unique(ranks * (len(numbers) + 1) + own, return_inverse=True)
            place = search(keys, place * (len(numbers) + 1) + more.astype(place.dtype))
        found = jnp.zeros((rows.shape[0], len(keys) + 1), np.float32)
        found = found.at[jnp.arange(rows.shape[0])[:, None], place].add(1)
        total = total + found[:, ranks]
    return total
