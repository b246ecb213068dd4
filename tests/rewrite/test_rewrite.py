"""Rewrites of graphs: a rewritten graph gives the values and gradients of the graph of the file."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import model_of, node
from onnx import TensorProto, numpy_helper, parser

import dml_jax
from dml_jax import DmlError, GraphBuilder, TensorDesc, load_onnx
from dml_jax.onnx.options import NetworkOptions
from dml_jax.rewrite import ATTENTIONS, DEFAULT, IDENTITIES, Rewrite, refusals, rewritten

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
FOLDED = "BATCH_NORMALIZATION into CONVOLUTION"


def compared(
    cases: Mapping[str, Any], inputs: Mapping[str, Any], **options: Any
) -> dict[str, dict[str, int]]:
    """Compare networks with and without rewrites, all in one program: values and gradients.

    `options` are those of `load_onnx` with rewrites. Returns how many nodes each rewrite replaced,
    by case.
    """
    pairs = {n: (load_onnx(m, rewrites=[]), load_onnx(m, **options)) for n, m in cases.items()}

    def total(weights: Any, x: Any, network: Any) -> Any:
        given = {"x": x, **{n: v for n, v in inputs.items() if n in network.inputs and n != "x"}}
        results = network.apply(weights, given).values()
        parts = [r.astype(np.float32) for r in results if jnp.issubdtype(r.dtype, np.floating)]
        waves = [jnp.cos(jnp.arange(p.size, dtype=np.float32)).reshape(p.shape) for p in parts]
        return sum(((p * w).sum() for p, w in zip(parts, waves, strict=True))), parts

    def everything(xs: Any) -> Any:
        return {
            name: [
                jax.value_and_grad(total, (0, 1), has_aux=True)(
                    network.trainable, xs[name], network
                )
                if len(network.trainable) == len(network.weights)
                else network.apply(network.weights, {"x": xs[name]})
                for network in pair
            ]
            for name, pair in pairs.items()
        }

    random = np.random.default_rng(3)
    xs = {}
    for name, (network, _) in pairs.items():
        kind = network.inputs["x"]
        xs[name] = random.normal(size=kind.shape).astype(kind.array_dtype)
    # A GPU rounds operands, which differ by the order of sums before them.
    is_rounded = jax.config.jax_default_matmul_precision == "bfloat16"  # pyright: ignore[reportAttributeAccessIssue]
    is_rounded = is_rounded and jax.default_backend() == "gpu"
    results = jax.jit(everything, compiler_options=OPTIONS)(xs)
    for name, (plain, own) in results.items():
        is_half = pairs[name][0].inputs["x"].array_dtype == np.float16 or is_rounded
        leaves = zip(jax.tree.leaves(plain), jax.tree.leaves(own), strict=True)
        for expected, found in leaves:
            scale = float(np.abs(expected).max(initial=1e-3))
            limit = (2e-2 if is_half else 1e-5) * max(scale, 1)
            np.testing.assert_allclose(found, expected, rtol=0, atol=limit, err_msg=name)
    return {name: dict(own.rewrites) for name, (_, own) in pairs.items()}


# BATCH_NORMALIZATION


def normalized(
    shape: Sequence[int],
    filters: Sequence[int],
    tail: str = "n",
    bias: bool = False,
    dtype: Any = np.float32,
    between: Sequence[Any] = (),
    behind: Sequence[Any] = (),
    outputs: Sequence[str] = (),
    epsilon: float = 1e-5,
    given: Sequence[str] = (),
    op_type: str = "Conv",
    **attributes: Any,
) -> Any:
    """Return a model of a convolution c, and its normalization n.

    `between` and `behind` are further nodes, `tail` is the output, `given` the parameters that are
    inputs of the network, and `outputs` further outputs.
    """
    random = np.random.default_rng(len(filters))
    count = filters[0] if op_type == "Conv" else filters[1]
    arrays = {name: random.normal(size=count) for name in ("scale", "shift", "mean")}
    arrays |= {"variance": random.uniform(0.5, 2, count), "w": random.normal(size=filters)}
    arrays |= {"b": random.normal(size=count)} if bias else {}
    tensors = {n: a.astype(dtype) for n, a in arrays.items() if n not in given}
    read = between[-1].output[0] if between else "c"
    nodes = [
        node(op_type, "x w b" if bias else "x w", "c", **attributes),
        *between,
        node("BatchNormalization", f"{read} scale shift mean variance", "n", epsilon=epsilon),
        *behind,
    ]
    inputs = {"x": (dtype, shape)} | {name: (dtype, [count]) for name in given}
    return model_of(nodes, inputs, (tail, *outputs), tensors, opset=21)


IMAGE, FILTERS = [2, 3, 6, 5], [4, 3, 3, 3]
OF_NORMALIZATION: Mapping[str, tuple[Any, int]] = {
    "2D": (normalized(IMAGE, FILTERS), 1),
    "bias": (normalized(IMAGE, FILTERS, bias=True), 1),
    "1D": (normalized([2, 3, 7], [4, 3, 3], bias=True), 1),
    "3D": (normalized([1, 2, 3, 4, 3], [3, 2, 2, 2, 2]), 1),
    "pads": (normalized(IMAGE, FILTERS, pads=[1, 1, 1, 1]), 1),
    "strides": (normalized(IMAGE, FILTERS, strides=[2, 1], bias=True), 1),
    "dilations": (normalized(IMAGE, [4, 3, 2, 2], dilations=[2, 2]), 1),
    "groups": (normalized([2, 4, 5, 5], [6, 2, 3, 3], group=2, bias=True), 1),
    "depthwise": (normalized([2, 4, 5, 5], [4, 1, 3, 3], group=4), 1),
    "points": (normalized(IMAGE, [5, 3, 1, 1]), 1),
    "epsilon": (normalized(IMAGE, FILTERS, epsilon=0.5), 1),
    "half": (normalized(IMAGE, FILTERS, dtype=np.float16, bias=True), 1),
    "activation": (normalized(IMAGE, FILTERS, "r", behind=[node("Relu", "n", "r")]), 1),
    "identity": (normalized(IMAGE, FILTERS, between=[node("Identity", "c", "i")]), 1),
    "two": (
        normalized(
            IMAGE,
            FILTERS,
            "m",
            behind=[
                node("Conv", "n k", "d"),
                node("BatchNormalization", "d scale shift mean variance", "m"),
            ],
        ),
        2,
    ),
    "read twice": (normalized(IMAGE, FILTERS, "s", behind=[node("Add", "n c", "s")]), 0),
    "output": (normalized(IMAGE, FILTERS, outputs=["c"]), 0),
    "between": (normalized(IMAGE, FILTERS, between=[node("Relu", "c", "r")]), 0),
    "transpose": (normalized(IMAGE, [3, 4, 3, 3], op_type="ConvTranspose"), 0),
    "statistics": (normalized(IMAGE, FILTERS, given=["mean", "scale"]), 0),
    "twice": (
        normalized(
            IMAGE,
            FILTERS,
            "m",
            behind=[node("BatchNormalization", "n scale shift mean variance", "m")],
        ),
        2,
    ),
}
OF_NORMALIZATION["two"][0].graph.initializer.append(
    numpy_helper.from_array(
        np.random.default_rng(1).normal(size=(4, 4, 2, 2)).astype(np.float32), "k"
    )
)


def test_a_normalization_becomes_a_part_of_a_convolution():
    inputs = {"mean": np.ones(4, np.float32), "scale": np.full(4, 2, np.float32)}
    counts = compared({name: model for name, (model, _) in OF_NORMALIZATION.items()}, inputs)
    found = {name: count[FOLDED] for name, count in counts.items()}
    assert found == {name: count for name, (_, count) in OF_NORMALIZATION.items()}


def test_folded_weights_are_those_of_the_call():
    """Other weights in `apply`, and in `weights`, change the answer as in the graph of the file."""
    model = normalized(IMAGE, FILTERS, bias=True)
    plain, own = load_onnx(model, rewrites=[]), load_onnx(model)
    x = np.random.default_rng(0).normal(size=IMAGE).astype(np.float32)
    others = {name: w * 1.5 for name, w in own.weights.items()}
    np.testing.assert_allclose(own(x)["n"], plain(x)["n"], rtol=1e-4, atol=1e-5)
    expected = plain.apply(others, {"x": x})["n"]
    np.testing.assert_allclose(own.apply(others, {"x": x})["n"], expected, rtol=1e-4, atol=1e-5)
    own.weights.update(others)
    np.testing.assert_allclose(own(x)["n"], expected, rtol=1e-4, atol=1e-5)
    compiled = dml_jax.compile(own)
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-5)


def test_weights_are_prepared_once_also_within_a_program():
    """What is kept of the first call is no array of that call's trace."""
    own = load_onnx(normalized(IMAGE, FILTERS))
    x = np.random.default_rng(0).normal(size=IMAGE).astype(np.float32)
    first = jax.jit(lambda x: own({"x": x})["n"])(x)
    np.testing.assert_allclose(own(x)["n"], first, rtol=1e-5, atol=1e-5)
    assert all(a is b for a, b in zip(own.constants, own.constants, strict=True))
    many = jax.vmap(lambda x: own.apply(own.weights, {"x": x})["n"])(np.stack([x, x]))
    np.testing.assert_allclose(many[1], first, rtol=1e-4, atol=1e-5)


