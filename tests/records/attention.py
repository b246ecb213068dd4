"""Records of MULTIHEAD_ATTENTION and MULTIHEAD_ATTENTION1: a loop over batches, heads, queries."""

from typing import Any

import numpy as np

from dml_jax import TensorDesc
from dml_jax.operator import Operator
from records import Fields, Record, Rng, Types

STACKINGS = {
    "query_tensor": "q",
    "key_tensor": "k",
    "value_tensor": "v",
    "stacked_query_key_tensor": "qk",
    "stacked_key_value_tensor": "kv",
    "stacked_query_key_value_tensor": "qkv",
}
WAYS = [
    ["query_tensor", "key_tensor", "value_tensor"],
    ["stacked_query_key_tensor", "value_tensor"],
    ["query_tensor", "stacked_key_value_tensor"],
    ["stacked_query_key_value_tensor"],
]


def draw(rng: Rng, op_class: type[Operator], types: Types) -> Fields:
    """Draw one of the four stackings, and any of the tensors that may be left out."""
    way = WAYS[int(rng.integers(4))]
    is_grouped = op_class.short_name.endswith("1")
    b, s, length, n, d, e, p = (int(size) for size in rng.integers(1, 4, 7))
    groups = int(rng.integers(1, 3)) if is_grouped and "stacked_query" not in str(way) else 1
    heads = n * groups
    length = s if "stacked_query" in str(way) else length
    e = d if "_value_tensor" in way[-1] else e
    has_past, has_lengths = rng.random() < 0.5, is_grouped and rng.random() < 0.5
    has_past = has_past or has_lengths
    room = int(rng.integers(0, 3)) if has_lengths else 0
    keys = p + room if has_lengths else length + p * has_past
    masks = ["NONE", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START", "BOOLEAN"]
    masks.append("KEY_QUERY_SEQUENCE_LENGTH_START_END")
    mask = str(rng.choice(masks))
    shapes: dict[str, Any] = {
        "query_tensor": (b, s, heads * d),
        "key_tensor": (b, length, n * d),
        "value_tensor": (b, length, n * e),
        "stacked_query_key_tensor": (b, s, heads, 2, d),
        "stacked_key_value_tensor": (b, length, n, 2, d),
        "stacked_query_key_value_tensor": (b, s, heads, 3, d),
        "bias_tensor": (heads * d + n * (d + e),),
        "mask_tensor": {
            "KEY_SEQUENCE_LENGTH": (b,),
            "KEY_SEQUENCE_END_START": (2, b),
            "KEY_QUERY_SEQUENCE_LENGTH_START_END": (3 * b + 2,),
        }.get(mask, (b, heads, s, keys)),
        "relative_position_bias_tensor": (b, heads, s, keys),
        "past_key_tensor": (b, n, p, d),
        "past_value_tensor": (b, n, p, e),
        "past_sequence_lengths_tensor": (b,),
        "output_tensor": (b, s, heads * e),
        "output_present_key_tensor": (b, n, keys, d),
        "output_present_value_tensor": (b, n, keys, e),
    }
    given = {*way, "output_tensor"} | ({"mask_tensor"} if mask != "NONE" else set())
    given |= {"past_key_tensor", "past_value_tensor"} if has_past else set()
    given |= {"past_sequence_lengths_tensor"} if has_lengths else set()
    given |= {"output_present_key_tensor"} if room else set()
    drawn = ("bias_tensor", "relative_position_bias_tensor", "output_present_value_tensor")
    given |= {name for name in drawn if rng.random() < 0.5}
    most = {"output_tensor": 2, "query_tensor": 2, "key_tensor": 2, "value_tensor": 2}
    fields: Fields = {}
    for f in op_class.fields:
        if f.tensor:
            ones = int(rng.integers(0, most.get(f.name, 1) + 1)) * ("stacked" not in f.name)
            shape = [*[1] * ones, *shapes[f.name]]
            fields[f.name] = TensorDesc(types[f.name], shape) if f.name in given else None
    counts = {"query_head_count": heads, "key_value_head_count": n}
    fields |= counts if is_grouped else {"head_count": heads}
    filtered = -float(rng.choice([2, 10000]))
    return fields | {"mask_type": mask, "scale": 0.5, "mask_filter_value": filtered}


def attention(op: Any, *arrays: Any) -> list[Any]:
    """Compute one weighted mean after the other."""
    names = [f.name for f in op.fields if f.tensor and not f.tensor.output]
    given: dict[str, Any] = dict(zip(names, arrays, strict=True))
    b, s, _ = op.output_tensor.sizes[-3:]
    if op.short_name.endswith("1"):
        heads, n = op.query_head_count, op.key_value_head_count
    else:
        heads = n = op.head_count
    counts = {"q": heads, "k": n, "v": n}
    parts: dict[str, Any] = {}
    for name, letters in STACKINGS.items():
        x = given[name]
        if x is not None:
            for k, letter in enumerate(letters):
                if len(letters) > 1:
                    part = x[:, :, :, k]
                else:
                    part = x.reshape(b, -1, counts[letter], x.shape[-1] // counts[letter])
                parts[letter] = part.swapaxes(1, 2)
    if given["bias_tensor"] is not None:
        ends = np.cumsum([parts[letter].shape[1] * parts[letter].shape[3] for letter in "qk"])
        for letter, bias in zip("qkv", np.split(given["bias_tensor"].ravel(), ends), strict=True):
            parts[letter] = parts[letter] + bias.reshape(counts[letter], 1, -1)
    lengths: Any = given.get("past_sequence_lengths_tensor")
    present: dict[str, Any] = {}
    new = parts["k"].shape[2]
    for letter, name in (("k", "key"), ("v", "value")):
        past: Any = given[f"past_{name}_tensor"]
        present[letter] = parts[letter]
        if past is not None:
            past = past.reshape(past.shape[-4:])
            present[letter] = np.concatenate([past, parts[letter]], 2)
        if lengths is not None:
            assert past is not None
            tensor = op.output_present_key_tensor or op.output_present_value_tensor
            size = (tensor or op.past_key_tensor).sizes[-2]
            whole = np.zeros((b, n, size, past.shape[3]))
            whole[:, :, : past.shape[2]] = past[:, :, :size]
            for batch in range(b):
                for i in range(new):
                    at = int(lengths.ravel()[batch]) + i
                    if 0 <= at < size:
                        whole[batch, :, at] = parts[letter][batch, :, i]
            present[letter] = whole
    keys = present["k"].shape[2]
    mask: Any = given["mask_tensor"]
    kind = op.mask_type.suffix
    flat: Any = None if mask is None else mask.ravel().astype(int)
    output = np.zeros((b, s, heads, present["v"].shape[3]))
    filtered = np.float32(op.mask_filter_value)
    bias: Any = given["relative_position_bias_tensor"]
    bias = np.zeros((b, heads, s, keys)) if bias is None else bias.reshape(b, heads, s, keys)
    is_left = ~(bias <= max(filtered, -10000))
    added = bias
    if mask is not None and kind == "BOOLEAN":
        is_set = mask.reshape(b, heads, s, keys) != 0
        is_left, added = is_left & is_set, bias + np.where(is_set, 0, filtered)
    inside = np.ones((b, heads, s, keys), bool)
    for batch in range(b):
        if flat is not None and kind != "BOOLEAN":
            inside[batch] &= np.arange(keys) < flat[batch]
        if flat is not None and kind == "KEY_SEQUENCE_END_START":
            inside[batch] &= np.arange(keys) >= flat[b + batch]
        if lengths is not None:
            ends = int(lengths.ravel()[batch]) + np.minimum(np.arange(s), new - 1)
            inside[batch] &= np.arange(keys) <= ends[:, None]
    for batch in range(b):
        for of in range(n):  # a key head, and the query heads that read it
            own = slice(of * (heads // n), (of + 1) * (heads // n))
            shown = (is_left & inside)[batch, own].any((0, 1))[:, None]
            k, v = (
                np.where(shown | np.isfinite(x), x, 0)
                for x in (present["k"][batch, of], present["v"][batch, of])
            )
            for h in range(heads)[own]:
                for i in range(s):
                    scores = op.scale * k @ parts["q"][batch, h, i] + added[batch, h, i]
                    hides = ~is_left[batch, h, i] & ~(scores < np.inf)
                    scores = np.where(hides | ~inside[batch, h, i], filtered, scores)
                    weights = np.exp(scores - scores.max())
                    output[batch, i, h] = weights / weights.sum() @ v
    tensors = [op.output_tensor, op.output_present_key_tensor, op.output_present_value_tensor]
    made = [output, present["k"], present["v"]]
    return [x if t is None else x.reshape(t.sizes) for x, t in zip(made, tensors, strict=True)]


BATCH: dict[str, int | None] = {
    "": -4,
    **dict.fromkeys(("query_tensor", "key_tensor", "value_tensor", "output_tensor"), -3),
    **{name: -5 for name in STACKINGS if "stacked" in name},
    "past_sequence_lengths_tensor": -1,
    "bias_tensor": None,
}

LEFT_OUT = ("bias", "mask", "relative_position_bias", "past_key", "past_value")
LEFT_OUT += ("past_sequence_lengths", "output_present_key", "output_present_value")

PARTS: dict[str, Any] = {
    "draw": draw,
    "smallest": {f"{name}_tensor": None for name in LEFT_OUT}
    | {name: None for name in STACKINGS if "stacked" in name}
    | {"mask_type": "NONE", "mask_filter_value": -10000.0},
    "values": {"": (-2, 2), "mask_tensor": (0, 0.4), "past_sequence_lengths_tensor": (0, 0.6)},
    "ulp": 256,
    "unbroken": ("one_of",),  # the mask types are the whole enumeration
    "batch": tuple({**BATCH, "mask_tensor": dimension} for dimension in (-1, -4)),
}
RECORDS = {
    "MULTIHEAD_ATTENTION": Record(attention, **PARTS),
    "MULTIHEAD_ATTENTION1": Record(attention, **PARTS),
}
