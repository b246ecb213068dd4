"""All elements of the narrow types, through every operator that maps one tensor by element."""

from typing import Any

import numpy as np
import pytest
from forms import compiled_soon
from records import records

from dml_jax import TensorDesc
from dml_jax.operator import OPERATORS, Operator

UNARY = [
    pytest.param(op, id=op.short_name)
    for op in OPERATORS.values()
    if op.by_element and len([f for f in op.fields if f.tensor and not f.tensor.output]) == 1
]


def every(type_: str) -> np.ndarray:
    """Return all elements of a type of 8 or 16 bits."""
    bits = 16 if type_.endswith("16") else 8
    return np.arange(2**bits, dtype=f"uint{bits}").view(type_.lower())


@pytest.mark.parametrize("op_class", UNARY)
def test_every_element_of_a_narrow_type(op_class: type[Operator]):
    """FLOAT16 within one unit of the last place, 8 bits exactly, against NumPy in float64."""
    record, rng = records()[op_class.short_name], np.random.default_rng(1)
    row = next(iter(op_class.support.groups.values()))[0]
    types = [t.name for t in row.types["input_tensor"] if t.name in ("FLOAT16", "INT8", "UINT8")]
    assert types or op_class.by_element
    for type_ in types:
        output = row.types["output_tensor"]
        made = type_ if type_ in [t.name for t in output] else output[0].name
        x = every(type_)
        drawn = record.fields(rng, op_class, {"input_tensor": type_, "output_tensor": made})
        plain = [f.name for f in op_class.fields if not f.tensor and not f.optional]
        fields: dict[str, Any] = {name: drawn[name] for name in plain}
        tensor = TensorDesc(type_, x.shape)
        op = op_class.infer(input_tensor=tensor, output_data_type=made, **fields)
        result = np.asarray(compiled_soon(op)(x))
        with np.errstate(over="ignore"):
            expected = record.expected(op, [x])[0].astype(result.dtype)
        if result.dtype.kind in "iu":
            np.testing.assert_array_equal(result, expected)
            continue
        both = np.isnan(result) & np.isnan(expected)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(result.astype(float) - expected.astype(float))
            near = apart <= np.spacing(np.abs(expected)).astype(float)
        wrong = ~(both | (result == expected) | near)
        assert not wrong.any(), (op, x[wrong][:5], result[wrong][:5], expected[wrong][:5])