# Places in the padding


def padded(shape: Sequence[int], filters: Sequence[int], **attributes: Any) -> Any:
    random = np.random.default_rng(len(filters))
    arrays = {"w": random.normal(size=filters), "b": random.normal(size=filters[0])}
    weights = {name: array.astype(np.float32) for name, array in arrays.items()}
    conv = node("Conv", "x w b", "y", **attributes)
    return model_of([conv], {"x": (np.float32, shape)}, ["y"], weights, opset=21)


IN_PADDING: Mapping[str, tuple[Any, int]] = {
    "one element": (padded([2, 3, 1], [4, 3, 9], pads=[4, 4]), 1),
    "dilations": (padded([2, 3, 2], [4, 3, 5], pads=[6, 6], dilations=[3]), 1),
    "one side": (padded([2, 3, 2], [4, 3, 3], pads=[1, 1], strides=[2]), 1),
    "one of two dimensions": (padded([2, 3, 8, 2], [4, 3, 3, 5], pads=[1, 2, 1, 2]), 1),
    "the middle alone": (padded([1, 3, 3], [4, 3, 3], pads=[4, 4], dilations=[4]), 1),
    "a last window before the end": (padded([1, 3, 2], [4, 3, 4], pads=[4, 5], strides=[4]), 1),
    "between elements": (padded([1, 3, 2], [4, 3, 3], pads=[7, 3], dilations=[5], strides=[3]), 0),
    "all meet": (padded([1, 3, 6], [4, 3, 3], pads=[1, 1]), 0),
    "groups": (padded([2, 4, 1], [4, 2, 3], pads=[1, 1], group=2), 0),
}


