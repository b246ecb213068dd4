"""Graphs in JSON and in files."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from sample_graphs import KEPT, Json, X, graph

from dml_jax import DmlError, fill_value_constant
from dml_jax.graph import ConstantNode, Graph, GraphBuilder


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
    builder = GraphBuilder()
    g = builder.build([builder.constant(array, "c"), builder.constant(array[::-1])])
    g.save(tmp_path / "g.json")
    for twin in (Graph.load(tmp_path / "g.json"), Graph.from_json(g.to_json())):
        assert twin == g
        for node, original in zip(twin.nodes, (array, array[::-1]), strict=True):
            assert isinstance(node, ConstantNode)
            assert node.array.dtype == dtype
            assert node.array.tobytes() == original.tobytes()


# What changes a file's value `v` in folder `p`, or is its text; and what is said.
FILES: dict[str, tuple[Callable[[Path, Json], Any] | bytes, str]] = {
    "not JSON": (b'{"Nodes": [', "expected the text to be JSON, got Expecting value: l"),
    "not UTF-8": (b'{"\xff": 1}', "the text to be UTF-8, got byte 2: invalid"),
    "deep": (b"[" * 10**5, "expected the nesting to be less than 1000 deep"),
    "a list": (b"[1]", "DML_GRAPH_DESC: expected value to be an object, got [1]"),
    "twice": (b'{"a": 1, "a": 2}', "expected each key of an object to stand once"),
    "unknown": (
        lambda p, v: v.update(Node=[]),
        "a field of DML_GRAPH_DESC (did you mean 'Nodes'?)",
    ),
    "missing": (lambda p, v: v.pop("OutputEdges"), "expected OutputEdges to be given, got nothing"),
    "count": (
        lambda p, v: v.update(NodeCount=4),
        "expected NodeCount to be 5 (the elements of Nod",
    ),
    "unknown in an edge": (
        lambda p, v: v["InputEdges"][0].update(ToNode=1),
        "InputEdges[0].ToNode to be a field of DML_INPUT_GRAPH_EDGE_DESC (did you mean 'ToNodeInd",
    ),
    "unknown in an operator": (
        lambda p, v: v["Nodes"][1]["Operator"]["Desc"].update(Mim=1),
        "Nodes[1].Operator.Mim to be a field of DML_OPERATOR_ELEMENT_WISE_CLIP (did you mean 'Min",
    ),
    "no such operator": (
        lambda p, v: v["Nodes"][0]["Operator"].update(Type="SPLAT"),
        "expected Nodes[0].Operator.type to be an operator of DirectML",
    ),
    "unknown in a constant": (
        lambda p, v: v["Nodes"][2]["Array"].update(Sourcepath="x"),
        "Nodes[2].Array.Sourcepath to be a field of a constant (did you mean 'SourcePath'?)",
    ),
    "no data": (
        lambda p, v: v["Nodes"][2]["Array"].pop("SourcePath"),
        "Nodes[2].Array.Data to be given as a string, or else SourcePath, got nothing",
    ),
    "both data": (
        lambda p, v: v["Nodes"][2]["Array"].update(Data="AAAA"),
        "Nodes[2].Array.Data to be given as a string, or else SourcePath, got 'AAAA'",
    ),
    "broken data": (
        lambda p, v: v["Nodes"][2].update(Array={"DataType": "INT8", "Sizes": [9], "Data": "AAAA"}),
        "Nodes[2].Array.Data to be the bytes of INT8[9], in base64, got 'AAAA'",
    ),
    "foreign characters": (
        lambda p, v: v["Nodes"][2].update(
            Array={"DataType": "INT8", "Sizes": [3], "Data": "!AA\nAA"}
        ),
        "Nodes[2].Array.Data to be the bytes of INT8[3], in base64, got",
    ),
    "other sizes": (
        lambda p, v: v["Nodes"][2]["Array"].update(Sizes=[4]),
        "to hold FLOAT32[4], got float32[2,2]",
    ),
    "no constant": (lambda p, v: (p / "g.2.npy").unlink(), "to be a .npy file, got No such file"),
    "pickled constant": (
        lambda p, v: np.save(p / "g.2.npy", np.array([{}], object)),
        "to be a .npy file, got ",
    ),
    "short constant": (
        lambda p, v: (p / "g.2.npy").write_bytes((p / "g.2.npy").read_bytes()[:-1]),
        "to be a .npy file, got ",
    ),
    "a cycle": (lambda p, v: v["IntermediateEdges"][0].update(FromNodeIndex=1), "make no cycle"),
}


@pytest.mark.parametrize("name", FILES)
def test_broken_files_are_refused_by_name(name: str, tmp_path: Path):
    change, fragment = FILES[name]
    path = tmp_path / "g.json"
    graph().save(path)
    if isinstance(change, bytes):
        path.write_bytes(change)
    else:
        value = json.loads(path.read_text())
        change(tmp_path, value)
        path.write_text(json.dumps(value))
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


def test_a_nan_of_any_bits_is_equal_to_what_json_keeps():
    wide = np.array([0x7FF8000000000001, -0x8000000000000], np.int64).view(np.float64)
    for value in wide.tolist():
        builder = GraphBuilder()
        g = builder.build([fill_value_constant([2], "FLOAT64", value, graph=builder)])
        assert Graph.from_json(json.loads(json.dumps(g.to_json()))) == g
