"""Operators that make tensors from numbers: published vectors, ends of types, and no inputs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from documented_facts import DOCUMENTED

import dml_jax
from dml_jax import TensorDesc
from dml_jax.operator import operator_from_json
from dml_jax.operators import DiagonalMatrix, FillValueConstant, FillValueSequence, RandomGenerator

PHILOX = DOCUMENTED["DML_OPERATOR_RANDOM_GENERATOR"]


def random_generator(*sizes: int) -> RandomGenerator:
    state = TensorDesc("UINT32", [6])
    return RandomGenerator.infer(
        input_state_tensor=state, output_sizes=sizes, type="PHILOX_4X32_10"
    )


@pytest.mark.parametrize("vector", PHILOX["reference_vectors"])
def test_random_numbers_are_random123s(vector: dict[str, list[int]]):
    state = np.array(vector["counter"] + vector["key"], np.uint32)
    values, _ = random_generator(4)(state)
    assert values.tolist() == vector["output"]


@pytest.mark.parametrize("example", PHILOX["counter_examples"])
def test_the_counter_advances_by_a_quarter_of_the_elements(example: dict[str, Any]):
    before, after = (int(example[f"counter_{when}"], 16) for when in ("before", "after"))
    words = [before >> 32 * k & 0xFFFFFFFF for k in range(4)]
    op = random_generator(*example["output_sizes"])
    state = np.array([*words, 5, 6], np.uint32)
    advanced = jax.jit(lambda x: op(x)[1])(state).tolist()
    assert sum(word << 32 * k for k, word in enumerate(advanced[:4])) == after
    assert advanced[4:] == [5, 6]


@pytest.mark.parametrize("ones", range(5))
def test_a_counter_carries_into_the_words_above(ones: int):
    """The numbers after a carry are those of the counter that the carry makes."""
    before = [2**32 - 1] * ones + [7] * (4 - ones)
    after = [0] * ones + [8] * (ones < 4) + [7] * (3 - ones) if ones else [8, 7, 7, 7]
    values, state = random_generator(8)(np.array([*before, 1, 2], np.uint32))
    one_by_one = [random_generator(4)(np.array([*c, 1, 2], np.uint32))[0] for c in (before, after)]
    assert values.tolist() == np.concatenate(one_by_one).tolist()
    assert state.tolist() == [after[0] + 1, *after[1:], 1, 2]


def test_the_next_state_continues_the_numbers():
    state = np.array([2**32 - 2, 0, 0, 0, 3, 4], np.uint32)
    whole, _ = random_generator(24)(state)
    first, state = random_generator(2, 6)(state)
    second, _ = random_generator(12)(state)
    assert [*first.ravel().tolist(), *second.tolist()] == whole.tolist()


def test_floats_do_not_add_up_errors(no_x64: None):
    """The last of many steps is the product, rounded once, and 64-bit types may be off."""
    count = 100_003
    cases = ("FLOAT32", -1e4, 0.1), ("FLOAT16", -1.0, 2**-16), ("FLOAT16", 1.0, 2**-24)
    for type_, start, delta in cases:  # the last ones pass midpoints that FLOAT32 rounds to
        dtype = np.dtype(type_.lower())
        made = np.asarray(dml_jax.fill_value_sequence([count], type_, start, delta))
        wide = [float(dtype.type(v)) for v in (start, delta)]
        expected = wide[0] + np.arange(count) * wide[1]
        np.testing.assert_array_equal(made, expected.astype(dtype))


def test_numbers_in_json_may_be_the_bits_of_float16():
    fields = {
        "OutputTensor": {"DataType": "FLOAT16", "Sizes": [3]},
        "ValueDataType": "DML_TENSOR_DATA_TYPE_FLOAT16",
        "ValueStart": {"UInt16": 0x3C00},
        "ValueDelta": {"UInt16": 0xB800},
    }
    op = operator_from_json({"Type": "DML_OPERATOR_FILL_VALUE_SEQUENCE", "Desc": fields})
    assert op().tolist() == [1, 0.5, 0]


def test_distances_do_not_overflow():
    """The ends of INT are offsets as any other, and bands without an end."""
    least, most = -(2**31), 2**31 - 1
    for offset in (least, most):
        op = DiagonalMatrix(output_tensor=TensorDesc("INT8", [3, 3]), offset=offset, value=1)
        assert not op().any()
    everywhere = dml_jax.diagonal_matrix([3, 3], "FLOAT32", 1, least, most)
    assert everywhere.all()
    inverted = dml_jax.diagonal_matrix([3, 3], "FLOAT32", 1, most, least)
    assert not inverted.any()


def test_operators_without_inputs_are_parts_of_programs():
    fill = FillValueConstant.infer(output_sizes=[3], value_data_type="FLOAT32", value=2)
    count = FillValueSequence.infer(
        output_sizes=[3], value_data_type="FLOAT32", value_start=1, value_delta=1
    )
    x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)

    def program(x: jax.Array) -> jax.Array:
        return (x * count() + fill()).sum()

    assert jax.vmap(program)(x).tolist() == [14, 32]
    assert jax.grad(program)(x[0]).tolist() == [1, 2, 3]
    assert dml_jax.compile(count)().tolist() == [1, 2, 3]
