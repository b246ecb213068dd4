"""Resize, beside exact fractions, NumPy in float64, and ONNX Runtime."""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from build import model_of, node, same_as_runtime

from dml_jax import load_onnx

RANDOM = np.random.RandomState(0)
HALF = Fraction(1, 2)
Place = Callable[[int, int, int], Fraction]
NEAREST = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda place: math.ceil(place - HALF),
    "round_prefer_ceil": lambda place: math.floor(place + HALF),
}
PLACES: dict[str, Place] = {  # of output element k, from n elements to m, as ONNX's text has them
    "align_corners": lambda k, n, m: Fraction(k * (n - 1), m - 1) if m > 1 else Fraction(0),
    "asymmetric": lambda k, n, m: Fraction(k * n, m),
    "half_pixel": lambda k, n, m: (k + HALF) * n / m - HALF,
    "half_pixel_symmetric": lambda k, n, m: (k + HALF) * n / m - HALF,
    "pytorch_half_pixel": lambda k, n, m: (k + HALF) * n / m - HALF if m > 1 else Fraction(0),
    "tf_half_pixel_for_nn": lambda k, n, m: (k + HALF) * n / m,
}
SIZES = [  # of four dimensions each, before and after
    ((4, 4, 7, 3), (2, 3, 4, 5)),
    ((9, 9, 2, 5), (5, 3, 7, 1)),
    ((5, 6, 10, 1), (9, 4, 7, 4)),
    ((13, 3, 1, 11), (7, 9, 1, 6)),
]


def resize(x: Any, lasting: Sequence[Any], nodes: Sequence[Any], opset: int = 19) -> Any:
    """Return a model of nodes that read `x` and the constants `lasting`, named c0, c1 and so on."""
    constants = {f"c{k}": np.asarray(c) for k, c in enumerate(lasting)}
    outputs = [name for made in nodes for name in made.output]
    return model_of(nodes, {"x": (x.dtype, x.shape)}, outputs, constants, opset)


