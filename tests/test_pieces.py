"""Forms for whole programs that move elements as rows and words."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dml_jax.lowering import pieces

# Shapes of inputs, and the axis that they are joined along.
JOINED = [
    ([(2, 3, 4), (2, 3, 8), (2, 3, 4)], 2),
    ([(2, 4, 3), (2, 8, 3)], 1),
    ([(1, 8, 5), (3, 8, 5), (4, 8, 5)], 0),
    ([(3, 3), (3, 4)], 1),
    ([(7,), (5,)], 0),
    ([(1, 3, 7, 2), (1, 4, 7, 2)], 1),
    ([(4, 4)], 0),
    ([(2, k, 4) for k in (4, 1, 3, 2, 1, 5)], 1),
]
TYPES = ["uint8", "float16", "float32", "float64"]


def numbers(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[np.ndarray]:
    """All bits that there are, NaN and denormals too."""
    rng = np.random.default_rng(7)
    return [
        np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(
            shape
        )
        for shape in shapes
    ]


def bits(x: np.ndarray | jax.Array) -> np.ndarray:
    return np.asarray(x).view(f"uint{8 * x.dtype.itemsize}")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shapes", "axis"), JOINED)
@pytest.mark.parametrize(("even", "long", "run"), [(1, 10, 32), (4, 1, 32), (1, 10, 1)])
def test_joined(monkeypatch, shapes, axis: int, dtype: str, even: int, long: int, run: int):
    for name, value in {"LITTLE_ON_GPU": 0, "EVEN": even, "LONG": long, "RUN": run}.items():
        monkeypatch.setattr(pieces, name, value)
    arrays = numbers(shapes, dtype)
    with jax.enable_x64(True):
        for form in (pieces.join, pieces.join_rows):
            joined = jax.jit(form, static_argnums=1)([jnp.asarray(a) for a in arrays], axis)
            np.testing.assert_array_equal(bits(joined), bits(np.concatenate(arrays, axis)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shapes", "axis"), JOINED)
def test_split(monkeypatch, shapes, axis: int, dtype: str):
    monkeypatch.setattr(pieces, "LITTLE_ON_GPU", 0)
    arrays = numbers(shapes, dtype)
    sizes = tuple(a.shape[axis] for a in arrays)
    with jax.enable_x64(True):
        whole = jnp.asarray(np.concatenate(arrays, axis))
        split = jax.jit(pieces.split, static_argnums=(1, 2))(whole, sizes, axis)
    for piece, array in zip(split, arrays, strict=True):
        np.testing.assert_array_equal(bits(piece), bits(array))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1, 64, 65, 193, 1000])
def test_parts_of_what_several_copies_give(dtype: str, size: int):
    (x,) = numbers([(size,)], dtype)
    with jax.enable_x64(True):
        form = jax.jit(lambda x: pieces.in_quarters(lambda x: [x, x[::-1]], x))
        for result, expected in zip(form(jnp.asarray(x)), (x, x[::-1]), strict=True):
            np.testing.assert_array_equal(bits(result), bits(expected.copy()))


def test_narrow_elements_are_joined_as_words(monkeypatch):
    monkeypatch.setattr(pieces, "LITTLE_ON_GPU", 0)
    x = jnp.zeros((8, 4, 16), jnp.uint8)
    for count, way in ((2, "pad"), (20, "concatenate")):
        text = jax.jit(lambda x, n=count: pieces.join([x] * n, 1)).lower(x).as_text()
        assert "ui32" in text
        assert {name for name in ("pad", "concatenate") if f"stablehlo.{name}" in text} == {way}
