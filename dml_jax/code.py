"""Graphs as Python programs: functions where one makes the node, else descriptors."""

import ast
import base64
import io
import itertools
import keyword
import re
import textwrap
import tokenize
import zlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

import dml_jax
from dml_jax import facts, functional
from dml_jax.errors import DmlError
from dml_jax.graph import ConstantNode, Graph, GraphBuilder, OperatorNode, Source
from dml_jax.graph.parts import same_layout
from dml_jax.operator import Operator
from dml_jax.tensor import TensorDesc

_WIDTH = 96
_SHORT = 16  # elements of a constant that are written as numbers


def program(graph: Graph) -> str:
    """Return a Python program that builds `graph`, as its variable `graph`."""
    tensors = [tensor for _, tensor in graph._described()]
    body = "\n".join([*statements(graph), ""])
    return f'"""Builds a graph: {graph.describe()}."""\n\n{head(body, tensors)}\n{body}'


def head(body: str, tensors: Collection[TensorDesc]) -> str:
    """Return the imports that the lines `body` need, and the setting that `tensors` need."""
    names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    is_wide = any(t.data_type.name.endswith("64") for t in tensors)
    lines = [f"import {name}" for name in ("base64", "zlib") if name in names]
    lines += ["from pathlib import Path"] * ("Path" in names)
    outer = ["import jax"] * is_wide + ["import numpy as np"] * ("np" in names)
    lines += ["", *outer] if lines and outer else outer
    lines += [""] * bool(lines) + ["import dml_jax as dml"] * ("dml" in names)
    own = sorted(names & {*dml_jax.__all__})
    lines.append(folded(f"from dml_jax import ({', '.join(own)},)"))
    if is_wide:
        lines += ["", 'jax.config.update("jax_enable_x64", True)']
    return "\n".join([*lines, ""])


def statements(graph: Graph, variable: str = "graph", taken: Collection[str] = ()) -> Iterator[str]:
    """Yield the lines that build `graph` as `variable`; the names `taken` are not used."""
    known = {*taken, *dml_jax.__all__, *keyword.kwlist, "builder", "dml", "np", "jax", variable}
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
        yield folded(_call(node, names, [values[source] for source in sources]))
    outputs = []
    for index, (name, source) in enumerate(
        zip(graph.output_names or (), graph.results, strict=True)
    ):
        _, read = graph.output_views.get(index, (None, values[source][1]))
        outputs.append(f"{name!r}: {_read(*values[source], read)}")
    yield folded(f"{variable} = builder.build({{{', '.join(outputs)}}})")


def variable_of(name: str, known: set[str]) -> str:
    """Return a variable for `name`, and add it to the names that are `known`."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") or "x"
    word = f"x{word}" if word[0].isdigit() else word
    numbered = (f"{word}_{number}" for number in itertools.count(1))
    chosen = word if word not in known else next(n for n in numbered if n not in known)
    known.add(chosen)
    return chosen


def array_code(array: np.ndarray) -> str:
    """Return an array as Python: its numbers if they are few, else its bytes."""
    if array.size <= _SHORT and np.isfinite(array.astype(np.float64)).all():
        return f"np.array({array.tolist()}, {array.dtype.name!r})"
    text = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
    parts = "\n".join(f'"{part}"' for part in textwrap.wrap(text, _WIDTH - 6))
    packed = f"zlib.decompress(base64.b64decode(\n{textwrap.indent(parts, '    ')}\n))"
    return f"np.frombuffer({packed}, {array.dtype.name!r}).reshape({list(array.shape)})"


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


def folded(line: str) -> str:
    """Return a line of Python in lines that are not too long, broken after commas in brackets."""
    if len(line) <= _WIDTH:
        return line
    rows = line.splitlines(keepends=True)
    starts = [sum(map(len, rows[:k])) for k in range(len(rows))]
    ends, depth = [0], 0
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.string, 0)
        if token.type == tokenize.OP and token.string == "," and depth:
            ends.append(starts[token.end[0] - 1] + token.end[1])
    parts = [line[a:b] for a, b in itertools.pairwise([*ends, len(line)])]
    made = [parts[0]]
    for part in parts[1:]:
        if len(made[-1].rpartition("\n")[2]) + len(part.partition("\n")[0]) > _WIDTH:
            made.append("    " + part.lstrip())
        else:
            made[-1] += part
    return "\n".join(made)
