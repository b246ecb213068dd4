"""The pages that are made, not written: operators from their declarations, the README as home.

`pages()` is all of them by path; `generate.py` hands them to mkdocs, and the tests run their
snippets.
"""

import pprint
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import dml_jax
from dml_jax import OPERATORS, Operator, TensorDesc, functional
from dml_jax.bench.cells import cells
from dml_jax.documentation import (
    Documentation,
    Matrix,
    matrices,
    shown_ranks,
    takes,
)
from dml_jax.enums import TensorDataType
from dml_jax.fields import Array, Choice, Field, Real, Scalar
from dml_jax.support import ALL_BUT_FLOAT64, ALL_TYPES, FLOATS, TO_32_BITS

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tests")]

from facts import Example, examples  # noqa: E402  (tests/facts.py)
from pictures import curve, example_picture  # noqa: E402

LEARN = "https://learn.microsoft.com/windows/win32/api/directml/ns-directml-"

GUIDES = {  # in the order of the site; those that are there
    "examples.md": "Examples",
    "guides/command-line.md": "Command line",
    "guides/port-dxdispatch.md": "From DxDispatch",
    "guides/port-directmlx.md": "From DirectMLX, PyDirectML",
    "guides/training.md": "In a training loop",
    "guides/sharding.md": "Sharding",
    "benchmarks.md": "Reading the roofline",
    "guides/errors.md": "Errors and remedies",
    "faults.md": "When things go wrong",
    "guides/inside.md": "How it works inside",
    "add-an-operator.md": "Add an operator",
}
RESULTS = {
    "measurements.md": "Measurements",
    "limits.md": "Out of reach",
    "forms.md": "Forms, and what they gain",
    "conformance.md": "Conformance",
}
REFERENCE = {
    "Tensors and descriptors": [
        "tensor.TensorDesc",
        "tensor.calc_buffer_tensor_size",
        "descriptor.ScaleBias",
        "operator.Operator",
        "operator.operator_from_json",
        "operator.OPERATORS",
    ],
    "Functions": [
        f"functional.{name}"
        for name in dml_jax.__all__
        if getattr(functional, name, None) is getattr(dml_jax, name)
        and callable(getattr(dml_jax, name))
        and name.islower()
    ],
    "Graphs": [
        "graph.Graph",
        "graph.GraphBuilder",
        "graph.Expression",
        "graph.OperatorNode",
        "graph.ConstantNode",
        "graph.InputEdge",
        "graph.IntermediateEdge",
        "graph.OutputEdge",
    ],
    "Compiled operators and memory": [
        "compiled.compile",
        "compiled.Compiled",
        "compiled.Cost",
        "binding_table.Buffer",
        "binding_table.BufferBinding",
        "binding_table.BindingTable",
    ],
    "DxDispatch models": [
        "dispatch.model.load_model",
        "dispatch.run.run_model",
        "dispatch.model.Model",
    ],
    "Enumerations": [
        "enums.TensorDataType",
        "enums.TensorFlags",
        "enums.ReduceFunction",
        "enums.AxisDirection",
        "enums.DepthSpaceOrder",
        "enums.FeatureLevel",
    ],
    "Errors": ["errors.DmlError", "errors.Fault"],
}
_DESCRIBED = "inputs outputs validate minimum_feature_level refusals to_json from_json replace"
MEMBERS = {  # those that users call, inherited ones too; of what is not listed, its own
    "operator.Operator": f"infer __call__ whole {_DESCRIBED} in_place describe "
    "c_name fields check expected_sizes because same_data_type inferred_data_type lower",
    "graph.Graph": f"__call__ whole {_DESCRIBED} input_names output_names save load",
    "graph.GraphBuilder": "input_tensor constant apply build",
    "graph.Expression": "desc sizes shape dtype",
    "descriptor.ScaleBias": "scale bias replace to_json from_json",
    "tensor.TensorDesc": "of read write span is_packed packed_strides dimension_count dtype "
    "has_distinct_addresses implied_size_in_bytes to_json from_json",
    "compiled.Compiled": "inputs outputs __call__ bind cost as_text export",
    "binding_table.Buffer": "array of size_in_bytes block_until_ready",
    "errors.DmlError": "faults operator field rule value",
}


