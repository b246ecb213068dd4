"""Check and solve the constraint records of `dml_jax.facts`.

A record is a dictionary; its first key says what it demands:

- `{"equal": [T, ...], "of": ["DataType", "DimensionCount", "Sizes"]}`: the tensors agree; with
  `"except": "Axis"` not in that dimension;
- `{"type": T, "is": TYPE or PATH}`; `{"range": F, "from", "below" or "to"}`;
  `{"least": F, "value"}`; `{"one_of": F, "values"}` (None: left out); `{"nonzero": F}`;
  `{"unique": F}`; `{"length": F, "is"}`;
- `{"shapes": {T: PATTERN}}`: a letter is one number in the whole record; `1|N` is either;
  `{...}` holds an expression; `...` is any sizes, `1...` any ones, `B...` one list of sizes;
- `{"broadcast": [T, ...], "to": U}`: each size is 1 or that of U;
- `{"size": PATH, "is": "window", "window": {...}}`: the output size of a sliding window;
- `{"holds": EXPRESSION, "each": "i", "let": {...}}`: the expression is true, for every i;
- `{"given": T, "with": U}`, `{"at_least_one": [T, ...]}`: which tensors may be left out.

`"where": {PATH: value, list, "given" or "absent"}` limits a record to such descriptions, and
`"levels": {"below" or "from": LEVEL}` to such feature levels.
"""

import ast
import functools
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from dml_jax.enums import Enumeration, FeatureLevel
from dml_jax.errors import Expect, Unquoted
from dml_jax.tensor import TensorDesc

# A field, and "DataType", "DimensionCount" or "Sizes" of a tensor, "" of an attribute.
Aspect = tuple[str, str]


class UnknownError(Exception):
    """Raised where an expression reads a field that is missing or wrong."""


class _Tensor:
    """A tensor as expressions read it."""

    def __init__(self, tensor: TensorDesc):
        self.Sizes = tensor.sizes
        self.DimensionCount = tensor.dimension_count
        self.DataType = tensor.data_type.name
        self.Flags = tensor.flags.name


def _readable(value: Any) -> Any:
    """Return a field's value as expressions read it."""
    if isinstance(value, TensorDesc):
        return _Tensor(value)
    if isinstance(value, Enumeration):
        return value.suffix
    if isinstance(value, tuple):
        return tuple(map(_readable, value))
    if getattr(value, "c_name", "") == "DML_SIZE_2D":  # of a layer above
        return SimpleNamespace(Width=value.width, Height=value.height)
    return value


class View(Mapping[str, Any]):
    """The fields of a description by their C names, as expressions read them.

    Args:
        values: the converted values; None for a field that is left out.
        counts: the lists that each count is the length of.
    """

    def __init__(self, values: Mapping[str, Any], counts: Mapping[str, Sequence[str]]):
        self._values = values
        self._counts = counts
        self._read: dict[str, Any] = {}
        self.let: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name in self.let:
            return self.let[name]
        if name not in self._read:
            if name in self._values:
                self._read[name] = _readable(self._values[name])
            elif name in self._counts:
                lists = [self._values.get(c) for c in self._counts[name]]
                if not any(isinstance(v, tuple) for v in lists):
                    raise UnknownError(name)
                self._read[name] = next(len(v) for v in lists if v is not None)
            elif name in _FUNCTIONS:
                raise KeyError(name)  # `eval` looks among the functions then
            else:
                raise UnknownError(name)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_given(self, name: str) -> bool:
        """Return whether the field `name` is there and not None."""
        return self._values.get(name) is not None

    def count_of(self, name: str) -> str | None:
        """Return the count field of a list, if it counts no other list."""
        return next((c for c, lists in self._counts.items() if list(lists) == [name]), None)

    def lists_of(self, count: str) -> Sequence[str]:
        """Return the lists that a count field is the length of."""
        return self._counts.get(count, ())

    def is_known(self, name: str) -> bool:
        """Return whether the value of the field or count `name` is known, None included."""
        return name in self._values or any(c in self._values for c in self._counts.get(name, ()))


def _stripped(sizes: Sequence[int]) -> tuple[int, ...]:
    first = next((d for d, size in enumerate(sizes) if size != 1), len(sizes))
    return tuple(sizes[first:])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "len": len,
    "min": min,
    "max": max,
    "product": math.prod,
    "stripped": _stripped,
    "given": lambda value: value is not None,
}


