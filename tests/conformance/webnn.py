"""WebNN's conformance tests: one operator a graph, mapped to functions as Chromium maps it.

`webnn.json.xz` has the tests of web-platform-tests as data, with their version and commit. They
state no tolerance: `_UNITS`, `_ABSOLUTE` and `_units` are the table of webnn/resources/utils.js, by
operator and type.
"""

import json
import lzma
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from conformance.cases import Case
from conformance.opinfo import product

import dml_jax

Array = jax.Array
FILE = Path(__file__).with_name("webnn.json.xz")

_FLOATS = ("float32", "float16")
_UNITS: dict[str, dict[str, float]] = {  # units in the last place, by operator and type
    **{op: dict.fromkeys(_FLOATS, 1) for op in ("add", "sub", "mul", "sqrt", "cast")},
    **{op: dict.fromkeys(_FLOATS, 2) for op in ("div", "linear", "hardSigmoid")},
    **{op: dict.fromkeys(_FLOATS, 16) for op in ("tanh",)},
    "batchNormalization": dict.fromkeys(_FLOATS, 6),
    "elu": dict.fromkeys(_FLOATS, 18),
    "exp": {"float32": 32, "float16": 1},
    "hardSwish": dict.fromkeys(_FLOATS, 4),
    "instanceNormalization": {"float32": 840, "float16": 8400},
    "leakyRelu": {"float32": 1, "float16": 2},
    "pow": {"float32": 32, "float16": 2},
    "sigmoid": {"float32": 34, "float16": 10},
}
_ABSOLUTE = {
    "log": {"float32": 1 / 1024, "float16": 1 / 1024},
    "layerNormalization": {"float32": 1 / 1024, "float16": 1 / 512},
}
_OF_REDUCTIONS = {  # (units for each element, units besides)
    "reduceL1": (1, 0),
    "reduceL2": (2, 1),
    "reduceLogSum": (1, 18),
    "reduceLogSumExp": (2, 18),
    "reduceMean": (1, 2),
    "reduceProduct": (1, 0),
    "reduceSum": (1, 0),
    "reduceSumSquare": (2, 0),
}
_FILTERS = {"conv2d": "oihw", "convTranspose2d": "iohw"}


