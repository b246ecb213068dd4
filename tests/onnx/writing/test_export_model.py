"""Graphs, operators and functions of JAX as ONNX models: ONNX Runtime gives the same answers."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import parse, session
from jax import lax
from nightly import NIGHTLY
from onnx.reference import ReferenceEvaluator
from operators.test_registry import BUILT, NAMES, rng_of
from records import combinations, record_of

import dml_jax
from dml_jax import DmlError, GraphBuilder, ReduceFunction, TensorDesc, load_onnx
from dml_jax.onnx import export
from dml_jax.onnx.writing.operator_exporters import EXPORTERS
from dml_jax.operator import Operator

RANDOM = np.random.default_rng(21)
X = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
UNITS = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-23}  # of single precision


def runtime(model: Any, arrays: Sequence[Any]) -> list[np.ndarray]:
    """Return ONNX Runtime's answers, of 4 bits those of ONNX's reference."""
    feeds = dict(zip([v.name for v in model.graph.input], map(np.asarray, arrays), strict=True))
    if any(
        v.type.tensor_type.elem_type in (21, 22) for v in (*model.graph.input, *model.graph.output)
    ):
        return [np.asarray(x) for x in ReferenceEvaluator(model).run(None, feeds)]
    return [np.asarray(x) for x in session(model, as_written=True).run(None, feeds)]


def agree(made: Sequence[Any], wanted: Sequence[Any], units: float = 200):
    assert len(made) == len(wanted)
    for result, answer in zip(made, map(np.asarray, wanted), strict=True):
        assert (result.shape, result.dtype) == (answer.shape, answer.dtype)
        if answer.dtype.kind != "f":
            np.testing.assert_array_equal(result, answer)
            continue
        finite = np.abs(answer[np.isfinite(answer)]).max(initial=1).astype(float)
        bound = units * UNITS[answer.dtype.name]
        with np.errstate(invalid="ignore"):  # NaNs that signal
            wide = result.astype(float), answer.astype(float)
        np.testing.assert_allclose(*wide, rtol=bound, atol=bound * finite)


@pytest.mark.parametrize("op_class", BUILT)
def test_every_operator_is_exported(op_class: type[Operator]):
    record, rng = record_of(op_class), rng_of(op_class)
    found = combinations(op_class, record)
    for types, _ in found if NIGHTLY else found[:1]:
        for _ in range(3 if NIGHTLY else 1):
            op = record.operator(rng, op_class, types)
            model = export(op)
            arrays = record.arrays(rng, op)
            is_product = getattr(op, "function", None) == ReduceFunction.MULTIPLY
            if is_product and arrays[0].dtype == np.int64:  # ONNX Runtime saturates larger ones
                arrays = [arrays[0] % 2 * 2 - 1]
            agree(runtime(model, arrays), jax.tree.leaves(op(*arrays)))


def test_records_of_exporters_are_of_operators():
    assert set(EXPORTERS) <= set(NAMES)


def tensor(*sizes: int, data_type: str = "FLOAT32", **layout: Any) -> TensorDesc:
    return TensorDesc(data_type, sizes, **layout)


MOVES: dict[str, Any] = {"strides": [1, 2], "start_padding": [1, 0], "end_padding": [0, 1]}
MOVES["fused_activation"] = dml_jax.ActivationRelu.fused()
IMAGES = [tensor(1, 2, 5, 5), tensor(4, 2, 3, 3), tensor(1, 4, 1, 1)]
SCALE, NARROW = dml_jax.ScaleBias(scale=2, bias=1), tensor(2, 3, data_type="FLOAT16")
OPERATORS: list[tuple[Any, list[TensorDesc], list[str]]] = [
    (lambda x, w, b: dml_jax.convolution(x, w, b, **MOVES), IMAGES, ["Reshape", "Conv", "Relu"]),
    (lambda x: dml_jax.sin(x, SCALE), [tensor(2, 3, strides=[1, 2])], ["Mul", "Add", "Sin"]),
    (lambda x: dml_jax.reduce(x, "SUM", [1]), [tensor(2, 3)], ["ReduceSum"]),
    (dml_jax.less_than, [NARROW, NARROW], ["Less", "Cast"]),
    (dml_jax.pow, [NARROW, NARROW], ["Pow"]),
    (lambda x: dml_jax.activation_shrink(x, 0.25), [tensor(2, 3)], ["Shrink"]),
    (lambda x: dml_jax.depth_to_space(x, 2), [tensor(1, 8, 4, 2)], ["DepthToSpace"]),
    (lambda x: dml_jax.space_to_depth(x, 2), [tensor(1, 8, 4, 2)], ["SpaceToDepth"]),
    (lambda x: dml_jax.slice(x, [1, 0], [2, 7], [1, -3]), [tensor(4, 7)], ["Slice"]),
]


@pytest.mark.parametrize(("function", "tensors", "op_types"), OPERATORS)
def test_operators_are_the_nodes_that_a_reader_expects(
    function: Any, tensors: list[TensorDesc], op_types: list[str]
):
    builder = GraphBuilder()
    inputs = [builder.input_tensor(f"x{k}", desc) for k, desc in enumerate(tensors)]
    graph = builder.build({"y": function(*inputs)})
    model = export(graph)
    assert [node.op_type for node in model.graph.node] == op_types
    arrays = [RANDOM.standard_normal(desc.sizes).astype(desc.dtype) for desc in tensors]
    agree(runtime(model, arrays), [graph(*arrays)])


def test_graphs_have_their_names_and_constants():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [2, 3]))
    y = x * builder.constant(np.arange(6, dtype=np.float32).reshape(2, 3), "weights")
    graph = builder.build({"sum": dml_jax.reduce(y, "SUM", [1]), "product": y})
    model = export(graph)
    assert [v.name for v in model.graph.input] == ["x"]
    assert [v.name for v in model.graph.output] == ["sum", "product"]
    assert next(t.name for t in model.graph.initializer) == "weights"
    agree(runtime(model, [X[0, :2, :3]]), graph(X[0, :2, :3]))


def test_what_is_read_of_another_layout():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [2, 3]))
    y = dml_jax.activation_relu(x)
    turned = y.reinterpret([3, 2], [1, 3])
    graph = builder.build({"y": -turned})
    agree(runtime(export(graph), [X[0, :2, :3]]), [graph(X[0, :2, :3])])


NETWORK = """g (float[2,3] x, int64[1] n) => (float[2,4] y, int64[1] m, bool[2,4] b)
<float[3,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64[1] one = {1}, float zero = {0}>
{ z = MatMul(x, w)  y = Tanh(z)  m = Add(n, one)  b = Greater(y, zero) }"""


def test_networks_have_onnx_types_outside():
    network = load_onnx(parse(NETWORK))
    inputs = [X[0, :2, :3], np.array([2**40])]
    model = export(network)
    assert "w" in {t.name for t in model.graph.initializer}
    agree(runtime(model, inputs), [*network(*inputs).values()])


CHOICE = """g (float[2,3] x, bool c) => (float[2,3] y, float[3] w) <float[3] w = {1, 2, 3}>
{ y = If (c) <then_branch = t () => (float[2,3] a) { a = Add(x, w) },
              else_branch = e () => (float[2,3] b) { b = Mul(x, w) }> }"""


@pytest.mark.parametrize("chosen", [True, False])
def test_networks_with_control_flow(chosen: bool):
    network = load_onnx(parse(CHOICE))
    inputs = [X[0, :2, :3], np.array(chosen)]
    model = export(network)
    assert "If" in {node.op_type for node in model.graph.node}
    assert [v.name for v in model.graph.output] == ["y", "w"]
    agree(runtime(model, inputs), [*network(*inputs).values()])


def test_a_gradient_is_a_model():
    network = load_onnx(parse(NETWORK.replace("int64", "int32")))
    x = {"x": jnp.asarray(X[0, :2, :3]), "n": jnp.zeros(1, jnp.int32)}

    def loss(weights: Any, x: Any) -> Any:
        weights = {**network.weights, **weights}
        return (network.apply(weights, {**x, "n": jnp.zeros(1, jnp.int32)})["y"] ** 2).sum()

    slopes = jax.grad(loss, argnums=(0, 1))
    given = network.trainable, {"x": x["x"]}
    model = export(slopes, *given)
    agree(runtime(model, jax.tree.leaves(given)), jax.tree.leaves(slopes(*given)))


def test_numbers_of_a_function_are_no_weights():
    model = export(lambda x: dml_jax.activation_gelu(dml_jax.add(x, 0.5)), jnp.asarray(X))
    assert load_onnx(model).trainable == {}


def scanned(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = jnp.tanh(carry + row)
        return carry, carry * 2

    return lax.scan(step, x[0], x, reverse=True)


FUNCTIONS = {
    "scan": scanned,
    "slope of a scan": jax.grad(lambda x: scanned(x)[1].sum()),
    "while": lambda x: lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2 + 1, x),
    "for": lambda x: lax.fori_loop(0, 3, lambda k, s: s + k.astype(s.dtype), x),
    "cond": lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x),
    "switch": lambda x: lax.switch((x[0, 0, 0] > 0) + 1, [jnp.sin, jnp.cos, jnp.tan], x),
    "take": lambda x: x[:, jnp.array([2, 0, -1, 7])],
    "take along": lambda x: jnp.take_along_axis(x, jnp.argsort(x, 2), 2),
    "put": lambda x: x.at[1, jnp.array([0, 2, 9])].set(7.0),
    "add at": lambda x: x.at[:, jnp.array([0, 0, 1]), 2].add(1.0),
    "largest at": lambda x: x.at[0, 1:3].max(0.5),
    "window": lambda x: lax.dynamic_slice(x, (1, 5, 0), (1, 2, 3)),
    "put a window": lambda x: lax.dynamic_update_slice(x, x[:1, :2, :2] * 0, (1, 9, 1)),
    "sort": lambda x: lax.sort((x, -x, x + 1), dimension=1, num_keys=2),
    "accumulated": lambda x: (lax.cumprod(x, 2), lax.cummax(x, 1, reverse=True), lax.cumsum(x, 0)),
    "accumulated exponentials": lambda x: lax.cumlogsumexp(x, 1),
    "pooled": lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2), (1, 1, 2), "SAME"),
    "zeros between": lambda x: lax.pad(x, np.float32(1.5), ((0, 0, 1), (-1, 2, 2), (1, -1, 0))),
    "repeated": lambda x: (jnp.tile(x, (1, 2, 3)), jnp.repeat(x, 2, 1)),
    "chosen": lambda x: jnp.select([x < -1, x < 1], [x * 2, x * 3], 0.0),
    "found": lambda x: jnp.searchsorted(jnp.sort(x.ravel()), x[0] + 0.1),
    "slope of largest of windows": jax.grad(
        lambda x: (
            lax.reduce_window(jnp.round(x), -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME")
            * x.sum()
        ).sum()
    ),
    "slope of least of windows": jax.grad(
        lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 2, 2), (1, 1, 2), "VALID").sum()
    ),
    "backwards": lambda x: lax.rev(x, (0, 2)),
    "small numbers": lambda x: (jnp.expm1(x * 1e-4), jnp.log1p(x * 1e-4), jnp.cbrt(x)),
    "angles": lambda x: jnp.arctan2(x, x[::-1]),
    "powers": lambda x: (x**3, x**-2, x**5, jnp.abs(x) ** 0.5, jnp.exp2(x)),
    "integers": lambda x: ((x * 9).astype(jnp.int32) % 4, (x * 9).astype(jnp.int32) // 3),
    "beyond integers": lambda x: (x * 1e12).astype(jnp.int32),
    "shifts": lambda x: ((x * 99).astype(jnp.int32) << 3, (x * 99).astype(jnp.int32) >> 2),
    "bits": lambda x: lax.population_count((x * 99).astype(jnp.int32) ^ 5),
    "as bits": lambda x: lax.bitcast_convert_type(x, jnp.int32),
    "truths": lambda x: ((x > 0).any(1), (x > 0).all(2), (x > 0).sum(0), jnp.isfinite(x / x[0])),
    "places": lambda x: (x.argmax(1), x.argmin(2), lax.top_k(x, 2)),
    "products": lambda x: jnp.einsum("abc,dbc->abd", x, x),
    "slope of a convolution": jax.grad(
        lambda x: lax.conv_general_dilated(x, X[:, :, :2], (2,), [(1, 2)], (1,), (2,)).sum() ** 2
    ),
    "narrow": lambda x: (x.astype(jnp.float16) * 3 + 1, jnp.tanh(x.astype(jnp.bfloat16)) > 0),
    "batch": jax.vmap(lambda x: jnp.fft.fftfreq(4) + x[0] * x[1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str):
    function = FUNCTIONS[name]
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        model = export(function, jax.ShapeDtypeStruct(X.shape, X.dtype))
        wanted = jax.tree.leaves(jax.jit(function)(X))
    agree(runtime(model, [X]), wanted)


def test_what_has_no_nodes_is_named():
    with pytest.raises(DmlError, match="the primitive 'random_wrap' of JAX has no nodes of ONNX"):
        export(lambda key: jax.random.normal(key, (3,)), jax.random.PRNGKey(0))
    with pytest.raises(DmlError, match="the type key<fry> has no nodes of ONNX"):
        export(lambda key: jax.random.normal(key, (3,)), jax.random.key(0))
    with pytest.raises(DmlError, match="the primitive 'cholesky' of JAX has no nodes of ONNX"):
        export(jnp.linalg.cholesky, jnp.eye(3))
    with pytest.raises(DmlError, match="expected what to be a graph, an operator, a network"):
        export("network.onnx")
    with pytest.raises(DmlError, match=r"onnx\.save\(model, path\) writes it"):
        export(lambda x: x, "a")
    for dtype in (jnp.float32, jnp.complex64):  # ONNX has complex tensors, and no Add of them
        with pytest.raises(DmlError, match="the type complex64 has no nodes of ONNX"):
            export(lambda x: x.astype(jnp.complex64) + x.astype(jnp.complex64), jnp.ones(3, dtype))


def test_models_are_valid_for_others():
    model = export(jnp.sin, jax.ShapeDtypeStruct((2,), jnp.float32))
    onnx.checker.check_model(model, full_check=True)
    assert model.producer_name == "dml_jax"
    assert [(v.name) for v in (*model.graph.input, *model.graph.output)] == ["input", "output"]
