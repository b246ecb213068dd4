"""Records of the operators that make tensors from numbers."""

import math
from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types, random_array, sizes, tensors, type_of
from records.arithmetic import wrapped


def number(rng: Rng, type_: str) -> float | int:
    """Return a number of a type, at times an end of it."""
    tensor = TensorDesc(type_, [1])
    return random_array(rng, tensor, (-4, 4), special=True).item()


def draw_filling(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    type_ = types["output_tensor"]
    names = ("value", "value_start", "value_delta")
    drawn = {name: number(rng, type_) for name in names}
    return tensors(types, output_tensor=sizes(rng)) | {"value_data_type": type_, **drawn}


def sequence(op: Any) -> np.ndarray:
    tensor = op.output_tensor
    start, delta, count = op.value_start, op.value_delta, math.prod(tensor.sizes)
    if tensor.dtype.kind == "f":
        return (start + np.arange(count) * delta).reshape(tensor.sizes)
    values = [int(start) + k * int(delta) for k in range(count)]
    return wrapped(values, np.empty(tensor.sizes, tensor.dtype))


def _diagonal(rng: Rng) -> int:
    return int(rng.choice([*range(-4, 5), -(2**31), 2**31 - 1]))


def draw_diagonal(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    type_ = types["output_tensor"]
    value = float(rng.choice([1, 10.75, -2.5, 70000, -np.inf, 3e38]))
    shape = sizes(rng, 2, 4)
    return {"output_tensor": TensorDesc(type_, shape), "offset": _diagonal(rng), "value": value}


def diagonal_matrix(op: Any) -> np.ndarray:
    tensor, value = op.output_tensor, op.value
    if tensor.dtype.kind in "iu":
        limits = np.iinfo(tensor.dtype)
        within = max(int(limits.min), min(int(limits.max), value))
        value = np.array(int(within), tensor.dtype)
    distance = np.arange(tensor.sizes[-1]) - np.arange(tensor.sizes[-2])[:, None]
    return np.broadcast_to(np.where(distance == op.offset, value, 0 * value), tensor.sizes)


def draw_band(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    type_ = types["output_tensor"]
    tensor = TensorDesc(type_, sizes(rng, 2, 4))
    return {
        "input_tensor": tensor if rng.random() < 0.7 else None,
        "output_tensor": tensor,
        "value_data_type": type_,
        "value": number(rng, type_),
        "diagonal_fill_begin": _diagonal(rng),
        "diagonal_fill_end": _diagonal(rng),
    }


def diagonal_matrix1(op: Any, x: np.ndarray | None) -> np.ndarray:
    """Write an element at a time, by the two cases of the page."""
    tensor, begin, end = op.output_tensor, op.diagonal_fill_begin, op.diagonal_fill_end
    out = np.zeros(tensor.sizes, tensor.dtype if x is None else x.dtype) if x is None else x.copy()
    for row, column in np.ndindex(*tensor.sizes[-2:]):
        distance = column - row
        is_within = begin <= distance < end
        if is_within if begin <= end else distance < end or distance >= begin:
            out[..., row, column] = op.value
    return out


def draw_random(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    state = TensorDesc("UINT32", [1] * int(rng.integers(8)) + [6])
    return {
        "input_state_tensor": state,
        "output_tensor": TensorDesc("UINT32", sizes(rng)),
        "output_state_tensor": state if rng.random() < 0.7 else None,
        "type": "PHILOX_4X32_10",
    }


def smallest_state(rank: int, types: Types) -> list[int]:
    return [1] * (rank - 1) + [6]


def philox(counter: int, key: list[int]) -> list[int]:
    """Return the four words of Philox4x32-10, by Python's integers."""
    c = [counter >> 32 * k & 0xFFFFFFFF for k in range(4)]
    for step in range(10):
        k0, k1 = (key[0] + step * 0x9E3779B9) % 2**32, (key[1] + step * 0xBB67AE85) % 2**32
        one, other = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [other >> 32 ^ c[1] ^ k0, other % 2**32, one >> 32 ^ c[3] ^ k1, one % 2**32]
    return c


def random_generator(op: Any, state: np.ndarray) -> list[np.ndarray]:
    words = state.ravel().tolist()
    counter, key = sum(w << 32 * k for k, w in enumerate(words[:4])), words[4:]
    shape = op.output_tensor.sizes
    groups = -(-math.prod(shape) // 4)
    made = [w for i in range(groups) for w in philox((counter + i) % 2**128, key)]
    after = (counter + groups) % 2**128
    next_ = [after >> 32 * k & 0xFFFFFFFF for k in range(4)] + key
    return [
        np.array(made[: math.prod(shape)], np.uint32).reshape(shape),
        np.array(next_, np.uint32).reshape(state.shape),
    ]


NO_INPUT = "no tensor is read"
TYPE = {"value_data_type": type_of("output_tensor")}

RECORDS = {
    "FILL_VALUE_CONSTANT": Record(
        lambda op: np.full(op.output_tensor.sizes, op.value), draw_filling, TYPE, batch=NO_INPUT
    ),
    "FILL_VALUE_SEQUENCE": Record(sequence, draw_filling, TYPE, ulp=0, batch=NO_INPUT),
    "DIAGONAL_MATRIX": Record(
        diagonal_matrix, draw_diagonal, attributes={"offset": 0}, batch=NO_INPUT
    ),
    "DIAGONAL_MATRIX1": Record(diagonal_matrix1, draw_band, TYPE | {"diagonal_fill_begin": 0}),
    # There is one type of generator; the state draws all bits.
    "RANDOM_GENERATOR": Record(
        random_generator,
        draw_random,
        dict.fromkeys(("input_state_tensor", "output_state_tensor"), smallest_state),
        values={"": (0, 2**32 / 5)},
        unbroken=("one_of",),
        batch="one counter numbers all elements",
    ),
}
