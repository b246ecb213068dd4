"""Eight devices: what the compiled programs send between them, and that the answers are the same.

Elementwise dimensions send nothing; a reduction over a sharded one sends all-reduces of the reduced
size, one for each quantity that the devices have to agree on. Nothing is gathered.
"""

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from forms import compiled_soon
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from nightly import sample
from several_devices import SEVERAL

import dml_jax
from dml_jax import GraphBuilder, ReduceFunction, TensorDesc, compile

assert_equal = functools.partial(jax.tree.map, np.testing.assert_array_equal)

SHAPE = (16, 24, 32)
LAYOUTS = {
    "first": ((8,), P("a")),
    "middle": ((8,), P(None, "a")),
    "two axes": ((2, 4), P("a", None, "b")),
    "one axis of both": ((2, 4), P(None, ("a", "b"))),
}
FUNCTIONS = [str(function) for function in ReduceFunction]
SMOOTH = sorted(set(FUNCTIONS) - {"ARGMAX", "ARGMIN"})
TWO = {"LOG_SUM_EXP"}  # maximum, then sum
KINDS = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter|collective-broadcast"


def collectives(function: Callable[..., Any], *arguments: jax.Array) -> list[tuple[str, int]]:
    """Kind and elements of each collective of the compiled program."""
    text = jax.jit(function).lower(*arguments).compile().as_text() or ""
    found = re.findall(rf"= (.*?) ({KINDS})(?:-start)?\(", text)
    return [
        (kind, sum(math.prod(map(int, sizes.split(","))) if sizes else 1 for sizes in shapes))
        for shapes, kind in ((re.findall(r"\[([\d,]*)\]", shape), kind) for shape, kind in found)
    ]


def mesh(sizes: tuple[int, ...], kind: AxisType = AxisType.Auto) -> jax.sharding.Mesh:
    names = ("a", "b")[: len(sizes)]
    return jax.make_mesh(sizes, names, axis_types=(kind,) * len(sizes), devices=SEVERAL[:8])


def values() -> np.ndarray:
    x = np.random.default_rng(1).uniform(0.5, 1.5, SHAPE).astype(np.float32)
    x[:, 2], x[:, 9], x[2], x[13] = 2, 2, 3, 3  # ties within a device and across devices
    return x


def on_mesh(
    x: np.ndarray, spec: P, sizes: tuple[int, ...] = (8,), kind: AxisType = AxisType.Auto
) -> jax.Array:
    return jax.device_put(x, NamedSharding(mesh(sizes, kind), spec))


def placed(layout: str) -> jax.Array:
    sizes, spec = LAYOUTS[layout]
    return on_mesh(values(), spec, sizes)


def normal(*sizes: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=sizes).astype(np.float32)


def reducer(function: str, axes: tuple[int, ...]) -> Callable[[jax.Array], jax.Array]:
    return lambda x: dml_jax.reduce(x, function, axes)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_reductions(function: str, layout: str):
    x, spec = placed(layout), LAYOUTS[layout][1]
    turn = FUNCTIONS.index(function) + list(LAYOUTS).index(layout)
    for axes in sample([(0,), (1,), (0, 2), (0, 1, 2)], turn):
        f = reducer(function, axes)
        sharded = any(a < len(spec) and spec[a] for a in axes)
        count = 0 if not sharded else 2 if function in TWO else 1
        if function == "MULTIPLY":  # by XLA: one for each axis that is sharded
            count = sum(a < len(spec) and spec[a] is not None for a in axes)
        size = math.prod(n for a, n in enumerate(SHAPE) if a not in axes)
        sent = collectives(f, x)
        assert [kind for kind, _ in sent] == ["all-reduce"] * count
        assert all(n <= size for _, n in sent)
        np.testing.assert_allclose(jax.jit(f)(x), f(jnp.asarray(values())), rtol=2e-6)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nan_crosses_devices(function: str):
    x = values()
    x[3, 5, 7] = x[11, 5, 7] = np.nan
    got = np.asarray(jax.jit(reducer(function, (0,)))(on_mesh(x, P("a"))))[0, 5, 7]
    assert got == 3 if function.startswith("ARG") else np.isnan(got)


@pytest.mark.parametrize("function", SMOOTH)
def test_gradients_and_vmap(function: str):
    x = placed("middle")
    f = reducer(function, (1,))
    slope = jax.grad(lambda x: f(x).sum())
    sent = collectives(slope, x)
    if function != "MULTIPLY":  # which XLA partitions
        assert {kind for kind, _ in sent} <= {"all-reduce"}
        assert all(n <= SHAPE[0] * SHAPE[2] for _, n in sent)
    plain = jnp.asarray(values())
    np.testing.assert_allclose(jax.jit(slope)(x), slope(plain), rtol=1e-5)
    over = jax.vmap(reducer(function, (0,)))
    assert [kind for kind, _ in collectives(over, x)] == ["all-reduce"] * (1 + (function in TWO))
    np.testing.assert_allclose(jax.jit(over)(x), over(plain), rtol=2e-6)


