"""Forms for whole programs that move elements as rows and words."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import by_many_cores
from jax import lax

import dml_jax
from dml_jax import Split, TensorDesc
from dml_jax.lowering import arrangement, loops_cpu, threads_gpu
from dml_jax.lowering.whole_programs import (
    blocks_cpu,
    pieces_cpu,
    pieces_gpu,
    places_cpu,
    whole_program,
)

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
    ([(6, k, 3) for k in (2, 1, 3, 1, 2)], 1),
    ([(5, 2), (5, 1)], 1),
    ([(4, k + 1) for k in range(12)], 1),
    ([(9, 4)] * 11, 1),
    ([(5, 3)] * 3, 1),
]
TYPES = ["uint8", "float16", "float32", "float64"]


@pytest.fixture(autouse=True)
def unwritten(monkeypatch):
    """What nobody writes is seen: on a CPU it would be 0."""
    monkeypatch.setattr(lax, "empty", lambda shape, dtype: jnp.full(shape, 77, dtype))


def numbers(shapes: Sequence[tuple[int, ...]], dtype: str) -> list[np.ndarray]:
    """Any bits; the first are -0.0, a denormal, and a NaN that arithmetic would make quiet."""
    rng, bits = np.random.default_rng(7), f"uint{8 * np.dtype(dtype).itemsize}"
    first = {"uint16": 0x7C01, "uint32": 0x7F800001, "uint64": 0x7FF0000000000001}.get(bits, 2)
    arrays = [np.frombuffer(rng.bytes(64 * math.prod(shape)), bits) for shape in shapes]
    arrays = [a[: math.prod(shape)].copy() for a, shape in zip(arrays, shapes, strict=True)]
    for array in arrays:
        array[:3] = [1 << (8 * array.itemsize - 1), 1, first][: array.size]
    return [a.view(dtype).reshape(shape) for a, shape in zip(arrays, shapes, strict=True)]


def bits(x: np.ndarray | jax.Array) -> np.ndarray:
    return np.asarray(x).view(f"uint{8 * x.dtype.itemsize}")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shapes", "axis"), JOINED)
@pytest.mark.parametrize(
    ("even", "run", "much"), [(1, 32, 2**24), (4, 32, 2**24), (4, 32, 0), (1, 1, 0)]
)
def test_joined(monkeypatch, shapes, axis: int, dtype: str, even: int, run: int, much: int):
    monkeypatch.setattr(loops_cpu, "LONG", 10 if even == 1 else 1)
    for name, value in {"LITTLE": 0, "EVEN": even, "SOME_ROWS": 3}.items():
        monkeypatch.setattr(threads_gpu, name, value)
    sizes = {"RUN": run, "IN_PLACE_FROM": much, "EVEN": even, "LONG_ROW": 9, "SHORT_ROW": 4}
    for name, value in sizes.items():
        monkeypatch.setattr(pieces_gpu, name, value)
    arrays = numbers(shapes, dtype)
    with jax.enable_x64(True):
        forms = (pieces_gpu.join, pieces_gpu.join_computed, pieces_cpu.join)
        all_joined = jax.jit(lambda *xs: [form(xs, axis) for form in forms])(*arrays)
        for joined in all_joined:
            np.testing.assert_array_equal(bits(joined), bits(np.concatenate(arrays, axis)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shapes", "axis"), JOINED)
@pytest.mark.parametrize(
    ("join", "least"),
    [(blocks_cpu.join_blocks, 40), (places_cpu.join_computed, 40), (places_cpu.join_computed, 2)],
)
def test_joined_by_a_loop(
    monkeypatch, join: Callable[..., Any], least: int, shapes, axis: int, dtype: str
):
    """Over blocks, or over the places of a row, or of its blocks of so many elements and more."""
    monkeypatch.setattr(places_cpu, "VECTORISED", least)
    arrays = numbers(shapes, dtype)
    with jax.enable_x64(True):
        joined = jax.jit(join, static_argnums=1)([jnp.asarray(a) for a in arrays], axis)
        np.testing.assert_array_equal(bits(joined), bits(np.concatenate(arrays, axis)))


@pytest.mark.parametrize(
    ("shapes", "dtype", "axis", "gains"),
    [
        ([(2**12, 85), (2**12, 86)], "float32", 1, [True, False, True]),
        ([(2**12, 85), (2**12, 31)], "float32", 1, [True, True, True]),
        ([(2**12, 85)] * 8 + [(2**12, 86)], "float32", 1, [False] * 3),
        ([(2**8, 85), (2**8, 31)], "float32", 1, [False] * 3),  # little
        ([(2**14, 128)] * 4, "float32", 1, [False] * 3),  # few blocks
        ([(2**14, 1280), (2**14, 128)], "float16", 1, [True, False, True]),
        ([(2**14, 1280)] + [(2**14, 128)] * 3, "uint8", 1, [True, False, True]),
        ([(2**14, 1280)] + [(2**14, 128)] * 4, "uint8", 1, [False] * 3),
        ([(2**16, 28)] * 2, "float32", 1, [True, True, True]),
        ([(2**16, 14), (2**16, 42)], "uint8", 1, [True, True, True]),
        ([(2**16, 32)] * 5, "float16", 1, [True, True, True]),
        ([(2**16, 32)] * 6, "float16", 1, [False] * 3),
        ([(2**14, 32), (2**14, 224)], "float16", 1, [False] * 3),
        ([(2, 10000), (2, 6000)], "float32", 1, [False] * 3),
        ([(4, 10000), (4, 6000)], "float32", 1, [True, False, True]),
        ([(3, 10000), (3, 6001)], "float32", 1, [True, False, False]),  # 16 cores cannot share it
        ([(4, 10000), (4, 7000)], "float32", 1, [True, False, False]),  # as 16 cannot
        ([(2**16,), (2**16,)], "float32", 0, [False] * 3),
        ([(4, 10000), (4, 7001)], "float32", 1, [False, False, False]),
        ([(32, 10000), (32, 7001)], "float32", 1, [False, False, True]),
        ([(32, 10000), (32, 7001)], "uint8", 1, [False] * 3),
        ([(999, 85, 2, 9), (999, 86, 2, 9)], "float16", 1, [True, False, True]),
        ([(999, 12, 9), (999, 9, 9)], "uint8", 1, [True, False, True]),
        ([(999, 50, 9), (999, 9, 9)], "uint8", 1, [False] * 3),
        ([(9999, 5), (9999, 7)], "uint8", 1, [True, True, True]),
        ([(9999, 5), (9999, 6)], "float16", 1, [False] * 3),
        ([(99999, 1), (99999, 2)], "float32", 1, [True, True, True]),
        ([(99999, 12)], "float32", 1, [False] * 3),
    ],
)
def test_what_is_joined_by_a_loop_over_places(
    monkeypatch, shapes, dtype: str, axis: int, gains: Sequence[bool]
):
    """What is computed, what is given, and that on many cores."""
    types = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    monkeypatch.setattr(loops_cpu, "CORES", 2)
    computed, given = (f(types, axis) for f in (places_cpu.gains_computed, places_cpu.gains_given))
    monkeypatch.setattr(loops_cpu, "CORES", 16)
    assert [computed, given, places_cpu.gains_given(types, axis)] == gains


@pytest.mark.parametrize(
    ("shapes", "dtype", "axis", "gains"),
    [
        ([(2**14, 128)] * 2, "float16", 1, True),
        ([(2**13, 128)] * 2, "float32", 1, True),
        ([(2**12, 128)] * 2, "float32", 1, False),
        ([(2**14, 128), (2**14, 127)], "float16", 1, False),
        ([(2**14, 128), (2**14, 64)], "float16", 1, True),
        ([(2**13, 256), (2**13, 32)], "float16", 1, False),
        ([(2**13, 192), (2**13, 64)], "float16", 1, True),
        ([(2**17, 33)] * 2, "float16", 1, False),
        ([(2**17, 33)] * 2, "float32", 1, True),
        ([(2**17, 33)] * 4, "float16", 1, False),
        ([(2**17, 33)] * 5, "float16", 1, True),
        ([(2**18, 8)] * 4, "float32", 1, False),
        ([(2**16, 64)] * 8, "uint8", 1, True),
        ([(2**16, 64)] * 9, "uint8", 1, False),
        ([(2**16, 64)] * 2, "uint8", 0, True),
        ([(2**6, 2**9, 64)] * 2, "uint8", 1, True),
    ],
)
def test_what_is_joined_by_a_loop_over_blocks(shapes, dtype: str, axis: int, gains: bool):
    types = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    assert blocks_cpu.are_few_blocks(types, axis) == gains


@pytest.mark.parametrize(
    ("shapes", "axis", "gains"),
    [
        ([(2**14, 128)] * 2, 1, True),  # few blocks
        ([(2**20,)] * 8, 0, True),
        ([(2**20,), (2**21,)], 0, True),
        ([(2**20,), (2**15,)], 0, False),
        ([(2**20,), (2**20 + 1,)], 0, False),  # which cores cannot share
        ([(2**18,)] * 9, 0, False),
        ([(2**18,)] * 7, 0, False),  # which stay in a cache
        ([(8, 32, 128, 256)] * 2, 1, True),
        ([(8, 32, 128, 256), (8, 9, 128, 256)], 1, True),
        ([(8, 2**14, 9), (8, 2**15, 9)], 1, True),
        ([(2**10, 2**9, 9), (2**10, 2**8, 9)], 1, False),
    ],
)
def test_what_a_cpu_maps_before_it_is_joined(monkeypatch, shapes, axis: int, gains: bool):
    monkeypatch.setattr(loops_cpu, "CORES", 2)
    types = [jax.ShapeDtypeStruct(shape, np.float16) for shape in shapes]
    assert pieces_cpu.gains_computed(types, axis) == gains


@pytest.fixture
def any_size(monkeypatch):
    """Small arrays have the forms of large ones."""
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    monkeypatch.setattr(pieces_gpu, "IN_PLACE_FROM", 0)


def ways(function: Callable[..., Any], *xs: jax.ShapeDtypeStruct, pieces: int = 2) -> str:
    """How a GPU's form writes: in place, by so many kernels; in quarters (of copies); once."""
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*xs).as_text()
    written = text.count("dynamic_update_slice")
    if written:
        return f"in place {written}"
    if "optimization_barrier" in text:
        return "quarters of copies"
    return "quarters" if text.count("stablehlo.concatenate") >= pieces else "once"


