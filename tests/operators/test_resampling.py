"""Resampling: ties, edges, weights, and its gradients."""

from typing import Any

import jax
import numpy as np
import pytest

import dml_jax
from dml_jax import DmlError, TensorDesc
from dml_jax.operator import OPERATORS


def resample(version: str, x: Any, count: int, scale: float, **fields: Any) -> list[Any]:
    """Return `x`, of one dimension, read at `count` places without offsets."""
    array = np.asarray(x, np.float32) if isinstance(x, list) else x
    op_class = OPERATORS[f"DML_OPERATOR_{version}"]
    given: dict[str, Any] = {
        "input_tensor": TensorDesc.of(array),
        "interpolation_mode": "NEAREST_NEIGHBOR",
        "rounding_direction": "DECREASING",
        "scales": [scale],
        "input_pixel_offsets": [0],
        "output_pixel_offsets": [0],
        "antialiased": False,
        **fields,
    }
    names = {f.name for f in op_class.fields}
    op = op_class.infer(**{n: v for n, v in given.items() if n in names}, output_sizes=[count])
    return op(array).tolist()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("RESAMPLE1", [1, 2, 2, 3, 3, 3]),
        ("RESAMPLE2", [1, 1, 2, 2, 3, 3]),
        ("RESAMPLE3", [1, 1, 2, 2, 3, 3]),
    ],
)
def test_halves_of_nearest_neighbours(version: str, expected: list[int]):
    """Where it has no direction, up; else to the side that it says."""
    assert resample(version, [1, 2, 3], 6, 2) == expected
    if version != "RESAMPLE1":
        up = resample(version, [1, 2, 3], 6, 2, rounding_direction="INCREASING")
        assert up == [1, 2, 2, 3, 3, 3]


@pytest.mark.parametrize("direction", ["INCREASING", "DECREASING"])
@pytest.mark.parametrize("factor", [3, 5, 7, 11, 49])
def test_whole_places_are_whole_though_the_scale_is_a_float(direction: str, factor: int):
    x = np.arange(10 * factor, dtype=np.float32)
    scale = np.float32(1 / factor)
    read = resample("RESAMPLE2", x, 10, float(scale), rounding_direction=direction)
    assert read == x[::factor].tolist()


@pytest.mark.parametrize("sizes", [(4, 3), (6, 13), (7, 3), (8, 21)])
def test_whole_places_between_aligned_corners_are_whole(sizes: tuple[int, int]):
    n, m = sizes
    x, scale = list(range(n)), float(np.float32((m - 1) / (n - 1)))
    expected = [k * (n - 1) // (m - 1) for k in range(m)]
    assert resample("RESAMPLE2", x, m, scale) == expected


def test_the_largest_scale_reads_the_first_element():
    largest = float(np.finfo(np.float32).max)
    for mode in ("LINEAR", "NEAREST_NEIGHBOR"):
        assert resample("RESAMPLE1", [5, 6], 3, largest, interpolation_mode=mode) == [5, 5, 5]


def test_what_lies_beyond_the_edges():
    """The edges repeat, and more of the input than the output holds is cropped."""
    linear = {"interpolation_mode": "LINEAR"}
    moved = resample("RESAMPLE1", [1, 2], 5, 1, **linear, output_pixel_offsets=[1.5])
    assert moved == [1, 1, 1.5, 2, 2]
    assert resample("RESAMPLE1", [1, 2, 3, 4], 2, 1, **linear) == [1, 2]


def test_integers_round_half_to_even():
    x = np.array([0, 1, 2, 3, 255], np.uint8)
    expected = [0, 0, 1, 2, 2, 2, 3, 129, 255, 255]
    assert resample("RESAMPLE2", x, 10, 2, interpolation_mode="LINEAR") == expected


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_element_of_weight_0_is_not_read(value: float):
    made = resample("RESAMPLE1", [1, value, 3], 3, 1, interpolation_mode="LINEAR")
    np.testing.assert_array_equal(made, [1, value, 3])
    twice = resample("RESAMPLE1", [1, value, 3], 6, 2, interpolation_mode="LINEAR")
    np.testing.assert_array_equal(twice, [1, value, value, value, 3, 3])


def test_antialiased_of_many_elements():
    """Long sums too are averages with weights like a tent."""
    x = np.random.default_rng(0).random(100).astype(np.float32)
    fields = {"interpolation_mode": "LINEAR", "antialiased": True}
    offsets = {"input_pixel_offsets": [0.5], "output_pixel_offsets": [-0.5]}
    made = resample("RESAMPLE3", x, 10, 0.1, **fields, **offsets)
    padded = np.pad(x.astype(np.float64), 10, mode="edge")
    tent = 10 - abs(np.arange(20) - 9.5)
    expected = [tent @ padded[10 * t + 5 : 10 * t + 25] / tent.sum() for t in range(10)]
    np.testing.assert_allclose(made, expected, rtol=1e-6)


def test_a_gradient_whose_elements_are_read_by_all(monkeypatch: pytest.MonkeyPatch):
    """A table of places that would be too large gives way to JAX's own transpose."""
    dy = np.arange(12, dtype=np.float32).reshape(3, 4)
    call = {"mode": "NEAREST_NEIGHBOR", "scales": [1e30, 2], "output_sizes": [2, 2]}
    answer = dml_jax.resample_grad(dy, **call)
    monkeypatch.setattr("dml_jax.lowering.resampling._MOST_TAPS", 1)
    jax.clear_caches()
    assert np.asarray(dml_jax.resample_grad(dy, **call)).tolist() == np.asarray(answer).tolist()
    assert np.asarray(answer).tolist() == [[27, 39], [0, 0]]


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("scales", [0.0], "above 0"),
        ("scales", [float("nan")], "above 0"),
        ("scales", [2**-17], "at least 1/65536"),
        ("input_pixel_offsets", [float("nan")], "finite"),
        ("output_pixel_offsets", [float("inf")], "finite"),
    ],
)
def test_attributes_without_a_meaning_are_refused(field: str, value: Any, rule: str):
    with pytest.raises(DmlError, match=rule):
        resample(
            "RESAMPLE3",
            [1, 2],
            2,
            **{"scale": 1, "antialiased": True, "interpolation_mode": "LINEAR", field: value},
        )