def read(x: np.ndarray, places: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the elements of `x` at the places of each dimension, which end at its edges."""
    pairs = zip(places, x.shape, strict=True)
    return x[np.ix_(*(np.clip(p, 0, n - 1) for p, n in pairs))]


def blended(x: np.ndarray, places: Sequence[Sequence[Fraction]]) -> np.ndarray:
    """Return `x` between its elements, in float64."""
    y = x.astype(np.float64)
    for d, line in enumerate(places):
        low = np.array([math.floor(p) for p in line])
        weights = np.array([float(p - math.floor(p)) for p in line])
        weights = weights.reshape([-1 if k == d else 1 for k in range(x.ndim)])
        ends = [np.take(y, np.clip(low + k, 0, y.shape[d] - 1), d) for k in (0, 1)]
        y = ends[0] * (1 - weights) + ends[1] * weights
    return y


@pytest.mark.parametrize("coordinates", PLACES)
def test_the_nearest_element_is_that_of_exact_fractions(coordinates: str):
    for sizes, counts in SIZES:
        x = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
        given = {"mode": "nearest", "coordinate_transformation_mode": coordinates}
        opset, names = (11, "x c1 c1 c0") if "for_nn" in coordinates else (19, "x - - c0")
        made = [node("Resize", names, n, nearest_mode=n, **given) for n in NEAREST]
        results = load_onnx(resize(x, [counts, np.zeros(0, np.float32)], made, opset))(x)
        for name, rounded in NEAREST.items():
            lines = [
                [rounded(PLACES[coordinates](k, n, m)) for k in range(m)]
                for n, m in zip(sizes, counts, strict=True)
            ]
            np.testing.assert_array_equal(results[name], read(x, lines), name)


@pytest.mark.parametrize("sizes", [(7, 3, 5, 2), (5003, 7919, 1, 2)])
def test_a_scale_of_another_dimension_is_exact(sizes: tuple[int, int, int, int]):
    """The scale 3 / 7 makes 2 elements of 5, of which one lies at 3 exactly."""
    n, m, other, count = sizes
    x = np.arange(n * other, dtype=np.float32).reshape(n, other)
    given = {"mode": "nearest", "keep_aspect_ratio_policy": "not_larger", "axes": [0, 1]}
    made = [node("Resize", "x - - c0", f"y{way}", nearest_mode=way, **given) for way in NEAREST]
    results = load_onnx(resize(x, [[m, 10 * count]], made))(x)
    for way, rounded in NEAREST.items():
        lines = [[rounded((k + HALF) * n / m - HALF) for k in range(c)] for c in (m, count)]
        np.testing.assert_array_equal(results[f"y{way}"], read(x, lines), way)


@pytest.mark.parametrize("scale", [1.6, 2 / 3, 0.8, 1.2])
def test_scales_are_the_simple_fractions_that_they_stand_for(scale: float):
    x = np.arange(10, dtype=np.float32).reshape(1, 1, 10, 1)
    pairs = itertools.product(NEAREST, ("half_pixel", "asymmetric"))
    ways = [{"nearest_mode": w, "coordinate_transformation_mode": c} for w, c in pairs]
    nearest = [node("Resize", "x - c0", f"y{k}", mode="nearest", **w) for k, w in enumerate(ways)]
    same_as_runtime(resize(x, [np.float32([1, 1, scale, 1])], nearest), {"x": x}, 0, 0)


@pytest.mark.parametrize(("size", "scale"), [(10, 2.3), (20, 1.15), (10, 0.7), (7, 1.7)])
def test_sizes_by_scales_are_those_of_onnx_runtime(size: int, scale: float):
    """2.3 in FLOAT is less than 23 / 10: 22 elements in DOUBLE, 23 as PyTorch writes such files."""
    x = np.arange(size, dtype=np.float32).reshape(1, 1, size, 1)
    made = node("Resize", "x - c0", "y", mode="nearest", nearest_mode="floor")
    same_as_runtime(resize(x, [np.float32([1, 1, scale, 1])], [made]), {"x": x}, 0, 0)


@pytest.mark.parametrize("scales", [(0.6, 0.6), (2.5, 0.6), (0.7, 1.5)])
@pytest.mark.parametrize("is_known", [False, True])
def test_version_10_rounds_up_where_it_shrinks(scales: tuple[float, float], is_known: bool):
    x = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
    made = node("Resize", "c1 c0" if is_known else "x c0", "y", mode="nearest")
    model = resize(x, [np.float32([1, 1, *scales]), x], [made], opset=10)
    same_as_runtime(model, {"x": x}, 0, 0)


CROPS = [((0, 0), (10, 10)), ((2, -1), (6, 11)), ((9, 1), (1, 7)), ((3, 10), (3, 5))]  # tenths


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("sizes", [(6, 11), (1, 4), (5, 1)])
def test_crops_are_read_at_exact_places(sizes: tuple[int, int], dtype: Any):
    """Also of dimensions of size 1, and backward; places beyond the input have a value."""
    counts = (4, 6)
    x = RANDOM.permutation(math.prod(sizes)).astype(dtype).reshape(1, 1, *sizes)
    ways = [*NEAREST, "linear"] if dtype is np.float32 else [*NEAREST]
    made, lasting, wanted = [], [[1, 1, *counts]], {}
    for number, (starts, ends) in enumerate(CROPS):
        lasting.append(np.float32([0, 0, *np.divide(starts, 10), 1, 1, *np.divide(ends, 10)]))
        places = [[Fraction(0)], [Fraction(0)]]
        for n, m, start, end in zip(sizes, counts, starts, ends, strict=True):
            first, length = Fraction(start * (n - 1), 10), Fraction((end - start) * (n - 1), 10)
            places.append([first + k * length / (m - 1) for k in range(m)])
        is_out = np.zeros((1, 1, *counts), bool)
        for d, line in enumerate(places):
            outside = np.array([p < 0 or p > x.shape[d] - 1 for p in line])
            is_out |= outside.reshape([-1 if k == d else 1 for k in range(4)])
        for way in ways:
            mode = {"mode": "linear"} if way == "linear" else {"nearest_mode": way}
            given = {"coordinate_transformation_mode": "tf_crop_and_resize", **mode}
            name = f"{way}{number}"
            texts = f"x c{number + 1} - c0", name
            made.append(node("Resize", *texts, extrapolation_value=-7.0, **given))
            if way == "linear":
                inside = blended(x, places)
            else:
                inside = read(x, [[NEAREST[way](p) for p in line] for line in places])
            wanted[name] = np.where(is_out, -7, inside)
    results = load_onnx(resize(x, lasting, made))(x)
    for name, expected in wanted.items():
        np.testing.assert_allclose(results[name], expected, 1e-5, 1e-5, err_msg=name)


LAYOUTS = [  # sizes before and after: kept dimensions before, between and behind
    ((1, 1, 3, 4, 5), (1, 1, 5, 6, 7)),
    ((2, 3, 4, 5, 2), (2, 6, 3, 7, 2)),
    ((3, 2, 4, 1, 5, 2), (5, 2, 3, 1, 7, 2)),
    ((2, 3, 2, 4, 2, 3, 2), (2, 5, 2, 3, 2, 4, 2)),
    ((2, 3, 4, 3, 2), (3, 4, 2, 5, 4)),
    ((2, 3, 2, 4, 3, 2), (3, 2, 2, 3, 5, 3)),
    ((1, 3, 1, 4, 1, 5, 1), (1, 2, 1, 5, 2, 4, 1)),
]


@pytest.mark.parametrize(
    ("dtype", "coordinates"),
    [(np.float32, "align_corners"), (np.float16, "half_pixel"), (np.int8, "align_corners")],
)
def test_any_layout_of_dimensions_is_resized(coordinates: str, dtype: Any):
    for sizes, counts in LAYOUTS:
        x = (RANDOM.randn(*sizes) * 20).astype(dtype)
        given = {"coordinate_transformation_mode": coordinates}
        made = [
            node("Resize", "x - - c0", "linear", mode="linear", **given),
            node("Resize", "x - - c0", "nearest", mode="nearest", **given),
        ]
        results = load_onnx(resize(x, [counts], made))(x)
        places = [
            [PLACES[coordinates](k, n, m) for k in range(m)]
            for n, m in zip(sizes, counts, strict=True)
        ]
        lines = [[NEAREST["round_prefer_floor"](p) for p in line] for line in places]
        np.testing.assert_array_equal(results["nearest"], read(x, lines))
        assert results["linear"].dtype == dtype
        expected, unit = blended(x, places), {np.float16: 2.0**-10, np.int8: 0}.get(dtype, 1e-5)
        bound = 0.5 + 1e-4 if dtype is np.int8 else 1e-4
        np.testing.assert_allclose(
            np.asarray(results["linear"]).astype(np.float64), expected, unit, bound
        )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiasing_filters_are_widened_by_the_scale(mode: str):
    x = RANDOM.randn(1, 1, 11, 7).astype(np.float32)
    given: Any = {"mode": mode, "antialias": 1, "coordinate_transformation_mode": "align_corners"}
    counts = [(5, 3), (4, 7), (8, 2), (11, 4), (14, 5)]
    made = [node("Resize", f"x - - c{k}", f"y{k}", **given) for k in range(len(counts))]
    same_as_runtime(resize(x, [[1, 1, *c] for c in counts], made), {"x": x}, 1e-4, 1e-5)
