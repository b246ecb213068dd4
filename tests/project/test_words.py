"""Words of names: functions have verbs and nouns as names, and no participles."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent / "dml_jax"

PARTICIPLE = re.compile(r"(?:^|_)(?!embed|need|feed|seed|speed|red|shared|bed)\w*[a-z]{2}ed$")

MOST = 150
"""The names of functions that end in a participle, of which there may only be fewer."""


def test_no_more_functions_are_named_by_a_participle():
    found: set[tuple[str, str]] = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and PARTICIPLE.search(node.name):
                found.add((path.relative_to(ROOT).parts[0], node.name))
    advice = "a function's name is a verb or a noun: see the words of CONTRIBUTING.md"
    assert len(found) <= MOST, f"{advice}\n{sorted(found)}"
