"""Fourier transforms: products with matrices of cosines and sines.

An operator of DirectML has no transform of its own. Long ones are left to a fallback.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax import functional as dml
from dml_jax.graph import Expression
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import pack, permute, reshape, resize

# A transform is a product with a matrix of its length squared: a longer one has no operator.
_LENGTH_MAX = 1024


def transform(node: Node) -> tuple[int, int, int]:
    """Return the axis of a DFT, its length, and the number of elements that it reads."""
    rank = node.rank()
    axis = node.number(2, -2) if node.version >= 20 else node.attribute("axis")
    axis = node.from_start(axis, rank)
    size = node.shape()[axis]
    is_inverse = bool(node.attribute("inverse") and node.attribute("onesided"))
    count = int(node.number(1, 2 * (size - 1) if is_inverse else size))
    return axis, count, count // 2 + 1 if is_inverse else count


def _matrix(count: int, parts: int, function: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the matrix of a transform of `count` numbers of one or two parts, part by part.

    It has what `function` gives where one part of one number is 1.
    """
    units = np.eye(count * parts).reshape(-1, count, parts)
    made: Any = function(units @ np.array([1, 1j])[:parts])
    rows = np.stack([made.real, made.imag], 2) if np.iscomplexobj(made) else made
    return rows.reshape(count * parts, -1)


def _one_side(x: np.ndarray) -> np.ndarray:
    return np.fft.fft(x)[:, : x.shape[1] // 2 + 1]


def _times(node: Node, x: Expression, matrix: np.ndarray) -> Expression:
    return dml.gemm(x, node.builder.constant(matrix.astype(x.dtype)))


@translates("DFT")
def _transform(node: Node) -> Expression:
    axis, count, read = transform(node)
    node.expect(count <= _LENGTH_MAX, "dft_length", f"be at most {_LENGTH_MAX}", count)
    order = [d for d in range(node.rank() - 1) if d != axis] + [axis, node.rank() - 1]
    x = node[0]
    sizes = [read if d == axis else size for d, size in enumerate(x.sizes)]
    parts = sizes[-1]
    outer = [sizes[d] for d in order[:-2]]
    rows = reshape(permute(resize(x, sizes), order), (int(np.prod(outer)), read * parts))
    is_inverse, is_one_sided = (bool(node.attribute(n)) for n in ("inverse", "onesided"))
    if is_inverse and is_one_sided:
        made = _times(node, rows, _matrix(read, parts, partial(np.fft.irfft, n=count)))
        made = reshape(made, (*outer, count, 1))
    else:
        function = np.fft.ifft if is_inverse else _one_side if is_one_sided else np.fft.fft
        made = _times(node, rows, _matrix(count, parts, function))
        made = reshape(made, (*outer, made.sizes[1] // 2, 2))
    return permute(made, [order.index(d) for d in range(len(order))])


def _write_one_sided(proto: onnx.NodeProto, *_: Any) -> None:
    """Write out the default of `onesided`: inference takes another one."""
    if not any(a.name == "onesided" for a in proto.attribute):
        proto.attribute.append(helper.make_attribute("onesided", 1))


@translates("STFT", inferred_as=_write_one_sided)
def _short_transforms(node: Node) -> Any:
    if node.rank() == 3 and node.shape()[2] != 1:
        raise node.refusal("signal", "be real", list(node.shape()))
    batch, length = node.shape()[:2]
    step, window = int(node.number(1)), node.get(2)
    count = int(node.number(3) if window is None else node.number(3, node.shape(2)[0]))
    node.expect(count <= _LENGTH_MAX, "frame_length", f"be at most {_LENGTH_MAX}", count)
    frames = (length - count) // step + 1
    x = pack(node[0]).reinterpret((batch, frames, count), (length, step, 1))
    x = dml.identity(x) if window is None else x * reshape(window, (1, 1, count))
    matrix = _matrix(count, 1, _one_side if node.attribute("onesided") else np.fft.fft)
    made = _times(node, reshape(x, (batch * frames, count)), matrix)
    return reshape(made, (batch, frames, made.sizes[1] // 2, 2))
