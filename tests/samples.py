"""For every operator: how to draw a random one, what it must give, and how its rows are tried.

The registry-wide tests (`test_registry.py`) hold for whatever stands here, and fail for an operator
that does not: an operator is tested the moment it is declared.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dml_jax import (
    Argmax,
    Argmin,
    AxisDirection,
    DepthSpaceOrder,
    DepthToSpace,
    DepthToSpace1,
    ElementWiseClip,
    ElementWiseClip1,
    ElementWiseClipGrad,
    ElementWiseClipGrad1,
    Join,
    Operator,
    Reduce,
    ReduceFunction,
    ScaleBias,
    SpaceToDepth,
    SpaceToDepth1,
    Split,
    TensorDesc,
    Tile,
)

Arrays = list[np.ndarray]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Sample:
    """What the tests know of one operator.

    Attributes:
        draw: draws a valid descriptor (packed tensors) with a given data type.
        reference: the outputs that NumPy computes, floats in float64.
        at: the descriptor with every tensor of a rank and of the types given by field, of the
            group of its support table; as simple as it can be.
        types: the data types that `draw` takes.
        low, high: the range of the random elements of floats.
        exact_for_all: whether the reference of a descriptor holds for every value of its type.
    """

    draw: Callable[[Draw, str], Operator]
    reference: Callable[..., Arrays]
    at: Callable[[int, dict[str, str], Any], Operator]
    types: list[str]
    low: float = -4.0
    high: float = 4.0
    exact_for_all: Callable[[Any], bool] = lambda op: True

    def plain(self, op_class: type[Operator], rank: int = 4) -> Operator:
        """A descriptor of tensors of one element: FLOAT32, or UINT32 where no row has that."""
        group, rows = next(iter(op_class.support.groups.items()))
        types = {
            field: next(t.name for t in types if t.name in ("FLOAT32", "UINT32"))
            for field, types in rows[0].types.items()
        }
        return self.at(rank, types, group and group.name)


FLOATS = ["FLOAT32", "FLOAT16"]
INTEGERS = ["INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8"]
ALL = ["FLOAT64", *FLOATS, *INTEGERS]


def sizes(draw: Draw, least: int = 1, most: int = 8, elements: int = 600) -> list[int]:
    """Sizes of a random tensor of at most that many elements."""
    rank = draw(st.integers(least, most))
    result: list[int] = []
    for _ in range(rank):
        room = elements // math.prod(result)
        result.append(draw(st.integers(1, max(1, min(6, room)))))
    return result


def ones(rank: int, type_: str) -> TensorDesc:
    return TensorDesc(type_, [1] * rank)


# SPLIT


def draw_split(draw: Draw, type_: str) -> Split:
    shape = sizes(draw)
    axis = draw(st.integers(0, len(shape) - 1))
    pieces = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    shape[axis] = sum(pieces)
    outputs = [TensorDesc(type_, [*shape[:axis], p, *shape[axis + 1 :]]) for p in pieces]
    return Split(input_tensor=TensorDesc(type_, shape), output_tensors=outputs, axis=axis)


def split(op: Split, x: np.ndarray) -> Arrays:
    ends = np.cumsum([t.sizes[op.axis] for t in op.output_tensors])
    return np.split(x, ends[:-1], op.axis)


# JOIN


def draw_join(draw: Draw, type_: str) -> Join:
    split = draw_split(draw, type_)
    return Join(
        input_tensors=split.output_tensors, output_tensor=split.input_tensor, axis=split.axis
    )


# TILE


def draw_tile(draw: Draw, type_: str) -> Tile:
    shape = sizes(draw, elements=100)
    repeats = [draw(st.integers(1, 3 if len(shape) < 5 else 2)) for _ in shape]
    tiled = [n * r for n, r in zip(shape, repeats, strict=True)]
    return Tile(
        input_tensor=TensorDesc(type_, shape),
        output_tensor=TensorDesc(type_, tiled),
        repeats=repeats,
    )


# DEPTH_TO_SPACE, SPACE_TO_DEPTH


def draw_blocks(op: Any, draw: Draw, type_: str) -> Operator:
    n, c, h, w = (draw(st.integers(1, 4)) for _ in range(4))
    block = draw(st.integers(1, 8))
    deep = TensorDesc(type_, [n, c * block * block, h, w])
    wide = TensorDesc(type_, [n, c, h * block, w * block])
    first, second = (deep, wide) if issubclass(op, DepthToSpace) else (wide, deep)
    order = {"order": draw(st.sampled_from(DepthSpaceOrder))} if op.__name__[-1] == "1" else {}
    return op(input_tensor=first, output_tensor=second, block_size=block, **order)


def block_pixels(op: Any, shape: tuple[int, ...]):
    """The page's formula: (channel in depth, row, column, channel, row, column in space)."""
    block, channels = op.block_size, shape[1]
    for c, y, x in np.ndindex(*shape[1:]):
        i, j = y % block, x % block
        if getattr(op, "order", None) == DepthSpaceOrder.COLUMN_ROW_DEPTH:
            depth = (c * block + i) * block + j
        else:
            depth = (i * block + j) * channels + c
        yield depth, y // block, x // block, c, y, x


