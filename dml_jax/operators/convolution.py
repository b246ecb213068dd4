"""Operators that convolve: CONVOLUTION, and two of integers."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from dml_jax.enums import ConvolutionDirection, ConvolutionMode, TensorDataType
from dml_jax.lowering.convolution import api, integers
from dml_jax.operator import Fitted, per_channel
from dml_jax.operators.windowed import Windowed, least_sizes


class _Convolving(Windowed):
    """Adds the products of a filter and of each window of the input.

    Fields:
        input_tensor: {N, C, spatial...}, with 1, 2 or 3 spatial dimensions.
        filter_tensor: {output channels, C / group_count, spatial...}.
        output_tensor: {N, output channels, spatial...}.
        group_count: in how many groups of channels the convolution is done, each by itself; as many
            as channels is a depthwise convolution.
    """

    def sizes_of_window(self) -> Sequence[int]:
        """Return the spatial sizes of the filter."""
        return self.filter_tensor.sizes[2:]


class Convolution(_Convolving, op="CONVOLUTION"):
    """Convolves a tensor with a filter, adds a bias to each channel, and applies an activation.

    FORWARD: `output[n, p, i] = activation(bias[p] + sum(input[n, c, i * stride + k * dilation -
    start_padding] * filter[p, c, k]))` over the channels c of p's group and the places k of the
    filter; elements outside of the input are 0. BACKWARD is the transpose: each
    `input[n, c, i] * filter[c, p, k]` is added to `output[n, p, i * stride + k * dilation -
    start_padding]`. CROSS_CORRELATION reads the filter as it is stored, CONVOLUTION mirrored in
    every spatial dimension.

    Choices: FLOAT16 is summed in FLOAT32 and rounded once, behind bias and activation. FLOAT32 is
    multiplied in full precision on every device, unless `jax_default_matmul_precision` is set. The
    order of the sum is free. In BACKWARD the output has `(size - 1) * stride + 1 + (filter size -
    1) * dilation - padding` elements, or up to stride - 1 more, which are computed. What
    `output_padding` adds at the end of a dimension is `activation(bias)`; in FORWARD it has no
    effect.

    Gradient: the transpose, of the other direction, for the input; the correlation of input and
    gradient for the filter; the sum over a channel for the bias.

    Fields:
        filter_tensor: FORWARD: {output channels, C / group_count, spatial...}; BACKWARD:
            {C, output channels / group_count, spatial...}.
        bias_tensor: {1, output channels, 1...}; functions also take {output channels}.
        mode: CROSS_CORRELATION, or CONVOLUTION, which mirrors the filter.
        direction: FORWARD, or BACKWARD for the transpose.
        start_padding: the zeros before each spatial dimension of the input; in BACKWARD the
            elements that are cut off the result there.
        end_padding: the same, behind each spatial dimension.
        output_padding: the elements that are added behind each spatial dimension of the output.
    """

    @classmethod
    def fitted(cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Any) -> Fitted:
        """Return a bias of one number for each channel with the input's rank."""
        return per_channel(sizes, "bias_tensor")

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the convolution that a function describes; BACKWARD of the least sizes."""
        fields = cls.filled(fields)
        is_backward = fields.get("direction") in ("BACKWARD", ConvolutionDirection.BACKWARD)
        if is_backward and fields.get("output_sizes") is None:
            x, w = fields["input_tensor"].sizes, fields["filter_tensor"].sizes
            sums = least_sizes(x[2:], w[2:], fields)
            groups, padding = fields.get("group_count", 1), fields["output_padding"]
            if sums and all(isinstance(v, int) for v in (groups, *padding)):
                spatial = [n + p for n, p in zip(sums, padding, strict=False)]
                fields["output_sizes"] = (x[0], w[1] * groups, *spatial)
        return super().infer_from(**fields)

    def lower(self, x, w, bias, *, layout="NCHW"):
        is_mirrored = self.mode == ConvolutionMode.CONVOLUTION
        common = (x, w, bias, self.window, self.group_count, is_mirrored)
        if self.direction == ConvolutionDirection.FORWARD:
            return api.convolution(*common, self.fused_activation, layout)
        sizes = self.output_tensor.sizes[2:]
        return api.transpose_convolution(*common, sizes, self.output_padding, self.fused_activation)


class ConvolutionInteger(_Convolving, op="CONVOLUTION_INTEGER"):
    """Convolves integers of 8 bits to INT32.

    `output[n, p, i] = sum((input[n, c, i * stride + k * dilation - start_padding] - input_zero) *
    (filter[p, c, k] - filter_zero[p]))` over the channels c of p's group and the places k of the
    filter.

    Choices: padding adds nothing; the filter is not mirrored; the sum wraps modulo 2^32; a zero
    point that is left out is 0; 1 spatial dimension as well as 2.

    Gradient: none, since the tensors are integers.

    Fields:
        input_zero_point_tensor: what stands for 0 in the input; of one element.
        filter_zero_point_tensor: what stands for 0 in the filter; of one element, or one for each
            output channel.
    """

    def lower(self, x, x_zero, w, w_zero):
        return integers.integer_convolution(x, x_zero, w, w_zero, self.window, self.group_count)


class QuantizedLinearConvolution(_Convolving, op="QUANTIZED_LINEAR_CONVOLUTION"):
    """Convolves two quantized tensors, and quantizes the result.

    `output = clamp(round((sum + bias[p]) * input_scale * filter_scale[p] / output_scale) +
    output_zero, least, largest)`, with the sum of CONVOLUTION_INTEGER, and with the least and the
    largest number of the output's type.

    Choices: the bias counts in units of `input_scale * filter_scale`, as in ONNX; padding adds
    nothing; the filter is not mirrored; the INT32 sum wraps; it is scaled in FLOAT32; halves round
    to even; a zero point that is left out is 0; 1 spatial dimension as well as 2.

    Gradient: none, since the tensors are integers.

    Fields:
        input_scale_tensor, filter_scale_tensor, output_scale_tensor: what a step of the integers
            stands for; of one element, the filter's also one for each output channel.
        input_zero_point_tensor, filter_zero_point_tensor, output_zero_point_tensor: the integer
            that stands for 0; of the sizes of the scales.
        bias_tensor: {1, output channels, 1...}; functions also take {output channels}.
    """

    @classmethod
    def fitted(cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Any) -> Fitted:
        """Return a bias of one number for each channel with the input's rank."""
        return per_channel(sizes, "bias_tensor")

    def default_data_types(self) -> dict[str, TensorDataType]:
        return {"output_tensor": self.input_tensor.data_type}

    def lower(self, x, x_scale, x_zero, w, w_scale, w_zero, bias, scale, zero):
        total = integers.integer_convolution(x, x_zero, w, w_zero, self.window, self.group_count)
        return integers.quantize_sums(
            total, bias, x_scale, w_scale, scale, zero, self.output_tensor.dtype
        )
