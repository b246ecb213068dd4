"""What lengths, masks and batch indices hide: it may be anything, in results and in derivatives.

Each case is computed with zeros in the hidden places, and then with NaN, infinity and the largest
numbers there. Attention is compared with a softmax over the visible keys alone.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import attended, by_heads, normal
from build import single
from forms import compiled_soon

import dml_jax
from dml_jax import load_onnx

POISONS = (np.nan, np.inf, -np.inf, np.finfo(np.float32).max)
Arrays = Mapping[str, np.ndarray]


def slopes_of(function: Callable[..., Any], arrays: Arrays) -> Callable[[Arrays], tuple[Any, Any]]:
    """Return the program of `function(**arrays)` for arrays that differ in their floats alone.

    It gives the results and the derivatives of their sum of squares.
    """
    rest = {name: x for name, x in arrays.items() if x.dtype.kind != "f"}

    def total(floats: Any) -> Any:
        results = jax.tree.leaves(function(**floats, **rest))
        squares = (y**2 for y in results if jnp.issubdtype(y.dtype, jnp.floating))
        return sum(y.sum() for y in squares), results

    program = compiled_soon(jax.grad(total, has_aux=True))

    def call(arrays: Arrays) -> tuple[Any, Any]:
        back, results = program({name: x for name, x in arrays.items() if name not in rest})
        return results, back

    return call


def check_hidden(
    function: Callable[..., Any], arrays: Arrays, hidden: Mapping[str, Any], poisons: Any = POISONS
) -> tuple[Any, Any]:
    """Compare what `function` gives of zeros in the hidden places with what it gives of poison.

    Args:
        function: takes `arrays` by name.
        arrays: the inputs.
        hidden: by name, where elements are hidden.
        poisons: the elements to put there.

    Returns:
        The results and the derivatives of zeros.
    """

    def filled(value: float) -> dict[str, np.ndarray]:
        places = {name: np.broadcast_to(hidden[name], arrays[name].shape) for name in hidden}
        return {
            name: np.where(places[name], np.float32(value), x) if name in hidden else x
            for name, x in arrays.items()
        }

    slopes = slopes_of(function, arrays)
    results, back = slopes(filled(0))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((results, back)))
    for name, places in hidden.items():
        np.testing.assert_array_equal(
            np.asarray(back[name])[np.broadcast_to(places, back[name].shape)], 0
        )
    for value in poisons:
        got = slopes(filled(value))
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves((results, back)), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6, err_msg=str(value))
    return results, back


# Attention.

B, S, L, P, N, D = 2, 3, 5, 4, 2, 4
"""Batches, queries, new keys, past keys, heads, elements."""
ENDS, STARTS = np.array([3, 5], np.int32), np.array([1, 2], np.int32)


attention: Any = functools.partial(dml_jax.multihead_attention, 0.5, -10000.0)


def softmax_of_visible(q: Any, k: Any, v: Any, visible: np.ndarray) -> np.ndarray:
    """Return the attention [B, S, H*D] of heads-first arrays, of the keys that a query sees."""
    found = attended(q, k, v, visible).swapaxes(1, 2)
    return found.reshape(*found.shape[:2], -1)


PLACES = np.arange(L)
INSIDE = ENDS[:, None] > PLACES
MASKS: dict[str, tuple[np.ndarray, np.ndarray]] = {  # the mask, and which keys [B, L] it leaves
    "KEY_SEQUENCE_LENGTH": (ENDS, INSIDE),
    "KEY_SEQUENCE_END_START": (np.stack([ENDS, STARTS]), INSIDE & (STARTS[:, None] <= PLACES)),
    "KEY_QUERY_SEQUENCE_LENGTH_START_END": (
        np.concatenate([ENDS, np.zeros(2 * B + 2, np.int32)]).astype(np.int32),
        INSIDE,
    ),
    "BOOLEAN": (np.broadcast_to(INSIDE[:, None, None], (B, N, S, L)).astype(np.int32), INSIDE),
}


@pytest.mark.parametrize("kind", MASKS)
def test_masks_of_keys(kind: str):
    mask, left = MASKS[kind]
    arrays = {"q": normal(B, S, N * D), "k": normal(B, L, N * D, seed=1)}
    arrays |= {"v": normal(B, L, N * D, seed=2), "mask": mask}

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return attention(N, N, kind, query=q, key=k, value=v, mask=mask).output

    hidden = ~left[..., None]
    # BOOLEAN adds a number to the score, which a large key outweighs.
    poisons = POISONS[:3] if kind == "BOOLEAN" else POISONS
    (got,), _ = check_hidden(attend, arrays, {"k": hidden, "v": hidden}, poisons)
    parts = (by_heads(arrays[name]) for name in "qkv")
    expected = softmax_of_visible(*parts, left[:, None, None])
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


def test_masks_of_stacked_keys_and_of_past_keys():
    """A mask's start hides past keys, its end new ones; a batch may have no key at all."""
    starts, ends = np.array([2, 0, 3], np.int32), np.array([P + 1, P + L, 3], np.int32)
    arrays = {"q": normal(3, S, N * D), "kv": normal(3, L, N, 2, D, seed=1)}
    arrays |= {"pk": normal(3, N, P, D, seed=2), "pv": normal(3, N, P, D, seed=3)}
    arrays["mask"] = np.stack([ends, starts])

    def attend(q: Any, kv: Any, pk: Any, pv: Any, mask: Any) -> Any:
        given = {"query": q, "stacked_key_value": kv, "past_key": pk, "past_value": pv}
        return attention(N, N, "KEY_SEQUENCE_END_START", mask=mask, **given).output

    places = np.arange(P + L)
    left = (places < ends[:, None]) & (places >= starts[:, None])
    past, new = ~left[:, :P, None], ~left[:, P:, None, None, None]
    hidden = {"kv": new, "pk": past[:, None], "pv": past[:, None]}
    some = {name: x[:2] for name, x in arrays.items() if name != "mask"}
    some["mask"] = arrays["mask"][:, :2]
    (got,), _ = check_hidden(attend, some, {name: x[:2] for name, x in hidden.items()})
    k, v = (
        np.concatenate([some[name], some["kv"][:, :, :, i].swapaxes(1, 2)], 2)
        for i, name in enumerate(("pk", "pv"))
    )
    expected = softmax_of_visible(by_heads(some["q"]), k, v, left[:2, None, None])
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)
    empty = {name: np.where(x, np.nan, arrays[name]) for name, x in hidden.items()}
    (got,), back = slopes_of(attend, arrays)({**arrays, **empty})
    assert np.isfinite(got).all()
    assert all(np.isfinite(x).all() for x in back.values())