def test_places_of_filters_in_the_padding_are_left_out():
    counts = compared({name: model for name, (model, _) in IN_PADDING.items()}, {})
    found = {name: count["places in the padding"] for name, count in counts.items()}
    assert found == {name: count for name, (_, count) in IN_PADDING.items()}


# Nodes that cancel


def text(body: str, x: str = "float[2, 3, 4]", y: str = "float[a, b, c]") -> Any:
    return parser.parse_model(f"{HEAD}g ({x} x) => ({y} y) {{ {body} }}")


TURNED = "t = Transpose<perm = [1, 2, 0]>(x)"
BACK = "Transpose<perm = [2, 0, 1]>"
CANCELLED: Mapping[str, tuple[Any, int]] = {
    "transposes": (
        text(f"a = Neg(x) u = Transpose<perm = [1, 2, 0]>(a) v = {BACK}(u) y = Neg(v)"),
        1,
    ),
    "swapped": (
        text(
            "a = Neg(x) t = Transpose<perm = [0, 2, 1]>(a) "
            "u = Transpose<perm = [0, 2, 1]>(t) y = Abs(u)"
        ),
        1,
    ),
    "of an input": (text(f"{TURNED} u = {BACK}(t) y = Neg(u)"), 1),
    "output": (text(f"a = Neg(x) t = Transpose<perm = [1, 2, 0]>(a) y = {BACK}(t)"), 1),
    "input to output": (text(f"{TURNED} y = {BACK}(t)"), 0),
    "four": (
        text(
            f"a = Neg(x) t = Transpose<perm = [1, 2, 0]>(a) u = {BACK}(t) "
            "v = Transpose<perm = [2, 1, 0]>(u) w = Transpose<perm = [2, 1, 0]>(v) y = Abs(w)"
        ),
        2,
    ),
    "nested": (
        text(
            "a = Neg(x) t = Transpose<perm = [1, 2, 0]>(a) v = Transpose<perm = [2, 1, 0]>(t) "
            f"w = Transpose<perm = [2, 1, 0]>(v) u = {BACK}(w) y = Abs(u)"
        ),
        2,
    ),
    "same way": (text(f"a = Neg(x) t = {BACK}(a) u = {BACK}(t) y = Abs(u)"), 0),
    "equal sizes": (
        text("a = Neg(x) t = Transpose<perm = [1, 0]>(a) y = Neg(t)", "float[3, 3]", "float[a, b]"),
        0,
    ),
    "equal sizes, back": (
        text(
            "a = Neg(x) t = Transpose<perm = [1, 0]>(a) u = Transpose<perm = [1, 0]>(t) y = Neg(u)",
            "float[3, 3]",
            "float[a, b]",
        ),
        1,
    ),
    "between": (text(f"{TURNED} a = Abs(t) u = {BACK}(a) y = Neg(u)"), 0),
    "read twice": (
        text(
            f"a = Neg(x) t = Transpose<perm = [1, 2, 0]>(a) u = {BACK}(t) "
            f"s = ReduceSum(t) y = Add(u, s)"
        ),
        1,
    ),
    "identities": (text("a = Neg(x) i = Identity(a) j = Identity(i) y = Abs(j)"), 0),
    "a size of 1": (
        text("a = Neg(x) t = Transpose<perm = [1, 0, 2]>(a) y = Abs(t)", "float[1, 3, 4]"),
        1,  # the memory stays as it is: the copy goes
    ),
    "half": (
        text("c = Cast<to = 1>(x) d = Cast<to = 10>(c) y = Neg(d)", "float16[4]", "float16[a]"),
        1,
    ),
    "bytes": (
        text(
            "c = Cast<to = 1>(x) d = Cast<to = 2>(c) e = Cast<to = 1>(d) y = Neg(e)",
            "uint8[4]",
            "float[a]",
        ),
        1,
    ),
    "wide": (
        text("c = Cast<to = 6>(x) d = Cast<to = 3>(c) y = Cast<to = 1>(d)", "int8[4]", "float[a]"),
        1,
    ),
    "rounded": (
        text("c = Cast<to = 10>(x) d = Cast<to = 1>(c) y = Neg(d)", "float[4]", "float[a]"),
        0,
    ),
    "cut": (text("c = Cast<to = 6>(x) d = Cast<to = 1>(c) y = Neg(d)", "float[4]", "float[a]"), 0),
    "large": (
        text("c = Cast<to = 1>(x) d = Cast<to = 6>(c) y = Cast<to = 1>(d)", "int32[4]", "float[a]"),
        0,
    ),
    "signs": (
        text("c = Cast<to = 2>(x) d = Cast<to = 3>(c) y = Cast<to = 1>(d)", "int8[4]", "float[a]"),
        0,
    ),
    "third": (
        text(
            "c = Cast<to = 1>(x) d = Cast<to = 10>(c) e = Cast<to = 1>(d) y = Neg(e)",
            "float16[4]",
            "float[a]",
        ),
        1,
    ),
}


