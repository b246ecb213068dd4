"""Mutated ONNX models and serialized graphs: each is loaded, or refused with a `DmlError`."""

import contextlib
import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from fuzz.models import drawn
from fuzz.mutations import NUMBERS, TEXTS, mutated_bytes
from google.protobuf.descriptor import FieldDescriptor as Field
from onnx import parser
from serialized_graphs import dense, node_of, serialized

IMAGE = """<ir_version: 8, opset_import: ["": 18, "own": 1]>
image (float[N,3,16,16] x, bool flag) => (float[N,?] y, float[N,4,8,8] z)
<float[4,3,3,3] w, float[4] b, float[4] s, float[256,5] v, int64[4] pads = {0,0,1,1}, bool c = {1}>
{
    a = Conv <pads = [1,1,1,1], strides = [2,2]> (x, w, b)
    n = BatchNormalization (a, s, b, s, s)
    r = own.twice (n)
    z = If (c) <
        then_branch = t () => (float[N,4,8,8] p) { p = Relu (r) },
        else_branch = e () => (float[N,4,8,8] q) { q = Neg (r) }
    >
    shape = Shape (z)
    zero = Constant <value = int64[1] {0}> ()
    batch = Gather (shape, zero)
    rest = Constant <value = int64[1] {-1}> ()
    to = Concat <axis = 0> (batch, rest)
    f = Reshape (z, to)
    m = MatMul (f, v)
    y = Softmax <axis = -1> (m)
}
<domain: "own", opset_import: ["": 18]> twice (i) => (o) { o = Add (i, i) }"""
TEXT = """<ir_version: 8, opset_import: ["": 14]>
text (int64[B,7] ids, float[1,B,8] h) => (float[7,1,B,8] y, float[1,B,8] last, float[B,7,7] p)
<float[11,6] table, float[1,24,6] w, float[1,24,8] r, float[1,48] b, float[6,6] k>
{
    e = Gather (table, ids)
    t = Transpose <perm = [1,0,2]> (e)
    y, last = GRU <hidden_size = 8, linear_before_reset = 1> (t, w, r, b, , h)
    q = MatMul (e, k)
    kt = Transpose <perm = [0,2,1]> (e)
    scores = MatMul (q, kt)
    top = ReduceMax <axes = [-1], keepdims = 1> (scores)
    d = Sub (scores, top)
    x = Exp (d)
    total = ReduceSum <keepdims = 1> (x)
    p = Div (x, total)
}"""
BYTES = """<ir_version: 8, opset_import: ["": 13]>
bytes (float[2,4] x) => (float[2,3] y, float[1,1,4,8] big)
<int8[4,3] w, float s = {0.5}, uint8 zero = {128}, int8 none = {0}, float[4] sizes = {1,1,2,4}>
{
    q = QuantizeLinear (x, s, zero)
    d = DequantizeLinear (q, s, zero)
    v = DequantizeLinear (w, s, none)
    y = MatMul (d, v)
    four = Constant <value = int64[4] {1,1,2,4}> ()
    i = Reshape (x, four)
    big = Resize <mode = "linear"> (i, , sizes)
}"""


def models() -> dict[str, bytes]:
    """Return three networks, with random weights for those that have no values."""
    rng, found = np.random.RandomState(0), {}
    for name, text in (("image", IMAGE), ("text", TEXT), ("bytes", BYTES)):
        model = parser.parse_model(text)
        for value in model.graph.value_info:
            kind = value.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            array = (rng.rand(*[d.dim_value for d in kind.shape.dim]) * 9).astype(dtype)
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
        del model.graph.value_info[:]
        found[name] = model.SerializeToString()
    return found


_OF_ALL_FIELDS = (
    *("SPLIT", "FILL_VALUE_CONSTANT", "UPSAMPLE_2D", "ELEMENT_WISE_CLIP1", "VALUE_SCALE_2D"),
    *("RESAMPLE", "ELEMENT_WISE_IDENTITY", "JOIN", "BATCH_NORMALIZATION", "RANDOM_GENERATOR"),
)


def graphs() -> dict[str, bytes]:
    """Return serialized graphs: of several nodes, and of operators with all kinds of fields."""
    from dml_jax import Gru, Reduce

    found = {"dense": dense()}
    chosen = [*Reduce.typical(64, "FLOAT32")[:1], *Gru.typical(64, "FLOAT32")[:1]]
    chosen += [operator for name in _OF_ALL_FIELDS for operator in drawn(name, 1)]
    for operator in chosen:
        node = node_of(operator)
        ends = (list(filter(None, names)) for names in (node.inputs, node.outputs))
        found[operator.short_name] = serialized([node], *ends)
    return found


