"""Operators on the windows of a tensor: pooling, its gradients, FOLD and UNFOLD."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault, items_of
from dml_jax.lowering import pooling, windows
from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.windows import Window
from dml_jax.operator import Operator
from dml_jax.operators.windowed import Windowed, first_spatial, least_sizes


class _Counted(Windowed):
    """Has as many windows as the caller says.

    Choices: there may be fewer windows than whole ones in the padded input, and in each dimension
    a last one that hangs over its end, where a stride begins it before the end of a whole one: from
    1 to `ceil((padded input - reach) / stride) + 1`, with the reach `(size - 1) * dilation + 1`.
    The elements over the end count as padding. Functions take whole windows without sizes.

    Fields:
        include_padding: whether a sum is divided by the number of all elements of the window; else
            by the number of those in the input.
    """

    counted: ClassVar[tuple[str, str]] = ("input_tensor", "output_tensor")

    @property
    def window(self) -> Window:
        """The window, with the padding behind the input that the windows reach."""
        whole, counts = (getattr(self, name).sizes[2:] for name in self.counted)
        return super().window.counted(whole, counts)


class _Pooling(_Counted):
    """Combines the elements of each window.

    Fields:
        input_tensor: {N, C, spatial...}, with 2 or 3 spatial dimensions.
        output_tensor: {N, C, spatial...}: one element for each window.
    """


def _listed(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, int) else items_of(value)


class _Undilated(_Pooling):
    """A version without dilations, which expresses dilations of 1 alone."""

    arguments = ("dilations",)

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments without dilations of 1."""
        rest = dict(arguments)
        dilations = rest.pop("dilations", None)
        if dilations is not None and any(d != 1 for d in _listed(dilations)):
            raise DmlError([Fault(cls.c_name, "Dilations", "be 1 everywhere", dilations)])
        return rest


class AveragePooling(_Undilated, op="AVERAGE_POOLING"):
    """Averages the elements of each window.

    `output[n, c, i] = sum(input[n, c, i * stride + k - start_padding] over k) / count`, with the
    `count` that include_padding chooses.

    Choices: FLOAT16 is summed in FLOAT32 and rounded once; a window that lies in padding alone
    gives 0.

    Gradient: that of AVERAGE_POOLING_GRAD.
    """

    takes_channels_last = True

    def lower(self, x, *, layout="NCHW"):
        return pooling.average(x, self.window, self.include_padding, first_spatial(layout))


class AveragePooling1(_Pooling, op="AVERAGE_POOLING1"):
    """Averages the elements of each window, which dilations may spread.

    `output[n, c, i] = sum(input[n, c, i * stride + k * dilation - start_padding] over k) / count`,
    with the `count` that include_padding chooses.

    Choices: FLOAT16 is summed in FLOAT32 and rounded once; a window that lies in padding alone
    gives 0.

    Gradient: each element's is the sum over its windows of `dy / count`.
    """

    takes_channels_last = True
    lower = AveragePooling.lower


