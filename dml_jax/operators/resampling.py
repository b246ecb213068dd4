"""Operators that read a tensor on another grid: resampling, and its gradients."""

import math
from collections.abc import Sequence
from typing import Any

from dml_jax.enums import AxisDirection, InterpolationMode
from dml_jax.errors import DmlError, Expect, Fault, items_of, moving
from dml_jax.lowering import resampling
from dml_jax.lowering.resampling import Axis, Taps
from dml_jax.operator import Operator, rule


class _Interpolating(Operator):
    """Reads a tensor at places between its elements.

    Along each dimension, output t lies at `x = (t - output_offset) / scale - input_offset`.
    NEAREST_NEIGHBOR reads one element; LINEAR gives the elements `k = floor(x)` and `k + 1` the
    weights `1 - (x - k)` and `x - k`, dimension by dimension. An element beyond the edge is that at
    the edge.

    Choices: x is computed in FLOAT64, and a scale that is the FLOAT of output size / input size, or
    of (output size - 1) / (input size - 1), counts as that quotient. FLOAT16 and integers are
    computed in FLOAT32; LINEAR rounds integers to nearest, halves to even. A second element of
    weight 0 is not read.

    Fields:
        output_tensor: of any sizes: what lies beyond it is cropped.
        interpolation_mode: NEAREST_NEIGHBOR or LINEAR.
        scales: the factor of each dimension; above 1 there are more elements. Choice: above 0.
    """

    antialiased = False

    @property
    def grid(self) -> Sequence[Axis]:
        """Return the grid of each dimension."""
        return [Axis(scale, 0.5, -0.5) for scale in self.scales]

    @property
    def mode(self) -> str:
        """Return how places become elements."""
        return "LINEAR" if self.interpolation_mode == InterpolationMode.LINEAR else "NEAREST"

    def taps(self, sizes: Sequence[int], counts: Sequence[int]) -> list[Taps]:
        """Return what a result of `counts` reads of a tensor of `sizes`, by dimension."""
        return [
            resampling.taps(axis, n, m, self.mode, self.antialiased)
            for axis, n, m in zip(self.grid, sizes, counts, strict=True)
        ]

    def lower(self, x, /):
        taps = self.taps(self.input_tensor.sizes, self.output_tensor.sizes)
        return resampling.blended(x, taps)


class Upsample2d(_Interpolating, op="UPSAMPLE_2D"):
    """Enlarges the last two dimensions by whole factors.

    Choices: LINEAR reads between the centres of elements, as RESAMPLE does.

    Gradient: RESAMPLE_GRAD of the output's, with the same factors.

    Fields:
        output_tensor: of the last two sizes times the factors.
        scale_size: the factors of the last two dimensions, as Size2D(width=2, height=3).
    """

    @property
    def grid(self) -> Sequence[Axis]:
        ones = [1.0] * (self.input_tensor.dimension_count - 2)
        scales = [*ones, self.scale_size.height, self.scale_size.width]
        return [Axis(scale, 0.5, -0.5) for scale in scales]