def pages() -> Iterator[tuple[str, str | bytes]]:
    """(path, content) of every page and picture that is made."""
    yield "index.md", home()
    yield "contributing.md", (ROOT / "CONTRIBUTING.md").read_text()
    yield "changelog.md", (ROOT / "CHANGELOG.md").read_text()
    yield "operators/index.md", catalogue()
    by_name = _examples()
    for op in OPERATORS.values():
        pictures = dict(_pictures(op, by_name.get(op.c_name, [])))
        yield from pictures.items()
        yield page_of(op), operator_page(op, by_name.get(op.c_name, []), list(pictures))
    yield "reference.md", reference()
    yield "SUMMARY.md", navigation()
    for path in re.findall(r"\]\((examples/images/[^)]+)\)", (ROOT / "README.md").read_text()):
        if not path.endswith(".md"):
            yield path, (ROOT / path).read_bytes()


def page_of(op: type[Operator]) -> str:
    return f"operators/{op.short_name.lower()}.md"


def home() -> str:
    """The README, with the links that the site can follow."""
    text = re.sub(r"<!--.*?-->\n", "", (ROOT / "README.md").read_text())
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
    text = text.replace("](CHANGELOG.md)", "](changelog.md)")
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?:examples/|LICENSE|CITATION)[^)]*\)", r"\1", text)


def navigation() -> str:
    """The site's menu, for mkdocs-literate-nav."""
    here = ROOT / "docs"

    def items(pages: dict[str, str]) -> list[str]:
        return [
            f"    * [{title}]({path})" for path, title in pages.items() if (here / path).exists()
        ]

    ops = [f"    * [{op.short_name}]({page_of(op)})" for op in OPERATORS.values()]
    lines = [
        "* [Home](index.md)",
        "* Guides",
        *items(GUIDES),
        "* Operators",
        "    * [Feature levels](operators/index.md)",
        *ops,
        "* Reference",
        "    * [Model format](models.md)",
        "    * [Python](reference.md)",
        "* Results",
        *items(RESULTS),
        "* Project",
        "    * [Contributing](contributing.md)",
        "    * [Changelog](changelog.md)",
    ]
    return "\n".join(lines) + "\n"


def reference() -> str:
    """Every public name, by mkdocstrings; the operators have pages of their own."""
    parts = ["# Python reference", "The operators have [pages of their own](operators/index.md)."]
    for title, names in REFERENCE.items():
        parts.append(f"## {title}")
        parts += map(_entry, names)
    return "\n\n".join(parts) + "\n"


def _entry(name: str) -> str:
    entry = f"::: dml_jax.{name}"
    if name in MEMBERS:
        members = ", ".join(MEMBERS[name].split())
        entry += f"\n    options:\n      inherited_members: true\n      members: [{members}]"
    return entry


# The catalogue.


def catalogue() -> str:
    """All operators, and what each feature level takes of them."""
    return (
        "\n\n".join(
            [
                "---\nhide: [toc]\n---\n\n# Operators by feature level",
                "What each feature level takes of each operator: ranks, and data types. A level "
                "takes what lower ones do; those that change nothing here are left out. Made from "
                "the declarations, as are the operators' pages.",
                _level_table(),
                '"All of up to 32 bits" are FLOAT32, FLOAT16 and the integers of 8, 16 and 32 '
                "bits. The 4-bit types are tensors' only: none of these operators takes them. "
                "Where tensors of one operator differ, the first input stands here.",
                "## What each operator does",
                "\n".join(
                    [
                        "| operator | | in place |",
                        "| --- | --- | --- |",
                        *(
                            f"| {_link(op)} | {Documentation.of(op).summary} "
                            f"| {'yes' if op.in_place else ''} |"
                            for op in OPERATORS.values()
                        ),
                    ]
                ),
            ]
        )
        + "\n"
    )


def _link(op: type[Operator]) -> str:
    return f"[{op.short_name}]({page_of(op).removeprefix('operators/')})"


