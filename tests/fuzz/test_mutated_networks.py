"""Networks and graphs that are nearly right: loaded, or refused soon and in little memory."""

import contextlib
import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from build import command, parse, refusal, saved
from fuzz import fuzz_networks as fuzz
from fuzz.fuzz_files import FORMATS
from fuzz.models import check, model_of_networks, write_files
from fuzz.mutations import mutated
from onnx import TensorProto, helper
from processes import GB, linux, within

from dml_jax import DmlError, load_model, load_onnx
from dml_jax.onnx import free_sizes
from dml_jax.onnxruntime import InferenceSession
from dml_jax.onnxruntime.errors import OnnxRuntimeError
from dml_jax.system import free_memory

FOUND = sorted((Path(__file__).parents[1] / "fuzz/found_networks").glob("*"))


@linux
@pytest.mark.parametrize(
    ("name", "count", "seconds"),
    [
        *(("networks", 300, 1), ("graphs", 1000, 1), ("npy", 200, 1), ("pictures", 200, 1)),
        *(("external", 100, 10), ("adapters", 100, 10), ("exports", 6, 10)),
    ],
)
def test_mutated_files_are_taken_or_refused(name: str, count: int, seconds: int, tmp_path: Path):
    """Files of one format; exports and adapters are folders, and compile programs."""
    kind, rng = FORMATS[name], random.Random(11)
    texts = [*kind.seeds().values()]
    with within(math.inf, GB // 2 if seconds == 1 else math.inf):
        for _ in range(count):
            with within(seconds), contextlib.suppress(DmlError):
                kind.check(kind.mutate(rng.choice(texts), rng), tmp_path)


def test_mutated_models_of_networks_are_taken_or_refused(tmp_path: Path):
    """Models of DxDispatch that dispatch a network twice, and a serialized graph."""
    write_files(tmp_path)
    model = model_of_networks()
    path, text, rng = tmp_path / "model.json", json.dumps(model).encode(), random.Random(3)
    path.write_bytes(text)
    assert len(load_model(path).dispatches) == 3
    for _ in range(300):
        path.write_bytes(mutated(text, rng))
        check(path, tmp_path)


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_what_the_fuzzer_found(case: Path):
    data = case.read_bytes()
    for fallback in (False, True):
        fuzz.check_model(data, is_traced=True, fallback=fallback)
    fuzz.check_session(data, is_run=b"Loop" not in data)


def folded(body: str, initializers: str) -> bytes:
    """Return a network one of whose nodes is known at load, and huge."""
    return parse(
        f"""g (float[2] x) => (float[2] y) <{initializers}>
        {{ {body}  n = ReduceMax <keepdims = 0> (h)  f = Cast <to = 1> (n)  y = Mul (x, f) }}"""
    ).SerializeToString()


def claiming(dims: list[int], data_type: int = TensorProto.FLOAT) -> bytes:
    """Return a network with an initializer that claims more elements than it has."""
    model = parse("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul (x, w) }")
    weight = model.graph.initializer[0]
    del weight.dims[:], weight.float_data[:]
    weight.dims.extend(dims)
    weight.data_type, weight.raw_data = data_type, bytes(8)
    return model.SerializeToString()


def sparse(dims: list[int], places: int = TensorProto.INT64) -> bytes:
    """Return a network with a sparse initializer of two elements."""
    model = parse(
        "g (float[2] x) => (float[2] y) { s = ReduceSum <keepdims = 0> (w)  y = Mul (x, s) }"
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    at = helper.make_tensor("", places, [2], [0, 1])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, at, dims))
    return model.SerializeToString()


def nested(depth: int) -> bytes:
    """Return branches within branches."""
    line = "y = Relu (x)"
    for _ in range(depth):
        line = f"""y = If (x) <then_branch = b () => (float y) {{ {line} }},
            else_branch = c () => (float y) {{ y = Neg (x) }}>"""
    return parse(f"g (float[2] x) => (float[2] y) {{ {line} }}").SerializeToString()


