"""Operators that map each element of one tensor by itself."""

from typing import Any, ClassVar

import jax
from jax import lax

from dml_jax.lowering import clamp, element_wise
from dml_jax.lowering.scale_bias import mapped
from dml_jax.operator import Operator


class Mapped(Operator):
    scale_bias: ClassVar[Any] = None  # most operators on one tensor have a field in its place

    def lower(self, x):
        names = [f.name for f in self.fields if not f.tensor and f.name != "scale_bias"]
        attributes = {name: getattr(self, name) for name in names}
        return mapped(self.function, x, self.scale_bias, **attributes)


class Unary(Mapped):
    """Maps each element by itself.

    Choices: FLOAT16 is computed in FLOAT32 and rounded once, `scale_bias` included; integers are
    scaled in FLOAT32 (64-bit ones in FLOAT64), truncated toward zero and saturated, then mapped. On
    a GPU, XLA may keep FLOAT32 between FLOAT16 operators that it fuses, unless the environment has
    `XLA_FLAGS=--xla_allow_excess_precision=false`.

    Fields:
        output_tensor: of the input's type and sizes; may be the input's own memory.
        scale_bias: `g(x) = x * scale + bias`, applied to each element first; g(x) = x without it.
    """

    by_element = True


class ElementWiseSqrt(Unary, op="ELEMENT_WISE_SQRT", function=lax.sqrt):
    """Takes the square root of each element: `sqrt(g(x))`; NaN below 0.

    Gradient: `dy / (2 * sqrt(g(x)))`, times scale.
    """


class ElementWiseIdentity(Unary, op="ELEMENT_WISE_IDENTITY", function=element_wise.identity):
    """Copies each element: `g(x)`; all bits stay where scale_bias is left out.

    Gradient: `dy`, times scale.
    """

    def lower(self, x):
        return x if self.scale_bias is None else super().lower(x)


class ElementWiseAbs(Unary, op="ELEMENT_WISE_ABS", function=lax.abs):
    """Takes the absolute value: `|g(x)|`. Choice: that of the smallest integer is itself.

    Gradient: `dy if g(x) >= 0 else -dy`, times scale.
    """


class ElementWiseAcos(Unary, op="ELEMENT_WISE_ACOS", function=element_wise.acos):
    """Takes the arc cosine, in radians: `acos(g(x))`; NaN beyond -1 and 1.

    Gradient: `-dy / sqrt(1 - g(x)^2)`, times scale.
    """


class ElementWiseAsin(Unary, op="ELEMENT_WISE_ASIN", function=element_wise.asin):
    """Takes the arc sine, in radians: `asin(g(x))`; NaN beyond -1 and 1.

    Gradient: `dy / sqrt(1 - g(x)^2)`, times scale.
    """


class ElementWiseAtan(Unary, op="ELEMENT_WISE_ATAN", function=element_wise.atan):
    """Takes the arc tangent, in radians: `atan(g(x))`.

    Gradient: `dy / (1 + g(x)^2)`, times scale.
    """


class ElementWiseCeil(Unary, op="ELEMENT_WISE_CEIL", function=lax.ceil):
    """Takes the smallest whole number that is not below: `ceil(g(x))`.

    Gradient: 0.
    """


class ElementWiseCos(Unary, op="ELEMENT_WISE_COS", function=element_wise.cos):
    """Takes the cosine of radians: `cos(g(x))`; NaN for infinities.

    Gradient: `-dy * sin(g(x))`, times scale.
    """


class ElementWiseExp(Unary, op="ELEMENT_WISE_EXP", function=element_wise.exp):
    """Takes the exponential: `exp(g(x))`.

    Gradient: `dy * exp(g(x))`, times scale.
    """


class ElementWiseFloor(Unary, op="ELEMENT_WISE_FLOOR", function=lax.floor):
    """Takes the largest whole number that is not above: `floor(g(x))`.

    Gradient: 0.
    """


class ElementWiseLog(Unary, op="ELEMENT_WISE_LOG", function=element_wise.log):
    """Takes the natural logarithm: `ln(g(x))`; -infinity for 0, NaN below.

    Gradient: `dy / g(x)`, times scale.
    """


class ElementWiseRecip(Unary, op="ELEMENT_WISE_RECIP", function=element_wise.reciprocal):
    """Takes the reciprocal: `1 / g(x)`; infinity of its sign for 0.

    Gradient: `-dy / g(x)^2`, times scale.
    """


class ElementWiseSin(Unary, op="ELEMENT_WISE_SIN", function=element_wise.sin):
    """Takes the sine of radians: `sin(g(x))`; NaN for infinities.

    Gradient: `dy * cos(g(x))`, times scale.
    """


class ElementWiseTan(Unary, op="ELEMENT_WISE_TAN", function=element_wise.tan):
    """Takes the tangent of radians: `tan(g(x))`; NaN for infinities.

    Gradient: `dy * (1 + tan(g(x))^2)`, times scale.
    """


class ElementWiseSinh(Unary, op="ELEMENT_WISE_SINH", function=element_wise.sinh):
    """Takes the hyperbolic sine: `sinh(g(x))`.

    Gradient: `dy * cosh(g(x))`, times scale.
    """


