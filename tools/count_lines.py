"""Counts the lines of code of a package: without blank lines, comments and docstrings.

`python tools/count_lines.py [FOLDER]` prints the lines of each room of `dml_jax`, or of a folder.
"""

import ast
import collections
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def lines_of_code(path: Path) -> int:
    """Return the number of lines of a Python file that have code."""
    with tokenize.open(path) as file:
        text = file.read()
    with path.open("rb") as file:
        tokens = [t for t in tokenize.tokenize(file.readline) if t.type not in _NO_CODE]
    lines = {line for t in tokens for line in range(t.start[0], t.end[0] + 1)}
    return len(lines - set(_docstrings(ast.parse(text))))


def _docstrings(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of strings that are statements: of docstrings, also of attributes."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield from range(value.lineno, (value.end_lineno or value.lineno) + 1)


def main() -> None:
    """Print a line for each room, and their sum."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "dml_jax")
    rooms: collections.Counter[str] = collections.Counter()
    for path in sorted(root.rglob("*.py")):
        first = path.relative_to(root).parts[0]
        rooms[first] += lines_of_code(path)
    for room, count in rooms.most_common():
        print(f"{count:6} {room}")  # noqa: T201
    print(f"{rooms.total():6} in all")  # noqa: T201


if __name__ == "__main__":
    main()
