"""Nodes where ONNX's text decides between implementations, against NumPy and ONNX Runtime."""

import itertools
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx_models import model_of, node, runtime  # noqa: E402

from dml_jax import load_onnx  # noqa: E402

RANDOM = np.random.RandomState(0)


def scattered(x: Any, w: Any, strides: Any, dilations: Any, groups: int) -> np.ndarray:
    """Return a transposed convolution without padding, in float64: each element by the filter."""
    spatial, window = x.shape[2:], w.shape[2:]
    sizes = [
        (n - 1) * s + (k - 1) * d + 1
        for n, k, s, d in zip(spatial, window, strides, dilations, strict=True)
    ]
    y = np.zeros((x.shape[0], groups, w.shape[1], *sizes))
    parts = x.astype(np.float64).reshape(x.shape[0], groups, -1, *spatial)
    filters = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    for tap in itertools.product(*map(range, window)):
        own = np.einsum("ngc...,gco->ngo...", parts, filters[(..., *tap)])
        places = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, spatial, strides, strict=True)
        ]
        y[(..., *places)] += own
    return y.reshape(x.shape[0], -1, *sizes)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions_of_the_same_padding_have_the_sizes_of_the_text(rank: int):
    x = RANDOM.randn(2, 4, *(3, 4, 2)[:rank]).astype(np.float32)
    nodes, weights, wanted = [], {}, {}
    cases = itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (0, 1), ("SAME_UPPER", "SAME_LOWER"))
    for kernel, stride, dilation, more, auto in cases:
        if more >= max(stride, dilation) or (rank == 3 and dilation > 1):
            continue
        name, groups = f"{kernel}{stride}{dilation}{more}{auto}", 1 + kernel % 2
        w = RANDOM.randn(4, 2, *(kernel, 2, 1)[:rank]).astype(np.float32)
        moves: Any = {
            "strides": [stride] * rank,
            "dilations": [dilation] * rank,
            "output_padding": [more] * rank,
            "group": groups,
        }
        nodes.append(node("ConvTranspose", f"x {name}w", name, auto_pad=auto, **moves))
        weights[f"{name}w"] = w
        whole = scattered(x, w, moves["strides"], moves["dilations"], groups)
        whole = np.pad(whole, [(0, 0), (0, 0), *[(0, more)] * rank])
        windows = []
        for size, n in zip(whole.shape[2:], x.shape[2:], strict=True):
            out = min(n * stride, size)  # no padding is negative
            half = (size - out) // 2
            start = half if auto == "SAME_UPPER" else size - out - half
            windows.append(slice(start, start + out))
        wanted[name] = whole[(..., *windows)]
    model = model_of(nodes, {"x": (np.float32, x.shape)}, list(wanted), weights)
    results = load_onnx(model)(x)
    for name, expected in wanted.items():
        np.testing.assert_allclose(results[name], expected, 1e-4, 1e-4, err_msg=name)
    taken = [n for n in nodes if int(n.output[0][3]) < int(n.output[0][1])]
    names = [n.output[0] for n in taken]  # ONNX Runtime refuses output_padding of a whole stride
    model = model_of(taken, {"x": (np.float32, x.shape)}, names, weights)
    for name, expected in zip(names, runtime(model, {"x": x}), strict=True):
        np.testing.assert_allclose(results[name], expected, 1e-4, 1e-4, err_msg=name)


def test_transposed_convolutions_of_constants_are_those_of_the_text():
    shape, w = (1, 2, 3, 3), RANDOM.randn(2, 2, 1, 1).astype(np.float32)
    constants = {"x": RANDOM.randn(*shape).astype(np.float32), "w": w, "b": np.float32([1, 2])}
    nodes = [
        node("Constant", "", name, value=onnx.numpy_helper.from_array(array))
        for name, array in constants.items()
    ]
    moves: Any = {"strides": [3, 3], "auto_pad": "SAME_UPPER", "group": 2}
    w = constants["w"] = w[:, :1]
    nodes[1] = node("Constant", "", "w", value=onnx.numpy_helper.from_array(w))
    made = node("ConvTranspose", "x w b", "t", **moves)
    model = model_of([*nodes, made, node("Add", "t a", "y")], {"a": (np.float32, [1])}, ["y"])
    x = np.zeros(1, np.float32)
    expected = scattered(constants["x"], w, (3, 3), (1, 1), 2) + np.array([[[[1]], [[2]]]])
    np.testing.assert_allclose(load_onnx(model)(x)["y"], expected, 1e-5, 1e-5)
