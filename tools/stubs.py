"""Write the type stubs and the table of functions, which follow from `dml_jax.facts`.

    python tools/stubs.py

Type checkers and editors read the stubs in place of modules whose names are made when they are
asked for. Each list has one element a line, so that no formatter changes a file.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dml_jax
from dml_jax import OPERATORS, enums, facts, functional
from dml_jax.description.fields import (
    Array,
    Boolean,
    Choice,
    Field,
    Integer,
    Kind,
    Structure,
    Tensor,
)
from dml_jax.enums import Enumeration, TensorDataType
from dml_jax.operator import Fused, Operator

ROOT = Path(__file__).parents[1]
MADE = "Made by tools/stubs.py."


def block(head: str, items: Iterable[str], tail: str) -> str:
    """Return a bracketed list with one item a line, or on one line where there is none."""
    lines = [f"    {item},\n" for item in items]
    return f"{head}\n{''.join(lines)}{tail}" if lines else f"{head}{tail}"


def indented(text: str) -> str:
    """Return the text as the body of a class."""
    return "".join(f"    {line}" if line.strip() else line for line in text.splitlines(True))


def literals(names: Iterable[str]) -> str:
    """Return the types of the spellings of enumerations, short and full, by which editors complete.

    `TensorDataType` is spelled as dtypes are, too: functions take both.
    """
    made = []
    for name in names:
        enumeration = getattr(enums, name)
        words = [n for n in enumeration.by_name() if n not in ("UNKNOWN", "INVALID")]
        words += [f"{enumeration.prefix}_{word}" for word in words]
        if enumeration is TensorDataType:
            words += ["bfloat16", *(n.lower() for n in words if "_" not in n)]
        made.append(block(f"_{name} = Literal[", [f'"{word}"' for word in words], "]\n"))
    return "".join(made)


def documentation_of(value: Any) -> str:
    """Return a docstring as it stands in a stub."""
    text = (inspect.getdoc(value) or "").replace("\\", "\\\\")
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def summary_of(value: Any) -> str:
    """Return the first paragraph of a docstring, as a docstring of one line or a paragraph."""
    text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\\", "\\\\")
    return f'"""{text}"""' if "\n" not in text else f'"""{text}\n"""'


# What a value is given as, and what it is kept as.


def given_as(kind: Kind) -> str:
    """Return the type that a constructor takes for a kind of field."""
    if isinstance(kind, Array):
        inner = given_as(kind.element)
        return "Integers" if inner == "int" else f"Sequence[{inner}]"
    if isinstance(kind, Choice):
        return f"{kind.enumeration.__name__} | _{kind.enumeration.__name__}"
    if isinstance(kind, Fused):
        return "FusedActivation | type[Operator] | str"
    return kept_as(kind)


def kept_as(kind: Kind) -> str:
    """Return the type of the attribute of a kind of field."""
    if isinstance(kind, Array):
        return f"tuple[{kept_as(kind.element)}, ...]"
    if isinstance(kind, Tensor):
        return "TensorDesc"
    if isinstance(kind, Choice):
        return kind.enumeration.__name__
    if isinstance(kind, Structure):
        return kind.descriptor.__name__
    if isinstance(kind, Fused):
        return "FusedActivation"
    if isinstance(kind, Boolean):
        return "bool"
    return "int" if isinstance(kind, Integer) else "float"


def parameter(f: Field) -> str:
    """Return a field as a parameter of the constructor."""
    return f"{f.name}: {given_as(f.kind)}" + (" | None = None" if f.optional else "")


# Operators.


def implemented() -> list[type[Operator]]:
    """Return the operators of the catalogue that are declared."""
    return [op for op in OPERATORS.values() if op.short_name in facts.catalogue()]


def result_of(op: Any) -> str:
    """Return the type of what a call returns."""
    outputs = op.outputs_of()
    if any(f.is_array for f in outputs) or sum(not f.optional for f in outputs) > 1:
        return "tuple[jax.Array, ...]"
    return "jax.Array" if len(outputs) == 1 else "Any"


def operator_stub(op: Any) -> str:
    """Return the class of an operator."""
    outputs = {f.name for f in op.outputs_of()}
    optional = " | None"
    ignored = "  # pyright: ignore[reportIncompatibleVariableOverride]"
    attributes = [
        f"{f.name}: {kept_as(f.kind)}{optional * f.optional}{ignored * hasattr(Operator, f.name)}\n"
        for f in op.fields
    ]
    made = block("def __init__(", ["self", "*", *map(parameter, op.fields)], ") -> None: ...\n")
    inferred = [parameter(f) for f in op.fields if f.name not in outputs]
    infer = block(
        "@classmethod\ndef infer(",
        [
            "cls",
            "*",
            *inferred,
            "output_data_type: TensorDataType | _TensorDataType | Mapping[str, Any] | None = None",
            f"output_sizes: {sizes_of(len(outputs))} | None = None",
            "outputs: Collection[str] | None = None",
        ],
        ") -> Self: ...\n",
    )
    result = result_of(op)
    call = "def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...\n"
    if result != "Any":
        first = f"@overload\ndef __call__(self, *arrays: ArrayLike) -> {result}: ...\n"
        call = f"{first}@overload\n{call}"
    body = "".join([summary_of(op), "\n\n", *attributes, made, infer, call])
    return f'class {op.__name__}(Operator, op="{op.short_name}"):\n{indented(body)}'


def operators_stub() -> str:
    """Return the stub of `dml_jax.operators`."""
    classes = [operator_stub(op) for op in implemented()]
    text = "\n".join(classes)
    names = [op.__name__ for op in implemented()]
    enumerations = used_enumerations(text)
    head = f'''"""The operators. {MADE}"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Self, overload

