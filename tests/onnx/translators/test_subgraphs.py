"""If, Loop and Scan of ONNX networks, decided at load or while the program runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import command, parse, refusal, runtime, same_as_runtime, saved
from onnx import numpy_helper

from dml_jax import Graph, load_onnx
from dml_jax.graph import cut
from dml_jax.onnxruntime import InferenceSession

X = np.array([0.5, -1, 2, 3], np.float32)
XS = np.random.RandomState(0).randn(3, 4).astype(np.float32)
SIX = np.random.RandomState(3).randn(6, 4).astype(np.float32)
ROWS = XS.reshape(1, 6, 2)[:, :5]

BRANCHES = """g (bool c, float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}> {
    z = Mul(x, w)
    r = If (c) <
        then_branch = t () => (float[4] a) { q = Relu(z) a = Add(q, w) },
        else_branch = e () => (float[4] b) { q = Neg(z) b = Sub(q, x) }>
    y = Add(r, z)
}"""
WHILE = """g (int64 M, float[4] x) => (float[4] y) <float[4] w = {1, 2, 3, 4}, bool t = {1}> {
    y = Loop (M, t, x) <body = b (int64 i, bool c, float[4] s) => (bool go, float[4] r) {
        most = Constant<value_float = 50.0>()
        number = Cast<to = 1>(i)
        sum = Add(s, w)
        r = Add(sum, number)
        top = ReduceMax<keepdims = 0>(r)
        go = Less(top, most)
    }>
}"""
COUNTED = """g (float[4] x) => (float[4] y, float[n, 4] ys)
<float[4] w = {1, 2, 3, 4}, bool t = {1}, int64 M = {COUNT}> {
    y, ys = Loop (M, t, x) <
        body = b (int64 i, bool c, float[4] s) => (bool go, float[4] r, float[4] e) {
            number = Cast<to = 1>(i)
            product = Mul(s, w)
            sum = Add(product, number)
            r = Tanh(sum)
            e = Identity(r)
            go = Identity(c)
        }>
}"""
GROWING = """g (float[4] x) => (float[20] y) <bool t = {1}, int64 M = {4}> {
    y = Loop (M, t, x) <body = b (int64 i, bool c, float[n] s) => (bool go, float[m] r) {
        r = Concat<axis = 0>(s, x)
        go = Identity(c)
    }>
}"""
FIRST = """g (float[4] x) => (float[4] y, int64 n)
<bool t = {1}, float s = {2}, int64 M = {100}, int64 z = {0}> {
    y, n = Loop (M, t, s, z) <
        body = b (int64 i, bool c, float[n] s, int64 j) => (bool go, float[4] r, int64 k) {
            sum = Add(x, s)
            r = Mul(sum, x)
            k = Add(i, j)
            top = ReduceMax<keepdims = 0>(r)
            most = Constant<value_float = 1000.0>()
            go = Less(top, most)
        }>
}"""
NESTED = """g (int64 M, float[4] x) => (float[4] y) <bool t = {1}, float[4] w = {1, 2, 3, 4}> {
    y = Loop (M, t, x) <body = b (int64 i, bool c, float[4] s) => (bool go, float[4] r) {
        two = Constant<value_int = 2>()
        zero = Constant<value_int = 0>()
        rest = Mod(i, two)
        is_even = Equal(rest, zero)
        r = If (is_even) <
            then_branch = t1 () => (float[4] a) { a = Add(s, w) },
            else_branch = e1 () => (float[4] b) { b = Neg(s) }>
        go = Identity(c)
    }>
}"""
FUNCTION = """g (float[4] x, float[3, 4] xs) => (float[4] y, float[3, 4] ys) {
    y, ys = Scan <num_scan_inputs = 1, scan_input_directions = [1],
        body = b (float[4] s, float[4] e) => (float[4] r, float[4] o) {
            r = Add(s, e)
            o = Mul(r, x)
        }>(x, xs)
}"""
UNTIL = """g (float[4] x) => (float[4] y) <bool t = {1}> {
    y = Loop ("", t, x) <body = b (int64 i, bool c, float[4] s) => (bool go, float[4] r) {
        r = Add(s, s)
        top = ReduceMax<keepdims = 0>(r)
        most = Constant<value_float = 50.0>()
        go = Less(top, most)
    }>
}"""
ONCE = """g (float[4] x) => (float[4] y, float[n, 4] ys) <bool t = {1}, int64 M = {1000}> {
    y, ys = Loop (M, t, x) <
        body = b (int64 i, bool c, float[4] s) => (bool go, float[4] r, float[4] e) {
            r = Add(s, s)
            e = Neg(r)
            go = Constant<value = bool {0}>()
        }>
}"""
ASSIGNED = """g (int64 M, float[1, 5, 2] x) => (float[1, 5, 2] y, int64[1] n)
<bool t = {1}, int64[1] start = {START}> {
    y, n = Loop (M, t, x, start) <
        body = b (int64 k, bool c, float[1, 5, 2] s, int64[1] i)
            => (bool go, float[1, 5, 2] r, int64[1] j) {
            one = Constant<value = int64[1] {1}>()
            j = Add(i, one)
            sizes = Shape(s)
            size = Gather(sizes, one)
            last = Min(j, size)
            part = Slice(s, i, last, one, one)
            shape = Shape(part)
            number = Cast<to = 1>(j)
            value = Expand(number, shape)
            first = Squeeze(i)
            behind = Squeeze(last)
            step = Squeeze(one)
            places = Range(first, behind, step)
            layout = Constant<value_ints = [1, -1, 1]>()
            column = Reshape(places, layout)
            times = Constant<value_ints = [1, 1, 2]>()
            indices = Tile(column, times)
            r = ScatterElements<axis = 1>(s, indices, value)
            top = ReduceMax<keepdims = 0>(r)
            most = Constant<value_float = 100.0>()
            go = Less(top, most)
        }>
}"""
NEVER = COUNTED.replace("t = {1}", "t = {0}").replace("COUNT", "1000")
SEQUENCES = {
    "parts": """g (float[6, 4] x) => (float[n, m] y, int64 k)
    <int64 two = {2}, int64 one = {1}, int64 zero = {0}> {
        s = SplitToSequence<axis = 0>(x, two)
        a = SequenceAt(s, one)
        r = Relu(a)
        t = SequenceInsert(s, r, zero)
        u = SequenceErase(t)
        k = SequenceLength(u)
        y = ConcatFromSequence<axis = 1>(u)
    }""",
    "a loop": """g (float[6, 4] x) => (float[n, m, l] y) <bool t = {1}, int64 M = {3}> {
        e = SequenceEmpty()
        q = Loop(M, t, e) <
            body = b (int64 i, bool c, seq(float[6, 4]) s) => (bool go, seq(float[6, 4]) r) {
                number = Cast<to = 1>(i)
                product = Mul(x, number)
                r = SequenceInsert(s, product)
                go = Identity(c)
            }>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(q)
    }""",
    "each part": """g (float[6, 4] x) => (float[n, m] y) {
        s = SplitToSequence<axis = 0, keepdims = 0>(x)
        q = SequenceMap(s) <body = b (float[4] a) => (float[4] r) { r = Exp(a) }>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(q)
    }""",
    "an optional": """g (float[6, 4] x) => (float[n, m] y, bool z) {
        o = Optional(x)
        z = OptionalHasElement(o)
        e = OptionalGetElement(o)
        y = Neg(e)
    }""",
}

Inputs = Mapping[str, np.ndarray]
CASES: dict[str, tuple[str, Inputs]] = {
    "the first branch": (BRANCHES, {"c": np.array(True), "x": X}),
    "the second branch": (BRANCHES, {"c": np.array(False), "x": X}),
    "a loop that its number ends": (WHILE, {"M": np.array(3), "x": X}),
    "a loop that its condition ends": (WHILE, {"M": np.array(1000), "x": X}),
    "a loop without a number": (UNTIL, {"x": X}),
    "a short loop": (COUNTED.replace("COUNT", "3"), {"x": X}),
    "a long loop": (COUNTED.replace("COUNT", "100"), {"x": X}),
    "a loop that grows": (GROWING, {"x": X}),
    "a loop that ends itself": (ONCE, {"x": X}),
    "a branch in a loop": (NESTED, {"M": np.array(5), "x": X}),
    "a scan": (FUNCTION, {"x": X, "xs": XS}),
    **{f"a sequence: {name}": (text, {"x": SIX}) for name, text in SEQUENCES.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_onnx_runtime(name: str):
    text, inputs = CASES[name]
    same_as_runtime(parse(text), inputs)


@pytest.mark.parametrize(("start", "turns"), [(1, 3), (3, 4), (-4, 2)])
def test_a_loop_assigns_rows_at_its_counter(start: int, turns: int):
    """Also where the rows end before the loop does."""
    model = parse(ASSIGNED.replace("START", str(start)))
    inputs = {"M": np.array(turns), "x": ROWS}
    results = InferenceSession(model.SerializeToString()).run(None, inputs)
    for result, expected in zip(results, runtime(model, inputs), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_state_that_grows_in_the_first_turn():
    """Its first turn is written out; the others know that it was one, and what it gave."""
    model = parse(FIRST)
    results = InferenceSession(model.SerializeToString()).run(None, {"x": X})
    for result, expected in zip(results, runtime(model, {"x": X}), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    counted = FIRST.replace("g (float[4] x)", "g (int64 M, float[4] x)")
    message = refusal(parse(counted.replace(", int64 M = {100}", "")))
    assert "keep v_initial 0 as FLOAT[]" in message


def test_a_loop_of_no_turns_gives_its_initial_value():
    results = load_onnx(parse(NEVER))(X)
    np.testing.assert_array_equal(results["y"], X)
    assert results["ys"].shape == (0, 4)


def test_a_loop_is_written_out_where_it_is_short():
    assert not load_onnx(parse(COUNTED.replace("COUNT", "3"))).report().count("Loop")
    report = load_onnx(parse(COUNTED.replace("COUNT", "100"))).report()
    assert "Node 'y' (Loop): it is decided while the program runs" in report
    assert "4 operators" in report


def test_sequences_that_are_no_tensors_are_refused():
    split = SEQUENCES["parts"].replace("two = {2}", "two = {9}")
    assert "'a' (SequenceAt): expected position to be in [-1, 0], got 1" in refusal(parse(split))
    kept = """g (float[6, 4] x) => (seq(float[1, 4]) y) { y = SplitToSequence<axis = 0>(x) }"""
    message = refusal(parse(kept))
    assert "the output 'y' to be a tensor (SequenceAt and ConcatFromSequence" in message


def test_a_graph_is_cut_between_decisions_for_json():
    parts = cut(load_onnx(parse(BRANCHES)).graph)  # before the If, its branches, and behind it
    assert [len(part.nodes) for part in parts] == [1, 2, 2, 1]
    first, then, other, last = (Graph.from_json(part.to_json()) for part in parts)
    w = np.array([1, 2, 3, 4], np.float32)
    z = np.asarray(first(X, w))
    np.testing.assert_array_equal(z, X * w)
    np.testing.assert_array_equal(then(z, w), np.maximum(z, 0) + w)
    np.testing.assert_array_equal(other(z, X), -z - X)
    np.testing.assert_array_equal(last(w, z), w + z)


def test_the_command_line_shows_and_runs_what_it_decides(tmp_path: Path):
    path = saved(BRANCHES, tmp_path)
    for name in ("show", "check"):
        told = command(name, path).stdout
        assert "6 nodes" in told
        assert "By JAX: Node 'r' (If): it is decided while the program runs" in told
    command("run", path)
    command("show", path, "-o", tmp_path / "m.svg")
    assert "ACTIVATION_RELU" in (tmp_path / "m.svg").read_text()


def test_a_decision_is_differentiated_and_mapped():
    network = load_onnx(parse(BRANCHES))

    def total(weights: Any, x: jax.Array, condition: jax.Array) -> jax.Array:
        return network.apply(weights, {"x": x, "c": condition})["y"].sum()

    x, w, gradient = jnp.asarray(X), network.weights["w"], jax.jit(jax.grad(total))
    found = gradient(network.weights, x, jnp.array(True))["w"]
    # y = relu(x * w) + w + x * w
    np.testing.assert_allclose(found, np.where(X * w > 0, 2 * X, X) + 1, rtol=1e-5)
    found = gradient(network.weights, x, jnp.array(False))["w"]
    np.testing.assert_allclose(found, np.zeros(4), atol=1e-6)  # y = -x * w - x + x * w
    mapped, alone = jax.jit(jax.vmap(total, (None, None, 0))), jax.jit(total)
    both = mapped(network.weights, x, jnp.array([True, False]))
    single = [alone(network.weights, x, jnp.array(flag)) for flag in (True, False)]
    np.testing.assert_allclose(both, single, rtol=1e-5)


def test_a_loop_of_a_known_number_of_turns_is_differentiated():
    network = load_onnx(parse(COUNTED.replace("COUNT", "40")))

    def last(x: jax.Array) -> jax.Array:
        return network.apply(network.weights, {"x": x})["ys"][1].sum()

    w, step = np.array([1, 2, 3, 4]), 1e-3
    first = np.tanh(X * w)
    expected = (1 - np.tanh(first * w + 1) ** 2) * w * (1 - first**2) * w
    np.testing.assert_allclose(jax.grad(last)(jnp.asarray(X)), expected, rtol=1e-3, atol=step**2)


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_that_does_not_fit_is_left_out_where_the_condition_is_an_initializer(flag: bool):
    """Test a model whose branches take inputs of different sizes, as for two sample rates."""
    text = """g (int64 rate, float[1,4] x) => (float[1,n] y) <int64 high = {16}> {
        is_high = Equal(rate, high)
        y = If (is_high) <
            then_branch = t () => (float[1,4] a) {
                w4 = Constant<value = float[1,4] {1, 2, 3, 4}>() a = Add(x, w4) },
            else_branch = e () => (float[1,3] b) {
                w3 = Constant<value = float[4,3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 8, 7, 6}>()
                b = MatMul(x, w3) }>
    }"""
    model, x = parse(text), XS[:1]
    assert "--constant rate:NUMBERS" in refusal(model, input_shapes={"x": [1, 4]})
    rate = 16 if flag else 8
    expected = runtime(model, {"x": x, "rate": np.array(rate)})[0]
    network = load_onnx(model, constants={"rate": rate})
    np.testing.assert_allclose(network(x)["y"], expected, rtol=1e-5)
    model.graph.initializer.append(numpy_helper.from_array(np.array(24 - rate), "rate"))
    twin = load_onnx(model, constants={"rate": rate})  # in place of the initializer
    np.testing.assert_allclose(twin(x)["y"], expected, rtol=1e-5)
    for message, constants in {
        "name an input (did you mean 'rate'?), got 'rat'": {"rat": 1},
        "hold numbers that int64 holds, got 0.5": {"rate": 0.5},
        "have the sizes [], got [2]": {"rate": [1, 2]},
    }.items():
        assert message in refusal(model, constants=constants)


def test_what_cannot_be_decided_later_is_refused():
    other = BRANCHES.replace("b = Sub(q, x)", "b = Concat<axis = 0>(q, x)")
    message = refusal(parse(other))
    assert "expected else_branch to give what then_branch gives" in message
    assert "constants={'c': ...}" in message
    asked = "(float[4] x) =>", "(float[4] x, int64 M) =>"
    late = COUNTED.replace(", int64 M = {COUNT}", "").replace(*asked)
    message = refusal(parse(late))
    assert "expected M to be known at load, since the outputs of all turns" in message
    assert "constants={'M': ...}" in message
    growing = GROWING.replace(", int64 M = {4}", "").replace(*asked)
    assert "keep v_initial 0 as FLOAT[4]" in refusal(parse(growing))
    unknown = WHILE.replace("Add(s, w)", "Foo(s, w)")
    assert "Node 'y' (Loop): body: Node 'sum' (Foo): expected op type" in refusal(parse(unknown))
