"""Random graphs of all operators: node by node, saved, printed, drawn, differentiated."""

import functools
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
from forms import compiled_soon
from nightly import sample
from sample_graphs import HALF, HALVES, KEPT, PAIR, assert_no_overlaps

from dml_jax import OPERATORS, Operator, TensorDesc
from dml_jax.graph import ConstantNode, Expression, Graph, GraphBuilder, OperatorNode
from dml_jax.show.diagrams import graph_picture
from dml_jax.show.source import program

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


def node_by_node(g: Graph, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs, each node computed by itself once what it reads is there."""
    known: dict[Any, Any] = {}
    for e in g.input_edges:
        known[e.to_node_index, e.to_node_input_index] = inputs[int(e.graph_input_index)]
    sources = {
        (e.to_node_index, e.to_node_input_index): (e.from_node_index, e.from_node_output_index)
        for e in g.intermediate_edges
    }

    @functools.cache
    def results(index: Any) -> dict[Any, Any]:
        node = g.nodes[index]
        if isinstance(node, ConstantNode):
            return {0: jnp.asarray(node.array)}
        assert isinstance(node, OperatorNode)
        places = sorted(place for place in (*known, *sources) if place[0] == index)
        arrays = [known[p] if p in known else result(*sources[p]) for p in places]
        slots = [slot for slot, (_, t) in enumerate(node.slots(output=True)) if t is not None]
        return dict(zip(slots, jax.tree.leaves(node.operator(*arrays)), strict=True))

    def result(index: Any, slot: Any) -> Any:
        return results(index)[slot]

    ends = sorted(g.output_edges, key=lambda e: int(e.graph_output_index))
    return [result(e.from_node_index, e.from_node_output_index) for e in ends]


def test_a_large_graph_round_trips(mixed: tuple[Graph, dict[str, np.ndarray]]):
    g, arrays = mixed
    used = [node.operator.short_name for node in g.nodes if isinstance(node, OperatorNode)]
    assert sorted(used) == sorted(NAMES)
    shapes = jax.eval_shape(g, *arrays.values())
    assert [s.shape for s in jax.tree.leaves(shapes)] == [t.sizes for t in g.outputs]
    assert Graph.from_json(g.to_json()) == pickle.loads(pickle.dumps(g)) == g
    columns = assert_no_overlaps(graph_picture(g))
    assert sum(box is not None for column in columns for box in column.boxes) > len(g.nodes)


@pytest.mark.parametrize("start", sample(range(0, len(NAMES), NODES)))
def test_small_graphs_are_their_nodes(start: int, tmp_path: Path):
    """Each operator is in one graph, which is saved, written as a program and drawn too."""
    g, arrays = grow(start, SHUFFLED[start : start + NODES])
    right = node_by_node(g, list(arrays.values()))
    for result, array in zip(
        jax.tree.leaves(compiled_soon(g)(*arrays.values())), right, strict=True
    ):
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        tolerance = {"float16": 2e-2, "float32": 1e-4}.get(array.dtype.name, 0)
        np.testing.assert_allclose(result, array, rtol=tolerance, atol=tolerance)
    g.save(tmp_path / "g.json")
    assert Graph.load(tmp_path / "g.json") == g
    made: dict[str, Any] = {}
    exec(program(g), made)
    assert made["graph"] == g
    assert_no_overlaps(graph_picture(g))


def test_gradients_are_those_of_the_nodes():
    """By the chain rule, from node to node."""
    smooth = ["TILE", "REDUCE", "JOIN", "SPLIT", "ELEMENT_WISE_SQRT", "ELEMENT_WISE_MULTIPLY"]
    g, arrays = grow(2, [*smooth, "ELEMENT_WISE_CLIP", "ELEMENT_WISE_ADD"])
    inputs, rng = list(map(jnp.asarray, arrays.values())), np.random.default_rng(0)
    seeds = [jnp.asarray(rng.standard_normal(t.sizes), t.dtype) for t in g.outputs]

    def total(outputs: Sequence[Any]) -> Any:
        pairs = zip(outputs, seeds, strict=True)
        return sum(jnp.vdot(o, s) for o, s in pairs if jnp.issubdtype(o.dtype, jnp.floating))

    real = tuple(i for i, x in enumerate(inputs) if jnp.issubdtype(x.dtype, jnp.floating))
    found = jax.grad(lambda *xs: total(g(*xs)), real)(*inputs)
    expected = jax.grad(lambda *xs: total(node_by_node(g, xs)), real)(*inputs)
    for gradient, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient, right, rtol=1e-3, atol=1e-4)
    assert sum(np.asarray(right).any() for right in expected) > len(found) / 4


def chain(length: int) -> tuple[GraphBuilder, Expression]:
    """Each node reads the one before it and the input, so that edges are twice as many."""
    builder = GraphBuilder()
    x = y = builder.input_tensor("x", HALF)
    for index in range(length):
        pair = builder.apply(PAIR, x, y, name=f"pair {index}")
        y, _ = builder.apply(HALVES, pair)
    return builder, y


def steps(work: Callable[[], Any]) -> int:
    """Lines of the room of graphs that run: what every loop over nodes or edges is counted by."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.rpartition("/")[0].endswith("dml_jax/graph"):
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
