"""ONNX graphs that are nearly right: nodes, wires, types and attributes are changed.

`mutated_graph` keeps a model that protobuf reads, and changes what the nodes of it mean. What a
change is has a function here; each takes the model, one of its graphs, and random numbers.
"""

import copy
import functools
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from fuzz.mutations import NUMBERS, TEXTS
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from dml_jax.onnx.nodes.op_types import OP_TYPES
from dml_jax.onnx.translate.model_graph import load_translators

SIZES = [0, 1, 2, 3, 4, 7, 8, 16, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -1, -2]
KINDS = [int(value) for value in TensorProto.DataType.values() if value]
SMALL = 4096  # bytes of a model
INTS = [n for n in NUMBERS if isinstance(n, int) and -(2**63) <= n < 2**63]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3e38, float("nan"), float("inf"), float("-inf")]

Graph = Any
Change = Callable[[onnx.ModelProto, Graph, random.Random], None]

CONTROL = """<ir_version: 8, opset_import: ["": 18]>
control (int64 M, float[N,4] x, bool c) => (float[N,4] y, float[K,N,4] ys, float[L,M] joined)
<bool t = {1}, float[4] w = {1, 2, 3, 4}, int64 three = {3}, int64 two = {2}> {
    a, ys = Loop (three, t, x) <
        body = b (int64 i, bool g, float[N,4] s) => (bool go, float[N,4] r, float[N,4] e) {
            number = Cast<to = 1>(i)
            sum = Add(s, number)
            r = Mul(sum, w)
            e = Tanh(r)
            go = Identity(g)
        }>
    z = Loop (M, t, a) <
        body = d (int64 i, bool g, float[N,4] s) => (bool go, float[N,4] r) {
            r = If (g) <
                then_branch = t1 () => (float[N,4] p) { p = Add(s, w) },
                else_branch = e1 () => (float[N,4] q) { q = Neg(s) }>
            top = ReduceMax<keepdims = 0>(r)
            most = Constant<value_float = 50.0>()
            go = Less(top, most)
        }>
    last, y = Scan <num_scan_inputs = 1,
        body = f (float[4] s, float[4] e) => (float[4] r, float[4] o) {
            r = Add(s, e)
            o = Mul(r, w)
        }>(w, z)
    parts = SplitToSequence<axis = 1, keepdims = 1>(y)
    one = SequenceAt(parts, two)
    more = SequenceInsert(parts, one)
    joined = ConcatFromSequence<axis = 1>(more)
}"""
RAGGED = """<ir_version: 8, opset_import: ["": 18]>
ragged (float[1,6,4] boxes, float[1,2,6] scores, int64[2] at) => (float[n,4] found, int64[m] order)
<int64 most = {4}, float iou = {0.5}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2},
int64[1] rest = {-1}> {
    chosen = NonMaxSuppression(boxes, scores, most, iou)
    places = Slice(chosen, two, rest, one)
    flat = Squeeze(places, one)
    all = Squeeze(boxes, zero)
    found = Gather(all, flat)
    shape = Shape(flat)
    count = Squeeze(shape, zero)
    first = Constant<value_int = 0>()
    step = Constant<value_int = 1>()
    range = Range(first, count, step)
    wide = Expand(at, one)
    end = Concat<axis = 0>(range, wide)
    there = NonZero(end)
    order = Reshape(there, rest)
}"""


def seeds() -> dict[str, bytes]:
    """Return graphs with control flow, with sizes that data decides, and one for each op type."""
    made = {"control": CONTROL, "ragged": RAGGED}
    found = {name: parser.parse_model(text).SerializeToString() for name, text in made.items()}
    return found | dict(_of_op_types())


def _of_op_types() -> Iterator[tuple[str, bytes]]:
    """Yield two small models of each op type that ONNX tests; sizes and axes are known in them."""
    from conformance import onnx_nodes

    for tests in onnx_nodes.load().values():
        small = [test for test in tests if test.model.ByteSize() <= SMALL]
        for test in onnx_nodes.sample(small, 2):
            model, known = onnx.ModelProto(), []
            model.CopyFrom(test.model)
            for value, given in zip(model.graph.input, test.data_sets[0][0], strict=False):
                is_array = isinstance(given, np.ndarray) and given.dtype.kind in "iub"
                if is_array and given.size <= 8:  # as exporters write sizes, axes and the like
                    known.append(value.name)
                    model.graph.initializer.append(numpy_helper.from_array(given, value.name))
            inputs = [value for value in test.model.graph.input if value.name not in known]
            del model.graph.input[:]
            model.graph.input.extend(inputs)
            yield test.name, model.SerializeToString()


