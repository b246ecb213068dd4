"""Graphs, operators and functions as ONNX models.

Each operator has one record, `@exports("REDUCE")` in `dml_jax.onnx.writing.operator_exporters`.
An attribute that the record does not know, or an operator without a record, is written as the
program that JAX traces of the operator: `dml_jax.onnx.writing.jaxpr_nodes`.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import dtypes

from dml_jax.errors import DmlError, Fault
from dml_jax.graph import ConstantNode, Graph, OperatorNode
from dml_jax.graph.bfloat16 import computed
from dml_jax.graph.parts import reinterpreted
from dml_jax.onnx.network import Network
from dml_jax.onnx.writing.jaxpr_nodes import write_closed_jaxpr, write_function
from dml_jax.onnx.writing.operator_exporters import EXPORTERS, Unfit
from dml_jax.onnx.writing.primitives import control, indexing, meanings, reduction  # noqa: F401
from dml_jax.onnx.writing.writer import Value, Writer, unwritten
from dml_jax.operator import Operator


def export(what: Any, *shapes: Any) -> onnx.ModelProto:
    """Return what `dml_jax.onnx.export` does."""
    if isinstance(what, Network):
        return _network(what)
    if isinstance(what, Graph):
        return _graph(what)
    if isinstance(what, Operator):
        return _operator(what)
    if not callable(what):
        rule = "be a graph, an operator, a network (of load_onnx) or a function"
        raise DmlError([Fault("export", "what", rule, what)])
    return _function(what, shapes)


def _function(function: Callable[..., Any], arguments: Sequence[Any]) -> onnx.ModelProto:
    shapes = jax.tree.map(_shape_of, tuple(arguments), is_leaf=_are_sizes)
    closed, results = jax.make_jaxpr(function, return_shape=True)(*shapes)
    w = Writer()
    leaves, _ = jax.tree_util.tree_flatten_with_path(shapes)
    names = [_name("input", path[1:] if len(shapes) == 1 else path) for path, _ in leaves]
    names = [w.name(name) for name in names]
    inputs = [Value(n, x.dtype, x.shape) for n, (_, x) in zip(names, leaves, strict=True)]
    made = write_closed_jaxpr(w, closed, inputs)
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(results)[0]]
    wanted = [_name("output", path) for path in paths]
    outputs = [w.name(f"output_{name}" if name in names else name) for name in wanted]
    return w.model(inputs, dict(zip(outputs, made, strict=True)))


def _are_sizes(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and all(type(size) is int for size in x)


def _shape_of(x: Any) -> jax.ShapeDtypeStruct:
    """Return the shape and type of an argument. Raises `DmlError` for what is no array."""
    if _are_sizes(x) or isinstance(x, str) or hasattr(x, "sizes"):
        rule = "be an array or jax.ShapeDtypeStruct(sizes, dtype); onnx.save(model, path) writes it"
        raise DmlError([Fault("export", "an argument", rule, x)])
    dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    if jnp.issubdtype(dtype, dtypes.extended) or dtype.kind in "OSU":
        raise unwritten(f"the type {dtype}")
    if not all(isinstance(size, int) for size in np.shape(x)):
        raise unwritten("a symbolic size")
    return jax.ShapeDtypeStruct(np.shape(x), dtypes.canonicalize_dtype(dtype))


def _name(prefix: str, path: Sequence[Any]) -> str:
    """Return the name of a leaf by its path: that of a dictionary's key, or input_0."""
    parts = [str(getattr(p, "key", getattr(p, "idx", getattr(p, "name", "")))) for p in path]
    text = "_".join(parts)
    return text if text and not text[0].isdigit() else "_".join([prefix, *parts])


def _operator(operator: Operator) -> onnx.ModelProto:
    w = Writer()
    given = operator.tensors(output=False)
    inputs = [Value(w.name(path), tensor.dtype, tensor.sizes) for path, _, tensor in given]
    made = write_operator(w, operator, inputs)
    outputs = [w.name(path) for path, _, _ in operator.tensors(output=True)]
    return w.model(inputs, dict(zip(outputs, made, strict=True)))


