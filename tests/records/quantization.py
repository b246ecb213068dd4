"""Records of CAST, and of the operators that quantize."""

from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import LENGTHS, Fields, Record, Rng, Types, sizes, tensors


def limits(data_type: Any) -> tuple[int, int]:
    """Return the least and the largest number of an integer type."""
    bits, unsigned = data_type.bits, data_type.name.startswith("U")
    return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def integers(values: np.ndarray, data_type: Any) -> np.ndarray:
    """Return floats within the limits of a type; NaN as 0."""
    low, high = limits(data_type)
    fits = [0 if v != v else int(max(low, min(high, v))) for v in values.ravel().tolist()]
    return np.array(fits, data_type.dtype).reshape(values.shape)


def cast(op: Any, x: np.ndarray) -> np.ndarray:
    to = op.output_tensor.data_type
    is_float = to.name.startswith("FLOAT")
    if is_float or x.dtype.kind in "iu":
        return x.astype(to.dtype)
    return integers(np.trunc(x), to)


def quantize(v: Any, scale: Any, zero: Any, data_type: Any) -> np.ndarray:
    """Return halves rounded to even, then shifted, then saturated."""
    steps = np.round(v / scale) + (0 if zero is None else zero.astype(float))
    return integers(steps, data_type)


def dequantize(x: np.ndarray, scale: np.ndarray, zero: Any) -> np.ndarray:
    return (x.astype(float) - (0 if zero is None else zero.astype(float))) * scale


def quantize_linear(op: Any, x: Any, scale: Any, zero: Any) -> np.ndarray:
    return quantize(x, scale, zero, op.output_tensor.data_type)


def dynamic(op: Any, x: np.ndarray) -> list[np.ndarray]:
    to, ones = op.output_tensor.data_type, [1] * x.ndim
    low, high = limits(to)
    least, most = min(x.min(), 0), max(x.max(), 0)
    scale = np.reshape((most - least) / (high - low) or 1.0, ones)
    zero = integers(np.round(low - least / scale), to)
    # The quotient of FLOAT32, which alone decides halves.
    return [quantize(np.float32(x), np.float32(scale), zero, to), scale, zero]


def add(op: Any, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, s: Any, z: Any) -> np.ndarray:
    total = dequantize(a, sa, za) + dequantize(b, sb, zb)
    return quantize(total, s, z, op.output_tensor.data_type)


def draw_add(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    shape, drawn = sizes(rng), {}
    for name, type_ in types.items():
        one = [1] * len(shape)
        is_whole = name in ("a_tensor", "b_tensor")
        if name != "output_tensor" and ("zero" not in name or rng.integers(2)):
            drawn[name] = TensorDesc(type_, shape if is_whole else one)
    return drawn


def spread(tensor: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return each parameter once for every element of its block."""
    places = [np.arange(n) * q // n for n, q in zip(shape, tensor.shape, strict=True)]
    return tensor[np.ix_(*places)]


def quantize_blocks(op: Any, x: np.ndarray, scale: Any, *zero: Any) -> np.ndarray:
    zeros = [spread(z, x.shape) for z in zero] or [None]
    return quantize(x, spread(scale, x.shape), zeros[0], op.output_tensor.data_type)


def dequantize_blocks(op: Any, x: np.ndarray, scale: Any, *zero: Any) -> np.ndarray:
    zeros = [spread(z, x.shape) for z in zero] or [None]
    return dequantize(x, spread(scale, x.shape), zeros[0])


def draw_blocks(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    counts = sizes(rng, elements=30)
    shape = [q * int(rng.integers(1, 4)) for q in counts]
    few = [q if rng.integers(2) else 1 for q in counts]
    ends = [types["input_tensor"], types["output_tensor"]]  # whose types the parameters have
    real = ends if op_class.short_name == "QUANTIZE" else ends[::-1]
    shapes = [counts, few][: rng.integers(1, 3)]
    return {
        **tensors(types, input_tensor=shape, output_tensor=shape),
        "quantization_type": "SCALE" if len(shapes) == 1 else "SCALE_ZERO_POINT",
        "quantization_tensors": [TensorDesc(t, s) for t, s in zip(real, shapes, strict=False)],
    }


def are_real_and_whole(types: Types) -> bool:
    """Return whether the quantization tensors' type is the scale's."""
    real = [t for n, t in types.items() if n != "quantization_tensors" and t.startswith("FLOAT")]
    return types["quantization_tensors"] == real[0]


def has_a_scale(types: Types) -> bool:
    """Return whether an input of INT32 has a scale of FLOAT32, and another one its own type."""
    given = types["input_tensor"]
    return types["scale_tensor"] == ("FLOAT32" if given == "INT32" else given)


SCALES = {"": (-4.0, 4.0), "scale_tensor": (0.25, 4), "quantization_tensors": (0.25, 1)}


def of_blocks(reference: Any) -> Record:
    given = {"quantization_type": "SCALE"}
    return Record(reference, draw_blocks, given, SCALES, types=are_real_and_whole, unbroken=LENGTHS)


RECORDS = {
    "CAST": Record(cast, values={"": (-40, 40)}),
    "ELEMENT_WISE_QUANTIZE_LINEAR": Record(
        quantize_linear, values=SCALES, types=has_a_scale, special=False
    ),
    "ELEMENT_WISE_DEQUANTIZE_LINEAR": Record(
        lambda op, x, scale, zero: dequantize(x, scale, zero), values=SCALES
    ),
    "DYNAMIC_QUANTIZE_LINEAR": Record(dynamic, special=False, batch="one scale is of all elements"),
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": Record(
        add,
        draw_add,
        values={"": (0.25, 4), "a_tensor": (-20, 20), "b_tensor": (-20, 20)},
        batch=(dict.fromkeys(("a_tensor", "b_tensor", "output_tensor"), 0),),
    ),
    "QUANTIZE": of_blocks(quantize_blocks),
    "DEQUANTIZE": of_blocks(dequantize_blocks),
}
