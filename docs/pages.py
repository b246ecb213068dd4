"""The pages that are made, not written: operators from their declarations, the README as home.

`pages()` yields all of them by path; `generate.py` hands them to mkdocs, and the tests run their
snippets. `python docs/pages.py` writes the files that are made and kept: `written()`.
"""

import contextlib
import doctest
import enum
import functools
import inspect
import io
import pprint
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dml_jax
from dml_jax import OPERATORS, DmlError, Operator, TensorDesc, facts
from dml_jax.description.fields import Array, Choice, Field, Real, Scalar
from dml_jax.description.support import ALL_BUT_FLOAT64, ALL_TYPES, FLOATS, TO_32_BITS
from dml_jax.onnx.writing.operator_exporters import EXPORTERS
from dml_jax.operator.documentation import (
    Documentation,
    Matrix,
    matrices,
    shown_ranks,
    takes,
)
from dml_jax.show.names import LIBRARIES, names
from dml_jax.show.source import folded, function_call

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "docs"), str(ROOT / "tests")]

import measured  # noqa: E402
from documented_facts import Example, examples  # noqa: E402  (in tests)
from pictures import curve, example_picture  # noqa: E402

LEARN = "https://learn.microsoft.com/windows/win32/api/directml/ns-directml-"

GUIDES = {  # in the order of the site
    "tutorial.md": "Tutorial",
    "examples.md": "Examples",
    "guides/command-line.md": "Command line",
    "guides/port-dxdispatch.md": "From DxDispatch",
    "guides/port-directmlx.md": "From DirectMLX, PyDirectML",
    "guides/port-onnx.md": "From ONNX Runtime",
    "guides/language-models.md": "Language models",
    "guides/save-and-export.md": "Save and export",
    "guides/port-onnxruntime.md": "Programs of ONNX Runtime",
    "guides/training.md": "From jax.numpy",
    "guides/recipes.md": "Recipes",
    "guides/sharding.md": "Sharding",
    "guides/rewrite.md": "Rewrite a graph",
    "guides/speed.md": "Fast networks on a CPU",
    "guides/errors.md": "Errors and remedies",
    "performance.md": "Performance",
    "benchmarks.md": "Measure a machine",
    "guides/inside.md": "How it works inside",
    "add-an-operator.md": "Add an operator",
}
RESULTS = {
    "measurements.md": "Measurements",
    "conformance.md": "Conformance",
    "platforms.md": "Where the tests ran",
}
REFERENCE = {
    "Tensors and descriptors": [
        "description.tensor.TensorDesc",
        "description.tensor.calc_buffer_tensor_size",
        "description.descriptor.ScaleBias",
        "operator.Operator",
        "operator.operator_from_json",
        "operator.OPERATORS",
    ],
    "Graphs": [
        "graph.Graph",
        "graph.GraphBuilder",
        "graph.TensorPolicy",
        "graph.Expression",
        "graph.OperatorNode",
        "graph.FunctionNode",
        "graph.ConstantNode",
        "graph.InputEdge",
        "graph.IntermediateEdge",
        "graph.OutputEdge",
    ],
    "Compiled operators and memory": [
        "memory.compiled.compile",
        "memory.compiled.Compiled",
        "memory.compiled.Cost",
        "memory.binding_table.Buffer",
        "memory.binding_table.BufferBinding",
        "memory.binding_table.BindingTable",
    ],
    "DxDispatch models": [
        "dxdispatch.parsing.load_model",
        "dxdispatch.run_model.run_model",
        "dxdispatch.model.Model",
    ],
    "ONNX networks": ["onnx.load_onnx", "onnx.network.Network"],
    "Enumerations": [
        f"enums.{name}"
        for name, value in vars(dml_jax.enums).items()
        if isinstance(value, enum.EnumMeta) and len(value) and name in dml_jax.__all__
    ],
    "Errors": ["errors.DmlError", "errors.Fault"],
}
_DESCRIBED = "inputs outputs validate minimum_feature_level refusals to_json from_json replace"
MEMBERS = {  # members that users call, inherited ones too; other classes show their own
    "operator.Operator": f"infer __call__ {_DESCRIBED} in_place describe "
    "c_name fields expected_sizes because default_sizes default_data_types lower",
    "graph.Graph": f"__call__ {_DESCRIBED} input_names output_names "
    "input_tensors output_tensors save load",
    "graph.GraphBuilder": "input_tensor constant node apply build",
    "graph.Expression": "desc sizes shape dtype reinterpret",
    "description.descriptor.ScaleBias": "scale bias replace to_json from_json",
    "description.tensor.TensorDesc": "of read write span is_packed packed_strides dimension_count "
    "dtype has_distinct_addresses implied_size_in_bytes to_json from_json",
    "memory.compiled.Compiled": "inputs outputs __call__ bind cost as_text export",
    "memory.binding_table.Buffer": "array of size_in_bytes block_until_ready",
    "onnx.network.Network": "__call__ apply weights trainable weights_as replace inputs outputs "
    "output_types defaults fixed free bounds counted padded without_padding random_inputs describe "
    "graph rewritten rewrites fallbacks report save shard tune untune is_tuned precision "
    "prepared prepared_from apply_prepared compiler_options minimum_feature_level refused_at",
    "errors.DmlError": "faults operator field rule value",
}


