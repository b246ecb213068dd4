"""Attention of ONNX and of ONNX Runtime, beside NumPy in float64 and ONNX Runtime."""

import math
import re
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from build import model_of, node, runtime

from dml_jax import load_onnx

pytestmark = pytest.mark.usefixtures("soon")

RANDOM = np.random.RandomState(0)
MICROSOFT = "com.microsoft"


def attended(q: Any, k: Any, v: Any, is_seen: Any) -> np.ndarray:
    """Return the attention of arrays [batch, heads, sequence, size], in float64.

    A query that sees nothing gives 0.
    """
    q, k, v = (np.asarray(x).astype(np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, 1) for x in (k, v))
    scores = np.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(q.shape[-1])
    is_seen = np.broadcast_to(is_seen, scores.shape)
    weights = np.where(is_seen, np.exp(scores), 0)
    total = weights.sum(-1, keepdims=True)
    return np.einsum("bhst,bhtd->bhsd", weights / np.where(total == 0, 1, total), v)


TOKENS = 96
PLACES = np.arange(TOKENS)[None] - np.arange(TOKENS)[:, None]
CAUSAL = PLACES <= 0
LOCAL = CAUSAL & (PLACES >= -5)
MASKS: dict[str, Any] = {  # the node, its constants, what is seen
    "causal": (node("Attention", "q k v", "y", is_causal=1), {}, CAUSAL),
    "a mask of booleans": (node("Attention", "q k v m", "y"), {"m": LOCAL}, LOCAL),
    "both": (node("Attention", "q k v m", "y", is_causal=1), {"m": PLACES >= -5}, LOCAL),
    "a mask of floats": (
        node("Attention", "q k v m", "y"),
        {"m": np.where(LOCAL, 0, -1e9).astype(np.float32)},
        LOCAL,
    ),
    "unidirectional": (
        node("MultiHeadAttention", "q k v", "y", domain=MICROSOFT, num_heads=2, unidirectional=1),
        {},
        CAUSAL,
    ),
    "a mask of integers": (
        node("MultiHeadAttention", "q k v - m", "y", domain=MICROSOFT, num_heads=2),
        {"m": LOCAL.astype(np.int32)[None]},
        LOCAL,
    ),
}


