"""Graphs: what they compute, refuse, keep and show."""

import itertools
import json
import pickle
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import records
from click.testing import CliRunner, Result
from forms import compiled_soon

import dml_jax
from dml_jax import (
    OPERATORS,
    Buffer,
    DmlError,
    ElementWiseClip,
    FeatureLevel,
    Join,
    Operator,
    Reduce,
    Split,
    TensorDesc,
    compile,
    functional,
)
from dml_jax.cli import cli
from dml_jax.description.fields import Input, Output
from dml_jax.description.support import ALL_TYPES, rows
from dml_jax.errors import install_command
from dml_jax.graph import (
    ConstantNode,
    Expression,
    Graph,
    GraphBuilder,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    TensorPolicy,
)
from dml_jax.show.diagrams import graph_picture
from dml_jax.show.source import program

Json = dict[str, Any]


def tensor(*sizes: int, type_: str = "FLOAT32", **fields: Any) -> TensorDesc:
    return TensorDesc(type_, sizes, **fields)


def clip(t: TensorDesc, low: float = -1, high: float = 1, to: TensorDesc | None = None):
    return ElementWiseClip(input_tensor=t, output_tensor=to or t, min=low, max=high)


def summed(t: TensorDesc) -> Reduce:
    output = TensorDesc(t.data_type, (*t.sizes[:-1], 1))
    axes = [t.dimension_count - 1]
    return Reduce(function="SUM", input_tensor=t, output_tensor=output, axes=axes)


WIDE, HALF = tensor(2, 4), tensor(2, 2)
HALVES = Split(input_tensor=WIDE, output_tensors=[HALF, HALF], axis=1)
PAIR = Join(input_tensors=[HALF, HALF], output_tensor=WIDE, axis=1)
KEPT = np.array([[5, 6], [7, 8]], np.float32)
X = np.array([[-3, 0.5, 2, 3], [0.25, 9, 4, 5]], np.float32)


def parts() -> Json:
    """From x to halves; the first to low; low and kept to pair, sum, total; the second to rest."""
    return {
        "input_count": 1,
        "output_count": 2,
        "nodes": [
            OperatorNode(HALVES, "halves"),
            OperatorNode(clip(HALF), "low"),
            ConstantNode(KEPT, "kept"),
            OperatorNode(PAIR, "pair"),
            OperatorNode(summed(WIDE), "sum"),
        ],
        "input_edges": [InputEdge(0, 0, 0)],
        "intermediate_edges": [
            IntermediateEdge(0, 0, 1, 0),
            IntermediateEdge(1, 0, 3, 0, "clipped"),
            IntermediateEdge(2, 0, 3, 1),
            IntermediateEdge(3, 0, 4, 0),
        ],
        "output_edges": [OutputEdge(4, 0, 0), OutputEdge(0, 1, 1)],
        "input_names": ["x"],
        "output_names": ["total", "rest"],
    }


def loose(cls: Any) -> Any:
    """A class, as one that type checkers do not know the fields of."""
    return cls


def graph() -> Graph:
    return Graph(**parts())


