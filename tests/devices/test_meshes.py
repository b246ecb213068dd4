"""Every operator on a mesh of four devices, one input at a time sharded: the answers of one device.

On automatic and on explicit axes a device has a part of an array. Inside `jax.shard_map` an
operator describes what one device holds, and each device has other values.
"""

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forms import compiled_soon
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from nightly import NIGHTLY, sample
from records import combinations, record_of
from several_devices import SEVERAL

import dml_jax
from dml_jax import DmlError
from dml_jax.operator import OPERATORS, Operator

DEVICES = 4
DRAWS = 60 if NIGHTLY else 30
BUILT = [op for op in OPERATORS.values() if any(not f.tensor.output for f in op.fields if f.tensor)]
WITHOUT_INPUTS = {"DIAGONAL_MATRIX", "FILL_VALUE_CONSTANT", "FILL_VALUE_SEQUENCE"}
REPRESENTATIVES = list({op.family: op for op in BUILT}.values())
TESTED = BUILT if NIGHTLY else REPRESENTATIVES
Case = tuple[int, int]  # an input, and an axis of it


class _Fours(np.random.Generator):
    """Random numbers of which a small size is often the number of devices."""

    def integers(self, low: Any, high: Any = None, size: Any = None, **rest: Any) -> Any:  # pyright: ignore
        drawn = super().integers(low, high, size, **rest)
        if low not in (1, 2) or high is None or high > 8:
            return drawn
        drawn = np.where(self.random(size) < 0.5, DEVICES, drawn)
        return int(drawn) if size is None else drawn


def mesh(kind: AxisType) -> jax.sharding.Mesh:
    return jax.make_mesh((DEVICES,), ("a",), axis_types=(kind,), devices=SEVERAL[:DEVICES])


def drawn(op_class: type[Operator]) -> Iterator[tuple[Operator, list[np.ndarray]]]:
    """Draw operators with arrays, some of whose axes four devices can share."""
    record = record_of(op_class)
    rng = _Fours(np.random.PCG64(zlib.crc32(op_class.short_name.encode())))
    every = [types for types, _ in combinations(op_class, record)]
    some = [types for types in every if "FLOAT32" in types.values()] or every
    for _ in range(DRAWS):
        try:
            op = record.operator(rng, op_class, some[int(rng.random() * len(some))])
        except (DmlError, ValueError, KeyError):  # a size that does not fit the others
            continue
        yield op, record.arrays(rng, op)


def uses(op_class: type[Operator]) -> Iterator[tuple[Operator, list[np.ndarray], list[Case]]]:
    """Return operators and the axes to shard: the first one of each input, nightly every axis.

    An axis is sharded once, by the name of the input; where the first one always has a size of 1,
    the first axis that has not.
    """
    seen: set[tuple[str, int]] = set()
    for op, arrays in drawn(op_class):
        names = [name for _, name, _ in op.tensors(output=False)]
        cases: list[Case] = []
        for k, (name, x) in enumerate(zip(names, arrays, strict=True)):
            axes = [d for d, n in enumerate(x.shape) if n and n % DEVICES == 0]
            for d in axes if NIGHTLY else axes[:1]:
                if (name, d if NIGHTLY else 0) not in seen:
                    seen.add((name, d if NIGHTLY else 0))
                    cases.append((k, d))
        if cases:
            yield op, arrays, cases


def by_input(op: Operator) -> Callable[..., Any]:
    """Return the function of inputs and `k` that gives the results, and the derivative by input k.

    The derivative is that of the sum of the results; without floats there is none.
    """
    record = record_of(type(op))
    is_float = [jnp.issubdtype(tensor.dtype, jnp.floating) for tensor in op.inputs]
    is_smooth = not record.no_gradient and any(
        jnp.issubdtype(tensor.dtype, jnp.floating) for tensor in op.outputs
    )

    def call(xs: Sequence[Any], k: int) -> Any:
        def total(x: Any) -> Any:
            results = jax.tree.leaves(op(*xs[:k], x, *xs[k + 1 :]))
            floats = [y for y in results if jnp.issubdtype(y.dtype, jnp.floating)]
            return sum(y.astype(jnp.float32).sum() for y in floats), results

        if not (is_smooth and is_float[k]):
            return total(xs[k])[1]
        slope, results = jax.grad(total, has_aux=True)(xs[k])
        return [*results, slope]

    return call


def by_cases(op: Operator, cases: Sequence[Case]) -> Callable[..., Any]:
    """Return the program of the inputs of each case that gives what `by_input` does."""
    call = by_input(op)
    return compiled_soon(lambda sets: [call(xs, k) for xs, (k, _) in zip(sets, cases, strict=True)])


def check(got: Any, expected: Any, op: Operator) -> None:
    for result, other in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        with np.errstate(invalid="ignore"):  # of NaN that signal
            wide = [
                np.asarray(x, np.float64) if x.dtype.kind not in "iub" else x
                for x in (result, other)
            ]
        least = 2e-3 if other.dtype == np.float16 else 1e-4
        np.testing.assert_allclose(*wide, rtol=least, atol=least, err_msg=str(op))