def test_nodes_that_cancel_are_left_out():
    floats = {k: m for k, (m, _) in CANCELLED.items() if _floating(m)}
    counts = compared(floats, {})
    for name, (model, _) in CANCELLED.items():
        if name not in floats:
            counts[name] = _same_integers(model)
    found = {name: sum(count.values()) for name, count in counts.items()}
    assert found == {name: count for name, (_, count) in CANCELLED.items()}


def _floating(model: Any) -> bool:
    element = model.graph.input[0].type.tensor_type.elem_type
    return element in (TensorProto.FLOAT, TensorProto.FLOAT16)


def _same_integers(model: Any) -> dict[str, int]:
    plain, own = load_onnx(model, rewrites=[]), load_onnx(model)
    dtype = plain.inputs["x"].dtype
    info = np.iinfo(dtype)
    x = np.array([info.min, info.max, 1, info.max // 3], dtype)
    np.testing.assert_array_equal(own(x)["y"], plain(x)["y"])
    return dict(own.rewrites)


def test_the_graph_of_the_file_stays():
    model = text(f"a = Neg(x) t = Transpose<perm = [1, 2, 0]>(a) u = {BACK}(t) y = Neg(u)")
    network = load_onnx(model)
    assert [len(g.nodes) for g in (network.graph, network.rewritten)] == [4, 2]
    assert "1 nodes rewritten in the program\n  1 pairs of transposes" in network.report()
    assert "rewritten" not in load_onnx(model, rewrites=[]).report()


def test_a_report_says_why_nodes_stay():
    """A condition that says why not, one that only says no, and a chain that is replaced."""
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [2, 3]))
    graph = builder.build({"y": dml_jax.activation_relu(x), "z": dml_jax.activation_elu(x)})
    worded = Rewrite("worded", ("ACTIVATION_RELU",), lambda n: n[0], lambda _: "it is needed")
    silent = Rewrite("silent", ("ACTIVATION_RELU",), lambda n: n[0], lambda _: False)
    found = refusals(graph, [worded, silent, *DEFAULT])
    assert found.pop("worded") == {"it is needed": 1}
    assert not any(found.values())
    product = text("y = MatMul(x, x)", "float[3, 3]", "float[3, 3]")
    square = Rewrite("squares", ("GEMM",), lambda n: n[0], lambda _: "the product is needed")
    report = load_onnx(product, rewrites=[square]).report()
    assert "1 matches of rewrites stay as they are\n  1 squares: the product is needed" in report


