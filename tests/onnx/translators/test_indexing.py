"""Indices beyond their table are errors, as ONNX Runtime raises them; negative ones count back."""

import re
from typing import Any

import jax
import numpy as np
import onnxruntime as real
import pytest
from build import parse
from onnxruntime.capi import onnxruntime_pybind11_state as real_state  # pyright: ignore

import dml_jax
from dml_jax import DmlError
from dml_jax import onnxruntime as own
from dml_jax.onnxruntime.errors import InvalidArgument

real.set_default_logger_severity(4)

TABLE = np.arange(24, dtype=np.float32).reshape(8, 3)
NUMBERS = {"zero": 0, "one": 1, "three": 3, "far": 5, "yes": True}
DOUBLED = "i = Cast <to = 6> (x)  j = Add (i, i)  k = Cast <to = 7> (j) "
BRANCHES = f"""else_branch = e () => (float[n, 3] q) {{ q = Gather (table, x) }},
    then_branch = t () => (float[n, 3] p) {{ {DOUBLED} p = Gather (table, k) }}"""
BODY = "b (int64 n, bool c, float[3] s) => (bool d, float[3] o) { d = Identity (c) "


def model(text: str) -> Any:
    return parse(text, table=TABLE, **{name: np.array(value) for name, value in NUMBERS.items()})


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def case(text: str, fits: dict[str, Any], beyond: dict[str, Any], text_of: str) -> Any:
    return pytest.param(text, fits, beyond, text_of, id=text_of)


POSITIONS = """g (float[b, s] x) => (float[s, 3] y) {
    n = Shape <start = 1> (x)  m = Squeeze (n)  r = Range (zero, m, one)
    at = Add (r, three)  y = Gather (table, at) }"""
LOOP = f"g (int64 m, float[3] x) => (float[3] y) {{ y = Loop <body = {BODY}"
CASES = [
    case(
        "g (int64[n] x) => (float[n, 3] y) { y = Gather (table, x) }",
        {"x": integers(7, -8)},
        {"x": integers(0, 8)},
        "'y' (Gather): expected the indices 'x' to be in [-8, 7], got 8",
    ),
    case(
        f"g (int64[n] x) => (float[8, n] y) {{ {DOUBLED} y = Gather <axis = 1> (table, k) }}",
        {"x": integers(1, -1)},
        {"x": integers(1, -2)},
        "'y' (Gather): expected the indices 'k' to be in [-3, 2], got -4",
    ),
    case(
        POSITIONS,
        {"x": TABLE[:1, [0, 1, 2, 0, 1]]},
        {"x": TABLE[:1, [0, 1, 2, 0, 1, 2]]},
        "'y' (Gather): expected the indices 'at' to be in [-8, 7], got 8",
    ),
    case(
        "g (float[n, 3] x) => (float[3] y) { y = Gather (x, far) }",
        {"x": TABLE[:6]},
        {"x": TABLE[:5]},
        "'y' (Gather): expected the indices 'far' to be in [-5, 4], got 5",
    ),
    case(
        """g (int64[a, b] x) => (float[a, b] y) {
            k = Mul (x, one)  y = GatherElements <axis = 1> (table, k) }""",
        {"x": integers(-3, 2).reshape(1, 2)},
        {"x": integers(-4, 3).reshape(1, 2)},
        "'y' (GatherElements): expected the indices 'k' to be in [-3, 2], got -4",
    ),
    case(
        "g (int64[n, k] x) => (float[n] y) { y = GatherND (table, x) }",
        {"x": integers(7, -3).reshape(1, 2)},
        {"x": integers(2, 7).reshape(1, 2)},
        "'y' (GatherND): expected the indices 'x' to be in [-3, 2], got 7",
    ),
    case(
        "g (int64[n, k] x, float[n, k] u) => (float[8, 3] y) { y = ScatterElements (table, x, u) }",
        {"x": integers(0, -8, 7).reshape(1, 3), "u": TABLE[:1]},
        {"x": integers(0, 1, -9).reshape(1, 3), "u": TABLE[:1]},
        "'y' (ScatterElements): expected the indices 'x' to be in [-8, 7], got -9",
    ),
    case(
        """g (int64[n, k] x, float[n, 3] u) => (float[8, 3] y) {
            y = ScatterND <reduction = "add"> (table, x, u) }""",
        {"x": integers(7).reshape(1, 1), "u": TABLE[:1]},
        {"x": integers(8).reshape(1, 1), "u": TABLE[:1]},
        "'y' (ScatterND): expected the indices 'x' to be in [-8, 7], got 8",
    ),
    case(
        """g (bool[a, b] x) => (float[n] y) {
            z = NonZero (x)  t = Transpose <perm = [1, 0]> (z)  y = GatherND (table, t) }""",
        {"x": TABLE > 4},
        {"x": np.ones((9, 2), bool)},
        "'y' (GatherND): expected the indices 't' to be in [-8, 7], got 8",
    ),
    case(
        f"g (bool c, int64[n] x) => (float[n, 3] y) {{ y = If <{BRANCHES}> (c) }}",
        {"c": np.array(False), "x": integers(4)},
        {"c": np.array(True), "x": integers(4)},
        "'p' (Gather): expected the indices 'k' to be in [-8, 7], got 8",
    ),
    case(
        f"{LOOP} r = Gather (table, n)  o = Add (s, r) }}> (m, yes, x) }}",
        {"m": np.array(8), "x": TABLE[0]},
        {"m": np.array(9), "x": TABLE[0]},
        "'r' (Gather): expected the indices 'n' to be in [-8, 7], got 8",
    ),
    case(
        """g (int64[n] x) => (float[3] y, float[n, 3] z) {
            h = Gather (table, zero)  y, z = Scan <num_scan_inputs = 1, body = b
            (float[3] s, int64 n) => (float[3] o, float[3] r)
            { r = Gather (table, n)  o = Add (s, r) }> (h, x) }""",
        {"x": integers(1, -8, 7)},
        {"x": integers(1, -9, 7)},
        "'r' (Gather): expected the indices 'n' to be in [-8, 7], got -9",
    ),
]


