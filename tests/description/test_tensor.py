"""TensorDesc: every rule of DML_BUFFER_TENSOR_DESC, and reading and writing through strides."""

import itertools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY

from dml_jax import (
    DmlError,
    ElementWiseClip,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    calc_buffer_tensor_size,
)

BIG = 2**32 - 1


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "expected"),
    [
        ("FLOAT32", [1, 1, 2, 3], None, 24),
        ("FLOAT16", [5], None, 12),  # 10, rounded up to 4
        ("UINT8", [3], None, 4),
        ("INT64", [3], None, 24),
        ("FLOAT32", [2, 3], [8, 1], 44),  # (8 + 2 + 1) * 4
        ("UINT8", [2, 3], [8, 2], 16),  # 8 + 4 + 1, rounded up
        ("FLOAT32", [100, 100], [0, 0], 4),
        ("UINT8", [2**16, 2**16], [2**16, 2], 2**32 + 2**16 - 4 + 4),  # no 32-bit wrap
        ("UINT4", [8], None, 4),  # whole words of eight elements, where DirectML's helper gives 0
        ("INT4", [9], None, 8),
        ("INT4", [2, 2], [8, 2], 8),  # 11 halves of a byte
        ("FLOAT32", np.array([2, 3]), np.array([3, 2]), 4 * (1 * 3 + 2 * 2 + 1)),
    ],
)
def test_calc_buffer_tensor_size(data_type, sizes, strides, expected):
    assert calc_buffer_tensor_size(data_type, sizes, strides) == expected


def test_defaults_and_properties():
    desc = TensorDesc("FLOAT32", [1, 1, 2, 3])
    assert desc.total_tensor_size_in_bytes == 24
    assert desc.strides is None
    assert desc.packed_strides == (6, 6, 3, 1)
    assert desc.flags == TensorFlags.NONE
    assert desc.dtype == np.float32
    assert desc == TensorDesc(TensorDataType.FLOAT32, tuple(np.array([1, 1, 2, 3])))
    assert desc != TensorDesc("FLOAT32", [1, 1, 2, 3], [6, 6, 3, 1])
    with pytest.raises(AttributeError, match="cannot assign to field"):
        desc.sizes = (1,)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "desc",
    [
        TensorDesc("DML_TENSOR_DATA_TYPE_INT8", [1]),
        TensorDesc("FLOAT16", [2, 3], strides=[4, 1]),
        TensorDesc("FLOAT32", [2], flags="OWNED_BY_DML"),
        TensorDesc(
            "FLOAT32", [2], flags="DML_TENSOR_FLAG_OWNED_BY_DML", total_tensor_size_in_bytes=64
        ),
        TensorDesc("FLOAT64", [1] * 8, guaranteed_base_offset_alignment=16),
    ],
)
def test_round_trips(desc: TensorDesc):
    assert eval(repr(desc)) == desc
    assert TensorDesc.from_json(desc.to_json()) == desc
    assert TensorDesc.from_json({"Type": "BUFFER", "Desc": desc.to_json()}) == desc
    assert hash(TensorDesc.from_json(desc.to_json())) == hash(desc)


