"""Operators that map each element by itself: ELEMENT_WISE_CLIP."""

import math
from collections.abc import Sequence

from dml_jax.descriptor import ScaleBias
from dml_jax.fields import Float, Input, Output
from dml_jax.lowering import clamp
from dml_jax.operator import Expect, Operator
from dml_jax.support import ALL_BUT_FLOAT64, FLOATS, TO_32_BITS, rows


class ElementWiseClip(Operator, op="ELEMENT_WISE_CLIP"):
    """Clamps each element to [min, max].

    `output = max(min, min(g(x), max))`, with `g(x) = x * scale + bias` where `scale_bias` is given.
    The gradient is that of ELEMENT_WISE_CLIP_GRAD: 0 at and beyond the bounds.

    Fields:
        input_tensor: the tensor to clip.
        output_tensor: of the input's type and sizes; may be the input's own memory.
        scale_bias: applied to each element first. Choice: computed in FLOAT32 (64-bit types in
            FLOAT64) and rounded to the tensor's type once; integers truncate and saturate.
        min, max: the bounds, FLOAT whatever the tensor's type; cast to it first. Choices: integers
            truncate toward zero, then saturate; FLOAT16 rounds to nearest even; min > max gives
            min everywhere; NaN bounds are refused; NaN elements stay NaN.

    Source: DML_ELEMENT_WISE_CLIP_OPERATOR_DESC.
    """

    input_tensor: Input
    output_tensor: Output
    scale_bias: ScaleBias | None = None
    min: Float
    max: Float

    in_place = True
    support = rows(
        ("5_0", (1, 8), ALL_BUT_FLOAT64),
        ("3_0", (1, 8), TO_32_BITS),
        ("2_1", 4, TO_32_BITS),
        ("1_0", 4, FLOATS),
    )

    def check(self, expect: Expect) -> None:
        for name, bound in (("Min", self.min), ("Max", self.max)):
            expect(not math.isnan(bound), name, "not be NaN", bound)

    def expected_sizes(self) -> dict[str, Sequence[int]]:
        return {"output_tensor": self.input_tensor.sizes}

    def because(self, field: str, dimension: int) -> str:
        return f"(InputTensor.Sizes[{dimension}])"

    def lower(self, x):
        if self.scale_bias is not None:
            x = clamp.scale_bias(x, self.scale_bias.scale, self.scale_bias.bias)
        low, high = (clamp.cast_bound(bound, x.dtype) for bound in (self.min, self.max))
        return clamp.clip(x, low, high)