PRESENT = ("output_present_key_tensor", "output_present_value_tensor")


@pytest.mark.parametrize("queries", [1, 3])
def test_caches_behind_the_past(queries: int):
    """Four heads of queries read two of keys; the past has 0 to 3 valid keys of 6."""
    heads, size, lengths = 4, 6, np.array([0, 2, 3], np.int32)
    arrays = {"q": normal(3, queries, heads * D), "past": lengths}
    arrays |= {"k": normal(3, queries, N * D, seed=1), "v": normal(3, queries, N * D, seed=2)}
    arrays |= {"pk": normal(3, N, size, D, seed=3), "pv": normal(3, N, size, D, seed=4)}

    def attend(q: Any, k: Any, v: Any, pk: Any, pv: Any, past: Any) -> Any:
        given = {"query": q, "key": k, "value": v, "past_key": pk, "past_value": pv}
        sizes = dict.fromkeys(PRESENT, (3, N, size, D))
        given |= {"past_sequence_lengths": past, "output_sizes": sizes}
        return attention(heads, N, "NONE", **given).output

    places = np.arange(size)
    behind = (places >= lengths[:, None])[:, None, :, None]
    (got,), _ = check_hidden(attend, arrays, {"pk": behind, "pv": behind})
    k, v = arrays["pk"].copy(), arrays["pv"].copy()
    for b, length in enumerate(lengths):
        k[b, :, length : length + queries] = by_heads(arrays["k"])[b]
        v[b, :, length : length + queries] = by_heads(arrays["v"])[b]
    ends = lengths[:, None] + np.arange(queries)
    visible = (places <= ends[..., None])[:, None]
    expected = softmax_of_visible(by_heads(arrays["q"], heads), k, v, visible)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


def test_float16_and_position_bias():
    """A bias of -10000 hides a key as a mask does."""
    left = INSIDE[:, None, None]
    arrays = {"q": normal(B, S, N * D), "k": normal(B, L, N * D, seed=1)}
    arrays |= {"v": normal(B, L, N * D, seed=2)}
    arrays["bias"] = np.broadcast_to(np.where(left, 0, -10000), (B, N, S, L)).astype(np.float32)

    def attend(**arrays: Any) -> Any:
        q, k, v, bias = (arrays[name].astype(np.float16) for name in ("q", "k", "v", "bias"))
        given = {"query": q, "key": k, "value": v, "relative_position_bias": bias}
        return attention(N, N, "NONE", **given).output.astype(np.float32)

    hidden = ~INSIDE[..., None]
    (got,), _ = check_hidden(attend, arrays, {"k": hidden, "v": hidden}, POISONS[:3])
    expected = softmax_of_visible(*(by_heads(arrays[name]) for name in "qkv"), left)
    np.testing.assert_allclose(got, expected, rtol=2e-2, atol=2e-3)


# Networks.

