"""The wiring of graphs: bytes that edges carry, and edges that are refused."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_graphs import HALF, HALVES, KEPT, WIDE, Json, X, clip, parts, summed, tensor

from dml_jax import OPERATORS, DmlError, GraphBuilder, Operator, Split, TensorDesc, compile
from dml_jax.description.fields import Input, Output
from dml_jax.description.support import ALL_TYPES, rows
from dml_jax.graph import ConstantNode, Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from dml_jax.show.diagrams import graph_picture


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


def loose(cls: Any) -> Any:
    """A class, as one that type checkers do not know the fields of."""
    return cls


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


def beside(op: Operator) -> Callable[[Json], None]:
    """Adds an operator that reads the graph's input, too, to an output of its own."""
    return edit(
        nodes_new=OperatorNode(op, "other"),
        input_edges_new=In(0, "other", 0),
        output_edges_new=Out("other", 0, 2),
        output_count=3,
        output_names=None,
    )


OTHER = tensor(2, 2, type_="FLOAT16")
Edge, In, Out = IntermediateEdge, InputEdge, OutputEdge
BROKEN: dict[str, tuple[Any, ...]] = {  # the change, and what is said
    "empty": (
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
        "NodeCount to be at least 1, got 0",
        "OutputCount to be at least 1, got 0",
    ),
    "no output": (
        edit(output_count=0, output_names=None, output_edges=[]),
        "OutputCount to be at least 1, got 0",
        *(f"Nodes[{i}] to lead to a graph output (node {i} " for i in range(5)),
    ),
    "not a node": (
        edit(nodes_1=3),
        "Nodes[1] to be an OperatorNode, a ConstantNode or a FunctionNode, got 3",
    ),
    "a wrong edge": (edit(input_edges=[Out(0, 0, 0)]), "InputEdges[0] to be an InputEdge, as"),
    "edges that are no list": (edit(output_edges=7), "OutputEdges to be a list, got 7"),
    "no such node": (
        edit(intermediate_edges_0=Edge(0, 0, 9, 0)),
        "IntermediateEdges[0].ToNodeIndex to be in [0, 4] (nodes), got 9",
    ),
    "no such node's name": (
        edit(intermediate_edges_0=Edge("halvs", 0, "low", 0)),
        "IntermediateEdges[0].FromNodeIndex to be a node's name (did you mean 'halves'?)",
    ),
    "no such input of a node": (
        edit(intermediate_edges_2=Edge(2, 0, 3, 4)),
        "IntermediateEdges[2].ToNodeInputIndex to be in [0, 1] (inputs of node 3 'pair'), got 4",
    ),
    "no such output of a node": (
        edit(output_edges_1=Out(0, 2, 1)),
        "OutputEdges[1].FromNodeOutputIndex to be in [0, 1] (outputs of node 0 'halves'), got 2",
    ),
    "into a constant": (
        edit(intermediate_edges_new=Edge(0, 1, 2, 0)),
        "IntermediateEdges[4].ToNodeInputIndex to be one of the inputs of node 2 'kept' (it has",
    ),
    "no such graph input": (
        edit(input_edges_0=In(1, 0, 0)),
        "InputEdges[0].GraphInputIndex to be in [0, 0] (graph inputs), got 1",
    ),
    "no such graph input's name": (
        edit(input_edges_0=In("y", 0, 0)),
        "InputEdges[0].GraphInputIndex to be a graph input's name, got 'y'",
    ),
    "no such graph output": (
        edit(output_edges_1=Out(0, 1, 2)),
        "OutputEdges[1].GraphOutputIndex to be in [0, 1] (graph outputs), got 2",
    ),
    "an input that nothing feeds": (
        edit(
            intermediate_edges_3=None,
            output_edges_0=Out(3, 0, 0),
            output_edges_new=Out(4, 0, 2),
            output_count=3,
            output_names=None,
        ),
        "Nodes[4].InputTensor to be fed by an edge (node 4 'sum'), got nothing",
    ),
    "an input that two edges feed": (
        edit(intermediate_edges_new=Edge(0, 1, 3, 0)),
        "IntermediateEdges[4] to feed an input that no other edge feeds, as "
        "IntermediateEdges[1] does, got InputTensors[0] of node 3 'pair'",
    ),
    "an input that a graph input feeds too": (
        edit(input_edges_new=In(0, 4, 0)),
        "IntermediateEdges[3] to feed an input that no other edge feeds, as InputEdges[1] does",
    ),
    "an unused graph input": (
        edit(input_count=2, input_names=["x", "y"]),
        "InputNames[1] to be read by an edge (graph input 1 'y'), got nothing",
    ),
    "far too many graph inputs": (
        edit(input_count=2**32 - 1, input_names=None),
        "InputNames[1] to be read by an edge (graph input 1 'Input1'), got nothing",
    ),
    "an output that nothing feeds": (
        edit(output_edges_1=None),
        "OutputNames[1] to be fed by an edge (graph output 1 'rest'), got nothing",
    ),
    "an output that two edges feed": (
        edit(output_edges_new=Out(3, 0, 0)),
        "OutputEdges[2] to feed a graph output that no other edge feeds, as OutputEdges[0] does",
    ),
    "a dimension that data decides, without a count": (
        edit(output_edges_1=Out(0, 1, 1, padded_axis=0)),
        "OutputEdges[1].CountName to be given, as PaddedAxis is, got nothing",
    ),
    "a dimension and a count that are not there": (
        edit(output_edges_1=Out(0, 1, 1, padded_axis=2, count_name="totals")),
        "OutputEdges[1].PaddedAxis to be in [0, 1] (dimensions), got 2",
        "OutputEdges[1].CountName to be a graph output's name (did you mean 'total'?)",
    ),
    "types that differ": (
        edit(nodes_1=OperatorNode(clip(OTHER), "low")),
        "IntermediateEdges[0] to carry FLOAT32[2,2] (OutputTensors[0] of node 0 'halves'), "
        "got FLOAT16[2,2] (InputTensor of node 1 'low')",
        "IntermediateEdges[1] to carry FLOAT16[2,2] (OutputTensor of node 1 'low'), "
        "got FLOAT32[2,2] (InputTensors[0] of node 3 'pair')",
    ),
    "sizes that differ": (
        edit(nodes_4=OperatorNode(summed(tensor(2, 5)), "sum")),
        "IntermediateEdges[3] to carry FLOAT32[2,4] (OutputTensor of node 3 'pair'), "
        "got FLOAT32[2,5] (InputTensor of node 4 'sum')",
    ),
    "a constant of other sizes": (
        edit(nodes_2=ConstantNode(KEPT[:1])),
        "IntermediateEdges[2] to carry FLOAT32[1,2] (Array of node 2), got FLOAT32[2,2]",
    ),
    "one graph input of two types": (
        beside(clip(OTHER)),
        "InputEdges[1] to carry FLOAT32[2,4] (as InputEdges[0] does, from graph input 0), "
        "got FLOAT16[2,2] (InputTensor of node 5 'other')",
    ),
    "one graph input of two layouts": (
        beside(clip(tensor(2, 4, strides=[8, 1]))),
        "InputEdges[1] to read graph input 0 with strides [4, 1], as InputEdges[0] does, "
        "got [8, 1]",
    ),
    "one graph input owned and not": (
        beside(clip(owned(WIDE), to=WIDE)),
        "InputEdges[1] to have flags NONE, as InputEdges[0] has, got OWNED_BY_DML",
    ),
    "an owned tensor inside": (
        edit(nodes_1=OperatorNode(clip(owned(HALF), to=HALF), "low")),
        "IntermediateEdges[0] to lead to a tensor that is not OWNED_BY_DML, which only a graph "
        "input may feed, got InputTensor of node 1 'low'",
    ),
    "a cycle": (
        edit(
            intermediate_edges_0=Edge(5, 0, 1, 0),
            intermediate_edges_new=Edge(3, 0, 5, 0),
            nodes_new=OperatorNode(Split(input_tensor=WIDE, output_tensors=[HALF, HALF], axis=1)),
        ),
        "IntermediateEdges to make no cycle, got node 1 'low' -> node 3 'pair' -> node 5 -> "
        "node 1 'low'",
    ),
    "a node that feeds itself": (
        edit(intermediate_edges_0=Edge(1, 0, 1, 0)),
        "IntermediateEdges to make no cycle, got node 1 'low' -> node 1 'low'",
    ),
    "a node of no effect": (
        edit(nodes_new=OperatorNode(clip(HALF), "lost"), intermediate_edges_new=Edge(0, 1, 5, 0)),
        "Nodes[5] to lead to a graph output (node 5 'lost'), got an operator of no effect",
    ),
    "a constant that nothing reads": (
        edit(nodes_new=ConstantNode(KEPT)),
        "Nodes[5] to lead to a graph output (node 5), got a constant of no effect",
    ),
    "a name twice": (
        edit(nodes_4=OperatorNode(summed(WIDE), "low")),
        "Nodes[4].Name to differ from Nodes[1].Name, got 'low'",
    ),
    "a graph output's name twice": (
        edit(output_names=["total", "total"]),
        "OutputNames[1] to differ from OutputNames[0], got 'total'",
    ),
    "an input named as an output": (
        edit(output_names=["total", "x"]),
        "OutputNames to differ from InputNames, got 'x'",
    ),
    "too few names": (
        edit(output_names=["total"]),
        "OutputNames to have 2 elements (OutputCount), got ['total']",
    ),
    "an empty name": (edit(input_names=[""]), "InputNames[0] to be a name, got ''"),
    "much at once": (
        edit(
            input_edges_0=In(0, 7, 0),
            output_edges_0=Out("sums", 0, 0),
            intermediate_edges_0=Edge(2, 0, 1, 0),
            nodes_4=OperatorNode(summed(HALF), "sum"),
        ),
        "InputEdges[0].ToNodeIndex to be in [0, 4] (nodes), got 7",
        "OutputEdges[0].FromNodeIndex to be a node's name (did you mean 'sum'?), got 'sums'",
        "IntermediateEdges[3] to carry FLOAT32[2,4] (OutputTensor of node 3 'pair'), "
        "got FLOAT32[2,2] (InputTensor of node 4 'sum')",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_graphs_are_refused_by_name(name: str):
    broken, (change, *fragments) = parts(), BROKEN[name]
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
    with pytest.raises(TypeError, match="InputEdge takes 6 fields, got 7 values"):
        loose(InputEdge)(*(0,) * 7)


def test_names_of_inputs_and_outputs_are_refused_in_order():
    builder, names = GraphBuilder(), [f"tensor {index}" for index in range(9)]
    inputs = [builder.input_tensor(name, TensorDesc("FLOAT32", [2, 2])) for name in names]
    with pytest.raises(DmlError) as refused:
        builder.build({name: -x for name, x in zip(names, inputs, strict=True)})
    assert [fault.value for fault in refused.value.faults] == names