def expected(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.clip(x[:, :2], -1, 1).sum(1, keepdims=True) + KEPT.sum(1, keepdims=True), x[:, 2:]


def by_name() -> Graph:
    named = parts()
    named["input_edges"] = [InputEdge("x", "halves", 0)]
    named["intermediate_edges"] = [
        IntermediateEdge("halves", 0, "low", 0),
        IntermediateEdge("low", 0, "pair", 0, name="clipped"),
        IntermediateEdge("kept", 0, "pair", 1),
        IntermediateEdge("pair", 0, "sum", 0),
    ]
    named["output_edges"] = [OutputEdge("sum", 0, "total"), OutputEdge("halves", 1, "rest")]
    return Graph(**named)


def built() -> Graph:
    builder = GraphBuilder()
    x = builder.input_tensor("x", WIDE)
    first, rest = builder.apply(HALVES, x, name="halves")
    low = builder.apply(clip(HALF), first, name="low")
    kept = builder.constant(KEPT, name="kept")
    pair = builder.apply(PAIR, low, kept, name="pair")
    return builder.build(
        {"total": builder.apply(summed(pair.desc), pair, name="sum"), "rest": rest}
    )


# What it computes


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


def test_names_of_inputs_and_outputs_are_refused_in_order():
    builder, names = GraphBuilder(), [f"tensor {index}" for index in range(9)]
    inputs = [builder.input_tensor(name, TensorDesc("FLOAT32", [2, 2])) for name in names]
    with pytest.raises(DmlError) as refused:
        builder.build({name: -x for name, x in zip(names, inputs, strict=True)})
    assert [fault.value for fault in refused.value.faults] == names


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


def test_an_operator_called_with_expressions_is_a_node():
    builder = GraphBuilder()
    x = builder.input_tensor("x", HALF)
    assert (x.shape, x.sizes, x.dtype) == ((2, 2), (2, 2), np.float32)
    called = builder.build(PAIR(clip(HALF, -9, 1)(x), x))
    np.testing.assert_array_equal(called(KEPT), np.hstack([np.minimum(KEPT, 1), KEPT]))
    with pytest.raises(DmlError, match=r"JOIN: expected InputTensors\[1\] to be an Expression"):
        PAIR(x, KEPT)


def test_the_builder_leaves_out_what_no_output_needs():
    builder = GraphBuilder()
    x = builder.input_tensor("x", HALF)
    functional.clip(x, 0, 1)  # tried, and left
    builder.constant(KEPT)
    low = functional.clip(x, -9, 1)
    total = functional.reduce(functional.join([low, x], 1), "SUM")
    functional.clip(total, 0, 1)
    g = builder.build(total)
    assert len(g.nodes) == 3
    assert g(jnp.full((2, 2), 3, jnp.float32)).item() == 4 * 1 + 4 * 3
    assert builder.build(low)(jnp.full((2, 2), 3, jnp.float32)).tolist() == [[1, 1], [1, 1]]


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


def test_edges_carry_bytes():
    turned = tensor(2, 4, strides=[1, 2])
    builder = GraphBuilder()
    y = builder.apply(clip(turned, -2, 2, to=turned), builder.input_tensor("x", turned))
    with pytest.raises(DmlError, match=r"to have strides \[1, 2\], as the expression has"):
        builder.apply(clip(WIDE, 0, 9), y)
    g = builder.build(builder.apply(clip(WIDE, 0, 9), y.reinterpret([2, 4])))
    bytes_ = np.clip(X, -2, 2).T.reshape(2, 4)  # column by column, as `turned` lies
    np.testing.assert_array_equal(g(X), np.clip(bytes_, 0, 9))
    np.testing.assert_array_equal(compile(g)(X), np.clip(bytes_, 0, 9))
    assert Graph.from_json(g.to_json()) == g


def test_edges_and_outputs_reinterpret_types():
    builder = GraphBuilder()
    y = builder.apply(clip(WIDE, -2, 2), builder.input_tensor("x", WIDE))
    bits = y.reinterpret([2, 4], data_type="INT32")
    halves = y.reinterpret([4, 4], data_type="FLOAT16")
    kept = builder.apply(clip(bits.desc, -(2.0**31), 2.0**31), bits)
    g = builder.build({"kept": kept, "halves": halves, "turned": y.reinterpret([4, 2], [1, 4])})
    expected = np.clip(X, -2, 2)
    assert [t.shown() for t in g.outputs] == [
        "INT32[2,4]",
        "FLOAT16[4,4]",
        "FLOAT32[4,2] strides [1, 4]",
    ]
    for results in (g(X), compile(g)(X), jax.jit(g)(X)):
        np.testing.assert_array_equal(results[0], expected.view(np.int32))
        np.testing.assert_array_equal(results[1], expected.view(np.float16).reshape(4, 4))
        np.testing.assert_array_equal(results[2], expected.T)
    assert Graph.from_json(g.to_json()) == g
    labels = [words for *_, words in graph_picture(g).lines]
    assert "FLOAT32[2,4] as FLOAT16[4,4]" in labels


def test_an_output_is_reinterpreted_within_its_bytes():
    parts = {
        "nodes": [OperatorNode(clip(WIDE))],
        "input_edges": [InputEdge(0, 0, 0)],
        "intermediate_edges": [],
        "output_edges": [OutputEdge(0, 0, 0)],
    }
    for wrong, text in (
        (HALF, r"OutputTensors\[0\] to describe the 32 bytes of OutputTensor of node 0, got 16 by"),
        (tensor(8, 2, strides=[1, 0], total_tensor_size_in_bytes=32), "an address of its own"),
    ):
        with pytest.raises(DmlError, match=text):
            Graph(input_count=1, output_count=1, **parts, output_tensors=[wrong])


def test_a_tensor_policy_lays_out_the_outputs_of_operators():
    wide = tensor(2, 3, 2, 2)
    builder = GraphBuilder(TensorPolicy.INTERLEAVED_CHANNEL)
    y = builder.apply(clip(wide, -1, 1), builder.input_tensor("x", wide))
    z = builder.apply(clip(y.desc, 0, 9, to=wide), y)
    assert y.desc.strides == z.desc.strides == (12, 1, 6, 3)
    g = builder.build(z.reinterpret([2, 2, 2, 3]))
    x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(wide.sizes)
    np.testing.assert_array_equal(g(x), np.clip(x, 0, 1).transpose(0, 2, 3, 1))
    assert TensorPolicy.INTERLEAVED_CHANNEL.strides([2, 3, 4, 5, 6]) == (360, 1, 90, 18, 3)
    with pytest.raises(DmlError, match="tensor_policy to be a TensorPolicy, got 'NHWC'"):
        GraphBuilder("NHWC")  # pyright: ignore[reportArgumentType]


def test_inputs_that_no_output_needs_may_be_left_out():
    builder = GraphBuilder()
    builder.input_tensor("unread", HALF)
    y = builder.apply(clip(WIDE), builder.input_tensor("x", WIDE))
    with pytest.raises(DmlError, match="graph input 0 'unread'"):
        builder.build(y)
    g = builder.build(y, only_read=True)
    assert g.input_names == ("x",)
    np.testing.assert_array_equal(g(X), np.clip(X, -1, 1))


def test_an_edge_repeats_what_strides_of_0_repeat():
    row, repeated = tensor(1, 4), tensor(2, 4, strides=[0, 1])
    g = Graph(
        1,
        1,
        [OperatorNode(clip(row, -1, 1)), OperatorNode(clip(repeated, 0, 9, to=tensor(2, 4)))],
        [InputEdge(0, 0, 0)],
        [IntermediateEdge(0, 0, 1, 0)],
        [OutputEdge(1, 0, 0)],
    )
    np.testing.assert_array_equal(g(X[:1]), np.clip([X[0], X[0]], 0, 1))
    gradient = jax.grad(lambda x: g(x).sum())(jnp.full((1, 4), 0.5, jnp.float32))
    np.testing.assert_array_equal(gradient, np.full((1, 4), 2))


def test_an_input_is_read_as_tensors_of_as_many_bytes():
    row, repeated = tensor(1, 4), tensor(2, 4, strides=[0, 1])
    parts = {
        "nodes": [OperatorNode(clip(repeated, 0, 9, to=tensor(2, 4))), OperatorNode(clip(row))],
        "input_edges": [InputEdge(0, 0, 0), InputEdge(0, 1, 0)],
        "intermediate_edges": [],
        "output_edges": [OutputEdge(0, 0, 0), OutputEdge(1, 0, 1)],
    }
    g = Graph(input_count=1, output_count=2, **parts, input_tensors=[row])
    assert g.inputs == (row,)
    wide, narrow = g(X[:1])
    np.testing.assert_array_equal(wide, np.clip([X[0], X[0]], 0, 9))
    np.testing.assert_array_equal(narrow, np.clip(X[:1], -1, 1))
    assert g.to_json()["InputTensors"] == [row.to_json()]
    assert Graph.from_json(g.to_json()) == g
    with pytest.raises(DmlError, match=r"InputTensors to have 1 elements \(InputCount\), got 2"):
        Graph(input_count=1, output_count=2, **parts, input_tensors=[row, row])
    with pytest.raises(DmlError, match=r"InputEdges\[0\] to carry FLOAT32\[1,3\] \(as InputT"):
        Graph(input_count=1, output_count=2, **parts, input_tensors=[tensor(1, 3)])


def test_optional_tensors_count_as_in_directml():
    """Indices are those of the C structure, whether or not an optional tensor is given."""

    class Odd(Operator, op="ODD"):
        """Adds one."""

        left_out: Input | None = None
        given: Input
        no_result: Output | None = None
        result: Output

        support = rows(("1_0", (1, 8), ALL_TYPES))

        def expected_sizes(self) -> dict[str, Any]:
            return {"result": self.given.sizes}

        def lower(self, left_out, given):
            assert left_out is None
            return (given + 1,)

    OPERATORS._built.pop("DML_OPERATOR_ODD")

    def make(slot: int, output: int) -> Graph:
        nodes = [OperatorNode(Odd(given=HALF, result=HALF))]
        return Graph(1, 1, nodes, [InputEdge(0, 0, slot)], [], [OutputEdge(0, output, 0)])

    np.testing.assert_array_equal(make(1, 1)(KEPT), KEPT + 1)
    with pytest.raises(DmlError) as refused:
        make(0, 0)
    assert [str(fault).partition(" to be ")[2] for fault in refused.value.faults] == [
        "an input that is given (LeftOut of node 0 is not), got 0",
        "an output that is given (NoResult of node 0 is not), got 0",
    ]


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
    builder = GraphBuilder()
    x = builder.input_tensor("x", HALF)
    index = Reduce(
        function="ARGMAX", input_tensor=HALF, output_tensor=tensor(2, 1, type_="INT64"), axes=[1]
    )
    low, _ = builder.apply(clip(HALF), x), None
    long = builder.apply(index, low)
    small = Reduce(
        function="ARGMIN",
        input_tensor=long.desc,
        output_tensor=tensor(1, 1, type_="INT32"),
        axes=[0],
    )
    g = builder.build(builder.apply(small, long))
    with pytest.raises(
        DmlError, match=r"Nodes\[1\].OutputTensor.DataType to have .*jax_enable_x64"
    ):
        g(KEPT)


# What it refuses


def edit(**changes: Any) -> Callable[[Json], None]:
    """Changes parts: `nodes_1=...` is element 1; a value None removes it, -1 appends."""

    def apply(p: Json) -> None:
        for key, value in changes.items():
            name, _, index = key.rpartition("_")
            if index == "new":
                p[name].append(value)
            elif not index.isdigit():
                p[key] = value
            elif value is None:
                del p[name][int(index)]
            else:
                p[name][int(index)] = value

    return apply


def owned(t: TensorDesc) -> TensorDesc:
    return TensorDesc(t.data_type, t.sizes, flags="OWNED_BY_DML")


OTHER = tensor(2, 2, type_="FLOAT16")
Edge, In, Out = IntermediateEdge, InputEdge, OutputEdge
BROKEN: list[tuple[str, Callable[[Json], None], list[str]]] = [
    (
        "empty",
        edit(
            nodes=[],
            input_edges=[],
            intermediate_edges=[],
            output_edges=[],
            input_count=0,
            output_count=0,
            input_names=None,
            output_names=None,
        ),
        ["NodeCount to be at least 1, got 0", "OutputCount to be at least 1, got 0"],
    ),
    (
        "no output",
        edit(output_count=0, output_names=None, output_edges=[]),
        ["OutputCount to be at least 1, got 0"]
        + [f"Nodes[{i}] to lead to a graph output (node {i} " for i in range(5)],
    ),
    (
        "not a node",
        edit(nodes_1=3),
        ["Nodes[1] to be an OperatorNode, a ConstantNode or a FunctionNode, got 3"],
    ),
    ("a wrong edge", edit(input_edges=[Out(0, 0, 0)]), ["InputEdges[0] to be an InputEdge, as"]),
    ("edges that are no list", edit(output_edges=7), ["OutputEdges to be a list, got 7"]),
    (
        "no such node",
        edit(intermediate_edges_0=Edge(0, 0, 9, 0)),
        ["IntermediateEdges[0].ToNodeIndex to be in [0, 4] (nodes), got 9"],
    ),
    (
        "no such node's name",
        edit(intermediate_edges_0=Edge("halvs", 0, "low", 0)),
        ["IntermediateEdges[0].FromNodeIndex to be a node's name (did you mean 'halves'?)"],
    ),
    (
        "no such input of a node",
        edit(intermediate_edges_2=Edge(2, 0, 3, 4)),
        ["IntermediateEdges[2].ToNodeInputIndex to be in [0, 1] (inputs of node 3 'pair'), got 4"],
    ),
    (
        "no such output of a node",
        edit(output_edges_1=Out(0, 2, 1)),
        ["OutputEdges[1].FromNodeOutputIndex to be in [0, 1] (outputs of node 0 'halves'), got 2"],
    ),
    (
        "into a constant",
        edit(intermediate_edges_new=Edge(0, 1, 2, 0)),
        ["IntermediateEdges[4].ToNodeInputIndex to be one of the inputs of node 2 'kept' (it has"],
    ),
    (
        "no such graph input",
        edit(input_edges_0=In(1, 0, 0)),
        ["InputEdges[0].GraphInputIndex to be in [0, 0] (graph inputs), got 1"],
    ),
    (
        "no such graph input's name",
        edit(input_edges_0=In("y", 0, 0)),
        ["InputEdges[0].GraphInputIndex to be a graph input's name, got 'y'"],
    ),
    (
        "no such graph output",
        edit(output_edges_1=Out(0, 1, 2)),
        ["OutputEdges[1].GraphOutputIndex to be in [0, 1] (graph outputs), got 2"],
    ),
    (
        "an input that nothing feeds",
        edit(
            intermediate_edges_3=None,
            output_edges_0=Out(3, 0, 0),
            output_edges_new=Out(4, 0, 2),
            output_count=3,
            output_names=None,
        ),
        ["Nodes[4].InputTensor to be fed by an edge (node 4 'sum'), got nothing"],
    ),
    (
        "an input that two edges feed",
        edit(intermediate_edges_new=Edge(0, 1, 3, 0)),
        [
            "IntermediateEdges[4] to feed an input that no other edge feeds, as "
            "IntermediateEdges[1] does, got InputTensors[0] of node 3 'pair'"
        ],
    ),
    (
        "an input that a graph input feeds too",
        edit(input_edges_new=In(0, 4, 0)),
        ["IntermediateEdges[3] to feed an input that no other edge feeds, as InputEdges[1] does"],
    ),
    (
        "an unused graph input",
        edit(input_count=2, input_names=["x", "y"]),
        ["InputNames[1] to be read by an edge (graph input 1 'y'), got nothing"],
    ),
    (
        "far too many graph inputs",
        edit(input_count=2**32 - 1, input_names=None),
        ["InputNames[1] to be read by an edge (graph input 1 'Input1'), got nothing"],
    ),
    (
        "an output that nothing feeds",
        edit(output_edges_1=None),
        ["OutputNames[1] to be fed by an edge (graph output 1 'rest'), got nothing"],
    ),
    (
        "an output that two edges feed",
        edit(output_edges_new=Out(3, 0, 0)),
        ["OutputEdges[2] to feed a graph output that no other edge feeds, as OutputEdges[0] does"],
    ),
    (
        "types that differ",
        edit(nodes_1=OperatorNode(clip(OTHER), "low")),
        [
            "IntermediateEdges[0] to carry FLOAT32[2,2] (OutputTensors[0] of node 0 'halves'), "
            "got FLOAT16[2,2] (InputTensor of node 1 'low')",
            "IntermediateEdges[1] to carry FLOAT16[2,2] (OutputTensor of node 1 'low'), "
            "got FLOAT32[2,2] (InputTensors[0] of node 3 'pair')",
        ],
    ),
    (
        "sizes that differ",
        edit(nodes_4=OperatorNode(summed(tensor(2, 5)), "sum")),
        [
            "IntermediateEdges[3] to carry FLOAT32[2,4] (OutputTensor of node 3 'pair'), "
            "got FLOAT32[2,5] (InputTensor of node 4 'sum')"
        ],
    ),
    (
        "a constant of other sizes",
        edit(nodes_2=ConstantNode(KEPT[:1])),
        ["IntermediateEdges[2] to carry FLOAT32[1,2] (Array of node 2), got FLOAT32[2,2]"],
    ),
    (
        "one graph input of two types",
        edit(
            nodes_new=OperatorNode(clip(OTHER), "other"),
            input_edges_new=In(0, "other", 0),
            output_edges_new=Out("other", 0, 2),
            output_count=3,
            output_names=None,
        ),
        [
            "InputEdges[1] to carry FLOAT32[2,4] (as InputEdges[0] does, from graph input 0), "
            "got FLOAT16[2,2] (InputTensor of node 5 'other')"
        ],
    ),
    (
        "one graph input of two layouts",
        edit(
            nodes_new=OperatorNode(clip(tensor(2, 4, strides=[8, 1])), "other"),
            input_edges_new=In(0, "other", 0),
            output_edges_new=Out("other", 0, 2),
            output_count=3,
            output_names=None,
        ),
        [
            "InputEdges[1] to read graph input 0 with strides [4, 1], as InputEdges[0] does, "
            "got [8, 1]"
        ],
    ),
    (
        "one graph input owned and not",
        edit(
            nodes_new=OperatorNode(clip(owned(WIDE), to=WIDE), "other"),
            input_edges_new=In(0, "other", 0),
            output_edges_new=Out("other", 0, 2),
            output_count=3,
            output_names=None,
        ),
        ["InputEdges[1] to have flags NONE, as InputEdges[0] has, got OWNED_BY_DML"],
    ),
    (
        "an owned tensor inside",
        edit(nodes_1=OperatorNode(clip(owned(HALF), to=HALF), "low")),
        [
            "IntermediateEdges[0] to lead to a tensor that is not OWNED_BY_DML, which only a graph "
            "input may feed, got InputTensor of node 1 'low'"
        ],
    ),
    (
        "a cycle",
        edit(
            intermediate_edges_0=Edge(5, 0, 1, 0),
            intermediate_edges_new=Edge(3, 0, 5, 0),
            nodes_new=OperatorNode(Split(input_tensor=WIDE, output_tensors=[HALF, HALF], axis=1)),
        ),
        [
            "IntermediateEdges to make no cycle, got node 1 'low' -> node 3 'pair' -> node 5 -> "
            "node 1 'low'"
        ],
    ),
    (
        "a node that feeds itself",
        edit(intermediate_edges_0=Edge(1, 0, 1, 0)),
        ["IntermediateEdges to make no cycle, got node 1 'low' -> node 1 'low'"],
    ),
    (
        "a node of no effect",
        edit(nodes_new=OperatorNode(clip(HALF), "lost"), intermediate_edges_new=Edge(0, 1, 5, 0)),
        ["Nodes[5] to lead to a graph output (node 5 'lost'), got an operator of no effect"],
    ),
    (
        "a constant that nothing reads",
        edit(nodes_new=ConstantNode(KEPT)),
        ["Nodes[5] to lead to a graph output (node 5), got a constant of no effect"],
    ),
    (
        "a name twice",
        edit(nodes_4=OperatorNode(summed(WIDE), "low")),
        ["Nodes[4].Name to differ from Nodes[1].Name, got 'low'"],
    ),
    (
        "a graph output's name twice",
        edit(output_names=["total", "total"]),
        ["OutputNames[1] to differ from OutputNames[0], got 'total'"],
    ),
    (
        "an input named as an output",
        edit(output_names=["total", "x"]),
        ["OutputNames to differ from InputNames, got 'x'"],
    ),
    (
        "too few names",
        edit(output_names=["total"]),
        ["OutputNames to have 2 elements (OutputCount), got ['total']"],
    ),
    ("an empty name", edit(input_names=[""]), ["InputNames[0] to be a name, got ''"]),
    (
        "much at once",
        edit(
            input_edges_0=In(0, 7, 0),
            output_edges_0=Out("sums", 0, 0),
            intermediate_edges_0=Edge(2, 0, 1, 0),
            nodes_4=OperatorNode(summed(HALF), "sum"),
        ),
        [
            "InputEdges[0].ToNodeIndex to be in [0, 4] (nodes), got 7",
            "OutputEdges[0].FromNodeIndex to be a node's name (did you mean 'sum'?), got 'sums'",
            "IntermediateEdges[3] to carry FLOAT32[2,4] (OutputTensor of node 3 'pair'), "
            "got FLOAT32[2,2] (InputTensor of node 4 'sum')",
        ],
    ),
]


@pytest.mark.parametrize(
    ("change", "fragments"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN]
)
def test_broken_graphs_are_refused_by_name(change: Callable[[Json], None], fragments: list[str]):
    broken = parts()
    change(broken)
    with pytest.raises(DmlError) as refused:
        Graph(**broken)
    message = str(refused.value)
    for fragment in fragments:
        assert f"DML_GRAPH_DESC: expected {fragment}" in message
    assert len(refused.value.faults) == len(fragments), message


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (
            lambda: loose(InputEdge)(-1, 0, 0),
            "EDGE_DESC: expected GraphInputIndex to be an integer in [0",
        ),
        (lambda: loose(InputEdge)(0, 0), "expected ToNodeInputIndex to be given, got nothing"),
        (lambda: loose(OutputEdge)(0, 1.5, 0), "expected FromNodeOutputIndex to be an integer"),
        (
            lambda: loose(OutputEdge)(0, 0, graph_output=0),
            "to be a field of DML_OUTPUT_GRAPH_EDGE_DESC",
        ),
        (
            lambda: loose(OperatorNode)("SPLIT"),
            "GRAPH_NODE_DESC: expected Operator to be an operator",
        ),
        (lambda: loose(OperatorNode)(HALVES, 3), "expected Name to be a name, got 3"),
        (lambda: loose(ConstantNode)([1.0]), "expected Array to be an array, got a list"),
        (lambda: ConstantNode(np.array(1.0)), "expected Array.DimensionCount to be in [1, 8]"),
        (lambda: ConstantNode(np.array(["a"])), "expected Array.dtype to be one that DirectML has"),
        (lambda: ConstantNode(np.zeros((2, 0))), "expected Array.Sizes[1] to be in [1"),
    ],
)
def test_broken_parts_are_refused_by_name(make: Callable[[], Any], fragment: str):
    with pytest.raises(DmlError) as refused:
        make()
    assert fragment in str(refused.value)


