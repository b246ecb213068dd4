"""MAX, MIN, ARGMAX and ARGMIN give one answer: at every length, on every backend, sharded or not.

NaN stands at every position, ties at every pair of positions, at each length around the widths of
vector registers and at some of thousands. What is expected follows from where they were put.
"""

import functools
from typing import NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from nightly import sample
from several_devices import SEVERAL

from dml_jax import Argmax, Argmin, Operator, Reduce, TensorDesc

LONG = [1023, 4103]
# What stands at the two positions, above all else in the row: NaN of both signs, zero of both,
# infinity, a number.
TOPS = [(np.nan, -np.nan), (-0.0, 0.0), (np.inf, np.inf), (1.0, 1.0)]


class Rows(NamedTuple):
    """Rows whose largest element is known.

    Attributes:
        values: [rows, length].
        first, last: [rows], the first and the last position of the largest element.
        top: [rows], the largest element.
    """

    values: np.ndarray
    first: np.ndarray
    last: np.ndarray
    top: np.ndarray


@functools.cache
def rows_of(length: int, dtype: str, multiple: int = 1) -> Rows:
    """A row for each pair of positions and each top, and one that is all -inf.

    Long rows have NaN at each position, and at each position a tie with another one, the tops and
    the distances taking turns. Rows are repeated up to a multiple.
    """
    if length < 40:
        pairs = [(i, j) for i in range(length) for j in range(i, length)]
        cases = [(i, j, top) for i, j in pairs for top in TOPS]
    else:
        apart = [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 32, 63, 64, 65, 128, 256, 511, 512, length - 1]
        cases = [(i, i, TOPS[0]) for i in range(length)]
        for i in range(length):
            low, high = sorted([i, (i + apart[i % len(apart)]) % length])
            cases.append((low, high, TOPS[i % len(TOPS)]))
    cases.append((0, length - 1, (-np.inf, -np.inf)))
    cases += cases[: -len(cases) % multiple]
    rng = np.random.default_rng(length)
    values = rng.choice(np.array([-3, -2, -1, -np.inf], dtype), (len(cases), length))
    for row, (i, j, (a, b)) in zip(values, cases, strict=True):
        if np.isnan(a):
            row[row == -1] = np.inf  # which NaN goes before, too
        elif a < -1:
            row[:] = a
        row[j], row[i] = b, a
    first, last = (np.array([case[k] for case in cases]) for k in (0, 1))
    return Rows(values, first, last, np.array([case[2][0] for case in cases], dtype))


def operators(tensor: TensorDesc, axis: int) -> dict[str, Operator]:
    """All that look for the largest, or the smallest, by name."""
    sizes = [1 if d == axis else size for d, size in enumerate(tensor.sizes)]
    same, index = TensorDesc(tensor.data_type, sizes), TensorDesc("UINT32", sizes)
    shared = {"input_tensor": tensor, "axes": [axis]}
    found: dict[str, Operator] = {}
    for function in ("MAX", "MIN", "ARGMAX", "ARGMIN"):
        output = same if function in ("MAX", "MIN") else index
        found[f"REDUCE {function}"] = Reduce(function=function, output_tensor=output, **shared)
    for op in (Argmax, Argmin):
        for direction in ("INCREASING", "DECREASING"):
            name = f"{op.__name__.upper()} {direction}"
            found[name] = op(output_tensor=index, axis_direction=direction, **shared)
    return found


@functools.partial(jax.jit, static_argnums=2)
def answers(largest: jax.Array, smallest: jax.Array, axis: int | None) -> dict[str, jax.Array]:
    """What the operators say of the rows, and of the rows negated; None is each row by itself."""
    if axis is None:
        return jax.lax.map(lambda rows: answers(*rows, 0), (largest, smallest))
    ops = operators(TensorDesc.of(largest), axis)
    return {name: op(smallest if "MIN" in name else largest) for name, op in ops.items()}


def check(rows: Rows, axis: int | None, place: NamedSharding | None = None) -> None:
    """Reduces the rows over the last axis (1), transposed over the first (0), or one at a time."""
    values = np.ascontiguousarray(rows.values.T) if axis == 0 else rows.values
    arrays = [jax.device_put(x, place) for x in (values, -values)]
    for name, result in answers(*arrays, axis).items():
        if name in ("REDUCE MAX", "REDUCE MIN"):
            expected = rows.top if name == "REDUCE MAX" else -rows.top
        else:
            expected = rows.last if "DECREASING" in name else rows.first
        found = np.asarray(result).ravel()
        np.testing.assert_array_equal(found, expected, err_msg=name)
        if name == "REDUCE MAX":  # -0.0 alone stays
            is_alone = (rows.first == rows.last) & (rows.top == 0)
            assert np.signbit(found[is_alone]).all()


@pytest.mark.parametrize("length", sample([1, 2, 3, 7, 8, 9, 15, 16, 17, 33, *LONG], 1))
def test_on_one_device(length: int):
    for axis in (1, 0, None):
        check(rows_of(length, "float32"), axis)


@pytest.mark.parametrize("length", sample([1, 3, 8, 16, 17, 33, *LONG]))
def test_float16_on_one_device(length: int):
    for axis in (1, 0):
        check(rows_of(length, "float16"), axis)


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(np.array(SEVERAL[:8]), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


def _lengths(*lengths: int) -> list[tuple[int, str]]:
    """Return lengths and types: each length with one of the types, nightly with both."""
    return [
        (length, dtype)
        for turn, length in enumerate(lengths)
        for dtype in sample(["float32", "float16"], turn)
    ]


@pytest.mark.parametrize(("length", "dtype"), _lengths(8, 24, 1000, 4104))
def test_sharded_over_what_is_reduced(length: int, dtype: str, mesh: Mesh):
    rows = rows_of(length, dtype)
    check(rows, 1, NamedSharding(mesh, P(None, "d")))
    check(rows, 0, NamedSharding(mesh, P("d", None)))


@pytest.mark.parametrize(("length", "dtype"), _lengths(1, 17, 1023))
def test_sharded_over_what_is_kept(length: int, dtype: str, mesh: Mesh):
    rows = rows_of(length, dtype, mesh.size)
    check(rows, 1, NamedSharding(mesh, P("d", None)))
    check(rows, 0, NamedSharding(mesh, P(None, "d")))
