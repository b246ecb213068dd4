"""Operators that read regions of pictures, and the gradient."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from dml_jax.enums import InterpolationMode, ReduceFunction
from dml_jax.lowering import regions
from dml_jax.operator import Operator


class RoiPooling(Operator, op="ROI_POOLING"):
    """Pools each region of a picture to a fixed size, by the largest element.

    The corners are `round(corner * spatial_scale)`, both inclusive. With `height = y2 - y1 + 1`,
    output row Y is the maximum over the rows from `floor(Y * height / pooled_height) + y1` to below
    `ceil((Y + 1) * height / pooled_height) + y1`, within the picture; columns likewise.

    Choices: halves round away from zero, as in C; a row without elements gives 0; a region has at
    least one row and one column, as Caffe has it; a batch number beyond the range is its end.

    Gradient: the output's at the largest element, the first of equals; 0 for the regions.

    Fields:
        input_tensor: the pictures, [N, C, H, W].
        roi_tensor: a region each row, [1, 1, R, 5]: its picture, left, top, right and bottom.
        output_tensor: [R, C, pooled height, pooled width].
        spatial_scale: the factor of the coordinates.
        pooled_size: the width and the height of the output.
    """

    def lower(self, x, roi):
        size = self.pooled_size.height, self.pooled_size.width
        return regions.pool(x, roi, self.spatial_scale, size)


class _Aligning(Operator):
    """Samples of regions.

    A region from (x1, y1) to (x2, y2), times the spatial scales, has `n = ceil((x2 - x1) / width)`
    samples an output along x, at least `minimum_samples_per_output` and at most
    `maximum_samples_per_output`. Sample s = 0, 1, ... of all `n * width` lies at
    `x = (s - output_pixel_offset) * (x2 - x1) / (n * width) + x1 - input_pixel_offset`. It is the
    same along y. An output is the average or the maximum of its samples.

    Choices: sizes are rounded up to counts. A sample below -1 or above the size is outside; between
    it and the picture, a sample reads the edge. NEAREST_NEIGHBOR rounds halves up. MAX is the
    largest of interpolated samples. An element of weight 0 is not read. A batch number beyond the
    range is its end. All is computed in FLOAT32.

    Fields:
        input_tensor: the pictures, [N, C, H, W].
        roi_tensor: a region each row, [..., R, 4]: left, top, right and bottom.
        batch_indices_tensor: the picture of each region, [..., R].
        output_tensor: [R, C, height, width].
        reduction_function: AVERAGE or MAX.
        interpolation_mode: NEAREST_NEIGHBOR or LINEAR.
        spatial_scale_x: the factor of the x coordinates of regions.
        spatial_scale_y: the factor of the y coordinates of regions.
        input_pixel_offset: what is subtracted from the place of a sample. Choice: finite.
        output_pixel_offset: what is subtracted from the number of a sample. Choice: finite.
        out_of_bounds_input_value: the value of samples outside.
        minimum_samples_per_output: the smallest number of samples along each axis, at least 1.
            Choice: at most 1024, or an output would take hours.
        maximum_samples_per_output: the largest number of samples along each axis.
        align_regions_to_corners: whether the first and the last sample lie on the corners of the
            region: the distance of samples is `(x2 - x1) / max(n * width - 1, 1)` then, as
            TensorFlow has it.
    """

    input_pixel_offset = 0.5
    output_pixel_offset = -0.5
    align_regions_to_corners = False
    out_of_bounds_input_value = 0.0

    def how(self, sizes: Sequence[int]) -> regions.Aligning:
        """Return how regions are sampled, for outputs of these sizes."""
        return regions.Aligning(
            sizes=(sizes[2], sizes[3]),
            scales=(self.spatial_scale_y, self.spatial_scale_x),
            input_offset=self.input_pixel_offset,
            output_offset=self.output_pixel_offset,
            least=self.minimum_samples_per_output,
            most=self.maximum_samples_per_output,
            to_corners=self.align_regions_to_corners,
            is_linear=self.interpolation_mode == InterpolationMode.LINEAR,
            is_max=self.reduction_function == ReduceFunction.MAX,
            outside=self.out_of_bounds_input_value,
        )


class _Sampling(_Aligning):
    """Samples of regions, as the function `roi_align` describes them.

    Gradient: ROI_ALIGN_GRAD of the output's.
    """

    arguments = ("output_height", "output_width")

    def lower(self, x, roi, batch, /):
        return regions.align(x, roi, batch, self.how(self.output_tensor.sizes))

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, and the sizes of the output."""
        arguments = super().call_of(arguments)
        size = [arguments.pop(f"output_{name}") for name in ("height", "width")]
        if arguments["spatial_scale_y"] is None:
            arguments["spatial_scale_y"] = arguments["spatial_scale_x"]
        channels = getattr(arguments["input_tensor"], "shape", ())[1:2]
        count = getattr(arguments["roi_tensor"], "shape", ())[-2:-1]
        return {**arguments, "output_sizes": [*count, *channels, *size]}


class RoiAlign(_Sampling, op="ROI_ALIGN"):
    """Samples each region of a picture, at the centres of a grid.

    The offsets are 0.5 (input) and -0.5 (output), and regions are not aligned to corners.
    """

    only = ("input_pixel_offset", "output_pixel_offset", "align_regions_to_corners")
    arguments = (*only, *_Sampling.arguments)


class RoiAlign1(_Sampling, op="ROI_ALIGN1"):
    """Samples each region of a picture, on a grid with offsets."""


class RoiAlignGrad(_Aligning, op="ROI_ALIGN_GRAD"):
    """Computes the gradients of ROI_ALIGN1, given the gradient of its output.

    Each sample of an output passes the output's gradient on, divided by the number of samples
    (AVERAGE) or where it is the largest (MAX): to the elements that it read, times their weights,
    and to the corners of its region, times the slope of the picture, by the chain rule.

    Choices: samples outside have the value 0 and pass nothing on; among equal samples the first is
    the largest; at an element, the slope is that on its right; at the last element, beyond the
    edges and with NEAREST_NEIGHBOR there is none.

    Gradient: that of these sums.

    Fields:
        input_tensor: the pictures, [N, C, H, W]. AVERAGE without `output_roi_gradient_tensor` can
            do without them.
        input_gradient_tensor: the gradient of the samples, [R, C, height, width].
        output_gradient_tensor: the gradient of the pictures. It may be left out.
        output_roi_gradient_tensor: the gradient of the regions, of their sizes. It may be left out.
    """

    arguments = (
        "batch_size",
        "image_height",
        "image_width",
        "compute_output_gradient",
        "compute_output_roi_gradient",
    )

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the fields, which outputs there are, and the sizes of the first one."""
        sizes = [arguments.pop(name) for name in cls.arguments[:3]]
        wanted = [arguments.pop(name) for name in cls.arguments[3:]]
        names = ("output_gradient_tensor", "output_roi_gradient_tensor")
        channels = getattr(arguments["input_gradient_tensor"], "shape", ())[1:2]
        return {
            **arguments,
            "outputs": [name for name, is_made in zip(names, wanted, strict=True) if is_made],
            "output_sizes": {names[0]: [sizes[0], *channels, *sizes[1:]]} if wanted[0] else None,
        }

    def lower(self, x, gradient, roi, batch):
        if x is None:
            x = jnp.zeros(self.output_gradient_tensor.sizes, gradient.dtype)
        how = self.how(self.input_gradient_tensor.sizes)
        return regions.align_gradient(x, gradient, roi, batch, how)
