"""Attention of several heads: MULTIHEAD_ATTENTION and its version with grouped heads."""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.errors import DmlError, Fault
from dml_jax.lowering import attention
from dml_jax.lowering.dtypes import wide
from dml_jax.lowering.masking import Mask, between
from dml_jax.operator import Operator


class _Attention(Operator):
    """Weights values by how well each query agrees with their keys, head by head.

    `output = softmax(mask(scale * Q @ K^T + relative_position_bias)) @ V`, in each batch and head

    `Q = query + bias_q`, `K = past_key, key + bias_k` and `V = past_value, value + bias_v`: the new
    keys and values stand behind the past ones, and `bias_q`, `bias_k` and `bias_v` are the parts of
    the bias, which may be left out. The softmax is over the keys: `exp(s[j]) / sum(exp(s[k]) for
    every k)`. `mask` adds `mask_filter_value` to the scores of hidden keys (BOOLEAN), or puts it in
    their place (the other masks).

    Letters name sizes: B batches, S queries, L new keys, P past keys, T keys in all, H heads of
    queries, N heads of keys and values, D elements of a query or key, E of a value. Queries, keys
    and values come in one of four ways:

    - query_tensor, key_tensor, value_tensor
    - query_tensor, stacked_key_value_tensor, with E equal to D
    - stacked_query_key_tensor, value_tensor, with L equal to S and N equal to H
    - stacked_query_key_value_tensor, with both

    Choices: a mask of BOOLEAN adds `mask_filter_value`, other masks put it in place of the score;
    the two differ where no key of a query is left. BOOLEAN masks where the element is 0, and
    nowhere else. KEY_QUERY_SEQUENCE_LENGTH_START_END reads the lengths of the keys; the offsets
    after them are ignored. In keys and values that are hidden from all queries, by a mask, a
    length, or a position bias of at most -10000 or `mask_filter_value`, NaN and infinity count as
    0, in derivatives too. The bias is in the present keys and values. Everything is computed in
    FLOAT32, and outputs are rounded once; but on an NVIDIA GPU cuDNN computes attention of FLOAT16
    without masks and position bias, and rounds the weights of the values too.

    Gradient: through the softmax to all floats; none to a key that a mask replaces.

    Fields:
        query_tensor: [B, S, H*D]; this, the keys, values, masks, bias and output may have more
            dimensions of size 1 before these.
        key_tensor: [B, L, N*D].
        value_tensor: [B, L, N*E].
        stacked_query_key_tensor: [B, S, H, 2, D].
        stacked_key_value_tensor: [B, L, N, 2, D].
        stacked_query_key_value_tensor: [B, S, H, 3, D].
        bias_tensor: is added to queries, keys and values, [H*D + N*D + N*E], in this order.
        mask_tensor: what a query may see, as `mask_type` says.
        relative_position_bias_tensor: is added to the scores, [B, H, S, T].
        past_key_tensor: keys before the new ones, [B, N, P, D]; with past_value_tensor only.
        past_value_tensor: values before the new ones, [B, N, P, E].
        output_tensor: [B, S, H*E].
        output_present_key_tensor: past keys and the new ones behind them, [B, N, T, D].
        output_present_value_tensor: past values and the new ones behind them, [B, N, T, E].
        scale: usually 1 / sqrt(D).
        mask_filter_value: a large negative number, usually -10000.
        mask_type: how the mask is read. NONE: there is no mask. KEY_SEQUENCE_LENGTH, [B]: the
            number of keys. KEY_SEQUENCE_END_START, [2, B]: behind the last key, then the first key.
            KEY_QUERY_SEQUENCE_LENGTH_START_END, [3*B + 2]: the number of keys, then offsets.
            BOOLEAN, [B, H, S, T]: 0 where the key is hidden.
    """

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the attention that a function describes, with a scale of 1 / sqrt(D).

        A mask is BOOLEAN where its type is left out. The present tensors are as long as the past
        ones where the lengths of these are given.
        """
        names = ("query_tensor", "stacked_query_key_tensor", "stacked_query_key_value_tensor")
        query = next((fields[n] for n in names if n in fields), None)
        heads = fields.get("query_head_count", fields.get("head_count"))
        if "key_value_head_count" in fields and fields["key_value_head_count"] is None:
            fields["key_value_head_count"] = heads
        if fields.get("scale") is None and query is not None:
            heads = heads if isinstance(heads, int) and heads else 1  # which is refused
            parts = heads if query.dimension_count < 5 or "query_tensor" in fields else 1
            fields["scale"] = 1 / math.sqrt(max(query.sizes[-1] // parts, 1))
        if fields.get("mask_type") is None:
            fields["mask_type"] = "BOOLEAN" if "mask_tensor" in fields else "NONE"
        is_past = {"past_sequence_lengths_tensor", "past_key_tensor", "past_value_tensor"} <= {
            *fields
        }
        if fields.get("output_sizes") is None and is_past:
            pasts = fields["past_key_tensor"].sizes, fields["past_value_tensor"].sizes
            fields["output_sizes"] = dict(zip(_PRESENT, pasts, strict=True))
        return super().infer_from(**fields)

    def mask(self, tensor: jax.Array | None, position: jax.Array | None, keys: int) -> Mask:
        """Return what a mask tensor and a position bias say of `keys`."""
        biases = [] if position is None else [position.reshape(position.shape[-4:])]
        mask = Mask(self.mask_filter_value, biases)
        if tensor is None:
            return mask
        batches, kind = self.output_tensor.sizes[-3], self.mask_type.suffix
        if kind == "BOOLEAN":
            return replace(mask, penalized=[tensor.reshape(tensor.shape[-4:]) != 0])
        if kind == "KEY_SEQUENCE_END_START":
            ends, starts = tensor.reshape(2, batches)  # batches stay apart, so that they shard
        else:
            ends, starts = tensor.reshape(-1)[:batches], None
        return mask.with_seen(between(starts, ends, keys))

    def lower(self, *arrays):
        xs: Any = [x if x is None else wide(x) for x in arrays]
        plain, stacked = xs[:3], xs[3:6]
        bias, mask, position, past_key, past_value, *rest = xs[6:]
        parts = attention.separate(plain, stacked, self.query_head_count, self.key_value_head_count)
        q, k, v = attention.add_bias(parts, bias)
        starts, new = None, k.shape[1]
        if rest and rest[0] is not None:
            size = self.present_size
            starts = jnp.clip(rest[0].reshape(-1), -new, size)
            assert past_key is not None and past_value is not None
            if bias is None:  # buffers keep their type; the new rows have it
                past_key, past_value = arrays[9], arrays[10]
            k = attention.overwritten(past_key, k, starts, size)
            v = attention.overwritten(past_value, v, starts, size)
        else:
            k, v = attention.append(past_key, k), attention.append(past_value, v)
        hidden = self.mask(mask, position, k.shape[2])
        if starts is not None:
            out = attention.attend_buffers((q, k, v), starts, new, self.scale, hidden)
        else:
            dtype = next(x.dtype for x in arrays if x is not None)
            out = attention.attend((q, k, v), self.scale, hidden, dtype)
        made = zip((out, k, v), self.outputs_of(), strict=True)
        tensors = [(x, getattr(self, f.name)) for x, f in made]
        return tuple(
            x if t is None else lax.convert_element_type(x.reshape(t.sizes), t.dtype)
            for x, t in tensors
        )


class MultiheadAttention(_Attention, op="MULTIHEAD_ATTENTION"):
    """Weights values by how well each query agrees with their keys, head by head.

    Fields:
        head_count: H, the number of heads, which is N too.
    """

    arguments = ("query_head_count", "key_value_head_count")
    query_head_count = key_value_head_count = property(attrgetter("head_count"))

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the one number of heads."""
        count, other = (arguments.pop(name) for name in cls.arguments)
        is_counted = isinstance(count, (int, np.integer))  # a descriptor refuses an array
        if is_counted and other is not None and not np.array_equal(other, count):
            text = f"be {count} (QueryHeadCount), or {cls.c_name}1"
            raise DmlError([Fault(cls.c_name, "KeyValueHeadCount", text, other)])
        return {**arguments, "head_count": count}


