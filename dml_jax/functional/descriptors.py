"""The operator of the arrays and attributes of a call, in FLOAT32 for bfloat16."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType, is_bfloat16
from dml_jax.errors import DmlError, Fault, Unquoted, moving
from dml_jax.functional import hints
from dml_jax.functional.cache_keys import NUMBERS
from dml_jax.functional.inputs import dtype_of, flat, normalised, paths_of, shape_of
from dml_jax.graph import Expression
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.operator import Operator


class Arguments(NamedTuple):
    """The arguments of a call, by the fields of a version of its operator.

    Attributes:
        operator: the version.
        inputs: the arrays.
        values: the attributes.
        types: the types of the inputs that are Python numbers or arrays of bool.
        targets: the sizes to which inputs are broadcast.
        fitted: the sizes that inputs have in the ranks of the operator.
        result: the sizes of each result of the call; None leaves those of the outputs.
        origins: the argument of each field.
        is_narrow: whether bfloat16 takes part.
        is_fitted: whether inputs take other ranks or types than the arrays have.
        beyond: whether the operator may lie beyond DirectML.
    """

    operator: type[Operator]
    inputs: Mapping[str, Any]
    values: Mapping[str, Any]
    types: Mapping[str, np.dtype]
    targets: Mapping[str, tuple[int, ...]]
    fitted: Mapping[str, tuple[int, ...]]
    result: tuple[int, ...] | None
    origins: Mapping[str, str]
    is_narrow: bool
    is_fitted: bool
    beyond: bool

    @property
    def rank(self) -> int:
        """Return the number of dimensions of the first array that has some."""
        shapes = (shape_of(array) for array in flat(self.inputs))
        return next((len(shape) for shape in shapes if shape is not None), 0)


def operator_of(arguments: Arguments, narrow: np.dtype) -> Operator:
    """Return the operator of a call, with the type `narrow` for bfloat16."""
    operator, inputs, rank = arguments.operator, arguments.inputs, arguments.rank
    paths = {
        path: {t.name for t in operator.contract.types_of(f.name)}
        for f in operator.fields
        if f.name in inputs
        for path, array in paths_of(f, inputs[f.name])
        if not isinstance(array, Expression)  # which has no methods of arrays
    }
    try:
        fields = fields_of(arguments, narrow)
        return operator.infer_from(**fields, **{"beyond": True} if arguments.beyond else {})
    except DmlError as error:
        lists = [f for f in operator.fields if f.count == operator.spatial_count]
        spatial = {f.c_name: arguments.values.get(f.name) for f in lists}
        faults = hints.of_lists(operator.c_name, error.faults, spatial, rank - 2)
        dtypes = (narrow if d == BFLOAT16 else d for d in map(dtype_of, flat(inputs)))
        beside = next((str(d).upper() for d in dtypes if d not in (None, np.bool_)), "")
        raise DmlError(hints.cured(faults, paths, rank, beside)) from None


def fields_of(arguments: Arguments, narrow: np.dtype) -> dict[str, Any]:
    """Return the fields that `Operator.infer_from` takes, with the type `narrow` for bfloat16."""
    operator, inputs, rank = arguments.operator, arguments.inputs, arguments.rank
    fields: dict[str, Any] = {}
    for f in operator.fields:
        if f.name not in inputs:
            continue
        descs = []
        for path, array in paths_of(f, inputs[f.name]):
            dtype = arguments.types.get(f.name, dtype_of(array))
            dtype = narrow if dtype == BFLOAT16 else dtype
            target, sizes = arguments.targets.get(f.name), arguments.fitted.get(f.name)
            ones = (1,) * (rank if target is None else len(target))
            shape = ones if isinstance(array, NUMBERS) else array.shape
            with moving(operator.c_name, path):
                descs.append(_tensor_desc(array, dtype, shape, target, sizes, arguments.beyond))
        fields[f.name] = tuple(descs) if f.is_array else descs[0]
    for name, value in normalised(operator, arguments.values, rank).items():
        is_narrow = narrow != BFLOAT16 and is_bfloat16(value)
        fields[name] = np.dtype(narrow).name.upper() if is_narrow else value
    return fields


def _tensor_desc(
    array: Any,
    dtype: Any,
    shape: tuple[int, ...],
    target: tuple[int, ...] | None,
    fitted: tuple[int, ...] | None,
    beyond: bool,
) -> TensorDesc:
    """Return the description of an array that is broadcast to `target`, in the sizes `fitted`."""

    def of_sizes(sizes: tuple[int, ...], strides: tuple[int, ...] | None = None) -> TensorDesc:
        return TensorDesc(TensorDataType.of_dtype(dtype, beyond), sizes, strides, beyond=beyond)

    if fitted is not None and isinstance(array, Expression):
        return _with_sizes(_tensor_desc(array, dtype, shape, target, None, beyond), fitted)
    if fitted is not None and isinstance(array, NUMBERS):
        return _tensor_desc(array, dtype, (1,) * len(fitted), fitted, None, beyond)
    if fitted is not None:
        return of_sizes(fitted)
    desc = array.desc if isinstance(array, Expression) else None
    if target is None or target == shape:
        return desc or of_sizes(shape)
    steps = desc.strides if desc and desc.strides else None
    strides = _strides_of_broadcast(shape, target, steps)
    if desc is None:
        return of_sizes(target, strides)
    total = desc.total_tensor_size_in_bytes
    return desc.replace(
        sizes=target, strides=strides, total_tensor_size_in_bytes=total, beyond=beyond
    )


def _with_sizes(desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """Return the description of the same elements in other sizes."""
    more = len(sizes) - desc.dimension_count
    if more == 0 or desc.strides is None:
        return desc if desc.sizes == sizes else desc.replace(sizes=sizes)
    if sizes != (1,) * more + desc.sizes:
        return desc  # no strides read these elements in such sizes; the rank is refused
    return desc.replace(sizes=sizes, strides=(0,) * more + desc.strides)


def _strides_of_broadcast(
    shape: Sequence[int], target: Sequence[int], steps: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the strides by which memory of `shape` is read as `target`; `steps` are its own."""
    strides, packed = [0] * len(target), 1
    for d in range(1, len(shape) + 1):
        step = packed if steps is None else steps[-d]
        strides[-d] = 0 if shape[-d] == 1 and target[-d] != 1 else step
        packed *= shape[-d]
    return tuple(strides)