def test_too_many_values():
    with pytest.raises(TypeError, match="InputEdge takes 4 fields, got 5 values"):
        loose(InputEdge)(*(0,) * 5)


def test_the_builder_refuses():
    builder, other = GraphBuilder(), GraphBuilder()
    x, y = builder.input_tensor("x", HALF), other.input_tensor("x", HALF)
    turned = builder.input_tensor("turned", tensor(2, 2, strides=[1, 2]))
    assert isinstance(x, Expression)
    assert (x.sizes, x.desc, x.builder) == ((2, 2), HALF, builder)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: builder.apply(PAIR, x, y), r"JOIN: expected InputTensors\[1\] to be of this buil"),
        (lambda: builder.apply(PAIR, x), "the number of expressions to be 2, .* got 1"),
        (lambda: builder.apply(HALVES, x), r"be FLOAT32\[2,2\] \(the expression\), got FLOAT32\[2"),
        (lambda: builder.apply(HALVES, KEPT), r"to be an Expression, got float32\[2,2\]"),  # pyright: ignore
        (lambda: builder.apply(clip(HALF), turned), r"strides \[1, 2\], as graph input 1 has, got"),
        (lambda: builder.input_tensor("x", HALF), "name to differ from the others, got 'x'"),
        (lambda: builder.input_tensor("", HALF), "name to be a name, got ''"),
        (lambda: builder.build(x), r"outputs\[0\] to be computed by a node, got a graph input"),
        (lambda: builder.build([y]), r"outputs\[0\] to be of this builder, got another's"),
        (lambda: builder.build([]), "OutputCount to be at least 1"),
    ]
    for make, message in cases:
        with pytest.raises(DmlError, match=message):
            make()


