"""Bytes and arithmetic operations of operators, the same on every platform.

Operations are counted from descriptors. A multiplication and an addition are two operations; a
function of an element, such as exp or SIGMOID, is one. Recurrent networks and attention count their
products. What only moves or selects elements counts none.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from dml_jax.bench.measured_functions import Transformed, byte_count, type_name
from dml_jax.bench.memory import wide
from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import FunctionNode, Graph
from dml_jax.operator import Operator

# Operations for each element of the first output, where they are not 1.
_EACH = {
    **dict.fromkeys(("ELEMENT_WISE_IDENTITY", "ELEMENT_WISE_IF", "ACTIVATION_IDENTITY", "CAST"), 0),
    **dict.fromkeys(("ELEMENT_WISE_DIFFERENCE_SQUARE", "ELEMENT_WISE_MEAN", "VALUE_SCALE_2D"), 2),
    "DYNAMIC_QUANTIZE_LINEAR": 4,
    "ELEMENT_WISE_QUANTIZED_LINEAR_ADD": 7,
    "ADAM_OPTIMIZER": 12,
}
_OF_FAMILY = {
    "normalization": 6,  # subtract, divide, scale, shift, and a mean and a variance or gradients
    "softmax": 4,  # the largest, exp, the sum, a division
    "quantization": 2,
    **dict.fromkeys(("scan", "element_wise", "arithmetic", "logic", "activation"), 1),
}
# Primitives of JAX: those that read parts of a table, those that keep its elements, and those that
# call a program, with its name.
_PARTS = frozenset(("gather", "slice", "dynamic_slice"))
_SAME_ELEMENTS = frozenset(("reshape", "squeeze", "transpose", "convert_element_type", "rev"))
_CALLS = {
    **dict.fromkeys(("jit", "pjit", "checkpoint", "remat2"), "jaxpr"),
    **dict.fromkeys(("closed_call", "custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
    "dml_by_platform": "default",
}
_REDUCED = {"L1": 2, "L2": 2, "SUM_SQUARE": 2, "LOG_SUM_EXP": 3}


def operations(function: Any) -> float:
    """Return the operations of a call of an operator, a graph, or one of `bench.functions`.

    A gradient counts twice its operator.
    """
    match function:
        case Operator():
            return float(_of_operator(function))
        case Graph():
            return sum(map(operations, _operators(function)))
        case Transformed():
            return function.work * operations(function.operator)
    return float(getattr(function, "operations", 0.0))


def bytes_to_move(function: Any) -> int:
    """Return the bytes that a call must move: each element that it reads or writes, once.

    Of a table of which rows are looked up, or a part is cut out, only these are read.
    """
    with wide(function):
        arrays = [jax.ShapeDtypeStruct(t.sizes, t.dtype) for t in function.inputs]
        program = jax.make_jaxpr(lambda *xs: function(*xs))(*arrays).jaxpr
    read = [0.0] * len(arrays)
    for one in _follow(program, range(len(arrays)), read):
        if one is not None:
            read[one] = math.inf
    pairs = zip(read, function.inputs, strict=True)
    sizes = (int(min(n, math.prod(t.sizes))) * t.dtype.itemsize for n, t in pairs)
    return sum(sizes) + byte_count(*function.outputs)


def _follow(program: Any, sources: Iterable[int | None], read: list[float]) -> list[int | None]:
    """Add to `read` how many elements a program reads of each input of the whole one.

    `sources` says which input each input of the program is; the result, which one each output is.
    """
    known = {id(x): source for x, source in zip(program.invars, sources, strict=True)}
    for step in program.eqns:
        name, given = step.primitive.name, [known.get(id(x)) for x in step.invars]
        if name in _CALLS:
            inner = step.params[_CALLS[name]]
            results = _follow(getattr(inner, "jaxpr", inner), given, read)
            known |= {id(x): one for x, one in zip(step.outvars, results, strict=True)}
            continue
        table, *_ = given or [None]
        if name in _SAME_ELEMENTS:
            known[id(step.outvars[0])] = table
            continue
        if name in _PARTS and table is not None:
            read[table] += step.outvars[0].aval.size
            given = given[1:]
        for one in given:
            if one is not None:
                read[one] = math.inf
    return [known.get(id(x)) for x in program.outvars]


def bytes_by_kind(network: Any) -> list[tuple[str, int]]:
    """Return the bytes of a network's tensors, by kind.

    Tensors between nodes count as long as a node may still read them, while nodes run in order.
    """
    sizes = [0, 0]
    for point in network.bind_points():
        sizes[point.output] += sum(t.total_tensor_size_in_bytes for t in point.tensors)
    weights = sum(array.nbytes for array in network.weights.values())
    known = [("weights", weights), ("inputs", sizes[0]), ("outputs", sizes[1])]
    return [*known, ("tensors between nodes at most", _most_between(network.graph))]


def _most_between(graph: "Graph") -> int:
    """Return the most bytes that tensors between nodes take, those within a node included."""
    last = {source: at for at, (_, _, sources) in enumerate(graph.plan) for source in sources}
    sizes, now, most = {}, 0, 0
    for at, (index, node, sources) in enumerate(graph.plan):
        for slot, (_, tensor) in enumerate(node.slots(output=True)):
            if isinstance(tensor, TensorDesc) and (index, slot) in last:
                sizes[index, slot] = tensor.total_tensor_size_in_bytes
                now += sizes[index, slot]
        graphs = node.graphs if isinstance(node, FunctionNode) else ()
        most = max(most, now + max(map(_most_between, graphs), default=0))
        now -= sum(sizes.get(source, 0) for source in {*sources} if last[source] == at)
    return most


def product_type(graph: Graph) -> str:
    """Return the type of the operators that compute the most in a graph; "" without operators."""
    work: dict[str, float] = {}
    for op in _operators(graph):
        name = type_name((*op.inputs, *op.outputs)[0])
        work[name] = work.get(name, 0.0) + operations(op)
    return max(work, key=work.__getitem__, default="")


def _operators(graph: Graph) -> list[Any]:
    """Return the operators of a graph, those in other layouts included."""
    found = (getattr(node, "operator", None) for _, node in graph.all_nodes)
    return [op for op in found if op is not None]


def _of_operator(op: Any) -> float:
    count, name = _count(op.outputs[0]), op.short_name
    fused = count if getattr(op, "fused_activation", None) is not None else 0
    match op.family:
        case "matrix":
            k = op.a_tensor.sizes[-2 if str(getattr(op, "trans_a", "")) == "TRANSPOSE" else -1]
            added = getattr(op, "c_tensor", None) or getattr(op, "bias_tensor", None)
            return 2 * count * k + (count if added else 0) + fused
        case "convolution":
            backward = str(getattr(op, "direction", "FORWARD")) == "BACKWARD"
            ends = _count(op.input_tensor) if backward else count
            bias = count if getattr(op, "bias_tensor", None) else 0
            return 2 * ends * math.prod(op.filter_tensor.sizes[1:]) + bias + fused
        case "recurrent":
            _, steps, batch, width = op.input_tensor.sizes
            _, directions, rows, _ = op.weight_tensor.sizes
            return 2 * directions * steps * batch * rows * (width + op.recurrence_tensor.sizes[3])
        case "attention":
            return _of_attention(op)
        case "reduction":
            return _count(op.inputs[0]) * _REDUCED.get(str(getattr(op, "function", "")), 1)
        case "pooling":
            return _of_windows(op)
        case "resampling":
            taps = sum(a != b for a, b in zip(op.inputs[0].sizes, op.outputs[0].sizes, strict=True))
            is_linear = str(op.interpolation_mode) != "NEAREST_NEIGHBOR"
            return max(count, _count(op.inputs[0])) * (2 * 2**taps - 1 if is_linear else 0)
        case "region":
            samples = getattr(op, "minimum_samples_per_output", 1) ** 2
            return count * samples * (8 if name.startswith("ROI_ALIGN") else 1)
        case family:
            scaled = 2 * count if getattr(op, "scale_bias", None) is not None else 0
            return count * _EACH.get(name, _OF_FAMILY.get(family, 0)) + scaled + fused


def _of_attention(op: Any) -> float:
    """Return the operations of the products of queries and keys, and of weights and values."""
    heads = op.query_head_count
    *_, batch, queries, width = op.output_tensor.sizes
    query, key, both = op.query_tensor, op.key_tensor, op.stacked_key_value_tensor
    stacked = op.stacked_query_key_tensor or op.stacked_query_key_value_tensor
    of_key = stacked.sizes[-1] if query is None else query.sizes[-1] // heads
    keys = key.sizes[-2] if key is not None else both.sizes[-4] if both is not None else queries
    if getattr(op, "past_sequence_lengths_tensor", None) is not None:
        keys = op.present_size
    elif op.past_key_tensor is not None:
        keys += op.past_key_tensor.sizes[-2]
    return 2 * batch * heads * queries * keys * (of_key + width // heads)


def _of_windows(op: Any) -> float:
    if op.short_name in ("UNFOLD", "MAX_UNPOOLING"):
        return 0
    if op.short_name == "FOLD":
        return _count(op.input_tensor)
    windows = op.inputs[-1] if op.short_name.endswith("_GRAD") else op.outputs[0]
    each: Sequence[int] = op.window_size
    return _count(windows) * math.prod(each) * (3 if op.short_name.startswith("LP") else 1)


def _count(tensor: Any) -> int:
    return math.prod(tensor.sizes)