GOOD = {"data_type": "FLOAT32", "sizes": [2, 3]}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"data_type": "FLOAT31"}, "DataType", "did you mean 'FLOAT32'"),
        ({"data_type": "UNKNOWN"}, "DataType", "to be known, got UNKNOWN"),
        ({"data_type": 1}, "DataType", "be one of FLOAT32"),
        ({"data_type": np.float16}, "DataType", "did you mean 'FLOAT16'"),
        ({"data_type": jnp.float32}, "DataType", "did you mean 'FLOAT32'"),
        ({"data_type": np.dtype("uint8")}, "DataType", "did you mean 'UINT8'"),
        ({"data_type": None}, "DataType", "UINT4, INT4, got None"),
        ({"data_type": float}, "DataType", "UINT4, INT4, got <class 'float'>"),
        ({"sizes": []}, "DimensionCount", "be in [1, 8], got 0"),
        ({"sizes": [1] * 9}, "DimensionCount", "be in [1, 8], got 9"),
        ({"sizes": [2, 0]}, "Sizes[1]", "be in [1, 4294967295], got 0"),
        ({"sizes": [-2, 3]}, "Sizes[0]", "got -2"),
        ({"sizes": [2**32]}, "Sizes[0]", "got 4294967296"),
        ({"sizes": 6}, "Sizes", "be a list of integers, got 6"),
        ({"sizes": [2.0, 3]}, "Sizes", "be a list of integers"),
        ({"sizes": "23"}, "Sizes", "be a list of integers"),
        ({"sizes": None}, "Sizes", "be a list of integers, got None"),
        ({"sizes": [2**16, 2**16]}, "Sizes", "hold at most 4294967295 elements"),
        (
            {"sizes": [2**16] * 4},
            "Sizes",
            f"hold at most 4294967295 elements, padding included, got {2**64}",
        ),
        ({"sizes": [2**16] * 2, "strides": [0, 0]}, "Sizes", "hold at most 4294967295"),
        ({"strides": [3]}, "Strides", "have 2 elements, as Sizes has, got [3]"),
        ({"strides": [3, -1]}, "Strides[1]", "be in [0, 4294967295], got -1"),
        ({"strides": [2**32, 1]}, "Strides[0]", "got 4294967296"),
        ({"strides": [BIG, 1]}, "Strides", "padding included, got 4294967298"),
        ({"flags": "OWNED_BY"}, "Flags", "did you mean 'OWNED_BY_DML'"),
        ({"flags": "OWNED"}, "Flags", "did you mean 'OWNED_BY_DML'"),
        ({"total_tensor_size_in_bytes": 20}, "TotalTensorSizeInBytes", "be at least 24"),
        ({"total_tensor_size_in_bytes": -1}, "TotalTensorSizeInBytes", "be a UINT64, got -1"),
        ({"total_tensor_size_in_bytes": 24.0}, "TotalTensorSizeInBytes", "be a UINT64"),
        (
            {"total_tensor_size_in_bytes": 4 * BIG + 4},
            "TotalTensorSizeInBytes",
            "at most 4294967295",
        ),
        ({"guaranteed_base_offset_alignment": 2}, "GuaranteedBaseOffsetAlignment", "power of two"),
        ({"guaranteed_base_offset_alignment": 2**32}, "GuaranteedBaseOffsetAlignment", "a UINT"),
        ({"guaranteed_base_offset_alignment": 24}, "GuaranteedBaseOffsetAlignment", "got 24"),
        ({"guaranteed_base_offset_alignment": -4}, "GuaranteedBaseOffsetAlignment", "got -4"),
        ({"guaranteed_base_offset_alignment": 0.0}, "GuaranteedBaseOffsetAlignment", "got 0.0"),
        ({"sizes": {4, 5, 1}}, "Sizes", "be a list of integers"),
        ({"sizes": {2: 3}}, "Sizes", "be a list of integers, got {2: 3}"),
        ({"sizes": [True, 2]}, "Sizes", "be a list of integers, got (True, 2)"),
    ],
)
def test_broken(change: dict, field: str, message: str):
    with pytest.raises(DmlError) as refused:
        TensorDesc(**{**GOOD, **change})
    assert [fault.field for fault in refused.value.faults] == [field]
    assert refused.value.operator == "DML_BUFFER_TENSOR_DESC"
    assert message in str(refused.value)


def test_all_faults_at_once():
    with pytest.raises(DmlError) as refused:
        TensorDesc("FLOAT", [0, 1, -1], [1, 2], flags="X", guaranteed_base_offset_alignment=3)
    fields = [fault.field for fault in refused.value.faults]
    assert fields == [
        "DataType",
        "Flags",
        "Sizes[0]",
        "Sizes[2]",
        "Strides",
        "GuaranteedBaseOffsetAlignment",
    ]


def test_the_largest_tensors():
    assert TensorDesc("FLOAT32", [BIG]).total_tensor_size_in_bytes == 4 * BIG
    assert TensorDesc("UINT8", [BIG]).total_tensor_size_in_bytes == 2**32
    assert TensorDesc("UINT8", [65535, 65537]).span == BIG


