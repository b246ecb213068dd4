"""Operators that move elements: SPLIT, JOIN, TILE, depth to space and back."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from dml_jax.descriptor import field
from dml_jax.enums import DepthSpaceOrder
from dml_jax.errors import Expect
from dml_jax.fields import Count, Input, Inputs, Output, Outputs, UInt, UInts
from dml_jax.lowering import arrangement
from dml_jax.operator import Operator, typical_sizes
from dml_jax.support import ALL_BUT_FLOAT64, ALL_TYPES, FLOATS, TO_32_BITS, rows
from dml_jax.tensor import TensorDesc

_TYPES_OF_1_0 = "FLOAT32 FLOAT16 INT32 INT16 UINT32 UINT16"  # of SPLIT and JOIN


def _piece_sizes(axis: int, whole: TensorDesc, pieces: Sequence[TensorDesc]) -> list[Sequence[int]]:
    """Each piece's sizes: the whole's, but on the axis its own."""
    sizes, rank = whole.sizes, whole.dimension_count
    return [
        (*sizes[:axis], piece.sizes[axis], *sizes[axis + 1 :])
        if piece.dimension_count == rank
        else sizes
        for piece in pieces
    ]


def _typical_pieces(elements: int, data_type: str) -> list[tuple[int, list[TensorDesc]]]:
    """Return axes and pieces of a tensor: uneven channels, and four even parts of each row."""
    n, c, h, w = typical_sizes(elements)
    c, w = max(c, 3), max(w, 4)
    channels = (1, (c - 1) // 2, c - 1 - (c - 1) // 2)
    uneven = [TensorDesc(data_type, (n, piece, h, w)) for piece in channels]
    return [(1, uneven), (3, [TensorDesc(data_type, (n, c, h, w // 4))] * 4)]


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

    input_tensor: Input
    output_tensors: Outputs
    axis: UInt

    support = rows(
        ("4_1", (1, 8), ALL_TYPES),
        ("3_0", (1, 8), TO_32_BITS),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, _TYPES_OF_1_0),
    )

    @classmethod
    def typical(cls, elements: int, data_type: str) -> list[Operator]:
        wholes: list[Any] = Join.typical(elements, data_type)
        return [
            cls(input_tensor=j.output_tensor, output_tensors=j.input_tensors, axis=j.axis)
            for j in wholes
        ]

    def check(self, expect: Expect) -> None:
        axis, sizes = self.axis, self.input_tensor.sizes
        rule = f"be in [0, {len(sizes) - 1}] (InputTensor.DimensionCount is {len(sizes)})"
        valid, pieces = expect(axis < len(sizes), "Axis", rule, axis), self.output_tensors
        if valid and all(piece.dimension_count == len(sizes) for piece in pieces):
            total = sum(piece.sizes[axis] for piece in pieces)
            rule = f"add up to {sizes[axis]} (InputTensor.Sizes[{axis}])"
            expect(total == sizes[axis], f"OutputTensors[*].Sizes[{axis}]", rule, total)

    def expected_sizes(self) -> dict[str, list[Sequence[int]]]:
        sizes = _piece_sizes(self.axis, self.input_tensor, self.output_tensors)
        return {"output_tensors": sizes}

    def because(self, field: str, dimension: int) -> str:
        return f"(InputTensor.Sizes[{dimension}]) since dimension {dimension} is not split"

    def lower(self, x):
        sizes = [t.sizes[self.axis] for t in self.output_tensors]
        return tuple(arrangement.split(x, sizes, self.axis))


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

    input_tensors: Inputs
    output_tensor: Output
    axis: UInt

    support = rows(
        ("4_1", (1, 8), ALL_TYPES),
        ("3_0", (4, 5), TO_32_BITS),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, _TYPES_OF_1_0),
    )

    @classmethod
    def typical(cls, elements: int, data_type: str) -> list[Operator]:
        pieces = _typical_pieces(elements, data_type)
        return cls._accepted({"input_tensors": tensors, "axis": axis} for axis, tensors in pieces)

    def check(self, expect: Expect) -> None:
        rank = self.input_tensors[0].dimension_count
        rule = f"be in [0, {rank - 1}] (InputTensors[0].DimensionCount is {rank})"
        expect(self.axis < rank, "Axis", rule, self.axis)

    def expected_sizes(self) -> dict[str, object]:
        first, axis = self.input_tensors[0], self.axis
        are_alike = all(t.dimension_count == first.dimension_count for t in self.input_tensors)
        total = sum(t.sizes[axis] for t in self.input_tensors) if are_alike else None
        return {
            "input_tensors": _piece_sizes(axis, first, self.input_tensors),
            "output_tensor": (*first.sizes[:axis], total, *first.sizes[axis + 1 :]),
        }

    def because(self, field: str, dimension: int) -> str:
        if dimension == self.axis:
            return f"(the sum of InputTensors[*].Sizes[{dimension}])"
        return f"(InputTensors[0].Sizes[{dimension}]) since dimension {dimension} is not joined"

    def lower(self, *xs):
        return arrangement.join(xs, self.axis)


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

    input_tensor: Input
    output_tensor: Output
    repeats: Annotated[UInts, Count("RepeatsCount")]

    support = rows(
        ("4_1", (1, 8), ALL_BUT_FLOAT64),
        ("3_1", (1, 8), TO_32_BITS),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, FLOATS),
    )

    @classmethod
    def typical(cls, elements: int, data_type: str) -> list[Operator]:
        tensor = TensorDesc(data_type, typical_sizes(elements // 4))
        repeats = ((1, 1, 2, 2), (4, 1, 1, 1), (1, 1, 1, 4))
        return cls._accepted({"input_tensor": tensor, "repeats": counts} for counts in repeats)

    def check(self, expect: Expect) -> None:
        for d, repeat in enumerate(self.repeats):
            expect(repeat > 0, f"Repeats[{d}]", "be at least 1", repeat)
        rank, count = self.input_tensor.dimension_count, len(self.repeats)
        expect(count == rank, "RepeatsCount", f"be {rank} (InputTensor.DimensionCount)", count)

    def expected_sizes(self) -> dict[str, Sequence[int]]:
        repeated = zip(self.input_tensor.sizes, self.repeats, strict=True)
        return {"output_tensor": [size * repeat for size, repeat in repeated]}

    def because(self, field: str, dimension: int) -> str:
        return f"(InputTensor.Sizes[{dimension}] * Repeats[{dimension}])"

    def lower(self, x):
        return arrangement.tile(x, self.repeats)


def _divided(size: int, by: int) -> int | None:
    """None where there is a remainder."""
    return None if size % by else size // by


class _Blocks(Operator):
    """What depth to space and its inverse share: a block of pixels is a pixel's channels."""

    input_tensor: Input
    output_tensor: Output
    block_size: UInt

    changes: ClassVar[tuple[str, ...]]  # of N, C, H and W from input to output, as messages say it
    support = rows(
        ("5_0", 4, ALL_TYPES),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, FLOATS),
    )

    @classmethod
    def typical(cls, elements: int, data_type: str) -> list[Operator]:
        n, *chw = typical_sizes(elements)
        has_order = any(f.name == "order" for f in cls.fields)
        variants: list[dict[str, Any]] = []
        for block in (2, 3):
            multiples = zip(chw, (block**2, block, block), strict=True)
            sizes = (n, *(max(size // of, 1) * of for size, of in multiples))
            fields = {"input_tensor": TensorDesc(data_type, sizes), "block_size": block}
            orders = DepthSpaceOrder if has_order else ()
            variants += [{**fields, "order": order} for order in orders] or [fields]
        return cls._accepted(variants)

    @property
    def depth_first(self) -> bool:
        """Whether channels are numbered [block, block, channel], or [channel, block, block]."""
        only = DepthSpaceOrder.DEPTH_COLUMN_ROW
        return getattr(self, "order", only) == only

    def expect_multiples(self, expect: Expect, dimensions: Sequence[int], of: int) -> None:
        block = self.block_size
        valid = expect(block >= 1, "BlockSize", "be at least 1", block)
        sizes = self.input_tensor.sizes
        for d in dimensions if valid else ():
            rule = f"be a multiple of {of} ({'BlockSize' if of == block else 'BlockSize squared'})"
            expect(sizes[d] % of == 0, f"InputTensor.Sizes[{d}]", rule, sizes[d])

    def because(self, field: str, dimension: int) -> str:
        return f"(InputTensor.Sizes[{dimension}]{self.changes[dimension]})"


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

    changes = ("", " / (BlockSize * BlockSize)", " * BlockSize", " * BlockSize")

    def check(self, expect: Expect) -> None:
        self.expect_multiples(expect, [1], self.block_size**2)

    def expected_sizes(self) -> dict[str, Sequence[int | None]]:
        n, depth, h, w = self.input_tensor.sizes
        block = self.block_size
        return {"output_tensor": [n, _divided(depth, block**2), h * block, w * block]}

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

    changes = ("", " * BlockSize * BlockSize", " / BlockSize", " / BlockSize")

    def check(self, expect: Expect) -> None:
        self.expect_multiples(expect, [2, 3], self.block_size)

    def expected_sizes(self) -> dict[str, Sequence[int | None]]:
        n, c, h, w = self.input_tensor.sizes
        block = self.block_size
        return {"output_tensor": [n, c * block**2, _divided(h, block), _divided(w, block)]}

    def lower(self, x):
        return arrangement.space_to_depth(x, self.block_size, self.depth_first)


class DepthToSpace1(DepthToSpace, op="DEPTH_TO_SPACE1"):
    """DEPTH_TO_SPACE with a choice of how channels are numbered; the inverse of SPACE_TO_DEPTH1.

    With B = `block_size` and C output channels,
    `output_tensor[n, c, h*B + i, w*B + j] = input_tensor[n, k, h, w]`, where `k = (i*B + j)*C + c`
    for DEPTH_COLUMN_ROW and `k = (c*B + i)*B + j` for COLUMN_ROW_DEPTH.

    Gradient: SPACE_TO_DEPTH1 of the output's, in the same order.

    Fields:
        input_tensor, output_tensor, block_size: as for DEPTH_TO_SPACE.
        order: how a pixel's channels are numbered.

    Source: DML_DEPTH_TO_SPACE1_OPERATOR_DESC.
    """

    order: DepthSpaceOrder = field(converter=DepthSpaceOrder.of)

    support = rows(
        ("5_0", 4, ALL_TYPES),
        ("2_1", 4, TO_32_BITS),
    )


class SpaceToDepth1(SpaceToDepth, op="SPACE_TO_DEPTH1"):
    """SPACE_TO_DEPTH with a choice of how channels are numbered; the inverse of DEPTH_TO_SPACE1.

    With B = `block_size` and C input channels,
    `output_tensor[n, k, h, w] = input_tensor[n, c, h*B + i, w*B + j]`, where `k = (i*B + j)*C + c`
    for DEPTH_COLUMN_ROW and `k = (c*B + i)*B + j` for COLUMN_ROW_DEPTH.

    Gradient: DEPTH_TO_SPACE1 of the output's, in the same order.

    Fields:
        input_tensor, output_tensor, block_size: as for SPACE_TO_DEPTH.
        order: how a pixel's channels are numbered.

    Source: DML_SPACE_TO_DEPTH1_OPERATOR_DESC.
    """

    order: DepthSpaceOrder = field(converter=DepthSpaceOrder.of)

    support = DepthToSpace1.support
