"""A network is a graph: what is done with a graph of operators is done with one that decides."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from build import close, floats, parse
from onnx import TensorProto, helper

import dml_jax
from dml_jax import Buffer, DmlError, GraphBuilder, TensorDesc, load_onnx
from dml_jax.graph import FunctionNode, cut
from dml_jax.show.diagrams import draw, graph_picture
from dml_jax.show.source import program

DECIDED = """g (bool c, float[2] x) => (float[2] y) <float[2] w = {3, 4}> {
    y = If(c) <then_branch = t () => (float[2] a) { a = Mul(x, w) },
               else_branch = e () => (float[2] b) { b = Neg(x) }>
}"""
X, W = np.array([1, -2], np.float32), np.array([3, 4], np.float32)
YES = np.array([1], np.uint8)


def network(text: str = DECIDED) -> Any:
    return load_onnx(parse(text, 21))


def called(function: Any) -> np.ndarray:
    return function(YES, X, W)


def compiled(function: Any) -> np.ndarray:
    return dml_jax.compile(function)(YES, X, W)


def mapped(function: Any) -> np.ndarray:
    return jax.vmap(function)(*(np.stack([a, a]) for a in (YES, X, W)))[1]


def exported(function: Any) -> np.ndarray:
    data = dml_jax.compile(function).export()
    return np.asarray(jax.export.deserialize(bytearray(data)).call(YES, X, W))


def bound(function: Any) -> np.ndarray:
    made = dml_jax.compile(function)
    inputs, output = [Buffer(a) for a in (YES, X, W)], Buffer.of(made.outputs[0])
    made.bind(inputs, [output]).dispatch()
    return np.asarray(output.array)


@pytest.mark.parametrize("use", [called, compiled, mapped, exported, bound])
def test_the_graph_of_a_network_is_used_as_any_graph(use: Callable[[Any], np.ndarray]):
    graph = network().graph
    assert graph.input_names == ("c", "x", "w")
    np.testing.assert_array_equal(use(graph), X * W)


def test_the_graph_of_a_network_is_checked_and_shown(tmp_path: Path):
    graph = network().graph
    assert graph.describe() == "UINT8[1], FLOAT32[2], FLOAT32[2] -> FLOAT32[2]"
    names = [operator.short_name for operator in graph.operators]
    assert names == ["ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_NEGATE"]
    assert str(graph.minimum_feature_level) == "5_0"
    assert graph.refused_at("4_1")
    draw(graph_picture(graph), tmp_path / "g.svg")
    picture = (tmp_path / "g.svg").read_text()
    assert "ELEMENT_WISE_NEGATE" in picture and "(If)" in picture
    save = functools.partial(graph.save, tmp_path / "g.json")
    for described in (graph.to_json, save, functools.partial(program, graph)):
        with pytest.raises(DmlError, match=r"\(If\) to be an operator or a constant .*graph.cut"):
            described()


def test_a_network_is_compiled_bound_and_exported():
    """By its inputs alone; memory and arrays are as its tensors say."""
    made = dml_jax.compile(network())
    np.testing.assert_array_equal(made(YES, X), X * W)
    data = made.export()
    np.testing.assert_array_equal(jax.export.deserialize(bytearray(data)).call(YES - 1, X), -X)
    output = Buffer.of(made.outputs[0])
    made.bind([Buffer(YES), Buffer(X)], [output]).dispatch()
    np.testing.assert_array_equal(output.array, X * W)
    assert [point.name for point in network().bind_points()] == ["c", "x", "y"]


def test_memory_is_in_the_order_of_the_outputs():
    """Whatever their names, and however large the memory is."""
    text = "g (float[2] x) => (float[2] y, bool[2] b) { y = Abs(x) b = IsNaN(x) }"
    made = dml_jax.compile(network(text))
    y, b = Buffer(np.zeros(8, np.float32)), Buffer(np.zeros(8, np.uint8))
    made.bind([Buffer(np.array([-1, np.nan], np.float32))], [y, b]).dispatch()
    np.testing.assert_array_equal(y.array, [1, np.nan, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(b.array, [0, 1, 0, 0, 0, 0, 0, 0])


def test_outputs_without_operators_are_outputs_of_the_graph():
    """Inputs, weights, known arrays and arrays without elements."""
    own = network("""
        g (float x, bool b, float[0, 2] e) => (y, c, f, k, s, n) <float[2] w = {1, 2}> {
            y = Identity(x) c = Identity(b) f = Identity(e) k = Identity(w)
            s = Constant<value_ints = [7, 8]>() n = Shape(e)
        }""")
    arrays = {"x": np.float32(5), "b": np.array(True), "e": np.zeros((0, 2), np.float32)}
    expected = {"y": arrays["x"], "c": arrays["b"], "f": arrays["e"], "k": floats([1, 2])}
    expected |= {"s": np.array([7, 8]), "n": np.array([0, 2])}
    for results in (own(arrays), own.apply(own.weights, arrays)):
        for name, array in expected.items():
            close(results[name], array)
    other = own.apply({"w": W}, arrays)
    np.testing.assert_array_equal(other["k"], W)


def test_weights_that_directml_lacks_are_inputs_of_functions():
    w = helper.make_tensor("w", TensorProto.FLOAT8E5M2, [3], np.array([1, 2, 3], np.float32))
    model = parse("g (float[3] x) => (float[3] y) { f = Cast <to = 1> (w)  y = Mul (x, f) }", 21)
    model.graph.initializer.append(w)
    network = load_onnx(model, fallback=True)
    assert "FLOAT8_E5M2[3]" in [tensor.shown().upper() for tensor in network.graph.inputs]
    found = network(np.array([4, 5, 6], np.float32))["y"]
    np.testing.assert_array_equal(found, [4, 10, 18])


def test_a_function_is_a_node_that_a_builder_adds():
    builder, tensor = GraphBuilder(), TensorDesc("FLOAT32", [4])
    x = builder.input_tensor("x", tensor)
    node = FunctionNode(
        lambda graphs, a, left_out, b: [a * b, a + b], (tensor, None, tensor), (tensor, tensor)
    )
    product, total = builder.function(node, [x + 1, None, -x])
    graph = builder.build({"y": product - total, "z": x * 2})
    x0 = np.arange(4, dtype=np.float32)
    for own, expected in zip(graph(x0), ((x0 + 1) * -x0 - 1, x0 * 2), strict=True):
        np.testing.assert_array_equal(own, expected)
    first, last = cut(graph)
    assert last.output_names == ("y",)
    found = dict(zip(first.output_names or (), first(x0), strict=True))
    a, b = found["node 1 output 0"], found["node 2 output 0"]
    np.testing.assert_array_equal(last(a * b, a + b), (x0 + 1) * -x0 - 1)
    np.testing.assert_array_equal(found["z"], x0 * 2)
    assert cut(last) == [last]


COUNTED = """g (float[3, 2] x) => (float[n] y) {
    places = NonZero(x)  rows = Transpose(places)  found = GatherND(x, rows)  y = Exp(found) }"""


def test_edges_name_the_sizes_that_data_decides(tmp_path: Path):
    """NonZero of ONNX gives {rank, count}: a Transpose moves the count, GatherND has it first."""
    counted = network(COUNTED)
    graph, found = counted.graph, set[tuple[int, ...]]()
    for edge in graph.intermediate_edges:
        if edge.count_name is not None:
            assert edge.count_name == "y.count"
            written = graph.nodes[int(edge.from_node_index)].slots(output=True)
            _, tensor = written[edge.from_node_output_index]
            assert tensor.sizes[edge.padded_axis] == 6  # as many as x has elements
            found.add((edge.padded_axis, *tensor.sizes))
    assert {(1, 2, 6), (0, 6, 2)} <= found
    assert "edges between nodes have the size 'y.count', which data decides" in counted.report()
    labels = [text for _, _, text in graph_picture(graph).lines]
    assert "FLOAT32[y.count<=6]" in labels
    assert any("[2,y.count<=6]" in text for text in labels)


def test_a_size_that_no_output_says_has_the_name_of_its_tensor():
    text = COUNTED.replace("float[n] y", "float y").replace("Exp", "ReduceSum<keepdims = 0>")
    graph = network(text).graph
    assert {e.count_name for e in graph.intermediate_edges} == {None, "places.count"}


def test_the_size_of_an_edge_is_a_dimension_with_a_name():
    graph = network(COUNTED).graph
    edge = next(e for e in graph.intermediate_edges if e.count_name)
    others = [e for e in graph.intermediate_edges if e is not edge]
    for changed, rule in (
        (edge.replace(padded_axis=8), "be in"),
        (edge.replace(count_name=None), "be given"),
    ):
        with pytest.raises(DmlError, match=rule):
            graph.replace(intermediate_edges=[*others, changed])


@pytest.mark.parametrize("value", [None, "x", [object()]])
def test_an_input_that_is_no_array_is_refused(value: Any):
    with pytest.raises(DmlError, match="expected the input 'x' to be an array, got "):
        network()(YES, value)
