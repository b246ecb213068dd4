"""The declarations say what the documentation says, and the worked examples come out."""

import json
from typing import Any

import jax
import numpy as np
import pytest
from documented_facts import DOCUMENTED, ENUMS, Example, examples
from records import record_of

import dml_jax
from dml_jax import OPERATORS, DmlError, TensorDesc, enums
from dml_jax.dxdispatch.executor import Executor
from dml_jax.dxdispatch.parsing import parse_model
from dml_jax.enums import Enumeration, FeatureLevel, TensorDataType, TensorFlags

CONSTRAINTS = [(n, c) for n in DOCUMENTED for c in DOCUMENTED[n].get("constraints", ())]


@pytest.mark.parametrize(
    ("name", "constraint"), CONSTRAINTS, ids=[f"{n[13:]}: {c['rule']}" for n, c in CONSTRAINTS]
)
def test_what_breaks_a_constraint_is_refused(name: str, constraint: dict[str, Any]):
    """By its fields; the descriptor of tensors of one element, but for that, is taken."""
    op_class = OPERATORS[name]
    group, rows = next(iter(op_class.support.groups.items()))
    types = {
        field: next(t.name for t in types if t.name in ("FLOAT32", "UINT32"))
        for field, types in rows[0].types.items()
    }
    good = record_of(op_class).simplest(op_class, 4, types, group).to_json()["Desc"]
    assert OPERATORS[name].from_json(good)
    with pytest.raises(DmlError) as refused:
        OPERATORS[name].from_json({**good, **constraint["broken"]})
    assert [f.field for f in refused.value.faults] == constraint["fields"]
    assert refused.value.operator == name


@pytest.mark.parametrize("name", [n for n in ENUMS if n.startswith("DML_") and "_bits" not in n])
def test_enumerations_have_the_headers_values(name: str):
    if name == "DML_TENSOR_FLAGS":
        members = {f"DML_TENSOR_FLAG_{m.name}": m.value for m in (TensorFlags(0), *TensorFlags)}
        assert members == ENUMS[name]
        return
    (cls,) = (
        cls
        for cls in vars(enums).values()
        if isinstance(cls, type)
        and issubclass(cls, Enumeration)
        and vars(cls).get("prefix") == name
    )
    assert {member.full_name: member.value for member in cls} == ENUMS[name]


def test_data_types_have_their_bits():
    documented = ENUMS["DML_TENSOR_DATA_TYPE_bits"]
    assert {t.full_name: t.bits or None for t in TensorDataType} == documented
    for data_type in TensorDataType:
        if data_type.element_size:
            assert data_type.dtype.itemsize == data_type.element_size
            assert TensorDataType.of_dtype(data_type.dtype) == data_type


@pytest.mark.parametrize("cls", [enums.ReduceFunction, FeatureLevel, TensorDataType])
def test_members_are_taken_by_member_suffix_and_full_name(cls: type[Enumeration]):
    for member in cls:
        assert cls.of(member) is cls.of(member.suffix) is cls.of(member.full_name) is member
    for wrong in ("sum_", "", 1, None, [], cls.prefix):
        with pytest.raises(DmlError, match=f"{cls.prefix}: expected value to be one of"):
            cls.of(wrong)  # pyright: ignore[reportArgumentType]


EXAMPLES = dict(examples())


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_worked_example(example: Example):
    op, inputs, outputs = example
    for call in (op, jax.jit(op)):
        results = call(*inputs)
        of_list = any(f.is_array for f in op.outputs_of())
        assert isinstance(results, tuple) == (of_list or len(outputs) > 1)
        results = results if isinstance(results, tuple) else (results,)
        for result, output in zip(results, outputs, strict=True):
            assert result.dtype == output.dtype
            if output.dtype.kind == "f":
                near = {"rtol": 4 * np.finfo(output.dtype).eps, "atol": np.finfo(np.float32).tiny}
                np.testing.assert_allclose(result, output, **near)
            else:
                np.testing.assert_array_equal(result, output)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_worked_example_as_a_model(example: Example, tmp_path):
    op, inputs, outputs = example
    resources, bindings, commands = {}, {}, []
    arrays = {False: iter(inputs), True: iter(outputs)}
    for f in op.fields:
        if f.tensor is not None:
            names = []
            value = getattr(op, f.name)
            for index in range(len(value) if f.is_array else int(value is not None)):
                array = next(arrays[f.tensor.output])
                initial = {"valueCount": array.size, "value": 99}
                resources[f"{f.c_name}{index}"] = {
                    "initialValuesDataType": array.dtype.name.upper(),
                    "initialValues": initial if f.tensor.output else array.ravel().tolist(),
                }
                names.append(f"{f.c_name}{index}")
                if f.tensor.output:
                    commands.append({"type": "print", "resource": names[-1]})
            if names:
                bindings[f.c_name] = names if f.is_array else names[0]
    model = {
        "resources": resources,
        "dispatchables": {"op": {"type": op.c_name, "desc": op.to_json()["Desc"]}},
        "commands": [{"type": "dispatch", "dispatchable": "op", "bindings": bindings}, *commands],
    }
    lines: list[str] = []
    parsed = parse_model(json.loads(json.dumps(model)), tmp_path)
    Executor(parsed, jax.devices()[0], lines.append).run()
    printed = [line.partition(": ")[2] for line in lines if line.startswith("Resource")]
    for line, output in zip(printed, outputs, strict=True):
        values = [float(value) for value in line.split(", ")]
        np.testing.assert_allclose(values, output.ravel(), rtol=1e-5, atol=1e-37)  # as %g prints


def test_public_names_are_there():
    for name in dml_jax.__all__:
        assert getattr(dml_jax, name).__doc__
    assert TensorDesc.of(np.zeros((2, 3), np.float16)) == TensorDesc("FLOAT16", [2, 3])
