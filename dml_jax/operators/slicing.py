"""Operators that cut tensors, pad them, or reverse parts of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from dml_jax.description.fields import Scalar
from dml_jax.enums import PaddingMode
from dml_jax.errors import DmlError, Fault
from dml_jax.lowering import clamp, slicing
from dml_jax.lowering.dtypes import is_float
from dml_jax.operator import Operator


class Slice(Operator, op="SLICE"):
    """Cuts a part out of a tensor, with strides.

    `output[i] = input[offset + stride * i]`, in each dimension.

    Gradient: the output's at the places that were read, 0 elsewhere.

    Fields:
        output_tensor: the part, of `sizes`.
        offsets: the first index that is read, in each dimension.
        sizes: the number of elements that are read, in each dimension.
        strides: the step from one index that is read to the next, in each dimension. Choice: at
            least 1.
    """

    takes_any_axes = True
    arguments = ("input_window_offsets", "input_window_sizes", "input_window_strides")

    @classmethod
    def expresses(cls, fields: Mapping[str, Any], beyond: bool = False) -> str:
        """Return why this version does not express a call, whose strides must be positive.

        SLICE1 has the window that the caller gives, and SLICE the elements that are read of it. So
        SLICE1 reports a window that is wrong.
        """
        sizes, lists = fields["input_tensor"].sizes, cls._window(fields)
        is_plain = {*map(len, lists)} == {len(sizes)} and all(
            size >= 1 and start + size <= n and stride >= 1
            for n, start, size, stride in zip(sizes, *lists, strict=True)
        )
        if not is_plain:
            rule = "be those of a window within the tensor, and positive strides"
            raise DmlError([Fault(cls.c_name, "Strides", rule, lists[2])])
        return super().expresses(fields, beyond)

    @classmethod
    def _window(cls, fields: Mapping[str, Any]) -> list[Sequence[int]]:
        """Return the offsets, sizes and strides of the window. Raises `DmlError`."""
        kinds = {f.name: f.kind for f in Slice1.fields}
        full = _with_strides({**fields}, "input_tensor")
        return [kinds[name].convert(full[name]) for name in cls.arguments]

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the SLICE of the elements that strides read of a window."""
        offsets, sizes, strides = cls._window(fields)
        read = [1 + (size - 1) // stride for size, stride in zip(sizes, strides, strict=True)]
        others = {name: value for name, value in fields.items() if name not in cls.arguments}
        return cls.infer(offsets=offsets, sizes=read, strides=strides, **others)

    def lower(self, x):
        return slicing.cut(x, self.offsets, self.strides, self.sizes)


_NO_VALUE = {"padding_value": 0}


def _with_strides(fields: dict[str, Any], tensor: str) -> dict[str, Any]:
    """Return the fields of a function with strides of 1, where it leaves them out."""
    if fields.get("input_window_strides") is None:
        offsets = fields.get("input_window_offsets")
        is_list = isinstance(offsets, (list, tuple))  # of a wrong length, which is said alone
        count = len(offsets) if is_list else fields[tensor].dimension_count
        fields["input_window_strides"] = [1] * count
    return fields


class _Window(Operator):
    """A window of a tensor, and strides within it.

    Fields:
        input_window_offsets: the first index of the window, in each dimension.
        input_window_sizes: the number of elements that the window spans, in each dimension.
        input_window_strides: the step from one element to the next, in each dimension; not 0. A
            negative one begins at the window's end.
    """

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator that a function describes, with strides of 1 where it has none."""
        return super().infer_from(**_with_strides(fields, cls.fields[0].name))

    @property
    def starts(self) -> list[int]:
        """Return the index of the first element, in each dimension."""
        windows = zip(
            self.input_window_offsets,
            self.input_window_sizes,
            self.input_window_strides,
            strict=True,
        )
        return [offset + (size - 1) * (stride < 0) for offset, size, stride in windows]


class Slice1(_Window, op="SLICE1"):
    """Cuts a part out of a tensor, with strides that may be negative.

    `output[i] = input[start + stride * i]`, in each dimension, with `start = offset` for a positive
    stride, and `start = offset + window - 1` for a negative one.

    Gradient: SLICE_GRAD of the output's.

    Fields:
        output_tensor: the part; at most `1 + (window - 1) // |stride|` elements in each dimension.
    """

    takes_any_axes = True

    def default_sizes(self) -> Mapping[str, Sequence[int]]:
        pairs = zip(self.input_window_sizes, self.input_window_strides, strict=True)
        return {"output_tensor": [1 + (size - 1) // abs(stride) for size, stride in pairs]}

    def lower(self, x):
        return slicing.cut(x, self.starts, self.input_window_strides, self.output_tensor.sizes)


class SliceGrad(_Window, op="SLICE_GRAD"):
    """Computes the gradient of SLICE1, given the gradient of its output.

    `output_gradient[start + stride * i] = input_gradient[i]`, in each dimension, and 0 elsewhere.

    Gradient: SLICE1 of the output's.

    Fields:
        input_gradient_tensor: the gradient of the part that SLICE1 cut out.
        output_gradient_tensor: the gradient of the tensor that SLICE1 read.
    """

    def lower(self, gradient):
        sizes = self.output_gradient_tensor.sizes
        return slicing.put(gradient, self.starts, self.input_window_strides, sizes)


class _Padding(Operator):
    """Elements around a tensor.

    With `p = i - start_padding` and n elements in a dimension, `output[i] = input[f(p)]`, in each
    dimension: EDGE clamps p to [0, n - 1]; WRAP takes it modulo n; SYMMETRIC and REFLECTION go to
    and fro, with and without a second copy of the edge; CONSTANT gives `padding_value` where p is
    outside of the input. All go on beyond the size.

    Choices: WRAP is periodic, as numpy.pad has it; REFLECTION repeats a single element.

    Gradient: for each element of the input, the sum of the output's over its copies.

    Fields:
        output_tensor: in each dimension of the input's size and both paddings.
        padding_mode: CONSTANT, EDGE, REFLECTION, SYMMETRIC (from feature level 3_0 on) or WRAP
            (from 6_4 on).
    """

    takes_any_axes = True

    @property
    def value(self) -> float | int:
        """Return the padding value in the tensor's type."""
        return self.padding_value

    def lower(self, x):
        mode = self.padding_mode.suffix
        return slicing.pad(x, self.start_padding, self.end_padding, mode, self.value)


class Padding(_Padding, op="PADDING"):
    """Pads a tensor, with a value that is FLOAT whatever the tensor's type.

    Fields:
        padding_value: the elements that CONSTANT adds; cast to the tensor's type. Choices: integers
            truncate toward zero, then saturate, and CONSTANT refuses NaN; FLOAT16 rounds to nearest
            even.
    """

    @classmethod
    def expresses(cls, fields: Mapping[str, Any], beyond: bool = False) -> str:
        """Return why this version does not express a call: a FLOAT has to be the very value.

        PADDING would cast another value, where PADDING1 refuses it or adds the value itself.
        """
        fields, dtype = cls._with_typed_value(fields), fields["input_tensor"].dtype
        value, is_added = fields["padding_value"], cls._adds_value(fields)
        types = (dtype, np.dtype(np.float32)) if is_added else (dtype,)
        is_nan = value != value and is_float(dtype)
        if not (is_nan or all(clamp.cast_bound(value, own) == value for own in types)):
            rule = "be a FLOAT, and an element of the tensor's type"
            raise DmlError([Fault(cls.c_name, "PaddingValue", rule, value)])
        return super().expresses(fields if is_added else fields | _NO_VALUE, beyond)

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the PADDING by the value in the tensor's type, 0 where the mode adds none."""
        fields = cls._with_typed_value(fields)
        return super().infer_from(**fields if cls._adds_value(fields) else fields | _NO_VALUE)

    @classmethod
    def _adds_value(cls, fields: Mapping[str, Any]) -> bool:
        return PaddingMode.of(fields["padding_mode"]) == PaddingMode.CONSTANT

    @classmethod
    def _with_typed_value(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields with the value as PADDING1 has it: rounded to a float type."""
        kind, data_type = Scalar("PaddingValueDataType"), fields["input_tensor"].data_type
        value = kind.of_type(kind.convert(fields["padding_value"]), data_type)
        return {**fields, "padding_value": value}

    @property
    def value(self) -> float | int:
        return clamp.cast_bound(self.padding_value, self.input_tensor.dtype)


class Padding1(_Padding, op="PADDING1"):
    """Pads a tensor, with a value in the tensor's own type.

    Fields:
        padding_value_data_type: the type of the value, which is the tensors'.
        padding_value: the elements that CONSTANT adds. Choice: an integer type refuses a fraction
            and a number that it does not hold; a float type rounds to nearest even.
    """


class ReverseSubsequences(Operator, op="REVERSE_SUBSEQUENCES"):
    """Reverses the first elements of each line along an axis.

    `output[..., j, ...] = input[..., length - 1 - j, ...]` for j below the line's length, and
    `input[..., j, ...]` from there on, with j on `axis`. A length beyond the size counts as it.

    Gradient: REVERSE_SUBSEQUENCES of the output's.

    Fields:
        sequence_lengths_tensor: the length of each line; of the size 1 along `axis`.
        output_tensor: of the input's type and sizes.
    """

    def lower(self, x, lengths):
        return slicing.reverse_subsequences(x, lengths, self.axis)