@pytest.mark.parametrize(
    ("shapes", "dtype", "axis", "way"),
    [
        ([(8, 3, 5)] * 2, "float32", 1, "quarters"),
        ([(5, 3, 5)] * 2, "float32", 1, "in place 2"),
        ([(5, 3, 2**10 + 1)] * 2, "float32", 1, "in place 4"),
        ([(1201, 3, 5)] * 2, "float16", 1, "quarters"),
        ([(4, 3, 5)] * 3, "float32", 1, "once"),
        ([(4, 3, 5)] * 3, "uint8", 1, "in place 2"),
        ([(1028, 3, 5)] * 3, "uint8", 1, "quarters"),
        ([(5, 3, 2**10 + 1)] * 3, "uint8", 1, "in place 6"),
        ([(5, 3, 2**10 + 1)] * 2 + [(5, 1, 2**10 + 1)], "uint8", 1, "in place 2"),
        ([(3, 3, 5)] * 3, "uint8", 1, "once"),
        ([(4, 3, 5)] * 4, "float16", 1, "once"),
        ([(4, 3, 5)] * 4, "uint8", 1, "quarters"),
        ([(4, 3, 5)] * 5, "float16", 1, "in place 10"),
        ([(1200, 3, 5)] * 6, "float16", 1, "quarters"),
        ([(4, 3, 5)] * 5, "float64", 1, "once"),
        ([(4, 4, 5)] * 10, "float32", 1, "once"),
        ([(4, 4, 5)] * 11, "float32", 1, "quarters"),
        ([(4, 4, 8)] * 10, "float16", 2, "once"),
        ([(4, 4, 8)] * 11, "float16", 2, "quarters"),
        ([(3, 3, 5)] * 5, "float16", 0, "quarters of copies"),
        # Short rows, of which each input is not written by itself.
        ([(5, 3)] * 3, "uint8", 1, "in place 2"),
        ([(5, 3)] * 4, "uint8", 1, "quarters"),
        ([(5, 3)] * 5, "uint8", 1, "quarters"),
    ],
)
@pytest.mark.usefixtures("any_size")
def test_how_what_is_not_aligned_is_joined(monkeypatch, shapes, dtype, axis: int, way: str):
    monkeypatch.setattr(pieces_gpu, "SHORT_ROW", 5)
    xs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    assert ways(lambda *xs: pieces_gpu.join_computed(xs, axis), *xs) == way


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shapes", "axis"), JOINED)
@pytest.mark.parametrize(("much", "even"), [(2**24, 4), (0, 1)])
def test_split(monkeypatch, shapes, axis: int, dtype: str, much: int, even: int):
    monkeypatch.setattr(pieces_gpu, "IN_PLACE_FROM", much)
    for name, value in {"LITTLE": 0, "EVEN": even, "SOME_ROWS": 3}.items():
        monkeypatch.setattr(threads_gpu, name, value)
    arrays = numbers(shapes, dtype)
    sizes = tuple(a.shape[axis] for a in arrays)
    with jax.enable_x64(True):
        forms = (pieces_gpu.split, pieces_gpu.split_computed)
        both = jax.jit(lambda x: [form(x, sizes, axis) for form in forms])
        for split in both(np.concatenate(arrays, axis)):
            for piece, array in zip(split, arrays, strict=True):
                np.testing.assert_array_equal(bits(piece), bits(array))