def calling() -> bytes:
    """Return a function that calls itself twice."""
    return parse(
        """<ir_version: 8, opset_import: ["": 18, "own": 1]>
        g (float[2] x) => (float[2] y) { y = own.f (x) }
        <domain: "own", opset_import: ["": 18, "own": 1]>
        f (a) => (b) { c = own.f (a)  b = own.f (c) }"""
    ).SerializeToString()


def external(key: str, value: str) -> bytes:
    model = onnx.ModelProto.FromString(claiming([2]))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for name, text in {"location": "w.bin", key: value}.items():
        weight.external_data.add(key=name, value=text)
    return model.SerializeToString()


MANY, MOST = 2**20, 2**40


HUGE: dict[str, Callable[[], bytes]] = {
    "constant": lambda: folded("h = ConstantOfShape (s)", f"int64[2] s = {{{MANY}, {MANY}}}"),
    "range": lambda: folded(
        "h = Range (a, b, c)", f"int64 a = {{0}}, int64 b = {{{MOST}}}, int64 c = {{1}}"
    ),
    "expand": lambda: folded(
        "h = Expand (a, s)", f"int64[1] a = {{0}}, int64[2] s = {{{MANY}, {MANY}}}"
    ),
    "tile": lambda: folded("h = Tile (a, s)", f"int64[1] a = {{0}}, int64[1] s = {{{MOST}}}"),
    "pad": lambda: folded("h = Pad (a, s)", f"int64[1] a = {{0}}, int64[2] s = {{0, {MOST}}}"),
    "one-hot": lambda: folded(
        "h = OneHot (a, d, v)", f"int64[1] a = {{0}}, int64 d = {{{MOST}}}, int64[2] v = {{0, 1}}"
    ),
    "sparse": lambda: sparse([1 << 40]),
    "sparse product": lambda: sparse([1 << 32, 1 << 32]),
    "sparse negative": lambda: sparse([-1, 4]),
    "sparse places": lambda: sparse([4], TensorProto.FLOAT),
    "claims": lambda: claiming([1 << 40]),
    "product": lambda: claiming([1 << 32, 1 << 32]),
    "strings": lambda: claiming([2], TensorProto.STRING),
    "type": lambda: claiming([2], 77),
    "calls": calling,
    "offset": lambda: external("offset", str(1 << 50)),
    "length": lambda: external("length", str(1 << 50)),
    "no number": lambda: external("length", "many"),
    "outside": lambda: external("location", "../w.bin"),
    "device": lambda: external("location", "/dev/zero"),
}


@pytest.mark.parametrize(
    "line",
    [
        "LpPool <kernel_shape = [2000, 2000], pads = [1000, 1000, 1000, 1000]> (a)",
        "RoiAlign <output_height = 2, output_width = 2> (a, boxes, b)",
    ],
)
def test_constants_of_many_steps_are_not_computed_at_load(line: str):
    """ONNX's code takes these one after the other: it would take minutes."""
    text = f"""g (float[2] x) => (float y)
        <float[1, 1, 2, 2] a = {{1, 2, 3, 4}}, int64[1] b = {{0}},
         float[1, 4] boxes = {{0, 0, 1000000, 1000000}}>
        {{ p = {line}  s = Cast <to = 7> (p)  f = Reshape (s, b)  y = Expand (x, f) }}"""
    with within(10):
        assert re.search(r"Node 'p' .* at most 1048576 steps", refusal(parse(text, opset=16)))