def test_a_graph_within_a_node_is_rewritten():
    body = "i = Transpose<perm = [1, 0]>(s) j = Transpose<perm = [1, 0]>(i) r = Add(j, s)"
    model = parser.parse_model(
        f"""{HEAD} g (int64 M, float[2, 3] x) => (float[2, 3] y) <bool t = {{1}}> {{
        y = Loop (M, t, x) <body = b (int64 k, bool c, float[2, 3] s)
            => (bool go, float[2, 3] r) {{ go = Identity(c) {body} }}> }}"""
    )
    network = load_onnx(model)
    assert network.rewrites["pairs of transposes"] == 1
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(network(np.array(3), x)["y"], 8 * x)


# Attention


def attention_of_file(
    dtype: str = "FLOAT16",
    size: int = 8,
    axes: Sequence[int] = (3,),
    transposed: bool = False,
    masked: bool = False,
    outputs: Sequence[str] = ("y",),
) -> dml_jax.Graph:
    """Return a graph of 2 batches, 3 heads, 5 queries and 7 keys: products, softmax, products."""
    builder = GraphBuilder()
    shapes = {"q": [5, size], "k": [7, size] if transposed else [size, 7], "v": [7, size]}
    q, k, v = (
        builder.input_tensor(name, TensorDesc(dtype, [2, 3, *shape]))
        for name, shape in shapes.items()
    )
    scores = dml_jax.gemm(q, k, trans_b="TRANSPOSE" if transposed else "NONE", alpha=0.25)
    weights = dml_jax.activation_softmax(scores + scores if masked else scores, axes)
    made = {"scores": scores, "weights": weights, "y": dml_jax.gemm(weights, v)}
    return builder.build({name: made[name] for name in outputs})


