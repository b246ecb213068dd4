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
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import dml_jax
from dml_jax import facts, functional
from dml_jax.description.fields import Field
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import Enumeration
from dml_jax.errors import DmlError
from dml_jax.graph import ConstantNode, Expression, Graph, GraphBuilder, OperatorNode, Source
from dml_jax.graph.parts import same_layout
from dml_jax.operator import Operator

_WIDTH = 96
_NAME_MAX = 40  # characters of a variable
_SHORT = 16  # elements of a constant that are written as numbers
_IMPORTS = {
    "base64": "import base64",
    "zlib": "import zlib",
    "Path": "from pathlib import Path",
    "jax": "import jax",
    "np": "import numpy as np",
    "dml": "import dml_jax as dml",
    "write_file": "from dml_jax.dxdispatch.executor import write_file",
    "read_image": "from dml_jax.dxdispatch.resources import read_image",
}

Value = tuple[str, TensorDesc]
"""A variable of a program, and the tensor that it stands for."""


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
    known = {*taken, *reserved_names(), variable}
    values: dict[Source, Value] = {}
    yield "builder = GraphBuilder()"
    for source, name, tensor in graph.named_inputs:
        values[source] = variable_of(name, known), tensor
        yield folded(f"{values[source][0]} = builder.input_tensor({name!r}, {tensor!r})")
    plan = list(graph.plan)
    if all(source < index for index, _, sources in plan for source, _ in sources):
        plan.sort(key=lambda step: step[0])  # the nodes keep their places
    for index, node, sources in plan:
        tensors = [tensor for _, tensor in node.slots(output=True) if tensor is not None]
        word = node.name or ("constant" if isinstance(node, ConstantNode) else "y")
        made = [(variable_of(word, known), tensor) for tensor in tensors]
        values |= {(index, k): value for k, value in enumerate(made)}
        if isinstance(node, ConstantNode):
            named = f", {node.name!r}" if node.name else ""
            yield folded(f"{made[0][0]} = builder.constant({array_code(node.array)}{named})")
        elif isinstance(node, OperatorNode):
            yield folded(_call(node, [name for name, _ in made], [values[s] for s in sources]))
    outputs = []
    for index, source in enumerate(graph.results):
        _, read = graph.output_views.get(index, (None, values[source][1]))
        outputs.append(f"{(graph.output_names or ())[index]!r}: {_read(*values[source], read)}")
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


def _call(node: OperatorNode, names: Sequence[str], inputs: Sequence[Value]) -> str:
    """Return the line that gives `names` the outputs of a node, which reads `inputs`."""
    operator = node.operator
    viewed = [(_read(*v, t), t) for v, t in zip(inputs, operator.inputs, strict=True)]
    named = f", name={node.name!r}" if node.name else ""
    # A function broadcasts by itself, so that it may read the inputs without their views.
    for values in (inputs, viewed) if node.name is None else ():
        call = function_call(operator, values)
        if call is not None:
            left = iter(names)
            results = ", ".join(next(left) if there else "_" for there in call[1])
            text = call[0] if inputs else f"{call[0].removesuffix(')')}, graph=builder)"
            return f"{results} = dml.{text}"
    left = ", ".join(names) + "," * (operator.returns_tuple and len(names) == 1)
    return f"{left} = builder.apply({', '.join([repr(operator), *(v for v, _ in viewed)])}{named})"


def function_call(operator: Operator, inputs: Sequence[Value]) -> tuple[str, list[bool]] | None:
    """Return the call of a function that makes `operator` of the variables `inputs`.

    The second part says which of its results there are. None where no function makes `operator`.
    """
    for name, entry in facts.functions().items():
        if operator.short_name in entry["operators"]:
            # The shorter call first: it infers the sizes and the type of the output.
            for is_whole in (False, True):
                call = _by_function(name, operator, inputs, is_whole)
                if call is not None:
                    return call
    return None


