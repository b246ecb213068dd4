"""Op types of ONNX Runtime's own domain, compared with ONNX Runtime."""

import string
from typing import Any

import jax
import numpy as np
import onnxruntime
import pytest
from build import floats, refusal, runtime, session, single
from onnx import TensorProto, helper

from dml_jax import DmlError, load_onnx

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


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def grouped(batch: int, tokens: int, size: int, keys: int = 0) -> list[Any]:
    """Return queries of 4 heads, keys and values of 2, and those of a past of some keys."""
    parts = [normal(batch, tokens, heads * size) for heads in (4, 2, 2)]
    return parts + [normal(batch, 2, keys, size) if keys else None for _ in range(2)]


def case(name: str, arrays: list[Any], constants: str = "", **given: Any) -> tuple:
    """Return a model of a name, whose one node is of the op type in its first word, and its inputs.

    Arrays are the inputs a, b, c and so on, None for one that is left out; some are `constants`.
    """
    named = dict(zip(string.ascii_lowercase, arrays, strict=False))
    op_type = name.split()[0].rstrip(",")
    model = single(op_type, named, constants=constants, **{"domain": DOMAIN, **given})
    model.graph.name = name
    return model, {n: x for n, x in named.items() if x is not None and n not in constants}


def softmax(name: str, opset: int, axis: int) -> tuple:
    """Return a quantized softmax as an opset has it."""
    made = case(name, [U8, TWO, A_ZERO, scalar(1 / 256), B_ZERO], axis=axis)
    made[0].graph.node[0].attribute.append(helper.make_attribute("opset", opset))
    return made


OF_BITS: dict[str, Any] = {"bits": 4, "block_size": 16, "N": 5, "K": 40}
POOLED, AVERAGED = ([U8, ONE, A_ZERO, scale, B_ZERO] for scale in (TWO, ONE))
THREE = floats([0.1, 0.2, 0.3])
BLOCKS: dict[str, Any] = {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}
SUM = [U8, ONE, A_ZERO, U8[:, :1], TWO, B_ZERO, TWO, A_ZERO]
WEIGHTED = [HIDDEN, normal(8, 24), normal(24)]
SEEN = np.tri(5, dtype=np.int32)
TURNED = [TABLE, TABLE[::-1].copy()]
GROUPS: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "outputs": "y k2 v2", "constants": "g"}
OLD: dict[str, Any] = {"domain": "", "opset": 9}
ANGLES = normal(2, 16, 8)  # cosines and sines
TOTAL = scalar(7, np.int32)
WINDOW = [*grouped(1, 3, 16, 4), ints(6), TOTAL]
CACHES, SCALES = bytes_of(2, 2, 2, 5, 8, dtype=np.int8), np.abs(normal(2, 16)) * 0.02 + 0.01
COLUMNS = [S8, floats([0.02, 0.01, 0.03]), np.zeros(3, np.int8), ints(300, -400, 500)]
LAYERS = [normal(8, 6, 8), normal(8, 6), normal(8, 8, 6), normal(8, 8)]
WORDS = np.array([[1, 0, 4], [2, 2, 3]], np.int32)
EXPERTS: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2}


