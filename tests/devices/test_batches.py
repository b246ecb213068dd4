"""A batch that is spread over eight devices: operators that treat it by itself send nothing.

The record of an operator says where its batch is (`Record.batch`). A description is taken only if
by the record's reference no part of the batch has influence on another.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import pytest
from devices.test_sharding import collectives
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from records import Record, combinations, records
from several_devices import SEVERAL

from dml_jax import DmlError, TensorDesc
from dml_jax.operator import OPERATORS, Operator

DEVICES = 8
PARTS = np.array([0, 1, 1, 0, 1, 0, 0, 1], bool)  # neighbours, and their neighbours, differ
TRIES = 400
FAMILIES = sorted({op.family for op in OPERATORS.values()})
Dimensions = Mapping[str, int | None]


def widened(op: Operator, dimensions: Dimensions) -> Operator | None:
    """Return the operator with a batch `DEVICES` times as large; None where that is none."""
    fields: dict[str, Any] = {}
    counts: set[int] = set()
    axes = {getattr(op, "axis", None), *getattr(op, "axes", ())}
    if dimensions.get("input_tensor", dimensions.get("")) in axes - {None}:
        return None
    for f in op.fields:
        value = getattr(op, f.name)
        d = dimensions.get(f.name, dimensions.get("") if f.tensor else None)
        if value is None or d is None:
            continue
        if not f.tensor:
            fields[f.name] = [n * DEVICES if i == d else n for i, n in enumerate(value)]
            continue
        tensors: list[TensorDesc] = list(value) if f.is_array else [value]
        made = []
        for tensor in tensors:
            sizes = list(tensor.sizes)
            if not -len(sizes) <= d < len(sizes):
                return None
            counts.add(sizes[d])
            sizes[d] *= DEVICES
            made.append(TensorDesc(tensor.data_type, sizes))
        fields[f.name] = made if f.is_array else made[0]
    try:
        return op.replace(**fields) if len(counts) == 1 else None
    except DmlError:
        return None


def placed(op: Operator, dimensions: Dimensions, output: bool) -> list[int | None]:
    """Return the dimension of the batch of each input, or of each output."""
    return [dimensions.get(name, dimensions.get("")) for _, name, _ in op.tensors(output=output)]


def is_by_itself(
    record: Record, rng: np.random.Generator, op: Operator, dimensions: Dimensions
) -> bool:
    """Return whether no part of the batch has influence on another, by the record's reference."""
    inputs, outputs = (placed(op, dimensions, output) for output in (False, True))
    if all(d is None for d in inputs) or None in outputs:
        return False
    arrays, others = record.arrays(rng, op), record.arrays(rng, op)
    others = [a if d is None else b for a, b, d in zip(arrays, others, inputs, strict=True)]
    both = [mixed(a, b, d) for a, b, d in zip(arrays, others, inputs, strict=True)]
    results = [record.expected(op, xs) for xs in (arrays, others, both)]
    return all(
        np.array_equal(mixed(a, b, d), c, equal_nan=True)
        for a, b, c, d in zip(*results, outputs, strict=True)
    )


def mixed(a: np.ndarray, b: np.ndarray, d: int | None) -> np.ndarray:
    """Return the parts of the batch, at dimension `d`, of `a` or of `b`."""
    if d is None:
        return a
    chosen = np.repeat(PARTS, a.shape[d] // DEVICES)
    return np.where(chosen.reshape(-1, *[1] * (a.ndim - 1 - d % a.ndim)), b, a)


def spread(op_class: type[Operator], dimensions: Dimensions) -> Operator:
    """Return a random operator whose batch, at `dimensions`, is treated by itself."""
    record = records()[op_class.short_name]
    rng = np.random.default_rng(zlib.crc32(op_class.short_name.encode()))
    every = [types for types, _ in combinations(op_class, record)]
    some = [types for types in every if "FLOAT32" in types.values()] or every
    for _ in range(TRIES):
        drawn = record.operator(rng, op_class, some[int(rng.integers(len(some)))])
        op = widened(drawn, dimensions)
        if op is not None and all(is_by_itself(record, rng, op, dimensions) for _ in range(3)):
            return op
    pytest.fail(f"no batch of {op_class.c_name} is at {dict(dimensions)}")


def cases(family: str) -> list[tuple[Operator, list[int | None]]]:
    """Return operators of a family with the dimension of the batch of each input."""
    found = []
    for op_class in OPERATORS.values():
        batch = records()[op_class.short_name].batch
        if op_class.family == family and not isinstance(batch, str):
            for dimensions in batch:
                op = spread(op_class, dimensions)
                found.append((op, placed(op, dimensions, output=False)))
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_that_is_treated_by_itself_is_not_sent(family: str):
    """Each device computes its part of the results from its part of the inputs."""
    kinds = (AxisType.Auto,)
    mesh = jax.make_mesh((DEVICES,), ("batch",), axis_types=kinds, devices=SEVERAL[:DEVICES])
    for op, dimensions in cases(family):
        inputs = []
        for tensor, d in zip(op.inputs, dimensions, strict=True):
            before = [] if d is None else [None] * (d % tensor.dimension_count)
            sharding = NamedSharding(mesh, P() if d is None else P(*before, "batch"))
            inputs.append(jax.ShapeDtypeStruct(tensor.sizes, tensor.dtype, sharding=sharding))
        assert collectives(op, *inputs) == [], op


def test_operators_without_a_batch_say_why():
    """None of their descriptions has one at the first dimension of all tensors."""
    without = {name for name, record in records().items() if isinstance(record.batch, str)}
    assert len(without) < len(OPERATORS) / 20
    for name in without:
        record, op_class = records()[name], OPERATORS[f"DML_OPERATOR_{name}"]
        assert record.batch
        with pytest.raises(pytest.fail.Exception, match="no batch"):
            spread(op_class, {"": 0})
