"""Run the snippets of a page: what the pages show is what happens.

The Python blocks of a page run in order, as one session. A `pycon` block is a doctest. A `python`
block runs as it stands, and an expression with a comment such as `# [[2], [2]]: why` must have that
value. A block of `json title="x.json"` is that file. The `dml-jax` commands of a `console` block
print what stands below them, where `...` stands for anything.
"""

import ast
import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

from dml_jax.cli import cli
from dml_jax.cli.terminal import devices, name_of

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(r"^```(\w*) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"# (\[.*\])")


class _Checker(doctest.OutputChecker):
    """Takes a zero for the other: the sign of a rounded zero is the backend's."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        want, got = (re.sub(r"-0\.0\b", "0.0", text) for text in (want, got))
        return super().check_output(want, got, optionflags)


def run_page(name: str, text: str) -> list[str]:
    """Run the blocks of the page `text`; return their kinds. Files are in the current folder."""
    with np.printoptions():  # those that a page sets end with it
        return _run_blocks(name, text)


def _run_blocks(name: str, text: str) -> list[str]:
    session: dict[str, Any] = {}
    kinds = []
    for kind, rest, block in BLOCK.findall(text):
        kinds.append(kind)
        title = re.search(r'title="([^"]+)"', rest)
        if kind == "json" and title:
            Path(title[1]).write_text(block)
        elif kind == "python" and not block.startswith(">>>"):
            _run_plain(name, block, session)
        elif kind in ("python", "pycon"):
            parsed = doctest.DocTestParser().get_doctest(block, session, name, name, 0)
            runner = doctest.DocTestRunner(_Checker(), optionflags=OPTIONS)
            runner.run(parsed, clear_globs=False)
            session |= parsed.globs
            assert runner.failures == 0, f"{name}: see the captured output"
        elif kind == "console":
            for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
                _run_command(name, command, expected)
    return kinds


def _run_plain(name: str, block: str, session: dict[str, Any]) -> None:
    """Run the statements of `block`, and compare the values that its comments show."""
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        value = VALUE.search(lines[(statement.end_lineno or 1) - 1])
        if isinstance(statement, ast.Expr) and value:
            found = eval(compile(ast.Expression(statement.value), name, "eval"), session)
            assert np.asarray(found).tolist() == ast.literal_eval(value[1]), (name, lines)
        else:
            exec(compile(ast.Module([statement], []), name, "exec"), session)


def _run_command(name: str, command: str, expected: str) -> None:
    words = shlex.split(command)
    assert words[0] == "dml-jax", (name, command)
    shown = (
        CliRunner(env={"COLUMNS": None})
        .invoke(cli, words[1:])
        .output.replace(name_of(devices()[0]), "cpu:0")
    )
    same = doctest.OutputChecker().check_output(expected, shown, OPTIONS)
    assert same, f"{name}: {command}\n{shown}"
