"""Files that are small to send and large to read: refused soon, in little memory, by one error."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from build import command
from nightly import NIGHTLY
from onnx import helper, parser
from processes import GB, linux, within

from dml_jax import DmlError, Graph, load_model, load_onnx
from dml_jax.onnx.files.topology import needed
from dml_jax.onnx.translate import translation
from dml_jax.system import free_memory

MILLION = 10**6


@pytest.fixture
def limits() -> Iterator[None]:
    """Expect a test to take less than 30 s of processor time, and less than 3 GB."""
    with within(30, 3 * GB):
        yield


def chain(count: int) -> bytes:
    """Return a network of so many RELUs, one behind the other, field by field."""

    def text(tag: bytes, value: str) -> bytes:
        return tag + bytes([len(value)]) + value.encode()

    def named(tag: bytes, name: str) -> bytes:
        kind = b"\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02"  # FLOAT [2]
        own = text(b"\x0a", name) + kind
        return tag + bytes([len(own)]) + own

    parts = []
    for k in range(count):
        own = text(b"\x0a", f"t{k}") + text(b"\x12", f"t{k + 1}") + b"\x22\x04Relu"
        parts.append(b"\x0a" + bytes([len(own)]) + own)
    graph = b"".join([*parts, b"\x12\x01g", named(b"\x5a", "t0"), named(b"\x62", f"t{count}")])
    model = onnx.ModelProto(ir_version=8)
    model.opset_import.add(version=18)
    model.graph.ParseFromString(graph)
    return model.SerializeToString()


def test_the_chain_is_a_network():
    assert load_onnx(chain(3)).report()


@linux
def test_a_network_of_a_million_nodes(limits: None):
    data = chain(MILLION)
    with pytest.raises(DmlError, match="expected the number of nodes to be at most 100000"):
        load_onnx(data)


def test_a_node_that_reads_all_nodes_behind_it():
    """Nodes may stand in any order: each is looked at once, also below one with many inputs."""
    count = 30_000
    names = [f"t{k}" for k in range(count)]
    nodes = [helper.make_node("Sum", names, ["y"])]
    nodes += [helper.make_node("Neg", ["x"], [name]) for name in names]
    with within(5):
        assert len(needed(nodes, ["y"])) == count + 1


@linux
def test_functions_that_call_others_twice(limits: None, monkeypatch: pytest.MonkeyPatch):
    """40 functions, of 2^40 nodes when they are written out."""
    most = translation.PARTS_MAX if NIGHTLY else 10_000
    monkeypatch.setattr(translation, "PARTS_MAX", most)
    functions = "".join(
        f"""<domain: "own", opset_import: ["": 18, "own": 1]>
        f{k} (a) => (b) {{ c = own.f{k + 1} (a)  b = own.f{k + 1} (c) }}\n"""
        for k in range(40)
    )
    text = f"""<ir_version: 8, opset_import: ["": 18, "own": 1]>
    g (float[2] x) => (float[2] y) {{ y = own.f0 (x) }}
    {functions}
    <domain: "own", opset_import: ["": 18]> f40 (a) => (b) {{ b = Relu (a) }}"""
    with pytest.raises(DmlError) as refused:
        load_onnx(parser.parse_model(text))
    assert f"the number of nodes to be at most {most}" in str(refused.value)
    assert len(str(refused.value)) < 20_000


@linux
@pytest.mark.parametrize("part", ["resources", "dispatchables", "commands"][0 if NIGHTLY else 2 :])
def test_a_model_of_a_million_parts(part: str, tmp_path: Path, limits: None):
    model: dict[str, Any] = {"resources": {}, "dispatchables": {}, "commands": []}
    model[part] = [{}] * MILLION if part == "commands" else {f"r{k}": {} for k in range(MILLION)}
    (tmp_path / "m.json").write_text(json.dumps(model))
    with pytest.raises(DmlError, match=f"the number of {part} to be at most 100000, got 1000000"):
        load_model(tmp_path / "m.json")


@linux
def test_a_graph_of_a_million_nodes(limits: None):
    with pytest.raises(DmlError, match="the number of Nodes to be at most 100000, got 1000000"):
        Graph.from_json({"Nodes": [{}] * MILLION})


@linux
def test_weights_that_are_small_only_when_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: None
):
    """A .npz is a .zip file."""
    monkeypatch.setattr(free_memory, "host_bytes", lambda: 10**8)
    (tmp_path / "n.onnx").write_bytes(chain(1))
    with zipfile.ZipFile(tmp_path / "w.npz", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("w.npy", bytes(2 * 10**8))
    assert (tmp_path / "w.npz").stat().st_size < 10**6
    arguments = ["save", "n.onnx", "--weights", "w.npz", "-o", "o.onnx"]
    monkeypatch.chdir(tmp_path)
    done = command(*arguments, status=1)
    assert "200000000 bytes, of which 100000000 are free" in done.stderr
    assert not (tmp_path / "o.onnx").exists()
