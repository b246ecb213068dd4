"""Which form a whole program takes on a platform, and that it gives the same."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from forms import in_form, nothing_traced
from jax import lax
from samples import SAMPLES

import dml_jax
from dml_jax import ElementWiseClip, GraphBuilder, Reduce, Split, TensorDesc, functional
from dml_jax.lowering import loops_cpu, threads_gpu
from dml_jax.lowering.differentiable import differentiable
from dml_jax.lowering.folds.one_value import SUM
from dml_jax.lowering.folds.placed import fold
from dml_jax.lowering.whole_programs import (
    blocks_cpu,
    mapped_apart_cpu,
    mapped_cpu,
    pieces_cpu,
    pieces_gpu,
    places_cpu,
)
from dml_jax.lowering.whole_programs.by_library_cpu import by_library, is_there
from dml_jax.lowering.whole_programs.equations import inlined

X = np.random.default_rng(3).integers(0, 200, (6, 8, 12)).astype(np.uint8)
FACTOR = np.array(3, np.uint8)
FORMS = [(pieces_cpu, name) for name in ("split", "join", "join_blocks")]
FORMS += [(places_cpu, "join_computed")]
FORMS += [
    (pieces_gpu, name)
    for name in ("split", "split_computed", "join", "join_computed", "elementwise")
]


def halves(x: jax.Array) -> Sequence[jax.Array]:
    return lax.split(x, (4, 4), 1)


def uneven(x: jax.Array) -> Sequence[jax.Array]:
    return lax.split(x, (3, 5), 1)


def both(x: jax.Array) -> jax.Array:
    return lax.concatenate([x, x], 1)


def small(x: jax.Array) -> jax.Array:
    return jnp.minimum(x, np.uint8(150))


def scaled(x: jax.Array) -> jax.Array:
    """By a number that is an array, in a branch of each platform."""
    y = lax.convert_element_type(x, np.float32)
    half = lax.full(x.shape, 0.5, np.float32)
    return lax.platform_dependent(y, cpu=lambda y: y * half, default=lambda y: half * y)


@pytest.mark.parametrize(
    ("function", "on_cpu", "on_gpu"),
    [
        (halves, "pieces_cpu.split", "pieces_gpu.split"),
        (uneven, "pieces_cpu.split", "pieces_gpu.split"),
        (lambda x: lax.split(x, (2, 4), 0), "", "pieces_gpu.split"),
        (both, "pieces_cpu.join", "pieces_gpu.join"),
        (lambda x: halves(small(x)), "pieces_cpu.split", "pieces_gpu.split_computed"),
        (lambda x: uneven(small(x)), "pieces_cpu.split", "pieces_gpu.split_computed"),
        (lambda x: uneven(x.transpose(2, 1, 0)), "", "pieces_gpu.split_computed"),
        (lambda x: both(small(x)), "", "pieces_gpu.join_computed"),
        (
            lambda x: lax.concatenate([small(x), x, x, x, small(x)], 1),
            "pieces_cpu.join_blocks",
            "pieces_gpu.join_computed",
        ),
        (lambda x: lax.concatenate([small(x), x, x, x[:, :5]], 1), "", "pieces_gpu.join_computed"),
        (lambda x: small(both(x)), "", "pieces_gpu.join_computed"),
        (lambda x: halves(x)[::-1], "", ""),
        (lambda x: halves(x)[:1], "", ""),
        (lambda x: [small(half) for half in halves(x)], "", ""),
        (small, "", "pieces_gpu.elementwise"),
        (scaled, "", "pieces_gpu.elementwise"),
        (lambda x: small(x) + x, "", "pieces_gpu.elementwise"),
        (lambda x: (small(x), x + x), "", ""),
        (lambda x: x + jnp.asarray(X[::-1].copy()), "", ""),
        (lambda x: x + x[:1], "", ""),
        (lambda x: x.sum(dtype=np.uint8), "", ""),
        (lambda x: lax.broadcast(x, (2,)), "", ""),
        (lambda x: lax.split(small(x), (8,), 1), "", "pieces_gpu.split_computed"),
        (lambda x: x * FACTOR, "", "pieces_gpu.elementwise"),
        (lambda x: x, "", ""),
        (lambda x: jnp.zeros(3), "", ""),
    ],
)
def test_the_form(monkeypatch, function: Callable[..., Any], on_cpu: str, on_gpu: str):
    for module in (pieces_cpu, blocks_cpu):
        monkeypatch.setattr(module, "CACHED", 0)
    monkeypatch.setattr(pieces_cpu, "is_little", lambda shape: False)
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    for module, name in FORMS:
        form, full = getattr(module, name), f"{module.__name__.split('.')[-1]}.{name}"

        def recorded(*operands: Any, form: Any = form, full: str = full) -> Any:
            taken.append(full)
            return form(*operands)

        monkeypatch.setattr(module, name, recorded)
    expected = jax.tree.leaves(function(jnp.asarray(X)))
    for platform, name in {"cpu": on_cpu, "cuda": on_gpu}.items():
        taken: list[str] = []
        results = jax.tree.leaves(jax.jit(in_form(platform, function))(X))
        assert taken == ([name] if name else [])
        for result, value in zip(results, expected, strict=True):
            assert result.dtype == value.dtype
            np.testing.assert_array_equal(result, value)


THIRDS = np.split(np.tile(X, (1, 2, 1)), 3)


def join(*xs: jax.Array) -> jax.Array:
    return lax.concatenate(xs, 1)


def halved(x: jax.Array) -> jax.Array:
    """As it goes in CLIP_GRAD: in a function with a derivative, and a branch for the platform."""

    @differentiable()
    def function(x: jax.Array) -> jax.Array:
        return lax.platform_dependent(x, default=lambda x: x >> np.uint8(1))

    return function(x)


@pytest.mark.parametrize(
    ("function", "by_loops"),
    [
        (lambda x, y: small(join(x, y)), 1),
        (lambda x, y: halved(small(join(x, y, x))), 1),
        (lambda x, y: lax.convert_element_type(join(x, y), np.float32), 1),
        (lambda x, y: join(x, y) + join(y, x), 1),
        (lambda x, y: join(x, y) + jnp.asarray(np.tile(X, (1, 2, 1))), 1),
        (lambda x, y: lax.select(join(x, y) > np.uint8(9), join(y, y), join(x, x)), 1),
        (lambda x, y: (small(join(x, y)), join(x, y), x + y), 2),
        (lambda x, y: small(join(small(join(x, y)), x)), 1),
        (lambda x, y: join(small(join(x, y[:, :1])), *[x] * 2), 0),  # 25 blocks
        # Not the same pieces, or in another place than at the end.
        (lambda x, y: join(x, y) + join(x[:, :4], y, y[:, :4]), 0),
        (lambda x, y: join(x, y) + lax.concatenate(list(map(jnp.asarray, THIRDS)), 0), 0),
        (lambda x, y: small(join(x, y))[:, ::2], 0),
        (lambda x, y: small(join(x, y)).sum(1, dtype=np.int32), 0),
        (lambda x, y: lax.broadcast(join(x, y), (2,)), 0),
    ],
)
def test_what_is_mapped_behind_a_join(monkeypatch, function: Callable[..., Any], by_loops: int):
    monkeypatch.setattr(pieces_cpu, "CACHED", 0)
    for name in ("CACHED", "UNROLLED_BLOCK", "WIDE"):
        monkeypatch.setattr(blocks_cpu, name, 0)
    join_blocks, loops = pieces_cpu.join_blocks, []
    monkeypatch.setattr(pieces_cpu, "join_blocks", lambda *of: loops.append(1) or join_blocks(*of))
    results = jax.tree.leaves(jax.jit(in_form("cpu", function))(X, X[::-1].copy()))
    expected = jax.tree.leaves(function(jnp.asarray(X), jnp.asarray(X[::-1].copy())))
    for result, value in zip(results, expected, strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result, value)
    assert len(loops) == by_loops


@pytest.mark.parametrize(("size", "much"), [(16411, 2**24), (16411, 0), (16384, 0)])
def test_pieces_of_several_inputs(monkeypatch, size: int, much: int):
    """A number that is no multiple of four goes in quarters, or in place."""
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    monkeypatch.setattr(pieces_gpu, "IN_PLACE_FROM", much)
    xs = np.random.default_rng(3).random((2, size), np.float32)

    def function(x: jax.Array, y: jax.Array) -> jax.Array:
        return lax.select(x > np.float32(0.5), y, -x)

    form = jax.jit(in_form("cuda", function))
    np.testing.assert_array_equal(form(*xs), np.where(xs[0] > 0.5, xs[1], -xs[0]))
    text = form.lower(*xs).as_text()
    assert ("concatenate" in text) == (size % 4 > 0 and size < much)
    assert ("dynamic_update_slice" in text) == (size % 4 > 0 and size >= much)


def test_numbers_that_are_inputs_or_all_there_is(monkeypatch):
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    product = jax.jit(in_form("cuda", lambda x, factor: x * factor))
    np.testing.assert_array_equal(product(X, FACTOR), X * FACTOR)
    np.testing.assert_array_equal(jax.jit(in_form("cuda", lambda: jnp.zeros(3) + 1))(), np.ones(3))


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the form is for CPUs")
def test_a_graph_that_ends_in_a_split_is_one_loop():
    tensor = TensorDesc("FLOAT16", [8, 64, 32, 256])
    builder = GraphBuilder()
    x = builder.input_tensor("x", tensor)
    parts = functional.split(functional.clip(x, 0.25, 0.75), 3, [64] * 4)
    compiled = dml_jax.compile(builder.build(parts))
    values = np.random.default_rng(3).random(tensor.sizes, np.float32).astype(np.float16)
    results = compiled(values)
    for result, part in zip(results, np.split(values.clip(0.25, 0.75), 4, 3), strict=True):
        np.testing.assert_array_equal(result, part)
    text = compiled.as_text()
    assert len([line for line in text.splitlines() if "kind=kLoop" in line]) == 1


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the form is for CPUs")
def test_a_graph_that_ends_in_a_join_is_one_loop():
    tensor = TensorDesc("FLOAT16", [8, 64, 32, 256])
    builder = GraphBuilder()
    x = builder.input_tensor("x", tensor)
    first, second = functional.split(x, 3, [128] * 2)
    swapped = [functional.clip(second, 0.25, 1), functional.clip(first, 0, 0.75)]
    compiled = dml_jax.compile(builder.build(functional.join(swapped, 3)))
    values = np.random.default_rng(3).random(tensor.sizes, np.float32).astype(np.float16)
    first, second = np.split(values, 2, 3)
    expected = np.concatenate([second.clip(0.25, 1), first.clip(0, 0.75)], 3)
    np.testing.assert_array_equal(compiled(values), expected)
    text = compiled.as_text()
    assert len([line for line in text.splitlines() if "kind=kLoop" in line]) == 1
    assert " concatenate(" not in text and " copy(" not in text


def joined_and_clipped(shape: Sequence[int], axis: int) -> tuple[Any, list[np.ndarray]]:
    """A graph of two tensors, and values for them."""
    tensor, builder = TensorDesc("FLOAT16", shape), GraphBuilder()
    inputs = [builder.input_tensor(name, tensor) for name in "xy"]
    graph = builder.build(functional.clip(functional.join(inputs, axis), 2, 7))
    rng = np.random.default_rng(0)
    return graph, [rng.integers(0, 9, shape).astype(np.float16) for _ in inputs]


def test_what_is_joined_is_not_stored_before_it_is_clipped():
    graph, (x, y) = joined_and_clipped([4, 16, 128, 256], 1)
    compiled = dml_jax.compile(graph)
    np.testing.assert_array_equal(compiled(x, y), np.concatenate([x, y], 1).clip(2, 7))
    if jax.default_backend() == "cpu":
        entry = compiled.as_text().split("ENTRY")[1]
        assert entry.count(" fusion(") == 1 and " concatenate(" not in entry


@pytest.mark.parametrize(
    ("shape", "axis", "rows"),
    [
        ([8, 96, 72, 33], 1, "[8,192,2376]"),
        ([8, 96, 14, 9], 1, "[8,192,126]"),  # not 256, and no longer unrolled
        ([64, 96, 7, 7], 1, "[64,9408]"),  # too short by itself
        ([64, 96, 7, 7], 2, None),  # what is joined is still too short
        ([8, 96, 74, 2], 1, "[8,192,148]"),
        ([8, 96, 75, 2], 1, None),  # the axis before it is vectorised
        ([8, 96, 2, 75], 1, None),
    ],
)
def test_narrow_rows_are_merged_behind_what_is_joined(
    shape: list[int], axis: int, rows: str | None
):
    graph, arrays = joined_and_clipped(shape, axis)
    expected = np.concatenate(arrays, axis).clip(2, 7)
    np.testing.assert_array_equal(graph(*arrays), expected)
    program = inlined(jax.make_jaxpr(graph.compute)(*arrays), "cpu")
    merged = mapped_cpu.in_long_rows(program)
    if rows is None:
        assert merged is None
    else:
        assert f"f16{rows} = concatenate[dimension=1]" in str(merged)


def clip(x: Any) -> Any:
    return functional.clip(x, 2, 7)


@pytest.mark.parametrize("dtype", ["FLOAT16", "UINT8", "FLOAT32"])
@pytest.mark.parametrize(
    ("function", "size", "gains"),
    [
        (lambda x: functional.split(clip(x), 3, [6, 7]), 13, True),
        (lambda x: [clip(y) for y in functional.split(x, 2, [6, 7])], 13, True),
        (lambda x: functional.depth_to_space(clip(x), 2), 14, True),
        (lambda x: clip(functional.depth_to_space(x, 2)), 14, True),
        (lambda x: functional.space_to_depth(clip(x), 2), 28, True),
        (lambda x: functional.space_to_depth(clip(x), 2), 14, False),  # rows of 7, many of them
        (lambda x: clip(functional.tile(x, [1, 1, 2, 2])), 3, True),
        (lambda x: functional.join([clip(y) for y in functional.split(x, 3, [6, 7])], 3), 13, True),
        (lambda x: clip(functional.tile(x, [2, 1, 1, 1])), 13, False),  # over all of x as one axis
        (lambda x: functional.depth_to_space(clip(x), 2), 16, False),
        (lambda x: functional.split(clip(x), 3, [40, 40]), 80, False),
        (lambda x: clip(functional.reduce(x, "MAX", [1])), 13, False),
        (lambda x: functional.split(x, 3, [6, 7]), 13, False),
    ],
)
def test_what_is_mapped_apart_from_short_loops(
    function: Callable[..., Any], size: int, gains: bool, dtype: str
):
    tensor, builder = TensorDesc(dtype, [2, 8 * (80 // size) ** 2, size, size]), GraphBuilder()
    graph = builder.build(function(builder.input_tensor("x", tensor)))
    x = np.random.default_rng(0).integers(0, 9, tensor.sizes).astype(tensor.dtype)
    program = jax.make_jaxpr(graph.compute)(x)
    apart = mapped_apart_cpu.with_maps_stored(inlined(program, "cpu"))
    assert (apart is not None) == (gains and dtype != "FLOAT32")
    results = jax.tree.leaves(jax.jit(in_form("cpu", graph.compute))(x))
    for result, expected in zip(results, jax.tree.leaves(graph(x)), strict=True):
        np.testing.assert_array_equal(result, expected)
    with jax.disable_jit():
        right = jax.tree.leaves(graph(x))
    for result, expected in zip(results, right, strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["FLOAT16", "UINT8"])
def test_a_long_chain_is_mapped_apart(dtype: str):
    """Each CLIP reads what the one before it gives several times."""
    tensor, builder = TensorDesc(dtype, [8, 60, 13, 13]), GraphBuilder()
    y = builder.input_tensor("x", tensor)
    for _ in range(300):
        y = clip(y)
    graph = builder.build(functional.split(y, 3, [6, 7]))
    x = np.random.default_rng(0).integers(0, 9, tensor.sizes).astype(tensor.dtype)
    program = mapped_apart_cpu.with_maps_stored(inlined(jax.make_jaxpr(graph.compute)(x), "cpu"))
    assert program is not None
    of_arrays = [eqn for eqn in program.jaxpr.eqns if eqn.outvars[0].aval.shape]
    assert [eqn.primitive.name for eqn in of_arrays] == ["reshape", "jit", "reshape", "split"]
    assert len(of_arrays[1].params["jaxpr"].jaxpr.eqns) >= 4 * 300


@pytest.mark.parametrize("dtype", ["FLOAT16", "FLOAT32"])
@pytest.mark.parametrize(
    ("function", "gains"),
    [
        (lambda x: clip(functional.reduce(x, "SUM", [1])), True),
        (lambda x: clip(functional.reduce(clip(x), "AVERAGE", [1])), True),
        (lambda x: clip(functional.reduce(x, "SUM", [0])), False),  # of two rows
        (lambda x: clip(functional.reduce(x, "SUM", [3])), False),
        (lambda x: functional.reduce(clip(x), "SUM", [1]), False),
    ],
)
def test_what_is_clipped_apart_from_sums(function: Callable[..., Any], gains: bool, dtype: str):
    tensor, builder = TensorDesc(dtype, [2, 40, 13, 65]), GraphBuilder()
    graph = builder.build(function(builder.input_tensor("x", tensor)))
    x = np.random.default_rng(0).integers(0, 3, tensor.sizes).astype(tensor.dtype)
    apart = mapped_apart_cpu.with_maps_stored(inlined(jax.make_jaxpr(graph.compute)(x), "cpu"))
    assert (apart is not None) == (gains and dtype == "FLOAT16")
    with jax.disable_jit():
        expected = graph(x)
    np.testing.assert_allclose(graph(x), expected, rtol=1e-6 if dtype == "FLOAT32" else 0)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize("size", [1, 2**20])
def test_joins_of_joins_are_no_program_of_all_their_pieces(size: int, platform: str):
    """Each would double what is mapped behind them."""
    builder = GraphBuilder()
    y = builder.input_tensor("x", TensorDesc("FLOAT32", [size]))
    for _ in range(11):
        y = clip(functional.join([y, y], 0))
    traced = jax.jit(builder.build(y).whole).trace(jax.ShapeDtypeStruct((size,), np.float32))
    assert traced.lower(lowering_platforms=(platform,)).as_text().count("\n") < 2**11


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: functional.tile(functional.depth_to_space(x, 2), [1, 1, 1, 1]),
        lambda x: clip(functional.tile(functional.reduce(x, "AVERAGE", [1]), [1, 1, 1, 1])),
        lambda x: functional.tile(functional.split(x, 1, [2, 2])[0], [1, 1, 1, 1]),
    ],
)
def test_what_does_nothing(function: Callable[..., Any], platform: str):
    """An operator that gives what it is given, last or almost."""
    x, builder = np.arange(4 * 7 * 6, dtype=np.float32).reshape(1, 4, 7, 6), GraphBuilder()
    graph = builder.build(function(builder.input_tensor("x", TensorDesc.of(x))))
    with jax.disable_jit():
        expected = graph(x)
    result = jax.jit(in_form(platform, graph))(x)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("computed", [False, True])
def test_pieces_that_cores_cannot_share(computed: bool, monkeypatch: Any):
    """Each of them by a loop over rows, where it has some."""
    monkeypatch.setattr(loops_cpu, "CORES", 2)
    tensor, builder = TensorDesc("FLOAT16", [3 * 33009 + 1]), GraphBuilder()
    x = builder.input_tensor("x", tensor)
    sizes = [33009, 2 * 33009, 1]
    graph = builder.build(functional.split(functional.clip(x, 2, 7) if computed else x, 0, sizes))
    values = np.random.default_rng(0).integers(0, 9, tensor.sizes).astype(np.float16)
    expected = np.split(values.clip(2, 7) if computed else values, np.cumsum(sizes[:-1]))
    compiled = dml_jax.compile(graph)
    for piece, right in zip(compiled(values), expected, strict=True):
        np.testing.assert_array_equal(piece, right)
    if jax.default_backend() == "cpu":
        assert (
            "f16[3,11003]" in compiled.as_text()
            and "f16[33009]{0} fusion" not in compiled.as_text()
        )


def functions(x: np.ndarray | jax.ShapeDtypeStruct) -> list[Any]:
    """Operators of each kind, and a graph."""
    tensor, builder = TensorDesc.of(x), GraphBuilder()
    clip = ElementWiseClip.infer(input_tensor=tensor, min=0.25, max=0.75)
    graph = builder.build(clip(builder.input_tensor("x", tensor)))
    return [clip, Reduce.infer(input_tensor=tensor, function="SUM", axes=[1]), graph]


def test_what_has_no_form_is_lowered_once(monkeypatch: Any):
    """No form that is tried leaves something behind in the program."""
    monkeypatch.setattr(loops_cpu, "CORES", 2)
    x = jax.ShapeDtypeStruct((64, 512, 80), np.float32)
    for function in functions(x):
        texts = [jax.jit(f).lower(x).as_text() for f in (function.__call__, function.whole)]
        plain, alone = (text.count("stablehlo.") for text in texts)
        assert alone == plain


def test_without_jit():
    x = np.random.default_rng(3).random((3, 4), np.float32)
    for function in functions(x):
        expected = function(x)
        with jax.disable_jit():
            np.testing.assert_allclose(function(x), expected, rtol=1e-6)
        np.testing.assert_allclose(function.whole(x), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_nan_is_found_where_jax_looks_for_it():
    x = np.full((3, 4), np.nan, np.float32)
    for function in functions(x):
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
            function(x)


def test_an_export_has_no_form_of_a_platform():
    """It may run on several devices."""
    tensor = TensorDesc("FLOAT32", [2**13, 256])
    outputs = [TensorDesc("FLOAT32", [2**13, 64])] * 4
    op = Split(input_tensor=tensor, output_tensors=outputs, axis=1)
    shape = jax.ShapeDtypeStruct(tensor.sizes, tensor.dtype)
    program = jax.jit(op.whole)
    for platform, form in {"cpu": "stablehlo.reduce", "cuda": "bitcast_convert"}.items():
        assert form in program.trace(shape).lower(lowering_platforms=(platform,)).as_text()
        exported = jax.export.export(program, platforms=[platform])(shape)
        assert form not in exported.mlir_module()


@pytest.mark.parametrize("as_graph", [False, True])
def test_inside_of_another_program_it_is_a_part_of_that(as_graph: bool):
    """Where arrays are traced, and where they are not."""
    tensor = TensorDesc.of(X)
    function: Any = ElementWiseClip.infer(input_tensor=tensor, min=50, max=150)
    if as_graph:
        builder = GraphBuilder()
        function = builder.build(function(builder.input_tensor("x", tensor)))
    programs = [jax.make_jaxpr(function)(X), jax.make_jaxpr(lambda: function(X))()]
    assert all("dml_whole_program" not in str(program) for program in programs)
    assert "dml_whole_program" in str(jax.make_jaxpr(function.whole)(X))
    np.testing.assert_array_equal(jax.jit(lambda: function(X))(), X.clip(50, 150))


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize(
    ("shape", "cores", "made"),
    [
        ((33009,), 2, "[3,11003]"),
        ((1, 33003, 1), 2, "[57,579]"),
        ((2, 33010), 3, "[20,3301]"),  # what is before the axis is too little for three
        ((2, 33010), 2, None),
        ((32771,), 2, "concatenate"),  # a prime
        ((32822,), 3, None),  # an even number that is no multiple, of two primes
    ],
)
def test_one_axis_that_cores_cannot_share(
    shape: tuple[int, ...], cores: int, made: str | None, dtype: str, monkeypatch: Any
):
    """It goes as rows, or, of a prime, without its last element."""
    monkeypatch.setattr(loops_cpu, "CORES", cores)
    x = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    tensor = TensorDesc.of(x)
    op = ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=2, max=7)
    np.testing.assert_array_equal(op(x), np.clip(x, 2, 7))
    program = jax.make_jaxpr(op.lower)(x)
    text = str(jax.make_jaxpr(lambda x: mapped_cpu.in_even_rows(program, [x]) or [])(x))
    if made == "concatenate" and dtype == "uint8":
        made = None
    assert made in text if made else "reshape" not in text and "concatenate" not in text


@pytest.mark.parametrize("function", ["SUM", "MAX", "ARGMAX", "LOG_SUM_EXP", "AVERAGE"])
@pytest.mark.parametrize("shape", [(3, 33009), (17, 33009), (3, 32771), (1, 30, 33009)])
def test_columns_that_cores_cannot_share(function: str, shape: tuple[int, ...]):
    x = np.random.default_rng(0).random(shape, np.float32)
    axis = len(shape) - 2
    wide = x.astype(np.float64)
    expected = {
        "SUM": wide.sum(axis),
        "MAX": x.max(axis),
        "ARGMAX": x.argmax(axis),
        "LOG_SUM_EXP": np.log(np.exp(wide).sum(axis)),
        "AVERAGE": wide.mean(axis),
    }[function]
    found = dml_jax.reduce(jnp.asarray(x), function, [axis])
    np.testing.assert_allclose(np.squeeze(found, axis), expected, rtol=1e-6)


@pytest.mark.parametrize("function", ["AVERAGE", "L2", "LOG_SUM_EXP", "ARGMIN"])
@nothing_traced()  # by the cores that there are
def test_what_becomes_of_columns_that_cores_cannot_share(function: str, monkeypatch: Any):
    """The loop that rounds is over rows too; alike in a batch, and where there are derivatives."""
    monkeypatch.setattr(loops_cpu, "CORES", 2)
    x = np.random.default_rng(0).random((3, 33009)).astype(np.float16)
    compute = functools.partial(dml_jax.reduce, function=function, axes=[0])
    alone = jax.jit(compute)
    (result,) = np.asarray(alone(x))
    batch = jax.jit(jax.vmap(compute))(jnp.stack([x, 2 * x]))
    np.testing.assert_array_equal(batch[0, 0], result)
    if jax.default_backend() == "cpu":
        text = alone.lower(x).compile().as_text() or ""
        loops = [line for line in text.splitlines() if " fusion(" in line]
        assert loops and all("[3,11003]" in line.split(" fusion(")[0] for line in loops), text
    if function != "ARGMIN":
        slopes = jax.jit(jax.grad(lambda x: compute(x).astype(np.float32).sum()))(x)
        wide, top = x.astype(np.float64), x.max(0).astype(np.float64)
        expected = {
            "AVERAGE": np.full(x.shape, 1 / 3),
            "L2": wide / np.sqrt((wide**2).sum(0)),
            "LOG_SUM_EXP": np.exp(wide - top) / np.exp(wide - top).sum(0),
        }[function]
        np.testing.assert_allclose(slopes, expected, atol=1e-3)


@pytest.mark.parametrize("function", ["SUM", "MAX", "L2", "AVERAGE"])
def test_columns_of_maps_with_short_axes(function: str):
    """One loop over both of them, alone, behind what is mapped, and in a batch."""
    tensor, builder = TensorDesc("FLOAT16", [400, 16, 13, 13]), GraphBuilder()
    x = builder.input_tensor("x", tensor)
    graph = builder.build(functional.reduce(functional.clip(x, 1, 3), function, [1]))
    op = Reduce.infer(function=function, input_tensor=tensor, axes=[1])
    x = np.random.default_rng(0).integers(0, 5, tensor.sizes).astype(np.float16)
    for program in (graph, op, jax.jit(graph)):
        result = program(x)
        wide = x.astype(np.float64) if program is op else x.astype(np.float64).clip(1, 3)
        expected = {
            "SUM": wide.sum(1),
            "MAX": wide.max(1),
            "L2": np.sqrt((wide**2).sum(1)),
            "AVERAGE": wide.mean(1),
        }[function]
        np.testing.assert_allclose(result[:, 0], expected, rtol=1e-3)
        if jax.default_backend() == "cpu":
            text = jax.jit(program).lower(x).compile().as_text() or ""
            assert re.search(r"f16\[400,1,169\]\S* fusion\(", text)
            assert not re.search(r"f16\[400,1,13,13\]\S* fusion\(", text)
        batch = jax.jit(jax.vmap(program))
        both = np.stack([x, x])
        np.testing.assert_array_equal(batch(both)[1], result)
        if jax.default_backend() == "cpu" and program is op:
            text = batch.lower(both).compile().as_text() or ""
            assert re.search(r"f16\[2,400,1,169\]\S* fusion\(", text)


def averaged(x: jax.Array) -> jax.Array:
    return Reduce.infer(
        function="AVERAGE", input_tensor=TensorDesc("FLOAT32", x.shape), axes=[1, 2]
    ).compute(x)[0]


CONSTANT = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


def clipped(x: jax.Array) -> jax.Array:
    return lax.clamp(np.float32(1), x, np.float32(3))


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (averaged, (2, 12, 1, 5)),
        (lambda x: averaged(clipped(x)), (2, 12, 1, 5)),
        (lambda x: clipped(averaged(x)), (2, 12, 1, 5)),
        (lambda x: (clipped(x), averaged(clipped(x))), (2, 12, 1, 5)),
        (lambda x: x - averaged(x), (2, 12, 1, 5)),
        (lambda x: averaged(x + jnp.arange(120.0, dtype=x.dtype).reshape(x.shape)), None),
        (lambda x: averaged(x * CONSTANT), (2, 12, 1, 5)),
        (lambda x: averaged(x)[..., :2], None),
        (lambda x: averaged(x) + averaged(x[::-1]), None),
        (lambda x: averaged(lax.transpose(x, (0, 2, 1, 3))), None),
        (lambda x: lax.concatenate([averaged(x)] * 2, 1), None),
    ],
)
def test_axes_that_are_reduced_are_given_as_one(
    monkeypatch: Any, function: Callable[..., Any], given: Sequence[int] | None
):
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    x = jnp.asarray(np.random.default_rng(4).integers(0, 5, (2, 3, 4, 5)).astype(np.float32))
    program = str(jax.make_jaxpr(in_form("cuda", function))(x))
    assert re.findall(r":f32\[([\d,]+)\] = optimization_barrier", program) == (
        [",".join(map(str, given))] if given else []
    )
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-6),
        jax.jit(in_form("cuda", function))(x),
        function(x),
    )


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 1, 4, 1, 5)])
@pytest.mark.parametrize("axes", [(1, 2), (0, 1), (0, 2, 3), (0, 1, 2, 3), (3,)])
@pytest.mark.parametrize("function", [*map(str, dml_jax.ReduceFunction.__members__)])
def test_reductions_that_are_given_axes_as_one(
    monkeypatch: Any, function: str, axes: tuple[int, ...], shape: tuple[int, ...]
):
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    x = np.random.default_rng(5).integers(1, 5, shape).astype(np.float32)
    described = TensorDesc("FLOAT32", shape)
    reduce = Reduce.infer(function=function, input_tensor=described, axes=axes)
    (expected,) = reduce.compute(jnp.asarray(x))
    (found,) = jax.jit(in_form("cuda", lambda x: tuple(reduce.compute(x))))(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("least", [0, 2**20])
def test_what_becomes_of_results_is_in_the_kernel_that_reduces(monkeypatch: Any, least: int):
    monkeypatch.setattr(threads_gpu, "LITTLE", least)
    described = TensorDesc("FLOAT32", (4, 2, 8, 64))
    average = Reduce.infer(function="AVERAGE", input_tensor=described, axes=[2, 3])
    x = jnp.ones(described.sizes, jnp.float32)
    program = str(jax.make_jaxpr(in_form("cuda", lambda x: tuple(average.compute(x))))(x))
    assert program.count("dml_epilogue") == 1
    assert program.count("optimization_barrier") == (least == 0)


def test_what_is_left_may_be_placed_elsewhere(monkeypatch: Any):
    monkeypatch.setattr(threads_gpu, "LITTLE", 0)
    x = jnp.arange(64, dtype=jnp.float32).reshape(4, 4, 4)

    def function(x: jax.Array) -> jax.Array:
        return x + lax.broadcast_in_dim(fold(x, SUM, (1, 2))[0], x.shape, (1,))

    np.testing.assert_array_equal(in_form("cuda", function)(x), function(x))


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the form is for CPUs")
@pytest.mark.parametrize(("dtype", "in_rows"), [("float32", False), ("float16", True)])
def test_wide_elements_of_small_maps_are_joined_as_they_are(dtype: str, in_rows: bool):
    x = jnp.zeros((16, 64, 7, 7), dtype)

    def cut(x: jax.Array) -> list[jax.Array]:
        return [-piece for piece in lax.split(x, (30, 34), 1)]

    for function, expected in ((cut, True), (lambda x: lax.concatenate(cut(x), 1), in_rows)):
        program = jax.make_jaxpr(function)(x)
        assert (mapped_cpu.in_long_rows(program) is not None) == expected


@pytest.mark.parametrize(
    ("function", "by_places"),
    [
        (lambda x: lax.concatenate([small(y) for y in lax.split(x, (7, 11), 2)][::-1], 2), 1),
        (lambda x: small(lax.concatenate([x, x[..., :5], x], 2)), 1),
        (lambda x: lax.concatenate([small(y) for y in lax.split(x, (9, 9), 2)], 2), 1),
        (lambda x: small(lax.concatenate([x, x[:, :1]], 1)), 1),
        (lambda x: small(lax.concatenate([small(lax.concatenate([x, x], 2)), x[..., :5]], 2)), 1),
        # What is read by something else too would be stored twice.
        (lambda x: (lax.concatenate([small(x), x[..., :5]], 2), small(x)), 0),
        (lambda x: lax.concatenate([small(x), x[..., :5]], 2).sum(2, dtype=np.uint8), 0),
        # Blocks, long rows, and what is read here and there.
        (lambda x: lax.concatenate([small(y) for y in lax.split(x, [3] * 6, 2)], 2), 0),
        (lambda x: lax.concatenate([small(x), x[:8]], 0), 0),
        (lambda x: lax.concatenate([small(x), x.transpose(1, 0, 2)[..., :5]], 2), 0),
        (lambda x: lax.concatenate([jnp.tile(small(x), 2), x], 2), 0),
    ],
)
def test_short_rows_are_joined_by_their_places(
    monkeypatch, function: Callable[..., Any], by_places: int
):
    monkeypatch.setattr(loops_cpu, "LITTLE", 0)
    monkeypatch.setattr(pieces_cpu, "CACHED", 0)
    for name in ("CACHED", "UNROLLED_BLOCK", "WIDE"):
        monkeypatch.setattr(blocks_cpu, name, 0)
    join, loops = places_cpu.join_computed, []
    monkeypatch.setattr(places_cpu, "join_computed", lambda *of: loops.append(1) or join(*of))
    x = np.random.default_rng(4).integers(0, 200, (20, 20, 18)).astype(np.uint8)
    results = jax.tree.leaves(jax.jit(in_form("cpu", function))(x))
    for result, value in zip(results, jax.tree.leaves(function(jnp.asarray(x))), strict=True):
        assert result.dtype == value.dtype
        np.testing.assert_array_equal(result, value)
    assert len(loops) == by_places


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the library is for CPUs")
@pytest.mark.parametrize(
    ("function", "type_", "shape", "axes", "gains"),
    [
        ("SUM", "FLOAT32", (4000, 49), [1], [2, 16]),
        ("SUM", "FLOAT32", (40, 20, 49), [0, 2], [2, 16]),
        ("AVERAGE", "FLOAT32", (80, 40, 32), [1], [2]),
        ("SUM_SQUARE", "FLOAT32", (80, 40, 32), [1], [2]),
        ("SUM", "FLOAT32", (10, 130, 200), [1], [16]),
        ("L2", "FLOAT32", (100, 700), [1], [2, 16]),
        ("SUM", "FLOAT32", (5, 9000), [0, 1], [2]),
        ("MAX", "UINT8", (4000, 49), [1], [2, 16]),
        ("MAX", "UINT8", (400, 250), [1], [16]),
        ("MIN", "INT8", (80, 40, 64), [1], [2, 16]),
        ("SUM", "FLOAT32", (4000, 13), [1], []),
        ("SUM", "FLOAT32", (5, 9000), [1], []),
        ("SUM", "FLOAT32", (80, 40, 320), [1], []),
        ("SUM", "FLOAT32", (40, 49), [1], []),  # too little
        ("SUM", "INT32", (4000, 49), [1], []),
        ("MAX", "FLOAT32", (4000, 49), [1], []),  # it would lose NaN
        ("L1", "FLOAT32", (4000, 49), [1], []),
    ],
)
@pytest.mark.parametrize("cores", [2, 16])
def test_reductions_by_a_library(
    function: str,
    type_: str,
    shape: tuple[int, ...],
    axes: list[int],
    gains: list[int],
    cores: int,
    monkeypatch: Any,
):
    monkeypatch.setattr(loops_cpu, "CORES", cores)
    tensor = TensorDesc(type_, shape)
    x = (np.random.default_rng(0).random(shape) * 100).astype(tensor.dtype)
    op = Reduce.infer(function=function, input_tensor=tensor, axes=axes)
    compiled = jax.jit(in_form("cpu", op.compute)).lower(x).compile()
    assert ("__ynn_fusion" in (compiled.as_text() or "")) == (is_there() and cores in gains)
    (expected,) = SAMPLES[op.c_name].reference(op, x)
    tolerance = 0 if tensor.dtype.kind in "iu" else 4e-7
    np.testing.assert_allclose(compiled(x)[0], expected, rtol=tolerance)
    if tensor.dtype.kind == "f":
        x.flat[7] = np.nan
        assert np.isnan(compiled(x)[0]).sum() == 1


def test_what_is_not_reduced_by_a_library(monkeypatch: Any):
    """What is computed; anything, where there is none."""
    tensor = TensorDesc("FLOAT32", (4000, 49))
    rows = Reduce.infer(function="SUM", input_tensor=tensor, axes=[1])
    clip = ElementWiseClip.infer(input_tensor=tensor, min=0, max=1)
    x = jax.ShapeDtypeStruct(tensor.sizes, tensor.dtype)
    functions = rows.compute, lambda x: rows.compute(*clip.compute(x))
    of_given, of_computed = (inlined(jax.make_jaxpr(f)(x), "cpu") for f in functions)
    assert by_library(of_computed) is None
    assert (by_library(of_given) is not None) == is_there()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_experimental_ynn_fusion_type=")
    assert by_library(of_given) is None


def test_a_difference_to_what_a_library_reduces_wraps():
    """XLA's own, of both in its library, saturates."""
    x = np.random.default_rng(0).integers(0, 200, (4000, 49)).astype(np.uint8)
    tensor = TensorDesc("UINT8", x.shape)
    largest = Reduce.infer(function="MAX", input_tensor=tensor, axes=[1])
    (result,) = jax.jit(in_form("cpu", lambda x: [x - largest.compute(x)[0]]))(x)
    np.testing.assert_array_equal(result, x - x.max(1, keepdims=True))
