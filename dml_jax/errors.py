"""`DmlError`, the one exception of the package, and the faults that it carries."""

import contextlib
import difflib
import enum
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

FAULTS_MAX = 100
"""The number of faults after which a search stops, and which a message shows at most."""


OF_SIZES, OF_UNSET_SIZES, OF_VALUES, OF_LIMITS = "sizes", "unset sizes", "values", "limits"
"""The kinds of faults that other sizes of a network's inputs may cure, that no size is set, that
values of inputs may cure, given as constants, and that an index lies beyond its table."""

OF_CURE, OF_BUG = "cure", "internal"
"""The kinds of faults that say which option cures the others, and that nothing but a change of this
package cures (`InternalError`)."""

OF_LENGTHS, OF_RANGE = "lengths", "range"
"""The kinds of faults that a list has not one element for each dimension, and that an integer is
outside its range."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One broken rule: `expected {field} to {rule}, got {value}`.

    Attributes:
        operator: the description, in DirectML's spelling (`DML_OPERATOR_REDUCE`), or "".
        field: the field, in DirectML's spelling (`OutputTensor.Sizes[2]`); "" is the value itself.
        rule: what the field has to do, as a verb phrase (`be 3 (InputTensor.Sizes[2])`), or a
            `Sentence`, which is the whole message.
        value: the value of the field; the message leaves `UNSAID` out.
        context: the places that enclose the fault, outermost first (`Dispatchable 'sum'`).
        kind: what would cure the fault, for callers that try it: `OF_SIZES`, `OF_UNSET_SIZES`,
            `OF_VALUES`, `OF_BUG`, or "". The other kinds say what it is about.
        choices: the names of which the value has to be one, where these are few.
    """

    operator: str
    field: str
    rule: str
    value: object
    context: tuple[str, ...] = ()
    kind: str = ""
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        if isinstance(self.rule, Sentence):
            text = str(self.rule)
        else:
            shown = abbreviate(self.value)
            got = f", got {shown}" if shown else ""
            text = f"expected {self.field or 'value'} to {self.rule}{got}"
        where = [*self.context, *([self.operator] if self.operator else [])]
        return printable(": ".join([*where, text]))


def names_cure(fault: Fault) -> bool:
    """Return whether a fault says which option cures others."""
    return fault.kind in (OF_CURE, OF_UNSET_SIZES)


def first_lines(faults: Sequence[Fault], most: int, rest: str) -> list[str]:
    """Return the messages of the first faults, cures before others; `rest` stands for the others.

    At most `most` are shown; `{}` in `rest` is how many are left.
    """
    ordered = sorted(faults, key=names_cure, reverse=True)
    left = len(ordered) - most
    return [*map(str, ordered[:most]), *[rest.format(left)] * (left > 0)]


PARTS_MAX = 100_000
"""How many nodes, resources or commands a file may have, so that loading ends soon."""


def expect_few(field: str, count: int, operator: str = "", context: tuple[str, ...] = ()) -> None:
    """Raise `DmlError` where a file has more than `PARTS_MAX` parts of a kind."""
    if count > PARTS_MAX:
        raise DmlError([Fault(operator, field, f"be at most {PARTS_MAX}", count, context)])


class DmlError(ValueError):
    """Carries every fault of one description.

    `.operator`, `.field`, `.rule` and `.value` repeat those of the first of `.faults`.
    """

    def __init__(self, faults: Iterable[Fault]):
        self.faults = tuple(faults)
        super().__init__(self.faults)

    def __str__(self) -> str:
        return "\n".join(first_lines(self.faults, FAULTS_MAX, "and more"))

    @property
    def operator(self) -> str:
        return self.faults[0].operator

    @property
    def field(self) -> str:
        return self.faults[0].field

    @property
    def rule(self) -> str:
        return self.faults[0].rule

    @property
    def value(self) -> object:
        return self.faults[0].value

    def moved(self, operator: str, path: str) -> list[Fault]:
        """Return the faults as faults of the field `path` of `operator`."""
        return [
            replace(fault, operator=operator, field=_join(path, fault.field))
            for fault in self.faults
        ]

    def within(self, context: str) -> "DmlError":
        """Return the error with `context` around each of its faults."""
        return type(self)(replace(f, context=(context, *f.context)) for f in self.faults)


