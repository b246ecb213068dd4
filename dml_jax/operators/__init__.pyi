"""The operators. Made by tools/stubs.py."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self, overload

import jax
from jax.typing import ArrayLike

from dml_jax.descriptor import ScaleBias
from dml_jax.enums import (
    AxisDirection,
    DepthSpaceOrder,
    ReduceFunction,
    TensorDataType,
)
from dml_jax.operator import Operator
from dml_jax.tensor import Integers, Placeholder, TensorDesc

__all__ = [
    "Argmax",
    "Argmin",
    "DepthToSpace",
    "DepthToSpace1",
    "ElementWiseClip",
    "ElementWiseClip1",
    "ElementWiseClipGrad",
    "ElementWiseClipGrad1",
    "ElementWiseSqrt",
    "Join",
    "Reduce",
    "SpaceToDepth",
    "SpaceToDepth1",
    "Split",
    "Tile",
]

class ElementWiseClip(Operator, op="ELEMENT_WISE_CLIP"):
    """Clamps each element to [min, max]."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min: float,
        max: float,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClip1(Operator, op="ELEMENT_WISE_CLIP1"):
    """ELEMENT_WISE_CLIP with bounds in the tensor's own type, so that 64-bit ones are exact."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    min_max_data_type: TensorDataType
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min_max_data_type: TensorDataType | str,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        min_max_data_type: TensorDataType | str,
        min: float,
        max: float,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClipGrad(Operator, op="ELEMENT_WISE_CLIP_GRAD"):
    """The gradient of ELEMENT_WISE_CLIP, given that of its output."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        min: float,
        max: float,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseClipGrad1(Operator, op="ELEMENT_WISE_CLIP_GRAD1"):
    """The gradient of ELEMENT_WISE_CLIP1, given that of its output."""

    input_tensor: TensorDesc
    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    min_max_data_type: TensorDataType
    min: float
    max: float
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        output_gradient_tensor: TensorDesc,
        min_max_data_type: TensorDataType | str,
        min: float,
        max: float,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        input_gradient_tensor: TensorDesc,
        min_max_data_type: TensorDataType | str,
        min: float,
        max: float,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class ElementWiseSqrt(Operator, op="ELEMENT_WISE_SQRT"):
    """Takes the square root of each element: `sqrt(g(x))`; NaN below 0."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        scale_bias: ScaleBias | None = None,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Reduce(Operator, op="REDUCE"):
    """Combines the elements along `axes` into one; the rank is kept."""

    function: ReduceFunction  # pyright: ignore[reportIncompatibleVariableOverride]
    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    def __init__(
        self,
        *,
        function: ReduceFunction | str,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        function: ReduceFunction | str,
        input_tensor: TensorDesc,
        axes: Integers,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Argmin(Operator, op="ARGMIN"):
    """The index of the smallest element along `axes`; otherwise as ARGMAX."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | str,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | str,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Argmax(Operator, op="ARGMAX"):
    """The index of the largest element along `axes`; the rank is kept."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axes: tuple[int, ...]
    axis_direction: AxisDirection
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | str,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axes: Integers,
        axis_direction: AxisDirection | str,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Split(Operator, op="SPLIT"):
    """Splits a tensor along an axis into several."""

    input_tensor: TensorDesc
    output_tensors: tuple[TensorDesc, ...]
    axis: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensors: Sequence[TensorDesc],
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        axis: int,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> tuple[jax.Array, ...]: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Join(Operator, op="JOIN"):
    """Joins tensors along an axis into one."""

    input_tensors: tuple[TensorDesc, ...]
    output_tensor: TensorDesc
    axis: int
    def __init__(
        self,
        *,
        input_tensors: Sequence[TensorDesc],
        output_tensor: TensorDesc,
        axis: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensors: Sequence[TensorDesc],
        axis: int,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class SpaceToDepth(Operator, op="SPACE_TO_DEPTH"):
    """Moves blocks of pixels into channels; the inverse of DEPTH_TO_SPACE."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DepthToSpace(Operator, op="DEPTH_TO_SPACE"):
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class Tile(Operator, op="TILE"):
    """Repeats a tensor along each dimension."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    repeats: tuple[int, ...]
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        repeats: Integers,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        repeats: Integers,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class DepthToSpace1(Operator, op="DEPTH_TO_SPACE1"):
    """DEPTH_TO_SPACE with a choice of how channels are numbered; the inverse of SPACE_TO_DEPTH1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    order: DepthSpaceOrder
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | str,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | str,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

class SpaceToDepth1(Operator, op="SPACE_TO_DEPTH1"):
    """SPACE_TO_DEPTH with a choice of how channels are numbered; the inverse of DEPTH_TO_SPACE1."""

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int
    order: DepthSpaceOrder
    def __init__(
        self,
        *,
        input_tensor: TensorDesc,
        output_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | str,
    ) -> None: ...
    @classmethod
    def infer(
        cls,
        *,
        input_tensor: TensorDesc,
        block_size: int,
        order: DepthSpaceOrder | str,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
    ) -> Self: ...
    @overload
    def __call__(self, *arrays: ArrayLike) -> jax.Array: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...