# What it keeps


def test_round_trips(tmp_path: Path):
    g = graph()
    g.save(tmp_path / "deep" / "g.json")
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["g.2.npy", "g.json"]
    for twin in (
        Graph.from_json(json.loads(json.dumps(g.to_json()))),
        Graph.load(tmp_path / "deep" / "g.json"),
        pickle.loads(pickle.dumps(g)),
    ):
        assert twin == g
        assert hash(twin) == hash(g)
        assert twin.to_json() == g.to_json()
        np.testing.assert_array_equal(twin(X)[0], g(X)[0])
    np.testing.assert_array_equal(np.load(tmp_path / "deep" / "g.2.npy"), KEPT)
    np.save(tmp_path / "deep" / "g.2.npy", KEPT.astype(KEPT.dtype.newbyteorder(">")))
    assert Graph.load(tmp_path / "deep" / "g.json") == g


@pytest.mark.parametrize(
    "type_", ["float32", "float16", "float64", "int8", "uint64", "int4", "uint4"]
)
def test_constants_keep_their_bits(type_: str, tmp_path: Path):
    bits = np.random.default_rng(0).integers(0, 256, 64, np.uint8)  # NaNs and all
    dtype = np.dtype(getattr(jnp, type_))
    array = bits.astype(dtype) if type_.endswith("int4") else bits.view(dtype)
    t = TensorDesc.of(array)
    builder = GraphBuilder()
    nodes = [builder.constant(array, "c"), builder.constant(array[::-1])]
    g = builder.build([builder.apply(clip(t), n) if t.data_type.name == "?" else n for n in nodes])
    g.save(tmp_path / "g.json")
    for twin in (Graph.load(tmp_path / "g.json"), Graph.from_json(g.to_json())):
        assert twin == g
        for node, original in zip(twin.nodes, (array, array[::-1]), strict=True):
            assert isinstance(node, ConstantNode)
            assert node.array.dtype == dtype
            assert node.array.tobytes() == original.tobytes()


