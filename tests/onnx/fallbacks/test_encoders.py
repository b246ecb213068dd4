"""Encoders of numbers and counts of sequences of numbers, against ONNX Runtime."""

from typing import Any

import jax
import numpy as np
import pytest
from build import floats, refusal, runtime, single
from onnx import numpy_helper

from dml_jax import load_onnx

TABULAR = "ai.onnx.ml"
WHOLE = np.array([[2, 7, 1], [9, -5, 3]])
LARGE = np.array([2, 2**40 + 1, 2**40])
REAL = floats([0.5, 3, -0.0, 7])


def of(op_type: str, x: np.ndarray, version: int, **attributes: Any) -> Any:
    return single(op_type, {"x": x}, domain=TABULAR, version=version, **attributes)


def same(model: Any, x: np.ndarray, is_large: bool = False) -> None:
    (wanted,) = runtime(model, {"x": x})
    for has_x64 in (True,) if is_large else (False, True):
        with jax.enable_x64(has_x64):
            y = np.asarray(load_onnx(model, fallback=True)(x=x)["y"])
        assert y.dtype == (wanted.dtype if has_x64 else y.dtype)
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize(
    ("x", "keys", "values", "default"),
    [
        (WHOLE, {"int64s": [3, 1, 2]}, {"floats": [0.5, 2.0, 3.0]}, {"float": -1.0}),
        (WHOLE, {"int64s": [3, 1, 2]}, {"int64s": [5, 2, 3]}, {}),
        (WHOLE, {"int64s": [3, 1, 2]}, {"int64s": [5, 2, 3]}, {"int64": 11}),
        (WHOLE, {"int64s": [2**40, 2**33 + 7, 2]}, {"int64s": [5, 2, 3]}, {}),
        (REAL, {"floats": [0.0, 0.5, 4.0]}, {"int64s": [5, 2, 3]}, {}),
        (REAL, {"floats": [7.0, 0.5]}, {"floats": [5.0, 2.0]}, {}),
    ],
)
def test_labels(x: np.ndarray, keys: Any, values: Any, default: Any):
    named = (("keys", keys), ("values", values), ("default", default))
    attributes = {f"{name}_{kind}": v for name, given in named for kind, v in given.items()}
    same(of("LabelEncoder", x, 2, **attributes), x)


def test_labels_of_tensors_and_large_numbers():
    tensors = {
        "keys_tensor": numpy_helper.from_array(np.array([2**40, 2])),
        "values_tensor": numpy_helper.from_array(np.array([2**41, 4])),
        "default_tensor": numpy_helper.from_array(np.array([-7])),
    }
    same(of("LabelEncoder", LARGE, 4, **tensors), LARGE, is_large=True)


def test_nan_is_a_key():
    """ONNX: keys are compared bit by bit, so that even NaN can be one."""
    x = floats([1, np.nan])
    model = of("LabelEncoder", x, 2, keys_floats=[np.nan, 1.0], values_int64s=[5, 6])
    y = load_onnx(model, fallback=True)(x=x)["y"]
    assert np.asarray(y).tolist() == [6, 5]


def test_keys_without_values_are_named():
    model = of("LabelEncoder", WHOLE, 2, keys_int64s=[1, 2], values_int64s=[5])
    assert "expected values to have 2 elements, as the keys have, got 1" in refusal(
        model, fallback=True
    )


@pytest.mark.parametrize("x", [WHOLE, WHOLE[0], WHOLE.astype(np.float32) + 0.5])
def test_categories(x: np.ndarray):
    same(of("OneHotEncoder", x, 1, cats_int64s=[7, 2, 2**40 + 1]), x)


def test_categories_that_must_be_there_are_refused():
    model = of("OneHotEncoder", WHOLE, 1, cats_int64s=[7], zeros=0)
    assert "expected zeros to be 1" in refusal(model, fallback=True)


def counts(grams: int, **attributes: Any) -> dict[str, Any]:
    """Return attributes that count numbers and pairs of numbers, half of `grams` each."""
    half = grams // 2
    pairs = [n for k in range(half) for n in (k, (7 * k + 3) % half)]
    return {
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 0,
        "mode": "TF",
        "ngram_counts": [0, half],
        "ngram_indexes": [*range(grams)][::-1],
        "pool_int64s": [*range(half), *pairs],
        **attributes,
    }


THREE = {"ngram_counts": [0, 1, 3], "pool_int64s": [2, 1, 0, 1, 2, 0], "ngram_indexes": [2, 0, 1]}


@pytest.mark.parametrize(
    "attributes",
    [
        counts(6),
        counts(6, max_skip_count=2),
        counts(6, min_gram_length=2),
        counts(8, mode="IDF", weights=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        counts(8, mode="TFIDF", weights=[0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
        counts(6, max_gram_length=3, **THREE),
        counts(20000),
    ],
)
def test_counts_of_sequences(attributes: dict[str, Any]):
    x = np.random.RandomState(3).randint(0, 4, (3, 20) if attributes != counts(6) else 20)
    same(single("TfIdfVectorizer", {"x": x}, **attributes), x)
