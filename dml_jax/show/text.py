"""Lines of Python programs."""

import ast
import base64
import io
import itertools
import keyword
import re
import textwrap
import tokenize
import zlib
from collections.abc import Collection, Sequence

import numpy as np

import dml_jax
from dml_jax.description.tensor import TensorDesc

_WIDTH = 96
_OTHERS = {
    "write_file": "dml_jax.dispatch.executor",
    "read_image": "dml_jax.dispatch.resources",
}
"""Functions that programs of models call, and their modules."""
_SHORT = 16  # elements of a constant that are written as numbers


def head(body: str, tensors: Collection[TensorDesc]) -> str:
    """Return the imports that the lines `body` need, and the setting that `tensors` need."""
    names = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    is_wide = any(t.data_type.name.endswith("64") for t in tensors)
    lines = [f"import {name}" for name in ("base64", "zlib") if name in names]
    lines += ["from pathlib import Path"] * ("Path" in names)
    outer = ["import jax"] * is_wide + ["import numpy as np"] * ("np" in names)
    lines += ["", *outer] if lines and outer else outer
    lines += [""] * bool(lines) + ["import dml_jax as dml"] * ("dml" in names)
    own = ", ".join(sorted(names & _classes()))
    line = f"from dml_jax import {own}"
    lines.append(line if len(line) <= _WIDTH else folded(f"from dml_jax import ({own})"))
    lines += [f"from {module} import {name}" for name, module in _OTHERS.items() if name in names]
    if is_wide:
        lines += ["", 'jax.config.update("jax_enable_x64", True)']
    return "\n".join([*lines, ""])


def reserved() -> set[str]:
    """Return the names that are no variables of a program."""
    modules = {"base64", "builder", "dml", "jax", "np", "zlib"}
    return {*keyword.kwlist, *_classes(), *modules, *_OTHERS, "Path", "print"}


def _classes() -> set[str]:
    return {name for name in dml_jax.__all__ if not name.islower()}


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


def folded(line: str) -> str:
    """Return a line of Python in lines that are not too long, broken within brackets.

    A list stays in one line, if it is not longer than that.
    """
    if len(line) <= _WIDTH:
        return line
    rows = line.splitlines(keepends=True)
    starts = [sum(map(len, rows[:k])) for k in range(len(rows))]
    places: list[tuple[int, bool]] = []  # behind a token, and whether that lies in a list
    open_: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(line).readline):
        if token.type == tokenize.OP and token.string in "([{":
            open_.append(token.string)
        elif token.type == tokenize.OP and token.string in ")]}":
            open_.pop()
        if token.type == tokenize.OP and token.string in ",([{" and open_:
            places.append((starts[token.end[0] - 1] + token.end[1], "[" in open_))
    parts = _parts(line, [place for place, is_in_list in places if not is_in_list])
    if max(len(row) for part in parts for row in part.splitlines()) > _WIDTH - 4:
        parts = _parts(line, [place for place, _ in places])
    made = [parts[0]]
    for part in parts[1:]:
        if len(made[-1].rpartition("\n")[2]) + len(part.partition("\n")[0]) > _WIDTH:
            made.append("    " + part.lstrip())
        else:
            made[-1] += part
    return "\n".join(made)


def _parts(line: str, ends: Sequence[int]) -> list[str]:
    return [line[a:b] for a, b in itertools.pairwise([0, *ends, len(line)])]