@pytest.mark.parametrize("op_class", sample(TESTED), ids=lambda op: op.short_name)
def test_an_input_is_sharded(op_class: type[Operator]):
    for op, arrays, cases in itertools.islice(uses(op_class), None if NIGHTLY else 1):
        program = by_cases(op, cases)
        expected = program([arrays] * len(cases))
        for kind in (AxisType.Explicit, AxisType.Auto) if NIGHTLY else (AxisType.Explicit,):
            over = mesh(kind)
            placed = []
            for k, d in cases:
                xs = [jax.device_put(x, NamedSharding(over, P())) for x in arrays]
                xs[k] = jax.device_put(arrays[k], NamedSharding(over, P(*[None] * d, "a")))
                placed.append(xs)
            with jax.set_mesh(over):
                check(program(placed), expected, op)


@pytest.mark.parametrize("op_class", sample(TESTED, 1), ids=lambda op: op.short_name)
def test_each_device_has_its_own_input(op_class: type[Operator]):
    """Of one input; the others are those of all devices."""
    op, arrays = next((op, arrays) for op, arrays in drawn(op_class) if arrays)
    record, rng, call = record_of(op_class), np.random.default_rng(0), by_input(op)
    others = [record.arrays(rng, op) for _ in range(DEVICES)]
    numbers = range(len(arrays)) if NIGHTLY else [0]
    sets = [[xs[k] for xs in others] for k in numbers]

    def each(parts: Sequence[Any], xs: Sequence[Any]) -> Any:
        """Return the results of each input `k`, where `parts[k]` stands for it."""
        return [
            [y[None] for y in call([*xs[:k], part[0], *xs[k + 1 :]], k)]
            for k, part in zip(numbers, parts, strict=True)
        ]

    spread = jax.shard_map(each, mesh=mesh(AxisType.Auto), in_specs=(P("a"), P()), out_specs=P("a"))
    got = compiled_soon(spread)([np.stack(parts) for parts in sets], arrays)
    one = compiled_soon(each)
    rows = [one([parts[i][None] for parts in sets], arrays) for i in range(DEVICES)]
    check(got, jax.tree.map(lambda *ys: np.concatenate(ys), *rows), op)


def test_operators_that_are_left_out_have_no_input():
    assert {op.short_name for op in OPERATORS.values() if op not in BUILT} == WITHOUT_INPUTS


def test_recurrences_begin_with_zeros_inside_shard_map():
    x, w = (np.random.default_rng(k).normal(size=(1, 3, 4, 2)).astype(np.float32) for k in (0, 1))
    weight = w[:, :1, :2]

    def run(x: Any, w: Any) -> Any:
        tanh = dml_jax.ActivationTanh
        return dml_jax.rnn(x, w, w, [tanh], "FORWARD").sequence

    spec = P(None, None, "a")
    over = mesh(AxisType.Auto)
    mapped = jax.shard_map(run, mesh=over, in_specs=(spec, P()), out_specs=spec)
    np.testing.assert_allclose(jax.jit(mapped)(x, weight), run(x, weight), rtol=1e-5)


def test_random_bits_on_a_mesh():
    """One device and four give the same bits."""
    state = np.array([[0, 0, 0, 0, 7, 9]], np.uint32)
    expected = dml_jax.random_generator(state, [8]).values
    for kind in (AxisType.Auto, AxisType.Explicit):
        over = mesh(kind)
        with jax.set_mesh(over):
            alike = jax.device_put(state, NamedSharding(over, P()))
            got = jax.jit(lambda s: dml_jax.random_generator(s, [8]).values)(alike)
        np.testing.assert_array_equal(got, expected)


def test_strided_slices_of_a_sharded_axis():
    """Each of one or several elements."""
    x = np.arange(1, 9, dtype=np.float32)
    slices = [(a, b, s) for s in (2, 3, 4) for a in (0, 1, 3) for b in (a + 1, 5, 8)]

    def cuts(x: Any) -> Any:
        return [dml_jax.slice(x, [a], [b - a], [s]) for a, b, s in slices]

    sharded = jax.device_put(x, NamedSharding(mesh(AxisType.Auto), P("a")))
    for got, (a, b, s) in zip(jax.jit(cuts)(sharded), slices, strict=True):
        np.testing.assert_array_equal(got, x[a:b:s])


def test_a_result_is_sharded_as_the_inputs():
    """A batch, the columns of a weight, and an axis that no other result has."""
    over = mesh(AxisType.Explicit)
    x, w = np.ones((8, 4), np.float32), np.ones((16, 4), np.float32)
    product = jax.jit(lambda x, w: dml_jax.gemm(x, w, trans_b="TRANSPOSE"))
    with jax.set_mesh(over):
        rows, whole = (NamedSharding(over, P(*names)) for names in (("a",), ()))
        given = jax.device_put(x, rows), jax.device_put(w, whole)
        assert jax.typeof(product(*given)).sharding.spec == P("a", None)
        given = jax.device_put(x, whole), jax.device_put(w, rows)
        assert jax.typeof(product(*given)).sharding.spec == P(None, "a")