def mutated_graph(data: bytes, rng: random.Random) -> bytes:
    """Return a model after one to four changes of its graphs."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        graph = rng.choice([*graphs_of(model)])
        try:
            rng.choice(CHANGES)(model, graph, rng)
        except Exception:  # protobuf, NumPy or the graph has no such thing
            continue
    return model.SerializeToString()


def graphs_of(model: onnx.ModelProto) -> Iterator[Graph]:
    """Yield the graph of a model, those within nodes, and its functions."""
    left: list[Graph] = [model.graph, *model.functions]
    while left:
        graph = left.pop()
        yield graph
        left += [g for n in graph.node for a in n.attribute for g in (a.g, *a.graphs) if g.node]


def names_of(model: onnx.ModelProto) -> list[str]:
    """Return all names of tensors."""
    found = [""]
    for graph in graphs_of(model):
        found += [name for node in graph.node for name in (*node.input, *node.output)]
        if isinstance(graph, onnx.GraphProto):
            found += [v.name for v in (*graph.input, *graph.output, *graph.initializer)]
    return list(dict.fromkeys(found))


def _rewire(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let a node read another tensor: of before, of after (a circle), or of another graph."""
    node = rng.choice(graph.node)
    node.input[rng.randrange(len(node.input))] = rng.choice(names_of(model))


