"""Gather and scatter: all types of indices, duplicates, gradients, and what functions make."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dml_jax
from dml_jax import DmlError, NonzeroCoordinates, Scatter, TensorDesc, operator_from_json

X = np.arange(10, 16, dtype=np.float32)
INDICES = {
    "int32": [-(2**31), -7, -6, -1, 0, 5, 6, 2**31 - 1],
    "int64": [-(2**63), -7, -6, -1, 0, 5, 6, 2**63 - 1],
    "uint32": [0, 5, 6, 2**31, 2**32 - 6, 2**32 - 1],
    "uint64": [0, 5, 6, 2**32, 2**32 + 1, 2**63, 2**64 - 1],
}


def places(type_: str) -> list[int]:
    """Return the places from the start that indices name in six elements, some out of range."""
    return [i + 6 if i < 0 else i for i in INDICES[type_]]


@pytest.mark.parametrize("type_", INDICES)
def test_indices_of_each_type_count_from_the_end_and_are_clamped(type_: str):
    indices = np.array(INDICES[type_], type_)
    expected = X[np.clip(np.array(places(type_), object), 0, 5).astype(int)]
    ways = (
        dml_jax.gather(X, indices, 0, 1),
        dml_jax.gather_elements(X, indices, 0),
        dml_jax.gather_nd(X[None], indices[:, None], 1, 2, 0)[0],
    )
    for read in ways:
        np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize("type_", INDICES)
def test_indices_of_each_type_that_are_out_of_range_write_nothing(type_: str):
    indices, updates = np.array(INDICES[type_], type_), -np.arange(1, 9, dtype=np.float32)
    updates = updates[: len(indices)]
    expected = X.copy()
    lines = np.zeros((len(indices), 6), np.float32)
    for k, place in enumerate(places(type_)):
        if 0 <= place < 6:
            expected[place] = updates[k]
            lines[k, place] = 1
    np.testing.assert_array_equal(dml_jax.scatter_elements(X, indices, updates, 0), expected)
    written = dml_jax.scatter_nd(X[None], indices[:, None], updates[None], 1, 2)
    np.testing.assert_array_equal(written[0], expected)
    values = np.array([[0, 1]], np.float32)
    np.testing.assert_array_equal(dml_jax.one_hot(indices[:, None], values, 6, 1), lines)


def scatter_once(x: Any, indices: Any, updates: Any) -> Any:
    return dml_jax.scatter_elements(x, indices, updates, 1)


def test_the_last_of_many_duplicates_writes_in_every_program():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 16)).astype(np.float32)
    indices = rng.integers(-20, 20, (8, 500)).astype(np.int32)
    updates = rng.standard_normal((8, 500)).astype(np.float32)
    expected = x.copy()
    for (row, _), index, update in zip(
        np.ndindex(8, 500), indices.ravel(), updates.ravel(), strict=True
    ):
        if -16 <= index < 16:
            expected[row, index] = update
    mesh = jax.make_mesh((jax.device_count(),), ("d",), (jax.sharding.AxisType.Auto,))
    by_columns = jax.NamedSharding(mesh, jax.P(None, "d"))
    columns = indices[:, : 500 // 8 * 8], updates[:, : 500 // 8 * 8]
    ways = {
        "eager": scatter_once(x, indices, updates),
        "jit": jax.jit(scatter_once)(x, indices, updates),
        "vmap": jax.vmap(lambda x, i, u: dml_jax.scatter_elements(x, i, u, 0))(x, indices, updates),
    }
    for way, result in ways.items():
        np.testing.assert_array_equal(result, expected, err_msg=way)
    sharded = jax.device_put((x, *columns), by_columns)
    np.testing.assert_array_equal(jax.jit(scatter_once)(*sharded), scatter_once(x, *columns))


def test_scatter_nd_takes_the_last_of_slices_in_row_major_order():
    x = jnp.zeros((3, 2), jnp.int32)
    indices = np.array([[[1], [1]], [[0], [1]]], np.uint32)
    updates = np.arange(1, 9, dtype=np.int32).reshape(2, 2, 2)
    written = dml_jax.scatter_nd(x[None], indices, updates, 2, 3)
    np.testing.assert_array_equal(written[0], [[5, 6], [7, 8], [0, 0]])


def test_gradients_of_float16_are_added_in_float32():
    x, indices = jnp.zeros(2, jnp.float16), np.zeros(5000, np.int32)
    assert jax.grad(lambda x: dml_jax.gather(x, indices, 0, 1).sum())(x).tolist() == [5000, 0]


def test_scatter_has_another_name():
    tensor = TensorDesc("FLOAT32", [4])
    op = Scatter.infer(
        input_tensor=tensor,
        indices_tensor=TensorDesc("UINT32", [2]),
        updates_tensor=TensorDesc("FLOAT32", [2]),
        axis=0,
    )
    renamed = {**op.to_json(), "Type": "DML_OPERATOR_SCATTER_ELEMENTS"}
    assert operator_from_json(renamed) == op


def test_nonzero_counts_by_bits():
    x = np.array([[0, 1e-45, -0.0], [np.nan, 0, -2]], np.float32)
    found = dml_jax.non_zero_coordinates(x)
    assert found.count.tolist() == [3]
    assert found.coordinates.tolist() == [[0, 1], [1, 0], [1, 2], [0, 0], [0, 0], [0, 0]]


def test_nonzero_of_many_elements():
    x = np.random.default_rng(1).integers(0, 2, (50, 70)).astype(np.int8)
    count, rows = dml_jax.non_zero_coordinates(x)
    np.testing.assert_array_equal(rows[: int(count[0])], np.argwhere(x))
    assert not np.asarray(rows)[int(count[0]) :].any()


def test_coordinates_have_the_dimensions_of_the_input():
    fields = {"input_tensor": TensorDesc("INT32", [2, 3])}
    fields |= {"output_count_tensor": TensorDesc("UINT32", [1])}
    with pytest.raises(DmlError, match=r"OutputCoordinatesTensor.Sizes\[1\] to be in \[2, 2\]"):
        NonzeroCoordinates(**fields, output_coordinates_tensor=TensorDesc("UINT32", [6, 1]))


@pytest.mark.parametrize(("batches", "expected"), [(1, ("[2]", "[3]")), (2, ("[2, 4]", "[3, 4]"))])
def test_batch_dimensions_are_those_of_the_indices(batches: int, expected: tuple[str, str]):
    with pytest.raises(DmlError) as raised:
        dml_jax.GatherNd1(
            input_tensor=TensorDesc("FLOAT32", [1, 3, 4, 5]),
            indices_tensor=TensorDesc("UINT32", [1, 2, 4, 1]),
            output_tensor=TensorDesc("FLOAT32", [1, 2, 4, 5]),
            input_dimension_count=3,
            indices_dimension_count=3,
            batch_dimension_count=batches,
        )
    needed, found = expected
    assert f"InputTensor.Sizes to have {needed} in the batch dimensions" in str(raised.value)
    assert str(raised.value).endswith(f"got {found}")
