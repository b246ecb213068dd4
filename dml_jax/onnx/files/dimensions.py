"""Names of free dimensions: some are terms of others, as "past_length + length"."""

import ast
import operator
from collections.abc import Callable, Mapping

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.FloorDiv: operator.floordiv,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}


def _term_of(name: str) -> ast.expr | None:
    """Return a name as a term of whole numbers and names; None for another one."""
    try:
        term = ast.parse(name.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    allowed = (ast.BinOp, *_OPERATORS, ast.Constant, ast.Name, ast.Load)
    for part in ast.walk(term):
        is_number = not isinstance(part, ast.Constant) or type(part.value) is int
        if not isinstance(part, allowed) or not is_number:
            return None
    return term


def names_in(name: str) -> set[str]:
    """Return the names that the name of a free dimension is a term of; itself where it is none."""
    term = _term_of(name)
    if not isinstance(term, ast.BinOp):
        return {name}
    return {part.id for part in ast.walk(term) if isinstance(part, ast.Name)}


def size_of(name: str, sizes: Mapping[str, int]) -> int | None:
    """Return the size of a free dimension; None where `sizes` does not decide it.

    `sizes` has it under its own name, or else has all of the names that it is a term of.
    """
    if name in sizes:
        return int(sizes[name])
    term = _term_of(name)
    if not isinstance(term, ast.BinOp) or not names_in(name) <= sizes.keys():
        return None
    try:
        return _value(term, sizes)
    except (ZeroDivisionError, RecursionError):
        return None


def _value(term: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(term, ast.BinOp):
        return _OPERATORS[type(term.op)](_value(term.left, sizes), _value(term.right, sizes))
    return int(sizes[term.id]) if isinstance(term, ast.Name) else int(ast.literal_eval(term))
