"""Operators as functions of arrays and expressions. Made by tools/stubs.py."""

from collections.abc import Sequence

import jax
from jax.typing import ArrayLike
from typing_extensions import TypeVar

from dml_jax.descriptor import ScaleBias
from dml_jax.enums import (
    AxisDirection,
    DepthSpaceOrder,
    ReduceFunction,
    TensorDataType,
)
from dml_jax.graph import Expression
from dml_jax.tensor import Integers

Value = TypeVar("Value", jax.Array, Expression, default=jax.Array)
Given = Value | ArrayLike

FUNCTIONS: list[str]

__all__ = [
    "argmax",
    "argmin",
    "clip",
    "clip_grad",
    "depth_to_space",
    "join",
    "reduce",
    "space_to_depth",
    "split",
    "sqrt",
    "tile",
]

def argmax(
    input: Given[Value],
    axes: Integers | int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    output_data_type: TensorDataType | str = "UINT32",
) -> Value:
    """The index of the largest element along `axes`; the rank is kept."""

def argmin(
    input: Given[Value],
    axes: Integers | int | None = None,
    axis_direction: AxisDirection | str = "INCREASING",
    output_data_type: TensorDataType | str = "UINT32",
) -> Value:
    """The index of the smallest element along `axes`; otherwise as ARGMAX."""

def clip(
    input: Given[Value],
    min: float,
    max: float,
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Clamps each element to [min, max]."""

def clip_grad(
    input: Given[Value],
    input_gradient: Given[Value],
    min: float,
    max: float,
) -> Value:
    """The gradient of ELEMENT_WISE_CLIP, given that of its output."""

def depth_to_space(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | str = "DEPTH_COLUMN_ROW",
) -> Value:
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH."""

def join(
    inputs: Sequence[Given[Value]],
    axis: int,
) -> Value:
    """Joins tensors along an axis into one."""

def reduce(
    input: Given[Value],
    function: ReduceFunction | str,
    axes: Integers | int | None = None,
    output_data_type: TensorDataType | str | None = None,
) -> Value:
    """Combines the elements along `axes` into one; the rank is kept."""

def space_to_depth(
    input: Given[Value],
    block_size: int,
    order: DepthSpaceOrder | str = "DEPTH_COLUMN_ROW",
) -> Value:
    """Moves blocks of pixels into channels; the inverse of DEPTH_TO_SPACE."""

def split(
    input: Given[Value],
    axis: int,
    output_axis_sizes: Integers,
) -> tuple[Value, ...]:
    """Splits a tensor along an axis into several."""

def sqrt(
    input: Given[Value],
    scale_bias: ScaleBias | None = None,
) -> Value:
    """Takes the square root of each element: `sqrt(g(x))`; NaN below 0."""

def tile(
    input: Given[Value],
    repeats: Integers | int,
) -> Value:
    """Repeats a tensor along each dimension."""
