"""Operators as functions of arrays, under DirectMLX's names, argument order and defaults.

Sizes and types are read from the arrays; the descriptor is built, checked and kept, so that a later
call of the same shapes costs a dictionary look-up. On expressions of a `GraphBuilder` the same
functions add a node. Each raises `DmlError` for what its operator does not take.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from jax.typing import ArrayLike

from dml_jax.descriptor import ScaleBias
from dml_jax.enums import AxisDirection, DepthSpaceOrder, ReduceFunction, TensorDataType
from dml_jax.errors import DmlError, Fault, items_of
from dml_jax.fields import Integer
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
from dml_jax.tensor import Integers, TensorDesc, is_array, shown_array

# What goes in comes out: arrays for arrays (of NumPy, too), expressions for expressions.
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default Python has from 3.13 on

    Value = TypeVar("Value", jax.Array, Expression, default=jax.Array)
else:
    Value = TypeVar("Value", jax.Array, Expression)
Given = Value | ArrayLike


@functools.lru_cache(maxsize=4096)
def _described(dtype: Any, shape: tuple[int, ...]) -> TensorDesc:
    return TensorDesc(TensorDataType.of_dtype(dtype), shape)


def _desc(operator: type[Operator], value: Any, field: str = "InputTensor") -> TensorDesc:
    if isinstance(value, Expression):
        return value.desc
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        rule = "be an array (jax.numpy.asarray makes one) or an Expression"
        raise DmlError([Fault(operator.c_name, field, rule, shown_array(value))])
    try:
        return _described(value.dtype, value.shape)
    except DmlError as error:
        raise DmlError(error.moved(operator.c_name, field)) from None


_descriptors: dict[Any, Operator] = {}


def _key(value: Any) -> Any:
    """What a field is kept by: floats by their bits, and 1, 1.0 and True apart."""
    if isinstance(value, (float, np.floating)):
        return type(value), float(value).hex()
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return type(value), value


def _kept(make: Callable[..., Any], **fields: Any) -> Any:
    """`make(**fields)`, made once."""
    key = (make, *map(_key, fields.values()))
    try:
        op = _descriptors.get(key)
    except TypeError:  # something that has no hash is no field either: let it be refused
        return make(**fields)
    if op is None:
        if len(_descriptors) >= 4096:
            _descriptors.clear()
        op = _descriptors[key] = make(**fields)
    return op


def _listed(operator: type[Operator], field: str, values: Any, of: str = "") -> tuple[Any, ...]:
    try:
        return items_of(values, of)
    except DmlError as error:
        raise DmlError(error.moved(operator.c_name, field)) from None


def split(input: Given[Value], axis: int, output_axis_sizes: Integers) -> tuple[Value, ...]:
    """The consecutive pieces of `input` along `axis`, of these sizes, which add up to its own.

    DML_OPERATOR_SPLIT.
    """
    pieces = _listed(Split, "OutputTensors", output_axis_sizes, " of sizes along the axis")
    return _kept(_split, tensor=_desc(Split, input), axis=axis, pieces=pieces)(input)


def _split(tensor: TensorDesc, axis: Any, pieces: tuple[int, ...]) -> Split:
    sizes, outputs = tensor.sizes, [tensor]
    try:
        axis = Integer(0, len(sizes) - 1).convert(axis)
    except DmlError:
        pass  # that is what is wrong
    else:
        outputs, faults = [], []
        for index, piece in enumerate(pieces):
            try:
                shape = (*sizes[:axis], piece, *sizes[axis + 1 :])
                outputs.append(TensorDesc(tensor.data_type, shape))
            except DmlError as error:
                faults += error.moved(Split.c_name, f"OutputTensors[{index}]")
        if faults:
            raise DmlError(faults)
    return Split(input_tensor=tensor, output_tensors=outputs, axis=axis)


def join(inputs: Sequence[Given[Value]], axis: int) -> Value:
    """The concatenation of `inputs` along `axis`. DML_OPERATOR_JOIN."""
    if is_array(inputs):  # or its slices would be joined
        got = shown_array(inputs)
        raise DmlError([Fault(Join.c_name, "InputTensors", "be a list of arrays", got)])
    inputs = _listed(Join, "InputTensors", inputs)
    tensors = tuple(_desc(Join, x, f"InputTensors[{i}]") for i, x in enumerate(inputs))
    return _kept(Join.infer, input_tensors=tensors, axis=axis)(*inputs)


def tile(input: Given[Value], repeats: Integers) -> Value:
    """`input` repeated so many times along each of its dimensions. DML_OPERATOR_TILE."""
    repeats = _listed(Tile, "Repeats", repeats)
    return _kept(Tile.infer, input_tensor=_desc(Tile, input), repeats=repeats)(input)


def clip(input: Given[Value], min: float, max: float, scale_bias: ScaleBias | None = None) -> Value:
    """`g(input)` within [`min`, `max`]; `g(x)` is `x * scale + bias`, or x without `scale_bias`.

    Its gradient is 0 outside of the bounds and at them. DML_OPERATOR_ELEMENT_WISE_CLIP.
    """
    fields = {"scale_bias": scale_bias, "min": min, "max": max}
    return _kept(ElementWiseClip.infer, input_tensor=_desc(ElementWiseClip, input), **fields)(input)


def clip_grad(input: Given[Value], input_gradient: Given[Value], min: float, max: float) -> Value:
    """`input_gradient` where `input` is strictly within the bounds, else 0.

    DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD.
    """
    tensors = {
        "input_tensor": _desc(ElementWiseClipGrad, input),
        "input_gradient_tensor": _desc(ElementWiseClipGrad, input_gradient, "InputGradientTensor"),
    }
    op = _kept(ElementWiseClipGrad.infer, **tensors, min=min, max=max)
    return op(input, input_gradient)


def depth_to_space(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | str = DepthSpaceOrder.DEPTH_COLUMN_ROW,
) -> Value:
    """[N, C * B * B, H, W] -> [N, C, H * B, W * B]. DML_OPERATOR_DEPTH_TO_SPACE1.

    The channels that go to one block are C apart in `order` DEPTH_COLUMN_ROW, and neighbours in
    COLUMN_ROW_DEPTH.
    """
    fields = {"block_size": block_size, "order": order}
    return _kept(DepthToSpace1.infer, input_tensor=_desc(DepthToSpace1, input), **fields)(input)


def space_to_depth(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | str = DepthSpaceOrder.DEPTH_COLUMN_ROW,
) -> Value:
    """[N, C, H * B, W * B] -> [N, C * B * B, H, W]. DML_OPERATOR_SPACE_TO_DEPTH1.

    The inverse of `depth_to_space` in the same `order`.
    """
    fields = {"block_size": block_size, "order": order}
    return _kept(SpaceToDepth1.infer, input_tensor=_desc(SpaceToDepth1, input), **fields)(input)


def reduce(
    input: Given[Value], function: ReduceFunction | str, axes: Integers | None = None
) -> Value:
    """`function` over `axes` (None or empty: all), which stay as size 1. DML_OPERATOR_REDUCE.

    ARGMAX and ARGMIN give UINT32, as in DirectMLX.
    """
    tensor = _desc(Reduce, input)
    fields = {"function": function, "axes": _axes(Reduce, axes, tensor)}
    return _kept(Reduce.infer, input_tensor=tensor, **fields)(input)


def _axes(operator: type[Operator], axes: Any, tensor: TensorDesc) -> tuple[Any, ...]:
    chosen = () if axes is None else _listed(operator, "Axes", axes)
    return chosen or tuple(range(tensor.dimension_count))


def argmax(
    input: Given[Value],
    axes: Integers | None = None,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    output_data_type: TensorDataType | str = TensorDataType.UINT32,
) -> Value:
    """The index of the largest element over `axes` (None or empty: all). DML_OPERATOR_ARGMAX.

    Of the input's rank: `axes` stay as size 1. Of elements that are equal, and of NaN, which is the
    largest, `axis_direction` INCREASING gives the first, DECREASING the last. `output_data_type` is
    INT32, UINT32, INT64 or UINT64.
    """
    return _arg(Argmax, input, axes, axis_direction, output_data_type)


def argmin(
    input: Given[Value],
    axes: Integers | None = None,
    axis_direction: AxisDirection | str = AxisDirection.INCREASING,
    output_data_type: TensorDataType | str = TensorDataType.UINT32,
) -> Value:
    """The index of the smallest element over `axes` (None or empty: all). DML_OPERATOR_ARGMIN.

    As `argmax`, with NaN as the smallest.
    """
    return _arg(Argmin, input, axes, axis_direction, output_data_type)


def _arg(cls: Any, input: Any, axes: Any, axis_direction: Any, output_data_type: Any) -> Any:
    tensor = _desc(cls, input)
    op = _kept(
        cls.infer,
        output_data_type=output_data_type,
        input_tensor=tensor,
        axes=_axes(cls, axes, tensor),
        axis_direction=axis_direction,
    )
    return op(input)
