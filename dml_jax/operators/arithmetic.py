"""Operators that map the elements at one place of several tensors."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jax import lax

from dml_jax.errors import DmlError, Fault
from dml_jax.lowering import arithmetic
from dml_jax.operator import Fitted, Operator, with_rank


class Binary(Operator):
    """Maps the two elements at each place.

    Choices: FLOAT16 is computed in FLOAT32 and rounded once; integers wrap modulo 2^n.

    Fields:
        a_tensor, b_tensor: the tensors to map, of one type and equal sizes; strides of 0 broadcast,
            and functions broadcast as NumPy does.
        output_tensor: of the inputs' type and sizes; may be the memory of either.
    """

    by_element = True

    def lower(self, a, b, /):
        return arithmetic.rounded(self.function, a, b)


class ElementWiseAdd(Binary, op="ELEMENT_WISE_ADD", function=lax.add):
    """Adds the elements of two tensors: `output = a + b`.

    Gradient: the output's, for both.
    """


class ElementWiseAdd1(Binary, op="ELEMENT_WISE_ADD1"):
    """Adds the elements of two tensors, and applies an activation: `output = activation(a + b)`.

    Choice: the sum and the activation are computed in FLOAT32 and rounded once.

    Gradient: the output's times the activation's, for both.
    """

    def lower(self, a, b, /):
        activation = self.fused_activation or (lambda total: total)
        return arithmetic.rounded(lambda a, b: activation(a + b), a, b)


class ElementWiseSubtract(Binary, op="ELEMENT_WISE_SUBTRACT", function=lax.sub):
    """Subtracts the elements of a tensor from those of another: `output = a - b`.

    Gradient: the output's for `a_tensor`, its negative for `b_tensor`.
    """


class ElementWiseMultiply(Binary, op="ELEMENT_WISE_MULTIPLY", function=lax.mul):
    """Multiplies the elements of two tensors: `output = a * b`.

    Gradient: `dy * b` for `a_tensor`, `dy * a` for `b_tensor`.
    """


class ElementWiseDivide(Binary, op="ELEMENT_WISE_DIVIDE", function=arithmetic.divide):
    """Divides the elements of a tensor by those of another: `output = a / b`.

    The quotient of integers is truncated toward zero.

    Choices: the quotient of integers by 0 has all bits set (-1, or the largest unsigned integer);
    the smallest integer by -1 is itself. FLOAT32 quotients are rounded correctly on a CPU, and are
    within 1 unit in the last place on a GPU, whose division is approximate in XLA.

    Gradient: `dy / b` for `a_tensor`, `-dy * a / b**2` for `b_tensor`.
    """


class ElementWiseMin(Binary, op="ELEMENT_WISE_MIN", function=lax.min):
    """Takes the smaller of two elements: `output = min(a, b)`.

    Choice: NaN where either is NaN.

    Gradient: the output's for the smaller; half of it for each of two equal elements.
    """


class ElementWiseMax(Binary, op="ELEMENT_WISE_MAX", function=lax.max):
    """Takes the larger of two elements: `output = max(a, b)`.

    Choice: NaN where either is NaN.

    Gradient: the output's for the larger; half of it for each of two equal elements.
    """


class ElementWiseMean(Binary, op="ELEMENT_WISE_MEAN", function=arithmetic.mean):
    """Takes the mean of two elements: `output = (a + b) / 2`.

    Choices: the sum does not overflow; the mean of integers is truncated toward zero.

    Gradient: half of the output's, for both.
    """


class ElementWisePow(Binary, op="ELEMENT_WISE_POW"):
    """Raises elements to the power of those of another tensor: `output = pow(g(x), exponent)`.

    `g(x) = x * scale + bias` where `scale_bias` is given. NaN where g(x) is negative and the
    exponent has a fraction. Integers to the power of integers are exact.

    Choices: special values are those of C's pow, such as 1 for an exponent of 0. Integers are
    scaled in FLOAT32, truncated and saturated. Powers of integers wrap modulo 2^n; a negative
    integer exponent gives the real power truncated toward zero, the largest integer for 0. Integers
    to the power of floats are computed in FLOAT32, truncated and saturated, 0 for NaN; they are
    exact where the exponent has no fraction and the power fits.

    Gradient: `dy * exponent * pow(g(x), exponent - 1)`, times scale, for `input_tensor`;
    `dy * output * log(g(x))` for `exponent_tensor`, 0 where g(x) is not positive.

    Fields:
        input_tensor: the bases.
        exponent_tensor: the exponents, of equal sizes and of any type (of the input's type below
            feature level 3_0).
        output_tensor: of the input's type and sizes; may be the input's own memory.
        scale_bias: applied to each base first.
    """

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments; a number as the exponent of floats makes CONSTANT_POW instead."""
        exponent, base = arguments["exponent_tensor"], arguments["input_tensor"]
        is_float = jnp.issubdtype(getattr(base, "dtype", float), jnp.floating)
        if is_float and isinstance(exponent, (int, float)):
            rule = "be an array (a number makes ELEMENT_WISE_CONSTANT_POW)"
            raise DmlError([Fault(cls.c_name, "ExponentTensor", rule, exponent)])
        return arguments

    def lower(self, x, exponent, /):
        return arithmetic.power(x, exponent, self.scale_bias)