_PRESENT = ("output_present_key_tensor", "output_present_value_tensor")


class MultiheadAttention1(_Attention, op="MULTIHEAD_ATTENTION1"):
    """Weights values by how well each query agrees with their keys, which query heads may share.

    Query head h reads the keys and values of head `h // (H / N)`.

    Choices: with past_sequence_lengths_tensor the past tensors are buffers, of which only the first
    `past_sequence_lengths_tensor[b]` keys are used. New keys and values follow these in the present
    tensors, which may be longer than the past ones; what does not fit is left out. The function
    makes them as long as the past ones by default. Query i stands at position `length + i`, and
    `mask_filter_value` takes the place of its score with each later key. The past tensors have to
    be given then: a function cannot read what an output holds before.

    Fields:
        past_sequence_lengths_tensor: the number of valid past keys, [B].
        query_head_count: H, a multiple of N.
        key_value_head_count: N.
    """

    @property
    def present_size(self) -> int:
        """T, the number of keys in the present tensors: that of the past ones where none is."""
        present = self.output_present_key_tensor or self.output_present_value_tensor
        return (present or self.past_key_tensor).sizes[-2]

    def expected_sizes(self) -> dict[str, Sequence[int | None]]:
        """Return the sizes of what goes by T, where the lengths of the past are given."""
        if self.past_sequence_lengths_tensor is None or self.past_key_tensor is None:
            return {}
        if "output_tensor" not in vars(self):  # it follows from the other fields later
            return {}
        names = ["relative_position_bias_tensor"]
        names += ["mask_tensor"] * (self.mask_type.suffix == "BOOLEAN")
        sizes: dict[str, Sequence[int | None]] = {}
        for name in names:
            tensor = getattr(self, name)
            if tensor is not None:
                b, s, _ = self.output_tensor.sizes[-3:]
                whole = (b, self.query_head_count, s, self.present_size)
                ones = max(tensor.dimension_count - 4, 0)
                sizes[name] = (*[1] * ones, *whole)
        return sizes