import jax
from jax.typing import ArrayLike

from dml_jax.description.descriptor import {used(text, "ScaleBias", "Size2D")}
{block("from dml_jax.enums import (", enumerations, ")")}
from dml_jax.operator import {used(text, "FusedActivation", "Operator")}
from dml_jax.description.tensor import Integers, Placeholder, TensorDesc

'''
    head = head.replace("Mapping, Sequence\n", "Mapping\n") if "Sequence[" not in text else head
    return f"{head}{literals(enumerations)}\n{listed('__all__', names)}\n{text}"


def used(text: str, *names: str) -> str:
    """Return those of the names that a text has, as an import lists them."""
    return ", ".join(name for name in names if name in text)


def used_enumerations(text: str) -> list[str]:
    """Return the enumerations that a text names, in the order of imports."""
    known = {e.__name__ for e in Enumeration.__subclasses__()}
    return sorted(name for name in known if re.search(rf"\b{name}\b", text))


def listed(name: str, values: Sequence[str]) -> str:
    """Return a list of strings."""
    ordered = sorted(values, key=sorting_key)
    return block(f"{name} = [", [f'"{value}"' for value in ordered], "]\n")


# Functions.


_BY_NAME = "TensorDataType | _TensorDataType"
_DATA_TYPE = f"{_BY_NAME} | type[Any] | np.dtype[Any]"


def argument_type(family: Any, argument: str) -> str:
    """Return the type of an argument of a function."""
    fields = [
        f for f in (family.field_of(op, argument) for op in family.operators) if f is not None
    ]
    name = family.fields.get(argument, argument)
    if argument == "graph":
        return "None"
    if argument in family.tensors:
        inputs = [f for f in fields if f.tensor]
        return "Sequence[Given[Value]]" if inputs[0].is_array else "Given[Value]"
    if fields and fields[0].tensor:
        return "bool"  # whether an optional output is made
    if name == "output_data_type":
        return _DATA_TYPE
    if fields:
        types = dict.fromkeys(given_as(f.kind).replace(_BY_NAME, _DATA_TYPE) for f in fields)
        wide = [t for t in types if not (t == "int" and "float" in types)]
        listed_ = "Integers | int" if "Integers" in wide else ""
        return listed_ or " | ".join(wide)
    if name == "output_sizes" and family.outputs is not None:
        return sizes_of(len(family.results))
    return "Integers" if name.endswith("sizes") else "Any"


def sizes_of(outputs: int) -> str:
    """Return the type of the sizes of some outputs: of the first, of each, or by field."""
    by_output = "Sequence[Integers | None] | " if outputs > 1 else ""
    return f"Integers | {by_output}Mapping[str, Integers]"


def default_of(parameter: inspect.Parameter) -> str:
    """Return the default of a parameter as it stands behind it."""
    default = parameter.default
    shown = repr(default)
    return "" if default is parameter.empty else f" = {shown}"


def quoted(text: str) -> str:
    """Return Python's text with double quotes."""
    return text.replace("'", '"')


def function_stub(name: str) -> str:
    """Return a function, and the class of its results."""
    family = getattr(functional, name).family
    parameters = []
    for p in family.signature.parameters.values():
        kind = argument_type(family, p.name)
        given = [
            f for f in (family.field_of(op, p.name) for op in family.operators) if f is not None
        ]
        may_be_none = p.default is p.empty and any(given) and all(f.optional for f in given)
        is_none = (p.default is None and kind != "None") or may_be_none
        parameters.append(f"{p.name}: {kind}{' | None' * is_none}{quoted(default_of(p))}")
    newest = family.operators[-1]
    is_list = any(f.is_array for f in newest.outputs_of())
    result = "tuple[Value, ...]" if is_list else "Value"
    classes = ""
    if family.outputs is not None:
        outputs = family.operators[-1].outputs_of()
        rows = []
        for index, field in enumerate(family.results):
            f = outputs[index] if index < len(outputs) else None
            is_there = f is not None and not f.optional
            clash = "  # pyright: ignore[reportIncompatibleMethodOverride]"
            note = clash if hasattr(tuple, field) else ""
            rows.append(f"    {field}: Value{'' if is_there else ' | None'}{note}\n")
        result = f"{family.outputs.__name__}[Value]"
        classes = f"class {family.outputs.__name__}(NamedTuple, Generic[Value]):\n{''.join(rows)}\n"
    text = documentation_of(getattr(functional, name))
    if "graph" not in family.defaults:
        body = indented(f"{text}\n")
        return f"{classes}{block(f'def {name}(', parameters, f') -> {result}:')}\n{body}"
    expressions = [p.replace("graph: None = None", "graph: GraphBuilder") for p in parameters]
    expressions.insert(len(expressions) - 1, "*")
    arrays = result if family.tensors else result.replace("Value", "jax.Array")
    first = block(f"@overload\ndef {name}(", parameters, f") -> {arrays}:")
    second = block(
        f"@overload\ndef {name}(", expressions, f") -> {result.replace('Value', 'Expression')}: ..."
    )
    return f"{classes}{first}\n{indented(text)}\n\n{second}\n"


def functional_stub() -> str:
    """Return the stub of `dml_jax.functional`."""
    names = functional.FUNCTIONS
    text = "\n".join(map(function_stub, names))
    typing = ["Any"] * ("Any" in text) + ["Generic"] * ("NamedTuple" in text)
    typing += ["Literal"] + ["NamedTuple"] * ("NamedTuple" in text)
    typing += ["overload"] * ("@overload" in text)
    typed = f"from typing import {', '.join(typing)}\n" if typing else ""
    graph = "Expression" + ", GraphBuilder" * ("GraphBuilder" in text)
    structures = used(text, "ScaleBias", "Size2D")
    fused = "from dml_jax.operator import FusedActivation, Operator\n" * ("FusedActivation" in text)
    head = f'''"""Operators as functions of arrays and expressions. {MADE}"""