class MissingFileError(DmlError, FileNotFoundError):
    """Says that there is no file at a path."""


class InternalError(DmlError):
    """Says that the package has a bug, in one line with its place; `__cause__` is the bug.

    Nobody tries a cure for it: no sizes, values or options of a caller are to blame.
    """


@contextlib.contextmanager
def bugs_within(context: str) -> Iterator[None]:
    """Raise a bug inside, any other error than `DmlError`, as `InternalError` within `context`.

    With the environment variable `DML_JAX_RAISE=1` the bug itself is raised.
    """
    try:
        yield
    except DmlError:
        raise
    except Exception as error:
        # A file of a stranger must not end a program by a traceback, so a bug has one line too.
        # Tests and fuzzers ask for the bug itself, which they would otherwise take for a refusal.
        if os.environ.get("DML_JAX_RAISE") == "1":
            raise
        text = abbreviate(Unquoted(f"{type(error).__name__}: {error}"), 200)
        rule = Sentence(f"this is a bug of dml_jax, please report it: {text}")
        fault = Fault("", "", rule, UNSAID, (context,) if context else (), OF_BUG)
        raise InternalError([fault]) from error


def raise_if(faults: Iterable[Fault]) -> None:
    """Raise `DmlError` with `faults`, if there are any."""
    listed = tuple(faults)
    if listed:
        raise DmlError(listed)


@contextlib.contextmanager
def moving(operator: str, path: str = "", context: str = "") -> Iterator[None]:
    """Raise errors inside as errors of the field `path` of `operator`, within `context`."""
    try:
        yield
    except DmlError as error:
        moved = type(error)(error.moved(operator, path))
        raise (moved.within(context) if context else moved) from error.__cause__


@contextlib.contextmanager
def inside(context: str) -> Iterator[None]:
    """Raise errors inside within `context`."""
    try:
        yield
    except DmlError as error:
        raise error.within(context) from error.__cause__


@contextlib.contextmanager
def collecting(faults: list[Fault], context: str = "") -> Iterator[None]:
    """Add the faults of an error inside to `faults`, within `context`, and go on behind it."""
    try:
        yield
    except DmlError as error:
        faults += (error.within(context) if context else error).faults


class Expect:
    """Collects faults: `expect(axis < rank, "Axis", f"be below {rank}", axis)`."""

    def __init__(self, operator: str):
        self.operator = operator
        self.faults: list[Fault] = []

    def __call__(self, holds: bool, field: str, rule: str, value: object, kind: str = "") -> bool:
        if not holds:
            self.faults.append(Fault(self.operator, field, rule, value, kind=kind))
        return holds

    def check(self) -> None:
        """Raise `DmlError` if there are faults."""
        if self.faults:
            raise DmlError(self.faults)


def field_of(path: str) -> str:
    """Return the field that `path` begins with: `OutputTensors` for `OutputTensors[1].Sizes[0]`."""
    return re.split(r"[.[]", path, maxsplit=1)[0]


def _join(path: str, field: str) -> str:
    return f"{path}{'' if not field or field[0] == '[' else '.'}{field}"


def abbreviate(value: object, limit: int = 80) -> str:
    """Return the text of `value` for a message: one line of at most `limit` characters."""
    try:
        text = str(value) if isinstance(value, Unquoted) else repr(value)
    except RecursionError:
        text = f"a deeply nested {type(value).__name__}"
    except ValueError:  # an integer of thousands of digits, or a list of such
        text = f"{with_article(type(value))} that is too long to show"
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 20]} ... {text[-14:]}"


def with_article(kind: type) -> str:
    """Return the name of the type `kind` with its article: `an int`, `a list`."""
    return f"{'an' if kind.__name__[0] in 'AEIOaeiou' else 'a'} {kind.__name__}"


