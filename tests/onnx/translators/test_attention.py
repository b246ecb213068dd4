"""Attention of ONNX and of ONNX Runtime, beside NumPy in float64 and ONNX Runtime."""

import math
import re
from typing import Any

import jax
import numpy as np
import onnx
import pytest
from arrays import attended
from build import floats, in_function, model_of, node, runtime, single

from dml_jax import load_onnx

RANDOM = np.random.RandomState(0)
MICROSOFT = "com.microsoft"
GROUPS: Any = {"num_heads": 4, "kv_num_heads": 2, "outputs": "y nk nv", "domain": MICROSOFT}


def normal(*sizes: int) -> np.ndarray:
    return floats(RANDOM.randn(*sizes))


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
    is_flat, arrays = made.op_type != "Attention", {"q": q, "k": k, "v": v}
    if is_flat:
        arrays = {n: x.transpose(0, 2, 1, 3).reshape(1, TOKENS, 8) for n, x in arrays.items()}
    kinds = {n: (x.dtype, x.shape) for n, x in arrays.items()}
    if is_function:
        model = in_function([made], kinds, ["y"], constants, 23)
    else:
        model = model_of([made], kinds, ["y"], constants, 23)
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


@pytest.mark.parametrize(("attributes", "past", "queries", "new"), WINDOWS)
@pytest.mark.parametrize("has_mask", [False, True])
def test_queries_see_keys_as_the_text_says(
    attributes: Any, past: int, queries: int, new: int, has_mask: bool
):
    is_seen = np.ones((queries, past + new), bool)
    if attributes["is_causal"]:
        is_seen = np.tri(queries, past + new, past, dtype=bool)
    mask = RANDOM.rand(queries, past + new) > 0.5
    mask[0] = False  # the first query sees nothing
    arrays: dict[str, Any] = {"q": normal(2, 4, queries, 8), "k": normal(2, 2, new, 8)}
    arrays |= {"v": normal(2, 2, new, 8), "m": mask if has_mask else None}
    if past:
        arrays |= {n: normal(2, 2, past, 8) for n in ("pk", "pv")}
    k, v = (np.concatenate([arrays.get(f"p{n}", arrays[n][:, :, :0]), arrays[n]], 2) for n in "kv")
    outputs = "y nk nv" if past else "y"
    model = single("Attention", arrays, outputs=outputs, opset=23, **attributes)
    result = load_onnx(model)({n: x for n, x in arrays.items() if x is not None})["y"]
    is_seen = is_seen & mask if has_mask else is_seen
    np.testing.assert_allclose(result, attended(arrays["q"], k, v, is_seen), 1e-4, 1e-5)


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


@pytest.mark.parametrize(("lengths", "queries", "total", "past", "is_known"), GROUPED)
def test_batches_of_several_lengths_are_those_of_onnx_runtime(
    lengths: list[int], queries: int, total: int, past: int, is_known: bool
):
    batch, size = len(lengths), 16
    arrays: dict[str, Any] = {"q": normal(batch, queries, 4 * size)}
    arrays |= {n: normal(batch, queries, 2 * size) for n in "kv"}
    arrays |= {n: normal(batch, 2, past, size) if past else None for n in ("pk", "pv")}
    arrays |= {"sl": np.array(lengths, np.int32) - 1, "tl": np.array([total], np.int32)}
    angles = np.arange(16)[:, None] / 100 ** (np.arange(size // 2) / (size // 2))
    arrays |= {"cos": floats(np.cos(angles)), "sin": floats(np.sin(angles))}
    constants = ["cos", "sin", *(["tl"] if is_known else [])]
    model = single("GroupQueryAttention", arrays, constants=constants, do_rotary=1, **GROUPS)
    arrays = {n: x for n, x in arrays.items() if x is not None and n not in constants}
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
    arrays = {n: normal(1, 1, 8) for n in "qkv"} | {n: normal(1, 1, 2, 8) for n in ("pk", "pv")}
    arrays |= {"sl": np.array([1], np.int32), "tl": np.array([2], np.int32)}
    model = single("GroupQueryAttention", arrays, **GROUPS | {"num_heads": 1, "kv_num_heads": 1})
    network = load_onnx(model)
    assert np.isfinite(network(arrays)["y"]).all()
    more = {"sl": np.array([2], np.int32), "tl": np.array([3], np.int32)}
    assert np.isnan(network(arrays | more)["y"]).all()
