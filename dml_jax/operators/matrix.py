"""Operators that multiply matrices: GEMM, and the products of integers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax import lax

from dml_jax.enums import MatrixTransform
from dml_jax.errors import Expect
from dml_jax.lowering import matrix, quantization
from dml_jax.lowering.axes import on_axis
from dml_jax.lowering.dtypes import wide
from dml_jax.operator import Fitted, Operator, rule, with_rank

_TRANSPOSE = (MatrixTransform.TRANSPOSE, "TRANSPOSE", "DML_MATRIX_TRANSFORM_TRANSPOSE")


class _Product(Operator):
    """Multiplies matrices.

    Fields:
        a_tensor: the left matrices, {.., M, K}: the last two dimensions are a matrix, and the
            leading ones, at most two, count matrices.
        b_tensor: the right matrices, {.., K, N}; as many as of `a_tensor`. Functions broadcast both
            as `numpy.matmul` does.
        output_tensor: the products, {.., M, N}.
        a_scale_tensor, b_scale_tensor: what a step of the integers stands for; the sizes are those
            of the zero points.
        a_zero_point_tensor: the integer that stands for 0 in `a_tensor`, of its type: one, or one
            for each row ({.., 1, M, 1}, or {M}). None is 0.
        b_zero_point_tensor: the integer that stands for 0 in `b_tensor`, of its type: one, or one
            for each column ({.., 1, N}). None is 0.
    """

    @classmethod
    def broadcast_sizes(
        cls, sizes: Mapping[str, Sequence[int] | None], attributes: Mapping[str, Any]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the sizes to which `numpy.matmul` broadcasts matrices, and those of the output.

        What belongs to the rows or columns of matrices has ones in front, up to their rank.
        """
        a, b = sizes["a_tensor"] or (), sizes["b_tensor"] or ()
        if len(a) < 2 or len(b) < 2:
            return {}
        try:
            batch = np.broadcast_shapes(a[:-2], b[:-2])
        except ValueError:
            return {}  # the descriptor says which sizes disagree
        is_turned = [attributes.get(name) in _TRANSPOSE for name in ("trans_a", "trans_b")]
        output = (*batch, a[-1 if is_turned[0] else -2], b[-2 if is_turned[1] else -1])
        found = {"a_tensor": (*batch, *a[-2:]), "b_tensor": (*batch, *b[-2:])}
        for name, own in sizes.items():
            if name in ("c_tensor", "bias_tensor"):
                found[name] = output
            elif name not in found and own is not None and len(own) in (len(a), len(b)):
                found[name] = with_rank(own, max(len(own), len(output)))
        return found

    @classmethod
    def fitted(cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Any) -> Fitted:
        """Return scales and zero points of rows and columns with the rank of the matrices."""
        rank = max(len(sizes["a_tensor"] or ()), len(sizes["b_tensor"] or ()), 2)
        own = {n: s for n, s in sizes.items() if n.endswith(("_scale_tensor", "_point_tensor"))}
        vectors = {name: s for name, s in own.items() if s is not None and len(s) == 1}
        ends = {n: (1, *s) if n.startswith("b_") else (*s, 1) for n, s in vectors.items()}
        return Fitted({name: with_rank(end, rank) for name, end in ends.items()})