@pytest.mark.parametrize(
    ("rows", "sizes", "dtype", "way"),
    [
        (5, (5, 6), "float32", "in place 4"),
        (5, (1, 2), "float32", "in place 2"),
        (3, (1, 2), "float32", "quarters of copies"),
        (5, (3, 3), "uint8", "quarters of copies"),
        (5, (3, 3, 3), "uint8", "once"),  # of one shape: one kernel
        (5, (5, 5, 8), "float16", "in place 4"),  # the last is even
        (8, (5, 5, 8), "float16", "quarters of copies"),
        (5, (4, 8), "float32", "once"),
        (65, (5, 6), "float64", "in place 4"),
    ],
)
@pytest.mark.usefixtures("any_size")
def test_how_what_is_not_aligned_is_split(rows: int, sizes, dtype: str, way: str):
    x = jax.ShapeDtypeStruct((rows, sum(sizes)), dtype)
    assert ways(lambda x: pieces_gpu.split(x, sizes, 1), x) == way


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "way"),
    [
        ((8, 2, 5), 1, "uint8", "quarters of copies"),
        ((8, 5, 2), 2, "uint8", "once"),  # a number of elements that is a multiple of four
        ((9, 5, 2), 2, "uint8", "quarters of copies"),
        ((8, 5, 2), 2, "float32", "in place 2"),
        ((8, 5, 8), 2, "uint8", "once"),
    ],
)
@pytest.mark.usefixtures("any_size")
def test_how_what_is_computed_is_split(shape, axis: int, dtype: str, way: str):
    x, half = jax.ShapeDtypeStruct(shape, dtype), shape[axis] // 2
    assert ways(lambda x: pieces_gpu.split_computed(x, [half, half], axis), x) == way