from collections.abc import {"Mapping, " * ("Mapping[" in text)}Sequence
{typed}
import jax
import numpy as np
from jax.typing import ArrayLike
from typing_extensions import TypeVar

from dml_jax.description.descriptor import {structures}
{block("from dml_jax.enums import (", used_enumerations(text), ")")}
from dml_jax.graph import {graph}
{fused}from dml_jax.description.tensor import Integers

Value = TypeVar("Value", jax.Array, Expression, default=jax.Array)
Given = Value | ArrayLike

FUNCTIONS: list[str]

'''
    names = literals(used_enumerations(text))
    return f"{head}{names}\n{listed('__all__', functional.__all__)}\n{text}"


# The package.


def package_stub() -> str:
    """Return the stub of `dml_jax`."""
    places = dict(vars(dml_jax)["_PLACES"])
    places["functional"] = tuple(functional.FUNCTIONS)
    places["operators"] = tuple(op.__name__ for op in implemented())
    lines = [f'"""{(dml_jax.__doc__ or "").strip()}\n\n{MADE}\n"""\n\n']
    modules = [f"{name} as {name}" for name in vars(dml_jax)["_MODULES"]]
    lines.append(block("from dml_jax import (", modules, ")\n"))
    for module in sorted(places):
        names = sorted(places[module], key=sorting_key)
        lines.append(block(f"from dml_jax.{module} import (", [f"{n} as {n}" for n in names], ")"))
        lines.append("\n")
    lines += ["\n__version__: str\n\n", listed("__all__", dml_jax.__all__)]
    return "".join(lines)


def sorting_key(name: str) -> tuple[int, str]:
    """Return what imports are sorted by: constants, classes, functions."""
    return 0 if name.isupper() else 1 if name[0].isupper() else 2, name


# The table of functions.


def directmlx_name(name: str) -> str:
    """Return the name that DirectMLX has for a function, or nothing."""
    return facts.functions()[name].get("directmlx", "")


def row(name: str) -> str:
    """Return the row of a function in the table."""
    entry = facts.functions()[name]
    arguments = ", ".join(entry["arguments"])
    operators = ", ".join(f"`{op}`" for op in entry["operators"])
    other = directmlx_name(name)
    return f"| `{name}` | `{arguments}` | {operators} | {f'`{other}`' if other else ''} |\n"


def table() -> str:
    """Return the page of the functions."""
    rows = "".join(map(row, functional.FUNCTIONS))
    return f"""# Functions

Every function takes arrays and returns arrays, or takes expressions of a `GraphBuilder` and returns
expressions. It makes the lowest version of its operator that expresses the arguments. Sizes are
broadcast as NumPy does, and types are never promoted.

Comparisons and logic return UINT8, 1 where true and 0 elsewhere: `y != 0` is a mask of bool.
Indices are UINT32: cast them before a subtraction. `output_data_type` chooses another type.

An empty cell in the last column means that DirectMLX has no function for the operator.

| function | arguments | makes | DirectMLX |
| --- | --- | --- | --- |
{rows}
{MADE}
"""


FILES: Mapping[str, Callable[[], str]] = {
    "dml_jax/__init__.pyi": package_stub,
    "dml_jax/functional/__init__.pyi": functional_stub,
    "dml_jax/operators/__init__.pyi": operators_stub,
    "docs/functions.md": table,
}


def stale() -> Iterator[str]:
    """Yield the files that are not what they would be made as."""
    for name, make in FILES.items():
        path = ROOT / name
        if not path.exists() or path.read_text() != make():
            yield name


if __name__ == "__main__":
    for name in list(stale()):
        (ROOT / name).write_text(FILES[name]())
