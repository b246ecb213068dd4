"""Rewrites of graphs: a rewritten graph gives the values and gradients of the graph of the file."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from build import parse
from forms import compiled_soon
from onnx import TensorProto

import dml_jax
from dml_jax import DmlError, GraphBuilder, TensorDesc, load_onnx
from dml_jax.onnx.options import NetworkOptions
from dml_jax.rewrite import ATTENTIONS, DEFAULT, IDENTITIES, Rewrite, refusals, rewritten

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
    results = compiled_soon(everything)(xs)
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
    *,
    behind: str = "",
    read: str = "c",
    outputs: str = "n",
    bias: bool = False,
    kind: str = "float",
    epsilon: float = 1e-5,
    given: Sequence[str] = (),
    op_type: str = "Conv",
    **attributes: Any,
) -> Any:
    """Return a model of a convolution c, and its normalization n.

    `behind` are further nodes, of which the normalization may `read` one; `given` are the
    parameters that are inputs of the network.
    """
    random = np.random.default_rng(len(filters))
    count = filters[0] if op_type == "Conv" else filters[1]
    arrays = {name: random.normal(size=count) for name in ("scale", "shift", "mean")}
    arrays |= {"variance": random.uniform(0.5, 2, count), "w": random.normal(size=filters)}
    arrays |= {"b": random.normal(size=count)} if bias else {}
    arrays |= {"k": random.normal(size=(4, 4, 2, 2))} if "k" in behind else {}
    dtype = np.float32 if kind == "float" else np.float16
    inputs = "".join(f", {kind}[{count}] {name}" for name in given)
    return parse(
        f"""g ({kind}{shape} x{inputs}) => ({outputs}) {{
        c = {op_type} {listed(attributes)} (x, w{", b" * bias}) {behind}
        n = BatchNormalization <epsilon = {epsilon}> ({read}, {STATISTICS}) }}""",
        opset=21,
        **{name: array.astype(dtype) for name, array in arrays.items() if name not in given},
    )


def listed(attributes: Mapping[str, Any]) -> str:
    """Return attributes as the text of a model has them."""
    texts = [f"{name} = {value}" for name, value in attributes.items()]
    return f"<{', '.join(texts)}>" if texts else ""


STATISTICS = "scale, shift, mean, variance"
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
    "half": (normalized(IMAGE, FILTERS, kind="float16", bias=True), 1),
    "activation": (normalized(IMAGE, FILTERS, outputs="r", behind="r = Relu (n)"), 1),
    "identity": (normalized(IMAGE, FILTERS, read="i", behind="i = Identity (c)"), 1),
    "two": (
        normalized(
            *(IMAGE, FILTERS),
            outputs="m",
            behind=f"d = Conv (n, k)  m = BatchNormalization (d, {STATISTICS})",
        ),
        2,
    ),
    "read twice": (normalized(IMAGE, FILTERS, outputs="s", behind="s = Add (n, c)"), 0),
    "output": (normalized(IMAGE, FILTERS, outputs="n, c"), 0),
    "between": (normalized(IMAGE, FILTERS, read="r", behind="r = Relu (c)"), 0),
    "transpose": (normalized(IMAGE, [3, 4, 3, 3], op_type="ConvTranspose"), 0),
    "statistics": (normalized(IMAGE, FILTERS, given=["mean", "scale"]), 0),
    "twice": (
        normalized(
            *(IMAGE, FILTERS), outputs="m", behind=f"m = BatchNormalization (n, {STATISTICS})"
        ),
        2,
    ),
}


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
    nodes = f"y = Conv {listed(attributes)} (x, w, b)"
    return parse(f"g (float{shape} x) => (y) {{ {nodes} }}", opset=21, **weights)


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
    return parse(f"g ({x} x) => ({y} y) {{ {body} }}", opset=21)


def casts(kind: str, *types: int) -> Any:
    """Return a model of casts to types, one after the other, and of a negation."""
    names = "xcde"
    nodes = [f"{names[k + 1]} = Cast<to = {to}>({names[k]})" for k, to in enumerate(types)]
    result = "float16[a]" if types[-1] == 10 else "float[a]"
    return text(f"{' '.join(nodes)} y = Neg({names[len(types)]})", f"{kind}[4]", result)


MATRICES = "float[3, 3]", "float[a, b]"
TURN, BACK = "Transpose<perm = [1, 2, 0]>", "Transpose<perm = [2, 0, 1]>"
SWAP, FLIP = "Transpose<perm = [1, 0]>", "Transpose<perm = [2, 1, 0]>"
LAST = "Transpose<perm = [0, 2, 1]>"
CANCELLED: Mapping[str, tuple[int, Any]] = {
    "transposes": (1, text(f"a = Neg(x) u = {TURN}(a) v = {BACK}(u) y = Neg(v)")),
    "swapped": (1, text(f"a = Neg(x) t = {LAST}(a) u = {LAST}(t) y = Abs(u)")),
    "of an input": (1, text(f"t = {TURN}(x) u = {BACK}(t) y = Neg(u)")),
    "output": (1, text(f"a = Neg(x) t = {TURN}(a) y = {BACK}(t)")),
    "input to output": (0, text(f"t = {TURN}(x) y = {BACK}(t)")),
    "four": (
        2,
        text(f"a = Neg(x) t = {TURN}(a) u = {BACK}(t) v = {FLIP}(u) w = {FLIP}(v) y = Abs(w)"),
    ),
    "nested": (
        2,
        text(f"a = Neg(x) t = {TURN}(a) v = {FLIP}(t) w = {FLIP}(v) u = {BACK}(w) y = Abs(u)"),
    ),
    "same way": (0, text(f"a = Neg(x) t = {BACK}(a) u = {BACK}(t) y = Abs(u)")),
    "equal sizes": (0, text(f"a = Neg(x) t = {SWAP}(a) y = Neg(t)", *MATRICES)),
    "equal sizes, back": (1, text(f"a = Neg(x) t = {SWAP}(a) u = {SWAP}(t) y = Neg(u)", *MATRICES)),
    "between": (0, text(f"t = {TURN}(x) a = Abs(t) u = {BACK}(a) y = Neg(u)")),
    "read twice": (
        1,
        text(f"a = Neg(x) t = {TURN}(a) u = {BACK}(t) s = ReduceSum(t) y = Add(u, s)"),
    ),
    "identities": (0, text("a = Neg(x) i = Identity(a) j = Identity(i) y = Abs(j)")),
    # The memory stays as it is: the copy goes.
    "a size of 1": (
        1,
        text("a = Neg(x) t = Transpose<perm = [1, 0, 2]>(a) y = Abs(t)", "float[1, 3, 4]"),
    ),
    "half": (1, casts("float16", 1, 10)),
    "bytes": (1, casts("uint8", 1, 2, 1)),
    "wide": (1, casts("int8", 6, 3, 1)),
    "rounded": (0, casts("float", 10, 1)),
    "cut": (0, casts("float", 6, 1)),
    "large": (0, casts("int32", 1, 6, 1)),
    "signs": (0, casts("int8", 2, 3, 1)),
    "third": (1, casts("float16", 1, 10, 1)),
}


def test_nodes_that_cancel_are_left_out():
    floats = {k: m for k, (_, m) in CANCELLED.items() if _floating(m)}
    counts = compared(floats, {})
    for name, (_, model) in CANCELLED.items():
        if name not in floats:
            counts[name] = _same_integers(model)
    found = {name: sum(count.values()) for name, count in counts.items()}
    assert found == {name: count for name, (count, _) in CANCELLED.items()}


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
    model = text(f"a = Neg(x) t = {TURN}(a) u = {BACK}(t) y = Neg(u)")
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
    body = f"i = {SWAP}(s) j = {SWAP}(i) r = Add(j, s)"
    network = load_onnx(
        parse(f"""g (int64 M, float[2, 3] x) => (float[2, 3] y) <bool t = {{1}}> {{
        y = Loop (M, t, x) <body = b (int64 k, bool c, float[2, 3] s)
            => (bool go, float[2, 3] r) {{ go = Identity(c) {body} }}> }}""")
    )
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