@functools.cache
def _compiled(text: str) -> Any:
    return compile(text.replace("[*]", "[:]"), "<constraint>", "eval")


def evaluate(text: str | int, view: View) -> Any:
    """Return the value of an expression on the fields of `view`."""
    if not isinstance(text, str):
        return text
    return eval(_compiled(text), {"__builtins__": {}, **_FUNCTIONS}, view)


@functools.cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.replace("[*]", "[:]"), mode="eval").body


@functools.cache
def roots(text: str) -> frozenset[Aspect]:
    """Return the fields, with the aspects, that an expression reads."""
    found: set[Aspect] = set()
    tree = _parsed(text)
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):
        inner = node.value if isinstance(node, ast.Attribute) else None
        while isinstance(inner, ast.Subscript):
            inner = inner.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name):
            found.add((inner.id, node.attr))
            plain.add(inner)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in plain and node.id not in _FUNCTIONS:
            found.add((node.id, ""))
    return frozenset(found)


def aspect_of(path: str) -> Aspect:
    """Return the field and the aspect that the path of a fault names."""
    root, *rest = re.split(r"[.\[]", path)
    aspects = ("DataType", "DimensionCount", "Sizes")
    return root, next((aspect for aspect in aspects if aspect in rest), "")


def is_wrong(wrong: Collection[Aspect], root: str, aspect: str) -> bool:
    """Return whether an aspect of a field, or one that it rests on, is among those in `wrong`."""
    if (root, "") in wrong or (root, aspect) in wrong:
        return True
    return aspect == "Sizes" and (root, "DimensionCount") in wrong


def _places(text: str, view: View) -> list[tuple[str, Any]]:
    """Return (path, value) of each element that a path names: `Axes[*]` names several."""

    def walk(node: ast.expr) -> list[tuple[str, Any]]:
        if isinstance(node, ast.Name):
            return [(node.id, view[node.id])]
        if isinstance(node, ast.Attribute):
            return [(f"{t}.{node.attr}", getattr(v, node.attr, None)) for t, v in walk(node.value)]
        if not isinstance(node, ast.Subscript):
            raise TypeError(f"{text!r} is not a path")
        found = []
        for t, v in walk(node.value):
            if isinstance(node.slice, ast.Slice):
                ends = (node.slice.lower, node.slice.upper)
                start, stop = (None if e is None else evaluate(ast.unparse(e), view) for e in ends)
                indices = range(*slice(start, stop).indices(len(v)))
            else:
                index = evaluate(ast.unparse(node.slice), view)
                indices = [index + len(v) if index < 0 else index]
            found += [(f"{t}[{i}]", v[i]) for i in indices]
        return found

    return walk(_parsed(text))


class _Substituted(ast.NodeTransformer):
    """Replaces the name of an index by its number, and adds numbers up."""

    def __init__(self, name: str, number: int):
        self.name, self.number = name, number

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(self.number) if node.id == self.name else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            return ast.Constant(eval(ast.unparse(node), {"__builtins__": {}}))
        return node


def _with_index(text: str, name: str | None, number: int) -> str:
    if name is None:
        return text
    tree = ast.parse(text, mode="eval")
    return ast.unparse(_Substituted(name, number).visit(tree))


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