def in_float32(
    make: Callable[[np.dtype], Operator], inputs: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[Operator, tuple[bool, ...]]:
    """Return the operator that computes bfloat16 in FLOAT32, and which of its results are rounded.

    FLOAT16 in place of bfloat16 says which: the results that it turns into FLOAT16.
    """
    note = " (bfloat16, which DirectML lacks, is computed as FLOAT32)"
    try:
        op = make(np.dtype(np.float32))
    except DmlError as error:
        rules = (f.rule.replace("('float32') c", "('bfloat16') c") + note for f in error.faults)
        faults = (replace(f, rule=r) for f, r in zip(error.faults, rules, strict=True))
        raise DmlError(faults) from None
    try:
        half = make(np.dtype(np.float16))
    except DmlError as error:
        if np.dtype(np.float32) in map(dtype_of, flat(inputs)):
            is_narrow = error.value == "FLOAT16"
            to, got = ("float32", Unquoted("bfloat16")) if is_narrow else ("bfloat16", error.value)
            rule = f"be of one type with the others (x.astype('{to}') converts)"
            raise DmlError([Fault(op.c_name, error.field, rule, got)]) from None
        is_asked = values.get("output_data_type") is not None
        return op, tuple(t.data_type.name == "FLOAT32" and not is_asked for t in op.outputs)
    pairs = zip(op.outputs, half.outputs, strict=True)
    return op, tuple(
        (a.data_type.name, b.data_type.name) == ("FLOAT32", "FLOAT16") for a, b in pairs
    )