@pytest.mark.parametrize(
    ("size", "ways_of"),
    [
        (2**24, {"uint8": "quarters", "float16": "quarters", "float32": "once", "int64": "once"}),
        (2**23 + 1, {"uint8": "in place 2", "float16": "in place 2", "float32": "in place 2"}),
        (2**23 + 2, {"uint8": "quarters", "float16": "quarters", "float32": "in place 2"}),
        (2**23 + 3, {"int64": "quarters"}),
        (2**23 - 1, {"uint8": "quarters", "float32": "quarters"}),
        (2**20 - 1, {"uint8": "once", "float32": "once"}),
        # From there on a 32-bit integer would not say where the last elements begin.
        (2**31 - 1, {"uint8": "in place 2"}),
        (2**31 + 1, {"uint8": "quarters", "float32": "quarters"}),
    ],
)
def test_how_elements_are_mapped(size: int, ways_of: dict[str, str]):
    for dtype, way in ways_of.items():
        x = jax.ShapeDtypeStruct((size,), dtype)
        assert ways(lambda x: pieces_gpu.elementwise(lax.neg, x), x, pieces=1) == way, dtype


@pytest.mark.parametrize(
    ("rows", "parts"),
    [(63, ["63x4", "63x1"]), (64, ["64x5"]), (67, ["64x5", "3x5"]), (3, ["3x4", "3x1"])],
)
def test_what_is_in_place_is_cut_where_little_is_left(rows: int, parts: list[str]):
    x = jax.ShapeDtypeStruct((rows, 5), "float32")
    text = jax.jit(lambda x: threads_gpu.in_place([x])).lower(x).as_text()
    updates = [line for line in text.splitlines() if "dynamic_update_slice" in line]
    assert [line.split("tensor<")[2].split("xf32")[0] for line in updates] == parts