class AveragePoolingGrad(_Counted, op="AVERAGE_POOLING_GRAD"):
    """Computes the gradient of the input of AVERAGE_POOLING from that of its output.

    `output_gradient[n, c, p] = sum(input_gradient[n, c, i] / count[i])` over the windows i that
    have the element p; `count` is that of AVERAGE_POOLING.

    Choices: FLOAT16 is summed in FLOAT32 and rounded once; a window that lies in padding alone adds
    nothing.

    Gradient: AVERAGE_POOLING of the output's.

    Fields:
        input_gradient_tensor: {N, C, spatial...}: one element for each window.
        output_gradient_tensor: {N, C, spatial...}, as the input of AVERAGE_POOLING.
    """

    counted = ("output_gradient_tensor", "input_gradient_tensor")

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator of a function: of the least sizes with so many windows."""
        fields = cls.filled(fields)
        counts = fields["input_gradient_tensor"].sizes
        spatial = least_sizes(counts[2:], fields.get("window_size"), fields)
        if fields.get("output_sizes") is None and spatial is not None:
            fields["output_sizes"] = (*counts[:2], *spatial)
        return super().infer_from(**fields)

    def lower(self, gradient):
        shape = self.output_gradient_tensor.sizes
        return pooling.average_grad(gradient, self.window, self.include_padding, shape)


class _LpPooling(_Pooling):
    """Takes the Lp norm of each window.

    Choices: the absolute value, as in ONNX; FLOAT16 is computed in FLOAT32 and rounded once;
    where `|x|^p` leaves the range of FLOAT32, it is infinite or 0; a window that lies in padding
    alone gives 0.

    Gradient: `dy * sign(x) * (|x| / output)^(p - 1)`, 0 where the output is 0.

    Fields:
        p: 1 for the sum of magnitudes, 2 for the Euclidean norm, and so on.
    """

    def lower(self, x):
        return pooling.lp(x, self.window, self.p)


class LpPooling(_LpPooling, _Undilated, op="LP_POOLING"):
    """Takes the Lp norm of each window.

    `output[n, c, i] = sum(|input[n, c, i * stride + k - start_padding]|^p over k)^(1/p)`
    """


class LpPooling1(_LpPooling, op="LP_POOLING1"):
    """Takes the Lp norm of each window, which dilations may spread.

    `output[n, c, i] = sum(|input[n, c, i * stride + k * dilation - start_padding]|^p over k)^(1/p)`
    """


class _MaxPooling(_Pooling):
    """Finds the largest element of each window.

    Choices: NaN where a window has one. Padding is never the largest element, also beside the
    lowest value; a window that lies in padding alone gives the lowest value (-infinity), and
    index 0.

    Gradient: that of MAX_POOLING_GRAD.
    """

    takes_channels_last = True

    def lower(self, x, *, layout="NCHW"):
        indices = getattr(self, "output_indices_tensor", None)
        if indices is None:
            return pooling.maximum(x, self.window, first_spatial(layout)), None
        return pooling.maximum_with_index(x, self.window, indices.dtype)


class MaxPooling(_MaxPooling, _Undilated, op="MAX_POOLING"):
    """Finds the largest element of each window.

    `output[n, c, i] = max(input[n, c, i * stride + k - start_padding] over k)`
    """


class _Indexed(_MaxPooling):
    """Finds where the largest element lies, too.

    Fields:
        output_indices_tensor: the row-major index of the largest element in the whole input, batch
            and channel included; the lowest index of equal elements. It may be left out.
    """

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        return {"output_indices_tensor": TensorDataType.UINT32}


class MaxPooling1(_Indexed, _Undilated, op="MAX_POOLING1"):
    """Finds the largest element of each window, and its index.

    `output[n, c, i] = max(input[n, c, i * stride + k - start_padding] over k)`
    """


class MaxPooling2(_Indexed, op="MAX_POOLING2"):
    """Finds the largest element of each window, which dilations may spread, and its index.

    `output[n, c, i] = max(input[n, c, i * stride + k * dilation - start_padding] over k)`
    """


class MaxPoolingGrad(_Counted, op="MAX_POOLING_GRAD"):
    """Computes the gradient of the input of MAX_POOLING2 from that of its output.

    `output_gradient[n, c, p] = sum(input_gradient[n, c, i])` over the windows i whose largest
    element is at p.

    Choices: the lowest index of equal elements, the first NaN where there is one; FLOAT16 is summed
    in FLOAT32 and rounded once; a window that lies in padding alone adds nothing.

    Gradient: for `input_gradient_tensor` the output's at the places of the largest elements; 0 for
    `input_tensor`.

    Fields:
        input_tensor: the input of MAX_POOLING2, {N, C, spatial...}.
        input_gradient_tensor: one element for each window.
        output_gradient_tensor: of the sizes of `input_tensor`.
    """

    counted = ("input_tensor", "input_gradient_tensor")

    def lower(self, x, gradient):
        return pooling.maximum_grad(x, gradient, self.window)


class MaxUnpooling(Operator, op="MAX_UNPOOLING"):
    """Writes each element at an index of an output that is 0 elsewhere.

    `output.ravel()[indices[p]] = input[p]`

    Choices: an index outside of the output writes nothing; of several elements with one index the
    last is written; the index counts row-major in the logical output, whatever its strides.

    Gradient: the output's at the element's index, 0 for an element that is not written.

    Fields:
        input_tensor: {N, C, H, W}: the largest elements.
        indices_tensor: the indices that MAX_POOLING1 gives, of the input's sizes.
        output_tensor: {N, C, H, W}; the caller chooses its sizes.
    """

    def lower(self, x, indices):
        return pooling.unpooled(x, indices, self.output_tensor.sizes)


class QuantizedLinearAveragePooling(_Pooling, op="QUANTIZED_LINEAR_AVERAGE_POOLING"):
    """Averages the quantized elements of each window, and quantizes the mean.

    `output = clamp(round(mean / output_scale) + output_zero, least, largest)`, with the mean of
    `(input - input_zero) * input_scale`, and with the least and the largest number of the output's
    type.

    Choices: padding is the real 0; the sum is exact, and is scaled and divided in FLOAT32; halves
    round to even; a zero point that is left out is 0; a window that lies in padding alone has the
    mean 0.

    Gradient: none, since the tensors are integers.

    Fields:
        input_scale_tensor, output_scale_tensor: what a step of the integers stands for: of one
            element, or one for each channel.
        input_zero_point_tensor, output_zero_point_tensor: the integer that stands for 0: of one
            element, or one for each channel.
    """

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        return {"output_tensor": self.input_tensor.data_type}

    def lower(self, x, x_scale, x_zero, scale, zero):
        parameters = (self.window, self.include_padding, self.output_tensor.dtype)
        return pooling.quantized_average(x, x_scale, x_zero, scale, zero, *parameters)


class _Columns(Windowed):
    """Windows as columns: {N, C * window elements, windows}, with any ones before.

    Choices: FLOAT32 and FLOAT16, as the page names no type; columns have 3 dimensions, and spatial
    tensors two more than there are spatial dimensions, as the page's examples have them.

    Fields:
        window_sizes: the elements of a window in each spatial dimension.
    """

    window_field = "window_sizes"


class Unfold(_Columns, op="UNFOLD"):
    """Copies the elements of each window into one column.

    `output[n, c * window elements + k, i] = input[n, c, i * stride + k * dilation -
    start_padding]`, with row-major indices of the place k in the window and of the window i; 0 in
    the padding.

    Gradient: FOLD of the output's.

    Fields:
        input_tensor: {N, C, spatial...}.
        output_tensor: {N, C * window elements, windows}.
    """

    def lower(self, x):
        return windows.unfold(x, self.window).reshape(self.output_tensor.sizes)


class Fold(_Columns, op="FOLD"):
    """Adds the columns that UNFOLD makes at the places of their windows.

    `output[n, c, i * stride + k * dilation - start_padding] += input[n, c * window elements + k,
    i]`, with row-major indices of the place k in the window and of the window i; what lies in the
    padding is dropped.

    Choices: FLOAT16 is summed in FLOAT32 and rounded once.

    Gradient: UNFOLD of the output's.

    Fields:
        input_tensor: {N, C * window elements, windows}.
        output_tensor: {N, C, spatial...}; the caller chooses its spatial sizes.
    """

    spatial_count = ""  # the spatial dimensions are the output's

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments; an integer stands for each spatial dimension of the output."""
        sizes = arguments["output_sizes"]
        for f in cls.fields if isinstance(sizes, (list, tuple)) else ():
            if f.count == "DimensionCount" and type(arguments[f.name]) is int:
                arguments[f.name] = [arguments[f.name]] * (len(sizes) - 2)
        return arguments

    def lower(self, x):
        columns = wide(x).reshape(x.shape[-3:])
        return windows.fold(columns, self.window, self.output_tensor.sizes).astype(x.dtype)
