"""Sums of products in many dimensions, some of one element, in a process of its own.

XLA's CPU in jaxlib 0.10 ends the process, or computes wrong elements, where six axes are kept.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx import checker, parser

import dml_jax

SHAPES = [  # and the axis that is reduced
    ((3, 1, 2, 2, 8, 8, 8), 3),
    ((3, 1, 2, 2, 8, 8, 8), 2),
    ((2, 8, 3, 8, 8, 2, 1), 0),
    ((1, 1, 8, 8, 8, 1, 2, 8), 6),
    ((3, 3, 8, 8, 2, 1, 3, 8), 4),
    ((2, 1, 8, 1, 8, 2, 2, 8), 0),
]


def arrays(shape: tuple[int, ...], dtype: Any = np.float32) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    while True:
        yield rng.integers(-4, 5, shape).astype(dtype)


def exact(made: Any, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(np.asarray(made), expected)


def reductions(shape: tuple[int, ...], axis: int) -> None:
    for dtype, function in ((np.float32, "SUM"), (np.float16, "AVERAGE")):
        a, b = itertools.islice(arrays(shape, dtype), 2)
        total = (a.astype(np.float64) * b).sum(axis, keepdims=True)
        expected = total if function == "SUM" else total / shape[axis]
        program = lambda a, b: dml_jax.reduce(dml_jax.multiply(a, b), function, [axis])  # noqa: B023, E731
        exact(jax.jit(program)(a, b), expected)
        builder = dml_jax.GraphBuilder()
        tensor = dml_jax.TensorDesc(a.dtype.name.upper(), shape)
        graph = builder.build([program(*(builder.input_tensor(n, tensor) for n in "ab"))])
        exact(graph(a, b), expected)


def gradients(shape: tuple[int, ...], axis: int) -> None:
    """A broadcast's gradient is a sum; that of a softmax and of a normalization have some."""
    a, b, c = itertools.islice(arrays(shape), 3)
    small = a.take([0], axis)
    scaled = lambda v, a: dml_jax.multiply(dml_jax.multiply(a, v), c)  # noqa: E731
    exact(
        jax.jit(lambda v, a, b: jax.vjp(scaled, v, a)[1](b)[0])(small, a, b),
        (a.astype(np.float64) * b * c).sum(axis, keepdims=True),
    )

    def softmax(x: Any) -> Any:
        return dml_jax.activation_softmax(x, [axis])

    def normalized(x: Any) -> Any:
        return dml_jax.mean_variance_normalization(x, None, None, [axis], True, True, 0.25)

    e = np.exp(a.astype(np.float64))
    y = e / e.sum(axis, keepdims=True)
    expected = y * (b - (y * b).sum(axis, keepdims=True))
    np.testing.assert_allclose(pulled(softmax, a, b), expected, atol=1e-5)
    centred = a - a.astype(np.float64).mean(axis, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(axis, keepdims=True) + 0.25)
    along = (b * centred).mean(axis, keepdims=True) * inverse**2
    expected = inverse * (b - b.mean(axis, keepdims=True) - centred * along)
    np.testing.assert_allclose(pulled(normalized, a, b), expected, atol=1e-5)


def pulled(function: Any, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    return np.asarray(jax.jit(lambda x, dy: jax.vjp(function, x)[1](dy)[0])(jnp.asarray(x), dy))


def network(shape: tuple[int, ...], axis: int) -> None:
    a, b = itertools.islice(arrays(shape), 2)
    reduced = [1 if d == axis else n for d, n in enumerate(shape)]
    text = f"""<ir_version: 8, opset_import: ["": 17]>
    sum (float{[*shape]} a, float{[*shape]} b) => (float{reduced} y) <int64[1] axes = {{{axis}}}>
    {{ c = Mul (a, b)  y = ReduceSum (c, axes) }}"""
    model = parser.parse_model(text)
    checker.check_model(model)
    exact(dml_jax.load_onnx(model)(a, b)["y"], (a * b).sum(axis, keepdims=True))


for shape, axis in SHAPES:
    reductions(shape, axis)
for shape, axis in SHAPES[::5]:
    gradients(shape, axis)
network(*SHAPES[0])