@pytest.mark.parametrize(
    ("shape", "repeats", "dtype", "way"),
    [
        ((2, 9), (2, 1), "float32", "quarters of copies"),
        ((3, 9), (1, 2), "uint8", "quarters of copies"),
        ((5, 9), (1, 2), "uint8", "rows"),
        ((5, 9), (1, 2), "float32", "quarters of copies"),
        ((17, 9), (1, 2), "float32", "rows"),
        ((5, 9), (1, 3), "float16", "rows"),
        ((5, 9), (1, 3), "float32", "concatenation of 3"),
        ((5, 9), (1, 4), "uint8", "rows"),
        ((5, 9), (1, 4), "float32", "once"),
        ((5, 9), (4, 1), "float32", "quarters of copies"),
        ((5, 9), (1, 8), "float16", "concatenation of 4"),
        ((5, 8), (1, 2), "float32", "concatenation of 2"),
    ],
)
def test_how_rows_are_repeated(monkeypatch, shape, repeats, dtype: str, way: str):
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    program = jax.make_jaxpr(lambda x: [arrangement.tile(x, repeats)])(np.zeros(shape, dtype))
    text = jax.jit(whole_program.forms(program)["cuda"]).lower(np.zeros(shape, dtype)).as_text()
    concatenations = [line for line in text.splitlines() if "stablehlo.concatenate" in line]
    slices = {
        line.split("tensor<")[1].split(">")[0] for line in text.splitlines() if ".slice" in line
    }
    if not concatenations:
        found = "once"
    elif not slices:
        found = f"concatenation of {concatenations[0].split('dim')[0].count('%') - 1}"
    else:
        flat = all("x" not in one.rsplit("x", 1)[0] for one in slices)
        found = "quarters of copies" if flat else "rows"
    assert found == way


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "axis", "sizes", "loops"),
    [
        ((5, 6), 1, (2, 2, 2), [3]),
        ((4, 8), 1, (1,) * 8, [2, 3, 3]),
        ((3, 5, 2), 1, (1, 2, 2), [2]),
        ((2, 7, 3), 1, (2, 2, 1, 1, 1), [2, 3]),
        ((2, 14, 3), 1, (6, 6, 1, 1), [2, 2]),
        ((2, 3, 9), 2, (4, 5), []),
        ((2, 12, 5), 1, (6, 3, 3), [2]),
    ],
)
def test_neighbours_of_one_size_are_split_by_one_loop(
    monkeypatch, shape, axis: int, sizes, loops: list[int], dtype: str
):
    for name, value in {"CACHED": 0, "MOST_AT_ONCE": 3}.items():
        monkeypatch.setattr(pieces_cpu, name, value)
    (array,) = numbers([shape], dtype)
    with jax.enable_x64(True):
        x = jnp.asarray(array)
        assert pieces_cpu.has_equal_neighbours(x, sizes, axis) == bool(loops)
        form = jax.jit(pieces_cpu.split, static_argnums=(1, 2))
        split, traced = form(x, sizes, axis), jax.make_jaxpr(form, (1, 2))(x, sizes, axis)
    expected = np.split(array, np.cumsum(sizes)[:-1], axis)
    for piece, part in zip(split, expected, strict=True):
        assert bits(piece).tobytes() == bits(part.copy()).tobytes()
        assert piece.shape == part.shape
    inner = traced.jaxpr.eqns[0].params["jaxpr"].jaxpr
    assert [len(eqn.outvars) for eqn in inner.eqns if eqn.primitive.name == "reduce"] == loops


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [
        ((4, 70), 1, (20, 50)),
        ((2, 3, 9), 2, (4, 5)),  # too short
        ((6, 40, 1), 1, (17, 17, 1, 5)),
        ((3, 40), 1, (17, 23)),  # no pairs of rows
        ((2, 2, 100, 2), 2, (9, 80, 11)),
        ((2, 200), 1, (100, 74, 26)),
    ],
)
@pytest.mark.parametrize("cores", [2, 16])
def test_short_rows_are_split_by_pairs(monkeypatch, shape, axis, sizes, dtype: str, cores: int):
    monkeypatch.setattr(loops_cpu, "LITTLE", 0)
    (array,) = numbers([shape], dtype)
    with jax.enable_x64(True), by_many_cores(cores):
        form = jax.jit(functools.partial(pieces_cpu.split, pairs=True), static_argnums=(1, 2))
        split = form(jnp.asarray(array), sizes, axis)
    expected = np.split(array, np.cumsum(sizes)[:-1], axis)
    for piece, part in zip(split, expected, strict=True):
        assert bits(piece).tobytes() == bits(part.copy()).tobytes()
        assert piece.shape == part.shape


