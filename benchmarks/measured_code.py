"""The code that a row of results measures, as a digest: whether it has changed is seen by it.

Comments, docstrings and white space are no part of it. The code of an operator is `lower`, each
definition of dml_jax/lowering and dml_jax/operators that it leads to, and their derivatives. The
code of a network is all that compiles and runs it: the code of every operator, and whole rooms.
"""

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import dml_jax
from dml_jax.operator.registry import OPERATORS, operator_type

PACKAGE = Path(dml_jax.__file__).parent
FOLLOWED = ("dml_jax.lowering", "dml_jax.operators")  # the rooms of an operator
_NETWORKS = ("lowering", "rewrite", "runtime", "onnx/translators")
ROOMS = {  # of the other tables, by the kind of the file; the code of every operator is beside them
    "networks": _NETWORKS,
    "programs": ("lowering", "runtime", "pydirectml"),
    "onnxruntime-programs": (*_NETWORKS, "onnxruntime"),
    "language-models": (*_NETWORKS, "genai"),
}
ROOMS |= dict.fromkeys(
    ("gpu-networks", "hundred-networks", "onnx-operators", "files"), ROOMS["networks"]
)
ROOMS["large-decoder"] = ROOMS["language-models"]
TABLES = ("cells", "networks", "programs", "folders", "rows", "saved", "exported")  # of the files
OF_OPERATORS = ("operators", "compiled", "gradients")  # the tables of rows of the bench


class Part(NamedTuple):
    """A statement of a module or a class: its text, and the names that it reads."""

    text: str
    reads: frozenset[str]


class Module(NamedTuple):
    """The statements of a module: by the names that they define, and those without a name."""

    named: Mapping[str, list[ast.stmt]]
    others: list[ast.stmt]
    imports: Mapping[str, str]
    lines: list[str]

    def part(self, node: ast.stmt | ast.expr) -> Part:
        """Return the text and the names of a statement."""
        first = min([node, *getattr(node, "decorator_list", ())], key=lambda one: one.lineno)
        text = "".join(self.lines[first.lineno - 1 : node.end_lineno])
        return Part("".join(text.split()), frozenset(_names(node)))


@functools.cache
def digest_of_operator(name: str) -> str:
    """Return the digest of the code of an operator, such as "REDUCE"."""
    cls: Any = operator_type(name)
    found: dict[tuple[str, str], str] = {}
    pending = [(cls.__module__, cls.__qualname__)]
    while pending:
        place = pending.pop()
        if place not in found and place[0].startswith(FOLLOWED):
            module, name = _module(place[0]), place[1]
            parts = [p for node in module.named.get(name, ()) for p in _parts(place[0], node)]
            parts += map(module.part, module.others)
            found[place] = "".join(part.text for part in parts)
            reads = frozenset[str]().union(*(part.reads for part in parts))
            pending += [p for read in reads for p in _places(place[0], read)]
            pending += _registered().get(place, ())
    return _digest(f"{place}{text}" for place, text in sorted(found.items()))


@functools.cache
def digest_of_rooms(kind: str) -> str:
    """Return the digest of the rooms, and of the operators, that a kind of file measures."""
    paths = sorted(path for room in ROOMS[kind] for path in (PACKAGE / room).rglob("*.py"))
    texts = [f"{path.relative_to(PACKAGE)}{''.join(_code(path).split())}" for path in paths]
    names = sorted(operator.short_name for operator in OPERATORS.values())
    return _digest([*texts, *map(digest_of_operator, names)])


def code_of(kind: str, row: Mapping[str, Any]) -> str:
    """Return the digest of what a row of a kind of file measures; "" of a limit of a device."""
    if kind in OF_OPERATORS:
        return digest_of_operator(row["operator"])
    return digest_of_rooms(kind) if kind in ROOMS else ""


def is_changed(kind: str, row: Mapping[str, Any]) -> bool:
    """Return whether the code of a row has changed since the row was measured."""
    return row.get("code", "") != code_of(kind, row)


def kind_of(file: Path) -> str:
    """Return the kind of a file of results, such as "networks" of networks-cpu-2core.json."""
    kinds = [kind for kind in (*OF_OPERATORS, *ROOMS) if file.stem.startswith(f"{kind}-")]
    return max(kinds, key=len, default="")


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def _code(path: Path) -> str:
    """Return the text of a file, with spaces for comments and docstrings."""
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + "\n"
    for node in ast.walk(ast.parse(text)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            for row in range(value.lineno, (value.end_lineno or value.lineno) + 1):
                lines[row - 1] = "\n"
    return "".join(lines)


@functools.cache
def _module(name: str) -> Module:
    """Return the statements of a module of the package."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    named: dict[str, list[ast.stmt]] = {}
    others, imports = list[ast.stmt](), dict[str, str]()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ImportFrom(module=str(origin)):
                imports |= {one.asname or one.name: f"{origin}.{one.name}" for one in node.names}
            case ast.FunctionDef() | ast.ClassDef():
                named.setdefault(node.name, []).append(node)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in {read for target in targets for read in _names(target)}:
                    named.setdefault(name, []).append(node)
            case ast.Import() | ast.Expr(value=ast.Constant()):
                pass
            case _:  # such as the registration of a rule
                others.append(node)
    return Module(named, others, imports, _code(path).splitlines(keepends=True))


@functools.cache
def _registered() -> Mapping[tuple[str, str], set[tuple[str, str]]]:
    """Return the functions that decorators register for a definition, such as its derivative."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for path in sorted((PACKAGE / "lowering").rglob("*.py")):
        where = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        functions = [node for (node, *_) in _module(where).named.values()]
        for node in functions:
            for call in getattr(node, "decorator_list", ()):
                arguments = call.args if isinstance(call, ast.Call) else ()
                for read in {name for argument in arguments for name in _names(argument)}:
                    for place in _places(where, read):
                        found.setdefault(place, set()).add((where, getattr(node, "name", "")))
    return found


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names in a statement; `a.b` where an attribute is read of a name."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            yield f"{one.value.id}.{one.attr}"


def _parts(where: str, node: ast.stmt) -> list[Part]:
    """Return the parts of a definition; of an operator `lower`, and what it reads of `self`."""
    module = _module(where)
    if not isinstance(node, ast.ClassDef) or not where.startswith("dml_jax.operators"):
        return [module.part(node)]
    heads = [*node.bases, *(keyword.value for keyword in node.keywords)]
    parts = [module.part(head) for head in heads]
    members = [(_members(one), module.part(one)) for one in node.body]
    wanted, chosen = {"lower"}, set[Part]()
    # A class may read a member that another one of its family has: all names of `self` count.
    while fresh := [p for names, p in members if p not in chosen and names & wanted]:
        chosen |= {*fresh}
        wanted |= {r.partition(".")[2] for p in fresh for r in p.reads if r.startswith("self.")}
    return parts + [part for _, part in members if part in chosen]


def _members(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a class defines."""
    if isinstance(node, ast.FunctionDef):
        return {node.name}
    return {*_names(node)} if isinstance(node, ast.Assign | ast.AnnAssign) else set()


def _places(where: str, read: str) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of what a module reads, if it is the package's."""
    module, (head, _, attribute) = _module(where), read.partition(".")
    if head in module.named:
        yield where, head
    elif (target := module.imports.get(head, "")).startswith(FOLLOWED):
        path = PACKAGE.joinpath(*target.split(".")[1:])
        if path.is_dir() or path.with_suffix(".py").exists():
            if attribute:
                yield from _places(target, attribute)
        else:
            origin, _, name = target.rpartition(".")
            yield from _places(origin, name)
