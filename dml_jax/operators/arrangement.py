"""Operators that move elements: SPLIT, TILE, DEPTH_TO_SPACE1."""

from collections.abc import Sequence
from typing import Annotated

from dml_jax.descriptor import field
from dml_jax.enums import DepthSpaceOrder
from dml_jax.fields import Count, Input, Output, Outputs, UInt, UInts
from dml_jax.lowering import arrangement
from dml_jax.operator import Expect, Operator
from dml_jax.support import ALL_BUT_FLOAT64, ALL_TYPES, FLOATS, TO_32_BITS, rows


class Split(Operator, op="SPLIT"):
    """Splits a tensor along an axis into several.

    `output_tensors[k][..., i, ...] = input_tensor[..., start[k] + i, ...]` with i on `axis` and
    `start[k]` the sum of the sizes of the outputs before it. The pieces may differ in size on
    `axis`; together they are the input. The inverse of JOIN. Returns a tuple.

    Fields:
        input_tensor: the tensor to split.
        output_tensors: one or more tensors, of the input's sizes but for `axis`.
        axis: the dimension to split; in [0, rank - 1].

    Source: DML_SPLIT_OPERATOR_DESC.
    """

    input_tensor: Input
    output_tensors: Outputs
    axis: UInt

    support = rows(
        ("4_1", (1, 8), ALL_TYPES),
        ("3_0", (1, 8), TO_32_BITS),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, "FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16"),
    )

    def check(self, expect: Expect) -> None:
        axis, sizes, pieces = self.axis, self.input_tensor.sizes, self.output_tensors
        rule = f"be in [0, {len(sizes) - 1}] (InputTensor.DimensionCount is {len(sizes)})"
        valid = expect(axis < len(sizes), "Axis", rule, axis)
        if valid and all(len(piece.sizes) == len(sizes) for piece in pieces):
            total = sum(piece.sizes[axis] for piece in pieces)
            rule = f"add up to {sizes[axis]} (InputTensor.Sizes[{axis}])"
            expect(total == sizes[axis], f"OutputTensors[*].Sizes[{axis}]", rule, total)

    def expected_sizes(self) -> dict[str, list[Sequence[int]]]:
        sizes, axis = self.input_tensor.sizes, self.axis
        return {
            "output_tensors": [
                (*sizes[:axis], piece.sizes[axis], *sizes[axis + 1 :])
                if len(piece.sizes) == len(sizes)
                else sizes
                for piece in self.output_tensors
            ]
        }

    def because(self, field: str, dimension: int) -> str:
        return f"(InputTensor.Sizes[{dimension}]) since dimension {dimension} is not split"

    def lower(self, x):
        return arrangement.split(x, [t.sizes[self.axis] for t in self.output_tensors], self.axis)


class Tile(Operator, op="TILE"):
    """Repeats a tensor along each dimension.

    `output_tensor[i0, i1, ...] = input_tensor[i0 mod sizes[0], i1 mod sizes[1], ...]`

    Fields:
        input_tensor: the tile.
        output_tensor: `sizes[d] * repeats[d]` in each dimension.
        repeats: how often the whole is repeated in each dimension; at least 1.

    Source: DML_TILE_OPERATOR_DESC.
    """

    input_tensor: Input
    output_tensor: Output
    repeats: Annotated[UInts, Count("RepeatsCount")]

    support = rows(
        ("4_1", (1, 8), ALL_BUT_FLOAT64),
        ("3_1", (1, 8), TO_32_BITS),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, FLOATS),
    )

    def check(self, expect: Expect) -> None:
        rank, count = self.input_tensor.dimension_count, len(self.repeats)
        expect(count == rank, "RepeatsCount", f"be {rank} (InputTensor.DimensionCount)", count)
        for d, repeat in enumerate(self.repeats):
            expect(repeat > 0, f"Repeats[{d}]", "be at least 1", repeat)

    def expected_sizes(self) -> dict[str, Sequence[int]]:
        repeated = zip(self.input_tensor.sizes, self.repeats, strict=True)
        return {"output_tensor": [size * repeat for size, repeat in repeated]}

    def because(self, field: str, dimension: int) -> str:
        return f"(InputTensor.Sizes[{dimension}] * Repeats[{dimension}])"

    def lower(self, x):
        return arrangement.tile(x, self.repeats)


class DepthToSpace1(Operator, op="DEPTH_TO_SPACE1"):
    """Moves channels into blocks of pixels; the inverse of SPACE_TO_DEPTH1.

    With B = `block_size` and C output channels, `output_tensor[n, c, h*B + i, w*B + j]` is
    `input_tensor[n, (i*B + j)*C + c, h, w]` for DEPTH_COLUMN_ROW and
    `input_tensor[n, (c*B + i)*B + j, h, w]` for COLUMN_ROW_DEPTH.

    Fields:
        input_tensor: [N, C * B * B, H, W].
        output_tensor: [N, C, H * B, W * B].
        block_size: the side of a block in pixels. Choice: at least 1, and its square divides the
            input's channels exactly; the page leaves a remainder open.
        order: how a pixel's channels are numbered.

    Source: DML_DEPTH_TO_SPACE1_OPERATOR_DESC.
    """

    input_tensor: Input
    output_tensor: Output
    block_size: UInt
    order: DepthSpaceOrder = field(converter=DepthSpaceOrder.of)

    support = rows(
        ("5_0", 4, ALL_TYPES),
        ("2_1", 4, TO_32_BITS),
    )

    def check(self, expect: Expect) -> None:
        expect_block(expect, self.block_size, self.input_tensor.sizes)

    def expected_sizes(self) -> dict[str, Sequence[int]]:
        n, depth, h, w = self.input_tensor.sizes
        block = self.block_size
        return {"output_tensor": [n, depth // block**2, h * block, w * block]}

    def because(self, field: str, dimension: int) -> str:
        change = ("", " / (BlockSize * BlockSize)", " * BlockSize", " * BlockSize")[dimension]
        return f"(InputTensor.Sizes[{dimension}]{change})"

    def lower(self, x):
        depth_first = self.order == DepthSpaceOrder.DEPTH_COLUMN_ROW
        return arrangement.depth_to_space(x, self.block_size, depth_first)


def expect_block(expect: Expect, block: int, sizes: Sequence[int]) -> None:
    """A block size that the channels of [N, C, H, W] divide into."""
    valid = expect(block >= 1, "BlockSize", "be at least 1", block)
    valid &= expect(len(sizes) == 4, "InputTensor.DimensionCount", "be 4 (N, C, H, W)", len(sizes))
    if valid:
        rule = f"be a multiple of {block**2} (BlockSize * BlockSize)"
        expect(sizes[1] % block**2 == 0, "InputTensor.Sizes[1]", rule, sizes[1])