def depth_to_space(op: DepthToSpace, x: np.ndarray) -> Arrays:
    out = np.zeros(op.output_tensor.sizes, x.dtype)
    for d, h, w, c, i, j in block_pixels(op, out.shape):
        out[:, c, i, j] = x[:, d, h, w]
    return [out]


def space_to_depth(op: SpaceToDepth, x: np.ndarray) -> Arrays:
    out = np.zeros(op.output_tensor.sizes, x.dtype)
    for d, h, w, c, i, j in block_pixels(op, x.shape):
        out[:, d, h, w] = x[:, c, i, j]
    return [out]


def blocks(op: Any, reference: Callable[..., Arrays]) -> Sample:
    order = {"order": "COLUMN_ROW_DEPTH"} if op.__name__[-1] == "1" else {}
    return Sample(
        lambda draw, type_: draw_blocks(op, draw, type_),
        reference,
        lambda rank, types, _: op(
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensor=ones(rank, types["output_tensor"]),
            block_size=1,
            **order,
        ),
        ALL,
    )


# ELEMENT_WISE_CLIP

# No denormals, which XLA's CPU reads as 0: 0 >= 1e-45 is true there.
BOUNDS = st.floats(-300, 300, width=32, allow_subnormal=False) | st.sampled_from(
    [-np.inf, np.inf, 2.5, -2.5, 3e38]
)


def cast_bound(bound: float, dtype: np.dtype) -> float | int:
    """As the pages cast: toward zero, then into the type's range; floats to the nearest."""
    if not np.issubdtype(dtype, np.integer):
        with np.errstate(over="ignore"):
            return float(dtype.type(bound))
    limits = np.iinfo(dtype)
    if math.isinf(bound):
        return int(limits.max if bound > 0 else limits.min)
    return max(int(limits.min), min(int(limits.max), int(bound)))


# Scaling is compared where it is exact: where NumPy and XLA may round differently, so may the
# test's reference.
SCALES = st.none() | st.builds(
    ScaleBias, scale=st.sampled_from([-2.0, 0.5, 3.0]), bias=st.integers(-9, 9).map(float)
)


def draw_clip(draw: Draw, type_: str) -> ElementWiseClip:
    tensor = TensorDesc(type_, sizes(draw))
    return ElementWiseClip(
        input_tensor=tensor,
        output_tensor=tensor,
        scale_bias=draw(SCALES),
        min=draw(BOUNDS),
        max=draw(BOUNDS),
    )


def clip(op: ElementWiseClip | ElementWiseClip1, x: np.ndarray) -> Arrays:
    """Exact, in Python's own numbers."""
    low, high = (cast_bound(bound, x.dtype) for bound in (op.min, op.max))
    s = op.scale_bias
    values = x.ravel().tolist()
    if s is not None:
        values = [cast_bound(v * s.scale + s.bias, x.dtype) for v in values]
    clipped = [v if v != v else max(low, min(v, high)) for v in values]
    return [np.array(clipped, x.dtype).reshape(x.shape)]


def draw_exact_bounds(draw: Draw, type_: str) -> dict[str, Any]:
    dtype = np.dtype(type_.lower())
    if np.issubdtype(dtype, np.floating):
        bounds = BOUNDS
    else:
        limits = np.iinfo(dtype)
        bounds = st.integers(int(limits.min), int(limits.max)) | st.integers(0, 9)
    return {"min_max_data_type": type_, "min": draw(bounds), "max": draw(bounds)}


def draw_clip1(draw: Draw, type_: str) -> ElementWiseClip1:
    tensor = TensorDesc(type_, sizes(draw))
    return ElementWiseClip1(
        input_tensor=tensor,
        output_tensor=tensor,
        scale_bias=draw(SCALES),
        **draw_exact_bounds(draw, type_),
    )


def draw_grad(op: Any, draw: Draw, type_: str) -> Operator:
    tensor = TensorDesc(type_, sizes(draw))
    if op is ElementWiseClipGrad1:
        bounds = draw_exact_bounds(draw, type_)
    else:
        bounds = {"min": draw(BOUNDS), "max": draw(BOUNDS)}
    return op(
        input_tensor=tensor, input_gradient_tensor=tensor, output_gradient_tensor=tensor, **bounds
    )


