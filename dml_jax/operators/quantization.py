"""Operators between real numbers and the small integers that stand for them, and CAST."""

from collections.abc import Mapping, Sequence
from typing import Any

from dml_jax.enums import TensorDataType
from dml_jax.errors import Expect
from dml_jax.lowering import quantization
from dml_jax.operator import Operator, rule


class Cast(Operator, op="CAST"):
    """Converts each element to the type of the output.

    `output_tensor[i] = input_tensor[i]`, in the output's type.

    Choices: floats become integers toward zero, beyond the type's range its ends, NaN 0; integers
    become integers modulo 2^n; numbers become floats by one rounding to nearest even, beyond the
    range infinity. This rounding stays where XLA for a GPU fuses the operators around it, though it
    may keep FLOAT32 between other FLOAT16 operators, unless the environment has
    `XLA_FLAGS=--xla_allow_excess_precision=false`.

    Gradient: the output's, cast to the input's type; 0 where either type is an integer type.

    Fields:
        output_tensor: of the input's sizes, and of any type.
    """

    def lower(self, x):
        return quantization.cast(x, self.output_tensor.dtype)


class _Quantizing(Operator):
    """Rounds real numbers to integers.

    Choices: computed in FLOAT32, with a division, not with a reciprocal; halves round to even
    before the zero point is added; infinities saturate; NaN gives 0; a zero point that is left out
    is 0.

    Gradient: none, since the output is an integer. With y, the output dequantized again,
    `x + jax.lax.stop_gradient(y - x)` lets gradients straight through.
    """

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        return {"output_tensor": TensorDataType.UINT8}


class ElementWiseQuantizeLinear(_Quantizing, op="ELEMENT_WISE_QUANTIZE_LINEAR"):
    """Quantizes each element with a scale and a zero point of its own.

    `output = clamp(round(input / scale) + zero_point, least, largest)`, with the least and the
    largest number of the output's type.

    Choices: a scale of 0 gives the quotient of IEEE 754.

    Fields:
        input_tensor: the real numbers.
        scale_tensor: what a step of the integer stands for; FLOAT32 for an input of INT32.
            Functions broadcast it, and the zero point.
        zero_point_tensor: the integer that stands for 0, of the output's type. It may be left out
            from feature level 6_2 on.
        output_tensor: the integers; all tensors have equal sizes.
    """

    def lower(self, x, scale, zero_point):
        return quantization.quantize(x, scale, zero_point, self.output_tensor.dtype)


class ElementWiseDequantizeLinear(Operator, op="ELEMENT_WISE_DEQUANTIZE_LINEAR"):
    """Computes what integers stand for, each with a scale and a zero point of its own.

    `output = (input - zero_point) * scale`

    Choices: the difference is that of the numbers and does not wrap; it is rounded to FLOAT32, and
    its product with the scale once more; a zero point that is left out is 0.

    Gradient: `dy * (input - zero_point)` for the scale.

    Fields:
        input_tensor: the integers.
        scale_tensor: what a step of the integer stands for. Functions broadcast it, and the zero
            point.
        zero_point_tensor: the integer that stands for 0, of the input's type. It may be left out
            from feature level 6_2 on.
        output_tensor: the real numbers, of the scale's type; all tensors have equal sizes.
    """

    def lower(self, x, scale, zero_point):
        return quantization.dequantize(x, scale, zero_point, self.output_tensor.dtype)


class DynamicQuantizeLinear(_Quantizing, op="DYNAMIC_QUANTIZE_LINEAR"):
    """Quantizes a tensor with one scale and one zero point, which follow from its range.

    `scale = (most - least) / (largest - smallest)`, with the largest and the smallest number of the
    output's type, and with the most and the least element of the input and 0;
    `zero_point = round(smallest - least / scale)`;
    `output = clamp(round(input / scale) + zero_point, smallest, largest)`.

    Choices: the range holds 0, and the zero point is rounded and saturated before it is used, both
    as ONNX has it; where all elements are 0, the scale is 1.

    Gradient: that of the range for the scale; none for the integers.

    Fields:
        input_tensor: the real numbers.
        output_tensor: the integers, of the input's sizes.
        output_scale_tensor: the scale, FLOAT32, of one element.
        output_zero_point_tensor: the zero point, of the output's type, of one element.
    """

    def lower(self, x):
        return quantization.dynamic_quantize(x, self.output_tensor.dtype)


