"""Check each kind of constraint record, and explain the faults."""

import ast
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from dml_jax.constraints.expressions import (
    Aspect,
    TensorView,
    View,
    evaluate,
    is_wrong,
    parsed,
    places,
    root_of,
    value_of,
    with_index,
)
from dml_jax.constraints.shapes import Shapes, in_order
from dml_jax.errors import Expect, Unquoted


def _tensors_in(
    names: Iterable[str], view: View, aspect: str, wrong: Collection[Aspect]
) -> Iterator[tuple[str, Any]]:
    """Yield (path, tensor) of the named tensors that are given and right in this aspect."""
    for name in names:
        root = root_of(name)
        if view.is_given(root) and not is_wrong(wrong, root, aspect):
            yield from places(name, view)


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


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


def _check_type(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    wanted, origin = data["is"], ""
    if not wanted.isupper():
        origin, wanted = f" ({wanted})", evaluate(wanted, view)
    for path, value in places(data["type"], view):
        if isinstance(value, TensorView):
            path, value = f"{path}.DataType", value.DataType
        expect(value == wanted, path, f"be {wanted}{origin}", _plain(value))


def _check_range(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    low = evaluate(data["from"], view)
    limit = data["below"] if "below" in data else data["to"]
    number = evaluate(limit, view)
    high = number - 1 if "below" in data else number
    origin = f" ({limit} is {number})" if isinstance(limit, str) else ""
    for path, value in places(data["range"], view):
        expect(low <= value <= high, path, f"be in [{low}, {high}]{origin}", value)


def _check_least(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in places(data["least"], view):
        expect(value >= data["value"], path, f"be at least {data['value']}", value)


def _check_one_of(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    values = data["values"]
    known = [v for v in values if v is not None]
    rule = f"be one of {_listed(known)}" if len(known) > 1 else f"be {_listed(known)}"
    for path, value in places(data["one_of"], view):
        expect(value in values, path, rule if known else "be left out", _plain(value))


def _check_nonzero(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in places(data["nonzero"], view):
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
    (_, target), to = places(data["to"], view)[0], data["to"]
    for path, tensor in _tensors_in(data["broadcast"], view, "Sizes", wrong):
        if tensor.DimensionCount != target.DimensionCount:
            rule = f"be {target.DimensionCount} ({to}.DimensionCount)"
            expect(False, f"{path}.DimensionCount", rule, tensor.DimensionCount)
            continue
        for d, (size, got) in enumerate(zip(target.Sizes, tensor.Sizes, strict=True)):
            rule = f"be 1 or {size} ({to}.Sizes[{d}])"
            expect(got in (1, size), f"{path}.Sizes[{d}]", rule, got)


def window_sizes(data: Any, view: View) -> list[tuple[int, int, int, int]]:
    """Return (padded input, window, output size, most windows) of each dimension of a record.

    The output size counts whole windows; the last of most windows may hang over the end.
    """
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
        steps = padded - reach
        found.append((padded, reach, steps // stride + 1, -(-steps // stride) + 1))
    return found


def _check_size(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    sizes = window_sizes(data, view)
    window = data["window"]["sizes"]
    base = re.sub(r"\[.*$", "", window)
    for d, (padded, reach, *_) in enumerate(sizes):
        path = f"{base}[{d + (2 if base.endswith('Sizes') and '.' in base else 0)}]"
        rule = f"span at most {padded} elements (the padded input), with its dilation"
        if not expect(reach <= padded, path, rule, reach):
            return
    source = "the padded input, window, stride and dilation"
    found = places(data["size"], view)
    if data.get("chosen"):
        for (path, got), (*_, most) in zip(found, sizes, strict=True):
            expect(1 <= got <= most, path, f"be in [1, {most}] (from {source})", got)
        return
    wanted = [size for _, _, size, _ in sizes]
    if data.get("product"):
        wanted = [math.prod(wanted)]
    for (path, got), size in zip(found, wanted, strict=True):
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


def indices_of(data: Any, view: View, unknown: Collection[str] = ()) -> Iterable[int]:
    """Return the values of the index of a record: those of the lists that it indexes."""
    name = data.get("each")
    if name is None:
        return [0]
    lengths = []
    for text in (data["holds"], *data.get("let", {}).values()):
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == name:
                sequence = ast.unparse(node.value)
                if root_of(sequence) not in unknown:
                    lengths.append(len(evaluate(sequence, view)))
    return range(min(lengths))


def bind_names(data: Any, view: View, index: int) -> None:
    """Give the index of a record, and the names that its `let` defines, their values in `view`."""
    view.let = {}
    if "each" in data:
        view.let[data["each"]] = index
    for name, text in data.get("let", {}).items():
        view.let[name] = evaluate(text, view)


def _check_holds(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    try:
        for index in indices_of(data, view):
            bind_names(data, view, index)
            if not evaluate(data["holds"], view):
                path, rule, value = _explained(data, view, index)
                expect(False, *_of_lists(path, rule, value, view))
    finally:
        view.let = {}


def _of_lists(path: str, rule: str, value: Any, view: View) -> tuple[str, str, Any]:
    """Return a fault of a count as one of the first list that is counted and given."""
    name = next((name for name in view.lists_of(path) if view.is_given(name)), None)
    wanted = re.match(r"be (\d+)(.*)", rule)
    if name is None or wanted is None:
        return path, rule, value
    each = ", one for each spatial dimension" if rule.endswith(" - 2)") else ""
    return name, f"have {wanted[1]} elements{each}{wanted[2]}", list(view[name])


def _explained(data: Any, view: View, index: int) -> tuple[str, str, Any]:
    """Return (path, rule, value) of an expression that is false."""
    text = data["holds"]
    for name, meaning in data.get("let", {}).items():
        text = re.sub(rf"\b{name}\b", meaning if meaning.isidentifier() else f"({meaning})", text)
    text = with_index(text, data.get("each"), index)
    tree = parsed(text)
    if isinstance(tree, ast.Compare):
        parts = [tree.left, *tree.comparators]
        if len(parts) == 2 and _is_path(parts[0]) and type(tree.ops[0]) in _OPERATORS:
            ((path, value),) = places(ast.unparse(parts[0]), view)
            limit = ast.unparse(parts[1])
            number = evaluate(limit, view)
            origin = "" if limit == str(number) else f" ({limit})"
            return path, f"{_OPERATORS[type(tree.ops[0])]} {_shown(number)}{origin}", value
        if len(parts) == 3 and _is_path(parts[1]):
            ((path, value),) = places(ast.unparse(parts[1]), view)
            low, high = (value_of(part, view) for part in (parts[0], parts[2]))
            return path, f"be in [{low}, {high}] ({ast.unparse(parts[2])})", value
        if len(parts) == 2:
            return _in_words(tree, view)
    return root_of(text), f"make {text} true", _plain("false")


def _in_words(tree: ast.Compare, view: View) -> tuple[str, str, Any]:
    """Return (path, rule, value) of a comparison whose left side is no path and which is false."""
    left, right = (value_of(part, view) for part in (tree.left, tree.comparators[0]))
    text, limit = ast.unparse(tree.left), ast.unparse(tree.comparators[0])
    nodes = [n for n in ast.walk(tree.left) if isinstance(n, ast.expr) and _is_path(n)]
    called = {n.func for n in ast.walk(tree.left) if isinstance(n, ast.Call)}
    paths = [ast.unparse(n) for n in nodes if n not in called]
    leading = re.fullmatch(r"product\((\w+)\.Sizes\[:.*- ?(\w+)\]\)", text)
    if leading is not None and right == 1:
        count, first = evaluate(leading[2], view), evaluate(text[len("product(") : -1], view)
        d, size = next((d, size) for d, size in enumerate(first) if size != 1)
        rule = f"be 1: dimensions before the last {count} ({leading[2]}) do not count"
        return f"{leading[1]}.Sizes[{d}]", rule, size
    own = re.fullmatch(r"stripped\((\w+)\.Sizes\)", text)
    if own is not None:
        rule = f"be {list(right)} (ones may stand in front)"
        return f"{own[1]}.Sizes", rule, list(view[own[1]].Sizes)
    given = re.findall(r"given\((\w+)\)", text)
    if len(given) > 1:
        rule = f"be given, or {_listed(given[1:])}: exactly one of them"
        return given[0], rule, left
    if given:
        rule = f"be {'given' if right else 'left out'} ({'' if right else 'unless '}{limit})"
        return given[0], rule, _plain("a tensor" if left else "nothing")
    if isinstance(tree.left, ast.BinOp) and isinstance(tree.left.op, ast.Mod):
        by = ast.unparse(tree.left.right)
        rule = f"be a multiple of {value_of(tree.left.right, view)} ({by})"
        return paths[0], rule, value_of(tree.left.left, view)
    text = re.sub(
        r"len\(stripped\((\w+)\.Sizes\)\)", r"(dimensions of \1 after leading ones)", text
    )
    word = _OPERATORS[type(tree.ops[0])].removeprefix("be").strip() or "equal to"
    origin = "" if limit == str(right) else f" ({limit})"
    path = re.sub(r"\[[^\]]*:[^\]]*\]$", "", paths[0])
    return path, f"keep {text} {word} {_shown(right)}{origin}", _shown(left)


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


def _check_shapes(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    shapes = Shapes(view)
    for name, pattern in in_order(data["shapes"]):
        for path, tensor in _tensors_in([name], view, "Sizes", wrong):
            for fault in shapes.fit_any(path, pattern, tensor.Sizes):
                expect(False, *fault)


CHECKS: dict[str, Callable[..., None]] = {
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
