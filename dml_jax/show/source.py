"""Graphs as Python programs: functions where one makes the node, else descriptors."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from dml_jax import facts, functional
from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import DmlError
from dml_jax.graph import ConstantNode, Graph, GraphBuilder, OperatorNode, Source
from dml_jax.graph.parts import same_layout
from dml_jax.operator import Operator
from dml_jax.show.text import array_code, folded, head, reserved, variable_of


def program(graph: Graph) -> str:
    """Return a Python program that builds `graph`, as its variable `graph`.

    Raises `DmlError` where functions are among its nodes.
    """
    for function in graph.functions:
        function.to_json()
    tensors = [tensor for _, tensor in graph._described()]
    body = "\n".join([*statements(graph), ""])
    title = f"Builds a graph of {len(graph.nodes)} nodes."
    return f'"""{title}"""\n\n{head(body, tensors)}\n{body}'


def statements(graph: Graph, variable: str = "graph", taken: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines that build `graph` as `variable`; the names `taken` are not used."""
    known = {*taken, *reserved(), variable}
    values: dict[Source, tuple[str, TensorDesc]] = {}
    yield "builder = GraphBuilder()"
    for index, (name, tensor) in enumerate(zip(graph.input_names or (), graph.inputs, strict=True)):
        values[-1, index] = variable_of(name, known), tensor
        made = f"builder.input_tensor({name!r}, {tensor!r})"
        yield folded(f"{values[-1, index][0]} = {made}")
    plan = list(graph.plan)
    if all(source < index for index, _, sources in plan for source, _ in sources):
        plan.sort(key=lambda step: step[0])  # the nodes keep their places
    for index, node, sources in plan:
        slots = [(s, t) for s, (_, t) in enumerate(node.slots(output=True)) if t is not None]
        word = node.name or ("constant" if isinstance(node, ConstantNode) else "y")
        names = [variable_of(word, known) for _ in slots]
        values |= {(index, k): (names[k], t) for k, (_, t) in enumerate(slots)}
        if isinstance(node, ConstantNode):
            named = f", {node.name!r}" if node.name else ""
            yield folded(f"{names[0]} = builder.constant({array_code(node.array)}{named})")
            continue
        assert isinstance(node, OperatorNode)
        yield folded(_call(node, names, [values[source] for source in sources]))
    outputs = []
    for index, (name, source) in enumerate(
        zip(graph.output_names or (), graph.results, strict=True)
    ):
        _, read = graph.output_views.get(index, (None, values[source][1]))
        outputs.append(f"{name!r}: {_read(*values[source], read)}")
    yield folded(f"{variable} = builder.build({{{', '.join(outputs)}}})")


def _read(name: str, written: TensorDesc, read: TensorDesc) -> str:
    """Return the variable `name` as an expression of the tensor `read`."""
    if same_layout(written, read):
        return name
    fields = [f"{list(read.sizes)}"]
    if read.strides is not None:
        fields.append(f"{list(read.strides)}")
    if read.data_type != written.data_type:
        fields.append(f"data_type={read.data_type.suffix!r}")
    return f"{name}.reinterpret({', '.join(fields)})"


def _call(
    node: OperatorNode, names: Sequence[str], inputs: Sequence[tuple[str, TensorDesc]]
) -> str:
    """Return the line that gives `names` the outputs of a node.

    Args:
        node: the node.
        names: the variables of its outputs.
        inputs: the variables that it reads, with their tensors.
    """
    operator = node.operator
    pairs = zip(inputs, operator.inputs, strict=True)
    viewed = [(_read(*value, read), read) for value, read in pairs]
    if node.name is None:
        for given in (inputs, viewed):  # a function broadcasts by itself
            for name, entry in facts.functions().items():
                for is_whole in (False, True) if operator.short_name in entry["operators"] else ():
                    found = _by_function(name, operator, given, is_whole)
                    if found is not None:
                        made = iter(names)
                        left = [next(made) if is_made else "_" for is_made in found[1]]
                        return f"{', '.join(left)} = {found[0]}"
    named = [f"name={node.name!r}"] if node.name else []
    left = ", ".join(names) + "," * (operator.returns_tuple and len(names) == 1)
    arguments = [repr(operator), *(text for text, _ in viewed), *named]
    return f"{left} = builder.apply({', '.join(arguments)})"


def _by_function(
    name: str, operator: Operator, inputs: Sequence[tuple[str, TensorDesc]], is_whole: bool
) -> tuple[str, list[bool]] | None:
    """Return the call of a function that makes `operator`, and which of its results there are.

    None where the call makes another operator. `is_whole` says the sizes and type of the output.
    """
    function: Any = getattr(functional, name)
    builder, read = GraphBuilder(), dict[str, list[Any]]()
    for index, ((text, desc), (_, f, _)) in enumerate(
        zip(inputs, operator.tensors(output=False), strict=True)
    ):
        expression = builder.input_tensor(f"{index}", desc)
        read.setdefault(f, []).append((text, expression))
    values: dict[str, Any] = {} if inputs else {"graph": builder}
    positional, named = [], [] if inputs else ["graph=builder"]
    for argument, parameter in function.__signature__.parameters.items():
        f = function.family.field_of(type(operator), argument)
        value = getattr(operator, argument if f is None else f.name, parameter.default)
        if argument == "graph":
            continue
        if f is not None and f.name in read:
            found = read[f.name]
            value = [e for _, e in found] if f.is_array else found[0][1]
            text = f"[{', '.join(t for t, _ in found)}]" if f.is_array else found[0][0]
        elif f is not None and f.tensor is not None:
            value = value is not None if f.tensor.output else None
            text = repr(value)
        elif f is None and argument in ("output_sizes", "output_data_type"):
            output = operator.outputs[0]
            value = list(output.sizes) if argument == "output_sizes" else output.data_type.suffix
            if not is_whole and parameter.default is not parameter.empty:
                continue
            text = repr(value)
        else:
            text = repr(value) if f is None or value is None else f.kind.shown(value)
        if parameter.default is parameter.empty:
            positional.append(text)
        elif text == repr(parameter.default):
            continue
        else:
            named.append(f"{argument}={text}")
        values[argument] = value
    try:
        results = function(**values)
        listed = list(results) if isinstance(results, tuple) else [results]
        graph = builder.build([result for result in listed if result is not None])
    except (DmlError, TypeError):
        return None
    (*_, node) = graph.nodes
    sources = [(-1, index) for index in range(len(inputs))]
    is_same = len(graph.nodes) == 1 and graph.plan[0][2] == sources
    if not is_same or not isinstance(node, OperatorNode) or node.operator != operator:
        return None
    arguments = ", ".join([*positional, *named])
    return f"dml.{name}({arguments})", [result is not None for result in listed]