def _graph(graph: Graph) -> onnx.ModelProto:
    w = Writer()
    inputs = [Value(w.name(name), edge.dtype, edge.sizes) for _, name, edge in graph.named_inputs]
    outputs = [w.name(name) for name in graph.output_names or ()]
    return w.model(inputs, dict(zip(outputs, write_graph(w, graph, inputs), strict=True)))


def _network(network: Network) -> onnx.ModelProto:
    """Write the graph of a network between arrays as ONNX has them."""
    w, graph = Writer(), network.graph
    names = {name: w.name(name) for name in network.outputs}
    given = {n: Value(w.name(n), k.array_dtype, k.shape or ()) for n, k in network.inputs.items()}
    values = []
    for _, name, edge in graph.named_inputs:
        x = given.get(name) or w.constant(np.asarray(network.weights[name]), name=name)
        values.append(w.reshape(w.cast(x, edge.dtype), edge.sizes))
    made = write_graph(w, graph, values)
    kinds = network.output_types.items()
    outputs = {
        names[name]: w.reshape(w.cast(x, kind.array_dtype), kind.shape or ())
        for (name, kind), x in zip(kinds, made, strict=True)
    }
    return w.model([*given.values()], outputs)


def write_graph(w: Writer, graph: Graph, inputs: Sequence[Value]) -> list[Value]:
    """Write the nodes of a graph; return its outputs."""
    values: dict[Any, Value] = {(-1, k): x for k, x in enumerate(inputs)}
    for index, node, sources in graph.plan:
        read = [values[source] for source in sources]
        for place, x in enumerate(read):
            if (index, place) in graph.views:
                read[place] = _view(w, x, graph.views[index, place])
        if isinstance(node, ConstantNode):
            made = [w.constant(node.array, name=node.name or "")]
        elif isinstance(node, OperatorNode):
            made = write_operator(w, node.operator, read)
        else:
            made = write_function(w, lambda *xs, node=node: computed(node, xs), *read)
        values |= {(index, place): x for place, x in enumerate(made)}
    results = [values[source] for source in graph.results]
    for index, view in graph.output_views.items():
        results[index] = _view(w, results[index], view)
    return results


def _view(w: Writer, x: Value, view: Any) -> Value:
    (made,) = write_function(w, lambda array: reinterpreted(array, *view), x)
    return made


def write_operator(w: Writer, operator: Operator, inputs: Sequence[Value]) -> list[Value]:
    """Write an operator; return the outputs that are described."""
    by = getattr(operator, "scale_bias", None)
    made = None
    if not (by and inputs[0].dtype.kind in "iu"):
        given = iter(inputs)
        tensors = [f for f in operator.fields if f.tensor and not f.tensor.output]
        values = [None if getattr(operator, f.name) is None else next(given) for f in tensors]
        if by and (x := values[0]):
            values[0] = w("Add", w("Mul", x, w.like(by.scale, x)), w.like(by.bias, x))
        made = _export_by_record(w, operator, *values)
    if made is None:
        return write_function(w, lambda *xs: list(operator.evaluate(*xs)), *inputs)
    fused = getattr(operator, "fused_activation", None)
    if fused is None:
        return made
    one = SimpleNamespace(short_name=fused.operator.short_name, **fused.attributes)
    return [*(_export_by_record(w, one, made[0]) or write_function(w, fused, made[0])), *made[1:]]


def _export_by_record(w: Writer, operator: Any, *inputs: Value | None) -> list[Value] | None:
    """Write an operator by its record; None where its program is to be written."""
    exporter = EXPORTERS.get(operator.short_name)
    try:
        made = None if exporter is None else exporter(w, operator, *inputs)
    except Unfit:
        return None
    return [made] if isinstance(made, Value) else made
