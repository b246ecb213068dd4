"""Regions: counts of samples, edges, ties, and gradients."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import compiled_soon
from records import records

import dml_jax
from dml_jax import DmlError, Size2D, TensorDesc
from dml_jax.operators.region import RoiAlign1, RoiAlignGrad

LARGEST = 2**32 - 1


def align(sizes: Any, rois: Any, out: Any, like: Any = RoiAlign1, **fields: Any) -> Any:
    """Describe the samples of regions of a picture."""
    given: dict[str, Any] = {
        "input_tensor": TensorDesc("FLOAT32", sizes),
        "roi_tensor": TensorDesc("FLOAT32", np.shape(rois)),
        "batch_indices_tensor": TensorDesc("UINT32", [len(rois)]),
        "reduction_function": "AVERAGE",
        "interpolation_mode": "LINEAR",
        "spatial_scale_x": 1,
        "spatial_scale_y": 1,
        "input_pixel_offset": 0.5,
        "output_pixel_offset": -0.5,
        "out_of_bounds_input_value": 0,
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": LARGEST,
        "align_regions_to_corners": False,
        **fields,
    }
    names = {f.name for f in like.fields}
    kept = {name: value for name, value in given.items() if name in names}
    if like is RoiAlignGrad:
        gradient = TensorDesc("FLOAT32", (len(rois), sizes[1], *out))
        return like.infer(**kept, input_gradient_tensor=gradient)
    return like.infer(**kept, output_sizes=(len(rois), sizes[1], *out))


def arrays(rng: np.random.Generator, count: int, sizes: Any) -> list[Any]:
    """Return a picture, and regions that are as large as it, and larger."""
    x = rng.standard_normal(sizes, np.float32)
    corners = rng.uniform(-4, 12, (count, 4)).astype(np.float32)
    return [x, corners, rng.integers(0, sizes[0], count).astype(np.uint32)]


FUNCTIONS = pytest.mark.parametrize("function", ["AVERAGE", "MAX"])


@FUNCTIONS
@pytest.mark.parametrize("limits", [(1, LARGEST), (1, 3), (2, 2), (5, 40)])
def test_as_many_samples_as_the_data_say(function: str, limits: tuple[int, int]):
    """Regions with more samples than any picture has elements too."""
    least, most = limits
    fields = {"minimum_samples_per_output": least, "maximum_samples_per_output": most}
    given = arrays(np.random.default_rng(1), 6, (2, 3, 5, 4))
    given[1][0] = [-60, -1, 70, 3]
    given[1][1] = [4, 3, 1, 2]  # mirrored
    given[1][2] = [1, 1, 1, 1]
    op = align(
        (2, 3, 5, 4),
        given[1],
        (2, 3),
        reduction_function=function,
        out_of_bounds_input_value=-1.5,
        **fields,
    )
    expected = records()["ROI_ALIGN1"].expected(op, given)[0]
    np.testing.assert_allclose(jax.jit(op)(*given), expected, rtol=1e-4, atol=2e-5)


@FUNCTIONS
@pytest.mark.parametrize("most", [2, LARGEST])
def test_gradients_are_finite_differences(function: str, most: int):
    """Of the picture and of the regions, by both ROI_ALIGN_GRAD and jax.grad."""
    rng, sizes = np.random.default_rng(3), (2, 2, 6, 5)
    x, rois, batch = arrays(rng, 3, sizes)
    rois[:, 2:] = rois[:, :2] + rng.uniform(1, 9, (3, 2)).astype(np.float32)
    fields = {
        "reduction_function": function,
        "maximum_samples_per_output": most,
        "spatial_scale_x": 0.7,
        "spatial_scale_y": 1.1,
    }
    op = align(sizes, rois, (2, 3), **fields)
    dy = rng.standard_normal(op.output_tensor.sizes, np.float32)
    grad = align(sizes, rois, (2, 3), RoiAlignGrad, **fields)
    own, of_jax = compiled_soon(
        lambda x, rois: (
            grad(x, dy, rois, batch),
            jax.vjp(lambda x, rois: op(x, rois, batch), x, rois)[1](jnp.asarray(dy)),
        )
    )(x, rois)
    for one, other in zip(own, of_jax, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    reference = records()["ROI_ALIGN1"].reference
    wide = [x.astype(np.float64), rois.astype(np.float64)]
    for k, gradient in enumerate(own):
        direction, step = rng.standard_normal(wide[k].shape), 1e-7
        ends = []
        for sign in (-1, 1):
            moved = list(wide)
            moved[k] = wide[k] + sign * step * direction
            ends.append(float(np.vdot(reference(op, *moved, batch), dy)))
        slope = (ends[1] - ends[0]) / (2 * step)
        assert float(np.vdot(gradient, direction)) == pytest.approx(slope, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("most", [2, LARGEST])
def test_second_derivatives_are_finite_differences(most: int):
    """Of the picture and of the regions, forward and reverse over reverse, also in a loop."""
    rng, sizes = np.random.default_rng(3), (1, 1, 6, 5)
    x, rois, batch = arrays(rng, 2, sizes)
    rois[:, 2:] = rois[:, :2] + rng.uniform(1, 9, (2, 2)).astype(np.float32)
    op = align(sizes, rois, (1, 2), maximum_samples_per_output=most)

    def loss(x: Any, rois: Any) -> Any:
        pairs = jnp.stack([x, 2 * x])
        return jax.lax.map(lambda x: (op(x, rois, batch) ** 2).sum(), pairs).sum()

    gradient = jax.grad(loss, (0, 1))
    move = [rng.standard_normal(a.shape, np.float32) for a in (x, rois)]

    @compiled_soon
    def ways(x: Any, rois: Any) -> Any:
        def along(*given: Any) -> Any:
            return sum(jnp.vdot(a, b) for a, b in zip(gradient(*given), move, strict=True))

        forward = jax.jvp(along, (x, rois), tuple(move))[1]
        reverse = jax.grad(along, (0, 1))(x, rois)
        ends = [along(x + s * move[0], rois + s * move[1]) for s in (-1e-3, 1e-3)]
        both = sum(jnp.vdot(a, b) for a, b in zip(reverse, move, strict=True))
        return forward, both, (ends[1] - ends[0]) / 2e-3

    forward, reverse, slope = ways(x, rois)
    assert float(forward) == pytest.approx(float(reverse), rel=1e-3)
    assert float(forward) == pytest.approx(float(slope), rel=2e-2)


@FUNCTIONS
def test_samples_at_and_beyond_the_edges(function: str):
    """Up to one element beyond the edge a sample reads the edge; farther, the value outside."""
    x = np.arange(1, 4, dtype=np.float32).reshape(1, 1, 1, 3)
    places = [-1.25, -1, -0.5, 0, 1.5, 2, 3, 3.25]
    rois = np.array([[p, 0, p, 0] for p in places], np.float32)
    op = align(
        x.shape,
        rois,
        (1, 1),
        reduction_function=function,
        input_pixel_offset=0,
        out_of_bounds_input_value=9,
    )
    made = op(x, rois, np.zeros(len(rois), np.uint32))
    assert made.ravel().tolist() == [9, 1, 1, 1, 2.5, 3, 3, 9]


def test_the_largest_sample_may_be_the_value_outside():
    x = np.full((1, 1, 2, 2), -3, np.float32)
    rois = np.array([[-4, 0, 2, 2]], np.float32)
    batch = np.zeros(1, np.uint32)
    for outside, expected in ((-1, -1), (-5, -3)):
        fields = {"reduction_function": "MAX", "out_of_bounds_input_value": outside}
        assert align(x.shape, rois, (1, 1), **fields)(x, rois, batch).item() == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_regions_without_a_place_lie_outside(value: float):
    x, rois = np.ones((1, 1, 4, 4), np.float32), np.array([[0, 0, value, 2]], np.float32)
    made = align(x.shape, rois, (2, 2), out_of_bounds_input_value=7)(
        x, rois, np.zeros(1, np.uint32)
    )
    assert not set(np.asarray(made).ravel().tolist()) - {1.0, 7.0}
    assert np.asarray(made).ravel()[-1] == 7


def test_elements_that_no_sample_reads_do_not_matter():
    x = np.full((1, 1, 6, 6), np.nan, np.float32)
    x[..., 1:3, 1:3] = 2
    rois = np.array([[1, 1, 2, 2]], np.float32)
    for function in ("AVERAGE", "MAX"):
        op = align(x.shape, rois, (2, 2), reduction_function=function, input_pixel_offset=0)
        assert np.asarray(op(x, rois, np.zeros(1, np.uint32))).ravel().tolist() == [2] * 4
    x[0, 0, 2, 2] = np.nan
    op = align(x.shape, rois, (1, 1), reduction_function="MAX", input_pixel_offset=0)
    assert np.isnan(op(x, rois, np.zeros(1, np.uint32))).all()


def test_regions_aligned_to_corners_are_crops_that_are_resized():
    """TensorFlow's crop_and_resize of a whole picture is the picture with its corners."""
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    rois = np.array([[0, 0, 3, 3]], np.float32)
    fields = {
        "input_pixel_offset": 0,
        "output_pixel_offset": 0,
        "maximum_samples_per_output": 1,
        "align_regions_to_corners": True,
    }
    batch = np.zeros(1, np.uint32)
    np.testing.assert_array_equal(align(x.shape, rois, (4, 4), **fields)(x, rois, batch), x)
    small = align(x.shape, rois, (2, 2), **fields)(x, rois, batch)
    assert np.asarray(small).ravel().tolist() == [0, 3, 12, 15]