def pages() -> Iterator[tuple[str, str | bytes]]:
    """(path, content) of every page and picture that is made."""
    yield "index.md", home()
    yield "contributing.md", _on_the_site("CONTRIBUTING.md")
    yield "security.md", _on_the_site("SECURITY.md")
    yield "changelog.md", (ROOT / "CHANGELOG.md").read_text()
    yield "operators/index.md", catalogue()
    by_name = _examples()
    for op in OPERATORS.values():
        pictures = dict(_pictures(op, by_name.get(op.c_name, [])))
        yield from pictures.items()
        yield page_of(op), operator_page(op, by_name.get(op.c_name, []), pictures)
    yield "reference.md", reference()
    yield "functions.md", functions_page()
    yield "names.md", names_page()
    yield "onnx-operators.md", onnx_page()
    yield "SUMMARY.md", navigation()


def written() -> Iterator[tuple[Path, str]]:
    """Yield each file that is made and kept in the repository, with its text."""
    readme = ROOT / "README.md"
    text = _filled(readme.read_text(), "families", family_line())
    yield readme, _filled(text, "figures", measured.figures())
    performance = ROOT / "docs" / "performance.md"
    yield performance, _filled(performance.read_text(), "figures", measured.gains())
    models = ROOT / "docs" / "guides" / "language-models.md"
    yield models, _filled(models.read_text(), "figures", measured.language_models())
    yield ROOT / "docs" / "measurements.md", measured.page()
    yield ROOT / "docs" / "platforms.md", measured.platforms()
    yield ROOT / "docs" / "images" / "figures.svg", measured.picture()


def _filled(text: str, block: str, content: str) -> str:
    """Return `text` with `content` between `<!-- block -->` and `<!-- end of block -->`."""
    before, start, rest = text.partition(f"<!-- {block} -->\n")
    _, end, after = rest.partition(f"<!-- end of {block} -->")
    assert start and end, f"the page has no block {block}"
    return f"{before}{start}{content}\n{end}{after}"


def page_of(op: type[Operator]) -> str:
    """Return the path of the page of `op`."""
    return f"operators/{op.short_name.lower()}.md"


def families() -> dict[str, list[type[Operator]]]:
    """Return the operators by the title of their family, which is the module that has them."""
    found: dict[str, list[type[Operator]]] = {}
    for op in OPERATORS.values():
        found.setdefault(family_title(op), []).append(op)
    return found


def family_title(op: type[Operator]) -> str:
    """Return `Element-wise` for an operator of `dml_jax.operators.element_wise`."""
    module = op.__module__.rpartition(".")[2]
    return module.replace("element_wise", "element-wise").replace("_", " ").capitalize()