class ElementWiseCosh(Unary, op="ELEMENT_WISE_COSH", function=element_wise.cosh):
    """Takes the hyperbolic cosine: `cosh(g(x))`.

    Gradient: `dy * sinh(g(x))`, times scale.
    """


class ElementWiseTanh(Unary, op="ELEMENT_WISE_TANH", function=element_wise.tanh):
    """Takes the hyperbolic tangent: `tanh(g(x))`.

    Gradient: `dy * (1 - tanh(g(x))^2)`, times scale.
    """


class ElementWiseAsinh(Unary, op="ELEMENT_WISE_ASINH", function=element_wise.asinh):
    """Takes the inverse hyperbolic sine: `asinh(g(x))`.

    Gradient: `dy / sqrt(g(x)^2 + 1)`, times scale.
    """


class ElementWiseAcosh(Unary, op="ELEMENT_WISE_ACOSH", function=element_wise.acosh):
    """Takes the inverse hyperbolic cosine: `acosh(g(x))`; NaN below 1.

    Gradient: `dy / sqrt(g(x)^2 - 1)`, times scale.
    """


class ElementWiseAtanh(Unary, op="ELEMENT_WISE_ATANH", function=element_wise.atanh):
    """Takes the inverse hyperbolic tangent: `atanh(g(x))`; NaN beyond -1 and 1.

    Gradient: `dy / (1 - g(x)^2)`, times scale.
    """


class ElementWiseErf(Unary, op="ELEMENT_WISE_ERF", function=element_wise.erf):
    """Takes the error function: `erf(g(x))`.

    Gradient: `dy * 2 / sqrt(pi) * exp(-g(x)^2)`, times scale.
    """


class ElementWiseSign(Unary, op="ELEMENT_WISE_SIGN", function=element_wise.sign):
    """Takes the sign: `1 if x > 0 else -1 if x < 0 else 0`; NaN gives 0.

    Gradient: 0.
    """


class ElementWiseNegate(Unary, op="ELEMENT_WISE_NEGATE", function=lax.neg):
    """Changes the sign: `-x`. Choice: the smallest integer stays itself.

    Gradient: `-dy`.
    """


class ElementWiseRound(Unary, op="ELEMENT_WISE_ROUND", function=element_wise.rounded):
    """Rounds each element to a whole number of the same type.

    `output = round(g(x))`, with `g(x) = x * scale + bias` where `scale_bias` is given, else x.
    `rounding_mode` says how halves and fractions are rounded.

    Choices: 0 keeps the sign of x; NaN and infinities stay.

    Gradient: 0.

    Fields:
        rounding_mode: what becomes of fractions. HALVES_TO_NEAREST_EVEN: 0.5 gives 0, 1.5 gives 2;
            TOWARD_ZERO: the fraction is dropped; TOWARD_INFINITY: the nearest number, of halves
            the one away from zero.
    """


class ElementWiseThreshold(Unary, op="ELEMENT_WISE_THRESHOLD", function=element_wise.threshold):
    """Raises smaller elements to a bound: `max(g(x), min)`.

    Gradient: dy (times scale) where `g(x) > min`, else 0.

    Fields:
        min: the bound, FLOAT whatever the tensor's type. Choices: integers drop the fraction and
            saturate; NaN is refused for integers.
    """


class ElementWiseConstantPow(
    Unary, op="ELEMENT_WISE_CONSTANT_POW", function=element_wise.constant_pow
):
    """Raises each element to one power: `pow(g(x), exponent)`.

    Choices: as C's pow: 1 where the exponent is 0, NaN for a negative element and an exponent that
    is not whole.

    Gradient: `dy * exponent * pow(g(x), exponent - 1)`, times scale; 0 where the exponent is 0.

    Fields:
        exponent: FLOAT whatever the tensor's type, and not rounded to it.
    """


class ValueScale2d(Operator, op="VALUE_SCALE_2D"):
    """Scales all elements, and adds one number to each channel: `x * scale + bias[channel]`.

    Choices: FLOAT16 is computed in FLOAT32 and rounded once.

    Gradient: `dy * scale`.

    Fields:
        input_tensor: images, {N, C, H, W}, with 1 or 3 channels.
        output_tensor: of the input's type and sizes.
        scale: the factor.
        bias: one FLOAT for each channel.
    """

    def lower(self, x):
        return mapped(element_wise.value_scale_2d, x, None, scale=self.scale, bias=self.bias)


class _Bounds(Operator):
    """Bounds, which are cast to the type of the tensors.

    Fields:
        output_tensor: of the input's type and sizes; may be the input's own memory.
        scale_bias: applied to each element first. Choices: computed in FLOAT32 (64-bit types in
            FLOAT64), where the backend may contract the product and the sum into one rounding,
            and may leave out to add 0.0 (so that -0.0 stays); rounded to the tensor's type once;
            integers truncate, saturate, and have 0 for NaN.
        min, max: the bounds, FLOAT whatever the tensor's type; cast to it first. Choices: integers
            truncate toward zero, then saturate; FLOAT16 rounds to nearest even; min > max gives
            min everywhere; NaN bounds are refused; NaN elements stay NaN; denormals of FLOAT32 may
            count as 0, as on a CPU.
    """

    by_element = True

    def bounds(self) -> list[float | int]:
        """Return Min and Max in the tensors' type."""
        dtype = self.input_tensor.dtype
        return [clamp.cast_bound(bound, dtype) for bound in (self.min, self.max)]