class Record:
    """One constraint, compiled: what it reads, when it applies, and how it is checked."""

    def __init__(self, data: Mapping[str, Any]):
        self.data = data
        self.kind = next(key for key in data if key in _CHECKS)
        self.where: Mapping[str, Any] = data.get("where", {})
        self.levels: Mapping[str, str] = data.get("levels", {})
        self.reads = frozenset(self._reads())

    def __repr__(self) -> str:
        return f"Record({self.data})"

    def _texts(self) -> Iterator[str]:
        data = self.data
        yield from self.where
        for key in ("range", "least", "one_of", "nonzero", "unique", "size", "holds", "except"):
            if key in data:
                yield data[key]
        for key in ("is", "below", "to", "from"):
            if isinstance(data.get(key), str) and data[key] != "window" and not self._is_type(key):
                yield data[key] if self.kind != "broadcast" else f"{data[key]}.Sizes"
        yield from (str(v) for v in data.get("window", {}).values())
        yield from data.get("let", {}).values()
        if self.kind == "shapes":
            for pattern in data["shapes"].values():
                yield from re.findall(r"{([^}]*)}", str(pattern))

    def _is_type(self, key: str) -> bool:
        return self.kind == "type" and key == "is" and self.data["is"].isupper()

    def _reads(self) -> Iterator[Aspect]:
        bound = {self.data.get("each"), *self.data.get("let", {})}
        for text in self._texts():
            yield from (r for r in roots(text) if r[0] not in bound)
        data = self.data
        if self.kind == "type":
            yield (
                aspect_of(data["type"] + ".DataType")
                if "Tensor" in data["type"]
                else (
                    data["type"],
                    "",
                )
            )
        elif self.kind == "length":
            yield data["length"], ""
        # Tensors that the record compares are looked at one by one, where it is checked.

    def tensors(self) -> list[str]:
        """Return the tensors that the record compares, without indices."""
        named = self.data.get(self.kind) if self.kind in ("equal", "shapes", "broadcast") else ()
        return [str(name).replace("[*]", "") for name in named or ()]

    def holds_at(self, level: FeatureLevel) -> bool:
        """Return whether the record applies at a feature level."""
        below, start = self.levels.get("below"), self.levels.get("from")
        if below is not None and level >= FeatureLevel.of(below):
            return False
        return start is None or level >= FeatureLevel.of(start)

    def applies(self, view: View) -> bool:
        """Return whether the `where` of the record fits the description."""
        for path, wanted in self.where.items():
            root = re.split(r"[.\[]", path)[0]
            if wanted in ("given", "absent"):
                if view.is_given(root) != (wanted == "given"):
                    return False
            elif not view.is_given(root) and view.is_known(root) and path != root:
                return False
            else:
                value = evaluate(path, view)
                if value not in (wanted if isinstance(wanted, list) else [wanted]):
                    return False
        return True

    def check(self, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
        """Add the faults of a description to `expect`; aspects in `wrong` are not looked at."""
        for root, _ in self.reads:
            if view.is_known(root) and view[root] is None and self.kind not in ("at_least_one",):
                absent_is_read = self.kind == "holds" and f"given({root})" in self.data["holds"]
                if not absent_is_read and root not in self.where:
                    return  # about a field that is left out
        _CHECKS[self.kind](self.data, view, expect, wrong)


def _tensors_in(
    names: Iterable[str], view: View, aspect: str, wrong: Collection[Aspect]
) -> Iterator[tuple[str, Any]]:
    """Yield (path, tensor) of the named tensors that are given and right in this aspect."""
    for name in names:
        root = name.replace("[*]", "")
        if view.is_given(root) and not is_wrong(wrong, root, aspect):
            yield from _places(name, view)


def _check_equal(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    def compare(aspect: str, of: Callable[[str, Any, str, Any], None]) -> None:
        tensors = list(_tensors_in(data["equal"], view, aspect, wrong))
        for path, tensor in tensors[1:]:
            of(tensors[0][0], tensors[0][1], path, tensor)

    def data_types(first: str, one: Any, path: str, other: Any) -> None:
        rule = f"be {one.DataType} ({first}.DataType)"
        expect(other.DataType == one.DataType, f"{path}.DataType", rule, _plain(other.DataType))

    def shapes(first: str, one: Any, path: str, other: Any) -> None:
        if other.DimensionCount != one.DimensionCount:
            rule = f"be {one.DimensionCount} ({first}.DimensionCount)"
            expect(False, f"{path}.DimensionCount", rule, other.DimensionCount)
        elif "Sizes" in data["of"]:
            but = evaluate(data["except"], view) if "except" in data else None
            for d, (size, got) in enumerate(zip(one.Sizes, other.Sizes, strict=True)):
                if d != but:
                    expect(
                        got == size, f"{path}.Sizes[{d}]", f"be {size} ({first}.Sizes[{d}])", got
                    )

    if "DataType" in data["of"]:
        compare("DataType", data_types)
    if "Sizes" in data["of"] or "DimensionCount" in data["of"]:
        compare("DimensionCount", shapes)


def _plain(word: Any) -> Any:
    return Unquoted(word) if isinstance(word, str) else word


def _check_type(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    wanted, origin = data["is"], ""
    if not wanted.isupper():
        origin, wanted = f" ({wanted})", evaluate(wanted, view)
    for path, value in _places(data["type"], view):
        if isinstance(value, _Tensor):
            path, value = f"{path}.DataType", value.DataType
        expect(value == wanted, path, f"be {wanted}{origin}", _plain(value))


def _check_range(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    low = evaluate(data["from"], view)
    limit = data["below"] if "below" in data else data["to"]
    number = evaluate(limit, view)
    high = number - 1 if "below" in data else number
    origin = f" ({limit} is {number})" if isinstance(limit, str) else ""
    for path, value in _places(data["range"], view):
        expect(low <= value <= high, path, f"be in [{low}, {high}]{origin}", value)


def _check_least(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in _places(data["least"], view):
        expect(value >= data["value"], path, f"be at least {data['value']}", value)


def _check_one_of(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    values = data["values"]
    known = [v for v in values if v is not None]
    rule = f"be one of {_listed(known)}" if len(known) > 1 else f"be {_listed(known)}"
    for path, value in _places(data["one_of"], view):
        expect(value in values, path, rule if known else "be left out", _plain(value))


def _check_nonzero(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in _places(data["nonzero"], view):
        expect(value != 0, path, "not be 0", value)


def _check_unique(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    firsts: dict[Any, int] = {}
    for index, value in enumerate(view[data["unique"]]):
        first = firsts.setdefault(value, index)
        rule = f"differ from {data['unique']}[{first}]"
        expect(first == index, f"{data['unique']}[{index}]", rule, value)


def _check_length(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    value, wanted = view[data["length"]], evaluate(data["is"], view)
    origin = f" ({data['is']})" if isinstance(data["is"], str) else ""
    count = view.count_of(data["length"])
    path, rule = (count, f"be {wanted}") if count else (data["length"], f"have {wanted} elements")
    expect(len(value) == wanted, path, rule + origin, len(value))


def _check_broadcast(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    (_, target), to = _places(data["to"], view)[0], data["to"]
    for path, tensor in _tensors_in(data["broadcast"], view, "Sizes", wrong):
        if tensor.DimensionCount != target.DimensionCount:
            rule = f"be {target.DimensionCount} ({to}.DimensionCount)"
            expect(False, f"{path}.DimensionCount", rule, tensor.DimensionCount)
            continue
        for d, (size, got) in enumerate(zip(target.Sizes, tensor.Sizes, strict=True)):
            rule = f"be 1 or {size} ({to}.Sizes[{d}])"
            expect(got in (1, size), f"{path}.Sizes[{d}]", rule, got)


def _window_sizes(data: Any, view: View) -> list[tuple[int, int, int]]:
    """Return (padded input, window, output size) of each dimension of a window record."""
    window = data["window"]
    sizes = evaluate(window["sizes"], view)
    ones, zeros = (1,) * len(sizes), (0,) * len(sizes)
    default = {"dilations": ones, "strides": ones, "start": zeros, "end": zeros}
    parts = [
        evaluate(window[key], view) if key in window else default[key]
        for key in ("in", "strides", "start", "end", "dilations")
    ]
    found = []
    for size, n, stride, start, end, dilation in zip(sizes, *parts, strict=True):
        padded, reach = n + start + end, (size - 1) * dilation + 1
        found.append((padded, reach, (padded - reach) // stride + 1))
    return found


def _check_size(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    sizes = _window_sizes(data, view)
    window = data["window"]["sizes"]
    base = re.sub(r"\[.*$", "", window)
    for d, (padded, reach, _) in enumerate(sizes):
        path = f"{base}[{d + (2 if base.endswith('Sizes') and '.' in base else 0)}]"
        rule = f"span at most {padded} elements (the padded input), with its dilation"
        if not expect(reach <= padded, path, rule, reach):
            return
    wanted = [size for _, _, size in sizes]
    if data.get("product"):
        wanted = [math.prod(wanted)]
    source = "the padded input, window, stride and dilation"
    for (path, got), size in zip(_places(data["size"], view), wanted, strict=True):
        expect(got == size, path, f"be {size} (from {source})", got)


_OPERATORS = {
    ast.Eq: "be",
    ast.LtE: "be at most",
    ast.Lt: "be below",
    ast.GtE: "be at least",
    ast.Gt: "be above",
}


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name)


def _indices(data: Any, view: View, unknown: Collection[str] = ()) -> Iterable[int]:
    """Return the values of the index of a record: those of the lists that it indexes."""
    name = data.get("each")
    if name is None:
        return [0]
    lengths = []
    for text in (data["holds"], *data.get("let", {}).values()):
        for node in ast.walk(_parsed(text)):
            if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == name:
                sequence = ast.unparse(node.value)
                if re.split(r"[.\[]", sequence)[0] not in unknown:
                    lengths.append(len(evaluate(sequence, view)))
    return range(min(lengths))


def _let(data: Any, view: View, index: int) -> None:
    view.let = {}
    if "each" in data:
        view.let[data["each"]] = index
    for name, text in data.get("let", {}).items():
        view.let[name] = evaluate(text, view)


def _check_holds(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    try:
        for index in _indices(data, view):
            _let(data, view, index)
            if not evaluate(data["holds"], view):
                path, rule, value = _explained(data, view, index)
                expect(False, path, rule, value)
    finally:
        view.let = {}


def _explained(data: Any, view: View, index: int) -> tuple[str, str, Any]:
    """Return (path, rule, value) of an expression that is false."""
    text = data["holds"]
    for name, meaning in data.get("let", {}).items():
        text = re.sub(rf"\b{name}\b", meaning if meaning.isidentifier() else f"({meaning})", text)
    text = _with_index(text, data.get("each"), index)
    tree = _parsed(text)
    if isinstance(tree, ast.Compare):
        parts = [tree.left, *tree.comparators]
        if len(parts) == 2 and _is_path(parts[0]) and type(tree.ops[0]) in _OPERATORS:
            ((path, value),) = _places(ast.unparse(parts[0]), view)
            limit = ast.unparse(parts[1])
            number = evaluate(limit, view)
            origin = "" if limit == str(number) else f" ({limit})"
            return path, f"{_OPERATORS[type(tree.ops[0])]} {_shown(number)}{origin}", value
        if len(parts) == 3 and _is_path(parts[1]):
            ((path, value),) = _places(ast.unparse(parts[1]), view)
            low, high = (evaluate(ast.unparse(part), view) for part in (parts[0], parts[2]))
            return path, f"be in [{low}, {high}] ({ast.unparse(parts[2])})", value
        left, right = (evaluate(ast.unparse(part), view) for part in (parts[0], parts[-1]))
        node = next(n for n in ast.walk(tree) if isinstance(n, ast.expr) and _is_path(n))
        paths = [n for n in ast.walk(parts[0]) if isinstance(n, ast.expr) and _is_path(n)]
        path = ast.unparse(paths[0] if paths else node)
        path = re.sub(r"\[[^\]]*:[^\]]*\]$", "", path)
        return path, f"make {text} true (its left side is {_shown(left)})", _shown(right)
    return re.split(r"[.\[]", text)[0], f"make {text} true", _plain("false")


def _shown(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _check_given(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    if view.is_given(data["given"]) and not view.is_given(data["with"]):
        expect(False, data["with"], f"be given ({data['given']} is)", _plain("nothing"))
    elif not view.is_given(data["given"]) and view.is_given(data["with"]):
        expect(False, data["given"], f"be given ({data['with']} is)", _plain("nothing"))


def _check_at_least_one(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    names = data["at_least_one"]
    is_open = not all(map(view.is_known, names)) or is_wrong(wrong, names[0], "")
    if not is_open and not any(map(view.is_given, names)):
        rule = "be given" if len(names) == 1 else f"be given, or {_listed(names[1:])}"
        expect(False, names[0], rule, _plain("nothing"))


# Shapes.


class _Shapes:
    """The letters of one `shapes` record, and where their values come from."""

    def __init__(self, view: View):
        self.view = view
        self.letters: dict[str, tuple[int, str]] = {}
        self.lists: dict[str, tuple[tuple[int, ...], str]] = {}

    def term(self, element: str) -> tuple[str | None, int, int, str]:
        """Return (letter, factor, constant, text) of an element such as `{GroupCount}*C`."""
        filled = re.sub(r"{([^}]*)}", lambda m: str(evaluate(m[1], self.view)), element)
        text = element.replace("{", "(").replace("}", ")")
        text = re.sub(r"\(([A-Za-z.]+)\)", r"\1", text)
        letters = list(dict.fromkeys(re.findall(r"\b[A-Z]\b", filled)))
        free = [name for name in letters if name not in self.letters]
        if len(free) > 1:
            raise UnknownError(element)
        letter = next(iter(free if len(letters) > 1 else letters), None)
        for name in letters:  # of several, all but a free one stand for their numbers
            if name != letter:
                number = str(self.letters[name][0])
                filled, text = re.sub(rf"\b{name}\b", number, filled), f"{text}, {name} = {number}"
        zero, one = (eval(filled, {"__builtins__": {}}, {letter or "_": v}) for v in (0, 1))
        return letter, one - zero, zero, text

    def match(self, path: str, element: str, size: int) -> tuple[bool, str]:
        """Return whether a size fits an element, and the rule; binds the letter if it is free."""
        rules = []
        for option in element.split("|"):
            letter, factor, constant, text = self.term(option)
            if letter is None:
                rules.append(f"{constant}" + ("" if text == str(constant) else f" ({text})"))
                if size == constant:
                    return True, ""
            elif letter in self.letters:
                value, origin = self.letters[letter]
                wanted = factor * value + constant
                origin = re.sub(rf"\b{letter}\b", origin, text)
                rules.append(f"{wanted} ({origin})")
                if size == wanted:
                    return True, ""
            elif factor and (size - constant) % factor == 0 and size > constant:
                origin = path if text == letter else f"{path} / {text.replace('*' + letter, '')}"
                self.letters[letter] = ((size - constant) // factor, origin)
                return True, ""
            else:
                of = re.sub(rf"\*?\b{letter}\b\*?", "", text).strip("()")
                return False, f"be a multiple of {factor} ({of})"
        return False, f"be {' or '.join(rules)}"

    def fit(self, path: str, pattern: Sequence[str], sizes: Sequence[int]) -> list[Any]:
        """Return the faults (path, rule, value) of sizes that do not fit a pattern."""
        listed = [k for k, e in enumerate(pattern) if e.endswith("...")]
        fixed = len(pattern) - len(listed)
        if len(sizes) < fixed or (not listed and len(sizes) != fixed):
            rule = f"be {'at least ' if listed else ''}{fixed}"
            return [(f"{path}.DimensionCount", rule, len(sizes))]
        faults: list[Any] = []
        spread = len(sizes) - fixed
        d = 0
        for element in pattern:
            if not element.endswith("..."):
                good, rule = self.match(f"{path}.Sizes[{d}]", element, sizes[d])
                if not good:
                    faults.append((f"{path}.Sizes[{d}]", rule, sizes[d]))
                d += 1
                continue
            name, part = element[:-3], tuple(sizes[d : d + spread])
            if name == "1":
                for k, size in enumerate(part):
                    if size != 1:
                        faults.append((f"{path}.Sizes[{d + k}]", "be 1", size))
            elif name and name not in self.lists:
                self.lists[name] = (part, path)
            elif name:
                wanted, origin = self.lists[name]
                if len(part) != len(wanted):
                    rule = f"be {len(wanted) + fixed} ({origin}.DimensionCount)"
                    faults.append((f"{path}.DimensionCount", rule, len(sizes)))
                else:
                    for k, (size, got) in enumerate(zip(wanted, part, strict=True)):
                        if size != got:
                            rule = f"be {size} ({origin}.Sizes[{k}])"
                            faults.append((f"{path}.Sizes[{d + k}]", rule, got))
            d += spread
        return faults

    def fit_any(self, path: str, patterns: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """Return the faults of sizes that fit none of several patterns."""
        if isinstance(patterns[0], str):
            return self.fit(path, patterns, sizes)
        for pattern in patterns:
            before = dict(self.letters), dict(self.lists)
            if not self.fit(path, pattern, sizes):
                return []
            self.letters, self.lists = before
        shown = " or ".join("[" + ", ".join(p) + "]" for p in patterns)
        known = ", ".join(f"{k} = {v}" for k, (v, _) in self.letters.items())
        return [(f"{path}.Sizes", f"be {shown}{f' ({known})' if known else ''}", list(sizes))]

    def size(self, element: str) -> int | None:
        """Return the size that an element stands for, None where its letter is free."""
        letter, factor, constant, _ = self.term(element.split("|")[-1])
        if letter is None:
            return constant
        return factor * self.letters[letter][0] + constant if letter in self.letters else None


def _in_order(shapes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the patterns of a record; those with a choice last, when letters are bound."""
    return sorted(shapes.items(), key=lambda item: "|" in str(item[1]) or "[[" in repr(item[1]))


def _check_shapes(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    shapes = _Shapes(view)
    for name, pattern in _in_order(data["shapes"]):
        for path, tensor in _tensors_in([name], view, "Sizes", wrong):
            for fault in shapes.fit_any(path, pattern, tensor.Sizes):
                expect(False, *fault)


_CHECKS: dict[str, Callable[..., None]] = {
    "equal": _check_equal,
    "type": _check_type,
    "range": _check_range,
    "least": _check_least,
    "one_of": _check_one_of,
    "nonzero": _check_nonzero,
    "unique": _check_unique,
    "length": _check_length,
    "shapes": _check_shapes,
    "broadcast": _check_broadcast,
    "size": _check_size,
    "holds": _check_holds,
    "given": _check_given,
    "at_least_one": _check_at_least_one,
}

# Records that say more about a single field come first: later ones rely on it.
_ORDER = ["at_least_one", "given", "least", "nonzero", "unique", "length", "range", "equal", "type"]


def compiled(records: Iterable[Mapping[str, Any]]) -> tuple[Record, ...]:
    """Return the records in the order in which they are checked."""
    made = [Record(data) for data in records]
    return tuple(sorted(made, key=lambda r: _ORDER.index(r.kind) if r.kind in _ORDER else 99))


def check(
    records: Iterable[Record],
    view: View,
    expect: Expect,
    wrong: set[Aspect],
    level: FeatureLevel,
) -> None:
    """Check every record that applies at a feature level, and add what is wrong to `expect`.

    Args:
        records: the records of the operator.
        view: the fields; a field that is missing or wrong is not in it.
        expect: collects the faults.
        wrong: the aspects that have a fault; those found here are added.
        level: the feature level.
    """
    undecided: list[tuple[Record, Exception]] = []
    for record in records:
        if not record.holds_at(level):
            continue
        names = {root for root, _ in record.reads}
        if record.kind == "size":  # a window that is too large is said before there is an output
            names -= {aspect_of(record.data["size"])[0]}
        if any(not view.is_known(name) for name in names):
            continue
        if any(is_wrong(wrong, root, aspect) for root, aspect in record.reads):
            continue
        before = len(expect.faults)
        try:
            if record.applies(view):
                record.check(view, expect, wrong)
        except UnknownError:
            continue
        except (IndexError, ZeroDivisionError, ValueError) as error:
            undecided.append((record, error))
        for fault in expect.faults[before:]:
            root, aspect = aspect_of(fault.field)
            wrong |= {(name, aspect) for name in (root, *view.lists_of(root))}
    if undecided and not expect.faults and not wrong:
        record, error = undecided[0]
        raise TypeError(f"{expect.operator}: {record} cannot be checked") from error


# Outputs that follow from the rest.


def solve_sizes(
    records: Iterable[Record], view: View, outputs: Sequence[str], level: FeatureLevel
) -> dict[str, list[int | None]]:
    """Return what follows of the sizes of `outputs` from the other fields; None is open.

    Args:
        records: the records of the operator.
        view: the fields but the outputs.
        outputs: the C names of the outputs.
        level: the feature level.
    """
    found: dict[str, list[int | None]] = {}
    active = [r for r in records if r.holds_at(level)]

    def put(name: str, d: int, size: int | None) -> None:
        if size is not None and name in found and found[name][d] is None:
            found[name][d] = size

    def known_sizes(name: str) -> Sequence[int] | None:
        root = name.replace("[*]", "")
        if root in found and None not in found[root]:
            return [size for size in found[root] if size is not None]
        if view.is_given(root):
            places = _places(name, view)
            return places[0][1].Sizes if places else None
        return None

    def by_equal(data: Any) -> None:
        aspects = set(data["of"])
        if not aspects & {"DimensionCount", "Sizes"}:
            return
        sizes = next((s for s in map(known_sizes, data["equal"]) if s is not None), None)
        if sizes is None:
            return
        for name in data["equal"]:
            if name in outputs:
                found.setdefault(name, [None] * len(sizes))
                but = evaluate(data["except"], view) if "except" in data else None
                for d, size in enumerate(sizes):
                    if "Sizes" in aspects and d != but:
                        put(name, d, size)

    def by_shapes(data: Any) -> None:
        shapes = _Shapes(view)
        patterns = _in_order(data["shapes"])
        for name, pattern in patterns:
            sizes = known_sizes(name)
            if sizes is not None:
                shapes.fit_any(name, pattern, sizes)
        for name, pattern in patterns:
            if name not in outputs or not isinstance(pattern[0], str):
                continue
            listed = next((k for k, e in enumerate(pattern) if e.endswith("...")), None)
            label = None if listed is None else pattern[listed][:-3]
            part: Sequence[int | None] = ()
            if label in shapes.lists:
                part = shapes.lists[label][0]
            elif listed is not None and name in found:
                spread = len(found[name]) - len(pattern) + 1
                part = [1 if label == "1" else None] * spread
            elif label not in (None, "1"):
                continue
            sizes = [None if e.endswith("...") else shapes.size(e) for e in pattern]
            if listed is not None:
                sizes[listed : listed + 1] = part
            found.setdefault(name, [None] * len(sizes))
            for d, size in enumerate(sizes):
                put(name, d, size)

    def by_size(data: Any) -> None:
        name = data["size"].split(".")[0]
        if name not in found:
            return
        wanted = [size for _, _, size in _window_sizes(data, view)]
        wanted = [math.prod(wanted)] if data.get("product") else wanted
        for d, size in zip(range(-len(wanted), 0), wanted, strict=True):
            put(name, len(found[name]) + d, size)

    def by_holds(data: Any) -> None:
        tree = _parsed(data["holds"])
        if not (isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Eq)):
            return
        left = re.fullmatch(r"(\w+)\.Sizes\[(.*)\]", ast.unparse(tree.left))
        if left is None or left[1] not in found or ":" in left[2]:
            return
        try:
            for index in _indices(data, view, outputs):
                _let(data, view, index)
                size = evaluate(ast.unparse(tree.comparators[0]), view)
                put(left[1], evaluate(left[2], view), size)
        finally:
            view.let = {}

    solvers = {"equal": by_equal, "shapes": by_shapes, "size": by_size, "holds": by_holds}
    for _ in range(3):  # what one record says another one may need
        for record in active:
            if record.kind in solvers:
                try:
                    if record.applies(view):
                        solvers[record.kind](record.data)
                except (UnknownError, IndexError, ValueError, ZeroDivisionError, AttributeError):
                    continue  # the description is wrong there, and the check says so
    return found


def solve_types(
    records: Iterable[Record],
    view: View,
    outputs: Sequence[str],
    level: FeatureLevel,
    chosen: Mapping[str, str],
) -> dict[str, str]:
    """Return the data types of `outputs` that follow from the other fields and from `chosen` ones.

    `chosen` has the types of outputs that the caller knows; the result has these too.
    """
    found = dict(chosen)

    def known(name: str) -> str | None:
        root = name.partition("[")[0]
        if root in found:
            return found[root]
        if view.is_given(root):
            places = _places(name, view)
            return places[0][1].DataType if places else None
        return None

    for _ in range(2):
        for record in records:
            data = record.data
            try:
                if not record.holds_at(level) or not record.applies(view):
                    continue
                made = data["is"].removesuffix(".DataType") if record.kind == "type" else ""
                if made in outputs and known(data["type"]) is not None:  # the record read backward
                    found.setdefault(made, str(known(data["type"])))
                elif record.kind == "type" and data["type"] in outputs:
                    wanted = data["is"]
                    if wanted.isupper():
                        found.setdefault(data["type"], wanted)
                    elif wanted.endswith(".DataType"):
                        of = known(wanted.removesuffix(".DataType"))
                        if of is not None:
                            found.setdefault(data["type"], of)
                    else:
                        found.setdefault(data["type"], evaluate(wanted, view))
                elif record.kind == "equal" and "DataType" in data["of"]:
                    of = next((t for t in map(known, data["equal"]) if t is not None), None)
                    for name in data["equal"]:
                        if name in outputs and of is not None:
                            found.setdefault(name, of)
            except (UnknownError, AttributeError, IndexError):
                continue
    return found