def stored(tmp_path: Path) -> tuple[Path, Json]:
    graph().save(tmp_path / "g.json")
    return tmp_path / "g.json", json.loads((tmp_path / "g.json").read_text())


FILES: list[tuple[str, Callable[[Path, Json], Any], str]] = [
    (
        "not JSON",
        lambda p, v: b'{"Nodes": [',
        "expected the text to be JSON, got Expecting value: l",
    ),
    ("not UTF-8", lambda p, v: b'{"\xff": 1}', "the text to be UTF-8, got byte 2: invalid"),
    ("deep", lambda p, v: b"[" * 10**5, "expected the nesting to be less than 1000 deep"),
    ("a list", lambda p, v: b"[1]", "DML_GRAPH_DESC: expected value to be an object, got [1]"),
    ("twice", lambda p, v: b'{"a": 1, "a": 2}', "expected each key of an object to stand once"),
    (
        "unknown",
        lambda p, v: v.update(Node=[]),
        "a field of DML_GRAPH_DESC (did you mean 'Nodes'?)",
    ),
    ("missing", lambda p, v: v.pop("OutputEdges"), "expected OutputEdges to be given, got nothing"),
    (
        "count",
        lambda p, v: v.update(NodeCount=4),
        "expected NodeCount to be 5 (the elements of Nod",
    ),
    (
        "unknown in an edge",
        lambda p, v: v["InputEdges"][0].update(ToNode=1),
        "InputEdges[0].ToNode to be a field of DML_INPUT_GRAPH_EDGE_DESC (did you mean 'ToNodeInd",
    ),
    (
        "unknown in an operator",
        lambda p, v: v["Nodes"][1]["Operator"]["Desc"].update(Mim=1),
        "Nodes[1].Operator.Mim to be a field of DML_OPERATOR_ELEMENT_WISE_CLIP (did you mean 'Min",
    ),
    (
        "no such operator",
        lambda p, v: v["Nodes"][0]["Operator"].update(Type="SPLAT"),
        "expected Nodes[0].Operator.type to be an operator of DirectML",
    ),
    (
        "unknown in a constant",
        lambda p, v: v["Nodes"][2]["Array"].update(Sourcepath="x"),
        "Nodes[2].Array.Sourcepath to be a field of a constant (did you mean 'SourcePath'?)",
    ),
    (
        "no data",
        lambda p, v: v["Nodes"][2]["Array"].pop("SourcePath"),
        "Nodes[2].Array.Data to be given as a string, or else SourcePath, got nothing",
    ),
    (
        "both data",
        lambda p, v: v["Nodes"][2]["Array"].update(Data="AAAA"),
        "Nodes[2].Array.Data to be given as a string, or else SourcePath, got 'AAAA'",
    ),
    (
        "broken data",
        lambda p, v: v["Nodes"][2].update(Array={"DataType": "INT8", "Sizes": [9], "Data": "AAAA"}),
        "Nodes[2].Array.Data to be the bytes of INT8[9], in base64, got 'AAAA'",
    ),
    (
        "foreign characters",
        lambda p, v: v["Nodes"][2].update(
            Array={"DataType": "INT8", "Sizes": [3], "Data": "!AA\nAA"}
        ),
        "Nodes[2].Array.Data to be the bytes of INT8[3], in base64, got",
    ),
    (
        "other sizes",
        lambda p, v: v["Nodes"][2]["Array"].update(Sizes=[4]),
        "to hold FLOAT32[4], got float32[2,2]",
    ),
    ("no constant", lambda p, v: (p / "g.2.npy").unlink(), "to be a .npy file, got No such file"),
    (
        "pickled constant",
        lambda p, v: np.save(p / "g.2.npy", np.array([{}], object)),
        "to be a .npy file, got ",
    ),
    (
        "short constant",
        lambda p, v: (p / "g.2.npy").write_bytes((p / "g.2.npy").read_bytes()[:-1]) and None,
        "to be a .npy file, got ",
    ),
    ("a cycle", lambda p, v: v["IntermediateEdges"][0].update(FromNodeIndex=1), "make no cycle"),
]


@pytest.mark.parametrize(("change", "fragment"), [f[1:] for f in FILES], ids=[f[0] for f in FILES])
def test_broken_files_are_refused_by_name(change: Callable, fragment: str, tmp_path: Path):
    path, value = stored(tmp_path)
    text = change(tmp_path, value)
    path.write_bytes(text if isinstance(text, bytes) else json.dumps(value).encode())
    with pytest.raises(DmlError) as refused:
        Graph.load(path)
    assert fragment in str(refused.value)
    assert all(str(fault).startswith(f"Graph '{path}': ") for fault in refused.value.faults)


def test_files_that_cannot_be(tmp_path: Path):
    with pytest.raises(DmlError, match="the graph to be a readable JSON file, got No such file"):
        Graph.load(tmp_path / "none.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(DmlError, match="to be one that can be written, got"):
        graph().save(tmp_path / "file" / "g.json")
    (tmp_path / "g.json").mkdir()
    with pytest.raises(
        DmlError, match=r"the file '.*g.json' to be one that can be written, got Is a"
    ):
        graph().save(tmp_path / "g.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "g.2.npy", "g.json"]


def test_what_an_input_says_of_its_memory():
    """What reads it may demand more, and not less."""
    said: Any = {"total_tensor_size_in_bytes": 64, "guaranteed_base_offset_alignment": 256}
    plain, large = TensorDesc("FLOAT32", [4]), TensorDesc("FLOAT32", [4], **said)
    owned = TensorDesc("FLOAT32", [4], flags="OWNED_BY_DML")

    def read(declared: TensorDesc, by: TensorDesc) -> Graph:
        builder = GraphBuilder()
        x = builder.input_tensor("x", declared)
        return builder.build(ElementWiseClip.infer(input_tensor=by, min=0, max=1)(x))

    for declared, by in ((plain, large), (large, large), (owned, owned), (plain, plain)):
        assert read(declared, by).inputs == (by,)
    for declared, by, rules in (
        (owned, plain, ["have Flags OWNED_BY_DML"]),
        (plain, owned, ["have Flags NONE"]),
        (large, plain, ["TotalTensorSizeInBytes of at least 64", "Alignment of at least 256"]),
    ):
        with pytest.raises(DmlError) as refused:
            read(declared, by)
        lines = str(refused.value).splitlines()
        assert len(lines) == len(rules)
        assert all(rule in line for rule, line in zip(rules, lines, strict=True)), lines


@pytest.mark.parametrize("turned", [False, True])
def test_an_input_is_what_all_its_readers_demand(turned: bool):
    def tensor(total: int, alignment: int) -> TensorDesc:
        said: Any = {
            "total_tensor_size_in_bytes": total,
            "guaranteed_base_offset_alignment": alignment,
        }
        return TensorDesc("FLOAT32", [4], **said)

    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4]))
    readers = [tensor(64, 0), tensor(16, 256)][:: -1 if turned else 1]
    read = [ElementWiseClip.infer(input_tensor=by, min=0, max=1)(x) for by in readers]
    assert builder.build(read).inputs == (tensor(64, 256),)