class _Resampling(_Interpolating):
    """Resampling as the functions `resample` and `resample_grad` describe it."""

    arguments = ("rounding_direction",)

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, with the scales and the offsets that an argument leaves out.

        An older version has no rounding direction, which LINEAR does not need.
        """
        names, first = {f.name for f in cls.fields}, cls.fields[0].name
        sizes = getattr(arguments[first], "shape", ())
        if arguments["output_sizes"] is None:
            arguments["output_sizes"] = cls._scaled(sizes, arguments.get("scales"))
        direction, mode = arguments.get("rounding_direction"), arguments["interpolation_mode"]
        is_linear = mode in (InterpolationMode.LINEAR, *_LINEAR)
        if "rounding_direction" in names:
            if direction is None and is_linear:
                arguments["rounding_direction"] = AxisDirection.INCREASING
        else:
            if direction is not None and not is_linear:
                rule = "be LINEAR, or rounding_direction to be None"
                raise DmlError([Fault(cls.c_name, "InterpolationMode", rule, mode)])
            arguments.pop("rounding_direction", None)
        with moving(cls.c_name, "output_sizes"):
            counts = items_of(arguments["output_sizes"])
        scales = [1.0] * len(sizes)
        if len(sizes) == len(counts) and all(isinstance(m, int) and m > 0 for m in counts):
            pairs = zip(sizes, counts, strict=True)
            scales = [n / m if "gradient" in first else m / max(n, 1) for n, m in pairs]
        defaults: dict[str, Any] = {
            "scales": scales,
            "input_pixel_offsets": [0.5] * len(sizes),
            "output_pixel_offsets": [-0.5] * len(sizes),
        }
        for name, value in defaults.items():
            if name in names and arguments.get(name) is None:
                arguments[name] = value
        return arguments

    @classmethod
    def _scaled(cls, sizes: Sequence[int], scales: Any) -> list[int]:
        """Return sizes times their scales, rounded down as in ONNX. Raises `DmlError`."""
        numbers = scales.tolist() if hasattr(scales, "tolist") else scales
        numbers = numbers if isinstance(numbers, (list, tuple)) else []
        if len(numbers) != len(sizes) or not all(isinstance(s, (int, float)) for s in numbers):
            rule = f"be given, or {len(sizes)} scales, one for each dimension"
            raise DmlError([Fault(cls.c_name, "output_sizes", rule, scales)])
        return [math.floor(n * s) for n, s in zip(sizes, numbers, strict=True)]


_LINEAR = (InterpolationMode.LINEAR.suffix, InterpolationMode.LINEAR.full_name)


class Resample(_Resampling, op="RESAMPLE"):
    """Resamples a tensor between the centres of its elements.

    The offsets are 0.5 (input) and -0.5 (output).

    Choices: NEAREST_NEIGHBOR reads the element nearest to x, halves up.

    Gradient: RESAMPLE_GRAD of the output's.
    """

    takes_any_axes = True


class _Offset(_Resampling):
    """Resampling with offsets.

    Fields:
        input_pixel_offsets: the place within an element, of each dimension: 0.5 is its centre.
            Choice: finite.
        output_pixel_offsets: the place within an element of the output, negative: -0.5 is its
            centre. Choice: finite.
    """

    @property
    def grid(self) -> Sequence[Axis]:
        offsets = self.input_pixel_offsets, self.output_pixel_offsets
        return list(map(Axis, self.scales, *offsets))


class Resample1(_Offset, op="RESAMPLE1"):
    """Resamples a tensor on a grid with offsets.

    Choices: NEAREST_NEIGHBOR reads the element nearest to x, halves up.

    Gradient: RESAMPLE_GRAD of the output's.
    """

    takes_any_axes = True


class _Directed(_Offset):
    """Resampling whose NEAREST_NEIGHBOR rounds to one side.

    Fields:
        rounding_direction: the element that NEAREST_NEIGHBOR reads: INCREASING is `ceil(x)`,
            DECREASING is `floor(x)`. LINEAR does not use it. The function takes None for the
            nearest element, which `jax.image.resize` reads too.
    """

    @property
    def mode(self) -> str:
        is_linear = self.interpolation_mode == InterpolationMode.LINEAR
        return "LINEAR" if is_linear else self.rounding_direction.suffix


class Resample2(_Directed, op="RESAMPLE2"):
    """Resamples a tensor, where NEAREST_NEIGHBOR rounds up or down.

    Gradient: RESAMPLE_GRAD1 of the output's.
    """

    takes_any_axes = True


class Resample3(_Directed, op="RESAMPLE3"):
    """Resamples a tensor, and averages neighbours where it becomes smaller.

    Where `antialiased` meets LINEAR and a scale below 1, all elements k with `|k - x| * scale < 1`
    have the weight `1 - |k - x| * scale`, divided by the sum of these weights.

    Choices: each dimension by itself, at any scale below 1; elements beyond the edge, which are
    that at the edge, keep their weights, as ONNX has it.

    Gradient: that of a sum with these weights.

    Fields:
        antialiased: whether LINEAR averages more elements where the scale is below 1. Choice: the
            scales are at least 1/65536 then.
    """

    @rule("antialiased", "interpolation_mode", "scales")
    def sums_are_short(self, expect: Expect) -> None:
        if self.antialiased and self.interpolation_mode == InterpolationMode.LINEAR:
            for d, scale in enumerate(self.scales):
                expect(scale >= 2**-16, f"Scales[{d}]", "be at least 1/65536 (Antialiased)", scale)


class _Gradient(_Offset):
    """The gradient of resampling.

    Each element of the output gradient is the sum of `weight * input_gradient` over all elements of
    the input gradient that read it, 0 where none does. The offsets, scales and modes are those of
    the operator whose gradient it is.

    Choices: FLOAT16 sums are computed in FLOAT32.

    Fields:
        input_gradient_tensor: the gradient of the resampled tensor.
        output_gradient_tensor: the gradient of the tensor that was resampled, of any sizes.
    """

    def lower(self, dy, /):
        sizes = self.output_gradient_tensor.sizes
        taps = self.taps(sizes, self.input_gradient_tensor.sizes)
        return resampling.gradient(dy, taps, sizes)


class ResampleGrad(_Gradient, op="RESAMPLE_GRAD"):
    """Computes the gradient of RESAMPLE1, given the gradient of its output.

    Choices: NEAREST_NEIGHBOR read the element nearest to x, halves up. The function `resample`
    reads INCREASING unless an argument says otherwise: give both functions the same direction.

    Gradient: RESAMPLE1 of the output's.
    """


class ResampleGrad1(_Gradient, _Directed, op="RESAMPLE_GRAD1"):
    """Computes the gradient of RESAMPLE2, given the gradient of its output.

    Gradient: RESAMPLE2 of the output's.
    """