def _arguments(operator: Mapping[str, Any], inputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return the arguments of `operator` and its options by name, with arrays for their names."""
    given: dict[str, Any] = {}
    for argument in operator["arguments"]:
        for name, value in argument.items():
            given |= value if name == "options" else {name: value}

    def array(value: Any) -> Any:
        if isinstance(value, list):
            return [array(v) for v in value]
        return inputs.get(value, value) if isinstance(value, str) else value

    return {name: array(value) for name, value in given.items()}


def _number(value: Any) -> float:
    """Return a number; text is one beyond JSON ("Infinity") or a 64-bit integer ("9n")."""
    if not isinstance(value, str):
        return value
    return int(value[:-1]) if value.endswith("n") else float(value)


def _clamp(input: Array, minValue: Any = "NaN", maxValue: Any = "NaN") -> Array:
    """Clip `input`; a bound that is NaN is none."""
    low, high = _number(minValue), _number(maxValue)
    low, high = -math.inf if low != low else low, math.inf if high != high else high
    return dml_jax.clip(input, min=low, max=high)


def _reduce(
    function: str, input: Array, axes: Sequence[int] | None = None, keepDimensions: bool = False
) -> Array:
    if axes is not None and not axes:  # each element by itself
        return dml_jax.reduce(input[..., None], function, axes=[input.ndim])
    return dml_jax.reduce(input, function, axes=axes)


def _slice(
    input: Array, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
) -> Array:
    if not sizes:
        return dml_jax.identity(input)
    return dml_jax.slice(input, starts, sizes, strides or [1] * len(sizes))


def _split(input: Array, splits: int | Sequence[int], axis: int = 0) -> tuple[Array, ...]:
    if isinstance(splits, int):
        splits = [input.shape[axis] // splits] * splits
    return dml_jax.split(input, axis, splits)


def _placed(x: Array | None, like: Array, axes: Sequence[int]) -> Array | None:
    """Return `x` along the `axes` of `like`, in their order; None as it is."""
    if x is None:
        return None
    shape = [like.shape[axis] if axis in axes else 1 for axis in range(like.ndim)]
    return x.transpose(np.argsort(axes)).reshape(shape)


def _batch_normalization(
    input: Array,
    mean: Array,
    variance: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
) -> Array:
    moved = jnp.moveaxis(input[..., None, None], axis, 1) if axis else input[None, ..., None]
    parts = mean, variance, 1.0 if scale is None else scale, 0.0 if bias is None else bias
    result = dml_jax.batch_normalization(moved, *parts, epsilon=epsilon)
    return jnp.moveaxis(result, 1, axis).reshape(input.shape) if axis else result


def _layer_normalization(
    input: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    axes: Sequence[int] | None = None,
    epsilon: float = 1e-5,
) -> Array:
    axes = list(range(1, input.ndim)) if axes is None else list(axes)
    if not axes:  # each element is its own mean
        zero = dml_jax.subtract(input, input)
        return zero if bias is None else dml_jax.add(zero, bias)
    parts = _placed(scale, input, axes), _placed(bias, input, axes)
    return dml_jax.mean_variance_normalization(input, *parts, axes=axes, epsilon=epsilon)


def _instance_normalization(
    input: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    epsilon: float = 1e-5,
    layout: str = "nchw",
) -> Array:
    x = input if layout == "nchw" else jnp.moveaxis(input, -1, 1)
    parts = _placed(scale, x, [1]), _placed(bias, x, [1])
    result = dml_jax.mean_variance_normalization(x, *parts, axes=[2, 3], epsilon=epsilon)
    return result if layout == "nchw" else jnp.moveaxis(result, 1, -1)


def _convolution(
    name: str,
    input: Array,
    filter: Array,
    bias: Array | None = None,
    padding: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    inputLayout: str = "nchw",
    filterLayout: str = "",
    outputPadding: Sequence[int] = (0, 0),
    outputSizes: Sequence[int] | None = None,
) -> Array:
    is_last, backward = inputLayout == "nhwc", name != "conv2d"
    x = jnp.moveaxis(input, -1, 1) if is_last else input
    here = filterLayout or _FILTERS[name]
    w = jnp.transpose(filter, [here.index(letter) for letter in _FILTERS[name]])
    more = list(outputPadding)
    if outputSizes:
        spans = [(s - 1) * d + 1 for s, d in zip(w.shape[2:], dilations, strict=True)]
        padded = [padding[0] + padding[1], padding[2] + padding[3]]
        more = [
            size - ((n - 1) * stride + span - pad)
            for size, n, stride, span, pad in zip(
                outputSizes, x.shape[2:], strides, spans, padded, strict=True
            )
        ]
    # WebNN's output padding shows what the padding at the end cut off; DirectML's adds zeros.
    ends = [padding[1], padding[3]]
    shown = [min(end, n) for end, n in zip(ends, more, strict=True)]
    result = dml_jax.convolution(
        x,
        w,
        bias,
        direction="BACKWARD" if backward else "FORWARD",
        strides=strides,
        dilations=dilations,
        start_padding=[padding[0], padding[2]],
        end_padding=[end - part for end, part in zip(ends, shown, strict=True)],
        output_padding=[n - part for n, part in zip(more, shown, strict=True)],
        group_count=groups,
    )
    return jnp.moveaxis(result, 1, -1) if is_last else result


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(dml_jax, name) for name in ("abs", "ceil", "exp", "floor", "log", "sqrt")},
    **{name: getattr(dml_jax, name) for name in ("add", "max", "min")},
    "sub": dml_jax.subtract,
    "mul": dml_jax.multiply,
    "div": dml_jax.divide,
    "pow": lambda a, b: dml_jax.pow(a, b),
    "equal": dml_jax.equals,
    "greater": dml_jax.greater_than,
    "greaterOrEqual": dml_jax.greater_than_or_equal,
    "lesser": dml_jax.less_than,
    "lesserOrEqual": dml_jax.less_than_or_equal,
    "logicalNot": lambda a: dml_jax.logical_not(a),
    "neg": dml_jax.negate,
    "relu": dml_jax.activation_relu,
    "sigmoid": dml_jax.activation_sigmoid,
    "tanh": dml_jax.activation_tanh,
    "elu": dml_jax.activation_elu,
    "leakyRelu": dml_jax.activation_leaky_relu,
    "hardSigmoid": dml_jax.activation_hard_sigmoid,
    "hardSwish": partial(dml_jax.activation_hard_swish, alpha=1 / 6, beta=0.5),
    "linear": partial(dml_jax.activation_linear, alpha=1, beta=0),
    "clamp": _clamp,
    "cast": lambda input, type: dml_jax.cast(input, type.upper()),
    "concat": lambda inputs, axis: dml_jax.join(inputs, axis),
    "expand": lambda input, newShape: dml_jax.identity(jnp.broadcast_to(input, newShape or [1])),
    "gather": lambda input, indices, axis=0: dml_jax.gather(input, indices, axis),
    "matmul": product,
    "reshape": lambda input, newShape: dml_jax.identity(input.reshape(newShape or [1])),
    "slice": _slice,
    "softmax": lambda input, axis: dml_jax.activation_softmax(input, axes=[axis]),
    "split": _split,
    "transpose": lambda input, permutation=None: dml_jax.identity(input.transpose(permutation)),
    "batchNormalization": _batch_normalization,
    "instanceNormalization": _instance_normalization,
    "layerNormalization": _layer_normalization,
    "conv2d": partial(_convolution, "conv2d"),
    "convTranspose2d": partial(_convolution, "convTranspose2d"),
    "reduceL1": partial(_reduce, "L1"),
    "reduceL2": partial(_reduce, "L2"),
    "reduceLogSum": partial(_reduce, "LOG_SUM"),
    "reduceLogSumExp": partial(_reduce, "LOG_SUM_EXP"),
    "reduceMax": partial(_reduce, "MAX"),
    "reduceMean": partial(_reduce, "AVERAGE"),
    "reduceMin": partial(_reduce, "MIN"),
    "reduceProduct": partial(_reduce, "MULTIPLY"),
    "reduceSum": partial(_reduce, "SUM"),
    "reduceSumSquare": partial(_reduce, "SUM_SQUARE"),
}


def _values(tensor: Mapping[str, Any]) -> np.ndarray:
    """Return the array of a tensor of a test: one number, or all of them, as text beyond JSON."""
    dtype, shape = np.dtype(tensor["descriptor"]["dataType"]), tensor["descriptor"]["shape"]
    data = tensor["data"]
    listed = data if isinstance(data, list) else [data] * math.prod(shape)
    make = float if dtype.kind == "f" else lambda value: int(str(value).removesuffix("n"))
    return np.array([make(value) for value in listed], dtype).reshape(shape)


def _units(operator: str, given: Mapping[str, Any], dtype: str) -> float:
    """Return how many units in the last place a result may be off."""
    if dtype not in _FLOATS:
        return 0
    if operator in ("conv2d", "convTranspose2d"):
        layout = given.get("filterLayout", _FILTERS[operator])
        sizes = dict(zip(layout, given["filter"].shape, strict=True))
        channels = given["input"].shape[1 if given.get("inputLayout") != "nhwc" else 3]
        return sizes["h"] * sizes["w"] * channels / given.get("groups", 1) * 2
    if operator == "matmul":
        return given["a"].shape[-1] * 2
    if operator == "softmax":
        return given["input"].shape[given["axis"]] * 3 + 3
    if operator in _OF_REDUCTIONS:
        shape, axes = given["input"].shape, given.get("axes")
        each, besides = _OF_REDUCTIONS[operator]
        return math.prod(shape if axes is None else (shape[a] for a in axes)) * each + besides
    return _UNITS.get(operator, {}).get(dtype, 0)


def _check(test: Mapping[str, Any]) -> None:
    """Run the operator of a test; raise `AssertionError` where its answer is not the expected."""
    graph = test["graph"]
    (operator,) = graph["operators"]
    inputs = {name: _values(tensor) for name, tensor in graph["inputs"].items()}
    name, given = operator["name"], _arguments(operator, inputs)
    with jax.enable_x64(True):
        # DirectML has no tensors without dimensions: Chromium makes them [1].
        arrays = {n: jnp.atleast_1d(value) for n, value in inputs.items()}
        results = FUNCTIONS[name](**_arguments(operator, arrays))
    results = results if isinstance(results, tuple) else (results,)
    for result, tensor in zip(results, graph["expectedOutputs"].values(), strict=True):
        expected = _values(tensor)
        array = np.asarray(result).reshape(expected.shape)
        assert array.dtype == expected.dtype
        kind = expected.dtype.name
        if kind not in _FLOATS:
            np.testing.assert_array_equal(array, expected)
        elif name in _ABSOLUTE:
            bound = _ABSOLUTE[name][kind]
            np.testing.assert_allclose(array, expected, rtol=0, atol=bound)
        else:
            np.testing.assert_array_max_ulp(array, expected, _units(name, given, kind))


@cache
def _file() -> dict[str, Any]:
    return json.loads(lzma.decompress(FILE.read_bytes()))


def version() -> str:
    """Return the version of web-platform-tests that the cases are of."""
    return f"{_file()['version']} ({_file()['commit'][:7]})"


def cases() -> list[Case]:
    """Return every case of web-platform-tests."""
    return [
        Case(test["graph"]["operators"][0]["name"], test["name"], partial(_check, test))
        for test in _file()["tests"]
    ]
