"""Every operator with derivatives, under the transformations of JAX: the answers agree."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import compiled_soon
from jax.experimental import jet
from nightly import sample
from records import combinations, record_of, why_no_derivatives
from several_devices import SEVERAL

import dml_jax
from dml_jax.operator import OPERATORS, Operator

SMOOTH = [op for op in OPERATORS.values() if not why_no_derivatives(op)]
TESTED = list({*sample(SMOOTH, of=24), dml_jax.Fold, dml_jax.Convolution})
TESTED.sort(key=lambda op: op.short_name)
Arrays = tuple[Any, ...]


def drawn(op_class: type[Operator]) -> tuple[Callable[..., Any], Arrays, Arrays]:
    """Return a function of the float inputs to one number, a point, and a direction."""
    record, rng = record_of(op_class), np.random.default_rng(1)
    every = [types for types, _ in combinations(op_class, record) if "FLOAT32" in types.values()]
    for types in every:
        op = record.operator(rng, op_class, types)
        arrays: list[Any] = [
            a + np.float32(0.03) if a.dtype == np.float32 else a for a in record.arrays(rng, op)
        ]
        places = [k for k, a in enumerate(arrays) if a.dtype == np.float32]
        if places and any(t.dtype.kind == "f" for t in op.outputs):
            break
    else:
        pytest.fail(f"{op_class.c_name} has no floats")

    def floats(*given: Any) -> list[Any]:
        """Return the results that are floats; of no elements a maximum is not finite."""
        results = jax.tree.leaves(op(*given))
        found = [y.astype(np.float32) for y in results if jnp.issubdtype(y.dtype, jnp.floating)]
        return [jnp.where(jnp.isfinite(y), y, 0) for y in found]

    # The sine of a large number would tell the roundings of FLOAT32.
    scales = [np.float32(max(1, abs(np.asarray(y)).max(initial=0))) for y in floats(*arrays)]

    def loss(*xs: Any) -> Any:
        given = dict(enumerate(arrays)) | dict(zip(places, xs, strict=True))
        pairs = zip(floats(*given.values()), scales, strict=True)
        return sum(jnp.sin(y / scale).sum() for y, scale in pairs)

    point = tuple(arrays[k] for k in places)
    return loss, point, tuple(rng.standard_normal(x.shape).astype(x.dtype) for x in point)


def inner(xs: Any, ys: Any) -> Any:
    return sum(jnp.vdot(x, y) for x, y in zip(xs, ys, strict=True))


def second(f: Callable[..., Any], move: Arrays) -> dict[str, Callable[..., Any]]:
    """Return the second derivative along a direction, in the four orders of modes."""
    every = tuple(range(len(move)))

    def forward(*xs: Any) -> Any:
        return jax.jvp(f, xs, move)[1]

    def reverse(*xs: Any) -> Any:
        return inner(jax.grad(f, every)(*xs), move)

    return {
        "forward, forward": lambda *xs: jax.jvp(forward, xs, move)[1],
        "forward over reverse": lambda *xs: jax.jvp(reverse, xs, move)[1],
        "reverse over forward": lambda *xs: inner(jax.grad(forward, every)(*xs), move),
        "reverse, reverse": lambda *xs: inner(jax.grad(reverse, every)(*xs), move),
    }


def in_a_loop(f: Callable[..., Any]) -> Callable[..., Any]:
    def call(*xs: Any) -> Any:
        rows = tuple(x[None] for x in xs)
        return jax.lax.scan(lambda y, row: (y + f(*row), None), jnp.float32(0), rows)[0]

    return call


def assert_one_second_derivative(loss: Callable[..., Any], point: Arrays, move: Arrays) -> None:
    """By itself, in a loop, and in a loop that computes it again."""
    forms = {"": loss, "scan": in_a_loop(loss), "checkpoint": jax.checkpoint(in_a_loop(loss))}
    ways = {(a, b): f for a, form in forms.items() for b, f in second(form, move).items()}
    results = compiled_soon(lambda *xs: {way: f(*xs) for way, f in ways.items()})(*point)
    values = np.array([*results.values()])
    assert np.isfinite(values).all()
    np.testing.assert_allclose(values, values[0], rtol=1e-3, atol=1e-3 * (1 + abs(values[0])))


@pytest.mark.parametrize("op_class", TESTED, ids=lambda op: op.short_name)
def test_second_derivatives(op_class: type[Operator]):
    assert_one_second_derivative(*drawn(op_class))


REDUCTIONS = [
    (function.name, axes)
    for turn, function in enumerate(dml_jax.ReduceFunction)
    for axes in sample([[1], [3], [0, 2]], turn, of=3)
    if not function.name.startswith("ARG")
]


@pytest.mark.parametrize(("function", "axes"), REDUCTIONS)
def test_second_derivatives_of_reductions(function: str, axes: list[int]):
    x, move = np.random.default_rng(0).uniform(0.2, 1.5, (2, 1, 4, 2, 3)).astype(np.float32)
    assert_one_second_derivative(
        lambda x: (dml_jax.reduce(x, function, axes) ** 3).sum(), (x,), (move,)
    )


@pytest.mark.parametrize("op_class", TESTED, ids=lambda op: op.short_name)
def test_first_derivatives(op_class: type[Operator]):
    """Linearized, on the second device, and exported over any batch."""
    loss, point, move = drawn(op_class)
    gradient = jax.grad(loss, tuple(range(len(point))))
    (b,) = jax.export.symbolic_shape("b")
    batch = [jax.ShapeDtypeStruct((b, *x.shape), x.dtype) for x in point]
    exported = jax.export.export(jax.jit(jax.vmap(gradient)))(*batch)
    with jax.debug_nans(True):
        expected = gradient(*point)
    there = [jax.device_put(x, SEVERAL[1]) for x in point]
    ways = [gradient(*there), [g[1] for g in exported.call(*(np.stack([x, x]) for x in point))]]
    for way in ways:
        for got, one in zip(way, expected, strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-4)
    along = jax.linearize(loss, *point)[1](*move)
    np.testing.assert_allclose(along, inner(expected, move), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softplus", "cast"])
def test_taylor_series(name: str):
    """Terms of order 1 to 3 are those of nested derivatives."""
    function = {
        "softmax": functools.partial(dml_jax.activation_softmax, axes=[1]),
        "log_softmax": functools.partial(dml_jax.activation_log_softmax, axes=[1]),
        "softplus": lambda x: dml_jax.activation_softplus(x, 1.5),
        "cast": lambda x: dml_jax.cast(x * x, "FLOAT64"),
    }[name]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    zero = np.zeros_like(x)
    move = np.cos(x)
    _, terms = jet.jet(function, (x,), ((move, zero, zero),))
    along: Any = lambda t: function(x + t * move)  # noqa: E731
    for term in terms:
        along = jax.jacfwd(along)
        np.testing.assert_allclose(term, along(np.float32(0)), rtol=1e-4, atol=1e-4)
