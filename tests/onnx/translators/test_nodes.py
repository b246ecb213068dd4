"""Nodes where ONNX's text decides between implementations, against NumPy and ONNX Runtime."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest
from build import in_function, model_of, node, runtime, single

from dml_jax import load_onnx

BFLOAT16 = np.dtype(jnp.bfloat16)
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
        if more >= max(stride, dilation) or (rank > 1 and 2 in (dilation, kernel)):
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
    x, w = (RANDOM.randn(*s).astype(np.float32) for s in ((1, 2, 3, 3), (2, 1, 1, 1)))
    constants = {"x": x, "w": w, "b": np.float32([1, 2])}
    moves: Any = {"strides": [3, 3], "auto_pad": "SAME_UPPER", "group": 2}
    model = in_function([node("ConvTranspose", "x w b", "y", **moves)], {}, ["y"], constants)
    expected = scattered(constants["x"], w, (3, 3), (1, 1), 2) + np.array([[[[1]], [[2]]]])
    np.testing.assert_allclose(load_onnx(model)({})["y"], expected, 1e-5, 1e-5)


def test_normalizations_of_several_types_are_computed_in_the_widest():
    """Statistics and scales that FLOAT16 would not hold, and results of one rounding."""
    x = (RANDOM.randn(2, 4, 6) * 100 + 300).astype(np.float16)
    mean, scale = np.float32([300, 1e5, 0, 300.1]), np.float32([1e5, 1, 2, 1 / 3])
    inputs = {"x": x, "w": x.astype(np.float32) + np.float32(1e-3), "x_b": x.astype(BFLOAT16)}
    channels = {"mean": mean, "var": np.float32([1e5, 65536, 1e-9, 1e10])}
    channels |= {"scale": scale, "bias": np.float32([0, 1e-3, 7, -2])}
    narrow = {f"{n}16": np.clip(a, 0, 6e4).astype(np.float16) for n, a in channels.items()}
    arrays = {**channels, **narrow, "row": np.float32([1e5, 1, 2, 3, 4, 1 / 3])}
    arrays["row16"] = np.float16([1, 2, 3, 4, 5, 1 / 3])
    arrays |= {"mean_b": mean.astype(BFLOAT16), "var_b": channels["var"].astype(BFLOAT16)}
    batches = {
        "batch": "x scale bias mean var",
        "mixed": "x scale16 bias16 mean var",
        "narrow": "w scale16 bias16 mean16 var16",
        "bfloat": "x_b scale bias mean var",
        "statistics": "w scale bias mean_b var_b",
    }
    nodes = [
        *(node("BatchNormalization", read, name) for name, read in batches.items()),
        node("RMSNormalization", "x row", "rms", epsilon=0.0),
        node("RMSNormalization", "w row16", "rms16", epsilon=0.0),
        node("LayerNormalization", "x row16", "layer", epsilon=0.0),
    ]
    kinds = {n: (a.dtype, a.shape) for n, a in inputs.items()}
    names = [*batches, "rms", "rms16", "layer"]
    results = load_onnx(model_of(nodes, kinds, names, arrays, opset=23))(inputs)

    def wide(name: str) -> np.ndarray:
        return {**inputs, **arrays}[name].astype(np.float64)

    def batch(*names: str) -> np.ndarray:
        x, s, b, m, v = (wide(n) if k == 0 else wide(n)[:, None] for k, n in enumerate(names))
        return (x - m) / np.sqrt(v + 1e-5) * s + b

    a, w = wide("x"), wide("w")
    centred = a - a.mean(-1, keepdims=True)
    expected = {name: batch(*read.split()) for name, read in batches.items()} | {
        "rms": a / np.sqrt((a**2).mean(-1, keepdims=True)) * wide("row"),
        "rms16": w / np.sqrt((w**2).mean(-1, keepdims=True)) * wide("row16"),
        "layer": centred / np.sqrt((centred**2).mean(-1, keepdims=True)) * wide("row16"),
    }
    types = dict.fromkeys(("batch", "mixed", "rms16", "layer"), np.dtype(np.float16))
    types |= {"bfloat": BFLOAT16}
    for name, want in expected.items():
        got, kind = np.asarray(results[name]), types.get(name, np.dtype(np.float32))
        assert got.dtype == kind, name
        with np.errstate(over="ignore"):
            rounded = want.astype(kind).astype(np.float64)
        step = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 4e-6}[kind.name]
        np.testing.assert_allclose(got.astype(np.float64), rounded, step, 2e-3, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_training_statistics_have_types_of_their_own(dtype: Any):
    x = (RANDOM.randn(3, 2, 8) * 100 + 1000).astype(dtype)
    arrays = {"s": np.ones(2, dtype), "b": np.zeros(2, dtype)}
    arrays |= {"m": np.float32([1e5, 0]), "v": np.float32([1e6, 1])}
    given: Any = {"outputs": "y rm rv", "training_mode": 1, "momentum": 0.5}
    model = single("BatchNormalization", {"x": x, **arrays}, constants=[*arrays], **given)
    y, mean, variance = (np.asarray(r) for r in load_onnx(model)(x).values())
    wide = x.astype(np.float64)
    own = wide.mean((0, 2)), wide.var((0, 2))
    assert (y.dtype, mean.dtype, variance.dtype) == (dtype, np.float32, np.float32)
    expected = (wide - own[0][:, None]) / np.sqrt(own[1][:, None] + 1e-5)
    np.testing.assert_allclose(y.astype(np.float64), expected, 2e-3, 2e-3)
    np.testing.assert_allclose(mean, (arrays["m"] + own[0]) / 2, 1e-5)
    np.testing.assert_allclose(variance, (arrays["v"] + own[1]) / 2, 1e-5)


@pytest.mark.parametrize("opset", [18, 20, 21])
@pytest.mark.parametrize("is_known", [False, True])
def test_groups_have_a_scale_each_before_opset_21(opset: int, is_known: bool):
    x = RANDOM.randn(2, 6, 4).astype(np.float32)
    count = 3 if opset < 21 else 6
    scale, bias = RANDOM.randn(2, count).astype(np.float32)
    nodes = [node("GroupNormalization", "x s b", "y", num_groups=3)]
    kinds, arrays = {"x": (np.float32, x.shape)}, {"s": scale, "b": bias}
    if is_known:
        result = load_onnx(in_function(nodes, {}, ["y"], arrays | {"x": x}, opset))({})["y"]
    else:
        result = load_onnx(model_of(nodes, kinds, ["y"], arrays, opset))(x)["y"]
    rows = x.astype(np.float64).reshape(2, 3, 2, 4)
    mean, variance = (f(rows, (2, 3), keepdims=True) for f in (np.mean, np.var))
    each = [p.reshape(1, 3, -1, 1) for p in (scale, bias)]
    expected = (rows - mean) / np.sqrt(variance + 1e-5) * each[0] + each[1]
    np.testing.assert_allclose(result, expected.reshape(x.shape), 1e-5, 1e-5)


def test_skipped_sums_are_normalized_before_they_are_rounded():
    x, skip = (np.float16([[[50000, 1, 2, 3000.5]]]) * np.float16(f) for f in (1, 1.1))
    arrays = {"skip": skip, "scale": np.ones(4, np.float16), "bias": np.zeros(4, np.float16)}
    given: Any = {"outputs": "y - - t", "constants": [*arrays], "domain": "com.microsoft"}
    model = single("SkipLayerNormalization", {"x": x, **arrays}, **given)
    results = load_onnx(model)(x)
    total = x.astype(np.float64) + skip.astype(np.float64)  # beyond FLOAT16
    centred = total - total.mean()
    expected = centred / np.sqrt((centred**2).mean())
    np.testing.assert_allclose(results["y"], expected, 1e-3)
    assert np.isinf(results["t"][0, 0, 0])
    np.testing.assert_array_equal(results["y"], runtime(model, {"x": x})[0])


NAN, INF = np.nan, np.inf
ODD = [[3, NAN, 3, -INF, INF, NAN], [-0.0, 0, NAN, -1, 0, -0.0], [1e-45, -1e-45, -2, 9, -INF, -NAN]]


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    ("dtype", "fallback"), [(np.float32, False), (np.float16, False), (np.float64, True)]
)
def test_nan_is_as_in_onnx_runtime(dtype: Any, fallback: bool, is_known: bool):
    """The sign of NaN is NaN, NaN is the largest element, and C is not read by a beta of 0."""
    x = np.array(ODD).astype(dtype)
    nodes = [
        node("Sign", "x", "sign"),
        *(
            node("TopK", f"x k{k}", f"v{k}{name} i{k}{name}", largest=name, axis=axis)
            for k, axis in ((1, 1), (4, 1), (6, -1), (3, 0))
            for name in (0, 1)
        ),
        node("Gemm", "a b c", "gemm", beta=0.0, alpha=0.5),
    ]
    outputs = [name for made in nodes for name in made.output]
    arrays = {"a": np.ones((2, 3), dtype), "b": np.ones((3, 4), dtype)}
    arrays |= {"c": np.array([NAN, 1, INF, 1], dtype), "x": x}
    weights = {f"k{k}": np.array([k]) for k in (1, 3, 4, 6)}
    if is_known:
        model = in_function(nodes, {}, outputs, arrays | weights)
    else:
        kinds = {n: (a.dtype, a.shape) for n, a in arrays.items()}
        model = model_of(nodes, kinds, outputs, weights)
    results = load_onnx(model, fallback=fallback)({} if is_known else arrays)
    version = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
    if dtype is np.float32 and version >= (1, 32):  # earlier ones have NaN elsewhere
        for name, expected in zip(outputs, runtime(model, {} if is_known else arrays), strict=True):
            if name.startswith("i"):
                np.testing.assert_array_equal(results[name], expected, name)
    np.testing.assert_array_equal(results["sign"][:2], np.sign(x[:2]))
    np.testing.assert_array_equal(results["gemm"], np.full((2, 4), 1.5))
    for k, axis in ((1, 1), (4, 1), (6, 1), (3, 0)):
        for largest in (0, 1):
            lines = np.moveaxis(x, axis, 1)
            if largest:  # NumPy has NaN last
                order = lines.shape[1] - 1 - np.argsort(lines[:, ::-1], 1, kind="stable")[:, ::-1]
            else:
                order = np.argsort(lines, 1, kind="stable")
            expected = np.moveaxis(order[:, :k], 1, axis)
            np.testing.assert_array_equal(results[f"i{k}{largest}"], expected)
            values = np.take_along_axis(x, expected, axis)
            np.testing.assert_array_equal(results[f"v{k}{largest}"], values)


def test_sums_of_products_in_many_dimensions():
    """What operators/test_reduction.py tests in programs and graphs."""
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 3, 1, 2, 2, 8, 8, 8)).astype(np.float32)
    nodes = [node("Mul", "a b", "c"), node("ReduceSum", "c axes", "y")]
    inputs = {"a": (a.dtype, a.shape), "b": (b.dtype, b.shape)}
    network = load_onnx(model_of(nodes, inputs, ["y"], {"axes": np.array([3])}))
    np.testing.assert_array_equal(network(a, b)["y"], (a * b).sum(3, keepdims=True))