@linux
@pytest.mark.parametrize("case", HUGE)
def test_what_claims_much_is_refused_soon(case: str, tmp_path: Path):
    path = tmp_path / "n.onnx"
    path.write_bytes(HUGE[case]())
    np.zeros(2, np.float32).tofile(tmp_path / "w.bin")
    with within(2, GB // 4), pytest.raises(DmlError) as error:
        load_onnx(path, *free_sizes(path, {}))
    assert len(str(error.value)) < 2000


def test_branches_within_branches_end_soon():
    data = nested(30)
    with within(5), contextlib.suppress(DmlError):
        load_onnx(data)


@linux
def test_a_network_that_does_not_fit_is_refused_before_memory_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = saved("g (float[N] x) => (float[N] y) { y = Relu (x) }", tmp_path)
    monkeypatch.setattr(free_memory, "host_bytes", lambda: GB)
    with within(math.inf, GB // 4):
        (line,) = command("run", path, "-f", "N:400000000", status=1).stderr.splitlines()
    assert "n.onnx: x FLOAT32[400000000]" in line and "its size to fit" in line


def test_numbers_of_any_kind_are_no_sizes():
    data: Any = fuzz.models()["bytes"]
    for shapes in ({"x": (2,)}, {"x": (-1, 4)}, {"z": (1,)}, {"x": (1 << 40, 4)}):
        with pytest.raises(DmlError):
            load_onnx(data, shapes)


def changed(body: str, change: Callable[[Any], Any], inputs: str = "float[2] x", **weights: Any):
    """Return the bytes of a model of a line of nodes, whose graph is changed."""
    model = parse(f"g ({inputs}) => (float[2] y) {{ {body} }}", **weights)
    change(model.graph)
    return model.SerializeToString()


def as_it_is(graph: Any) -> None:
    """Change nothing."""


TABLE = np.ones((3, 2), np.float32)


NEGATIVE = onnx.TensorProto(name="w", data_type=1, dims=[-5], raw_data=bytes(8))


TERMS = "+".join(["a"] * 5000)


BROKEN: dict[str, Callable[[], bytes]] = {
    "a circle below a table": lambda: changed(
        "a = Relu(x) b = Identity(i) i = Identity(b) y = Gather(t, i)", as_it_is, t=TABLE
    ),
    "a table without indices": lambda: changed(
        "y = Gather(x, x)", lambda graph: graph.node[0].input.pop()
    ),
    "an axis before the first": lambda: changed(
        "y = Gather <axis = -9> (t, i)", as_it_is, "int64[2] i", t=TABLE
    ),
    "a type that is none": lambda: changed(
        "y = Relu(x)", lambda graph: setattr(graph.input[0].type.tensor_type, "elem_type", 99)
    ),
    "a branch without a condition": lambda: changed(
        "y = If (x) <then_branch = a () => (float p) {p = Neg(x)}>",
        lambda graph: graph.node[0].input.pop(),
    ),
    "a size of many terms": lambda: changed(
        "y = Relu(x)",
        lambda graph: setattr(graph.input[0].type.tensor_type.shape.dim[0], "dim_param", TERMS),
    ),
    "two nodes of one output": lambda: changed("a = Relu(x) a = Neg(x) y = Identity(a)", as_it_is),
    "an output of an input's name": lambda: changed("x = Relu(x) y = Identity(x)", as_it_is),
    "a negative size": lambda: changed(
        "y = Add(x, w)", lambda graph: graph.initializer.append(NEGATIVE)
    ),
    "a range of steps of 0": lambda: changed(
        "r = Range(a, a, a) s = Cast <to = 1> (r) y = Concat <axis = 0> (x, s)",
        as_it_is,
        a=np.zeros((), np.int64),
    ),
    "a place that is no text": lambda: external("location", "w.bin?").replace(
        b"w.bin?", b"w.bin\xff"
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graphs_are_refused_as_networks_and_as_sessions(case: str):
    data = BROKEN[case]()
    fuzz.check_model(data, is_traced=True)
    fuzz.check_session(data, is_run=True)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("a negative size", "the sizes of 'w' to be 0 or more, got [-5]"),
        ("a range of steps of 0", "delta to be other than 0, got 0"),
    ],
)
def test_what_numpy_would_take_is_refused(case: str, message: str):
    assert message in refusal(onnx.ModelProto.FromString(BROKEN[case]()))


@pytest.mark.parametrize("case", [name for name in BROKEN if "output" in name])
def test_a_name_is_given_once(case: str):
    """As in ONNX Runtime; which of two tensors a name stands for would be a guess."""
    message = "the name of an output to be given once"
    assert message in refusal(BROKEN[case]())
    with pytest.raises(OnnxRuntimeError, match=message):
        InferenceSession(BROKEN[case]())