@pytest.mark.parametrize("manual", [{"a"}, {"a", "b"}], ids=["some axes", "all axes"])
@pytest.mark.parametrize("function", SMOOTH)
def test_gradients_inside_shard_map(function: str, manual: set[str]):
    f, over = reducer(function, (1,)), mesh(LAYOUTS["two axes"][0])
    slope = jax.grad(lambda x: f(x).sum())
    spec = P("a", None, "b") if "b" in manual else P("a")
    inside = jax.shard_map(slope, mesh=over, in_specs=spec, out_specs=spec, axis_names=manual)
    x = placed("two axes")
    assert not collectives(inside, x)
    np.testing.assert_allclose(jax.jit(inside)(x), slope(jnp.asarray(values())), rtol=1e-5)


@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2)], ids=str)
@pytest.mark.parametrize("function", SMOOTH)
def test_derivatives_of_a_shard_map(function: str, axes: tuple[int, ...]):
    """Forms of rows are chosen by platform: there all have types that vary over the mesh."""
    f, x = reducer(function, axes), jnp.asarray(values())
    mapped = jax.shard_map(f, mesh=mesh((8,)), in_specs=P("a"), out_specs=P("a"))

    def both_ways(f: Callable[[jax.Array], jax.Array], x: jax.Array) -> tuple[jax.Array, ...]:
        return jax.grad(lambda x: f(x).sum())(x), *jax.jvp(f, (x,), (x,))

    got, expected = (compiled_soon(functools.partial(both_ways, f))(x) for f in (mapped, f))
    for result, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, other, rtol=2e-5)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_of_a_product_with_zeros(layout: str, axes: tuple[int, ...]):
    x = values()
    x[3, 5], x[11, 5, 7], x[:, :, 9] = 0, 0, 1e-30  # one and two zeros; a product that underflows
    slope = compiled_soon(jax.grad(lambda x: dml_jax.reduce(x, "MULTIPLY", axes).sum()))
    wide = np.moveaxis(x.astype(np.float64), axes, range(len(axes)))
    others = wide.reshape(-1, *wide.shape[len(axes) :])
    others = np.stack([np.delete(others, i, 0).prod(0) for i in range(len(others))])
    want = np.moveaxis(others.reshape(wide.shape), range(len(axes)), axes)
    sizes, spec = LAYOUTS[layout]
    np.testing.assert_allclose(slope(on_mesh(x, spec, sizes)), want, rtol=1e-4, atol=1e-37)


@pytest.mark.parametrize("function", ["SUM", "MAX", "LOG_SUM_EXP", "ARGMIN", "MULTIPLY"])
def test_explicit_meshes_and_shard_map(function: str):
    f, plain = reducer(function, (1,)), jnp.asarray(values())
    x = on_mesh(values(), P("a"), kind=AxisType.Explicit)
    with jax.set_mesh(mesh((8,), AxisType.Explicit)):
        y = jax.jit(f)(x)
        assert jax.typeof(y).sharding.spec == P("a", None, None)
        np.testing.assert_allclose(y, f(plain), rtol=2e-6)
    auto = mesh(LAYOUTS["two axes"][0])
    # Manual over one axis of the mesh, XLA's over the other.
    some = jax.shard_map(f, mesh=auto, in_specs=P("a"), out_specs=P("a"), axis_names={"a"})
    x = placed("two axes")
    assert not collectives(some, x)
    np.testing.assert_allclose(jax.jit(some)(x), f(plain), rtol=2e-6)


@pytest.mark.parametrize("axes", [(0,), (1,)], ids=str)
@pytest.mark.parametrize("function", ["SUM", "MAX", "LOG_SUM_EXP", "L2"])
def test_derivatives_on_explicit_meshes(function: str, axes: tuple[int, ...]):
    """The second ones too, along an axis that is sharded and along one that is not."""
    f = reducer(function, axes)

    def both(x: jax.Array) -> Any:
        return jax.jvp(jax.grad(lambda x: f(x).sum()), (x,), (x,))

    expected = both(jnp.asarray(values()))
    with jax.set_mesh(mesh((8,), AxisType.Explicit)):
        got = jax.jit(both)(on_mesh(values(), P("a"), kind=AxisType.Explicit))
    for result, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, other, rtol=1e-5, atol=1e-6)


def test_rows_that_devices_share_unevenly():
    x = normal(8, 12)

    def f(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh((8,)), P("a")))[:6]
        return dml_jax.reduce(y, "MAX", [0]), dml_jax.argmin(y, [0])

    greatest, least = jax.jit(f)(x)
    np.testing.assert_array_equal(greatest[0], x[:6].max(0))
    np.testing.assert_array_equal(least[0], x[:6].argmin(0))


