"""MULTIHEAD_ATTENTION: what the registry does not draw. Masks are in test_masks.py."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import normal

import dml_jax
from dml_jax import DmlError

B, S, L, H, N, D, E = 2, 5, 7, 4, 2, 8, 6
SCALE = 1 / np.sqrt(D)


Q, K, V = normal(B, S, H * D), normal(B, L, N * D), normal(B, L, N * E)
PAST: dict[str, Any] = {"past_key": normal(B, N, 9, D), "past_value": normal(B, N, 9, E)}


def attend(mask_type: str = "NONE", filtered: float = -10000, **tensors: Any) -> Any:
    given = {"query": Q, "key": K, "value": V, **tensors}
    return dml_jax.multihead_attention(SCALE, filtered, H, N, mask_type, **given)


def test_present_tensors_keep_the_past():
    lengths, sizes = np.zeros(2, np.int32), [None, (B, N, 8, D), (B, N, 8, E)]
    with pytest.raises(DmlError, match=r"OutputPresentKeyTensor.* be at least 9 .*got 8"):
        attend(**PAST, past_sequence_lengths=lengths, output_sizes=sizes)


def test_a_query_without_keys():
    """A mask that is added keeps the weights, a mask that replaces makes them equal."""
    kept = attend("BOOLEAN", mask=np.zeros((B, H, S, L), np.int32), filtered=-16)
    np.testing.assert_allclose(kept.output, attend().output, rtol=1e-3, atol=1e-4)
    mean = attend("KEY_SEQUENCE_LENGTH", mask=np.zeros(B, np.int32))
    expected = np.repeat(V.reshape(B, L, N, E).mean(1), H // N, 1).reshape(B, 1, -1)
    expected = np.broadcast_to(expected, (B, S, H * E))
    np.testing.assert_allclose(mean.output, expected, rtol=1e-4, atol=1e-5)


def test_float16_is_rounded_once():
    q, k, v = (jnp.asarray(x, jnp.float16) for x in (Q, K, V))
    made = attend(query=q, key=k, value=v).output
    wide = attend(query=q.astype(np.float32), key=k.astype(np.float32), value=v.astype(np.float32))
    np.testing.assert_array_equal(made, wide.output.astype(np.float16))


def test_the_lowest_version_is_made():
    same = dml_jax.multihead_attention(SCALE, -10000, N, N, "NONE", Q[..., : N * D], K, V)
    assert same.output.shape == (B, S, N * E)
    assert dml_jax.MultiheadAttention.support.introduced < (
        dml_jax.MultiheadAttention1.support.introduced
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": None}, "KeyTensor to be given, or"),
        ({"value": None}, "ValueTensor to be given, or"),
        ({"stacked_key_value": normal(B, L, N, 2, D)}, "KeyTensor to be given, or"),
        ({"mask": np.ones(B, np.int32)}, "MaskType"),
        ({"past_key": PAST["past_key"]}, "PastValueTensor to be given"),
        ({"past_sequence_lengths": np.ones(B, np.int32)}, "PastKeyTensor to be given"),
        ({"bias": normal(9)}, r"BiasTensor.Sizes\[0\] to be 60"),
        ({"relative_position_bias": normal(B, H, S, L + 1)}, "RelativePositionBiasTensor.Sizes"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(DmlError, match=message):
        attend(**change)


def present(sizes: Any) -> Any:
    """Compute attention with room for one key more, with sizes of the results."""
    x = np.ones((2, 1, 4), np.float32)
    past = np.ones((2, 1, 6, 4), np.float32)
    lengths = np.array([2, 4], np.int32)
    return dml_jax.multihead_attention(
        *(0.5, -1e4, 1, 1, "NONE", x, x, x),
        past_key=past,
        past_value=past,
        past_sequence_lengths=lengths,
        output_sizes=sizes,
    )


def test_sizes_of_several_results_by_result_or_by_field():
    key, value = "output_present_key_tensor", "output_present_value_tensor"
    room = [2, 1, 7, 4]
    by_result = [None, room, room], [(2, 1, 4), tuple(room), room], [None, room]
    for sizes in (*by_result, {key: room, value: room}, {key: room}):
        made = present(sizes)
        assert (made.present_key.shape, made.present_value.shape) == (tuple(room),) * 2
    made = present(None)  # as long as the past
    assert (made.present_key.shape, made.present_value.shape) == ((2, 1, 6, 4),) * 2
    with pytest.raises(DmlError, match=value):
        present(room)
    with pytest.raises(DmlError, match="at most 3 lists"):
        present([None, room, room, room])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_long_buffers_are_read_as_far_as_they_are_filled(dtype: Any):
    """The output, and the derivatives, beside a softmax of all keys in float64."""
    rows, lengths, new = 1100, np.array([700, 30], np.int32), 3
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((2, new, n * 8)).astype(dtype) for n in (H, N, N))
    past = rng.standard_normal((2, 2, N, rows, 8)).astype(dtype)
    mask = np.ones((2, H, new, rows), np.int32)
    mask[:, :, :, 5:20] = 0

    def found(q: Any, past: Any) -> Any:
        given = {"query": q, "key": k, "value": v, "mask": mask}
        given |= {"past_key": past[0], "past_value": past[1], "past_sequence_lengths": lengths}
        presents = ("output_present_key_tensor", "output_present_value_tensor")
        sizes = dict.fromkeys(presents, (2, N, rows, 8))
        return dml_jax.multihead_attention(0.3, -1e30, H, N, "BOOLEAN", **given, output_sizes=sizes)

    def by_head(x: Any) -> Any:
        return x.astype(np.float64).reshape(new, N, 8).swapaxes(0, 1)

    def wanted(q: Any, past: Any, xp: Any = np) -> Any:
        outputs = []
        for b, length in enumerate(lengths):
            keys, values = (
                xp.concatenate([p[b, :, :length], by_head(x[b])], 1)
                for p, x in ((past[0], k), (past[1], v))
            )
            keys, values = (xp.repeat(x, H // N, 0) for x in (keys, values))
            queries = q[b].reshape(new, H, 8).swapaxes(0, 1)
            scores = queries @ keys.swapaxes(1, 2) * 0.3
            place = np.arange(length + new)
            is_seen = (place <= length + np.arange(new)[:, None]) & ((place < 5) | (place >= 20))
            weights = xp.exp(xp.where(is_seen, scores, -np.inf))
            made = weights / weights.sum(-1, keepdims=True) @ values
            outputs.append(made.swapaxes(0, 1).reshape(new, -1))
        return xp.stack(outputs)

    tolerance = 1e-5 if dtype == np.float32 else 2e-3
    result = found(q, past)
    expected = wanted(q.astype(np.float64), past.astype(np.float64))
    np.testing.assert_allclose(result.output, expected, atol=tolerance)
    present = np.asarray(result.present_value)
    np.testing.assert_array_equal(present[0, :, 700:703], v[0].reshape(new, N, 8).swapaxes(0, 1))
    np.testing.assert_array_equal(present[1, :, 33:], past[1, 1, :, 33:])
    if dtype == np.float32:
        slope = jax.grad(lambda *x: found(*x).output.sum(), (0, 1))(q, past)
        with jax.enable_x64(True):
            wide = (q.astype(np.float64), past.astype(np.float64))
            slopes = jax.grad(lambda *x: wanted(*x, jnp).sum(), (0, 1))(*wide)
        for mine, other in zip(slope, slopes, strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-4)
