"""Op types of ONNX Runtime's own domain, compared with ONNX Runtime."""

from typing import Any

import jax
import numpy as np
import pytest
from build import floats, refusal, runtime, single
from onnx import TensorProto, helper, numpy_helper

from dml_jax import DmlError, load_onnx

pytestmark = pytest.mark.usefixtures("soon")

DOMAIN, NCHWC = "com.microsoft", "com.microsoft.nchwc"
RANDOM = np.random.RandomState(1)


def normal(*sizes: int) -> np.ndarray:
    return RANDOM.randn(*sizes).astype(np.float32)


def bytes_of(*sizes: int, dtype: Any = np.uint8) -> np.ndarray:
    info = np.iinfo(dtype)
    return RANDOM.randint(info.min, info.max + 1, sizes).astype(dtype)


def scalar(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


ONE, TWO = scalar(0.02), scalar(0.05)
A_ZERO, B_ZERO = scalar(120, np.uint8), scalar(7, np.uint8)
# Without VNNI, ONNX Runtime adds two products in 16 bits: those of weights below 64 fit.
U8, S8 = bytes_of(2, 3, 5, 6), bytes_of(4, 3, dtype=np.int8) // np.int8(2)
HIDDEN = normal(2, 5, 8)  # batch, sequence, width
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
PAST = normal(2, 2, 2, 3, 4)  # keys and values, batch, heads, keys, size
TABLE = normal(16, 2)  # cosines and sines need not be of angles


def case(op_type: str, outputs: str = "y", constants: str = "", /, **given: Any) -> tuple:
    """Return a model of one node, and its inputs; arrays are inputs, in their order."""
    arrays = {n: a for n, a in given.items() if isinstance(a, np.ndarray)}
    attributes = {n: a for n, a in given.items() if not isinstance(a, np.ndarray)}
    domain = attributes.pop("domain", DOMAIN)
    model = single(
        op_type,
        {n: a for n, a in arrays.items() if not n.startswith("_")},
        outputs=outputs,
        constants=constants.split(),
        domain=domain,
        **attributes,
    )
    proto = model.graph.node[0]
    del proto.input[:]
    proto.input.extend("" if n.startswith("_") else n for n in arrays)
    return model, {n: a for n, a in arrays.items() if n[0] != "_" and n not in constants.split()}


def softmax(opset: int, axis: int) -> tuple:
    """Return a model of a quantized softmax as an opset has it, and its inputs."""
    scales = {"s": TWO, "z": A_ZERO, "t": scalar(1 / 256), "w": B_ZERO}
    model, inputs = case("QLinearSoftmax", x=U8, axis=axis, **scales)
    model.graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    return model, inputs


NONE = np.zeros(0, np.float32)
LEFT_OUT = {f"_{k}": NONE for k in range(5)}
OF_BITS = {"bits": 4, "block_size": 16, "N": 5, "K": 40}
POOLED: dict[str, Any] = {"x": U8, "s": ONE, "z": A_ZERO, "t": TWO, "w": B_ZERO}
BLOCKS = {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}
SUM = {"a": U8, "s": ONE, "z": A_ZERO, "b": U8[:, :1], "t": TWO, "w": B_ZERO, "u": TWO, "v": A_ZERO}
PAIR: dict[str, Any] = {"num_heads": 2}
WEIGHTED: dict[str, Any] = {"x": HIDDEN, "w": normal(8, 24), "b": normal(24)} | PAIR
TURNED = {"c": TABLE, "s": TABLE[::-1].copy()}
GROUPED = ("GroupQueryAttention", "y k2 v2", "n")
GROUPS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
WINDOW: dict[str, Any] = {
    "q": normal(1, 3, 64),
    "k": normal(1, 3, 32),
    "v": normal(1, 3, 32),
    "a": normal(1, 2, 4, 16),
    "b": normal(1, 2, 4, 16),
    "l": np.array([6], np.int32),
    "n": np.array(7, np.int32),
}
CASES = {
    "QuantizeLinear": case("QuantizeLinear", x=normal(2, 3), s=TWO, z=A_ZERO),
    "QuantizeLinear of channels": case(
        "QuantizeLinear", x=normal(2, 3), s=floats([0.1, 0.2, 0.3]), z=bytes_of(3), axis=1
    ),
    "DequantizeLinear": case("DequantizeLinear", x=U8, s=TWO, z=A_ZERO),
    "QLinearAdd": case("QLinearAdd", **SUM),
    "QLinearMul": case("QLinearMul", **SUM),
    "QLinearSigmoid": case("QLinearSigmoid", x=U8, s=TWO, z=A_ZERO, t=scalar(1 / 256), w=B_ZERO),
    "QLinearLeakyRelu": case("QLinearLeakyRelu", x=U8, s=TWO, z=A_ZERO, t=TWO, w=A_ZERO, alpha=0.2),
    "QLinearSoftmax": softmax(13, 2),
    "QLinearSoftmax of opset 12": softmax(12, 1),
    "QGemm": case(
        "QGemm",
        "y",
        "b bs bz c",
        a=bytes_of(5, 4),
        s=ONE,
        z=A_ZERO,
        b=S8,
        bs=floats([0.02, 0.01, 0.03]),
        bz=np.array([0, 0, 0], np.int8),
        c=np.array([300, -400, 500], np.int32),
        t=TWO,
        w=A_ZERO,
        alpha=0.8,
    ),
    "QGemm of transposed matrices, to FLOAT": case(
        *("QGemm", "y", "b bs bz"),
        a=bytes_of(4, 5),
        s=ONE,
        z=A_ZERO,
        b=bytes_of(3, 4),
        bs=ONE,
        bz=B_ZERO,
        transA=1,
        transB=1,
    ),
    "QLinearConcat": case(
        "QLinearConcat", s=TWO, z=A_ZERO, a=U8, t=ONE, w=B_ZERO, b=U8, u=TWO, v=A_ZERO, axis=1
    ),
    "QLinearAveragePool": case(
        "QLinearAveragePool", **POOLED, kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1]
    ),
    "QLinearAveragePool, channels last": case(
        "QLinearAveragePool", **POOLED, kernel_shape=[2, 2], channels_last=1
    ),
    "QLinearGlobalAveragePool": case("QLinearGlobalAveragePool", **POOLED | {"t": ONE}),
    "QLinearGlobalAveragePool, channels last": case(
        "QLinearGlobalAveragePool", **POOLED | {"t": ONE}, channels_last=1
    ),
    "MatMulIntegerToFloat": case(
        "MatMulIntegerToFloat",
        a=bytes_of(5, 4),
        b=S8,
        s=ONE,
        t=floats([0.1, 0.2, 0.3]),
        z=A_ZERO,
        w=scalar(3, np.int8),
        c=normal(3),
    ),
    "DynamicQuantizeMatMul": case(
        "DynamicQuantizeMatMul", a=normal(5, 4), b=S8, t=ONE, w=scalar(3, np.int8), c=normal(3)
    ),
    "MatMulNBits": case(
        *("MatMulNBits", "y", "b s z"),
        a=normal(2, 3, 64),
        b=bytes_of(5, 2, 16),
        s=normal(10),
        z=bytes_of(5),
        **OF_BITS | {"block_size": 32, "K": 64},
    ),
    "MatMulNBits of part of a block": case(
        *("MatMulNBits", "y", "b s"),
        a=normal(2, 40),
        b=bytes_of(5, 2, 16),
        s=normal(10),
        **OF_BITS | {"block_size": 32},
    ),
    "MatMulNBits of 2 bits": case(
        *("MatMulNBits", "y", "b s z"),
        a=normal(2, 40),
        b=bytes_of(5, 3, 4),
        s=normal(15),
        z=bytes_of(5),
        **OF_BITS | {"bits": 2},
    ),
    "MatMulNBits of real zero points": case(
        *("MatMulNBits", "y", "b s z"),
        a=normal(3, 32),
        b=bytes_of(5, 2, 8),
        s=normal(10),
        z=normal(5, 2),
        **OF_BITS | {"K": 32},
    ),
    "MatMulNBits of rows in any order": case(
        "MatMulNBits",
        "y",
        "b s g",
        a=normal(3, 40),
        b=bytes_of(5, 3, 8),
        s=normal(15),
        _z=NONE,
        g=RANDOM.randint(0, 3, 40).astype(np.int32),
        **OF_BITS,
    ),
    "GatherBlockQuantized": case(
        *("GatherBlockQuantized", "y", "d s z"),
        d=bytes_of(6, 20),
        i=np.array([[5, 0], [-1, 3]]),
        **{"s": normal(6, 3), "z": bytes_of(6, 2), "bits": 4, **BLOCKS},
    ),
    "GatherBlockQuantized of 8 bits": case(
        *("GatherBlockQuantized", "y", "d s"),
        d=bytes_of(6, 32),
        i=np.array([5, 0], np.int32),
        **{"s": normal(6, 2), "bits": 8, **BLOCKS},
    ),
    "FusedMatMulActivation": case(
        "FusedMatMul", a=normal(3, 4), b=normal(5, 4), transB=1, alpha=0.5
    ),
    "FusedConv": case(
        "FusedConv",
        x=normal(1, 4, 5, 6),
        w=normal(6, 2, 2, 3),
        b=normal(6),
        group=2,
        pads=[1, 0, 0, 1],
        activation="LeakyRelu",
        activation_params=[0.3],
    ),
    "FusedConv with a sum": case(
        "FusedConv",
        x=normal(1, 2, 5, 5),
        w=normal(3, 2, 3, 3),
        b=normal(3),
        z=normal(1, 3, 3, 3),
        activation="Relu",
    ),
    "FusedGemm": case(
        "FusedGemm",
        a=normal(4, 3),
        b=normal(5, 4),
        c=normal(5),
        transA=1,
        transB=1,
        alpha=0.5,
        beta=2.0,
        activation="LeakyRelu",
        activation_alpha=0.2,
    ),
    "ConvTransposeWithDynamicPads": case(
        "ConvTransposeWithDynamicPads",
        "y",
        "p",
        x=normal(1, 2, 4, 5),
        w=normal(2, 3, 3, 3),
        p=np.array([1, 0, 1, 2]),
        b=normal(3),
        strides=[2, 1],
    ),
    "EmbedLayerNormalization": case(
        "EmbedLayerNormalization",
        "y n",
        i=np.array([[1, 0, 4], [2, 2, 3]], np.int32),
        s=np.array([[0, 0, 1], [1, 0, 1]], np.int32),
        w=normal(5, 8),
        p=normal(3, 8),
        e=normal(2, 8),
        g=normal(8),
        b=normal(8),
        m=np.array([[1, 1, 0], [1, 1, 1]], np.int32),
    ),
    "SimplifiedLayerNormalization": case(
        "SimplifiedLayerNormalization", x=normal(2, 3, 8), s=normal(8), domain="", epsilon=1e-4
    ),
    "Affine": case("Affine", x=normal(2, 3), alpha=2.0, beta=-1.0, domain="", opset=9),
    "Crop": case("Crop", x=normal(1, 2, 6, 7), border=[1, 2, 3, 1], domain="", opset=9),
    "ImageScaler": case(
        "ImageScaler", x=normal(2, 3, 4, 5), bias=[1.0, 2.0, 3.0], scale=2.0, domain="", opset=9
    ),
    "ParametricSoftplus": case(
        "ParametricSoftplus", x=normal(2, 3), alpha=2.0, beta=0.5, domain="", opset=9
    ),
    "ScaledTanh": case("ScaledTanh", x=normal(2, 3), alpha=2.0, beta=0.5, domain="", opset=9),
    "Attention": case("Attention", **WEIGHTED),
    "Attention of other sizes": case(
        "Attention",
        x=HIDDEN,
        w=normal(8, 22),
        b=normal(22),
        m=MASK,
        **PAIR,
        qkv_hidden_sizes=[8, 8, 6],
    ),
    "Attention of lengths": case("Attention", **WEIGHTED, m=np.array([3, 5], np.int32)),
    "Attention of ends and starts": case(
        "Attention", **WEIGHTED, m=np.array([4, 5, 1, 0], np.int32)
    ),
    "Attention, causal, with a past": case(
        "Attention", "y p", **WEIGHTED, _m=NONE, past=PAST, unidirectional=1
    ),
    "Attention with a mask of pairs": case(
        "Attention", **WEIGHTED, m=np.tile(np.tril(np.ones((5, 5), np.int32))[None], (2, 1, 1))
    ),
    "QAttention": case(
        "QAttention",
        x=bytes_of(2, 5, 8),
        w=bytes_of(8, 24),
        b=normal(24),
        s=ONE,
        t=scalar(0.01),
        m=np.array([3, 5], np.int32),
        z=A_ZERO,
        v=A_ZERO,
        num_heads=2,
    ),
    "MultiHeadAttention": case(
        "MultiHeadAttention",
        q=HIDDEN,
        k=normal(2, 4, 8),
        v=normal(2, 4, 8),
        b=normal(24),
        **{"m": MASK[:, 1:], "e": normal(1, 2, 5, 4), **PAIR},
    ),
    "MultiHeadAttention with a past": case(
        *("MultiHeadAttention", "y p v2"),
        q=HIDDEN,
        k=HIDDEN[::-1].copy(),
        v=normal(2, 5, 8),
        **{"_b": NONE, "_m": NONE, "_e": NONE, "pk": PAST[0], "pv": PAST[1], **PAIR},
    ),
    "MultiHeadAttention of caches": case(
        "MultiHeadAttention", q=HIDDEN, k=normal(2, 2, 6, 4), v=normal(2, 2, 6, 4), num_heads=2
    ),
    "RotaryEmbedding": case("RotaryEmbedding", x=HIDDEN, p=np.array([3]), **TURNED),
    "RotaryEmbedding of neighbours": case(
        "RotaryEmbedding",
        x=HIDDEN,
        p=np.array([[0, 1, 2, 3, 4], [5, 4, 3, 2, 1]]),
        **{**TURNED, "interleaved": 1},
    ),
    "RotaryEmbedding, heads first": case(
        "RotaryEmbedding", x=normal(2, 3, 5, 4), p=np.array([1]), **TURNED
    ),
    "GroupQueryAttention of a prompt": case(
        *GROUPED,
        q=normal(2, 5, 32),
        k=normal(2, 5, 16),
        v=normal(2, 5, 16),
        _a=NONE,
        _b=NONE,
        l=np.array([4, 4], np.int32),
        n=np.array(5, np.int32),
        **GROUPS,
    ),
    "GroupQueryAttention in a window": case(*GROUPED, **WINDOW, **GROUPS, local_window_size=3),
    "GroupQueryAttention of capped scores": case(
        *GROUPED, **WINDOW, **GROUPS, softcap=2.0, local_window_size=3
    ),
    "GroupQueryAttention with a smooth softmax": case(
        *GROUPED, **WINDOW, **GROUPS, smooth_softmax=1
    ),
    "GroupQueryAttention with sinks": case(
        *GROUPED, **WINDOW, _c=NONE, _d=NONE, _e=NONE, _f=NONE, h=normal(4), **GROUPS
    ),
    "GroupQueryAttention with a bias": case(
        *GROUPED, **WINDOW, _c=NONE, _d=NONE, _e=NONE, f=normal(1, 4, 3, 7), **GROUPS
    ),
    "GroupQueryAttention at places": case(
        *GROUPED,
        q=normal(1, 1, 64),
        k=normal(1, 1, 32),
        v=normal(1, 1, 32),
        a=normal(1, 2, 6, 16),
        b=normal(1, 2, 6, 16),
        l=WINDOW["l"],
        n=WINDOW["n"],
        **{"c": normal(16, 8), "d": normal(16, 8), "p": np.array([[6]]), **GROUPS, "do_rotary": 1},
    ),
    "GroupQueryAttention of a token": case(
        "GroupQueryAttention",
        "y k2 v2",
        "n",
        q=normal(2, 1, 128),
        _k=NONE,
        _v=NONE,
        a=normal(2, 2, 6, 16),
        b=normal(2, 2, 6, 16),
        l=np.array([6, 6], np.int32),
        n=np.array(7, np.int32),
        c=normal(16, 8),
        s=normal(16, 8),
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
    ),
    "GroupQueryAttention of caches in 8 bits": case(
        "GroupQueryAttention",
        "y k2 v2",
        "n",
        q=normal(2, 1, 32),
        k=normal(2, 1, 16),
        v=normal(2, 1, 16),
        a=bytes_of(2, 2, 5, 8, dtype=np.int8),
        b=bytes_of(2, 2, 5, 8, dtype=np.int8),
        l=np.array([5, 5], np.int32),
        n=np.array(6, np.int32),
        **LEFT_OUT,
        s=np.abs(normal(16)) * 0.02 + 0.01,
        t=np.abs(normal(16)) * 0.02 + 0.01,
        num_heads=4,
        kv_num_heads=2,
        k_quant_type="PER_CHANNEL",
        v_quant_type="PER_CHANNEL",
        kv_cache_bit_width=8,
    ),
    **{
        f"MoE, {kind} of {tokens} tokens": case(
            "MoE",
            "y",
            "w b v c",
            x=normal(tokens, 8),
            r=normal(tokens, 8),
            w=normal(8, 6, 8),
            b=normal(8, 6),
            v=normal(8, 8, 6),
            c=normal(8, 8),
            k=2,
            activation_type=kind,
            normalize_routing_weights=tokens % 2,
        )
        for kind, tokens in (("relu", 5), ("gelu", 1), ("silu", 2), ("identity", 1))
    },
    **{
        f"MoE, gated, of {tokens} tokens": case(
            "MoE",
            "y",
            "w v",
            x=normal(1, tokens, 8),
            r=normal(tokens, 8),
            w=normal(8, 12, 8),
            _b=NONE,
            v=normal(8, 8, 6),
            k=2,
            activation_type="swiglu",
            swiglu_fusion=1,
            activation_alpha=1.7,
            activation_beta=1.0,
            **limit,
        )
        for tokens, limit in ((5, {}), (1, {"swiglu_limit": 0.5}))
    },
    **{
        f"QMoE of {bits} bits, {tokens} tokens": case(
            "QMoE",
            "y",
            "w s v t zw zv",
            x=normal(tokens, 32),
            r=normal(tokens, 8),
            w=bytes_of(8, 32, 32 * bits // 8),
            s=np.abs(normal(8, 32, *blocks)) * 0.02,
            _b=NONE,
            v=bytes_of(8, 32, 16 * bits // 8),
            t=np.abs(normal(8, 32, *([1] if blocks else []))) * 0.02,
            _c=NONE,
            _w3=NONE,
            _s3=NONE,
            _b3=NONE,
            zw=bytes_of(8, 32, 1) if blocks else bytes_of(8, 32 * bits // 8),
            zv=bytes_of(8, 32, 1) if blocks else bytes_of(8, 32 * bits // 8),
            _z3=NONE,
            p=np.abs(normal(tokens, 8)),
            k=2,
            activation_type="swiglu",
            swiglu_fusion=1,
            normalize_routing_weights=1,
            expert_weight_bits=bits,
            **({"block_size": 16} if blocks else {}),
        )
        for bits, tokens, blocks in ((4, 5, [2]), (4, 1, [2]), (8, 1, []))
    },
    **{
        f"LinearAttention, {rule}": case(
            "LinearAttention",
            "y p",
            q=normal(2, 3, 16),
            k=normal(2, 3, 8) * 0.3,
            v=normal(2, 3, 12),
            s=normal(2, 2, 4, 6),
            **({"g": -np.abs(normal(2, 3, 2))} if "gated" in rule else {"_g": NONE}),
            **({"b": np.abs(normal(2, 3, 2))} if "delta" in rule else {"_b": NONE}),
            q_num_heads=4,
            kv_num_heads=2,
            update_rule=rule,
        )
        for rule in ("linear", "gated", "delta", "gated_delta")
    },
    "CausalConvWithState": case(
        "CausalConvWithState",
        "y p",
        "w b",
        x=normal(2, 6, 5),
        w=normal(6, 1, 4),
        b=normal(6),
        s=normal(2, 6, 3),
        activation="silu",
        ndim=1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_onnx_runtime(name: str):
    model, inputs = CASES[name]
    results = load_onnx(model)(inputs)
    for result, expected in zip(results.values(), runtime(model, inputs), strict=True):
        assert np.asarray(result).dtype == expected.dtype
        is_quantized = expected.dtype.itemsize == 1
        wide = [np.asarray(x).astype(np.float64) for x in (result, expected)]
        np.testing.assert_allclose(*wide, rtol=1e-4, atol=1 if is_quantized else 2e-4)


def test_queries_keys_and_values_may_be_one_tensor():
    x = normal(2, 5, 2, 3, 4)
    flat = [np.ascontiguousarray(x[:, :, :, k]).reshape(2, 5, 8) for k in range(3)]
    plain = case("MultiHeadAttention", q=flat[0], k=flat[1], v=flat[2], num_heads=2)
    (expected,) = runtime(*plain)
    one = case("MultiHeadAttention", x=x, num_heads=2)
    two = case("MultiHeadAttention", q=flat[0], k=np.ascontiguousarray(x[:, :, :, 1:]), num_heads=2)
    for model, inputs in (one, two):
        np.testing.assert_allclose(load_onnx(model)(inputs)["y"], expected, rtol=1e-4, atol=1e-5)


def test_convolutions_of_last_channels_are_those_of_first_ones():
    x, w, b = normal(1, 5, 6, 4), normal(6, 2, 3, 2), normal(6)
    model, inputs = case("NhwcConv", x=x, w=w, b=b, group=2, pads=[1, 0, 0, 1], strides=[2, 1])
    first = [np.ascontiguousarray(np.moveaxis(a, 3, 1)) for a in (x, w)]
    same, others = case(
        "Conv", x=first[0], w=first[1], b=b, group=2, pads=[1, 0, 0, 1], strides=[2, 1], domain=""
    )
    expected = np.moveaxis(runtime(same, others)[0], 1, 3)
    np.testing.assert_allclose(load_onnx(model)(inputs)["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_last", [True, False])
def test_groups_are_normalized_as_onnx_does(is_last: bool):
    x, gamma, beta = normal(2, 6, 4, 5), normal(6), normal(6)
    same, others = case(
        "GroupNormalization", x=x, g=gamma, b=beta, num_groups=3, opset=21, domain=""
    )
    (expected,) = runtime(same, others)
    expected = expected / (1 + np.exp(-expected))
    x = np.ascontiguousarray(np.moveaxis(x, 1, 3)) if is_last else x
    model, inputs = case(
        "GroupNorm", x=x, g=gamma, b=beta, groups=3, activation=1, channels_last=int(is_last)
    )
    found = np.asarray(load_onnx(model)(inputs)["y"])
    found = np.moveaxis(found, 3, 1) if is_last else found
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_is_not_computed_is_refused():
    x, w, b = HIDDEN, normal(8, 24), normal(24)
    model, _ = case("Attention", x=x, w=w, b=b, num_heads=2, do_rotary=1)
    assert "'y' (Attention): expected do_rotary to be 0, got 1" in refusal(model)
    model, _ = case("FusedConv", x=normal(1, 1, 3, 3), w=normal(1, 1, 1, 1), activation="Sin")
    assert "expected activation to be one of Relu, Sigmoid" in refusal(model)


def test_a_file_that_onnx_runtime_laid_out_for_its_processor_is_refused_with_the_cure():
    model = single("Conv", {"x": normal(1, 8, 3, 3), "w": normal(8, 8, 1, 1)}, domain=NCHWC)
    message = refusal(model)
    assert message.startswith("Node 'y' (Conv): expected op type to be of all processors")
    assert "GraphOptimizationLevel.ORT_ENABLE_EXTENDED" in message
    assert message.endswith("got 'com.microsoft.nchwc.Conv' (opset 1)")


@pytest.mark.parametrize("name", ["UINT4", "INT4"])
@pytest.mark.parametrize("sizes", [(6, 32, 2), (6, 33, 3)])
def test_rows_of_four_bits_are_gathered(name: str, sizes: tuple[int, ...]):
    rows, columns, blocks = sizes
    low, high = (0, 16) if name == "UINT4" else (-8, 8)
    data = RANDOM.randint(low, high, (rows, columns))
    zero, scale = RANDOM.randint(low, high, (rows, blocks)), normal(rows, blocks)
    given = {"i": np.array([[5, 0, 2]]), "s": scale}
    model, inputs = case("GatherBlockQuantized", "y", "s", _d=NONE, **given, block_size=16)
    model.graph.node[0].input[0] = "d"
    model.graph.node[0].input.append("z")
    for label, array in (("d", data), ("z", zero)):
        kind = getattr(TensorProto, name)
        made = helper.make_tensor(label, kind, array.shape, array.reshape(-1).tolist())
        model.graph.initializer.append(made)
    of_block = np.arange(columns) // 16
    expected = ((data - zero[:, of_block]) * scale[:, of_block])[given["i"]]
    np.testing.assert_allclose(load_onnx(model)(inputs)["y"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(runtime(model, inputs)[0], expected, rtol=1e-5, atol=1e-6)


def test_masks_of_tokens_are_summed_without_64_bits():
    model, _ = case(
        "ReduceSum", attention_mask=np.ones((2, 3), np.int64), a=np.array([1]), domain=""
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "a"))
    del model.graph.input[1]
    with jax.enable_x64(False):
        network = load_onnx(model)
        mask = np.array([[1, 1, 0], [1, 0, 0]])
        np.testing.assert_array_equal(
            next(iter(network({"attention_mask": mask}).values())).ravel(), [2, 1]
        )
        with pytest.raises(DmlError, match=r"have elements in \[0, 1\] while 64-bit types are off"):
            network({"attention_mask": mask * 2})


def test_norms_of_queries_and_keys_are_those_before_attention():
    """No CPU kernel of ONNX Runtime takes the norms, but attention of what they give."""
    q, k, weights = normal(2, 1, 32), normal(2, 1, 16), (normal(8), normal(8))

    def normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        parts = x.reshape(2, 1, -1, 8)
        root = np.sqrt((parts * parts).mean(-1, keepdims=True) + 1e-3)
        return (parts / root * weight).reshape(x.shape).astype(np.float32)

    rest = {"v": normal(2, 1, 16), "a": normal(2, 2, 5, 8), "b": normal(2, 2, 5, 8)}
    rest |= {"l": np.array([5, 5], np.int32), "n": np.array(6, np.int32)}
    heads: Any = {"num_heads": 4, "kv_num_heads": 2}
    left_out = {**LEFT_OUT, "_5": NONE, "_6": NONE}
    with_norms: Any = {**rest, **left_out, "qw": weights[0], "kw": weights[1]}
    names = ("GroupQueryAttention", "y k2 v2", "n")
    model, inputs = case(*names, q=q, k=k, **with_norms, qk_norm_epsilon=1e-3, **heads)
    before = {"q": normed(q, weights[0]), "k": normed(k, weights[1])}
    answers = runtime(*case(*names, **before, **rest, **heads))
    for result, answer in zip(load_onnx(model)(inputs).values(), answers, strict=True):
        np.testing.assert_allclose(result, answer, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tokens", [40, 1])
def test_queries_see_the_blocks_that_a_layout_has(tokens: int):
    """ONNX Runtime's kernel writes into the buffers of keys and values, and so it is called."""
    import onnxruntime

    rows = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
    columns = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
    total = 40 if tokens > 1 else 55
    model, inputs = case(
        "SparseAttention",
        "y k2 v2",
        "rows columns",
        q=normal(2, tokens, 64),
        k=normal(2, tokens, 32),
        v=normal(2, tokens, 32),
        a=normal(2, 2, 64, 16),
        b=normal(2, 2, 64, 16),
        rows=rows,
        columns=columns,
        n=np.array([total], np.int32),
        ends=np.array([total, total], np.int32),
        c=normal(64, 8),
        s=normal(64, 8),
        num_heads=4,
        kv_num_heads=2,
        sparse_block_size=16,
        do_rotary=1,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    held = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a.copy()) for n, a in inputs.items()}
    for name, value in held.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("k2", held["a"])
    binding.bind_ortvalue_output("v2", held["b"])
    session.run_with_iobinding(binding)
    results = load_onnx(model)(inputs)
    answers = [binding.get_outputs()[0].numpy(), held["a"].numpy(), held["b"].numpy()]
    for result, answer in zip(results.values(), answers, strict=True):
        np.testing.assert_allclose(result, answer, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tokens, ends", [(1, [55, 20]), (3, [20, 55]), (40, [40, 25])])
def test_batches_with_different_numbers_of_keys_see_their_own(tokens: int, ends: list[int]):
    """ONNX Runtime's kernel reads these scores at other places than it writes: NumPy has the fact.

    It multiplies the values with `seq * total_key_lengths[batch] * i` as the place of the scores
    (sparse_attention_base.h), and writes them at `seq * total_sequence_length * i`.
    """
    seen = np.tril(np.array([[1, 1, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1]]))
    rows = np.array([[0, *seen.sum(1).cumsum()]], np.int32)
    shape = {"q": (2, tokens, 64), "k": (2, tokens, 32), "v": (2, tokens, 32)}
    given = {name: normal(*sizes) for name, sizes in shape.items()}
    given |= {"a": normal(2, 2, 64, 16), "b": normal(2, 2, 64, 16)}
    given |= {"rows": rows, "columns": np.nonzero(seen)[1].astype(np.int32)[None]}
    total = tokens if tokens == 40 else max(ends)
    given |= {"n": np.array([total], np.int32), "ends": np.array(ends, np.int32)}
    angles = normal(64, 8)
    given |= {"c": np.cos(angles), "s": np.sin(angles)}
    heads: Any = {"num_heads": 4, "kv_num_heads": 2, "sparse_block_size": 16, "do_rotary": 1}
    model, inputs = case("SparseAttention", "y k2 v2", "rows columns", **given, **heads)
    result, keys, values = (np.asarray(x) for x in load_onnx(model)(inputs).values())

    def turned(x: np.ndarray, places: np.ndarray) -> np.ndarray:
        low, high = np.split(x.reshape(len(places), -1, 16).astype(np.float64), 2, -1)
        turns = angles[places][:, None]
        cos, sin = np.cos(turns), np.sin(turns)
        return np.concatenate([low * cos - high * sin, low * sin + high * cos], -1)

    for batch, end in enumerate(ends):
        first = 0 if total == tokens else end - tokens
        places = np.arange(first, first + tokens)
        buffers = [given[name][batch].astype(np.float64) for name in ("a", "b")]
        buffers[0][:, places] = turned(given["k"][batch], places).transpose(1, 0, 2)
        buffers[1][:, places] = given["v"][batch].reshape(tokens, 2, 16).transpose(1, 0, 2)
        np.testing.assert_allclose(keys[batch], buffers[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(values[batch], buffers[1])
        queries = turned(given["q"][batch], places)
        for row, place in enumerate(places[: end - first]):
            (there,) = np.nonzero(seen[place // 16].repeat(16)[: place + 1])
            for head in range(4):
                scores = buffers[0][head // 2, there] @ queries[row, head] / 4
                parts = np.exp(scores - scores.max())
                wanted = parts @ buffers[1][head // 2, there] / parts.sum()
                found = result[batch, row, 16 * head : 16 * head + 16]
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_what_experts_do_not_compute_is_refused():
    given: Any = {"x": normal(2, 8), "r": normal(2, 4), "w": normal(4, 6, 8), "_b": NONE}
    given |= {"v": normal(4, 8, 6)}
    model, _ = case("MoE", "y", "w v", **given, use_sparse_mixer=1)
    assert "use_sparse_mixer to be 0, got 1" in refusal(model)
    model, _ = case("MoE", "y", "w v", **given, activation_type="relu2")
    assert "activation_type to be one of relu, gelu, silu, identity, swiglu" in refusal(model)
    model, _ = case("CausalConvWithState", x=normal(1, 2, 3), w=normal(2, 1, 2), dilation=2)
    assert "dilation to be 1, as in ONNX's op type of this name, got 2" in refusal(model)