class ElementWiseDifferenceSquare(
    Binary, op="ELEMENT_WISE_DIFFERENCE_SQUARE", function=arithmetic.difference_square
):
    """Squares the difference of two elements: `output = (a - b) * (a - b)`.

    Gradient: `2 * dy * (a - b)` for `a_tensor`, its negative for `b_tensor`.
    """


class ElementWiseAtanYx(Binary, op="ELEMENT_WISE_ATAN_YX", function=arithmetic.atan_yx):
    """Takes the angle in radians of the point whose y is `a` and whose x is `b`.

    `output = atan2(a, b)`, in [-pi, pi].

    Choices: zeros count by their signs, as for C's atan2; the gradient is 0 at the origin.

    Gradient: `dy * b / (a**2 + b**2)` for `a_tensor`, `-dy * a / (a**2 + b**2)` for `b_tensor`.
    """


class ElementWiseModulusTruncate(
    Binary, op="ELEMENT_WISE_MODULUS_TRUNCATE", function=arithmetic.modulus_truncate
):
    """Takes the remainder of a division toward zero: `output = a - b * trunc(a / b)`.

    A remainder has the sign of `a`, as C's fmod and `%`.

    Choices: remainders are exact; of integers by 0 the remainder is `a`, of floats NaN; of a
    finite number by infinity it is that number; the smallest integer has the remainder 0 by -1.

    Gradient: the output's for `a_tensor`, `-dy * trunc(a / b)` for `b_tensor`.
    """


class ElementWiseModulusFloor(
    Binary, op="ELEMENT_WISE_MODULUS_FLOOR", function=arithmetic.modulus_floor
):
    """Takes the remainder of a division downward: `output = a - b * floor(a / b)`.

    A remainder that is not 0 has the sign of `b`, as Python's `%`.

    Choices: remainders are exact, but for one rounding where the signs of `a` and `b` differ; of
    integers by 0 the remainder is `a`, of floats NaN; of a finite number by infinity it is that
    number, or the infinity where the signs differ; the smallest integer has the remainder 0 by -1.

    Gradient: the output's for `a_tensor`, `-dy * floor(a / b)` for `b_tensor`.
    """


class ElementWiseIf(Operator, op="ELEMENT_WISE_IF"):
    """Chooses between two elements: `output = a if condition else b`.

    Choices: each condition other than 0 is true; elements are copied bit for bit.

    Gradient: the output's for the chosen element, 0 for the other.

    Fields:
        condition_tensor: UINT8, of equal sizes. Functions also take bool, and broadcast it.
        a_tensor: the elements where the condition is true.
        b_tensor: the elements where the condition is false, of the type of `a_tensor`.
        output_tensor: of the type and sizes of `a_tensor`; in memory of its own.
    """

    by_element = True

    def lower(self, condition, a, b):
        return jnp.where(condition != 0, a, b)


class AdamOptimizer(Operator, op="ADAM_OPTIMIZER"):
    """Updates parameters by their gradient, as the optimizer Adam does.

    With the parameters X, the moments M and V, the gradient G and the step T:
    `M' = beta1 * M + (1 - beta1) * G`, `V' = beta2 * V + (1 - beta2) * G * G`,
    `alpha = sqrt(1 - beta2**T) / (1 - beta1**T)`,
    `X' = X - learning_rate * alpha * M' / (sqrt(V') + epsilon)`.

    Choices: FLOAT16 is computed in FLOAT32, and each output rounded once; T is the step that is
    done, from 1 on: 0 gives NaN by the formula. Adam's usual form adds epsilon to the square root
    of the corrected V' / (1 - beta2**T): its epsilon is `epsilon / sqrt(1 - beta2**T)` here.

    Gradient: that of the formulas; the square root's at V' = 0 counts as 0.

    Fields:
        input_parameters_tensor: the parameters. Functions take parameters of every rank, with
            moments and a gradient of the same sizes.
        input_first_moment_tensor: the mean of gradients; 0 before the first step.
        input_second_moment_tensor: the mean of squared gradients; 0 before the first step.
        gradient_tensor: the gradient of what is minimised.
        training_step_tensor: the number of the step, UINT32 of sizes 1. Functions also take an
            integer, and an array of rank 0.
        output_parameters_tensor, output_first_moment_tensor, output_second_moment_tensor: the
            updated tensors; each may be the memory of any input but `training_step_tensor`.
        learning_rate: the size of a step.
        beta1, beta2: how much of a mean remains in each step; between 0 and 1.
        epsilon: what keeps the divisor from 0, such as 1e-8.
    """

    @classmethod
    def fitted(cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Any) -> Fitted:
        """Return parameters of any one shape in rank 4, and the step as one element."""
        step = sizes["training_step_tensor"] or ()
        found = {"training_step_tensor": with_rank((), 4)} if math.prod(step) == 1 else {}
        own = {name: s for name, s in sizes.items() if name != "training_step_tensor"}
        first = own["input_parameters_tensor"]
        is_one_shape = set(own.values()) == {first}  # else the descriptor says which disagree
        for name, given in own.items():
            shape = (first or ()) if given is None else given
            if is_one_shape or len(shape) < 4:
                found[name] = with_rank(shape, 4)
        return Fitted(found, result=first if is_one_shape else None)

    def lower(self, *arrays):
        names = ("learning_rate", "beta1", "beta2", "epsilon")
        return arithmetic.adam(*arrays, **{name: getattr(self, name) for name in names})
