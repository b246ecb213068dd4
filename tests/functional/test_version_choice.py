"""Functions make the lowest version of an operator that expresses their arguments."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from arrays import float32, made_by, normal

import dml_jax as package
from dml_jax import DepthSpaceOrder, facts

dml_jax: Any = package
X, G, M, V = normal(2, 8, 4, 6), normal(2, 3, 4), normal(2, 3), float32([4, 5, 6])
P, ROWS = normal(1, 2, 5, 5), np.arange(30, dtype=np.float32).reshape(5, 6)
PLACES, ROI, BATCH = np.zeros((1, 2, 2), np.int32), np.zeros((2, 4), "f4"), np.zeros(2, np.uint32)
SMALL, NAN = (1, 2, 3, 1), float("nan")
# The operator, the call, and its result or the sizes of it, where these depend on the choice.
Choice = tuple[str, Callable[[], Any], Any]


def softmax(version: str, sizes: tuple[int, ...], axes: Any = None) -> Choice:
    x, name = normal(*sizes), f"ACTIVATION_SOFTMAX{version}"
    power = np.exp(x)
    over = -1 if axes is None else tuple(axes) if isinstance(axes, list) else axes
    expected = power / power.sum(over, keepdims=True)
    return name, lambda: dml_jax.activation_softmax(x, axes), expected


def normalized(
    version: str, sizes: tuple[int, ...], axes: Any, by_mean: bool, by_deviation: bool
) -> Choice:
    x, scale = normal(*sizes), normal(*sizes[:1], *[1] * (len(sizes) - 1))
    over = tuple(axes) if isinstance(axes, list) else axes
    rest = x - x.mean(over, keepdims=True) if by_mean else x
    root = np.sqrt(np.square(rest).mean(over, keepdims=True) + np.float32(1e-3))
    given = (x, scale, None, axes, by_deviation, by_mean, 1e-3)
    call = lambda: dml_jax.mean_variance_normalization(*given)  # noqa: E731
    return (
        f"MEAN_VARIANCE_NORMALIZATION{version}",
        call,
        scale * (rest / root if by_deviation else rest),
    )


def sliced(version: str, *strides: int) -> Choice:
    rows, columns = (slice(None, None, stride) for stride in strides)
    call = lambda: dml_jax.slice(ROWS, [1, 0], [3, 5], strides)  # noqa: E731
    return f"SLICE{version}", call, ROWS[1:4, :5][rows, columns]


def padded(version: str, type_: str, value: float, mode: str = "CONSTANT") -> Choice:
    x = V.astype(type_)
    first = x.dtype.type(value) if mode == "CONSTANT" else x[0]
    return f"PADDING{version}", lambda: dml_jax.padding(x, mode, value, [1], [2])[0], first


def diagonals(version: str, type_: str, value: float, end: int) -> Choice:
    number = np.dtype(type_.lower()).type(value)
    call = lambda: dml_jax.diagonal_matrix([2, 2], type_, value, 0, end)  # noqa: E731
    return f"DIAGONAL_MATRIX{version}", call, [[number, number if end == 2 else 0], [0, number]]


def pooled(version: str, dilations: list[int], *sizes: int) -> Choice:
    given = (P, [1, 1], [2, 2], [0, 0], [0, 0], dilations, True)
    return f"AVERAGE_POOLING{version}", lambda: dml_jax.average_pooling(*given), (1, 2, *sizes)


def aligned(version: str, *offsets: float, to_corners: bool = False) -> Choice:
    fields = ("AVERAGE", "LINEAR", 1, 1, *offsets, 0, 1, 2, to_corners, 5, 6)
    call = lambda: dml_jax.roi_align(P, ROI, BATCH, *fields)  # noqa: E731
    return f"ROI_ALIGN{version}", call, (2, 2, 5, 6)


def resampled(version: str, mode: str, **fields: Any) -> Choice:
    return f"RESAMPLE{version}", lambda: dml_jax.resample(M, [4, 2], mode, **fields), (4, 2)


def regridded(version: str, **fields: Any) -> Choice:
    call = lambda: dml_jax.resample_grad(M, [1, 3], "NEAREST_NEIGHBOR", **fields)  # noqa: E731
    return f"RESAMPLE_GRAD{version}", call, (1, 3)


def attended(version: str, heads: int) -> Choice:
    keys = G[..., : 2 * heads]
    given = {"query_head_count": 2, "key_value_head_count": heads, "query": G}
    call = lambda: dml_jax.multihead_attention(**given, key=keys, value=keys).output  # noqa: E731
    return f"MULTIHEAD_ATTENTION{version}", call, G.shape


CHOICES: list[Choice] = [
    softmax("", (2, 3)),
    softmax("", (1, 1, 2, 3)),
    softmax("", (2, 3), [-1]),
    softmax("", (2, 3), 1),
    softmax("1", (2, 3), [0]),
    softmax("1", (2, 3), [0, 1]),
    softmax("1", (4, 2, 3)),  # of an effective rank above 2
    softmax("1", (4, 2, 3), [2]),
    normalized("", (2, 3, 4, 5), [2, 3], True, True),
    normalized("", (2, 3, 4, 5), [-1, 1, 2], True, False),
    normalized("1", (2, 3, 4, 5), [1, 2], True, True),
    normalized("1", (2, 3, 4, 5), 3, True, True),
    normalized("1", (2, 3, 4), [1, 2], True, True),
    normalized("2", (2, 3, 4, 5), [2, 3], False, True),
    normalized("2", (4, 5), [-1], False, False),
    sliced("", 1, 2),
    sliced("1", -1, 2),
    sliced("1", 3, -1),
    padded("", "float32", 0.1),
    padded("", "float16", 0.1),
    padded("1", "float64", 0.1),  # no FLOAT is 0.1
    padded("", "float64", 0.1, "EDGE"),
    padded("", "float64", NAN),
    padded("", "int32", 2**24),
    padded("1", "int32", 2**24 + 1),
    padded("1", "uint64", 2**64 - 1),
    diagonals("", "FLOAT32", 0.1, 1),  # a FLOAT is exact
    diagonals("", "FLOAT64", 0.5, 1),
    diagonals("", "INT8", -128, 1),
    diagonals("1", "FLOAT32", 0.1, 2),
    diagonals("1", "FLOAT64", 0.1, 1),
    diagonals("1", "INT32", 2**24 + 1, 1),
    pooled("", [1, 1], 4, 4),
    pooled("", [], 4, 4),
    pooled("1", [1, 2], 4, 3),
    pooled("1", [2, 2], 3, 3),
    ("MAX_POOLING", lambda: dml_jax.max_pooling(P, [2, 2]).values, (1, 2, 4, 4)),
    ("MAX_POOLING", lambda: dml_jax.max_pooling(P, 2, 2, output_sizes=SMALL).values, SMALL),
    ("MAX_POOLING2", lambda: dml_jax.max_pooling(P, 2, dilations=[3, 3]).values, (1, 2, 2, 2)),
    ("MAX_POOLING1", lambda: dml_jax.max_pooling(P, 2, output_indices=True)[1], (1, 2, 4, 4)),
    aligned("", 0.5, -0.5),
    aligned("1", 0.5, -0.5, to_corners=True),
    aligned("1", 0, -0.5),
    resampled("", "LINEAR"),
    resampled("2", "NEAREST_NEIGHBOR"),
    resampled("", "NEAREST_NEIGHBOR", rounding_direction=None),
    resampled("1", "LINEAR", input_pixel_offsets=[0, 0]),
    resampled("3", "LINEAR", antialiased=True),
    resampled("3", "LINEAR", antialiased=True, rounding_direction=None),
    ("GATHER_ND", lambda: dml_jax.gather_nd(G, PLACES, 3, 2, 0), (1, 2, 4)),
    ("GATHER_ND1", lambda: dml_jax.gather_nd(G, PLACES, 3, 2, 1), None),
    ("TOP_K1", lambda: dml_jax.top_k(V, 0, 2, "INCREASING").value, [4, 5]),
    ("TOP_K", lambda: dml_jax.top_k(V, 0, 2, "DECREASING").value, [6, 5]),
    ("DEPTH_TO_SPACE", lambda: dml_jax.depth_to_space(X, 2), None),
    ("DEPTH_TO_SPACE", lambda: dml_jax.depth_to_space(X, 2, "DEPTH_COLUMN_ROW"), None),
    ("DEPTH_TO_SPACE", lambda: dml_jax.depth_to_space(X, 2, DepthSpaceOrder(0)), None),
    ("DEPTH_TO_SPACE1", lambda: dml_jax.depth_to_space(X, 2, "COLUMN_ROW_DEPTH"), None),
    ("ELEMENT_WISE_CLIP", lambda: dml_jax.clip(X, 0, 1), None),
    ("ELEMENT_WISE_CLIP1", lambda: dml_jax.clip(V.astype(int), 0, 2**24 + 1), [4, 5, 6]),
    ("ELEMENT_WISE_CONSTANT_POW", lambda: dml_jax.pow(V, 2), [16, 25, 36]),
    ("ELEMENT_WISE_POW", lambda: dml_jax.pow(V, float32([2, 1, 0])), [16, 5, 1]),
    ("ELEMENT_WISE_ADD", lambda: dml_jax.add(V, -V), [0, 0, 0]),
    ("ELEMENT_WISE_ADD1", lambda: dml_jax.add(V, -V, "SIGMOID"), [0.5, 0.5, 0.5]),
    ("ACTIVATION_HARDMAX", lambda: dml_jax.activation_hardmax(ROWS), None),
    ("ACTIVATION_HARDMAX1", lambda: dml_jax.activation_hardmax(ROWS, 0), None),
    ("ACTIVATION_LOG_SOFTMAX", lambda: dml_jax.activation_log_softmax(ROWS), None),
    ("ACTIVATION_LOG_SOFTMAX1", lambda: dml_jax.activation_log_softmax(ROWS, 0), None),
    ("ELEMENT_WISE_CLIP_GRAD", lambda: dml_jax.clip_grad(V, V, 4, 6), [0, 5, 0]),
    ("ELEMENT_WISE_CLIP_GRAD1", lambda: dml_jax.clip_grad(V, V, 4, 2**24 + 1), [0, 5, 6]),
    ("SPACE_TO_DEPTH", lambda: dml_jax.space_to_depth(X, 2), None),
    ("SPACE_TO_DEPTH1", lambda: dml_jax.space_to_depth(X, 2, "COLUMN_ROW_DEPTH"), None),
    ("LP_POOLING", lambda: dml_jax.lp_pooling(P, 1, 2), (1, 2, 4, 4)),
    ("LP_POOLING1", lambda: dml_jax.lp_pooling(P, 1, 2, dilations=[3, 3]), (1, 2, 2, 2)),
    regridded(""),
    regridded("1", rounding_direction="DECREASING"),
    attended("", 2),
    attended("1", 1),
]


@pytest.mark.parametrize(("name", "call", "expected"), CHOICES)
def test_the_lowest_version(name: str, call: Callable[[], Any], expected: Any):
    assert made_by(call) == {name}
    if isinstance(expected, tuple):
        assert jax.eval_shape(call).shape == expected
    elif expected is not None:
        near = 2e-5 if call().dtype == np.float32 else 0
        np.testing.assert_allclose(call(), expected, rtol=near, atol=near)


def test_every_function_of_several_versions_is_tested():
    several = (entry["operators"] for entry in facts.functions().values())
    versions = {name for names in several if len(names) > 1 for name in names}
    assert versions <= {name for name, *_ in CHOICES}