def test_outputs_in_any_order_of_one():
    builder = GraphBuilder()
    y = functional.clip(builder.input_tensor("x", TensorDesc("FLOAT32", [4])), 0, 1)
    assert builder.build(e for e in [y]) == builder.build([y]) == builder.build(y)
    wrong: Any = builder
    for outputs, shown in ((None, "None"), (3, "an int"), ({y}, "a set"), ("y", "a str")):
        with pytest.raises(DmlError, match=f"outputs to be an expression, .*got {shown}"):
            wrong.build(outputs)


def test_an_expression_is_no_array():
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [4]))
    op = ElementWiseClip.infer(input_tensor=x.desc, min=0, max=1)
    inner = builder.build(op(x))
    other: Any = GraphBuilder().input_tensor("x", x.desc)
    for call in (inner, compile(op), builder.constant, Buffer):
        with pytest.raises(DmlError, match=r"an array.* got an Expression"):
            call(other)


# Large graphs


MIXED = ["FLOAT32", "INT32", "FLOAT16", "INT64"]
NAMES = [op.short_name for op in OPERATORS.values()]
SHUFFLED = np.random.default_rng(0).permutation(NAMES).tolist()  # so that families meet
NODES = 8


def drawn(rng: np.random.Generator, name: str, near: Expression | None) -> tuple[Any, Operator]:
    """Return the record of an operator, and a random one that reads `near` where it can."""
    record, op_class = records.records()[name], OPERATORS[f"DML_OPERATOR_{name}"]
    every = [types for types, _ in records.combinations(op_class, record)]
    fitting = [t for t in every if near is not None and near.desc.data_type.name in t.values()]
    some = fitting or [t for t in every if "FLOAT32" in t.values()] or every
    types = some[int(rng.integers(len(some)))]
    with records.preferring(near.sizes if near is not None else [2, 2, 1, 2]):
        return record, record.operator(rng, op_class, types)