IMAGES = (16, 16, 32, 64)
# An operator, and the layouts that it treats elementwise.
ELEMENTWISE: dict[str, tuple[Callable[[jax.Array], Any], list[P]]] = {
    "clip": (
        lambda x: dml_jax.clip(x, -1, 1),
        [P("a"), P(None, "a"), P(None, None, "a"), P(None, None, None, "a")],
    ),
    "clip_grad": (lambda x: dml_jax.clip_grad(x, 2 * x, -1, 1), [P("a"), P(None, "a")]),
    "split": (lambda x: dml_jax.split(x, 1, [7, 9]), [P("a"), P(None, None, "a")]),
    "join": (lambda x: dml_jax.join([x, x], 1), [P("a"), P(None, None, None, "a")]),
    "tile": (lambda x: dml_jax.tile(x, [1, 2, 1, 3]), [P("a"), P(None, None, "a")]),
    "depth_to_space": (lambda x: dml_jax.depth_to_space(x, 2), [P("a"), P(None, None, "a")]),
    "space_to_depth": (lambda x: dml_jax.space_to_depth(x, 2), [P("a"), P(None, None, "a")]),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_dimensions_send_nothing(name: str):
    f, specs = ELEMENTWISE[name]
    plain = normal(*IMAGES)
    for spec in specs:
        x = on_mesh(plain, spec)
        assert not collectives(f, x), spec
        assert_equal(jax.jit(f)(x), f(jnp.asarray(plain)))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_sharded_batch_stays_where_it_is(name: str, kind: AxisType):
    """Eagerly and jitted, on meshes that XLA lays out and on those that types do."""
    f, plain = ELEMENTWISE[name][0], normal(*IMAGES)
    with jax.set_mesh(mesh((8,), kind)):
        x = on_mesh(plain, P("a"), kind=kind)
        assert not collectives(f, x)
        for results in (f(x), jax.jit(f)(x)):
            assert_equal(results, f(jnp.asarray(plain)))
            for got in jax.tree.leaves(results):
                assert got.sharding.shard_shape(got.shape)[0] == IMAGES[0] // 8


@pytest.mark.parametrize("spec", [P(None, "a"), P(None, None, "a"), P(None, None, None, "a")])
def test_one_device_of_an_explicit_mesh(spec: P):
    """Short rows of narrow elements, whose axes go as one elsewhere, are sharded over it."""
    x = np.random.default_rng(0).integers(0, 9, (64, 16, 7, 7)).astype(np.float16)
    total, tiled = reducer("SUM", (0,)), functools.partial(dml_jax.tile, repeats=(2, 1, 1, 1))
    expected = total(jnp.asarray(x)), 2 * x
    with jax.set_mesh(mesh((1,), AxisType.Explicit)):
        xs, ys = (on_mesh(z, spec, (1,), AxisType.Explicit) for z in (x, np.concatenate([x, x])))
        got = jax.jit(lambda x, y: (total(x), jax.vjp(tiled, x)[1](y)[0]))(xs, ys)
    assert_equal(got, expected)


def test_graphs_and_compiled_operators():
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT32", IMAGES))
    pixels = dml_jax.depth_to_space(dml_jax.clip(image, -1, 1), 2)
    graph = builder.build({"pixels": pixels, "best": dml_jax.argmax(pixels, [0])})
    x = on_mesh(normal(*IMAGES), P("a"))
    compiled = compile(graph, in_shardings=x.sharding)
    pixels, best = compiled(x)
    np.testing.assert_array_equal(best[0], np.asarray(pixels).argmax(0))
    assert not re.search(r"= \S+ all-gather", compiled.as_text())
    assert len(re.findall(r" all-reduce(?:-start)?\(", compiled.as_text())) == 1


def test_exported_programs_of_eight_devices():
    x = on_mesh(values(), P("a"))
    compiled = compile(reducer("MAX", (0,)), jnp.asarray(values()), in_shardings=x.sharding)
    assert jax.export.deserialize(bytearray(compiled.export())).nr_devices == 8


def test_a_program_of_several_devices_has_no_form_of_one():
    """Of many elements, in short rows, along an axis that is not the first."""
    x = np.random.default_rng(1).integers(0, 200, (24, 16, 40, 17)).astype(np.uint8)
    op = dml_jax.ElementWiseClip.infer(input_tensor=TensorDesc.of(x), min=50, max=150)
    sharded = on_mesh(x, P(None, "a"))
    assert collectives(op, sharded) == []
    result = op(sharded)
    assert result.sharding == sharded.sharding
    np.testing.assert_array_equal(result, x.clip(50, 150))


def test_what_is_lowered_says_what_it_computes():
    """JAX's compilation cache goes by it; addresses, which come again, are no name."""

    def lowered(function: str, axes: tuple[int, ...]) -> str:
        text = jax.jit(reducer(function, axes)).lower(placed("first")).as_text()
        text = text[text.index("{") :]  # without the module's name
        assert "CustomSPMDPartitioning" in text or function == "MULTIPLY"
        return re.sub(r'backend_config = "\d+"', "", text)

    kinds = [(function, axes) for function in FUNCTIONS for axes in ((0,), (0, 2))]
    texts = {kind: lowered(*kind) for kind in kinds}
    assert len({*texts.values()}) == len(kinds)
    jax.clear_caches()
    assert lowered("MAX", (0,)) == texts["MAX", (0,)]


@pytest.mark.parametrize("function", ["SUM", "MAX", "ARGMAX", "LOG_SUM_EXP", "MULTIPLY"])
def test_nothing_of_a_trace_is_left(function: str):
    with jax.checking_leaks():
        reducer(function, (0,))(placed("first"))