class Gemm(_Product, op="GEMM"):
    """Multiplies matrices, adds a third one, and applies an activation.

    `output = activation(alpha * op_a(a) @ op_b(b) + beta * c)`, where `op_a` and `op_b` transpose
    the last two dimensions or do nothing.

    Choices: products and sums of FLOAT16 are those of FLOAT32, which is rounded once, behind the
    activation. FLOAT32 is multiplied in full precision on every device, unless
    `jax_default_matmul_precision` is set. The order of the sum is free. A `beta` of 0 times NaN or
    infinity is NaN. A fused ACTIVATION_SOFTMAX takes a single matrix.

    Gradient: `alpha * dy @ op_b(b).T` for `a_tensor`, `alpha * op_a(a).T @ dy` for `b_tensor`, and
    `beta * dy` for `c_tensor`, with `dy` behind the activation's gradient.

    Fields:
        a_tensor: the left matrices, {.., M, K}, or {.., K, M} with TRANSPOSE.
        b_tensor: the right matrices, {.., K, N}, or {.., N, K} with TRANSPOSE; as many as of
            `a_tensor`. The function broadcasts both as `numpy.matmul` does.
        c_tensor: what is added, of the output's sizes; strides of 0 broadcast, and the function
            broadcasts it. None is 0.
        trans_a, trans_b: TRANSPOSE exchanges the last two dimensions of the matrices, NONE leaves
            them.
        alpha: the factor of the product.
        beta: the factor of `c_tensor`.
    """

    sums_bfloat16 = True

    @rule("output_tensor", "fused_activation")
    def axes_are_of_the_output(self, expect: Expect) -> None:
        if self.fused_activation is not None:
            rank = self.output_tensor.dimension_count
            for k, axis in enumerate(self.fused_activation.attributes.get("axes", ())):
                text = f"be in [0, {rank - 1}] (OutputTensor.DimensionCount is {rank})"
                expect(axis < rank, f"FusedActivation.Axes[{k}]", text, axis)

    def lower(self, a, b, c):
        transposed = tuple(t == MatrixTransform.TRANSPOSE for t in (self.trans_a, self.trans_b))
        return matrix.gemm(a, b, c, transposed, self.alpha, self.beta, self.fused_activation)


class MatrixMultiplyInteger(_Product, op="MATRIX_MULTIPLY_INTEGER"):
    """Multiplies matrices of 8-bit integers to INT32.

    `output[m, n] = sum((a[m, k] - a_zero_point[m]) * (b[k, n] - b_zero_point[n]))` over all k.

    Choice: the sum wraps modulo 2^32.

    Gradient: none, since the tensors are integers.
    """

    def lower(self, a, a_zero, b, b_zero):
        return matrix.integer_product(a, a_zero, b, b_zero, self.output_tensor.dtype)


class QuantizedLinearMatrixMultiply(_Product, op="QUANTIZED_LINEAR_MATRIX_MULTIPLY"):
    """Multiplies matrices of quantized numbers, and quantizes the product.

    `output[m, n] = clamp(round(real[m, n] / output_scale[m]) + output_zero_point[m], least,
    largest)`, with the least and the largest number of the output's type, and with
    `real[m, n] = a_scale[m] * b_scale[n] * sum((a[m, k] - a_zero_point[m]) * (b[k, n] -
    b_zero_point[n]))` over all k.

    Choices: the sum is an INT32 and wraps; it is scaled in FLOAT32, and divided by the output's
    scale; halves round to even before the zero point is added; infinities saturate; NaN gives 0.

    Gradient: none, since the output is an integer.

    Fields:
        output_scale_tensor: what a step of the output stands for: one number, or one for each row.
        output_zero_point_tensor: the integer that stands for 0 in the output, of its type; None is
            0.
    """

    def lower(self, a, a_scale, a_zero, b, b_scale, b_zero, scale, zero):
        real = matrix.real_product(a, a_scale, a_zero, b, b_scale, b_zero)
        zero = None if zero is None else on_axis(zero, -2, a.ndim)
        scale = on_axis(scale, -2, a.ndim)
        return quantization.quantize(real, scale, zero, self.output_tensor.dtype)


class MatrixMultiplyIntegerToFloat(_Product, op="MATRIX_MULTIPLY_INTEGER_TO_FLOAT"):
    """Multiplies matrices of quantized numbers to floats, and adds a bias.

    `output[m, n] = bias[m, n] + a_scale[m] * b_scale[n] * sum((a[m, k] - a_zero_point[m]) *
    (b[k, n] - b_zero_point[n]))` over all k.

    Choices: the sum of 8-bit integers is an INT32, of wider ones an INT64, and wraps; it is scaled
    in FLOAT32, and rounded to FLOAT16 once, behind the bias; a backend may contract product and
    bias into one rounding; a bias that is left out is 0.

    Gradient: the output's for the bias; its products with the rest of the formula, summed, for the
    scales.

    Fields:
        a_scale_tensor, b_scale_tensor: what a step of the integers stands for, of the output's
            type; the sizes are those of the zero points.
        bias_tensor: what is added, of the output's type and sizes; strides of 0 broadcast.
    """

    def lower(self, a, a_scale, a_zero, b, b_scale, b_zero, bias):
        real = matrix.real_product(a, a_scale, a_zero, b, b_scale, b_zero)
        total = real if bias is None else real + wide(bias)
        return lax.convert_element_type(total, self.output_tensor.dtype)
