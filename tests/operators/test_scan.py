"""Running sums and products of long lines, and top-k: ties, NaN, the ends of types, gradients."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from records.scan import top_k as sorted_in_python
from several_devices import SEVERAL

import dml_jax
from dml_jax import TensorDesc, TopK1

DIRECTIONS = ("INCREASING", "DECREASING")


@pytest.mark.parametrize("shape", [(1, 3001), (3, 1000, 2), (2, 65, 1), (100, 70)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_of_long_lines_are_exact(shape: tuple[int, ...], exclusive: bool):
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.int32)
    whole = np.cumsum(x, 1, dtype=np.int32)
    summed = dml_jax.cumulative_summation(x, 1, "INCREASING", exclusive)
    np.testing.assert_array_equal(summed, whole - x if exclusive else whole)
    summed = dml_jax.cumulative_summation(x, 1, "DECREASING", exclusive)
    np.testing.assert_array_equal(summed, whole[:, -1:] - whole + (0 if exclusive else x))


def test_products_of_long_lines_wrap():
    x = np.random.default_rng(0).integers(1, 2**32, (1, 3001), dtype=np.uint32) | 1
    product = dml_jax.cumulative_product(x, 1, "INCREASING", False)
    np.testing.assert_array_equal(product, np.cumprod(x, 1, dtype=np.uint32))


def test_float16_is_rounded_once_at_each_element():
    x = (np.random.default_rng(0).standard_normal((1, 4000)) * 4).astype(np.float16)
    summed = dml_jax.cumulative_summation(x, 1, "INCREASING", False)
    exact = np.cumsum(x.astype(np.float64), 1)
    apart = np.abs(np.float64(summed) - exact)
    assert (apart <= np.spacing(np.abs(exact).astype(np.float16)) * 0.51).all()


@pytest.mark.parametrize("exclusive", [False, True])
def test_gradients_of_products_with_zeros(exclusive: bool):
    x = jnp.array([2.0, 0, 3, 0, 5], jnp.float32)
    slope = jax.jacobian(lambda x: dml_jax.cumulative_product(x, 0, "INCREASING", exclusive))(x)
    expected = np.zeros((5, 5))
    for j in range(5):
        for i in range(j + (not exclusive)):
            expected[j, i] = np.prod(np.delete(x[: j + (not exclusive)], i))
    np.testing.assert_array_equal(slope, expected)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("type_", ["float32", "float16", "int8", "uint8", "int32", "uint32"])
@pytest.mark.parametrize(("shape", "counts"), [((3, 40), (1, 7, 40)), ((2, 9000), (2,))])
def test_top_k_of_ties_and_ends(shape: Any, counts: Any, type_: str, direction: str):
    """Ties by index, NaN of both signs first, -0 among 0, the smallest and largest numbers.

    Of long lines a CPU searches some pieces; each piece has every number here.
    """
    if type_.startswith("float"):
        limits: Any = np.finfo(type_)
        ends = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, limits.max, limits.min]
    else:
        limits = np.iinfo(type_)
        ends = [limits.min, limits.max, limits.min + 1, limits.max - 1, 0, 1]
    rng = np.random.default_rng(0)
    x = rng.choice(np.array(ends, type_), shape)
    for k in counts:
        tensor = TensorDesc(type_.upper(), x.shape)
        op = TopK1.infer(input_tensor=tensor, axis=1, k=k, axis_direction=direction)
        values, index = op(x)
        expected, places = sorted_in_python(op, x)
        np.testing.assert_array_equal(index, places)
        assert np.asarray(values).tobytes() == expected.tobytes()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("type_", ["int64", "uint64"])
def test_top_k_of_64_bits_by_64_bit_indices(type_: str, direction: str):
    limits = np.iinfo(type_)
    x = np.array([limits.min, limits.max, 5, limits.max - 1, limits.min, 5], type_)
    op = TopK1.infer(
        input_tensor=TensorDesc(type_.upper(), [6]),
        axis=0,
        k=6,
        axis_direction=direction,
        output_data_type={"output_index_tensor": "UINT64"},
    )
    values, index = op(x)
    assert index.tolist() == sorted_in_python(op, x)[1].tolist()
    assert index.dtype == np.uint64
    assert values.tolist() == x[index].tolist()


@pytest.mark.parametrize(("size", "k"), [(300, 20), (300, 1), (50_001, 10)])
def test_top_k_of_a_wide_tensor_and_another_axis(size: int, k: int):
    x = np.random.default_rng(0).standard_normal((size, 4)).astype(np.float32)
    found = dml_jax.top_k(x, 0, k, "INCREASING")
    order = np.argsort(x, 0, kind="stable")[:k]
    np.testing.assert_array_equal(found.index, order)
    np.testing.assert_array_equal(found.value, np.take_along_axis(x, order, 0))


LINES: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: dml_jax.cumulative_summation(x, 1, "INCREASING", True),
    "product": lambda x: dml_jax.cumulative_product(x, 1, "DECREASING", False),
    "top_k": lambda x: dml_jax.top_k(x, 1, 3, "INCREASING"),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_on_several_devices_need_no_others(name: str):
    x = np.random.default_rng(0).integers(-3, 4, (16, 100)).astype(np.float32)
    kinds = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((8,), ("d",), kinds, devices=SEVERAL)
    rows = jax.NamedSharding(mesh, jax.P("d"))
    compiled = jax.jit(LINES[name], in_shardings=rows).lower(x).compile()
    assert not re.search("all-|collective-", str(compiled.as_text()))
    by_shards = jax.shard_map(LINES[name], mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))
    alone = jax.tree.leaves(LINES[name](x))
    for results in (compiled(x), jax.jit(by_shards)(x)):
        for result, expected in zip(jax.tree.leaves(results), alone, strict=True):
            np.testing.assert_array_equal(result, expected)
