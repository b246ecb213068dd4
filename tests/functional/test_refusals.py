"""What functions refuse, and what they say."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import float32, normal

import dml_jax
from dml_jax import DmlError, TensorDesc
from dml_jax.onnx import export

wrong: Any = dml_jax  # for calls that a type checker refuses, too
IMAGE, HEADS, ROWS = (jnp.ones(s, jnp.float32) for s in ((1, 3, 8, 8), (2, 5, 4, 8), (2, 5, 9)))
X, P, M, V = jnp.asarray(normal(2, 8, 4, 6)), normal(1, 2, 5, 5), normal(2, 3), float32(range(6))
H = X.astype(jnp.bfloat16)
B, C, PLACE = np.zeros(3, np.uint8), np.ones((1, 8, 1, 1), np.float32), np.zeros(1, np.int32)
T = TensorDesc("FLOAT32", [2, 4])
DESCRIPTOR = "to be in [0, 1] (-1 is 1 there), got -1"
SET = "to be ~such as [2, 1] (the set {2, 1} of Python has no order)"
EACH = "elements, one for each spatial dimension"


def normalized(axes: Any) -> Any:
    return wrong.mean_variance_normalization(M, None, None, axes)


def product(**zero_points: Any) -> Any:
    a = np.zeros((2, 3), np.uint8)
    return wrong.matrix_multiply_integer(a, a.T, **zero_points)


def zeros(*shapes: Any) -> Iterator[np.ndarray]:
    return (np.zeros(shape, np.uint8) for shape in shapes)


# "~" stands for any text.
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: wrong.split(X, 1, [3, 4]), "Sizes[1] to add up to 8"),
    (lambda: wrong.split(X, 4, [1]), "Axis to be in [-4, 3]"),
    (lambda: wrong.join([X, X[:1]], 1), "InputTensors[1].Sizes[0] to be 2"),
    (lambda: wrong.tile(X, [1, 2]), "RepeatsCount to be 4"),
    (lambda: wrong.clip(X, np.nan, 1), "Min to not be NaN"),
    (lambda: wrong.depth_to_space(X, 0), "BlockSize to be at least 1, got 0"),
    (lambda: wrong.depth_to_space(X, 3), "Sizes[1] to be a multiple of 9 (BlockSize*BlockSize)"),
    (lambda: wrong.space_to_depth(X, 4), "Sizes[3] to be a multiple of 4 (BlockSize)"),
    (
        lambda: wrong.space_to_depth(X[0], 2),
        "InputTensor.DimensionCount to be 4 (x[None] has this rank), got 3",
    ),
    (lambda: wrong.reduce(X, "SUMM"), "REDUCE: expected Function to be one of ARGMAX"),
    (lambda: wrong.reduce(X, "SUMM"), "did you mean 'SUM'"),
    (lambda: wrong.clip([1, 2], 0, 1), "ELEMENT_WISE_CLIP: expected InputTensor to be an array"),
    (lambda: wrong.join([X, 3], 0), "JOIN: expected InputTensors[1] to be an array"),
    (lambda: wrong.clip_grad(X, None, 0, 1), "expected InputGradientTensor to be an array"),
    (lambda: wrong.tile(X > 0, [1]), "TILE: expected InputTensor.dtype to be one that"),
    (lambda: wrong.argmax(jnp.float32(3)), "ARGMAX: expected InputTensor.DimensionCount to"),
    (lambda: wrong.reduce(X, "SUM", [4]), "Axes[0] to be in [-4, 3]"),
    (lambda: wrong.reduce(X, "SUM", [-5]), "Axes[0] to be in [-4, 3], got -5"),
    (lambda: wrong.argmin(X, output_data_type=np.int16), "ARGMIN: expected OutputTensor.DataT"),
    (lambda: wrong.tile(X, [2**31, 1, 1, 1]), "TILE: expected OutputTensor.Sizes[0] to be"),
    (lambda: wrong.reduce(X.astype(jnp.int8), "SUM"), "InputTensor.DataType to be one of"),
    (lambda: wrong.argmax(X, [0], "UP"), "AxisDirection to be one of"),
    (lambda: wrong.argmax(X, [0], output_data_type="FLOAT32"), "OutputTensor.DataType"),
    (lambda: wrong.clip(X.astype(complex), 0, 1), "got complex128"),
    (lambda: wrong.reduce(X, "SUM", [[0]]), "Axes[0] to be an integer"),
    (lambda: wrong.argmin(X, "0"), "Axes to be a list, got '0'"),
    (lambda: wrong.split(X, "1", [3, 5]), "Axis to be an integer"),
    (lambda: wrong.split(X, True, [1, 7]), "Axis to be an integer"),
    (lambda: wrong.split(X, -5, [3, 5]), "Axis to be in [-4, 3], got -5"),
    (lambda: wrong.tile(X, 3), "RepeatsCount to be 4"),
    (lambda: wrong.reduce(X, "SUM", True), "Axes to be a list, got True"),
    (lambda: wrong.split(X, 1, 8), "OutputTensors to be a list of sizes along the axis, got 8"),
    (lambda: wrong.split(X, 1, [3.0, 5]), "OutputTensors[0].Sizes to be a list of integers"),
    (lambda: wrong.split(X, 1, [0, 8]), "OutputTensors[0].Sizes[1] to be in [1"),
    (lambda: wrong.clip(X, None, 1), "Min to be a number, got None"),
    (lambda: wrong.clip(X, "0", True), "Max to be a number, got True"),
    (lambda: wrong.clip(X, 0, 10**400), "Max to fit a FLOAT"),
    (
        lambda: wrong.clip(X, 0, 1, [1, 2]),
        "ScaleBias to be a ScaleBias, as ScaleBias(scale=..., bias=...), got [1, 2]",
    ),
    (lambda: wrong.depth_to_space(X, [2]), "BlockSize to be an integer"),
    (lambda: wrong.join([], 0), "InputCount to be at least 1"),
    (lambda: wrong.join(None, 0), "InputTensors to be a list, got None"),
    (lambda: wrong.Split.infer(input_tensor=TensorDesc.of(X), axis=0), "their own sizes"),
    (lambda: wrong.Tile.infer(input_tensor=TensorDesc.of(X)), "Repeats to be given, got"),
    (lambda: wrong.Tile.infer(input_tensor=TensorDesc.of(X), repeat=[1]), "'repeats'"),
    (lambda: wrong.resample(X, [2, 8, 8, 8], "CUBIC"), "LINEAR (jax.image.resize has cubic)"),
    (lambda: wrong.multihead_attention(X[0], X[0], X[0], 2), "expected Scale to be a number"),
    (
        lambda: wrong.slice(X, [0, 0, 3, 0], [2, 8, 2, 6], [1, 1, 1, 1]),
        "keep InputWindowOffsets[2] + InputWindowSizes[2] at most 4 (InputTensor.Sizes[2])",
    ),
    (
        lambda: wrong.one_hot(np.zeros((4, 1), np.int32), jnp.ones((1, 1), jnp.float32), 5, 1),
        "at least 2 (off and on, as jax.numpy.array([0, 1]).reshape(1, 2)), got 1",
    ),
    (
        lambda: dml_jax.Gather(
            input_tensor=TensorDesc("FLOAT32", [2, 3]),
            indices_tensor=TensorDesc("UINT32", [1, 4]),
            output_tensor=TensorDesc("FLOAT32", [5, 3]),
            axis=0,
            index_dimensions=1,
        ),
        "OutputTensor.Sizes to be [4, 3] (ones may stand in front), got [5, 3]",
    ),
    (lambda: wrong.add(X, X.astype(jnp.bfloat16)), "(x.astype('float32') converts), got bfloat16"),
    (lambda: wrong.add(H, X), "(x.astype('bfloat16') converts), got FLOAT32"),
    (lambda: wrong.multiply(H, X > 0), "DirectML has (x.astype('bfloat16') converts)"),
    (lambda: wrong.join([H, X.astype(jnp.float16)]), "x.astype('bfloat16') converts"),
    (lambda: wrong.exp(1.0), "InputTensor to be an array (numbers have"),
    (lambda: wrong.gather(X, P, axis=(0, 1)), "GATHER: expected Axis to be an integer in [-4, 3]"),
    (lambda: wrong.quantize_linear(X, 0.1, 0, "INT4"), "OutputTensor.DataType to be one of INT8"),
    (lambda: export(wrong.tanh, (2, 3)), "an array or jax.ShapeDtypeStruct(sizes, dtype)"),
    (lambda: wrong.cast(X, int), "TargetDataType to be a type of one width, as jax.numpy.int32"),
    (lambda: wrong.quantize(X, [0.5], "SCALE"), "quantize_linear and dequantize_linear take numb"),
    (dml_jax.ActivationRelu, "got nothing (ActivationRelu.fused() has no tensors)"),
    (
        lambda: wrong.activation_softmax(jnp.ones((2, 3, 8), jnp.int32)),
        "ACTIVATION_SOFTMAX1: expected InputTensor.DataType to be one of FLOAT32, FLOAT16 "
        "(x.astype('float32') converts), got INT32",
    ),
    (lambda: wrong.tile(X > 0, [1]), "to be one that DirectML has (x.astype('uint8') conv"),
    (lambda: wrong.multiply(X, X > 0), "that DirectML has (x.astype('float32') converts)"),
    (lambda: wrong.logical_not(X), "one of UINT32, UINT8 (x != 0 is a condition), got FLOAT32"),
    (lambda: wrong.if_(X > 0, 2.5, 1), "ATensor to be an array, or another argument"),
    (lambda: wrong.mean_variance_normalization(X, jnp.ones(8), axes=-1), "ScaleTensor.Sizes[3]"),
    (lambda: wrong.convolution(X, X, start_padding="SAME"), "(jax.lax.padtype_to_pads gives"),
    (lambda: wrong.random_generator(jax.random.key(0), [4]), "keys are for jax.random"),
    (lambda: wrong.if_(X, X, X), "to be one of UINT8 (x != 0 is a condition), got FLOAT32"),
    (lambda: wrong.reduce(jnp.float32(3), "SUM"), "(x.reshape(1) has rank 1; y[0] of its res"),
    (
        lambda: wrong.convolution(X, jnp.ones((3, 4, 1, 1), jnp.float32)),
        "be 8 (InputTensor.Sizes[1] / GroupCount) (images are NCHW, filters OIHW)",
    ),
    (
        lambda: jax.jit(lambda v: wrong.clip(X, 0, v))(1.0),
        "Max to be a constant: attributes cannot be traced (static_argnames",
    ),
    (
        lambda: jax.jit(lambda v: dml_jax.adam_optimizer(X, X, X, X, 1, v, 0, 0, 0))(1.0),
        "LearningRate to be a constant: attributes cannot be traced (for a schedule, use",
    ),
    (lambda: dml_jax.Join.infer(input_tensors=[T, T], axis=-1), f"Axis {DESCRIPTOR}"),
    (lambda: dml_jax.Reduce.infer(function="SUM", input_tensor=T, axes=[-1]), f"] {DESCRIPTOR}"),
    # What users of other libraries try first.
    (lambda: dml_jax.mean_variance_normalization(ROWS), "without axes the input is an image, NCHW"),
    (lambda: dml_jax.quantize_linear(IMAGE, jnp.ones(3)), "is s.reshape(1, -1, 1, 1)), got 3"),
    (lambda: dml_jax.quantize_linear(jnp.ones((3, 4)), jnp.ones(3)), "is s.reshape(1, -1)), got 3"),
    (lambda: dml_jax.gemm(jnp.ones((3, 4)), jnp.ones(4)), "(x[:, None] is a column), got 1"),
    (lambda: dml_jax.max_pooling(jnp.ones((2, 3, 4)), 2), "of signals, x[..., None] with a window"),
    (
        lambda: dml_jax.convolution(IMAGE, jnp.ones((3, 2, 2))),
        "(InputTensor.DimensionCount), got 3",
    ),
    (lambda: wrong.reduce(X > 0, "SUM"), "that DirectML has (x.astype('int32') converts)"),
    (lambda: wrong.add(X, X.astype(jnp.int32)), "; x.astype('float32') converts, got INT32"),
    (lambda: dml_jax.convolution(IMAGE[0], jnp.ones((4, 3, 3, 3))), "a batch: x[None], got 4"),
    (
        lambda: dml_jax.batch_normalization(IMAGE[0], *[jnp.ones(3)] * 4),
        "NCHW, filters OIHW), got 3",
    ),
    (
        lambda: dml_jax.multihead_attention(
            query=HEADS, key=HEADS, value=HEADS, query_head_count=4
        ),
        "QueryTensor.Sizes[0] to be 1 ([B, S, H, D] is x.reshape(B, S, H * D) here), got 2",
    ),
    (
        lambda: dml_jax.one_hot(np.ones(2, "i4"), jnp.ones(2), 5),
        "(jax.numpy.expand_dims(indices, axis) has a dimension",
    ),
    (
        lambda: dml_jax.one_hot(np.ones((2, 1), "i4"), jnp.ones(2), 5),
        "DimensionCount to be 2 ~ jax.numpy.array([0, 1]).reshape(1, 2)), got 1",
    ),
    (lambda: dml_jax.one_hot(np.ones(2, "i4"), jnp.ones(2), 5, 1), "Axis to be in ~(jax.numpy.exp"),
    (
        lambda: wrong.padding(M, start_padding=1, end_padding=[0, 0]),
        "StartPadding to have 2 elements ~ (one number for each dimension, as [1, 1]), got [1]",
    ),
    (lambda: wrong.multihead_attention(ROWS, ROWS, ROWS), "(query=, key= and value= take the arr"),
    (
        lambda: dml_jax.multihead_attention(
            query=ROWS, key=ROWS, value=ROWS, query_head_count=3, mask=np.ones((5, 5), "i4")
        ),
        "MaskTensor.DimensionCount to be at least 4 (a BOOLEAN mask is jax.numpy.broadcast_to(mas",
    ),
    (
        lambda: dml_jax.convolution(IMAGE, jnp.ones((4, 3, 1, 1)), direction="BACKWARD"),
        "FilterTensor.Sizes[0] to be 3 (InputTensor.Sizes[1]), got 4",
    ),
    (lambda: wrong.activation_relu(wrong.split(V, 0, [2, 4])), "several, take [0], got a tuple"),
    (lambda: wrong.gather(M, (0, 1)), "IndicesTensor to be an array (jax.numpy.asarray(x, dt"),
    (lambda: wrong.matrix_multiply_integer(*[X.astype("i4")] * 2), "of INT8, UINT8, got INT32"),
    (lambda: wrong.gemm(P, P, trans_b=True), "TransB to be one of NONE, TRANSPOSE (True is 'TR"),
    *(
        (
            lambda c=c, t=t: c(t),
            "_LOGICAL_EQUALS: ~ as UINT8 (x != 0 is an array of bool), got bool",
        )
        for c in (lambda t: wrong.equals(P, P, t), lambda t: wrong.equals(P, 1, t))
        for t in (bool, "bool", np.bool_)
    ),
    (
        lambda: wrong.quantize_linear(P, 1, 0, "UINT7"),
        "_QUANTIZE_LINEAR: expected OutputTensor.Dat",
    ),
    # What C++ writes in braces is a list.
    (lambda: wrong.tile(X, {2, 1}), f"Repeats {SET}"),
    (lambda: wrong.split(X, 1, {2, 1}), f"OutputTensors {SET}"),
    (lambda: wrong.reduce(X, "SUM", {2, 1}), f"Axes {SET}"),
    (lambda: wrong.join({2, 1}, 1), f"InputTensors {SET}"),
    (lambda: wrong.Tile.infer(input_tensor=T, repeats={2, 1}), f"Repeats {SET}"),
    (lambda: TensorDesc("FLOAT32", {2, 1}), f"Sizes {SET}"),
    (lambda: TensorDesc("FLOAT32", [2, 1], {2, 1}), f"Strides {SET}"),
    # Windows.
    (lambda: wrong.max_pooling(P, [3, 9]), "WindowSize[1] to span at most 5"),
    (lambda: wrong.max_pooling(P, [3]), f"WindowSize to have 2 {EACH}, got [3]"),
    (lambda: wrong.max_pooling(P, 2, 2, output_sizes=[1, 2, 4, 3]), "Sizes[2] to be in [1, 3]"),
    (lambda: wrong.convolution(P, P, strides=[1]), f"Strides to have 2 {EACH}, got [1]"),
    (lambda: wrong.convolution(P, P, group_count=2), "FilterTensor.Sizes[1] to be 1"),
    (lambda: wrong.average_pooling(P, 1, 2, [], [], "ab", True), "Dilations to be a list"),
    (
        lambda: wrong.average_pooling(P, [1, 1], [3, 3], [], [], [3, 3], True),
        "POOLING1: expected WindowSize[0] to span at most 5",
    ),
    (
        lambda: wrong.convolution(
            *[np.ones((1, 1, 1, 1), np.float32)] * 2,
            direction="BACKWARD",
            start_padding=[1, 0],
            output_padding=[2, 1],
            output_sizes=[1, 1, 2, 2],
        ),
        "OutputPadding[0] to be below 2",
    ),
    (lambda: wrong.average_pooling_grad(P, ["a", 1], 2, 0, 0, True), "Strides[0] to be an integer"),
    # Indices.
    (lambda: wrong.gather(V, np.zeros((2, 1), np.int32), 0, 1), "IndicesTensor.Sizes"),
    (lambda: wrong.gather(V, PLACE, 1, 1), "Axis to be in [-1, 0]"),
    (lambda: wrong.gather(V, PLACE.astype(np.int16), 0, 1), "IndicesTensor.DataType"),
    (lambda: wrong.gather_nd(V, np.zeros(2, "i4"), 1, 1, 0), "IndicesTensor.Sizes[0] to be in [1,"),
    (lambda: wrong.one_hot(PLACE, V, 0, 0), "Sizes"),
    # Numbers that no element can be.
    (
        lambda: wrong.fill_value_sequence([2], "UINT8", 0, -2),
        "ValueDelta to be an integer in [0, 255] (UINT8); -2 modulo 2^8 is 254, got -2",
    ),
    (lambda: wrong.fill_value_constant([2], "INT8", 128), "Value to be ~ got 128"),
    (lambda: wrong.fill_value_constant([2], "INT8", 1.5), "Value to be ~ got 1.5"),
    (lambda: wrong.fill_value_constant([2], "UINT32", np.nan), "Value to be ~ got nan"),
    (lambda: wrong.diagonal_matrix([2, 2], "INT8", -129, 0, 1), "Value to be ~ got -129"),
    *(
        (
            lambda v=v: wrong.padding(B, "CONSTANT", v, [1], [1]),
            "PaddingValue to be an integer in [0, 255]",
        )
        for v in (0.5, -1, 256, np.nan)
    ),
    # Slices, axes and grids.
    (lambda: wrong.slice(V, [3], [4], [2]), "SLICE1~InputWindowOffsets~6"),  # SLICE reads no more
    (lambda: wrong.slice(V, [0], [3], [0]), "InputWindowStrides[0] to not be 0"),
    (lambda: wrong.slice(V, [0, 0], [3], [1]), "InputWindowSizes"),
    *(
        (lambda f=f, axes=axes: f(axes), "~Ax")
        for f in (lambda axes: wrong.activation_softmax(M, axes), normalized)
        for axes in ([2], [-3], [1, 1], [], "last", [0.5])
    ),
    (lambda: normalized(None), "Axes to be a list, got None"),
    (lambda: normalized(7), "Axes[0] to be in [-2, 1], got 7"),
    (lambda: wrong.lp_normalization(M, 1, 1e-5, 3), "P to be one of 1, 2, got 3"),
    (
        lambda: wrong.batch_normalization(X, *[C] * 2, C[:, :3], C),
        "ScaleTensor.Sizes[1] to be 1 or 8 ~got 3",
    ),
    (
        lambda: wrong.upsample_2d(X, dml_jax.Size2D(width=1, height=0), "LINEAR"),
        "ScaleSize.Height to be in [1, ",
    ),
    (lambda: wrong.resample_grad(V, 1, "LINEAR"), "output_sizes to be a list"),
    # Products.
    (lambda: wrong.gemm(M, M.T, np.ones((3, 2), np.float32)), "GEMM"),
    *(
        (lambda z=z: product(a_zero_point=z), "AZeroPointTensor")
        for z in zeros((1, 2), 3, (2, 1, 1))
    ),
    *((lambda z=z: product(b_zero_point=z), "BZeroPointTensor") for z in zeros((2, 1), 3)),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_does_not_fit(call: Callable[[], Any], message: str):
    with pytest.raises(DmlError, match=".*".join(map(re.escape, message.split("~")))):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wrong.clip(X, 0), "dml_jax.clip: missing a required argument: 'max'"),
        (lambda: wrong.clip(X, 0, maxx=1), "clip: got an unexpected argument 'maxx' (did you mean"),
        (lambda: wrong.tile(X, [1], 2), "dml_jax.tile: too many positional arguments"),
        (lambda: wrong.top_k(), "missing required arguments: 'input', 'k' (help(dml_jax.top_k))"),
        (lambda: wrong.top_k(X), "missing a required argument: 'k' (help(dml_jax.top_k))"),
        (lambda: wrong.top_k(X, 3), "missing a required argument: 'k' "),
        (lambda: wrong.top_k(X, 3), "; 3 was read as axis"),
        (
            lambda: wrong.padding(X, start_padding=1),
            "one number for each dimension, as [0, 0, 1, 1]",
        ),
        (lambda: wrong.padding(V, 1), "as [1]); 1 was read as padding_mode"),
        (
            lambda: wrong.one_hot(PLACE, 3),
            "dml_jax.one_hot(i[..., None], jax.numpy.float32([0, 1]).reshape(*[1] * i.ndim, 2), n)",
        ),
        (lambda: wrong.max(X), "argument: 'b' (along axes: dml_jax.reduce(x, \"MAX\", axes))"),
        (lambda: wrong.max(X, axes=1), 'along axes: dml_jax.reduce(x, "MAX", axes))'),
        (lambda: wrong.mean(X), 'along axes: dml_jax.reduce(x, "AVERAGE", axes))'),
        (lambda: wrong.reduce(X, "SUM", keepdims=False), "jax.numpy.squeeze drops it)"),
        (
            lambda: wrong.multihead_attention(X, X, X, query_head_count=2),
            "order is scale, mask_filter_value, query_head_count",
        ),
    ],
)
def test_a_call_that_fits_no_signature(call: Callable[[], Any], message: str):
    with pytest.raises(TypeError, match=re.escape(message)):
        call()
