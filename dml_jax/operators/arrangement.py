"""Operators that move elements: SPLIT, JOIN, TILE, depth to space and back."""

from collections.abc import Sequence
from typing import Any, Self

from jax import lax

from dml_jax.description.fields import Integer
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import DepthSpaceOrder
from dml_jax.errors import DmlError, Expect, collecting, items_of, moving, raise_if
from dml_jax.lowering import arrangement
from dml_jax.operator import Operator, rule


class Split(Operator, op="SPLIT"):
    """Splits a tensor along an axis into several.

    `output_tensors[k][..., i, ...] = input_tensor[..., start[k] + i, ...]` with i on `axis` and
    `start[k]` the sum of the sizes of the outputs before it. The pieces may differ in size on
    `axis`; together they are the input. The inverse of JOIN. Returns a tuple.

    Gradient: the gradients of the pieces, joined along `axis`.

    Fields:
        input_tensor: the tensor to split.
        output_tensors: one or more tensors, of the input's sizes but for `axis`.
        axis: the dimension to split; in [0, rank - 1].

    Source: DML_SPLIT_OPERATOR_DESC.
    """

    takes_any_axes = True
    arguments = ("output_axis_sizes",)

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the SPLIT whose outputs have these sizes along the axis."""
        whole, axis = fields["input_tensor"], fields["axis"]
        with moving(cls.c_name, "OutputTensors"):
            pieces = items_of(fields.pop("output_axis_sizes"), " of sizes along the axis")
        try:
            axis = Integer(0, whole.dimension_count - 1).convert(axis)
        except DmlError:
            return cls(**{**fields, "output_tensors": [whole]})  # the axis is refused
        outputs, faults = [], []
        for index, piece in enumerate(pieces):
            with collecting(faults), moving(cls.c_name, f"OutputTensors[{index}]"):
                shape = (*whole.sizes[:axis], piece, *whole.sizes[axis + 1 :])
                outputs.append(TensorDesc(whole.data_type, shape))
        raise_if(faults)
        return cls(**{**fields, "output_tensors": outputs})

    @rule("input_tensor", "output_tensors", "axis")
    def pieces_make_the_whole(self, expect: Expect) -> None:
        axis, whole = self.axis, self.input_tensor.sizes[self.axis]
        total = sum(piece.sizes[axis] for piece in self.output_tensors)
        text = f"add up to {whole} (InputTensor.Sizes[{axis}])"
        expect(total == whole, f"OutputTensors[*].Sizes[{axis}]", text, total)

    def lower(self, x):
        sizes = [t.sizes[self.axis] for t in self.output_tensors]
        return tuple(lax.split(x, sizes, self.axis))


class Join(Operator, op="JOIN"):
    """Joins tensors along an axis into one.

    `output_tensor[..., start[k] + i, ...] = input_tensors[k][..., i, ...]` with i on `axis` and
    `start[k]` the sum of the sizes of the inputs before it. The inverse of SPLIT.

    Choices: ranks 4 to 5 at feature level 3_0, as its page says.

    Gradient: the output's, split along `axis`.

    Fields:
        input_tensors: one or more tensors, of the output's sizes but for `axis`.
        output_tensor: their concatenation.
        axis: the dimension to join; in [0, rank - 1].

    Source: DML_JOIN_OPERATOR_DESC.
    """

    takes_any_axes = True

    def expected_sizes(self) -> dict[str, Sequence[int]]:
        sizes = list(self.input_tensors[0].sizes)
        sizes[self.axis] = sum(tensor.sizes[self.axis] for tensor in self.input_tensors)
        return {"output_tensor": sizes}

    def because(self, field: str, dimension: int) -> str:
        if dimension == self.axis:
            return f"(the sum of InputTensors[*].Sizes[{dimension}])"
        return f"(InputTensors[0].Sizes[{dimension}])"

    def lower(self, *xs):
        return lax.concatenate(xs, self.axis)


class Tile(Operator, op="TILE"):
    """Repeats a tensor along each dimension.

    `output_tensor[i0, i1, ...] = input_tensor[i0 mod sizes[0], i1 mod sizes[1], ...]`

    Gradient: the sum of the output's over all repeats of an element.

    Fields:
        input_tensor: the tile.
        output_tensor: `sizes[d] * repeats[d]` in each dimension.
        repeats: how often the whole is repeated in each dimension; at least 1.

    Source: DML_TILE_OPERATOR_DESC.
    """

    def lower(self, x):
        return arrangement.tile(x, self.repeats)


class _Blocks(Operator):
    """What depth to space and its inverse share: a block of pixels is a pixel's channels."""

    @property
    def depth_first(self) -> bool:
        """Return whether channels are [block, block, channel], else [channel, block, block]."""
        only = DepthSpaceOrder.DEPTH_COLUMN_ROW
        return getattr(self, "order", only) == only


class DepthToSpace(_Blocks, op="DEPTH_TO_SPACE"):
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH.

    With B = `block_size` and C output channels,
    `output_tensor[n, c, h*B + i, w*B + j] = input_tensor[n, (i*B + j)*C + c, h, w]`.

    Gradient: SPACE_TO_DEPTH of the output's.

    Fields:
        input_tensor: [N, C * B * B, H, W].
        output_tensor: [N, C, H * B, W * B].
        block_size: the side of a block in pixels. Choice: at least 1, and its square divides the
            input's channels exactly; the page leaves a remainder open.

    Source: DML_DEPTH_TO_SPACE_OPERATOR_DESC.
    """

    def lower(self, x):
        return arrangement.depth_to_space(x, self.block_size, self.depth_first)


class SpaceToDepth(_Blocks, op="SPACE_TO_DEPTH"):
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

    Source: DML_SPACE_TO_DEPTH_OPERATOR_DESC.
    """

    def lower(self, x):
        return arrangement.space_to_depth(x, self.block_size, self.depth_first)


class DepthToSpace1(DepthToSpace, op="DEPTH_TO_SPACE1"):
    """DEPTH_TO_SPACE with a choice of how channels are numbered; the inverse of SPACE_TO_DEPTH1.

    With B = `block_size` and C output channels,
    `output_tensor[n, c, h*B + i, w*B + j] = input_tensor[n, k, h, w]`, where `k = (i*B + j)*C + c`
    for DEPTH_COLUMN_ROW and `k = (c*B + i)*B + j` for COLUMN_ROW_DEPTH.

    Gradient: SPACE_TO_DEPTH1 of the output's, in the same order.

    Fields:
        order: how a pixel's channels are numbered.

    Source: DML_DEPTH_TO_SPACE1_OPERATOR_DESC.
    """


class SpaceToDepth1(SpaceToDepth, op="SPACE_TO_DEPTH1"):
    """SPACE_TO_DEPTH with a choice of how channels are numbered; the inverse of DEPTH_TO_SPACE1.

    With B = `block_size` and C input channels,
    `output_tensor[n, k, h, w] = input_tensor[n, c, h*B + i, w*B + j]`, where `k = (i*B + j)*C + c`
    for DEPTH_COLUMN_ROW and `k = (c*B + i)*B + j` for COLUMN_ROW_DEPTH.

    Gradient: DEPTH_TO_SPACE1 of the output's, in the same order.

    Fields:
        order: how a pixel's channels are numbered.

    Source: DML_SPACE_TO_DEPTH1_OPERATOR_DESC.
    """