def clip_grad(op: Any, x: np.ndarray, gradient: np.ndarray) -> Arrays:
    """0 where clipping leaves a bound standing, else the gradient, which NaN passes."""
    low, high = (cast_bound(bound, x.dtype) for bound in (op.min, op.max))
    passed = [not (v <= low or v >= high) for v in x.ravel().tolist()]
    return [np.where(np.reshape(passed, x.shape), gradient, np.zeros_like(gradient))]


def grad(op: Any) -> Sample:
    exact = op is ElementWiseClipGrad1
    return Sample(
        lambda draw, type_: draw_grad(op, draw, type_),
        clip_grad,
        lambda rank, types, _: op(
            input_tensor=ones(rank, types["input_tensor"]),
            input_gradient_tensor=ones(rank, types["input_gradient_tensor"]),
            output_gradient_tensor=ones(rank, types["output_gradient_tensor"]),
            **({"min_max_data_type": types["output_gradient_tensor"]} if exact else {}),
            min=0,
            max=1,
        ),
        [*FLOATS, *INTEGERS],
    )


# ARGMAX, ARGMIN


def draw_arg(op: Any, draw: Draw, type_: str) -> Operator:
    shape = sizes(draw)
    axes = draw_axes(draw, len(shape))
    output = draw(st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"]))
    return op(
        input_tensor=TensorDesc(type_, shape),
        output_tensor=TensorDesc(output, reduced(shape, axes)),
        axes=axes,
        axis_direction=draw(st.sampled_from(AxisDirection)),
    )


def indices(op: Any, pick: Callable[..., Any]) -> Sample:
    def reference(op: Any, x: np.ndarray) -> Arrays:
        last = op.axis_direction == AxisDirection.DECREASING
        return [arg(pick, x, op.axes, last).astype(op.output_tensor.dtype)]

    return Sample(
        lambda draw, type_: draw_arg(op, draw, type_),
        reference,
        lambda rank, types, _: op(
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensor=ones(rank, types["output_tensor"]),
            axes=[0],
            axis_direction="INCREASING",
        ),
        [*FLOATS, *INTEGERS],
    )


# REDUCE

F = ReduceFunction
FUNCTION_TYPES = {
    (F.ARGMIN, F.ARGMAX): [*FLOATS, *INTEGERS],
    (F.AVERAGE, F.L2, F.LOG_SUM, F.LOG_SUM_EXP): FLOATS,
    (F.L1, F.SUM_SQUARE, F.MULTIPLY, F.SUM): [*FLOATS, "INT64", "INT32", "UINT64", "UINT32"],
    (F.MIN, F.MAX): [*FLOATS, *INTEGERS],
}


def draw_axes(draw: Draw, rank: int) -> list[int]:
    axes = draw(st.permutations(range(rank)))
    return axes[: draw(st.integers(1, rank))]


def reduced(shape: list[int], axes: list[int]) -> list[int]:
    return [1 if d in axes else n for d, n in enumerate(shape)]


def draw_reduce(draw: Draw, type_: str) -> Reduce:
    functions = [f for fs, types in FUNCTION_TYPES.items() for f in fs if type_ in types]
    function = draw(st.sampled_from(functions))
    shape = sizes(draw)
    axes = draw_axes(draw, len(shape))
    if function in (F.ARGMAX, F.ARGMIN):
        output_type = draw(st.sampled_from(["INT64", "INT32", "UINT64", "UINT32"]))
    else:
        output_type = type_
    return Reduce(
        function=function,
        input_tensor=TensorDesc(type_, shape),
        output_tensor=TensorDesc(output_type, reduced(shape, axes)),
        axes=axes,
    )


def arg(pick: Callable[..., Any], x: np.ndarray, axes: Any, last: bool = False) -> np.ndarray:
    """Index of the extreme element, row-major within the reduced dimensions in increasing order."""
    axes = sorted(axes)
    kept = [d for d in range(x.ndim) if d not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
    index = rows.shape[-1] - 1 - pick(rows[..., ::-1], axis=-1) if last else pick(rows, axis=-1)
    return index.reshape(reduced(list(x.shape), axes))


def reduce(op: Reduce, x: np.ndarray) -> Arrays:
    axes = tuple(op.axes)
    if op.function in (F.ARGMAX, F.ARGMIN):
        pick = np.argmax if op.function == F.ARGMAX else np.argmin
        return [arg(pick, x, axes).astype(op.output_tensor.dtype)]
    wide = x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x

    def summed(values: np.ndarray) -> np.ndarray:
        return values.sum(axes, dtype=values.dtype, keepdims=True)

    def log_sum_exp() -> np.ndarray:
        top = wide.max(axes, keepdims=True)
        shift = np.where(np.isinf(top), 0.0, top)
        return np.log(summed(np.exp(wide - shift))) + shift

    with np.errstate(all="ignore"):
        result = {
            F.SUM: lambda: summed(wide),
            F.AVERAGE: lambda: wide.mean(axes, keepdims=True),
            F.L1: lambda: summed(np.abs(wide)),
            F.L2: lambda: np.sqrt(summed(wide * wide)),
            F.SUM_SQUARE: lambda: summed(wide * wide),
            F.LOG_SUM: lambda: np.log(summed(wide)),
            F.LOG_SUM_EXP: log_sum_exp,
            F.MULTIPLY: lambda: wide.prod(axes, dtype=wide.dtype, keepdims=True),
            F.MIN: lambda: wide.min(axes, keepdims=True),
            F.MAX: lambda: wide.max(axes, keepdims=True),
        }[op.function]()
        return [result.astype(x.dtype)]


SAMPLES: dict[str, Sample] = {
    "DML_OPERATOR_SPLIT": Sample(
        draw_split,
        split,
        lambda rank, types, _: Split(
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensors=[ones(rank, types["output_tensors"])],
            axis=0,
        ),
        ALL,
    ),
    "DML_OPERATOR_TILE": Sample(
        draw_tile,
        lambda op, x: [np.tile(x, op.repeats)],
        lambda rank, types, _: Tile(
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensor=ones(rank, types["output_tensor"]),
            repeats=[1] * rank,
        ),
        [*FLOATS, *INTEGERS],
    ),
    "DML_OPERATOR_JOIN": Sample(
        draw_join,
        lambda op, *xs: [np.concatenate(xs, op.axis)],
        lambda rank, types, _: Join(
            input_tensors=[ones(rank, types["input_tensors"])],
            output_tensor=ones(rank, types["output_tensor"]),
            axis=0,
        ),
        ALL,
    ),
    "DML_OPERATOR_DEPTH_TO_SPACE": blocks(DepthToSpace, depth_to_space),
    "DML_OPERATOR_DEPTH_TO_SPACE1": blocks(DepthToSpace1, depth_to_space),
    "DML_OPERATOR_SPACE_TO_DEPTH": blocks(SpaceToDepth, space_to_depth),
    "DML_OPERATOR_SPACE_TO_DEPTH1": blocks(SpaceToDepth1, space_to_depth),
    "DML_OPERATOR_ELEMENT_WISE_CLIP1": Sample(
        draw_clip1,
        clip,
        lambda rank, types, _: ElementWiseClip1(
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensor=ones(rank, types["output_tensor"]),
            min_max_data_type=types["output_tensor"],
            min=0,
            max=1,
        ),
        [*FLOATS, *INTEGERS],
        exact_for_all=lambda op: op.scale_bias is None,
    ),
    "DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD": grad(ElementWiseClipGrad),
    "DML_OPERATOR_ELEMENT_WISE_CLIP_GRAD1": grad(ElementWiseClipGrad1),
    "DML_OPERATOR_ARGMAX": indices(Argmax, np.argmax),
    "DML_OPERATOR_ARGMIN": indices(Argmin, np.argmin),
    "DML_OPERATOR_ELEMENT_WISE_CLIP": Sample(
        draw_clip,
        clip,
        lambda rank, types, _: ElementWiseClip(
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensor=ones(rank, types["output_tensor"]),
            min=0,
            max=1,
        ),
        [*FLOATS, *INTEGERS],
        exact_for_all=lambda op: op.scale_bias is None,  # else large integers round in FLOAT32
    ),
    "DML_OPERATOR_REDUCE": Sample(
        draw_reduce,
        reduce,
        lambda rank, types, function: Reduce(
            function=function,
            input_tensor=ones(rank, types["input_tensor"]),
            output_tensor=ones(rank, types["output_tensor"]),
            axes=[0],
        ),
        [*FLOATS, *INTEGERS],
        low=0.25,  # positive, so that LOG_SUM has a logarithm and MULTIPLY does not vanish
        high=1.75,
    ),
}


def random_array(
    sample: Sample, tensor: TensorDesc, seed: int, special: bool = False
) -> np.ndarray:
    """Random elements; small steps, so that there are ties.

    `special` ones have NaN and infinities among them, integers the ends of their type.
    """
    rng = np.random.default_rng(seed)
    limits: Any
    if np.issubdtype(tensor.dtype, np.floating):
        steps = rng.integers(round(sample.low * 8), round(sample.high * 8), tensor.sizes)
        array, ends = (steps / 8).astype(tensor.dtype), [np.nan, np.inf, -np.inf]
    else:
        limits = np.iinfo(tensor.dtype)
        low, high = max(int(limits.min), -20), min(int(limits.max), 20)
        array = rng.integers(low, high, tensor.sizes).astype(tensor.dtype)
        ends = [limits.min, limits.max]
    if special:
        chosen = rng.random(tensor.sizes) < 0.1
        array[chosen] = rng.choice(np.array(ends, tensor.dtype), chosen.sum())
    return array