class _TypedBounds(_Bounds):
    """Bounds in the tensors' own type.

    Fields:
        min, max: the bounds. Choice: an integer type refuses a fraction and what it cannot hold;
            a float type rounds to nearest even. NaN is refused.
    """


class _Clip(_Bounds):
    """Clips what it is given, scaled first.

    `output = max(min, min(g(x), max))`, with `g(x) = x * scale + bias` where `scale_bias` is given.
    """

    def lower(self, x: jax.Array) -> jax.Array:
        return clamp.clip(mapped(element_wise.identity, x, self.scale_bias), *self.bounds())


class _ClipGrad(_Bounds):
    """Lets the gradient through where an element lies within the bounds.

    `output = 0 if x <= min or x >= max else gradient`: 0 at the bounds too. With
    min >= max all is 0.

    Choice: a NaN element passes the gradient, since both comparisons are false.

    Gradient: the same mask for `input_gradient_tensor`; 0 for `input_tensor`.

    Fields:
        input_tensor: what was clipped.
        input_gradient_tensor: the gradient of the clipped tensor; of the same type and sizes.
        output_gradient_tensor: the gradient of what was clipped; may be the input's own memory.
    """

    def lower(self, x: jax.Array, gradient: jax.Array) -> jax.Array:
        return clamp.clip_grad(x, gradient, *self.bounds())


class ElementWiseClip(_Clip, op="ELEMENT_WISE_CLIP", function=clamp.clip):
    """Clamps each element to [min, max].

    Gradient: that of ELEMENT_WISE_CLIP_GRAD: the output's (times scale) strictly within the bounds,
    0 at and beyond them.

    >>> import jax, jax.numpy as jnp
    >>> from dml_jax import ElementWiseClip, TensorDesc
    >>> tensor = TensorDesc("FLOAT32", [6])
    >>> clip = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=-1, max=2)
    >>> x = jnp.array([-2, -1, 0, 1, 2, 3], jnp.float32)
    >>> clip(x).tolist()
    [-1.0, -1.0, 0.0, 1.0, 2.0, 2.0]
    >>> jax.grad(lambda x: clip(x).sum())(x).tolist()
    [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """


class ElementWiseClip1(_TypedBounds, _Clip, op="ELEMENT_WISE_CLIP1"):
    """ELEMENT_WISE_CLIP with bounds in the tensor's own type, so that 64-bit ones are exact.

    Gradient: that of ELEMENT_WISE_CLIP_GRAD1: the output's (times scale) strictly within the
    bounds, 0 at and beyond them.

    >>> import numpy as np
    >>> from dml_jax import ElementWiseClip1, TensorDesc
    >>> tensor = TensorDesc("INT16", [4])
    >>> clip = ElementWiseClip1(
    ...     input_tensor=tensor, output_tensor=tensor, min_max_data_type="INT16", min=-5, max=300
    ... )
    >>> clip(np.array([-9, 0, 300, 301], np.int16)).tolist()
    [-5, 0, 300, 300]
    """


class ElementWiseClipGrad(_ClipGrad, op="ELEMENT_WISE_CLIP_GRAD"):
    """The gradient of ELEMENT_WISE_CLIP, given that of its output.

    >>> import jax.numpy as jnp
    >>> from dml_jax import ElementWiseClipGrad, TensorDesc
    >>> tensor = TensorDesc("FLOAT32", [5])
    >>> grad = ElementWiseClipGrad(
    ...     input_tensor=tensor,
    ...     input_gradient_tensor=tensor,
    ...     output_gradient_tensor=tensor,
    ...     min=-1,
    ...     max=2,
    ... )
    >>> x = jnp.array([-2, -1, 0, 2, 3], jnp.float32)
    >>> grad(x, jnp.array([10, 20, 30, 40, 50], jnp.float32)).tolist()
    [0.0, 0.0, 30.0, 0.0, 0.0]
    """


class ElementWiseClipGrad1(_TypedBounds, _ClipGrad, op="ELEMENT_WISE_CLIP_GRAD1"):
    """The gradient of ELEMENT_WISE_CLIP1, given that of its output.

    >>> import numpy as np
    >>> from dml_jax import ElementWiseClipGrad1, TensorDesc
    >>> tensor = TensorDesc("INT16", [3])
    >>> grad = ElementWiseClipGrad1(
    ...     input_tensor=tensor,
    ...     input_gradient_tensor=tensor,
    ...     output_gradient_tensor=tensor,
    ...     min_max_data_type="INT16",
    ...     min=-5,
    ...     max=300,
    ... )
    >>> grad(np.array([-5, 0, 300], np.int16), np.array([1, 2, 3], np.int16)).tolist()
    [0, 2, 0]
    """