@pytest.mark.parametrize("transposed", [False, True])
def test_products_and_a_softmax_become_an_attention(transposed: bool):
    graph = attention_of_file(transposed=transposed)
    made, counts = rewritten(graph, [ATTENTIONS])
    assert counts == {"attentions": 1}
    assert "MULTIHEAD_ATTENTION" in {operator.short_name for operator in made.operators}
    random = np.random.default_rng(5)
    arrays = [random.normal(size=t.sizes).astype(np.float16) for t in graph.inputs]
    q, k, v = (array.astype(np.float64) for array in arrays)
    scores = q @ (k.swapaxes(2, 3) if transposed else k) * 0.25
    weights = np.exp(scores) / np.exp(scores).sum(3, keepdims=True)
    np.testing.assert_allclose(made(*arrays), weights @ v, rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "FLOAT32"},
        {"size": 12},
        {"axes": (2,)},
        {"masked": True},
        {"outputs": ("y", "weights")},
        {"outputs": ("y", "scores")},
    ],
    ids=str,
)
def test_other_products_and_softmaxes_stay(options: dict[str, Any]):
    graph = attention_of_file(**options)
    assert rewritten(graph, [ATTENTIONS]) == (graph, {"attentions": 0})


def test_attentions_are_for_a_gpu():
    of_platforms = {name: NetworkOptions().rewrites_on(name) for name in ("cpu", "gpu", "tpu")}
    assert [name for name, made in of_platforms.items() if ATTENTIONS in made] == ["gpu"]


# Rewrites of one's own


def small() -> dml_jax.Graph:
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [2, 3]))
    once = dml_jax.activation_relu(-x)
    return builder.build({"y": dml_jax.activation_relu(once), "z": once * 2})


def test_a_rewrite_replaces_what_it_finds():
    relus = Rewrite(
        "RELU of RELU", ("ACTIVATION_RELU", "ACTIVATION_RELU"), lambda second, first: second[0]
    )
    graph = small()
    made, counts = rewritten(graph, [relus])
    assert counts == {"RELU of RELU": 1}
    assert len(made.nodes) == len(graph.nodes) - 1
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    for own, expected in zip(made(x), (np.maximum(-x, 0), 2 * np.maximum(-x, 0)), strict=True):
        np.testing.assert_array_equal(own, expected)


def test_a_rewrite_that_finds_nothing_keeps_the_graph():
    graph = small()
    assert rewritten(graph, DEFAULT)[0] is graph
    never = Rewrite("never", ("ACTIVATION_RELU",), lambda node: node[0], lambda node: False)
    assert rewritten(graph, [never]) == (graph, {"never": 0})


@pytest.mark.parametrize(
    "replacement",
    [
        lambda node: node[0].reinterpret([3, 2]),
        lambda node: dml_jax.cast(node[0], "FLOAT16"),
        lambda node: None,
    ],
)
def test_a_replacement_of_another_tensor_is_refused(replacement: Any):
    wrong = Rewrite("wrong", ("ACTIVATION_RELU",), replacement)
    with pytest.raises(DmlError, match=r"the rewrite 'wrong' to give .* FLOAT32\[2,3\]"):
        rewritten(small(), [wrong])


def test_an_output_that_becomes_an_input_is_a_copy():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [3]))
    graph = builder.build({"y": dml_jax.identity(x)})
    assert rewritten(graph, [IDENTITIES])[0] is graph
    gone = Rewrite("gone", ("ACTIVATION_RELU",), lambda node: node[0])
    other = GraphBuilder()
    y = dml_jax.activation_relu(other.input_tensor("x", TensorDesc("FLOAT32", [3])))
    made, _ = rewritten(other.build({"y": y}), [gone])
    np.testing.assert_array_equal(made(np.array([-1, 0, 1], np.float32)), [-1, 0, 1])