def _by_function(
    name: str, operator: Operator, inputs: Sequence[Value], is_whole: bool
) -> tuple[str, list[bool]] | None:
    """Return the call of a function that makes `operator`, and which of its results there are.

    None where the call makes another operator. `is_whole` says the sizes and type of the output.
    """
    function: Any = getattr(functional, name)
    builder, read = GraphBuilder(), dict[str, list[Expression]]()
    for index, (_, desc) in enumerate(inputs):
        expression = builder.input_tensor(f"{index}", desc)
        read.setdefault([*operator.tensors(output=False)][index][1], []).append(expression)
    values: dict[str, Any] = {} if inputs else {"graph": builder}
    arguments = list[str]()
    for argument, parameter in function.__signature__.parameters.items():
        f = function.family.field_of(type(operator), argument)
        is_needed = parameter.default is parameter.empty
        if argument == "graph" or not (
            f or is_whole or is_needed or argument in operator.arguments
        ):
            continue
        value = _argument(operator, argument, f, read, parameter.default)
        values[argument], text = value, _shown(value, f, inputs)
        if is_needed or text != repr(parameter.default):
            arguments.append(text if is_needed else f"{argument}={text}")
    try:
        results = function(**values)
        listed = list(results) if isinstance(results, tuple) else [results]
        graph = builder.build([result for result in listed if result is not None])
    except (DmlError, TypeError):
        return None
    sources = [(-1, index) for index in range(len(inputs))]
    if graph.nodes != (OperatorNode(operator),) or graph.plan[0][2] != sources:
        return None
    return f"{name}({', '.join(arguments)})", [result is not None for result in listed]


def _argument(
    operator: Operator,
    name: str,
    f: Field | None,
    read: Mapping[str, list[Expression]],
    default: Any,
) -> Any:
    """Return the argument of a function that gives the field `f`, or another one, of `operator`.

    `read` has the expressions of its input tensors.
    """
    if f is not None and f.name in read:
        return read[f.name] if f.is_array else read[f.name][0]
    if f is not None and f.tensor is not None:
        return getattr(operator, f.name) is not None if f.tensor.output else None
    if f is None and name == "output_sizes":
        return list(operator.outputs[0].sizes)
    if f is None and name == "output_data_type":
        return operator.outputs[0].data_type.suffix
    return getattr(operator, name if f is None else f.name, default)


def _shown(value: Any, f: Field | None, inputs: Sequence[Value]) -> str:
    if isinstance(value, Expression):
        return inputs[value.source[1]][0]
    if isinstance(value, list) and f is not None:
        return f"[{', '.join(_shown(item, f, inputs) for item in value)}]"
    if f is None or f.tensor is not None or value is None:
        return repr(value.suffix if isinstance(value, Enumeration) else value)
    return f.kind.shown(value)


def head(body: str, tensors: Collection[TensorDesc]) -> str:
    """Return the imports that the lines `body` need, and the setting that `tensors` need."""
    names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    is_wide = any(t.data_type.name.endswith("64") for t in tensors)
    names |= {"jax"} if is_wide else set()
    own = folded(f"from dml_jax import ({', '.join(sorted(names & _classes()))})")
    own = own if "\n" in own else own.replace("(", "").replace(")", "")
    groups: tuple[list[str], ...] = [], [], []
    for name, line in _IMPORTS.items():
        module = line.split()[1].partition(".")[0]
        group = 2 if module == "dml_jax" else 1 if module in ("jax", "numpy") else 0
        groups[group].extend([line] * (name in names))
    groups[2].insert("dml" in names, own)
    setting = ['jax.config.update("jax_enable_x64", True)'] * is_wide
    parts = ["\n".join(group) for group in (*groups, setting) if group]
    return "\n\n".join(parts) + "\n"


def reserved_names() -> set[str]:
    """Return the names that are no variables of a program."""
    return {*keyword.kwlist, *_classes(), *_IMPORTS, "builder", "print"}


def _classes() -> set[str]:
    return {name for name in dml_jax.__all__ if not name.islower()}


def variable_of(name: str, known: set[str]) -> str:
    """Return a variable for `name`, and add it to the names that are `known`."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:_NAME_MAX] or "x"
    word = f"x{word}" if word[0].isdigit() else word
    numbered = (f"{word}_{number}" for number in itertools.count(1))
    chosen = next(name for name in itertools.chain([word], numbered) if name not in known)
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


def folded(line: str) -> str:
    """Return a line of Python in lines that are not too long, broken within brackets."""
    if len(line) <= _WIDTH:
        return line
    starts = [0, *itertools.accumulate(map(len, line.splitlines(keepends=True)))]
    ends, depth = [0], 0  # behind brackets and commas
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if depth and token.string in ",([{":
                ends.append(starts[token.end[0] - 1] + token.end[1])
    made = [""]
    for part in (line[a:b] for a, b in itertools.pairwise([*ends, len(line)])):
        if len(made[-1].rpartition("\n")[2]) + len(part.partition("\n")[0]) > _WIDTH:
            made.append("    " + part.lstrip())
        else:
            made[-1] += part
    return "\n".join(made)