def quantized_experts(bits: int, tokens: int, blocks: list[int]) -> tuple:
    """Return experts of numbers of some bits, by blocks or by rows."""
    numbers = [bytes_of(8, 32, width * bits // 8) for width in (32, 16)]
    shapes = (8, 32, *blocks), (8, 32, *([1] if blocks else []))
    scales = [np.abs(normal(*sizes)) * 0.02 for sizes in shapes]
    zeros = [bytes_of(8, 32, 1) if blocks else bytes_of(8, 32 * bits // 8) for _ in range(2)]
    layers = [numbers[0], scales[0], None, numbers[1], scales[1], *[None] * 4, *zeros, None]
    given = [normal(tokens, 32), normal(tokens, 8), *layers, np.abs(normal(tokens, 8))]
    sizes = {"block_size": 16} if blocks else {}
    more = {"normalize_routing_weights": 1, "expert_weight_bits": bits, **sizes}
    return case(f"QMoE of {bits} bits, {tokens} tokens", given, "cdfglm", **more, **EXPERTS)


def linear_attention(rule: str) -> tuple:
    gates = -np.abs(normal(2, 3, 2)) if "gated" in rule else None
    steps = np.abs(normal(2, 3, 2)) if "delta" in rule else None
    given = [normal(2, 3, 16), normal(2, 3, 8) * 0.3, normal(2, 3, 12), normal(2, 2, 4, 6)]
    heads: Any = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule, "outputs": "y p"}
    return case(f"LinearAttention, {rule}", [*given, gates, steps], **heads)


CASES = [
    case("QuantizeLinear", [normal(2, 3), TWO, A_ZERO]),
    case("QuantizeLinear of channels", [normal(2, 3), THREE, bytes_of(3)], axis=1),
    case("DequantizeLinear", [U8, TWO, A_ZERO]),
    case("QLinearAdd", SUM),
    case("QLinearMul", SUM),
    case("QLinearSigmoid", [U8, TWO, A_ZERO, scalar(1 / 256), B_ZERO]),
    case("QLinearLeakyRelu", [U8, TWO, A_ZERO, TWO, A_ZERO], alpha=0.2),
    softmax("QLinearSoftmax", 13, 2),
    softmax("QLinearSoftmax of opset 12", 12, 1),
    case("QGemm", [bytes_of(5, 4), ONE, A_ZERO, *COLUMNS, TWO, A_ZERO], "defg", alpha=0.8),
    case(
        "QGemm of transposed matrices, to FLOAT",
        [bytes_of(4, 5), ONE, A_ZERO, bytes_of(3, 4), ONE, B_ZERO],
        "def",
        transA=1,
        transB=1,
    ),
    case("QLinearConcat", [TWO, A_ZERO, U8, ONE, B_ZERO, U8, TWO, A_ZERO], axis=1),
    case("QLinearAveragePool", POOLED, kernel_shape=[2, 3], strides=[1, 2], pads=[1, 0, 0, 1]),
    case("QLinearAveragePool, channels last", POOLED, kernel_shape=[2, 2], channels_last=1),
    case("QLinearGlobalAveragePool", AVERAGED),
    case("QLinearGlobalAveragePool, channels last", AVERAGED, channels_last=1),
    case(
        "MatMulIntegerToFloat",
        [bytes_of(5, 4), S8, ONE, THREE, A_ZERO, scalar(3, np.int8), normal(3)],
    ),
    case("DynamicQuantizeMatMul", [normal(5, 4), S8, ONE, scalar(3, np.int8), normal(3)]),
    case(
        "MatMulNBits",
        [normal(2, 3, 64), bytes_of(5, 2, 16), normal(10), bytes_of(5)],
        "bcd",
        **OF_BITS | {"block_size": 32, "K": 64},
    ),
    case(
        "MatMulNBits of part of a block",
        [normal(2, 40), bytes_of(5, 2, 16), normal(10)],
        "bc",
        **OF_BITS | {"block_size": 32},
    ),
    case(
        "MatMulNBits of 2 bits",
        [normal(2, 40), bytes_of(5, 3, 4), normal(15), bytes_of(5)],
        "bcd",
        **OF_BITS | {"bits": 2},
    ),
    case(
        "MatMulNBits of real zero points",
        [normal(3, 32), bytes_of(5, 2, 8), normal(10), normal(5, 2)],
        "bcd",
        **OF_BITS | {"K": 32},
    ),
    case(
        "MatMulNBits of rows in any order",
        [normal(3, 40), bytes_of(5, 3, 8), normal(15), None, ints(*RANDOM.randint(0, 3, 40))],
        "bce",
        **OF_BITS,
    ),
    case(
        "GatherBlockQuantized",
        [bytes_of(6, 20), np.array([[5, 0], [-1, 3]]), normal(6, 3), bytes_of(6, 2)],
        "acd",
        bits=4,
        **BLOCKS,
    ),
    case(
        "GatherBlockQuantized of 8 bits",
        [bytes_of(6, 32), ints(5, 0), normal(6, 2)],
        "ac",
        bits=8,
        **BLOCKS,
    ),
    case("FusedMatMul", [normal(3, 4), normal(5, 4)], transB=1, alpha=0.5),
    case(
        "FusedConv",
        [normal(1, 4, 5, 6), normal(6, 2, 2, 3), normal(6)],
        group=2,
        pads=[1, 0, 0, 1],
        activation="LeakyRelu",
        activation_params=[0.3],
    ),
    case(
        "FusedConv with a sum",
        [normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), normal(1, 3, 3, 3)],
        activation="Relu",
    ),
    case(
        "FusedGemm",
        [normal(4, 3), normal(5, 4), normal(5)],
        transA=1,
        transB=1,
        alpha=0.5,
        beta=2.0,
        activation="LeakyRelu",
        activation_alpha=0.2,
    ),
    case(
        "ConvTransposeWithDynamicPads",
        [normal(1, 2, 4, 5), normal(2, 3, 3, 3), np.array([1, 0, 1, 2]), normal(3)],
        "c",
        strides=[2, 1],
    ),
    case(
        "EmbedLayerNormalization",
        [WORDS, MASK[:, 1:4], normal(5, 8), normal(3, 8), normal(2, 8), *normal(2, 8), MASK[:, 2:]],
        outputs="y n",
    ),
    case("SimplifiedLayerNormalization", [normal(2, 3, 8), normal(8)], domain="", epsilon=1e-4),
    case("Affine", [normal(2, 3)], alpha=2.0, beta=-1.0, **OLD),
    case("Crop", [normal(1, 2, 6, 7)], border=[1, 2, 3, 1], **OLD),
    case("ImageScaler", [normal(2, 3, 4, 5)], bias=[1.0, 2.0, 3.0], scale=2.0, **OLD),
    case("ParametricSoftplus", [normal(2, 3)], alpha=2.0, beta=0.5, **OLD),
    case("ScaledTanh", [normal(2, 3)], alpha=2.0, beta=0.5, **OLD),
    case("Attention", WEIGHTED, num_heads=2),
    case(
        "Attention of other sizes",
        [HIDDEN, normal(8, 22), normal(22), MASK],
        num_heads=2,
        qkv_hidden_sizes=[8, 8, 6],
    ),
    case("Attention of lengths", [*WEIGHTED, ints(3, 5)], num_heads=2),
    case("Attention of ends and starts", [*WEIGHTED, ints(4, 5, 1, 0)], num_heads=2),
    case(
        "Attention, causal, with a past",
        [*WEIGHTED, None, PAST],
        outputs="y p",
        num_heads=2,
        unidirectional=1,
    ),
    case("Attention with a mask of pairs", [*WEIGHTED, np.stack([SEEN, SEEN])], num_heads=2),
    case(
        "QAttention",
        [bytes_of(2, 5, 8), bytes_of(8, 24), normal(24), ONE, ONE, ints(3, 5), A_ZERO, A_ZERO],
        num_heads=2,
    ),
    case(
        "MultiHeadAttention",
        [HIDDEN, normal(2, 4, 8), normal(2, 4, 8), normal(24), MASK[:, 1:], normal(1, 2, 5, 4)],
        num_heads=2,
    ),
    case(
        "MultiHeadAttention with a past",
        [HIDDEN, HIDDEN[::-1].copy(), normal(2, 5, 8), None, None, None, PAST[0], PAST[1]],
        outputs="y p v2",
        num_heads=2,
    ),
    case(
        "MultiHeadAttention of caches",
        [HIDDEN, normal(2, 2, 6, 4), normal(2, 2, 6, 4)],
        num_heads=2,
    ),
    case("RotaryEmbedding", [HIDDEN, np.array([3]), *TURNED]),
    case(
        "RotaryEmbedding of neighbours",
        [HIDDEN, np.array([[0, 1, 2, 3, 4], [5, 4, 3, 2, 1]]), *TURNED],
        interleaved=1,
    ),
    case("RotaryEmbedding, heads first", [normal(2, 3, 5, 4), np.array([1]), *TURNED]),
    case(
        "GroupQueryAttention of a prompt",
        [*grouped(2, 5, 8), ints(4, 4), scalar(5, np.int32)],
        **GROUPS,
    ),
    case("GroupQueryAttention in a window", WINDOW, **GROUPS, local_window_size=3),
    case("GroupQueryAttention, capped", WINDOW, **GROUPS, softcap=2.0, local_window_size=3),
    case("GroupQueryAttention with a smooth softmax", WINDOW, **GROUPS, smooth_softmax=1),
    case("GroupQueryAttention with sinks", [*WINDOW, *[None] * 4, normal(4)], **GROUPS),
    case("GroupQueryAttention with a bias", [*WINDOW, *[None] * 3, normal(1, 4, 3, 7)], **GROUPS),
    case(
        "GroupQueryAttention at places",
        [*grouped(1, 1, 16, 6), *WINDOW[5:], *ANGLES, np.array([[6]])],
        do_rotary=1,
        **GROUPS,
    ),
    case(
        "GroupQueryAttention of a token",
        [normal(2, 1, 128), None, None, *normal(2, 2, 2, 6, 16), ints(6, 6), TOTAL, *ANGLES],
        do_rotary=1,
        **GROUPS,
    ),
    case(
        "GroupQueryAttention of caches in 8 bits",
        [*grouped(2, 1, 8)[:3], *CACHES, ints(5, 5), scalar(6, np.int32), *[None] * 5, *SCALES],
        k_quant_type="PER_CHANNEL",
        v_quant_type="PER_CHANNEL",
        kv_cache_bit_width=8,
        **GROUPS,
    ),
    *(
        case(
            f"MoE, {kind} of {tokens} tokens",
            [*normal(2, tokens, 8), *LAYERS],
            "cdef",
            k=2,
            activation_type=kind,
            normalize_routing_weights=tokens % 2,
        )
        for kind, tokens in (("relu", 5), ("gelu", 1), ("silu", 2), ("identity", 1))
    ),
    *(
        case(
            f"MoE, gated, of {tokens} tokens",
            [normal(1, tokens, 8), normal(tokens, 8), normal(8, 12, 8), None, normal(8, 8, 6)],
            "ce",
            activation_alpha=1.7,
            activation_beta=1.0,
            **EXPERTS | limit,
        )
        for tokens, limit in ((5, {}), (1, {"swiglu_limit": 0.5}))
    ),
    *map(quantized_experts, (4, 4, 8), (5, 1, 1), ([2], [2], [])),
    *map(linear_attention, ("linear", "gated", "delta", "gated_delta")),
    case(
        "CausalConvWithState",
        [normal(2, 6, 5), normal(6, 1, 4), normal(6), normal(2, 6, 3)],
        "bc",
        outputs="y p",
        activation="silu",
        ndim=1,
    ),
]


@pytest.mark.parametrize("given", CASES, ids=lambda given: given[0].graph.name)
def test_answers_are_those_of_onnx_runtime(given: tuple):
    model, inputs = given
    results = load_onnx(model)(inputs)
    for result, expected in zip(results.values(), runtime(model, inputs), strict=True):
        assert np.asarray(result).dtype == expected.dtype
        is_quantized = expected.dtype.itemsize == 1
        wide = [np.asarray(x).astype(np.float64) for x in (result, expected)]
        np.testing.assert_allclose(*wide, rtol=1e-4, atol=1 if is_quantized else 2e-4)


def test_queries_keys_and_values_may_be_one_tensor():
    x = normal(2, 5, 2, 3, 4)
    flat = [np.ascontiguousarray(x[:, :, :, k]).reshape(2, 5, 8) for k in range(3)]
    (expected,) = runtime(*case("MultiHeadAttention", flat, num_heads=2))
    for arrays in ([x], [flat[0], np.ascontiguousarray(x[:, :, :, 1:])]):
        model, inputs = case("MultiHeadAttention", arrays, num_heads=2)
        np.testing.assert_allclose(load_onnx(model)(inputs)["y"], expected, rtol=1e-4, atol=1e-5)


def test_convolutions_of_last_channels_are_those_of_first_ones():
    x, w, b = normal(1, 5, 6, 4), normal(6, 2, 3, 2), normal(6)
    moves: Any = {"group": 2, "pads": [1, 0, 0, 1], "strides": [2, 1]}
    model, inputs = case("NhwcConv", [x, w, b], **moves)
    first = [np.ascontiguousarray(np.moveaxis(a, 3, 1)) for a in (x, w)]
    expected = np.moveaxis(runtime(*case("Conv", [*first, b], domain="", **moves))[0], 1, 3)
    np.testing.assert_allclose(load_onnx(model)(inputs)["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_last", [True, False])
def test_groups_are_normalized_as_onnx_does(is_last: bool):
    x, gamma, beta = normal(2, 6, 4, 5), normal(6), normal(6)
    plain = case("GroupNormalization", [x, gamma, beta], num_groups=3, opset=21, domain="")
    (expected,) = runtime(*plain)
    expected = expected / (1 + np.exp(-expected))
    x = np.ascontiguousarray(np.moveaxis(x, 1, 3)) if is_last else x
    given: Any = {"groups": 3, "activation": 1, "channels_last": int(is_last)}
    model, inputs = case("GroupNorm", [x, gamma, beta], **given)
    found = np.asarray(load_onnx(model)(inputs)["y"])
    found = np.moveaxis(found, 3, 1) if is_last else found
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_what_is_not_computed_is_refused():
    experts = [normal(2, 8), normal(2, 4), normal(4, 6, 8), None, normal(4, 8, 6)]
    image, rows = [normal(1, 1, 3, 3), normal(1, 1, 1, 1)], [normal(1, 2, 3), normal(2, 1, 2)]
    known, same = (
        "be one of relu, gelu, silu, identity, swiglu",
        "as in ONNX's op type of this name",
    )
    refused: list[tuple[str, str, list[Any], dict[str, Any]]] = [
        ("(Attention): expected do_rotary to be 0, got 1", "Attention", WEIGHTED, {"do_rotary": 1}),
        ("be one of Relu, Sigmoid", "FusedConv", image, {"activation": "Sin"}),
        ("use_sparse_mixer to be 0, got 1", "MoE", experts, {"use_sparse_mixer": 1}),
        (f"activation_type to {known}", "MoE", experts, {"activation_type": "relu2"}),
        (f"dilation to be 1, {same}, got 2", "CausalConvWithState", rows, {"dilation": 2}),
    ]
    for message, name, arrays, given in refused:
        model, _ = case(name, arrays, **given)
        assert message in refusal(model)


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
    index = np.array([[5, 0, 2]])
    model, inputs = case("GatherBlockQuantized", [None, index, scale], "c", block_size=16)
    model.graph.node[0].input[:] = ["d", "b", "c", "z"]
    for label, array in (("d", data), ("z", zero)):
        kind = getattr(TensorProto, name)
        made = helper.make_tensor(label, kind, array.shape, array.reshape(-1).tolist())
        model.graph.initializer.append(made)
    of_block = np.arange(columns) // 16
    expected = ((data - zero[:, of_block]) * scale[:, of_block])[index]
    np.testing.assert_allclose(load_onnx(model)(inputs)["y"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(runtime(model, inputs)[0], expected, rtol=1e-5, atol=1e-6)


def test_masks_of_tokens_are_summed_without_64_bits():
    model, _ = case("ReduceSum", [np.ones((2, 3), np.int64), np.array([1])], "b", domain="")
    model.graph.input[0].name = model.graph.node[0].input[0] = "attention_mask"
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
    q, k, *parts = grouped(2, 1, 8, 5)
    weights = normal(2, 8)

    def normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        parts = x.reshape(2, 1, -1, 8)
        root = np.sqrt((parts * parts).mean(-1, keepdims=True) + 1e-3)
        return (parts / root * weight).reshape(x.shape).astype(np.float32)

    rest = [*parts, ints(5, 5), scalar(6, np.int32)]
    arrays = [q, k, *rest, *[None] * 7, *weights]
    model, inputs = case("GroupQueryAttention", arrays, qk_norm_epsilon=1e-3, **GROUPS)
    before = [normed(x, weight) for x, weight in zip((q, k), weights, strict=True)]
    answers = runtime(*case("GroupQueryAttention", [*before, *rest], **GROUPS))
    for result, answer in zip(load_onnx(model)(inputs).values(), answers, strict=True):
        np.testing.assert_allclose(result, answer, rtol=1e-5, atol=1e-5)


SPARSE: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2, "outputs": "y k2 v2"}
SPARSE |= {"sparse_block_size": 16, "do_rotary": 1, "constants": "fg"}


@pytest.mark.parametrize("tokens", [40, 1])
def test_queries_see_the_blocks_that_a_layout_has(tokens: int):
    """ONNX Runtime's kernel writes into the buffers of keys and values, and so it is called."""
    rows = np.array([[0, 1, 3, 5, 8], [0, 1, 3, 6, 9]], np.int32)
    columns = np.array([[0, 0, 1, 1, 2, 1, 2, 3, -1], [0, 0, 1, 0, 1, 2, 0, 2, 3]], np.int32)
    total = 40 if tokens > 1 else 55
    layout = [rows, columns, ints(total), ints(total, total), *normal(2, 64, 8)]
    arrays = [*grouped(2, tokens, 16, 64), *layout]
    model, inputs = case("SparseAttention", arrays, **SPARSE)
    kernel = session(model)
    binding = kernel.io_binding()
    held = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a.copy()) for n, a in inputs.items()}
    for name, value in held.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("k2", held["d"])
    binding.bind_ortvalue_output("v2", held["e"])
    kernel.run_with_iobinding(binding)
    results = load_onnx(model)(inputs)
    answers = [binding.get_outputs()[0].numpy(), held["d"].numpy(), held["e"].numpy()]
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
    total, angles = (tokens if tokens == 40 else max(ends)), normal(64, 8)
    q, k, v, *past = grouped(2, tokens, 16, 64)
    layout = [rows, np.nonzero(seen)[1].astype(np.int32)[None], ints(total), ints(*ends)]
    arrays = [q, k, v, *past, *layout, np.cos(angles), np.sin(angles)]
    model, inputs = case("SparseAttention", arrays, **SPARSE)
    result, keys, values = (np.asarray(x) for x in load_onnx(model)(inputs).values())

    def turned(x: np.ndarray, places: np.ndarray) -> np.ndarray:
        low, high = np.split(x.reshape(len(places), -1, 16).astype(np.float64), 2, -1)
        turns = angles[places][:, None]
        cos, sin = np.cos(turns), np.sin(turns)
        return np.concatenate([low * cos - high * sin, low * sin + high * cos], -1)

    for batch, end in enumerate(ends):
        first = 0 if total == tokens else end - tokens
        places = np.arange(first, first + tokens)
        buffers = [x[batch].astype(np.float64) for x in past]
        buffers[0][:, places] = turned(k[batch], places).transpose(1, 0, 2)
        buffers[1][:, places] = v[batch].reshape(tokens, 2, 16).transpose(1, 0, 2)
        np.testing.assert_allclose(keys[batch], buffers[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(values[batch], buffers[1])
        queries = turned(q[batch], places)
        for row, place in enumerate(places[: end - first]):
            (there,) = np.nonzero(seen[place // 16].repeat(16)[: place + 1])
            for head in range(4):
                scores = buffers[0][head // 2, there] @ queries[row, head] / 4
                parts = np.exp(scores - scores.max())
                wanted = parts @ buffers[1][head // 2, there] / parts.sum()
                found = result[batch, row, 16 * head : 16 * head + 16]
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
