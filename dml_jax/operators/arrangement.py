"""Operators that move elements: SPLIT, JOIN, TILE, depth to space and back."""

from typing import Any, Self

import jax
from jax import lax

from dml_jax.description.fields import Integer
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import DepthSpaceOrder
from dml_jax.errors import Fault, collecting, items_of, moving, raise_if
from dml_jax.lowering import arrangement
from dml_jax.operator import Operator


class Split(Operator, op="SPLIT"):
    """Splits a tensor along an axis into several.

    `output_tensors[k][..., i, ...] = input_tensor[..., start[k] + i, ...]` with i on `axis` and
    `start[k]` the sum of the sizes of the outputs before it. The pieces may differ in size on
    `axis`; together they are the input. The inverse of JOIN. Returns a tuple.

    Gradient: the gradients of the pieces, joined along `axis`.

    Fields:
        output_tensors: one or more tensors, of the input's sizes but for `axis`.
    """

    takes_any_axes = True
    arguments = ("output_axis_sizes",)

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the SPLIT whose outputs have these sizes along the axis."""
        tensor = fields["input_tensor"]
        with moving(cls.c_name, "OutputTensors"):
            sizes = items_of(fields.pop("output_axis_sizes"), " of sizes along the axis")
        with moving(cls.c_name, "Axis"):
            axis = Integer(0, tensor.dimension_count - 1).convert(fields["axis"])
        pieces, faults = list[TensorDesc](), list[Fault]()
        for index, size in enumerate(sizes):
            with collecting(faults), moving(cls.c_name, f"OutputTensors[{index}]"):
                pieces.append(tensor.packed(axis, size))
        raise_if(faults)
        return cls(**{**fields, "axis": axis, "output_tensors": pieces})

    @property
    def sizes_along_axis(self) -> list[int]:
        """Return the size of each piece along the axis."""
        return [piece.sizes[self.axis] for piece in self.output_tensors]

    def lower(self, x: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(lax.split(x, self.sizes_along_axis, self.axis))


class Join(Operator, op="JOIN"):
    """Joins tensors along an axis into one.

    `output_tensor[..., start[k] + i, ...] = input_tensors[k][..., i, ...]` with i on `axis` and
    `start[k]` the sum of the sizes of the inputs before it. The inverse of SPLIT.

    Choices: ranks 4 to 5 at feature level 3_0, as its page says.

    Gradient: the output's, split along `axis`.

    Fields:
        input_tensors: one or more tensors, of the output's sizes but for `axis`.
    """

    takes_any_axes = True

    def lower(self, *xs: jax.Array) -> jax.Array:
        return lax.concatenate(xs, self.axis)


class Tile(Operator, op="TILE"):
    """Repeats a tensor along each dimension.

    `output_tensor[i0, i1, ...] = input_tensor[i0 mod sizes[0], i1 mod sizes[1], ...]`

    Gradient: the sum of the output's over all repeats of an element.

    Fields:
        output_tensor: `sizes[d] * repeats[d]` in each dimension.
        repeats: how often the whole is repeated in each dimension; at least 1. The output has at
            most 2^32 - 1 elements, as every tensor.
    """

    def lower(self, x: jax.Array) -> jax.Array:
        return arrangement.tile(x, self.repeats)


class DepthToSpace(Operator, op="DEPTH_TO_SPACE"):
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH.

    With B = `block_size` and C output channels,
    `output_tensor[n, c, h*B + i, w*B + j] = input_tensor[n, (i*B + j)*C + c, h, w]`.

    Gradient: SPACE_TO_DEPTH of the output's.

    Fields:
        input_tensor: [N, C * B * B, H, W].
        output_tensor: [N, C, H * B, W * B].
        block_size: the side of a block in pixels. Choice: at least 1, and its square divides the
            input's channels exactly; the page leaves a remainder open.
    """

    order = DepthSpaceOrder.DEPTH_COLUMN_ROW  # a field of version 1, which replaces it

    def lower(self, x: jax.Array) -> jax.Array:
        return arrangement.depth_to_space(x, self.block_size, self.order)


class SpaceToDepth(Operator, op="SPACE_TO_DEPTH"):
    """Moves blocks of pixels into channels; the inverse of DEPTH_TO_SPACE.

    With B = `block_size` and C input channels,
    `output_tensor[n, (i*B + j)*C + c, h, w] = input_tensor[n, c, h*B + i, w*B + j]`.

    Gradient: DEPTH_TO_SPACE of the output's.

    Fields:
        input_tensor: [N, C, H * B, W * B].
        output_tensor: [N, C * B * B, H, W]. Choice: the page's formula for these sizes is that of
            DEPTH_TO_SPACE; its example has these.
        block_size: the side of a block in pixels. Choice: at least 1, and it divides height and
            width exactly.
    """

    order = DepthSpaceOrder.DEPTH_COLUMN_ROW  # a field of version 1, which replaces it

    def lower(self, x: jax.Array) -> jax.Array:
        return arrangement.space_to_depth(x, self.block_size, self.order)


class DepthToSpace1(DepthToSpace, op="DEPTH_TO_SPACE1"):
    """DEPTH_TO_SPACE with a choice of how channels are numbered; the inverse of SPACE_TO_DEPTH1.

    With B = `block_size` and C output channels,
    `output_tensor[n, c, h*B + i, w*B + j] = input_tensor[n, k, h, w]`, where `k = (i*B + j)*C + c`
    for DEPTH_COLUMN_ROW and `k = (c*B + i)*B + j` for COLUMN_ROW_DEPTH.

    Gradient: SPACE_TO_DEPTH1 of the output's, in the same order.

    Fields:
        order: how a pixel's channels are numbered.
    """


class SpaceToDepth1(SpaceToDepth, op="SPACE_TO_DEPTH1"):
    """SPACE_TO_DEPTH with a choice of how channels are numbered; the inverse of DEPTH_TO_SPACE1.

    With B = `block_size` and C input channels,
    `output_tensor[n, k, h, w] = input_tensor[n, c, h*B + i, w*B + j]`, where `k = (i*B + j)*C + c`
    for DEPTH_COLUMN_ROW and `k = (c*B + i)*B + j` for COLUMN_ROW_DEPTH.

    Gradient: DEPTH_TO_SPACE1 of the output's, in the same order.

    Fields:
        order: how a pixel's channels are numbered.
    """