@pytest.mark.parametrize(
    ("json", "fields"),
    [
        ({"Sizes": [1]}, ["DataType"]),
        ({"DataType": "FLOAT32"}, ["Sizes"]),
        ({"DataType": "FLOAT32", "Sizes": [1], "DimensionCount": 2}, ["DimensionCount"]),
        ({"DataType": "FLOAT32", "Size": [1]}, ["Size", "Sizes"]),
        ({"Type": "INVALID", "DataType": "FLOAT32", "Sizes": [1]}, ["Type"]),
        ({"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [1]}, "Flags": 0}, ["Flags"]),
        ([], [""]),
        (None, [""]),
        ({"Desc": 1}, [""]),
    ],
)
def test_broken_json(json, fields):
    with pytest.raises(DmlError) as refused:
        TensorDesc.from_json(json)
    assert [fault.field for fault in refused.value.faults] == fields


def addresses(sizes, strides) -> np.ndarray:
    index = np.indices(sizes).reshape(len(sizes), -1)
    return (index * np.reshape(strides, (-1, 1))).sum(0)


layouts = st.integers(1, 4).flatmap(
    lambda rank: st.tuples(
        st.lists(st.integers(1, 5), min_size=rank, max_size=rank),
        st.lists(st.integers(0, 12), min_size=rank, max_size=rank),
        st.integers(0, 9),
    )
)


@settings(max_examples=25 if NIGHTLY else 8)
@given(layout=layouts)
def test_read_and_write_as_numpy_does(layout):
    """Any strides: broadcast, padded, transposed, overlapping."""
    sizes, strides, slack = layout
    desc = TensorDesc("INT16", sizes, strides)
    where = addresses(sizes, strides)
    buffer = np.arange(desc.span + slack, dtype=np.int16) * 3 + 1
    viewed = np.lib.stride_tricks.as_strided(buffer, sizes, [2 * s for s in strides])
    for read in (desc.read, jax.jit(desc.read)):
        np.testing.assert_array_equal(read(buffer), viewed)

    assert desc.has_distinct_addresses == (len(set(where)) == where.size)
    tensor = -1 - np.arange(where.size, dtype=np.int16).reshape(sizes)
    if not desc.has_distinct_addresses:
        with pytest.raises(DmlError, match="an address of its own"):
            desc.write(buffer, tensor)
        return
    expected = buffer.copy()
    expected[where] = np.ravel(tensor)
    for write in (desc.write, jax.jit(desc.write)):
        np.testing.assert_array_equal(write(buffer, tensor), expected)


@pytest.mark.parametrize(
    ("sizes", "strides", "distinct"),
    [
        ([2, 3], [3, 2], True),  # 0 2 4 3 5 7
        ([3, 4], [3, 2], False),  # 3 * 2 == 2 * 3
        ([1, 5], [0, 1], True),  # a stride of 0 moves nothing on a size of 1
        ([2, 5], [0, 1], False),
        ([60000, 50000], [65537, 1], True),
        ([1000, 1001], [1001, 1000], True),
        ([1001, 1002], [1001, 1000], False),
    ],
)
def test_distinct_addresses(sizes, strides, distinct):
    assert TensorDesc("UINT8", sizes, strides).has_distinct_addresses == distinct


def test_outputs_need_addresses_and_no_ownership():
    inside = TensorDesc("FLOAT32", [2, 3])
    for outside, field in (
        (TensorDesc("FLOAT32", [2, 3], [0, 1]), "OutputTensor.Strides"),
        (TensorDesc("FLOAT32", [2, 3], [2, 1]), "OutputTensor.Strides"),
        (TensorDesc("FLOAT32", [2, 3], flags="OWNED_BY_DML"), "OutputTensor.Flags"),
    ):
        with pytest.raises(DmlError) as refused:
            ElementWiseClip(input_tensor=inside, output_tensor=outside, min=0, max=1)
        assert [fault.field for fault in refused.value.faults] == [field]
        ElementWiseClip(input_tensor=outside, output_tensor=inside, min=0, max=1)


def test_wrong_buffers_are_refused():
    desc = TensorDesc("FLOAT32", [2, 3], [4, 1])
    for buffer in (
        jnp.zeros(6, jnp.float32),
        jnp.zeros(7, jnp.int32),
        jnp.zeros((7, 1), jnp.float32),
    ):
        with pytest.raises(DmlError, match="buffer to be flat, float32, of at least 7 elements"):
            desc.read(buffer)
    with pytest.raises(DmlError, match=r"tensor to be FLOAT32\[2,3\] .*, got float32\[3,2\]"):
        desc.write(jnp.zeros(7, jnp.float32), jnp.zeros((3, 2), jnp.float32))
    nested: Any = [[1, 2, 3], [4, 5, 6]]
    for tensor, shown in ((jnp.zeros((2, 3), jnp.int32), r"int32\[2,3\]"), (nested, "a list")):
        with pytest.raises(DmlError, match=rf"tensor to be FLOAT32\[2,3\] .*got {shown}"):
            desc.write(jnp.zeros(7, jnp.float32), tensor)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("FLOAT32", 3), "Sizes to be a list of integers, got 3"),
        (("FLOAT32", None, [1]), "Sizes to be a list of integers, got None"),
        (("FLOAT32", [2, 0]), "Sizes to be integers of at least 1, got [2, 0]"),
        (("FLOAT32", [2], [-1]), "Strides to be integers of at least 0, got [-1]"),
        (("FLOAT32", [2, 3], []), "the number of Strides to be 2, as many as Sizes has, got 0"),
        (("FLOAT33", [2]), "DataType to be one of FLOAT32, "),
    ],
)
def test_a_buffer_of_no_tensor(given: Any, message: str):
    with pytest.raises(DmlError, match=re.escape(f"DMLCalcBufferTensorSize: expected {message}")):
        calc_buffer_tensor_size(*given)


def test_flags_are_known():
    with pytest.raises(ValueError, match="TensorFlags"):
        TensorFlags(2)


def test_a_value_of_thousands_of_digits():
    with pytest.raises(DmlError, match=r"Sizes\[0\] .*got an int that is too long to show"):
        TensorDesc("FLOAT32", [10**5000])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_strides_differentiate(order):
    """Reading is linear, and its transpose adds up what was broadcast."""
    sizes, strides = (2, 3, 4), tuple([20, 5, 0][i] for i in order)
    desc = TensorDesc("FLOAT32", sizes, strides)
    buffer = jnp.arange(desc.span, dtype=jnp.float32)
    gradient = jax.grad(lambda b: desc.read(b).sum())(buffer)
    np.testing.assert_array_equal(
        gradient, np.bincount(addresses(sizes, strides), minlength=desc.span)
    )