def printable(text: str) -> str:
    """Return `text` with its control characters escaped.

    Names come from files: they must not move a terminal's cursor or change its colours.
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class Unquoted(str):
    """A value that messages show without quotes."""

    __slots__ = ()


class Sentence(str):
    """A rule that is the whole message."""

    __slots__ = ()


NOTHING = Unquoted("nothing")
"""The value of a field that is missing."""

UNSAID = Unquoted()
"""A value that says nothing beside the rule; messages end before it."""


def nearest(word: object, known: Iterable[str]) -> str:
    """Return ` (did you mean 'Axis'?)` if one of the `known` names is near `word`, else ""."""
    return suggested(nearest_name(word, known))


def suggested(name: str | None) -> str:
    """Return ` (did you mean 'Axis'?)` for a name, "" for None."""
    return "" if name is None else f" (did you mean {name!r}?)"


_OTHER_NAMES = {  # of NumPy, JAX and ONNX
    "mean": "AVERAGE",
    "prod": "MULTIPLY",
    "dcr": "DEPTH_COLUMN_ROW",
    "crd": "COLUMN_ROW_DEPTH",
}


_NEAR = 0.65  # of a ratio of difflib: beyond are typos, below other words


def nearest_name(word: object, known: Iterable[str]) -> str | None:
    """Return the name of `known` that `word` probably means, or None.

    In this order: `word` in another case; the name that other libraries call `word`; a name of
    which `word` is a part between underscores; the most similar name; a name that holds `word`.
    """
    by_case = {name.casefold(): name for name in known}
    if not isinstance(word, str):
        return None
    folded = word.casefold()
    for name in (folded, _OTHER_NAMES.get(folded, "").casefold()):
        if name in by_case:
            return by_case[name]
    if len(word) > 100 or len(by_case) > 1000:
        return None  # the search takes the product of these
    for name in by_case if len(folded) > 2 else ():
        if folded in name.split("_"):  # OWNED, CLIP
            return by_case[name]
    close = difflib.get_close_matches(folded, by_case, n=3, cutoff=_NEAR)
    ratios = {name: difflib.SequenceMatcher(None, name, folded).ratio() for name in close}
    first = (name for name in by_case if name in ratios and ratios[name] == max(ratios.values()))
    within = (name for name in by_case if len(folded) > 2 and folded in name)
    parts = {part: name for name in reversed(by_case) for part in name.split("_")}
    near = (parts[part] for part in difflib.get_close_matches(folded, parts, n=1, cutoff=_NEAR))
    return by_case.get(next(itertools.chain(first, within, near), ""))


def refused(rule: str, value: object, kind: str = "") -> DmlError:
    """Return the error of one `value` that breaks `rule`; callers add the place of the value."""
    return DmlError([Fault("", "", rule, value, kind=kind)])


def items_of(values: Any, of: str = "") -> tuple[Any, ...]:
    """Return the items of any iterable as a tuple; `of` describes them in the message.

    Raises `DmlError` for strings, mappings, enumerations and sets.
    """
    rule = f"be a list{of}"
    if isinstance(values, Set):
        rule += " such as [2, 1] (the set {2, 1} of Python has no order)"
    elif not isinstance(values, (str, bytes, Mapping, enum.Enum)):
        try:
            return tuple(values)
        except TypeError:
            pass
    raise refused(rule, values)


class MissingPackageError(DmlError, ImportError):
    """Says which package is missing, and the command that installs it."""


def missing_extra(
    package: str, purpose: str, extra: str, operator: str = ""
) -> MissingPackageError:
    """Return the error that `package`, which the extra installs, is missing for `purpose`."""
    rule = f"expected the package {package} to be installed to {purpose}: {install_command(extra)}"
    return MissingPackageError([Fault(operator, "", Sentence(rule), UNSAID)])


def install_command(extra: str) -> str:
    """Return the pip command that installs the packages of `extra` that are missing.

    It names the packages themselves, so that it works wherever dml_jax was installed from.
    """
    try:
        requirements = metadata.requires("dml-jax") or []
    except metadata.PackageNotFoundError:  # it is on the path, and not installed
        return f'pip install ".[{extra}]"'
    split = (requirement.partition(";") for requirement in requirements)
    packages = [package.strip() for package, _, marker in split if f"'{extra}'" in marker]
    packages = [package for package in packages if not _is_installed(package)] or packages
    return "pip install " + " ".join(f'"{package}"' for package in packages)


def _is_installed(requirement: str) -> bool:
    """Return whether a package of any version is there for a requirement such as `pillow>=11`."""
    name = re.match(r"[\w.-]+", requirement)
    try:
        return name is not None and bool(metadata.version(name[0]))
    except metadata.PackageNotFoundError:
        return False
