"""Graphs: what they compute, and their face of an operator."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arrays import graph_of
from sample_graphs import (
    HALF,
    KEPT,
    PAIR,
    WIDE,
    X,
    built,
    by_name,
    clip,
    expected,
    graph,
    parts,
    summed,
    tensor,
)

from dml_jax import DmlError, FeatureLevel, functional
from dml_jax.graph import (
    ConstantNode,
    Graph,
    GraphBuilder,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
)


@pytest.mark.parametrize("make", [graph, by_name, built])
def test_it_is_a_function(make: Callable[[], Graph]):
    g = make()
    for results in (g(X), jax.jit(g)(X), jax.jit(lambda g, x: g(x), static_argnums=0)(g, X)):
        assert isinstance(results, tuple)
        for result, right in zip(results, expected(X), strict=True):
            np.testing.assert_array_equal(result, right)
    assert g.describe() == "FLOAT32[2,4] -> FLOAT32[2,1], FLOAT32[2,2]"
    assert repr(g) == f"Graph(5 nodes: {g.describe()})"


def test_forms_are_equal():
    assert graph() == by_name()
    assert hash(graph()) == hash(by_name())
    # The builder leaves edges unnamed, and has no choice of their order.
    unnamed = parts()
    unnamed["intermediate_edges"][1] = IntermediateEdge(1, 0, 3, 0)
    assert Graph(**unnamed) == built()
    assert Graph(**unnamed) != graph()


def test_one_output_is_no_tuple_and_names_have_defaults():
    g = Graph(
        input_count=1,
        output_count=1,
        nodes=[OperatorNode(clip(HALF))],
        input_edges=[InputEdge("Input0", 0, 0)],
        intermediate_edges=[],
        output_edges=[OutputEdge(0, 0, "Output0")],
    )
    assert (g.input_names, g.output_names) == (("Input0",), ("Output0",))
    np.testing.assert_array_equal(g(KEPT), np.ones((2, 2)))


def test_it_has_the_face_of_an_operator():
    g = graph()
    assert g.c_name == "DML_GRAPH_DESC"
    assert g.inputs == (WIDE,)
    assert g.outputs == (tensor(2, 1), HALF)
    assert [(p.name, p.tensors, p.output, p.is_array) for p in g.bind_points()] == [
        ("x", (WIDE,), False, False),
        ("total", (tensor(2, 1),), True, False),
        ("rest", (HALF,), True, False),
    ]
    assert [path for path, *_ in g.tensors()] == ["x", "total", "rest"]
    assert [path for path, *_ in g.tensors(output=True)] == ["total", "rest"]
    assert not g.in_place
    leaves, structure = jax.tree.flatten(g)
    assert leaves == []
    assert jax.tree.unflatten(structure, leaves) == g
    with pytest.raises(AttributeError):
        g.nodes = ()  # pyright: ignore[reportAttributeAccessIssue]


def test_scopes_name_the_nodes():
    unnamed = parts()
    unnamed["nodes"][1] = OperatorNode(clip(HALF))
    text = jax.jit(Graph(**unnamed)).lower(X).as_text(debug_info=True)
    for scope in ("halves/DML_OPERATOR_SPLIT", "1/DML_OPERATOR_ELEMENT_WISE_CLIP", "sum/DML_"):
        assert f"/{scope}" in text, scope


def test_it_composes():
    """In a function of one's own, differentiated, mapped."""
    g = graph()

    def loss(x: jax.Array) -> jax.Array:
        total, rest = g(x * 2)
        return (total * 3).sum() + (rest * rest).sum()

    inside = np.zeros_like(X)
    inside[:, :2] = np.where(np.abs(2 * X[:, :2]) < 1, 6, 0)
    inside[:, 2:] = 8 * X[:, 2:]
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(X), inside)
    many = np.stack([X, X[::-1], -X])
    for result, right in zip(
        jax.vmap(g)(many), zip(*map(expected, many), strict=True), strict=True
    ):
        np.testing.assert_array_equal(result, np.stack(right))
    primal, tangent = jax.jvp(g, (X,), (np.ones_like(X),))
    np.testing.assert_array_equal(primal[0], expected(X)[0])
    np.testing.assert_array_equal(tangent[0], (np.abs(X[:, :2]) < 1).sum(1, keepdims=True))


def test_one_input_feeds_two_nodes_and_one_node_two_outputs():
    builder = GraphBuilder()
    x = builder.input_tensor("x", HALF)
    low, high = builder.apply(clip(HALF, -9, 1), x), builder.apply(clip(HALF, 6, 9), x)
    pair = builder.apply(PAIR, low, high)
    g = builder.build({"a": pair, "b": high, "c": pair})
    right = np.hstack([np.minimum(KEPT, 1), np.maximum(KEPT, 6)])
    for result, array in zip(g(KEPT), (right, right[:, 2:], right), strict=True):
        np.testing.assert_array_equal(result, array)


