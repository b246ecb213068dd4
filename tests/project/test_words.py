"""Words of names: functions have verbs and nouns as names, and no participles."""

import ast
import collections
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent / "dml_jax"

PARTICIPLE = re.compile(r"(?:^|_)(?!embed|need|feed|seed|speed|red|shared|bed)\w*[a-z]{2}ed$")

MOST = {
    "bench": 27,
    "cli": 9,
    "constraints": 5,
    "description": 12,
    "dxdispatch": 13,
    "enums": 1,
    "errors": 4,
    "functional": 6,
    "genai": 5,
    "graph": 16,
    "lowering": 60,
    "onnx": 45,
    "onnxruntime": 3,
    "operator": 15,
    "operators": 8,
    "rewrite": 12,
    "runtime": 10,
    "show": 3,
}
"""The number of names of functions that end in a participle, by room; each may only fall."""


def participles() -> dict[str, set[str]]:
    """Return the names of functions that end in a participle, by room."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for path in ROOT.rglob("*.py"):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and PARTICIPLE.search(node.name):
                found[room].add(node.name)
    return found


def test_no_more_functions_are_named_by_a_participle():
    more = {room: names for room, names in participles().items() if len(names) > MOST.get(room, 0)}
    assert not more, "a function's name is a verb or a noun: see the words of CONTRIBUTING.md"
