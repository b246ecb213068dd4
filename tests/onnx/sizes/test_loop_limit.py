"""Loops whose condition decides how long they run: `turns` ends them with an error."""

import time

import jax
import numpy as np
import pytest
from build import parse

from dml_jax import DmlError, load_onnx

LOOP = """g (float x, float most) => (float y) <bool yes = {1}> {
    y = Loop (, yes, x) <body = b (int64 i, bool c, float a) => (bool d, float n) {
        STEP
        d = Less (n, most)
    }>
}"""
ONCE, NEVER = (
    LOOP.replace("STEP", f"one = Constant <value_float = {step}> () n = Add (a, one)")
    for step in (1.0, 0.0)
)
NESTED = LOOP.replace(
    "STEP",
    """
        n = Loop (, yes, a) <body = e (int64 j, bool k, float p) => (bool r, float q) {
            one = Constant <value_float = 1.0> ()
            q = Add (p, one)
            r = Less (q, most)
        }>""",
)


def network(text: str, turns: int | None):
    return load_onnx(parse(text), turns=turns)


def inputs(most: float) -> dict[str, np.ndarray]:
    return {"x": np.array(0, np.float32), "most": np.array(most, np.float32)}


@pytest.mark.parametrize("text", [ONCE, NESTED])
def test_a_loop_that_goes_on_ends_with_an_error(text: str):
    limited = network(text, 10)
    assert limited(inputs(10))["y"] == network(text, None)(inputs(10))["y"] == 10
    with pytest.raises(DmlError, match=r"^a Loop goes on after 10 turns: '.'\. \(turns= of"):
        limited(inputs(11))
    assert limited(inputs(3))["y"] == 3  # the error is of that call alone


def test_a_loop_that_never_ends_ends():
    start = time.monotonic()
    with pytest.raises(DmlError, match="a Loop goes on after 100000 turns"):
        network(NEVER, 100_000)(inputs(1))
    assert time.monotonic() - start < 60


def test_it_works_within_a_program():
    limited = network(ONCE, 10)
    run = jax.jit(lambda most: limited.apply(limited.weights, {"x": np.float32(0), "most": most}))
    assert run(np.float32(7))["y"] == 7


@pytest.mark.parametrize("turns", [0, -1, 1.5, True, "many", 2**31])
def test_other_values_are_refused(turns):
    with pytest.raises(DmlError, match="expected turns to be in"):
        network(ONCE, turns)


def test_a_loop_that_says_the_largest_number_of_turns_goes_on():
    text = """g (float x) => (float y) <bool yes = {1}, int64 most = {9223372036854775807}> {
        y = Loop (most, yes, x) <body = b (int64 i, bool c, float a) => (bool d, float n) {
            n = Relu (a)
            d = Identity (c)
        }>
    }"""
    with pytest.raises(DmlError, match="a Loop goes on after 100 turns"):
        network(text, 100)(x=np.array(-1, np.float32))