def test_a_batch_number_beyond_the_range_is_its_end():
    x = np.array([1, 2], np.float32).reshape(2, 1, 1, 1)
    rois = np.array([[0, 0, 1, 1]] * 3, np.float32)
    made = align(x.shape, rois, (1, 1))(x, rois, np.array([0, 1, 2**32 - 1], np.uint32))
    assert made.ravel().tolist() == [1, 2, 2]


@pytest.mark.parametrize("field", ["input_pixel_offset", "output_pixel_offset"])
def test_offsets_are_finite(field: str):
    with pytest.raises(DmlError, match="finite"):
        align((1, 1, 2, 2), [[0, 0, 1, 1]], (1, 1), **{field: float("inf")})


@pytest.mark.parametrize(
    ("function", "of_regions"), [("MAX", False), ("AVERAGE", True), ("AVERAGE", False)]
)
def test_which_gradients_need_pictures(function: str, of_regions: bool):
    """Those of regions, and of maxima."""
    dy, rois, batch = np.ones((1, 1, 1, 1), np.float32), np.ones((1, 4), np.float32), np.zeros(1)
    own = (function, "LINEAR", 1, 1, 0, 0, 1, 1, False, 1, 2, 2, True, of_regions)

    def call() -> Any:
        none: Any = None
        return dml_jax.roi_align_grad(none, dy, rois, batch.astype(np.uint32), *own)

    if function == "MAX" or of_regions:
        with pytest.raises(DmlError, match="InputTensor to be given"):
            call()
        return
    assert call().output_gradient.ravel().tolist() == [0, 0, 0, 1]
    assert call().output_roi_gradient is None


def pool(x: Any, rois: Any, scale: float, width: int, height: int) -> Any:
    array = np.asarray(x, np.float32)
    regions = np.asarray(rois, np.float32).reshape(1, 1, -1, 5)
    return dml_jax.roi_pooling(array, regions, scale, Size2D(width=width, height=height))


def test_pooling_without_elements_is_0():
    x = -np.ones((1, 1, 2, 2))
    made = pool(x, [[0, 5, 5, 6, 6], [0, 1, 1, 6, 6], [0, np.nan, 0, 1e30, 1]], 1, 2, 1)
    assert made.ravel().tolist() == [0, 0, -1, 0, -1, 0]


def test_the_gradient_of_pooling_goes_to_the_first_of_the_largest():
    x = jnp.array([1, 4, 4], jnp.float32).reshape(1, 1, 1, 3)
    rois, size = np.array([[[[0, 0, 0, 2, 0]]]], np.float32), Size2D(width=1, height=1)
    slope = jax.grad(lambda x: dml_jax.roi_pooling(x, rois, 1, size).sum())(x)
    assert slope.ravel().tolist() == [0, 1, 0]