class _InBlocks(Operator):
    """Quantization parameters that blocks of elements share.

    Choices: the page says nothing of these tensors, and callers do this: a size of q in a dimension
    of n elements gives n / q neighbours one parameter, so that q divides n. The scale has the type
    of the real numbers, the zero point that of the integers.

    Fields:
        quantization_type: SCALE, or SCALE_ZERO_POINT.
        quantization_tensors: [scale], or [scale, zero point].
    """

    @rule("input_tensor", "quantization_tensors")
    def blocks_are_equal(self, expect: Expect) -> None:
        for k, tensor in enumerate(self.quantization_tensors):
            if tensor.dimension_count == self.input_tensor.dimension_count:
                sizes = zip(self.input_tensor.sizes, tensor.sizes, strict=True)
                for d, (n, q) in enumerate(sizes):
                    text = f"divide {n} (InputTensor.Sizes[{d}])"
                    expect(n % q == 0, f"QuantizationTensors[{k}].Sizes[{d}]", text, q)

    def parameters(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        """Return the scale and the zero point (None if there is none) of each element."""
        scale, *zero = (quantization.spread(t, self.input_tensor.sizes) for t in tensors)
        return scale, zero[0] if zero else None


class Quantize(_InBlocks, _Quantizing, op="QUANTIZE"):
    """Quantizes blocks of elements, to 4 or 8 bits.

    `output = clamp(round(input / scale) + zero_point, least, largest)`, with the least and the
    largest number of the output's type.

    Fields:
        input_tensor: the real numbers.
        output_tensor: the integers, of the input's sizes.
    """

    def lower(self, x, *tensors):
        scale, zero_point = self.parameters(tensors)
        return quantization.quantize(x, scale, zero_point, self.output_tensor.dtype)


class Dequantize(_InBlocks, op="DEQUANTIZE"):
    """Computes what integers of 4 or 8 bits stand for, in blocks.

    `output = (input - zero_point) * scale`

    Gradient: the sum over a block of `dy * (input - zero_point)` for its scale.

    Fields:
        input_tensor: the integers.
        output_tensor: the real numbers, of the input's sizes.
    """

    def lower(self, x, *tensors):
        scale, zero_point = self.parameters(tensors)
        return quantization.dequantize(x, scale, zero_point, self.output_tensor.dtype)


class ElementWiseQuantizedLinearAdd(_Quantizing, op="ELEMENT_WISE_QUANTIZED_LINEAR_ADD"):
    """Adds two quantized tensors, and quantizes the sum.

    `output = clamp(round((a + b) / output_scale) + output_zero_point, least, largest)`, with
    `a = (a_tensor - a_zero_point) * a_scale`, and `b` likewise.

    Choices: the sum may be contracted with a product into one rounding by the backend.

    Gradient: none, since the output is an integer.

    Fields:
        a_tensor, b_tensor: the integers to add.
        a_scale_tensor, b_scale_tensor, output_scale_tensor: what a step stands for, of one element.
        a_zero_point_tensor, b_zero_point_tensor, output_zero_point_tensor: the integer that stands
            for 0, of one element.
        output_tensor: the sum, of the sizes of both.
    """

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        return {"output_tensor": self.a_tensor.data_type}

    def lower(self, a, a_scale, a_zero, b, b_scale, b_zero, scale, zero):
        first = quantization.dequantize(a, a_scale, a_zero, a_scale.dtype)
        second = quantization.dequantize(b, b_scale, b_zero, b_scale.dtype)
        return quantization.quantize(first + second, scale, zero, self.output_tensor.dtype)