def test_pairs_go_by_the_places_of_their_rows():
    """Of which one is in halves; as blocks of 60 and 70 they would be as slow as they are."""
    x = jax.ShapeDtypeStruct((2**16, 130), np.uint8)
    program = jax.make_jaxpr(lambda x: pieces_cpu.split(x, (60, 70), 1, pairs=True))(x)
    assert str(program).count(" pad[") == 2 * 3


@pytest.mark.parametrize(
    ("shape", "dtype", "axis", "sizes", "gains"),
    [
        ((2**15, 100), "float32", 1, (65, 35), [True, False]),
        ((2**15, 100), "float16", 1, (65, 35), [True, True]),
        ((2**15, 100), "float16", 1, (90, 10), [False, False]),
        ((2**15, 100), "float16", 1, (60, 40), [True, True]),
        ((2**15, 200), "uint8", 1, (100, 80, 15, 5), [False, False]),
        ((2**15, 200), "uint8", 1, (100, 74, 10, 16), [True, False]),
        ((2**15, 200), "uint8", 1, (100, 74, 26), [True, True]),
        ((2**15, 100), "float32", 1, (70, 30), [True, False]),
        ((2**15, 100), "float32", 1, (71, 29), [False, False]),
        ((2**15, 50, 4), "uint8", 1, (46, 4), [True, True]),
        ((2**14, 100), "float16", 1, (65, 35), [False, False]),  # which stays in a cache
        ((2**15 + 1, 100), "float16", 1, (65, 35), [False, False]),  # not all rows have a pair
        ((2**21 + 1,), "float16", 0, (40, 2**21 - 39), [False, False]),
        ((2, 2**20 + 1), "float16", 1, (40, 2**20 - 39), [False, False]),  # little
    ],
)
def test_what_is_split_by_pairs(shape, dtype: str, axis: int, sizes, gains: Sequence[bool]):
    """What is given, and what is mapped."""
    x = jax.ShapeDtypeStruct(shape, dtype)
    forms = pieces_cpu.gains_by_pairs, pieces_cpu.gains_by_pairs_mapped
    assert [form(x, sizes, axis) for form in forms] == gains


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the form is for CPUs")
def test_split_reads_once_and_copies_nothing():
    """One loop writes all pieces; with an axis of one element they are not laid out anew."""
    x = np.random.default_rng(0).random((4, 2**17, 4, 1), np.float32)
    outputs = [TensorDesc("FLOAT32", [4, 2**17, 1, 1])] * 4
    op = Split(input_tensor=TensorDesc.of(x), output_tensors=outputs, axis=2)
    compiled = dml_jax.compile(op)
    for i, piece in enumerate(compiled(x)):
        np.testing.assert_array_equal(piece, x[:, :, i : i + 1])
    loops = [line for line in compiled.as_text().splitlines() if "kind=kLoop" in line]
    assert len(loops) == 1 and " copy(" not in compiled.as_text()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", [1, 64, 65, 193, 1000])
def test_parts_of_what_several_copies_give(dtype: str, size: int):
    (x,) = numbers([(size,)], dtype)
    with jax.enable_x64(True):
        form = jax.jit(lambda x: threads_gpu.in_quarters(lambda x: [x, x[::-1]], x))
        for result, expected in zip(form(jnp.asarray(x)), (x, x[::-1]), strict=True):
            np.testing.assert_array_equal(bits(result), bits(expected.copy()))


def test_narrow_elements_are_joined_as_words(monkeypatch):
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    x = jnp.zeros((8, 4, 16), jnp.uint8)
    for count, way in ((2, "pad"), (20, "concatenate")):
        text = jax.jit(lambda x, n=count: pieces_gpu.join([x] * n, 1)).lower(x).as_text()
        assert "ui32" in text
        assert {name for name in ("pad", "concatenate") if f"stablehlo.{name}" in text} == {way}
