"""Tensors whose size depends on data: what reads them, and slices between computed places."""

from typing import Any

import numpy as np
import pytest
from build import parse, refusal, same_as_runtime

RANDOM = np.random.RandomState(7)

# Nodes that read the elements v and w [N] of x above 0 and above 1, the rows r [N, 4] and the
# columns c [4, N] that belong to v, and their places n [1, N].
SELECTED = """g (float[8] x, float[8, 4] rows, float[4, 3] weights) => (OUT)
<float zero = {0}, float one = {1}, int64 i0 = {0}, int64 i2 = {2}, int64 i_1 = {-1},
 int64[1] a0 = {0}, int64[1] a1 = {1}, int64[1] p1 = {1}, int64[1] p2 = {2}, int64[1] m1 = {-1},
 int64[1] m3 = {-3}, int64[1] far = {9223372036854775807}, int64[2] ends = {0, -1},
 float[4] scale = {1, 2, 3, 4}, float[2, 1] pair = {1, 2}, int64[1] best = {2}> {
    some = Greater(x, zero)
    more = Greater(x, one)
    n = NonZero(some)
    v = Compress<axis = 0>(x, some)
    w = Compress<axis = 0>(x, more)
    r = Compress<axis = 0>(rows, some)
    c = Transpose(r)
    size = Shape(v)
    y = NODE
}"""
TAILS = [
    "ReduceSum<keepdims = 0>(v)",
    "ReduceMean(v)",
    "ReduceMean(r, a0)",
    "ReduceMean<keepdims = 0>(r)",
    "ReduceMean(r, a1)",
    "ReduceMax(r, a0)",
    "ReduceMin<keepdims = 0>(v)",
    "ReduceProd(v)",
    "ReduceL1(v)",
    "ReduceL2(r, a0)",
    "ReduceSumSquare(v)",
    "ReduceLogSum(v)",
    "ReduceLogSumExp(v)",
    "ReduceSum<keepdims = 0>(n, m1)",
    "ReduceMax<keepdims = 0>(n, a1)",
    "ReduceMin<keepdims = 0>(n, a1)",
    "Softmax<axis = 0>(v)",
    "Softmax<axis = 0>(r)",
    "Softmax(r)",
    "LogSoftmax<axis = 1>(c)",
    "Hardmax<axis = 0>(v)",
    "CumSum(v, i0)",
    "CumSum<reverse = 1>(v, i0)",
    "CumSum<exclusive = 1, reverse = 1>(r, i0)",
    "CumSum(r, i_1)",
    "ArgMax(v)",
    "ArgMin<keepdims = 0>(r)",
    "ArgMax<select_last_index = 1>(v)",
    "ArgMax<axis = 1>(r)",
    "TopK(v, best)",
    "TopK<largest = 0>(v, best)",
    "TopK(v, size)",
    "TopK<axis = 1>(r, best)",
    "Gather(v, i0)",
    "Gather(v, i_1)",
    "Gather(v, ends)",
    "Gather<axis = 1>(c, i_1)",
    "Gather<axis = 1>(r, i_1)",
    "GatherElements(v, m1)",
    "GatherND(v, m1)",
    "Slice(v, a0, p2)",
    "Slice(v, m3, m1)",
    "Slice(v, p1, far)",
    "Slice(v, m1, far)",
    "Slice(v, m1, m3, a0, m1)",
    "Slice(v, p1, far, a0, p2)",
    "Slice(r, p1, m1, a1)",
    "Slice(r, a0, m1, a0)",
    "Slice(x, a0, size)",
    "Slice(x, size, far)",
    "Concat<axis = 0>(v, w)",
    "Concat<axis = 0>(x, v, x, w)",
    "Concat<axis = 1>(c, c)",
    "Concat<axis = 1>(r, r)",
    "MatMul(r, weights)",
    "MatMul(c, r)",
    "MatMul(v, r)",
    "MatMul(v, v)",
    "MatMul(x, rows)",
    "Gemm<transB = 1>(pair, v1)",
    "Gemm(r, weights)",
    "Gemm<transA = 1>(c, weights)",
    "Gemm<transA = 1>(r, r)",
    "LayerNormalization(r, scale)",
    "LpNormalization<axis = 0>(v)",
    "NonZero(v)",
    "Compress<axis = 0>(r, keep)",
    "Unsqueeze(v, a0)",
    "Squeeze(n, a0)",
    "Reshape(v, m1)",
    "Sum(v, v, one)",
    "Where(keep, v, zero)",
]


def selected(tail: str) -> Any:
    """Return the model of a tail; what it reads besides is written before it."""
    text = SELECTED.replace("NODE", tail)
    before = {"v1": "v1 = Unsqueeze(v, a1)", "keep": "keep = Less(v, one)"}
    for name, node in before.items():
        if name in tail:
            text = text.replace("y = ", f"{node}\n    y = ")
    two = tail.startswith("TopK")
    text = text.replace("y = ", "y, z = " if two else "y = ")
    return parse(text.replace("OUT", "y, z" if two else "y"), 20)