def family_line() -> str:
    """Return the families, and how many operators each has."""
    return f"{', '.join(f'{title} {len(ops)}' for title, ops in families().items())}."


def home() -> str:
    """Return the README as a page of the site."""
    return _on_the_site("README.md")


def _on_the_site(name: str) -> str:
    """Return the file `name` of the root with links that the site can follow."""
    text = re.sub(r"<!--.*?-->\n?", "", (ROOT / name).read_text())
    text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
    text = text.replace("](CHANGELOG.md)", "](changelog.md)")
    text = text.replace("](SECURITY.md)", "](security.md)")
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?:examples/|LICENSE|CITATION)[^)]*\)", r"\1", text)


def navigation() -> str:
    """Return the site's menu, for mkdocs-literate-nav; operators stand by family."""

    def items(pages: dict[str, str]) -> list[str]:
        return [f"    * [{title}]({path})" for path, title in pages.items()]

    lines = [
        "* [Home](index.md)",
        "* Guides",
        *items(GUIDES),
        "* Operators",
        "    * [All operators](operators/index.md)",
    ]
    for title, ops in families().items():
        lines.append(f"    * {title}")
        lines += [f"        * [{op.short_name}]({page_of(op)})" for op in ops]
    lines += [
        "* Reference",
        "    * [Python](reference.md)",
        "    * [Functions](functions.md)",
        "    * [Names in ONNX, JAX and PyTorch](names.md)",
        "    * [Operators as ONNX](onnx-operators.md)",
        "* Results",
        *items(RESULTS),
        "* Project",
        "    * [Contributing](contributing.md)",
        "    * [Security](security.md)",
        "    * [Changelog](changelog.md)",
    ]
    return "\n".join(lines) + "\n"


def functions_page() -> str:
    """Return the table of functions, whose operators lead to their pages on the site."""
    linked = {
        f"`{op.short_name}`": f"[{op.short_name}]({page_of(op)})" for op in OPERATORS.values()
    }
    text = (ROOT / "docs" / "functions.md").read_text()
    return re.sub(r"`[A-Z][A-Z0-9_]+`", lambda found: linked.get(found[0], found[0]), text)


def names_page() -> str:
    """Return the page of what each operator is called elsewhere, by family."""
    parts = [
        "---\nhide: [toc]\n---\n\n# Names in ONNX, JAX and PyTorch",
        "Each operator with the functions here that make it, and with its names elsewhere. "
        "`dml-jax operators NAME` finds an operator by any of them. The functions of JAX (`jnp` "
        "is `jax.numpy`) and PyTorch compute the same, or the nearest to it. An empty cell has "
        "no counterpart.",
        "Functions have DirectMLX's arguments in DirectMLX's order: [Functions](functions.md). "
        "The op types of ONNX are those that [load_onnx](guides/port-onnx.md) turns into the "
        "operator, often with others.",
    ]
    for title, ops in families().items():
        lines = [f"| operator | {' | '.join(_COLUMNS.values())} |", f"|{' --- |' * 6}"]
        for op in ops:
            cells = (_quoted(_short(names()[op.short_name][lib])) for lib in _COLUMNS)
            lines.append(f"| [{op.short_name}]({page_of(op)}) | {' | '.join(cells)} |")
        parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def onnx_page() -> str:
    """Return the page of how each operator is exported to ONNX, by family."""
    parts = [
        "# Operators as ONNX",
        "How [dml_jax.onnx.export](guides/save-and-export.md) writes each operator. **By nodes**: "
        "the op types of ONNX that compute it. A use with an attribute or a type that these lack "
        "is written as the others are. **By its program**: what JAX traces of the operator, a node "
        "or some for each step. No operator is left out.",
    ]
    lines = ["| family | by nodes | by its program |", "| --- | --- | --- |"]
    for title, ops in families().items():
        sides: dict[bool, list[str]] = {True: [], False: []}
        for op in ops:
            sides[op.short_name in EXPORTERS].append(f"[{op.short_name}]({page_of(op)})")
        lines.append(f"| {title} | {', '.join(sides[True])} | {', '.join(sides[False])} |")
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