def test_only_constants():
    builder = GraphBuilder()
    kept = builder.constant(KEPT)
    g = builder.build([builder.apply(summed(HALF), kept), kept])
    np.testing.assert_array_equal(g()[0], [[11], [15]])
    np.testing.assert_array_equal(g()[1], KEPT)


def test_constants_are_kept_as_they_were():
    array = KEPT.copy()
    node = ConstantNode(array)
    array[:] = 0
    np.testing.assert_array_equal(node.array, KEPT)
    with pytest.raises(ValueError, match="read-only"):
        node.array[0, 0] = 1
    assert ConstantNode(KEPT) == node
    assert ConstantNode(KEPT.astype(">f4")) == node
    assert ConstantNode(np.asfortranarray(KEPT)) == node
    zeros = [ConstantNode(np.array([z], t)) for t in ("f4", "f2", "i4") for z in (0.0, -0.0)]
    assert len({*zeros, ConstantNode(np.zeros((1, 1), "f4"))}) == 6  # -0 is 0 as an integer


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (np.ma.masked_array(KEPT, np.isfinite(KEPT)), "a MaskedArray"),
        (jax.ShapeDtypeStruct(KEPT.shape, KEPT.dtype), "a ShapeDtypeStruct"),
    ],
)
@pytest.mark.parametrize("take", [ConstantNode, GraphBuilder().constant])
def test_what_is_no_constant(take: Any, array: Any, got: str):
    with pytest.raises(DmlError, match=f"expected Array to be one of JAX or NumPy, got {got}"):
        take(array)


def test_feature_levels_are_those_of_the_operators():
    wide = [tensor(*sizes) for sizes in ((1, 1, 2, 4), (1, 1, 2, 2))]
    old = clip(wide[0])
    assert old.minimum_feature_level == FeatureLevel.of("1_0")
    builder = GraphBuilder()
    x = builder.input_tensor("x", wide[0])
    five = builder.input_tensor("five", tensor(1, 1, 1, 1, 3))
    g = builder.build([builder.apply(old, x), builder.apply(clip(five.desc), five, name="five")])
    assert g.minimum_feature_level == clip(five.desc).minimum_feature_level
    g.validate(g.minimum_feature_level)
    with pytest.raises(DmlError) as refused:
        g.validate("1_0")
    assert str(refused.value).startswith(
        "Node 1 'five': DML_OPERATOR_ELEMENT_WISE_CLIP: expected InputTensor.DimensionCount to be 4"
    )
    assert refused.value.faults == g.refused_at("1_0")
    assert list(g.refusals) == [lv for lv in FeatureLevel if lv < g.minimum_feature_level]


def test_wrong_arrays_are_refused():
    g = graph()
    for wrong in (X.astype(np.float16), X[None], X.tolist(), None):
        with pytest.raises(DmlError, match="DML_GRAPH_DESC: expected x to be an array float32"):
            g(wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DmlError, match=r"the number of arrays to be 1.* got 2"):
        g(X, X)


def test_64_bits_inside_need_x64(no_x64: None):
    def make(x: Any) -> Any:
        index = functional.argmax(functional.clip(x, -1, 1), [1], output_data_type="INT64")
        return functional.argmin(index, [0], output_data_type="INT32")

    rule = r"Nodes\[1\].OutputTensor.DataType to have .*jax_enable_x64"
    with pytest.raises(DmlError, match=rule):
        graph_of(make, KEPT)(KEPT)


def test_a_cpu_computes_what_two_nodes_read_once():
    """The square is fused into each reader otherwise, where nothing stores it."""

    def make(x: Any) -> list[Any]:
        square = functional.multiply(x, x)
        padded = functional.padding(square, "CONSTANT", 0.0, [0, 0, 1, 1], [0, 0, 1, 1])
        return [padded, functional.add(square, x)]

    one = jnp.ones((1, 1, 64, 64), jnp.float32)
    graph = graph_of(make, one)
    program = jax.jit(lambda x: graph.compute(x)).lower(one).compile().as_text()
    if jax.default_backend() == "cpu":
        assert str(program).count(" multiply(") == 1
    np.testing.assert_array_equal(graph(one)[1], one + 1)
    slope = jax.grad(lambda x: graph(x)[1].sum())(one)
    np.testing.assert_array_equal(slope, 3 * one)