@pytest.mark.parametrize("tail", TAILS)
def test_the_padding_changes_nothing(tail: str):
    """Compare with ONNX Runtime, which has no padding, for several numbers of elements."""
    feeds = []
    for signs in ("+-++--+-", "++++++++", "---++---", "+++-----"):
        sign = np.array([1.0 if s == "+" else -1.0 for s in signs])
        x = (sign * (RANDOM.rand(8) * 2 + 0.1)).astype(np.float32)
        rows = RANDOM.randn(8, 4).astype(np.float32)
        feeds.append({"x": x, "rows": rows, "weights": RANDOM.randn(4, 3).astype(np.float32)})
    same_as_runtime(selected(tail), feeds, fallback=True)


# Refusals


@pytest.mark.parametrize("tail", ["LayerNormalization<axis = 0>(v, one)", "Mul(v, x)", "Sum(v, w)"])
def test_a_node_that_would_mix_the_padding_in_is_refused(tail: str):
    message = refusal(selected(tail), fallback=True)
    assert "Node 'y'" in message
    assert "would read the padding (end the network at '" in message


# Slices by the counter of a loop

LOOP = """g (float[100, 3] x) => (float[K, 3] y, ys)
<int64 m = {TURNS}, bool go = {1}, float[K, 3] z = {ZEROS}, int64[1] axes = {0}, int64[1] one = {1},
 int64[1] two = {2}, int64[1] last = {99}, int64[1] end = {100}, int64[1] back = {-1}> {
    y, ys = Loop(m, go, z) <
        body = b (int64 i, bool g, float[K, 3] v) => (bool h, float[K, 3] u, t) {
        h = Identity(g)
        k = Unsqueeze(i, axes)
        BODY
        t = Neg(part)
        u = Add(v, part)
    }>
}"""
WHOLE = "part = Slice(x, s, e)"
TWO_AXES = """three = Constant<value_ints = [3]>() zero = Constant<value_ints = [0]>()
    s = Concat<axis = 0>(k, zero) r = Add(k, two) e = Concat<axis = 0>(r, three) """
BODIES = {
    "the counter": (100, 1, "e = Add(k, one) part = Slice(x, k, e, axes)"),
    "the next row": (99, 1, "s = Add(k, one) e = Add(k, two) part = Slice(x, s, e, axes)"),
    "two rows": (99, 2, "e = Add(k, two) part = Slice(x, k, e)"),
    "from the end": (100, 1, "s = Sub(last, k) e = Sub(end, k) part = Slice(x, s, e, axes)"),
    "from behind": (99, 1, "n = Neg(k) s = Sub(n, two) e = Add(s, one) " + WHOLE),
    "pairs": (50, 2, "s = Mul(k, two) e = Add(s, two) part = Slice(x, s, e, axes, one)"),
    "every second": (97, 2, "c = Add(two, two) e = Add(k, c) part = Slice(x, k, e, axes, two)"),
    "upwards": (98, 2, "s = Add(k, two) part = Slice(x, s, k, axes, back)"),
    "a cast": (100, 1, "f = Cast<to = 6>(k) s = Cast<to = 7>(f) e = Add(s, one) " + WHOLE),
    "two axes": (98, 2, TWO_AXES + WHOLE),
}


@pytest.mark.parametrize("name", BODIES)
def test_slices_by_a_counter_have_the_size_that_follows(name: str):
    turns, size, body = BODIES[name]
    text = LOOP.replace("TURNS", str(turns)).replace("BODY", body).replace("K", str(size))
    model = parse(text.replace("ZEROS", ", ".join(["0"] * 3 * size)), 20)
    x = RANDOM.randn(100, 3).astype(np.float32)
    network = same_as_runtime(model, {"x": x}, fallback=True)
    assert not network.padded


def test_a_slice_that_may_be_shorter_is_no_state_of_a_loop():
    """At the last turn there is no next row."""
    body = "s = Add(k, one) e = Add(k, two) part = Slice(x, s, e, axes)"
    text = LOOP.replace("TURNS", "100").replace("BODY", body).replace("K", "1")
    assert "Slice) decides" in refusal(parse(text.replace("ZEROS", "0, 0, 0"), 20))


PLACES = """g (float[9] x, int64[1] s, int64[1] e) => (y)
<int64[1] a = {0}, int64[1] step = {STEP}> {
    y = Slice(x, s, e, a, step)
}"""


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_slices_between_places_that_come_at_run_time(step: int):
    """Negative places count from the end, and those outside stand for the ends."""
    model = parse(PLACES.replace("STEP", str(step)), 20)
    x, far = np.arange(9, dtype=np.float32), 2**31 - 1
    places = [(2, 7), (7, 2), (-3, 100), (0, -1), (-100, 100), (8, -far), (4, 4), (-2, -5)]
    feeds = [{"x": x, "s": np.array([s]), "e": np.array([e])} for s, e in places]
    network = same_as_runtime(model, feeds, fallback=True)
    assert network.padded == {"y": 0}