def _swap_inputs(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    one, other = rng.choice(graph.node), rng.choice(graph.node)
    i, j = rng.randrange(len(one.input)), rng.randrange(len(other.input))
    one.input[i], other.input[j] = other.input[j], one.input[i]


def _count_inputs(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Add an input or an output to a node, or leave one out."""
    node = rng.choice(graph.node)
    listed = rng.choice([node.input, node.output])
    if rng.random() < 0.5:
        listed.append(rng.choice(names_of(model)))
    else:
        del listed[rng.randrange(len(listed))]


def _rename(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Give an output of a node, an input or an initializer a name that another tensor has."""
    name = rng.choice([*names_of(model), rng.choice(TEXTS)])
    values = [*graph.input, *graph.initializer] if isinstance(graph, onnx.GraphProto) else []
    if values and rng.random() < 0.5:
        rng.choice(values).name = name
    else:
        node = rng.choice(graph.node)
        node.output[rng.randrange(len(node.output))] = name


def _retype(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let a node have another op type, or another domain."""
    node = rng.choice(graph.node)
    if rng.random() < 0.1:
        node.domain = rng.choice(["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "own"])
        return
    node.domain, node.op_type = rng.choice(_op_types())


def _like(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let a node have an op type with as many inputs."""
    node = rng.choice(graph.node)
    fit = [s for s in _schemas() if s.min_input <= len(node.input) <= s.max_input]
    schema = rng.choice(fit)
    node.op_type, node.domain = schema.name, schema.domain
    known = {a.name: a for a in copy.deepcopy(node.attribute) if a.name in schema.attributes}
    del node.attribute[:]
    node.attribute.extend([*known.values(), *_attributes(schema, known, 0.3, rng)])


@functools.cache
def _schemas() -> Sequence[Any]:
    return onnx.defs.get_all_schemas_with_history()


@functools.cache
def _op_types() -> list[tuple[str, str]]:
    """Return the domain and the name of each op type of ONNX, and of those that are translated."""
    load_translators()
    known = {(schema.domain, schema.name): None for schema in _schemas()}
    return [*(known | dict.fromkeys(OP_TYPES))]


def _attribute(name: str, kind: int, rng: random.Random) -> list[AttributeProto]:
    """Return an attribute of a kind with any value; none for a kind that is made nowhere here."""
    numbers = [rng.choice([*INTS[:16], *SIZES]) for _ in range(rng.choice([0, 1, 2, 2, 4, 9]))]
    texts = [*TEXTS[:12], "SAME_UPPER", "VALID", "linear", "nearest", "cubic", "reflect", "DCR"]
    values: dict[int, Any] = {
        AttributeProto.INT: rng.choice([*INTS[:16], *SIZES]),
        AttributeProto.FLOAT: rng.choice(FLOATS),
        AttributeProto.STRING: rng.choice([*texts, "abc->cab", "ij,jk->ik", "add", "mul", "max"]),
        AttributeProto.INTS: numbers,
        AttributeProto.FLOATS: [rng.choice(FLOATS) for _ in numbers],
        AttributeProto.STRINGS: [rng.choice(["Tanh", "Relu", "Sigmoid", "x"]) for _ in numbers],
        AttributeProto.TENSOR: numpy_helper.from_array(np.zeros(rng.choice([0, 1, 3]), "i8")),
    }
    if kind not in values:
        return []
    return [helper.make_attribute(name, values[kind], attr_type=kind)]


def _attributes(schema: Any, known: Collection[str], share: float, rng: random.Random) -> list[Any]:
    """Return the attributes that an op type requires, and a share of the others."""
    chosen = [
        (name, attribute.type.value)
        for name, attribute in schema.attributes.items()
        if name not in known and (attribute.required or rng.random() < share)
    ]
    return [made for name, kind in chosen for made in _attribute(name, kind, rng)]


def _change_attribute(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Change the value of an attribute; its kind, at times."""
    node = rng.choice([n for n in graph.node if n.attribute])
    old = rng.choice(node.attribute)
    kind = rng.randrange(1, 12) if rng.random() < 0.1 else old.type
    if kind == AttributeProto.GRAPH:
        others = [g for g in graphs_of(model) if isinstance(g, onnx.GraphProto)]
        old.g.CopyFrom(copy.deepcopy(rng.choice(others)))
    elif old.ints and rng.random() < 0.6:
        old.ints[rng.randrange(len(old.ints))] = rng.choice([*INTS[:16], *SIZES])
    else:
        for made in _attribute(old.name, kind, rng):
            old.CopyFrom(made)


def _replace_nodes(graph: Graph, nodes: list[Any]) -> None:
    copies = copy.deepcopy(nodes)
    del graph.node[:]
    graph.node.extend(copies)


def _lend_attribute(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Give a node an attribute of another one, or twice its own, or one less."""
    given = rng.choice([a for g in graphs_of(model) for n in g.node for a in n.attribute])
    node, made = rng.choice(graph.node), copy.deepcopy(given)
    if node.attribute and rng.random() < 0.3:
        del node.attribute[rng.randrange(len(node.attribute))]
    node.attribute.append(made)


def _resize(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Give an input or an output other sizes: wrong ones, free ones, more or none."""
    value = rng.choice([*graph.input, *graph.output])
    kind = value.type.tensor_type
    match rng.randrange(5):
        case 0:
            kind.shape.dim.add().dim_value = rng.choice(SIZES)
        case 1:
            del kind.shape.dim[rng.randrange(len(kind.shape.dim))]
        case 2:
            kind.ClearField("shape")
        case 3:
            rng.choice(kind.shape.dim).dim_param = rng.choice(["N", "", "a + b", "2*N", *TEXTS])
        case _:
            rng.choice(kind.shape.dim).dim_value = rng.choice(SIZES)


def _retype_value(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Give an input or an output other elements, or let it be a sequence or an optional."""
    value = rng.choice([*graph.input, *graph.output])
    if rng.random() < 0.8:
        value.type.tensor_type.elem_type = rng.choice([*KINDS, 0, 99, -1])
        return
    inner = copy.deepcopy(value.type)
    kind = rng.choice(["sequence_type", "optional_type"])
    getattr(value.type, kind).elem_type.CopyFrom(inner)


def _change_initializer(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Give an initializer another type, other sizes, other elements, or other data."""
    tensor = rng.choice(graph.initializer)
    match rng.randrange(7):
        case 0:
            tensor.data_type = rng.choice([*KINDS, 0, 99])
        case 1:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(SIZES)
        case 2:
            tensor.dims.append(rng.choice([0, 1, 1, 2, 2**40]))
        case 3:
            array = numpy_helper.to_array(tensor).copy()
            values = [n for n in [*INTS, *SIZES] if _fits(n, array.dtype)] or [0]
            array.reshape(-1)[rng.randrange(array.size)] = rng.choice(values)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        case 4:
            array = numpy_helper.to_array(tensor)
            kind = rng.choice(["f4", "f8", "f2", "i4", "i8", "u1", "i1", "u4", "u8", "?"])
            with np.errstate(all="ignore"):
                tensor.CopyFrom(numpy_helper.from_array(array.astype(kind), tensor.name))
        case 5:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
        case _:
            tensor.data_location = TensorProto.EXTERNAL
            place = rng.choice(["w.bin", "../w.bin", "/dev/zero", "", "."])
            for key, text in (("location", place), ("offset", "8"), ("length", str(2**40))):
                tensor.external_data.add(key=key, value=text)


def _fits(number: int, dtype: np.dtype) -> bool:
    if dtype.kind not in "iu":
        return dtype.kind == "f" and abs(number) < 60000
    return bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)


def _make_constant(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let an input be known: sizes and axes that come from outside."""
    known = {t.name for t in graph.initializer}
    value = rng.choice([v for v in graph.input if v.name not in known])
    sizes = [d.dim_value if 0 < d.dim_value < 9 else 1 for d in value.type.tensor_type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    numbers = [rng.choice([0, 1, 1, 2, 3, -1, -2, 9, 2**31 - 1, 2**40]) for _ in range(9)]
    with np.errstate(all="ignore"):
        array = np.resize(np.array(numbers), sizes).astype(dtype)
    graph.initializer.append(numpy_helper.from_array(array, value.name))


def _make_input(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let an initializer come from outside, so that nothing of it is known."""
    place = rng.randrange(len(graph.initializer))
    tensor = graph.initializer[place]
    made = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    graph.input.append(made)
    del graph.initializer[place]


def _add_node(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Put a node of any op type between a node and a tensor that it reads."""
    reader = rng.choice(graph.node)
    place = rng.randrange(len(reader.input))
    schema = rng.choice(_schemas())
    count = max(1, min(schema.max_input, schema.min_input + rng.choice([0, 0, 1])))
    inputs = [reader.input[place], *(rng.choice(names_of(model)) for _ in range(count - 1))]
    node = helper.make_node(schema.name, inputs, ["added"], domain=schema.domain)
    node.attribute.extend(_attributes(schema, (), 0.2, rng))
    reader.input[place] = "added"
    _replace_nodes(graph, rng.sample([*graph.node, node], len(graph.node) + 1))


def _move_nodes(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Leave a node out, double it, or bring the nodes into another order."""
    nodes = list(graph.node)
    match rng.randrange(3):
        case 0:
            del nodes[rng.randrange(len(nodes))]
        case 1:
            nodes.append(rng.choice(nodes))
        case _:
            rng.shuffle(nodes)
    _replace_nodes(graph, nodes)


def _wrap(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Move a node into a branch of an If, or into the body of a Loop or a Scan."""
    place = rng.randrange(len(graph.node))
    node = copy.deepcopy(graph.node[place])
    condition = rng.choice(names_of(model))
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    body = helper.make_graph([node], "inner", [], outputs)
    kind = rng.choice(["If", "If", "Loop", "Scan"])
    if kind == "If":
        branches = {"then_branch": body, "else_branch": body}
        made = helper.make_node("If", [condition], list(node.output), **branches)
    else:
        turn, going = onnx.ValueInfoProto(name="turn"), onnx.ValueInfoProto(name="going")
        body.input.extend([turn, going][: 2 if kind == "Loop" else 1])
        body.output.insert(0, going) if kind == "Loop" else None
        extra = {"num_scan_inputs": 1} if kind == "Scan" else {}
        inputs = [rng.choice(["", condition]), rng.choice(["", condition])]
        made = helper.make_node(
            kind, inputs[: len(body.input)], list(node.output), body=body, **extra
        )
    graph.node[place].CopyFrom(made)


def _make_function(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let a node be the call of a function: of the node itself, or of the function again."""
    node = rng.choice(graph.node)
    inner = copy.deepcopy(node)
    if rng.random() < 0.2:
        inner.op_type, inner.domain = "made", "own"
    known = {o.domain: o.version for o in model.opset_import} | {"own": 1}
    imports = [helper.make_opsetid(domain, version) for domain, version in known.items()]
    inputs, outputs = list(filter(None, node.input)), list(node.output)
    function = helper.make_function("own", "made", inputs, outputs, [inner], imports)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    del node.attribute[:]
    node.op_type, node.domain = "made", "own"


def _change_versions(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Let the model be of another opset or version of the format, or import a domain less."""
    match rng.randrange(3):
        case 0:
            versions = [1, 6, 7, 9, 11, 12, 13, 14, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 99]
            rng.choice(model.opset_import).version = rng.choice(versions)
        case 1:
            model.ir_version = rng.choice([0, 1, 3, 4, 7, 10, 13, 14, 2**40])
        case _:
            del model.opset_import[rng.randrange(len(model.opset_import))]


def _change_outputs(model: onnx.ModelProto, graph: Graph, rng: random.Random) -> None:
    """Ask for another tensor, for one twice, or for none."""
    if rng.random() < 0.3:
        del graph.output[rng.randrange(len(graph.output))]
    else:
        name = rng.choice(names_of(model))
        graph.output.append(onnx.ValueInfoProto(name=name))


CHANGES: list[Change] = [
    *[_rewire, _swap_inputs, _like, _change_attribute, _change_initializer, _make_constant] * 2,
    *(_count_inputs, _rename, _retype, _lend_attribute, _resize, _retype_value, _make_input),
    *(_add_node, _move_nodes, _wrap, _make_function, _change_versions, _change_outputs),
]