def networks_of(made: Any, feeds: dict[str, Any]) -> Any:
    shapes = {name: array.shape for name, array in feeds.items()}
    return dml_jax.load_onnx(made, fallback=True, input_shapes=shapes)


@pytest.mark.parametrize(("text", "fits", "beyond", "says"), CASES)
def test_an_index_beyond_its_table_is_an_error(text: str, fits: Any, beyond: Any, says: str):
    made = model(text)
    sessions = [m.InferenceSession(made.SerializeToString()) for m in (own, real)]
    got, wanted = (session.run(None, fits) for session in sessions)
    network = networks_of(made, fits)
    called = network.without_padding(network(fits))
    for name, array, other in zip(called, got, wanted, strict=True):
        np.testing.assert_array_equal(array, other)
        np.testing.assert_array_equal(called[name], other)
    with pytest.raises((real_state.InvalidArgument, real_state.Fail)):
        sessions[1].run(None, beyond)
    for _ in range(2):  # also a program that is there already
        with pytest.raises(InvalidArgument, match=re.escape(says)):
            sessions[0].run(None, beyond)
    with pytest.raises(DmlError, match=re.escape(says)):
        networks_of(made, beyond)(beyond)


@pytest.mark.parametrize("text", [CASES[0].values[0], CASES[1].values[0]])
def test_a_program_of_the_user_gets_no_answer(text: str):
    network = networks_of(model(text), {"x": integers(1, 2)})
    run = jax.jit(network.apply)
    fits, beyond = (run(network.weights, {"x": integers(*x)}) for x in ([1, 0], [1, 9]))
    assert np.isfinite(fits["y"]).all()
    assert np.isnan(beyond["y"]).all()
    assert sorted(beyond) == ["y"]


def test_a_branch_that_is_not_taken_reads_nothing():
    text = """g (bool c, float[n, 3] x) => (float[3] y) { y = If <
        then_branch = t () => (float[3] p) { p = Gather (x, far) },
        else_branch = e () => (float[3] q) { q = Gather (x, one) }> (c) }"""
    feeds = {"c": np.array(False), "x": TABLE[:4]}
    session = own.InferenceSession(model(text).SerializeToString())
    assert session.run(None, feeds)[0].tolist() == TABLE[1].tolist()
    with pytest.raises(InvalidArgument, match="'far' to be in"):
        session.run(None, {**feeds, "c": np.array(True)})


def test_indices_that_are_proven_cost_nothing():
    ranked = """g (float[8, 3] x) => (float[2, 3] y) {
        two = Constant <value_ints = [2]> ()
        v, at = TopK <axis = 0> (x, two)  t = Transpose <perm = [1, 0]> (at)
        z = Transpose <perm = [1, 0]> (x)  w = GatherElements <axis = 1> (z, t)
        y = Transpose <perm = [1, 0]> (w) }"""
    network = networks_of(model(ranked), {"x": TABLE})
    assert not network.signature.limits and not network.signature.checks
    assert network.graph.output_names == network.rewritten.output_names == ("y",)


def test_random_inputs_fit_a_table_of_one_row():
    network = networks_of(
        model("g (int64[n] x) => (float[n, 3] y) { o = Gather <axis = 0> (table, x) y = Abs (o) }"),
        {"x": integers(*range(99))},
    )
    assert set(network.random_inputs()["x"].tolist()) == {0, 1}
    text = "g (float[1, 3] t, int64[n] x) => (float[n, 3] y) { y = Gather (t, x) }"
    one = networks_of(model(text), {"t": TABLE[:1], "x": integers(*range(99))})
    assert set(one.random_inputs()["x"].tolist()) == {0}
