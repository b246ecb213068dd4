"""Check each kind of constraint record, and explain the faults."""

import ast
import functools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from dml_jax.constraints.record_expressions import (
    Aspect,
    TensorView,
    View,
    evaluate,
    is_wrong,
    parsed,
    places,
    root_of,
    text_of,
)
from dml_jax.constraints.shapes import Shapes, in_order
from dml_jax.enums import TensorDataType
from dml_jax.errors import NOTHING, OF_LENGTHS, OF_RANGE, Expect, Unquoted


def _tensors_in(
    names: Iterable[str], view: View, aspect: str, wrong: Collection[Aspect]
) -> list[tuple[str, Any]]:
    """Return (path, tensor) of the named tensors that are given and right in this aspect."""
    found = list[tuple[str, Any]]()
    for name in names:
        root = root_of(name)
        if root in view.given and not (wrong and is_wrong(wrong, root, aspect)):
            found += [(name, view[name])] if name == root else places(name, view)
    return found


def _check_equal(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    # Sizes are compared where the ranks are equal.
    aspects = {"DimensionCount" if aspect == "Sizes" else aspect for aspect in data["of"]}
    for aspect in sorted(aspects):
        tensors = _tensors_in(data["equal"], view, aspect, wrong)
        for path, other in tensors[1:]:
            first, one = tensors[0]
            expected, actual = getattr(one, aspect), getattr(other, aspect)
            if actual != expected:
                rule = f"be {expected} ({first}.{aspect})"
                expect(False, f"{path}.{aspect}", rule, _plain(actual))
            elif aspect == "DimensionCount" and "Sizes" in data["of"]:
                but = evaluate(data["except"], view) if "except" in data else None
                for d, (size, got) in enumerate(zip(one.Sizes, other.Sizes, strict=True)):
                    if got != size and d != but:
                        rule = f"be {size} ({first}.Sizes[{d}])"
                        expect(False, f"{path}.Sizes[{d}]", rule, got)


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
        expect(low <= value <= high, path, f"be in [{low}, {high}]{origin}", value, OF_RANGE)


def _check_least(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in places(data["least"], view):
        if not value >= data["value"]:
            expect(False, path, f"be at least {data['value']}", value)


def _check_one_of(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    values = data["values"]
    for path, value in places(data["one_of"], view):
        if value not in values:
            known = [v for v in values if v is not None]
            rule = f"be {'one of ' * (len(known) > 1)}{_listed(known)}" if known else "be left out"
            expect(False, path, rule, _plain(value))


def _check_nonzero(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in places(data["nonzero"], view):
        expect(value != 0, path, "not be 0", value)


def _check_finite(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    for path, value in places(data["finite"], view):
        expect(math.isfinite(value), path, "be finite", value)


def _integers(text: str, view: View) -> Any:
    """Return the limits of an integer type that an expression names; None of other types."""
    kind = TensorDataType.of(evaluate(text, view), beyond=True)
    return np.iinfo(kind.dtype) if kind.element_size and kind.dtype.kind in "iu" else None


def _check_number(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    if "for" not in data or _integers(data["for"], view):
        of = f" ({evaluate(data['for'], view)})" if "for" in data else ""
        for path, value in places(data["number"], view):
            expect(not math.isnan(value), path, f"not be NaN{of}", value)


def _check_fits(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    limits = _integers(data["in"], view)
    for path, value in places(data["fits"], view) if limits else ():
        is_whole = math.isfinite(value) and value == int(value)
        rule = f"be an integer in [{limits.min}, {limits.max}] ({evaluate(data['in'], view)})"
        if is_whole and -(2**limits.bits) < value < 0:
            rule += f"; {int(value)} modulo 2^{limits.bits} is {int(value) % 2**limits.bits}"
        expect(is_whole and limits.min <= value <= limits.max, path, rule, value)


def _check_unique(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    firsts: dict[Any, int] = {}
    for index, value in enumerate(view[data["unique"]]):
        first = firsts.setdefault(value, index)
        rule = f"differ from {data['unique']}[{first}]"
        expect(first == index, f"{data['unique']}[{index}]", rule, value)


def _check_length(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    value, limit = view[data["length"]], data["is"]
    wanted = limit if isinstance(limit, int) else evaluate(limit, view)
    if len(value) == wanted:
        return
    origin = f" ({data['is']})" if isinstance(data["is"], str) else ""
    count = view.count_of(data["length"])
    path, rule = (count, f"be {wanted}") if count else (data["length"], f"have {wanted} elements")
    expect(False, path, rule + origin, len(value))


def _check_broadcast(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    (_, target), to = places(data["to"], view)[0], data["to"]
    for path, tensor in _tensors_in(data["broadcast"], view, "Sizes", wrong):
        if tensor.DimensionCount != target.DimensionCount:
            rule = f"be {target.DimensionCount} ({to}.DimensionCount)"
            expect(False, f"{path}.DimensionCount", rule, tensor.DimensionCount)
            continue
        for d, (size, got) in enumerate(zip(target.Sizes, tensor.Sizes, strict=True)):
            if got not in (1, size):
                rule = f"be 1 or {size} ({to}.Sizes[{d}])"
                expect(False, f"{path}.Sizes[{d}]", rule, got)


def window_sizes(data: Any, view: View) -> list[tuple[int, int, int, int]]:
    """Return (padded input, window, output size, most windows) of each dimension of a record.

    The output size counts whole windows; the last of most windows may hang over the end.
    """
    window = data["window"]
    sizes = evaluate(window["sizes"], view)
    ones, zeros = (1,) * len(sizes), (0,) * len(sizes)
    default = {"dilations": ones, "strides": ones, "start": zeros, "end": zeros}
    parts = [
        (view[window[key]] if window[key].isidentifier() else evaluate(window[key], view))
        if key in window
        else default[key]
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
        if reach > padded:
            path = f"{base}[{d + (2 if base.endswith('Sizes') and '.' in base else 0)}]"
            rule = f"span at most {padded} elements (the padded input), with its dilation"
            expect(False, path, rule, reach)
            return
    source = "the padded input, window, stride and dilation"
    found = places(data["size"], view)
    if data.get("chosen"):
        for (path, got), (*_, most) in zip(found, sizes, strict=True):
            expect(1 <= got <= most, path, f"be in [1, {most}] (from {source})", got)
        return
    wanted = [size for _, _, size, _ in sizes]
    wanted = [math.prod(wanted)] if data.get("product") else wanted
    for (path, got), size in zip(found, wanted, strict=True):
        if got != size:
            expect(False, path, f"be {size} (from {source})", got)


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
    if "each" not in data:
        return [0]
    texts = (data["holds"], *data.get("let", {}).values())
    lists = (name for text in texts for name in _lists_by_index(text, data["each"]))
    return range(min(len(evaluate(name, view)) for name in lists if root_of(name) not in unknown))


@functools.cache
def _lists_by_index(text: str, index: str) -> tuple[str, ...]:
    """Return the lists whose elements an expression reads by an index."""
    parts = (node for node in ast.walk(parsed(text)) if isinstance(node, ast.Subscript))
    return tuple(text_of(part.value) for part in parts if text_of(part.slice) == index)


def bind_names(data: Any, view: View, index: int) -> None:
    """Give the index of a record, and the names that its `let` defines, their values in `view`."""
    if "each" in data:
        view[data["each"]] = index
    for name, text in data.get("let", {}).items():
        view[name] = evaluate(text, view)


def unbind_names(data: Any, view: View) -> None:
    """Take the names of `bind_names` out of `view` again."""
    for name in (data.get("each"), *data.get("let", {})):
        view.pop(name, None)


def _check_holds(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    try:
        for index in indices_of(data, view):
            bind_names(data, view, index)
            if not evaluate(data["holds"], view):
                path, rule, *rest = _explained(data, view)
                expect(False, path, rule + ("" if "(" in rule else _reason(data)), *rest)
    finally:
        unbind_names(data, view)


def _reason(data: Any) -> str:
    """Return why a record applies, as ` (MaskType is NONE)`; "" where it always does."""
    said = (f"{path} is {json.dumps(value)}" for path, value in data.get("where", {}).items())
    return f" ({', '.join(said)})".replace('"', "") if "where" in data else ""


def _explained(data: Any, view: View) -> tuple[Any, ...]:
    """Return (path, rule, value), and the kind if any, of the fault of an expression."""
    if "fault" in data:
        *texts, value = data["fault"]
        return *(evaluate(f"f{text!r}", view) for text in texts), _plain(evaluate(value, view))
    tree: Any = parsed(data["holds"])
    is_compared = isinstance(tree, ast.Compare) and _is_path(tree.left)
    operator = _OPERATORS.get(type(tree.ops[0])) if is_compared else None
    if operator is None:
        return root_of(data["holds"]), f"make {data['holds']} true", _plain("false")
    ((path, value),) = places(text_of(tree.left), view)
    limit = text_of(tree.comparators[0])
    number = evaluate(limit, view)
    origin = "" if limit == str(number) else f" ({limit})"
    counted = next((n for n in view.lists_of(path) if n in view.given), None)
    if counted is None or operator != "be":
        return path, f"{operator} {number}{origin}", value
    each = ", one for each spatial dimension" * limit.endswith(" - 2")
    return counted, f"have {number} elements{each}{origin}", list(view[counted]), OF_LENGTHS


def _check_given(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    pair = data["given"], data["with"]
    for there, missing in (pair, pair[::-1]):
        if there in view.given and missing not in view.given:
            expect(False, missing, f"be given ({there} is)", NOTHING)


def _check_at_least_one(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    names = data["at_least_one"]
    is_open = not view.known.issuperset(names) or is_wrong(wrong, names[0], "")
    if not is_open and view.given.isdisjoint(names):
        rule = "be given" if len(names) == 1 else f"be given, or {_listed(names[1:])}"
        expect(False, names[0], rule + _reason(data), NOTHING)


def _check_shapes(data: Any, view: View, expect: Expect, wrong: Collection[Aspect]) -> None:
    shapes = Shapes(view)
    for name, pattern in in_order(data["shapes"]):
        for path, tensor in _tensors_in([name], view, "Sizes", wrong):
            for fault in shapes.fit_any(path, pattern, tensor.Sizes):
                expect(False, *fault)


CHECKS: dict[str, Callable[..., None]] = {
    name.removeprefix("_check_"): check
    for name, check in [*globals().items()]
    if name.startswith("_check_")
}
"""The check of each kind of record."""