LEFT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
FLAT = {
    "q": normal(B, S, N * D),
    "k": normal(B, L, N * D, seed=1),
    "v": normal(B, L, N * D, seed=2),
}
APART = {name: by_heads(x) for name, x in FLAT.items()}
CACHES = {"pk": normal(B, N, L, D, seed=3), "pv": normal(B, N, L, D, seed=4)}
OF_KEYS = dict.fromkeys("kv", ~INSIDE[..., None])
# The node's type, its inputs in their order ("-": left out), arrays, hidden places, attributes.
NETWORKS: dict[str, tuple[str, str, Arrays, Mapping[str, Any], Mapping[str, Any]]] = {
    "lengths": (
        "Attention",
        "q k v - - - n",
        {**APART, "n": ENDS.astype(np.int64)},
        dict.fromkeys("kv", ~INSIDE[:, None, :, None]),
        {"opset": 24},
    ),
    "lengths, by ONNX Runtime": (
        "MultiHeadAttention",
        "q k v - m",
        {**FLAT, "m": ENDS},
        OF_KEYS,
        {},
    ),
    "masks": ("MultiHeadAttention", "q k v - m", {**FLAT, "m": LEFT}, OF_KEYS, {}),
    "caches": (
        "GroupQueryAttention",
        "q k v pk pv l n",
        {
            "q": normal(B, 1, 4 * D),
            **{name: x[:, :1] for name, x in FLAT.items() if name != "q"},
            **CACHES,
            "l": np.array([2, 4], np.int32),
            "n": np.array(5, np.int32),
        },
        dict.fromkeys(CACHES, (PLACES >= [[2], [4]])[:, None, :, None]),
        {"num_heads": 4, "kv_num_heads": N},
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str):
    op_type, inputs, arrays, hidden, attributes = NETWORKS[name]
    if "opset" not in attributes:
        attributes = {"num_heads": N, "domain": "com.microsoft", **attributes}
    constants = [name for name in arrays if name == "n" and op_type[0] == "G"]
    model = single(op_type, arrays, constants=constants, **attributes)
    del model.graph.node[0].input[:]
    model.graph.node[0].input.extend("" if name == "-" else name for name in inputs.split())
    network = load_onnx(model)
    given = {name: x for name, x in arrays.items() if name not in constants}

    def call(**arrays: Any) -> Any:
        results = network(*(arrays[name] for name in given))
        return jax.tree.leaves(results)[0]

    check_hidden(call, given, hidden, POISONS[:3])


# Sequences.


@pytest.mark.parametrize("direction", ["FORWARD", "BACKWARD", "BIDIRECTIONAL"])
@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_steps_behind_a_sequence(name: str, direction: str):
    steps, inputs, units, lengths = 4, 3, 2, np.array([4, 0, 2, 1], np.uint32)
    gates, count = {"rnn": (1, 1), "gru": (3, 2), "lstm": (4, 3)}[name]
    d = 1 + (direction == "BIDIRECTIONAL")
    activations = [dml_jax.ActivationSigmoid, *[dml_jax.ActivationTanh] * 2][-count:]
    arrays = {"x": normal(1, steps, 4, inputs), "w": normal(1, d, gates * units, inputs, seed=1)}
    arrays |= {"r": normal(1, d, gates * units, units, seed=2)}
    arrays |= {"h": normal(1, d, 4, units, seed=3), "n": lengths.reshape(1, 1, 1, -1)}

    def run(x: Any, w: Any, r: Any, h: Any, n: Any) -> Any:
        given: dict[str, Any] = {"hidden_init": h, "sequence_lengths": n, "direction": direction}
        if name == "lstm":
            given |= {"clip_threshold": 0.0, "use_clip_threshold": False}
            given |= {"couple_input_forget": False}
        if name == "gru":
            given |= {"bias": None, "output_options": "BOTH", "linear_before_reset": True}
        names = {"input": x, "weight": w, "recurrence": r, "activation_descs": activations * d}
        return jax.tree.leaves(getattr(dml_jax, name)(**names, **given))

    hidden = (np.arange(steps)[:, None] >= lengths)[None, ..., None]
    check_hidden(run, arrays, {"x": hidden})


# Regions.


@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
@pytest.mark.parametrize("mode", ["LINEAR", "NEAREST_NEIGHBOR"])
def test_pictures_and_elements_without_a_sample(function: str, mode: str):
    """Samples lie at 1.5, 2, 2.5 and 3 of the second picture of three, and at 1; others outside."""
    arrays = {"x": normal(3, 2, 6, 6), "batch": np.ones(2, np.uint32)}
    arrays["rois"] = np.array([[2, 2, 4, 4], [-9, -9, 12, 12]], np.float32)
    hidden = np.ones((3, 1, 6, 6), bool)
    hidden[1, :, 1:4, 1:4] = False

    def align(x: Any, rois: Any, batch: Any) -> Any:
        return dml_jax.roi_align(
            x, rois, batch, function, mode, 1.0, 1.0, 0.5, 0.0, 0.0, 2, 2, False, 2, 2
        )

    check_hidden(align, arrays, {"x": hidden}, POISONS[:3])