def _level_table() -> str:
    tables = {op: _of_first_input(op) for op in OPERATORS.values()}
    levels = sorted({level for ms in tables.values() for m in ms for level in m.ranks})
    lines = [
        f"| operator | {' | '.join(level.suffix for level in levels)} |",
        f"| --- |{' --- |' * len(levels)}",
    ]
    for op, ms in tables.items():
        for m in ms:
            group = f"<br><small>{', '.join(m.group)}</small>" if m.group else ""
            cells, before = [], None
            for level in levels:
                by_type = m.ranks.get(level, before)
                cells.append("" if by_type is before and before else _summary(by_type))
                before = by_type
            lines.append(f"| {_link(op)}{group} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_first_input(op: type[Operator]) -> list[Matrix]:
    first = next(f.c_name for f in op.fields if f.tensor and not f.tensor.output)
    return [m for m in matrices(op) if not m.tensors or first in m.tensors]


_SETS = {
    frozenset(names.split()): words
    for names, words in (
        (FLOATS, "FLOAT32, FLOAT16"),
        (TO_32_BITS, "all of up to 32 bits"),
        (ALL_BUT_FLOAT64, "all but FLOAT64"),
        (ALL_TYPES, "all"),
    )
}


def _shown_types(types: Any) -> str:
    """`all but FLOAT64` for a set of types that the pages often use, else their names."""
    names = [t.name for t in types]
    return _SETS.get(frozenset(names)) or ", ".join(names)


def _summary(by_type: Any) -> str:
    """`4`, and below it `FLOAT32, FLOAT16`."""
    if not by_type:
        return "-"
    low, high = min(r[0] for r in by_type.values()), max(r[1] for r in by_type.values())
    return f"<nobr>**{shown_ranks((low, high))}**</nobr><br>{_shown_types(by_type)}"


# An operator's page.


def operator_page(op: type[Operator], shown: list[tuple[str, Example]], pictures: list[str]) -> str:
    text, name = Documentation.of(op), op.short_name
    function = _function(op)
    facts = [
        f"In Python `dml_jax.{op.__name__}`{f', as a function {function}' if function else ''}."
    ]
    facts.append(f"From feature level {op.support.introduced} on.")
    parts = [
        f"# {name}",
        text.summary,
        " ".join(facts),
        "## Formula",
        *text.formula,
        "## Examples",
        *_shown(op, text, shown, pictures),
        "## Fields",
        _fields(op, text),
        "## Feature levels",
        "The ranks that each level takes, by data type.",
        *(_matrix(m) for m in matrices(op)),
        "## Gradient",
        text.gradient[:1].upper() + text.gradient[1:],
        "## Memory",
        _memory(op),
    ]
    if text.choices:
        parts += [
            "## Choices",
            "Where DirectML's documentation is silent, this is what holds here:",
        ]
        parts.append("\n".join(_choices(text)))
    page = f"{LEARN}{text.source.lower()}"
    parts += ["## Source", f"[{text.source}]({page}), in DirectML's documentation."]
    return "\n\n".join(parts) + "\n"


def _function(op: type[Operator]) -> str:
    """`dml_jax.reduce(...)`, where a function makes this very operator."""
    for name in dml_jax.__all__:
        function = getattr(dml_jax, name)
        doc = getattr(function, "__doc__", None) or ""
        if name.islower() and re.search(rf"\b{op.c_name}\b", doc) and callable(function):
            return f"`dml_jax.{name}`"
    return ""


def _fields(op: type[Operator], text: Documentation) -> str:
    lines = ["| field | | takes | in DirectML.h |", "| --- | --- | --- | --- |"]
    for f in op.fields:
        counted = f" (with {f.count})" if f.count else ""
        said = text.fields.get(f.name, "")
        lines.append(f"| `{f.name}` | {said} | {_takes(f)} | {f.c_name}{counted} |")
    return "\n".join(lines)


def _takes(field: Field) -> str:
    kind: Any = field.kind.element if isinstance(field.kind, Array) else field.kind
    if isinstance(kind, Choice) and kind.enumeration is not dml_jax.TensorDataType:
        return ", ".join(f"`{member.suffix}`" for member in kind.enumeration)
    return takes(field)


def _matrix(m: Matrix) -> str:
    lines = [f"**{m.title}**\n"] if m.title else []
    lines.append(f"| | {' | '.join(level.suffix for level in m.ranks)} |")
    lines.append(f"| --- |{' :-: |' * len(m.ranks)}")
    for data_type in m.types:
        cells = (shown_ranks(r.get(data_type)) or "-" for r in m.ranks.values())
        lines.append(f"| {data_type.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _memory(op: type[Operator]) -> str:
    inputs = [f.c_name for f in op.fields if f.tensor and not f.tensor.output]
    place = (
        f"**In place:** an output may be bound to the very memory of {' or '.join(inputs)}, with "
        "the same strides."
        if op.in_place
        else "**In place:** no. An output may overlap no input."
    )
    return (
        "**Strides:** every tensor may have its own. An input may broadcast (stride 0), transpose "
        "or pad; each element of an output needs an address of its own, and what lies between its "
        "elements is kept. They matter where memory is bound, not where arrays are passed.\n\n"
        + place
    )


def _choices(text: Documentation) -> list[str]:
    """A list; fields that one sentence is about stand together."""
    together: dict[str, list[str]] = {}
    for field, choice in text.choices:
        together.setdefault(choice, []).append(field)
    return [
        f"- {', '.join(f'`{f}`' for f in fields) + ': ' if fields[0] else ''}{choice}"
        for choice, fields in together.items()
    ]


def _examples() -> dict[str, list[tuple[str, Example]]]:
    found: dict[str, list[tuple[str, Example]]] = {}
    for title, example in examples():
        found.setdefault(example.op.c_name, []).append((title.partition(": ")[2], example))
    return found


def _pictures(op: type[Operator], shown: list[tuple[str, Example]]) -> Iterator[tuple[str, str]]:
    stem = page_of(op).removesuffix(".md")
    for number, (_, example) in enumerate(shown):
        yield f"{stem}-{number + 1}.svg", example_picture(*example)
    if not shown and op.by_element:  # what it makes of each
        x = np.linspace(-1, 3, 401, dtype=np.float32)
        (cell, *_) = cells([op.short_name], [TensorDataType.FLOAT32], limit=2**12)
        tensors = {f.name: TensorDesc.of(x) for f in op.fields if f.tensor}
        assert isinstance(cell.function, Operator)
        made = cell.function.replace(**tensors)
        arrays = [x, *(np.ones_like(x) for _ in made.inputs[1:])]
        numbers = [f for f in op.fields if isinstance(f.kind, (Real, Scalar))]
        told = " and ".join(f"{f.c_name} {getattr(made, f.name):.3g}" for f in numbers)
        label = f"the result for each x{', with ' * bool(told)}{told}"
        yield f"{stem}-1.svg", curve(made, arrays, label)


def _shown(
    op: type[Operator], text: Documentation, shown: list[tuple[str, Example]], pictures: list[str]
) -> Iterator[str]:
    for number, (title, example) in enumerate(shown):
        sizes = " and ".join(t.shown() for t in example.op.inputs)
        plain = re.sub(r"^Example( \w+)?(: )?", "", title) or "from the documentation"
        yield f"### {plain[:1].upper()}{plain[1:]}"
        picture = Path(pictures[number]).name
        yield f"![{op.short_name} of {sizes}: where each element goes]({picture}){{ .tensors }}"
        yield snippet(example)
    if not shown and pictures:
        picture = Path(pictures[0]).name
        yield f"![{op.short_name} as a curve: its result for each x]({picture}){{ .tensors }}"
    if text.example:
        yield f"```python\n{text.example}\n\n```"


def snippet(example: Example) -> str:
    """A worked example as what one types, and what the documentation says comes out."""
    op, inputs, outputs = example
    name = type(op).__name__
    values = [(f, getattr(op, f.name)) for f in op.fields]
    lines = [
        ">>> import jax.numpy as jnp",
        f">>> from dml_jax import {', '.join(sorted([name, 'TensorDesc']))}",
        f">>> op = {name}(",
        *(f"...     {f.name}={f.kind.shown(v)}," for f, v in values if v is not None),
        "... )",
    ]
    names = ["x"] if len(inputs) == 1 else [f"x{k}" for k in range(len(inputs))]
    for variable, array in zip(names, inputs, strict=True):
        flat = pprint.pformat(array.ravel().tolist(), width=76, compact=True).splitlines()
        tail = f".reshape({', '.join(map(str, array.shape))})" if array.ndim > 1 else ""
        if len(flat) == 1 and len(flat[0] + tail) < 60:
            lines.append(f">>> {variable} = jnp.array({flat[0]}, jnp.{array.dtype}){tail}")
        else:
            numbers = "\n".join(flat) + f",\njnp.{array.dtype},"
            lines.append(f">>> {variable} = jnp.array(")
            lines += (f"...     {line}" for line in numbers.splitlines())
            lines.append(f"... ){tail}")
    call = f"op({', '.join(names)})"
    many = any(f.is_array for f in op.fields if f.tensor and f.tensor.output)
    results: Any = [y.tolist() for y in outputs]
    lines.append(f">>> [y.tolist() for y in {call}]" if many else f">>> {call}.tolist()")
    shown = results if many else results[0]
    lines += pprint.pformat(shown, width=80, compact=True).splitlines()
    return "\n".join(["```python", *lines, "", "```"])
