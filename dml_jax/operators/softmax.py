"""Operators that normalize the elements along axes: SOFTMAX, LOG_SOFTMAX, HARDMAX."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from dml_jax.errors import DmlError, Fault, items_of
from dml_jax.lowering import softmax
from dml_jax.operators.element_wise import Mapped


class OverLast(Mapped):
    """Normalizes each row, along the last axis.

    Choices: the axis is the last one, which the page leaves to the versions with `axes`. FLOAT16 is
    computed in FLOAT32 and rounded once.

    Fields:
        input_tensor: the tensor to normalize: a matrix, with any number of dimensions of size 1
            before its two. Functions take tensors of every rank.
        output_tensor: of the input's type and sizes.
    """

    arguments = ("axes",)

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments without `axes`, which may name the last axis only."""
        axes = arguments.pop("axes", None)
        rank = len(getattr(arguments["input_tensor"], "shape", ()))
        listed = [axes] if isinstance(axes, (int, np.integer)) else axes
        if listed is not None and items_of(listed) not in ((-1,), (rank - 1,)):
            raise DmlError([Fault(cls.c_name, "axes", "name the last axis", axes)])
        return arguments

    @classmethod
    def expresses(cls, fields: Mapping[str, Any], beyond: bool = False) -> str:
        """Return why this version does not express a call, which must be of one matrix."""
        sizes = fields["input_tensor"].sizes
        if not {*sizes[:-2]} <= {1}:
            rule = "be 1 in all dimensions before the last two"
            raise DmlError([Fault(cls.c_name, "InputTensor.Sizes", rule, list(sizes))])
        return super().expresses(fields, beyond)


class OverAxes(Mapped):
    """Normalizes the elements along `axes` together.

    Choices: FLOAT16 is computed in FLOAT32 and rounded once; the order of `axes` does not matter.

    Fields:
        output_tensor: of the input's type and sizes.
    """

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator over `axes`: over the last one, where they are left out."""
        if fields.get("axes") is None:
            fields["axes"] = (fields["input_tensor"].dimension_count - 1,)
        return super().infer_from(**fields)


class ActivationSoftmax(OverLast, op="ACTIVATION_SOFTMAX", function=softmax.softmax):
    """Turns the elements of each row into positive numbers that add up to 1.

    `y[i] = exp(x[i]) / sum(exp(x[k]) for every k)`, computed as
    `exp(x[i] - max(x)) / sum(exp(x[k] - max(x)))`, which does not overflow.

    Choices: a row with NaN or with infinity, and a row of which every element is -infinity, is NaN.

    Gradient: `y * (dy - sum(y * dy))`.
    """


class ActivationSoftmax1(OverAxes, op="ACTIVATION_SOFTMAX1", function=softmax.softmax):
    """Turns the elements along axes into positive numbers that add up to 1.

    `y[i] = exp(x[i]) / sum(exp(x[k]) for every k)`, computed as
    `exp(x[i] - max(x)) / sum(exp(x[k] - max(x)))`, which does not overflow.

    Choices: elements that belong together become NaN if they hold NaN or +infinity, or only
    -infinity.

    Gradient: `y * (dy - sum(y * dy))`.
    """

    takes_any_axes = True


class ActivationLogSoftmax(OverLast, op="ACTIVATION_LOG_SOFTMAX", function=softmax.log_softmax):
    """Takes the logarithm of SOFTMAX of each row.

    `y[i] = x[i] - log(sum(exp(x[k]) for every k))`, with the maximum taken off before.

    Choices: a row with NaN or with infinity, and a row of which every element is -infinity, is NaN.
    The sum is in FLOAT64; a result nearer to 0 than 2^-53 becomes 0.

    Gradient: `dy - exp(y) * sum(dy)`.
    """


class ActivationLogSoftmax1(OverAxes, op="ACTIVATION_LOG_SOFTMAX1", function=softmax.log_softmax):
    """Takes the logarithm of SOFTMAX1 of the elements along axes.

    `y[i] = x[i] - log(sum(exp(x[k]) for every k))`, with the maximum taken off before.

    Choices: the page prints the numbers of HARDMAX1 as its examples; the formula rules.
    Elements that belong together become NaN if they hold NaN or +infinity, or only -infinity. The
    sum is in FLOAT64; a result nearer to 0 than 2^-53 becomes 0.

    Gradient: `dy - exp(y) * sum(dy)`.
    """

    takes_any_axes = True


class ActivationHardmax(OverLast, op="ACTIVATION_HARDMAX", function=softmax.hardmax):
    """Puts 1 at the first maximum of each row, and 0 elsewhere.

    `y[i] = 1 if i == argmax(x) else 0`, with the first place of the largest element in the row.

    Choices: NaN is the maximum where there is one; -0.0 equals 0.0.

    Gradient: 0; the output is constant between its steps.
    """


class ActivationHardmax1(OverAxes, op="ACTIVATION_HARDMAX1", function=softmax.hardmax):
    """Puts 1 at the first maximum of the elements along axes, and 0 elsewhere.

    `y[i] = 1 if i == argmax(x) else 0`, with the first place of the largest element along `axes`.

    Choices: the first maximum is the one of the lowest row-major index within `axes` in increasing
    order. NaN is the maximum where there is one; -0.0 equals 0.0.

    Gradient: 0; the output is constant between its steps.
    """
