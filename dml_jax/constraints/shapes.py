"""Fit sizes to the patterns of `shapes` records."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dml_jax.constraints.record_expressions import UnknownError, View, evaluate


class Shapes:
    """The letters of one `shapes` record, and where their values come from."""

    def __init__(self, view: View):
        self.view = view
        self.letters: dict[str, tuple[int, str]] = {}
        self.lists: dict[str, tuple[tuple[int, ...], str]] = {}

    def term(self, element: str) -> tuple[str | None, int, int, str]:
        """Return (letter, factor, constant, text) of an element such as `{GroupCount}*C`."""
        filled = re.sub(r"{([^}]*)}", lambda m: str(evaluate(m[1], self.view)), element)
        text = re.sub(r"{([A-Za-z.]+)}", r"\1", element).replace("{", "(").replace("}", ")")
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
                origin = re.sub(r"^(\w+)\*(\S+) / \1$", r"\2", origin)
                rules.append(f"{wanted} ({origin})")
                if size == wanted:
                    return True, ""
            elif factor and (size - constant) % factor == 0 and size > constant:
                origin = path if text == letter else f"{path} / {text.replace('*' + letter, '')}"
                self.letters[letter] = ((size - constant) // factor, origin)
                return True, ""
            else:
                of = re.sub(rf"\*?\b{letter}\b\*?", "", text).strip("()")
                return False, f"be a multiple of {factor}{'' if of == str(factor) else f' ({of})'}"
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
                place, size = f"{path}.Sizes[{d}]", sizes[d]
                is_letter = len(element) == 1 and element.isupper()  # which takes no expression
                if not is_letter or self.letters.setdefault(element, (size, place))[0] != size:
                    good, rule = self.match(place, element, size)
                    if not good:
                        faults.append((place, rule, size))
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


def in_order(shapes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the patterns of a record; those with a choice last, when letters are bound."""
    return sorted(shapes.items(), key=lambda item: "|" in str(item[1]) or "[[" in repr(item[1]))
