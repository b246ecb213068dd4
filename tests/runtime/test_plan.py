"""What compiles and runs: plans, compiled functions, weights on the device; graphs of few nodes."""

import concurrent.futures
import pickle
import threading
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import parse

import dml_jax
from dml_jax import Graph, GraphBuilder, TensorDesc
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.runtime.executable import Choice, Executable, Planned, Start
from dml_jax.runtime.plan import Plan
from dml_jax.runtime.program_cache import ProgramCache
from dml_jax.runtime.weight_store import Storage, WeightStore

X = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)
W = np.array([[[[2, 3], [5, 7]]]], np.float32)
ON_A_CPU = pytest.mark.skipif(jax.default_backend() != "cpu", reason="quick programs are of CPUs")


def graph_of_weights() -> Graph:
    """Return x + (w + 1) and x * (w + 1), with the sum of w written twice."""
    builder = GraphBuilder()
    x, w = (builder.input_tensor(n, TensorDesc("FLOAT32", [1, 1, 2, 2])) for n in "xw")
    first, second = dml_jax.add(w, 1), dml_jax.add(w, 1)
    return builder.build({"sum": dml_jax.add(x, first), "product": dml_jax.multiply(x, second)})


def test_a_plan_derives_equal_arrays_once():
    plan = Plan.of(graph_of_weights(), ["w"], growth=1)
    assert list(plan.kept) == []
    assert (len(plan.derived), len(plan.aliases)) == (1, 2)
    (derived,) = plan.parameters({"w": W})
    np.testing.assert_array_equal(derived, W + 1)
    found = plan.call([derived], {"x": X})
    np.testing.assert_array_equal(found[0], X + (W + 1))
    np.testing.assert_array_equal(found[1], X * (W + 1))


@pytest.mark.parametrize("growth", [None, 0.5])
def test_a_plan_derives_nothing_that_is_not_asked_for(growth: float | None):
    plan = Plan.of(graph_of_weights(), ["w"], growth)
    assert (list(plan.kept), plan.prepare_graph, len(plan.derived)) == (["w"], None, 0)
    np.testing.assert_array_equal(plan.call(plan.parameters({"w": W}), {"x": X})[0], X + (W + 1))


def test_a_plan_is_a_pure_function():
    plan = Plan.of(graph_of_weights(), ["w"], growth=1)

    def total(w: jax.Array) -> jax.Array:
        return plan.call(plan.parameters({"w": w}), {"x": X})[1].sum()

    np.testing.assert_array_equal(jax.jit(jax.grad(total))(W), X)


def test_a_record_of_a_plan_prepares_without_the_whole_graph():
    plan = Plan.of(graph_of_weights(), ["w"], growth=1)
    read = pickle.loads(pickle.dumps(plan.without_graph()))
    np.testing.assert_array_equal(read.parameters({"w": W})[0], W + 1)
    with pytest.raises(NotImplementedError):
        read.call_graph()


def executable(graph: Graph, storage: Storage) -> Executable:
    def planned(choice: Choice) -> Planned:
        return Planned(Plan.of(graph, ["w"], 1), {}, {})

    return Executable(planned, lambda plan, *given: plan.call(*given), storage, Start(Choice()))


def test_executables_of_one_store_hold_an_array_once():
    graph, store = graph_of_weights(), WeightStore()
    (w,) = store.put([W])
    assert store.put([W])[0] is w
    first, second = (executable(graph, Storage(store)) for _ in range(2))
    ours, theirs = first.parameters({"w": w}), second.parameters({"w": w})
    assert ours[0] is theirs[0]
    assert first.parameters({"w": w}) is ours
    other = first.parameters({"w": jnp.asarray(3 * W)})
    np.testing.assert_array_equal(other[0], 3 * W + 1)
    np.testing.assert_array_equal(first({"w": w}, {"x": X})[0], X + (W + 1))


def doubled(fixed: Any, x: Any) -> Any:
    return fixed[0] * x


@pytest.fixture
def fixed() -> Any:
    return (jnp.asarray(np.float32(2)),)


@pytest.mark.parametrize("how", ["plain", "cached", "quick"])
def test_eight_threads_may_call_first(how: str, fixed: Any, tmp_path: Path):
    cache = ProgramCache(tmp_path, "key") if how == "cached" else None
    function = CompiledFunction("f", doubled, cache=cache, is_quick_first=how == "quick")
    start = threading.Barrier(8)

    def call(k: int) -> bool:
        start.wait()
        return bool((np.asarray(function(fixed, X + k)) == 2 * (X + k)).all())

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(8)))
    assert cache is None or cache.written == 1


def test_another_function_reads_a_kept_program(fixed: Any, tmp_path: Path):
    for read in (0, 1):
        cache = ProgramCache(tmp_path, "key")
        function = CompiledFunction("f", doubled, cache=cache)
        np.testing.assert_array_equal(function(fixed, X), 2 * X)
        assert (cache.read, cache.written) == (read, 1 - read)
        np.testing.assert_array_equal(function(fixed, X[:, :, :1]), 2 * X[:, :, :1])
        np.testing.assert_array_equal(jax.jit(function)(fixed, X), 2 * X)  # as a part of another


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_option_that_xla_refuses_is_left_out(is_kept: bool, fixed: Any, tmp_path: Path):
    cache = ProgramCache(tmp_path, "key") if is_kept else None
    function = CompiledFunction("f", doubled, options={"xla_no_such_option": True}, cache=cache)
    np.testing.assert_array_equal(function(fixed, X), 2 * X)
    with pytest.raises(RuntimeError, match="No such"):
        function.alone(fixed, X)


@ON_A_CPU
def test_the_optimized_program_takes_the_place_of_the_quick_one(fixed: Any):
    function = CompiledFunction("f", doubled, is_quick_first=True)
    function(fixed, X)
    for _ in range(100_000):
        if function.is_optimized:
            break
        np.testing.assert_array_equal(function(fixed, X), 2 * X)
    assert function.is_optimized
    function.forget()
    np.testing.assert_array_equal(function(fixed, X), 2 * X)


def test_what_is_computed_within_a_trace_is_no_tracer():
    function = CompiledFunction("f", lambda fixed: fixed[0] + 1)
    found, fixed = list[Any](), (jnp.asarray(W),)

    @jax.jit
    def traced(x: jax.Array) -> jax.Array:
        found.append(function.compute_now(fixed))
        return x

    traced(X)
    np.testing.assert_array_equal(np.asarray(found[0]), W + 1)


def test_a_network_stays_as_it_is():
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }"
    network = dml_jax.load_onnx(parse(text))
    x, w = np.ones(2, np.float32), jnp.asarray([3, 4], jnp.float32)
    with pytest.raises(AttributeError, match=r"network\.replace\(weights=\.\.\.\)"):
        network.weights = {"w": w}
    other = network.replace(weights={"w": w})
    np.testing.assert_array_equal(other(x)["y"], [3, 4])
    np.testing.assert_array_equal(network(x)["y"], [1, 2])
    with pytest.raises(dml_jax.DmlError, match=r"the weight 'w' to be float32\[2\]"):
        network.replace(weights={"w": w[:1]})
    with pytest.raises(dml_jax.DmlError, match="the weight 'w' to be given"):
        network.replace(weights={})
    network.weights["w"] = w  # entries may change
    np.testing.assert_array_equal(network(x)["y"], [3, 4])
