"""Operators as functions of arrays, under DirectMLX's names, argument order and defaults.

Sizes and types are read from the arrays; the descriptor is built, checked and kept, so that a later
call of the same shapes costs a dictionary look-up. On expressions of a `GraphBuilder` the same
functions add a node. Each raises `DmlError` for what its operator does not take.
"""

import functools
from collections.abc import Sequence
from typing import Any, TypeVar

import jax

from dml_jax.descriptor import ScaleBias
from dml_jax.enums import AxisDirection, DepthSpaceOrder, ReduceFunction, TensorDataType
from dml_jax.graph import Expression
from dml_jax.operator import Operator
from dml_jax.operators import (
    Argmax,
    Argmin,
    DepthToSpace1,
    ElementWiseClip,
    ElementWiseClipGrad,
    Join,
    Reduce,
    SpaceToDepth1,
    Split,
    Tile,
)
from dml_jax.tensor import TensorDesc

# What goes in comes out: arrays for arrays, expressions for expressions.
Value = TypeVar("Value", jax.Array, Expression)


@functools.lru_cache(maxsize=4096)
def _described(dtype: Any, shape: tuple[int, ...]) -> TensorDesc:
    return TensorDesc(TensorDataType.of_dtype(dtype), shape)


def _desc(value: Any) -> TensorDesc:
    if isinstance(value, Expression):
        return value.desc
    if not hasattr(value, "dtype"):
        raise TypeError(f"expected an array or an Expression, got a {type(value).__name__}")
    return _described(value.dtype, value.shape)


def _apply(op: Operator, *values: Any) -> Any:
    for value in values:
        if isinstance(value, Expression):
            return value.builder.apply(op, *values)
    return op(*values)


_descriptors: dict[Any, Operator] = {}


def _inferred(cls: type[Operator], **fields: Any) -> Any:
    """`cls.infer(**fields)`, kept by the fields; floats by their bits, as descriptors are equal."""
    key = (cls, *(v.hex() if isinstance(v, float) else v for v in fields.values()))
    op = _descriptors.get(key)
    if op is None:
        if len(_descriptors) >= 4096:
            _descriptors.clear()
        op = _descriptors[key] = cls.infer(**fields)
    return op


def split(input: Value, axis: int, output_axis_sizes: Sequence[int]) -> tuple[Value, ...]:
    """The consecutive pieces of `input` along `axis`, of the given sizes. DML_OPERATOR_SPLIT."""
    op = _split(_desc(input), axis, tuple(output_axis_sizes))
    return _apply(op, input)


@functools.lru_cache(maxsize=4096)
def _split(tensor: TensorDesc, axis: int, pieces: tuple[int, ...]) -> Split:
    sizes, data_type = tensor.sizes, tensor.data_type
    outputs = [TensorDesc(data_type, (*sizes[:axis], n, *sizes[axis + 1 :])) for n in pieces]
    return Split(input_tensor=tensor, output_tensors=outputs, axis=axis)


def join(inputs: Sequence[Value], axis: int) -> Value:
    """The concatenation of `inputs` along `axis`. DML_OPERATOR_JOIN."""
    op = _inferred(Join, input_tensors=tuple(map(_desc, inputs)), axis=axis)
    return _apply(op, *inputs)


def tile(input: Value, repeats: Sequence[int]) -> Value:
    """`input` repeated along each dimension. DML_OPERATOR_TILE."""
    return _apply(_inferred(Tile, input_tensor=_desc(input), repeats=tuple(repeats)), input)


def clip(input: Value, min: float, max: float, scale_bias: ScaleBias | None = None) -> Value:
    """`max(min, min(g(input), max))`, `g(x) = x * scale + bias`. DML_OPERATOR_ELEMENT_WISE_CLIP."""
    fields = {"scale_bias": scale_bias, "min": float(min), "max": float(max)}
    return _apply(_inferred(ElementWiseClip, input_tensor=_desc(input), **fields), input)


def clip_grad(input: Value, input_gradient: Value, min: float, max: float) -> Value:
    """`input_gradient` where `input` is strictly within the bounds, else 0.

    DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD.
    """
    tensors = {"input_tensor": _desc(input), "input_gradient_tensor": _desc(input_gradient)}
    op = _inferred(ElementWiseClipGrad, **tensors, min=float(min), max=float(max))
    return _apply(op, input, input_gradient)


def depth_to_space(
    input: Value,
    block_size: int,
    order: DepthSpaceOrder | str = DepthSpaceOrder.DEPTH_COLUMN_ROW,
) -> Value:
    """[N, C * B * B, H, W] -> [N, C, H * B, W * B]. DML_OPERATOR_DEPTH_TO_SPACE1."""
    fields = {"block_size": block_size, "order": order}
    return _apply(_inferred(DepthToSpace1, input_tensor=_desc(input), **fields), input)


def space_to_depth(
    input: Value,
    block_size: int,
    order: DepthSpaceOrder | str = DepthSpaceOrder.DEPTH_COLUMN_ROW,
) -> Value:
    """[N, C, H * B, W * B] -> [N, C * B * B, H, W]. DML_OPERATOR_SPACE_TO_DEPTH1."""
    fields = {"block_size": block_size, "order": order}
    return _apply(_inferred(SpaceToDepth1, input_tensor=_desc(input), **fields), input)


def reduce(
    input: Value, function: ReduceFunction | str, axes: Sequence[int] | None = None
) -> Value:
    """`function` over `axes` (None or empty: all), which stay as size 1. DML_OPERATOR_REDUCE.

    ARGMAX and ARGMIN give UINT32, as in DirectMLX.
    """
    tensor, function = _desc(input), ReduceFunction.of(function)
    indices = function in (ReduceFunction.ARGMAX, ReduceFunction.ARGMIN)
    op = _inferred(
        Reduce,
        output_data_type="UINT32" if indices else None,
        function=function,
        input_tensor=tensor,
        axes=tuple(axes or range(tensor.dimension_count)),
    )
    return _apply(op, input)


def argmax(
    input: Value,
    axes: Sequence[int] | None = None,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    output_data_type: TensorDataType | str = TensorDataType.UINT32,
) -> Value:
    """The index of the largest element over `axes` (None or empty: all). DML_OPERATOR_ARGMAX."""
    return _arg(Argmax, input, axes, axis_direction, output_data_type)


def argmin(
    input: Value,
    axes: Sequence[int] | None = None,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    output_data_type: TensorDataType | str = TensorDataType.UINT32,
) -> Value:
    """The index of the smallest element over `axes` (None or empty: all). DML_OPERATOR_ARGMIN."""
    return _arg(Argmin, input, axes, axis_direction, output_data_type)


def _arg(cls: Any, input: Any, axes: Any, axis_direction: Any, output_data_type: Any) -> Any:
    tensor = _desc(input)
    op = _inferred(
        cls,
        output_data_type=output_data_type,
        input_tensor=tensor,
        axes=tuple(axes or range(tensor.dimension_count)),
        axis_direction=axis_direction,
    )
    return _apply(op, input)