_COLUMNS = {
    "function": "function here",
    **{library: library for library in LIBRARIES if library != "function"},
}


def _short(words: Collection[str]) -> list[str]:
    """Return names as users of JAX spell and search for them: `jnp.sum`."""
    return [word.replace("jax.numpy.", "jnp.") for word in words]


def _quoted(words: Collection[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _elsewhere(op: type[Operator]) -> list[str]:
    """Return a sentence of what an operator is called elsewhere, where it is called anything."""
    own = names()[op.short_name]
    titles = {k: f"{k}, `jnp` is `jax.numpy`" if "jnp." in str(_short(own[k])) else k for k in own}
    named = [
        f"{_quoted(_short(own[k]))} ({titles[k]})" for k in LIBRARIES if k != "function" and own[k]
    ]
    return [f"[Other names](../names.md): {', '.join(named)}."] if named else []


def reference() -> str:
    """Every public name, by mkdocstrings; the operators have pages of their own."""
    parts = ["# Python reference", "The operators have [pages of their own](operators/index.md)."]
    for title, listed in REFERENCE.items():
        parts.append(f"## {title}")
        parts += map(_entry, listed)
    return "\n\n".join(parts) + "\n"


def _entry(name: str) -> str:
    entry = f"::: dml_jax.{name}"
    if name in MEMBERS:
        members = ", ".join(MEMBERS[name].split())
        entry += f"\n    options:\n      inherited_members: true\n      members: [{members}]"
    return entry


# The catalogue.


def catalogue() -> str:
    """Return the page of all operators: what each does, and what each feature level accepts."""
    parts = [
        "---\nhide: [toc]\n---\n\n# Operators",
        "This page is made from the declarations of the operators, as their own pages are.",
    ]
    for title, ops in families().items():
        parts += [f"## {title}", _summaries(ops)]
    parts += [
        "# By feature level",
        "A feature level is DirectML's name for what a driver supports. Each table has the ranks "
        "and data types that a level accepts. A level accepts everything that lower levels do. "
        "An empty cell repeats the cell to its left.",
        '"All of up to 32 bits" are FLOAT32, FLOAT16 and the integers of 8, 16 and 32 bits. '
        "Where the tensors of an operator differ, the row is of its first input.",
    ]
    for title, ops in families().items():
        parts += [f"## {title}: levels", _level_table(ops)]
    return "\n\n".join(parts) + "\n"


def _summaries(ops: list[type[Operator]]) -> str:
    lines = ["| operator | | in place |", "| --- | --- | --- |"]
    for op in ops:
        place = "yes" if op.in_place else ""
        lines.append(f"| {_link(op)} | {Documentation.of(op).summary} | {place} |")
    return "\n".join(lines)


def _link(op: type[Operator]) -> str:
    return f"[{op.short_name}]({page_of(op).removeprefix('operators/')})"


def _level_table(ops: list[type[Operator]]) -> str:
    tables = {op: _of_first_input(op) for op in ops}
    levels = sorted({level for ms in tables.values() for m in ms for level in m.ranks})
    lines = [
        f"| operator | {' | '.join(level.suffix for level in levels)} |",
        f"| --- |{' --- |' * len(levels)}",
    ]
    rows: dict[str, list[str]] = {}
    for op, ms in tables.items():
        for m in ms:
            group = f"<br><small>{', '.join(m.group)}</small>" if m.group else ""
            cells, before = [], None
            for level in levels:
                by_type = m.ranks.get(level, before)
                cells.append("" if by_type is before and before else _summary(by_type))
                before = by_type
            rows.setdefault(" | ".join(cells), []).append(f"{_link(op)}{group}")
    # Operators with the same levels share a row, so that a family fits a screen.
    return "\n".join([*lines, *(f"| {', '.join(ops)} | {row} |" for row, ops in rows.items())])


def _of_first_input(op: type[Operator]) -> list[Matrix]:
    tensors = [f for f in op.fields if f.tensor]
    first = min(tensors, key=lambda f: bool(f.tensor and f.tensor.output)).c_name
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


def operator_page(
    op: type[Operator], shown: list[tuple[str, Example]], pictures: Collection[str]
) -> str:
    """Return the page of `op`: its meaning first, its support tables last."""
    text, function = Documentation.of(op), _function(op)
    named = f"The descriptor is `dml_jax.{op.__name__}`."
    parts = [
        f"# {op.short_name}",
        *([_signature(function)] if function else []),
        text.summary,
        f"{named} It needs feature level {op.support.introduced} or higher.",
        *_elsewhere(op),
        "## Formula",
        *text.formula,
    ]
    if examples := list(_shown(op, text, shown, pictures)):
        parts += ["## Examples", *examples]
    if text.choices:
        parts += [
            "## Choices",
            "DirectML's documentation leaves these cases open. This is what dml_jax does:",
            "\n".join(_choices(text)),
        ]
    page = f"{LEARN}{text.source.lower()}"
    parts += [
        "## Gradient",
        text.gradient[:1].upper() + text.gradient[1:],
        "## Fields",
        _fields(op, text),
        "## Memory",
        _memory(op),
        "## Source",
        f"[{text.source}]({page}), in DirectML's documentation.",
        "## Feature levels",
        "The ranks that each level accepts, by data type.",
        *(_matrix(m) for m in matrices(op)),
    ]
    return "\n\n".join(parts) + "\n"


def _function(op: type[Operator]) -> str:
    """Return `reduce`, where a function of that name makes this operator; else ""."""
    for name, entry in facts.functions().items():
        if op.short_name in entry["operators"]:
            return name
    return ""


def _signature(name: str) -> str:
    """Return the signature of a function as a block of code."""
    lines = folded(f"dml_jax.{name}{inspect.signature(getattr(dml_jax.functional, name))}")
    return f"```text\n{lines}\n```"


def _fields(op: type[Operator], text: Documentation) -> str:
    lines = ["| field | | accepts | in DirectML.h |", "| --- | --- | --- | --- |"]
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
        f"**In place:** yes. An output may be bound to the memory of {' or '.join(inputs)}, with "
        "the same strides."
        if op.in_place
        else "**In place:** no. An output may overlap no input."
    )
    return (
        "**Strides:** every tensor may have its own. The strides of an input may broadcast it "
        "(stride 0), transpose it or skip elements. Each element of an output needs an address of "
        "its own; bytes between its elements stay as they are. Strides matter where memory is "
        "bound, and not where arrays are passed.\n\n" + place
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
    """Yield (path, SVG) of each worked example that a picture explains, or else of a curve."""
    drawn = 0
    for number, (_, example) in enumerate(shown):
        picture = example_picture(*example)
        if picture:
            drawn += 1
            yield _picture_of(op, number), picture
    line = _curve(op) if op.by_element and not drawn else None
    if line:
        yield _picture_of(op), line


def _picture_of(op: type[Operator], example: int | None = None) -> str:
    """Return the path of the picture of a worked example by its number, or of the curve."""
    end = "curve" if example is None else f"{example + 1}"
    return f"{page_of(op).removesuffix('.md')}-{end}.svg"


def _curve(op: type[Operator]) -> str | None:
    """Return a curve of the operator that the docstring's example makes; None without one.

    The example describes it for a few elements of some type; the curve needs FLOAT32.
    """
    example = doctest.DocTestParser().get_doctest(Documentation.of(op).example, {}, "", "", 0)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(DmlError):
        for part in example.examples:
            if part.exc_msg is None:
                exec(compile(part.source, op.__name__, "single"), names)
    made = next((value for value in names.values() if type(value) is op), None)
    if made is None or len(made.outputs) != 1:
        return None
    x = np.linspace(-4, 4, 401, dtype=np.float32)
    tensors: dict[str, Any] = {f.name: TensorDesc.of(x) for f in op.fields if f.tensor}
    types = {f.name: "FLOAT32" for f in op.fields if f.name == "min_max_data_type"}
    try:
        made = made.replace(**tensors, **types)
    except DmlError:
        return None
    arrays = [x, *(np.ones_like(x) for _ in made.inputs[1:])]
    numbers = [f for f in op.fields if isinstance(f.kind, (Real, Scalar))]
    values = " and ".join(f"{f.c_name} {getattr(made, f.name):.3g}" for f in numbers)
    label = f"the result for each x{', with ' * bool(values)}{values}"
    return curve(made, arrays, label)


def _shown(
    op: type[Operator],
    text: Documentation,
    shown: list[tuple[str, Example]],
    pictures: Collection[str],
) -> Iterator[str]:
    """Yield the parts of a page's examples: the documentation's, the docstring's, or a call."""
    if _picture_of(op) in pictures:
        picture = Path(_picture_of(op)).name
        yield f"![{op.short_name} as a curve: its result for each x]({picture}){{ .tensors }}"
    for number, (title, example) in enumerate(shown):
        sizes = " and ".join(t.shown() for t in example.op.inputs)
        plain = re.sub(r"^Example( \w+)?(: )?", "", title) or "from the documentation"
        yield f"### {plain[:1].upper()}{plain[1:]}"
        if _picture_of(op, number) in pictures:
            picture = Path(_picture_of(op, number)).name
            yield f"![{op.short_name} of {sizes}: where each element goes]({picture}){{ .tensors }}"
        yield snippet(example)
    if text.example:
        yield f"```pycon\n{text.example}\n```"
    if op.short_name in calls():
        yield f"```pycon\n{_BEFORE_A_CALL}\n{calls()[op.short_name]}\n```"


_BEFORE_A_CALL = """\
>>> import numpy as np
>>> import dml_jax
>>> np.set_printoptions(precision=4, suppress=True)"""


@functools.cache
def calls() -> dict[str, str]:
    """Return the calls of `calls.txt` with what they print, by the name of the operator.

    It has one for each operator without a worked example in the documentation.
    """
    text = (ROOT / "docs" / "calls.txt").read_text()
    return {n: body.strip() for n, body in re.findall(r"(?m)^# (\w+)\n((?:.+\n)+)", text)}


def snippet(example: Example) -> str:
    """A worked example as what one types, and what the documentation says comes out."""
    op, inputs, outputs = example
    name = type(op).__name__
    values = [(f, getattr(op, f.name)) for f in op.fields]
    lines = [">>> import dml_jax", ">>> import jax.numpy as jnp"]
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
    function = function_call(op, list(zip(names, op.inputs, strict=True)))
    if function is not None and all(function[1]):
        lines += _results(op, f"dml_jax.{function[0]}", outputs)
    lines += [
        f">>> from dml_jax import {', '.join(sorted([name, 'TensorDesc']))}",
        f">>> op = {name}(",
        *(f"...     {f.name}={f.kind.shown(v)}," for f, v in values if v is not None),
        "... )",
    ]
    lines += _results(op, f"op({', '.join(names)})", outputs)
    return "\n".join(["```pycon", *lines, "```"])


def _results(op: Operator, call: str, outputs: Sequence[np.ndarray]) -> list[str]:
    """Return the lines that show what `call` returns, which the documentation says."""
    is_rounded = any(y.dtype.kind == "f" and (y * 1024 % 1 != 0).any() for y in outputs)
    rounded = ".round(4)" if is_rounded else ""  # the last digits are the backend's
    results: Any = [(y.round(4) if is_rounded else y).tolist() for y in outputs]
    listed = f"[y{rounded}.tolist() for y in {call}]"
    line = f">>> {listed if op.returns_tuple else f'{call}{rounded}.tolist()'}"
    shown = results if op.returns_tuple else results[0]
    return [line, *pprint.pformat(shown, width=80, compact=True).splitlines()]


if __name__ == "__main__":
    for path, content in written():
        path.write_text(content)