def mutated_model(data: bytes, rng: random.Random) -> bytes:
    """Return a model with some fields changed, or its bytes."""
    if rng.random() < 0.25:
        return mutated_bytes(data, rng)
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        message, field = rng.choice(list(_fields(model)))
        _change(message, field, rng)
    try:
        return model.SerializeToString()
    except (ValueError, TypeError):  # a text that is none
        return mutated_bytes(data, rng)


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    for field, value in message.ListFields():
        yield message, field
        if field.type == Field.TYPE_MESSAGE:
            for inner in value if field.is_repeated else [value]:
                yield from _fields(inner)


@contextlib.contextmanager
def refusals(*others: type[Exception]) -> Iterator[None]:
    """Let a file be refused in a line that can be written."""
    from dml_jax import DmlError

    try:
        yield
    except (DmlError, *others) as error:
        assert str(error)
        str(error).encode("utf-8", "surrogateescape")


def _change(message: Any, field: Any, rng: random.Random) -> None:
    value = getattr(message, field.name)
    is_message = field.type == Field.TYPE_MESSAGE
    if not field.is_repeated and is_message:
        message.ClearField(field.name)
        return
    if not field.is_repeated:
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            setattr(message, field.name, _other(value, field, rng))
        return
    items = list(value)
    kind = rng.randrange(4)
    if kind == 0 and items:
        del items[rng.randrange(len(items))]
    elif kind == 1 and items:
        items.insert(rng.randrange(len(items) + 1), rng.choice(items))
    elif kind == 2:
        rng.shuffle(items)
    elif not is_message and items:
        items[rng.randrange(len(items))] = _other(rng.choice(items), field, rng)
    copies = [copy.deepcopy(item) for item in items]
    del value[:]
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        value.extend(copies)


def _other(value: Any, field: Any, rng: random.Random) -> Any:
    if isinstance(value, str):
        return rng.choice([*TEXTS, "x", "w", "r", "Add", "Reshape", "Loop", "Tile", "../w", "int8"])
    if isinstance(value, bytes):
        return mutated_bytes(value, rng) if value else b"x"
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, float("nan"), float("inf"), 1e38, value * 2])
    if rng.random() < 0.5:
        return value + rng.choice([-1, 1, 2, 7])
    return rng.choice([n for n in NUMBERS if isinstance(n, int)])


def check_model(data: bytes, is_traced: bool = False, fallback: bool = False) -> None:
    """Load a network, or let it be refused.

    Args:
        data: the file.
        is_traced: whether its program is traced too.
        fallback: whether nodes go beyond DirectML.
    """
    from dml_jax import load_onnx
    from dml_jax.onnx import free_sizes

    with refusals():
        network = load_onnx(data, *free_sizes(data, {}), fallback=fallback)
        network.report()
        if is_traced:
            kinds = network.inputs.items()
            inputs = {n: jax.ShapeDtypeStruct(k.shape, k.dtype) for n, k in kinds}
            results = jax.eval_shape(network.apply, network.weights, inputs)
            assert list(results) and all(r.shape is not None for r in results.values())


def check_session(data: bytes, is_run: bool = False) -> None:
    """Make a session of a network, or let it be refused as ONNX Runtime does.

    Args:
        data: the file.
        is_run: whether it runs too, of zeros.
    """
    from dml_jax.onnxruntime import InferenceSession
    from dml_jax.onnxruntime.errors import OnnxRuntimeError

    with refusals(OnnxRuntimeError):
        session = InferenceSession(data)
        arguments = session.get_inputs()
        repr([*arguments, *session.get_outputs(), session.get_modelmeta()])
        kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
        sizes = [[n if isinstance(n, int) else 1 for n in a.shape] for a in arguments]
        is_small = all(np.prod([n or 1 for n in s], dtype=float) < 1e6 for s in sizes)
        if is_run and is_small and all(a.type.startswith("tensor(") for a in arguments):
            pairs = zip(arguments, sizes, strict=True)
            session.run(None, {a.name: np.zeros(s, kinds.get(a.type, bool)) for a, s in pairs})


def check_graph(data: bytes, folder: Path) -> None:
    """Read a serialized graph, or let it be refused."""
    from dml_jax import Graph
    from dml_jax.dxdispatch import serialized as reading

    with refusals():
        graph = reading.parse(data, folder).graph
        assert Graph.from_json(graph.to_json()) == graph
        graph.describe()