def grow(start: int, names: Sequence[str]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return a random graph of these operators, one after the other, and arrays for its inputs.

    An operator reads a tensor that is there, where one fits, else a constant or a new input.
    """
    rng, builder, arrays = np.random.default_rng(start), GraphBuilder(), {}
    pool: list[Expression] = []
    read: set[int] = set()

    def source(array: np.ndarray, t: TensorDesc) -> Expression:
        plain = TensorDesc(t.data_type, t.sizes)
        fitting = [e for e in pool if e.desc == plain and e.source[0] >= 0]
        if fitting and array.dtype.kind == "f":  # integers may be indices, which have a range
            found = fitting[int(rng.integers(len(fitting)))]
        elif rng.random() < 0.3 and t.data_type.bits >= 8:
            found = builder.constant(array)
        else:
            arrays[f"in{len(arrays)}"] = array
            found = builder.input_tensor(f"in{len(arrays) - 1}", t)
        pool.append(found)
        read.add(id(found))
        return found

    for name in names:
        near = pool[-1] if pool else None
        record, op = drawn(rng, name, near)
        values = zip(record.arrays(rng, op), op.inputs, strict=True)
        inputs = [source(array, t) for array, t in values]
        results = builder.apply(op, *inputs) if inputs else builder.node(op)
        pool.extend(results if isinstance(results, tuple) else (results,))
    ends = [e for e in pool if id(e) not in read and e.source[0] >= 0]
    return builder.build(ends), arrays


@pytest.fixture(scope="module")
def mixed() -> tuple[Graph, dict[str, np.ndarray]]:
    return grow(1, NAMES)


def node_by_node(g: Graph, inputs: Sequence[Any]) -> tuple[list[Any], dict[Any, Any]]:
    """The outputs, and for each node what it read; by the edges, as they come to be ready."""
    ready: dict[Any, Any] = {}
    feeds = {
        (e.to_node_index, e.to_node_input_index): inputs[int(e.graph_input_index)]
        for e in g.input_edges
    }
    waiting = dict(enumerate(g.nodes))
    wanted = {
        index: [e for e in g.intermediate_edges if e.to_node_index == index] for index in waiting
    }
    reads: dict[int, list[Any]] = {}
    while waiting:
        for index, node in list(waiting.items()):
            edges = wanted[index]
            if not all((e.from_node_index, e.from_node_output_index) in ready for e in edges):
                continue
            del waiting[index]
            if isinstance(node, ConstantNode):
                ready[index, 0] = jnp.asarray(node.array)
                continue
            given_ = {
                e.to_node_input_index: ready[e.from_node_index, e.from_node_output_index]
                for e in edges
            }
            given_ |= {slot: array for (n, slot), array in feeds.items() if n == index}
            reads[index] = [given_[slot] for slot in sorted(given_)]
            assert isinstance(node, OperatorNode)
            results = node.operator(*reads[index])
            results = results if isinstance(results, tuple) else (results,)
            slots = [slot for slot, (_, t) in enumerate(node.slots(output=True)) if t is not None]
            ready |= {(index, slot): r for slot, r in zip(slots, results, strict=True)}
    ends = sorted(g.output_edges, key=lambda e: int(e.graph_output_index))
    return [ready[e.from_node_index, e.from_node_output_index] for e in ends], reads


def assert_alike(results: Sequence[Any], right: Sequence[Any]) -> None:
    for result, array in zip(results, right, strict=True):
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        tolerance = {"float16": 2e-2, "float32": 1e-4}.get(array.dtype.name, 0)
        np.testing.assert_allclose(result, array, rtol=tolerance, atol=tolerance)


def test_a_large_graph_round_trips(mixed: tuple[Graph, dict[str, np.ndarray]]):
    g, arrays = mixed
    used = [node.operator.short_name for node in g.nodes if isinstance(node, OperatorNode)]
    assert sorted(used) == sorted(NAMES)
    shapes = jax.eval_shape(g, *arrays.values())
    assert [s.shape for s in jax.tree.leaves(shapes)] == [t.sizes for t in g.outputs]
    assert Graph.from_json(g.to_json()) == pickle.loads(pickle.dumps(g)) == g


@pytest.mark.parametrize("start", range(0, len(NAMES), NODES))
def test_small_graphs_are_their_nodes(start: int, tmp_path: Path):
    """Each operator is in one graph, which is saved, written as a program and drawn too."""
    g, arrays = grow(start, SHUFFLED[start : start + NODES])
    right, _ = node_by_node(g, list(arrays.values()))
    assert_alike(jax.tree.leaves(compiled_soon(g)(*arrays.values())), right)
    g.save(tmp_path / "g.json")
    assert Graph.load(tmp_path / "g.json") == g
    made: dict[str, Any] = {}
    exec(program(g), made)
    assert made["graph"] == g
    assert_no_overlaps(g)


def test_the_gradient_is_the_sum_of_its_parts():
    """The chain rule by hand: each node's own derivative, from the outputs to the inputs."""
    smooth = ["TILE", "REDUCE", "JOIN", "SPLIT", "ELEMENT_WISE_SQRT", "ELEMENT_WISE_MULTIPLY"]
    g, arrays = grow(2, [*smooth, "ELEMENT_WISE_CLIP", "ELEMENT_WISE_ADD"])
    inputs = [jnp.asarray(a) for a in arrays.values()]
    rng = np.random.default_rng(0)
    results, reads = node_by_node(g, inputs)
    seeds = [jnp.asarray(rng.standard_normal(r.shape), r.dtype) for r in results]

    def inner(*xs: jax.Array) -> Any:
        outputs = g(*xs)
        pairs = zip(outputs, seeds, strict=True)
        return sum(jnp.vdot(o, s) for o, s in pairs if jnp.issubdtype(o.dtype, jnp.floating))

    real = [i for i, x in enumerate(inputs) if jnp.issubdtype(x.dtype, jnp.floating)]
    found = jax.grad(inner, argnums=tuple(real))(*inputs)

    cotangents: dict[Any, Any] = {}

    def add(key: Any, value: Any) -> None:
        if value.dtype != jax.dtypes.float0:
            cotangents[key] = cotangents[key] + value if key in cotangents else value

    for e in g.output_edges:
        add((e.from_node_index, e.from_node_output_index), seeds[int(e.graph_output_index)])
    # A node comes after those that it feeds, once these are sorted out: repeated until all are.
    readers: dict[int, set[int]] = {index: set() for index in range(len(g.nodes))}
    for e in g.intermediate_edges:
        readers[int(e.from_node_index)].add(int(e.to_node_index))
    waiting = set(readers)
    while waiting:
        index = next(i for i in sorted(waiting) if not readers[i] & waiting)
        waiting.remove(index)
        node = g.nodes[index]
        if not isinstance(node, OperatorNode):
            continue
        outputs, pullback = jax.vjp(node.operator, *reads[index])
        leaves, structure = jax.tree.flatten(outputs)
        given_ = []
        for slot, leaf in enumerate(leaves):
            if jnp.issubdtype(leaf.dtype, jnp.floating):
                given_.append(cotangents.get((index, slot), jnp.zeros_like(leaf)))
            else:
                given_.append(np.zeros(leaf.shape, jax.dtypes.float0))
        back = pullback(jax.tree.unflatten(structure, given_))
        for e in g.intermediate_edges:
            if e.to_node_index == index:
                add((e.from_node_index, e.from_node_output_index), back[e.to_node_input_index])
        for e in g.input_edges:
            if e.to_node_index == index:
                add((-1, e.graph_input_index), back[e.to_node_input_index])
    moved = 0
    for index, gradient in zip(real, found, strict=True):
        right = cotangents[-1, index]
        moved += int(np.any(np.asarray(right) != 0))
        np.testing.assert_allclose(gradient, right, rtol=1e-3, atol=1e-4)
    assert moved > len(found) / 4


def chain(length: int) -> tuple[GraphBuilder, Expression]:
    """Each node reads the one before it and the input, so that edges are twice as many."""
    builder = GraphBuilder()
    x = y = builder.input_tensor("x", HALF)
    for index in range(length):
        pair = builder.apply(PAIR, x, y, name=f"pair {index}")
        y, _ = builder.apply(HALVES, pair)
    return builder, y


def steps(work: Callable[[], Any]) -> int:
    """Lines of graph.py that run: what every loop over nodes or edges is counted by."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.endswith("dml_jax/graph.py"):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_work_grows_as_the_graph_does():
    checked, traced, equations = {}, {}, {}
    for length in (25, 100, 400):
        builder, end = chain(length)
        checked[length] = steps(lambda b=builder, e=end: b.build(e))
        g = builder.build(end)
        assert len(g.nodes) == 2 * length
        traced[length] = steps(lambda g=g: jax.make_jaxpr(g)(KEPT))
        equations[length] = len(jax.make_jaxpr(g)(KEPT).eqns)
    for counted in (checked, traced, equations):
        few, some, many = counted.values()
        # A straight line through all three.
        assert (many - some) / 300 == pytest.approx((some - few) / 75, rel=0.02)


# The command line


def on_command_line(*words: Any) -> Result:
    return CliRunner().invoke(cli, [*map(str, words)])


def model(source: str = "graphs/g.json", **fields: Any) -> Json:
    def zeros(count: int) -> Json:
        return {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"valueCount": count, "value": 0},
        }

    return {
        "resources": {
            "photo": {"initialValuesDataType": "FLOAT32", "initialValues": X.ravel().tolist()},
            "sums": zeros(2),
            "half": zeros(4),
        },
        "dispatchables": {"all": {"type": "graph", "sourcePath": source, **fields}},
        "commands": [
            {
                "type": "dispatch",
                "dispatchable": "all",
                "bindings": {"x": "photo", "total": "sums", "rest": "half"},
            },
            {"type": "print", "resource": "sums"},
            {"type": "print", "resource": "half"},
            {"type": "writeFile", "resource": "half", "targetPath": "out/half.npy"},
        ],
    }


def written(folder: Path, value: Json) -> Path:
    graph().save(folder / "graphs" / "g.json")
    (folder / "model.json").write_text(json.dumps(value))
    return folder / "model.json"


def test_a_model_runs_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, model())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the model's folder comes first
    result = on_command_line("run", path)
    assert result.exit_code == 0, result.output
    total, rest = expected(X)
    for name, right in (("sums", total), ("half", rest)):
        values = ", ".join(f"{v:g}" for v in right.ravel())
        assert f"Resource '{name}': {values}" in result.output
    np.testing.assert_array_equal(np.load("out/half.npy"), rest.ravel())
    monkeypatch.chdir(tmp_path / "graphs")  # and then the current one
    (tmp_path / "elsewhere" / "model.json").write_text(json.dumps(model("g.json")))
    assert on_command_line("run", tmp_path / "elsewhere" / "model.json").exit_code == 0
    checked = on_command_line("run", path, "--check")
    assert "graph of 5 nodes" in checked.output
    assert "FLOAT32[2,4]" in checked.output


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (
            lambda m: m["dispatchables"]["all"].update(sourcePath="none.json"),
            "expected sourcePath 'none.json' to exist, in the folder ",
        ),
        (lambda m: m["dispatchables"]["all"].pop("sourcePath"), "expected sourcePath to be given"),
        (
            lambda m: m["dispatchables"]["all"].update(sourcePth=""),
            "sourcePth to be a known field (did you mean 'sourcePath'?)",
        ),
        (
            lambda m: m["dispatchables"]["all"].update(sourcePath="model.json"),
            "model.json': expected the file to hold a graph",
        ),
        (
            lambda m: m["commands"][0]["bindings"].update(y="sums"),
            "DML_GRAPH_DESC: expected bindings to name tensors of the operator",
        ),
        (lambda m: m["commands"][0]["bindings"].pop("x"), "DML_GRAPH_DESC: expected x to be bound"),
        (
            lambda m: m["commands"][0]["bindings"].update(x="sums"),
            "expected x to be bound to at least 32 bytes",
        ),
        (
            lambda m: m["commands"][0]["bindings"].update(rest="photo"),
            "to not overlap x",
        ),
    ],
)
def test_models_of_broken_graphs_are_refused(change: Callable, fragment: str, tmp_path: Path):
    value = model()
    change(value)
    result = on_command_line("run", written(tmp_path, value))
    assert result.exit_code == 1
    assert fragment in result.output
    assert "Dispatchable 'all': " in result.output


@pytest.mark.parametrize("kind", ["svg", "png"])
@pytest.mark.parametrize("file", ["model.json", "graphs/g.json"])
def test_show_draws(kind: str, file: str, tmp_path: Path):
    written(tmp_path, model())
    target = tmp_path / "out" / f"picture.{kind}"
    result = on_command_line("show", tmp_path / file, "-o", target)
    assert result.exit_code == 0, result.output
    assert "FLOAT32[2,4]" in result.output
    assert ("SPLIT" if file.endswith("g.json") else "graph of 5 nodes") in result.output
    assert 4_000 < target.stat().st_size < 400_000
    assert [p.name for p in target.parent.iterdir()] == [target.name]
    if kind == "svg":
        text = target.read_text()
        words = ("halves", "SPLIT", "kept", "constant", "total", "FLOAT32[2,1]")
        for word in words if file.endswith("g.json") else ("photo", "32 bytes", "all", "print"):
            assert f"<!-- {word} -->" in text
        on_command_line("show", tmp_path / file, "-o", target)
        assert target.read_text() == text
    else:
        assert target.read_bytes().startswith(b"\x89PNG")


def test_pictures_have_no_overlaps(mixed: tuple[Graph, dict[str, np.ndarray]]):
    assert_no_overlaps(mixed[0])


def assert_no_overlaps(g: Graph) -> None:
    from dml_jax.show.diagrams import _HEIGHT, _Layout, graph_picture

    layout = _Layout(graph_picture(g))
    assert len(layout.boxes) >= len(g.nodes)
    spans = sorted(
        (layout.y[v], layout.x[v] - w / 2, layout.x[v] + w / 2) for v, w in enumerate(layout.widths)
    )
    for (y0, _, right), (y1, left, _) in itertools.pairwise(spans):
        assert y1 - y0 > _HEIGHT or (y0 == y1 and right < left)
    for start, end, _ in layout.lines:
        assert layout.y[start] < layout.y[end]
    assert len(layout.labels) == len(layout.lines)
    for (x0, y0, w0), (x1, y1, w1) in itertools.combinations(layout.labels, 2):
        assert abs(x1 - x0) >= (w0 + w1) / 2 or abs(y1 - y0) >= 7.5  # the size of the font


def test_a_tall_picture_stands_in_columns():
    """A picture of 500 nodes, among them lines over many layers, is about as wide as high."""
    from dml_jax.show.diagrams import _HEIGHT, _Layout, graph_picture

    builder = GraphBuilder()
    x = y = builder.input_tensor("x", HALF)
    w = builder.input_tensor("w", HALF)
    for index in range(250):
        is_last = index % 50 == 49
        y = dml_jax.add(dml_jax.clip(y, 0, 1), x if is_last else w)
        x = y if is_last else x
    g = builder.build([y])
    assert len(g.nodes) == 500
    layout = _Layout(graph_picture(g, weights=["w"]))
    assert len(layout.boxes) == 502
    assert 0.7 < layout.width / layout.height < 2
    places = list(zip(layout.x, layout.y, layout.widths, strict=True))
    for (x0, y0, w0), (x1, y1, w1) in itertools.combinations(places, 2):
        assert abs(x1 - x0) >= (w0 + w1) / 2 or abs(y1 - y0) >= _HEIGHT
    numbers = sorted(number for _, _, number in layout.marks)
    assert numbers[::2] == numbers[1::2]
    assert len(numbers) > 4
    assert sum(is_end for _, is_end in layout.pieces) == len(layout.lines)
    points = [point for piece, _ in layout.pieces for point in piece]
    assert all(0 < x < layout.width and 0 < y < layout.height for x, y in points)


def test_show_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = written(tmp_path, model()).parent / "graphs" / "g.json"
    for words, status, fragment in (
        ((tmp_path / "none.json",), 1, "expected the model to be a readable JSON file"),
        ((path, "-o", tmp_path / "x.gif"), 2, "the picture's name to end in .svg or .png, got"),
        ((path, "-o", path / "x.png"), 1, "to be one that can be written"),
    ):
        result = on_command_line("show", *words)
        assert result.exit_code == status
        assert fragment in result.output
    for package in ("matplotlib", "networkx"):
        monkeypatch.setitem(sys.modules, package, None)
        result = on_command_line("show", path, "-o", tmp_path / "x.svg")
        assert result.exit_code == 1
        assert f"the package {package} to be installed to draw pictures" in result.output
        assert install_command("show") in result.output
        assert on_command_line("show", path).exit_code == 0
        monkeypatch.undo()


def test_names_are_drawn_as_they_are(tmp_path: Path):
    from dml_jax.show.diagrams import draw, graph_picture

    builder = GraphBuilder()
    x = builder.input_tensor("$x^2$", HALF)
    y = builder.apply(clip(HALF), x, name="a & <b>\n" + "long " * 30)
    draw(graph_picture(builder.build({"$": y})), tmp_path / "g.svg")
    text = (tmp_path / "g.svg").read_text()
    assert "<!-- $x^2$ -->" in text
    assert "<!-- a &amp; &lt;b&gt; long" in text


@pytest.mark.parametrize(
    "compute",
    [
        lambda y: jnp.ones(3) / y,
        lambda y: np.float32(2) * y,
        lambda y: y * np.ones(3),
        jnp.asarray,
        jnp.sin,
        jax.jit(lambda y: y),
        jax.vmap(lambda y: y),
        np.asarray,
        np.exp,
    ],
)
def test_only_operators_take_expressions(compute: Callable[..., Any]):
    y = GraphBuilder().input_tensor("x", HALF)
    with pytest.raises(DmlError, match=r"be passed to operators and .* jax\.jit compiles"):
        compute(y)


def test_a_cpu_computes_what_two_nodes_read_once():
    """The square is fused into each reader otherwise, where nothing stores it."""
    builder = GraphBuilder()
    x = builder.input_tensor("x", TensorDesc("FLOAT32", [1, 1, 64, 64]))
    square = functional.multiply(x, x)
    padded = functional.padding(square, "CONSTANT", 0.0, [0, 0, 1, 1], [0, 0, 1, 1])
    graph = builder.build({"padded": padded, "sum": functional.add(square, x)})
    one = jnp.ones((1, 1, 64, 64), jnp.float32)
    program = jax.jit(lambda x: graph.compute(x)).lower(one).compile().as_text()
    if jax.default_backend() == "cpu":
        assert str(program).count(" multiply(") == 1
    np.testing.assert_array_equal(graph(one)[1], one + 1)
    slope = jax.grad(lambda x: graph(x)[1].sum())(one)
    np.testing.assert_array_equal(slope, 3 * one)