@pytest.mark.parametrize("is_function", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_compilers_compute_nothing_from_masks(name: str, is_function: bool):
    """A program has no floats for each pair of tokens, so that compiling takes no time for them."""
    made, constants, is_seen = MASKS[name]
    q, k, v = RANDOM.randn(3, 1, 2, TOKENS, 4).astype(np.float32)
    is_flat = made.op_type != "Attention"
    arrays = dict(zip("qkv", (q, k, v), strict=True))
    if is_flat:
        arrays = {n: x.transpose(0, 2, 1, 3).reshape(1, TOKENS, 8) for n, x in arrays.items()}
    kinds = {n: (x.dtype, x.shape) for n, x in arrays.items()}
    if is_function:
        tensors = {n: onnx.numpy_helper.from_array(a) for n, a in constants.items()}
        nodes = [*(node("Constant", "", n, value=t) for n, t in tensors.items()), made]
        imports = [onnx.helper.make_opsetid(d, v) for d, v in (("", 23), (MICROSOFT, 1))]
        function = onnx.helper.make_function("local", "F", [*"qkv"], ["y"], nodes, imports)
        call = node("F", "q k v", "y", domain="local")
        model = model_of([call], kinds, ["y"], opset=23, functions=[function])
    else:
        model = model_of([made], kinds, ["y"], constants, opset=23)
    model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    network = load_onnx(model)
    result = np.asarray(network(arrays)["y"])
    if is_flat:
        result = result.reshape(1, TOKENS, 2, 4).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(result, attended(q, k, v, is_seen), 1e-4, 1e-5)
    program = jax.jit(network.apply).lower(network.weights, arrays).compile().as_text()
    found = re.findall(r"= (f32|pred)\[([\d,]*)\]\S* constant\(", program)
    sizes = [math.prod(map(int, filter(None, text.split(",")))) for _, text in found]
    is_given = is_function and "floats" in name  # one array: the mask itself
    assert sum(size >= TOKENS**2 for size in sizes) <= is_given


WINDOWS = [  # the attributes, past tokens, queries and new keys
    ({"is_causal": 1}, 0, 4, 7),
    ({"is_causal": 1}, 0, 7, 4),
    ({"is_causal": 1}, 3, 4, 4),
    ({"is_causal": 0}, 3, 4, 4),
]


@pytest.mark.parametrize("case", range(len(WINDOWS)))
@pytest.mark.parametrize("has_mask", [False, True])
def test_queries_see_keys_as_the_text_says(case: int, has_mask: bool):
    attributes, past, queries, new = WINDOWS[case]
    q = RANDOM.randn(2, 4, queries, 8).astype(np.float32)
    k, v = RANDOM.randn(2, 2, 2, new, 8).astype(np.float32)
    arrays = {"q": q, "k": k, "v": v}
    is_seen = np.ones((queries, past + new), bool)
    if attributes["is_causal"]:
        is_seen = np.tri(queries, past + new, past, dtype=bool)
    if has_mask:
        arrays["m"] = RANDOM.rand(queries, past + new) > 0.5
        arrays["m"][0] = False  # the first query sees nothing
        is_seen = is_seen & arrays["m"]
    names = "q k v m" if has_mask else "q k v -"
    outputs = "y"
    if past:
        arrays |= dict(
            zip(("pk", "pv"), RANDOM.randn(2, 2, 2, past, 8).astype(np.float32), strict=True)
        )
        names, outputs = f"{names} pk pv", "y nk nv"
        k, v = (np.concatenate([arrays[p], x], 2) for p, x in (("pk", k), ("pv", v)))
    kinds = {n: (x.dtype, x.shape) for n, x in arrays.items()}
    made = node("Attention", names.removesuffix(" -"), outputs, **attributes)
    result = load_onnx(model_of([made], kinds, outputs.split(), opset=23))(arrays)["y"]
    np.testing.assert_allclose(result, attended(q, k, v, is_seen), 1e-4, 1e-5)


GROUPED = [  # the tokens of each batch, queries, the longest batch, keys of the past; known at load
    ([4, 2], 4, 4, 0, True),
    ([1, 3, 4], 4, 4, 0, False),
    ([4, 2], 4, 4, 6, True),
    ([3, 2], 3, 3, 5, False),
    ([5, 3], 1, 5, 4, True),
    ([5, 3, 1], 1, 5, 8, False),
    ([8], 3, 8, 5, True),
    ([8], 3, 8, 10, False),
]


@pytest.mark.parametrize("case", range(len(GROUPED)))
def test_batches_of_several_lengths_are_those_of_onnx_runtime(case: int):
    lengths, queries, total, past, is_known = GROUPED[case]
    batch, heads, groups, size = len(lengths), 4, 2, 16
    draw = lambda *sizes: RANDOM.randn(*sizes).astype(np.float32)  # noqa: E731
    arrays = {"q": draw(batch, queries, heads * size)}
    arrays |= {n: draw(batch, queries, groups * size) for n in "kv"}
    if past:
        arrays |= {n: draw(batch, groups, past, size) for n in ("pk", "pv")}
    arrays["sl"] = np.array(lengths, np.int32) - 1
    angles = np.arange(16)[:, None] / 100 ** (np.arange(size // 2) / (size // 2))
    constants = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    (constants if is_known else arrays)["tl"] = np.array([total], np.int32)
    names = f"q k v {'pk pv' if past else '- -'} sl tl cos sin"
    given: Any = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": 1, "domain": MICROSOFT}
    made = node("GroupQueryAttention", names, "y nk nv", **given)
    kinds = {n: (x.dtype, x.shape) for n, x in arrays.items()}
    model = model_of([made], kinds, ["y", "nk", "nv"], constants)
    model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    results = [np.asarray(r) for r in load_onnx(model)(arrays).values()]
    expected = runtime(model, arrays)
    for row, length in enumerate(lengths):
        there = min(length, queries) if queries == total else queries  # the rest is not specified
        pairs = zip(results, expected, (there, length, length), (0, 1, 1), strict=True)
        for result, wanted, count, axis in pairs:
            taken = (np.take(a[row], range(count), axis) for a in (result, wanted))
            np.testing.assert_allclose(*taken, 1e-4, 1e-5)


def test_more_tokens_than_the_buffers_hold_have_no_answer():
    """A token behind the end of the past's buffers is no answer of other tokens, but NaN."""
    draw = lambda *sizes: RANDOM.randn(*sizes).astype(np.float32)  # noqa: E731
    arrays = {"q": draw(1, 1, 8), "k": draw(1, 1, 8), "v": draw(1, 1, 8)}
    arrays |= {"pk": draw(1, 1, 2, 8), "pv": draw(1, 1, 2, 8)}
    arrays |= {"sl": np.array([1], np.int32), "tl": np.array([2], np.int32)}
    given: Any = {"num_heads": 1, "kv_num_heads": 1, "domain": MICROSOFT}
    made = node("GroupQueryAttention", "q k v pk pv sl tl", "y nk nv", **given)
    model = model_of([made], {n: (x.dtype, x.shape) for n, x in arrays.items()}, ["y", "nk", "nv"])
    model.opset_import.append(onnx.helper.make_opsetid(MICROSOFT, 1))
    network = load_onnx(model)
    assert np.isfinite(network(arrays)["y"]).all()
    more = {"sl": np.array([2], np.int32), "tl": np.array([3], np.int32)}
    assert np.isnan(network(arrays | more)["y"]).all()
