"""The record of each op type, and how translators register."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from typing import Any, TypeVar

from dml_jax import facts, functional
from dml_jax.onnx.nodes.tensor import Count, Padded

Translator = Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
Bounds = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """A padded input of a node: its number, and its count."""

    index: int
    count: Count


@dataclass(frozen=True)
class SizeRules:
    """What is known of an op type's sizes and integers, where data decides them.

    Attributes:
        padding: returns what a node does with inputs whose size depends on data
            (`dml_jax.onnx.sizes.padding_rules`); None, or no rule, where the padding would matter.
        output: returns the largest sizes of an output whose sizes come while the program runs
            (`dml_jax.onnx.sizes.bounds`); None where they are known, or cannot be had.
        elements: returns the elements of the first output as sums of integers that are not known at
            load (`dml_jax.onnx.sizes.symbolic_sizes`).
        counted: the input whose elements other than 0 are counted: what is padded by one tensor has
            one count.
        integers: returns the bounds of an output of 64-bit integers
            (`dml_jax.onnx.sizes.integer_ranges`); without a rule an output only has elements of the
            inputs.
    """

    padding: Callable[[Any, Sequence[Place]], Any] | None = None
    output: Callable[[Any], Any] | None = None
    elements: Callable[[Any], Any] | None = None
    counted: int | None = None
    integers: Callable[[Any, int], Bounds | None] | None = None


@dataclass(frozen=True)
class Versions:
    """What sets an op type's early versions apart from the later ones.

    Attributes:
        inferred_since: the version by which ONNX infers the sizes of earlier versions too.
        inferred_as: changes copies of the node, of the types of its inputs by name, and of the
            list of these, so that ONNX's inference gives the sizes of ONNX's text, or of ONNX
            Runtime.
        written_as: the version that earlier ones are written as
            (`dml_jax.onnx.nodes.early_versions`).
        misread_before: the version before which ONNX's reference implementation computes something
            else than its text, so that nothing of it is computed at load by this.
    """

    inferred_since: int = 1
    inferred_as: Callable[..., Any] | None = None
    written_as: Any = None
    misread_before: int = 0


@dataclass(frozen=True)
class OpType:
    """All that is known of an op type.

    Attributes:
        translators: its translators, by the first version that each one knows.
        fallbacks: the functions of arrays that compute what DirectML has no operator for, by
            version as the translators (`dml_jax.onnx.fallbacks`).
        inlined: what translates a node of graphs or sequences in the graph around it, of its
            `Site`; returns the outputs.
        sizes: the rules of sizes and integers.
        versions: what early versions differ in.
        is_random: whether it draws numbers, so that nothing of it is computed at load.
        reads_sizes: whether it reads the sizes of its input, and no elements.
        must_fit: whether an output is refused that is empty though no input is.
        read_at_load: the inputs that the fallback gets no array of where their elements are known:
            it reads these numbers, which may need 64 bits.
        takes_scalars: whether an input that is a list of numbers may be one number.
        kept_from_operator: returns why the fallback computes a node though DirectML has an
            operator, "" where it does not.
    """

    translators: dict[int, Translator] = field(default_factory=dict)
    fallbacks: dict[int, Callable[..., Any]] = field(default_factory=dict)
    inlined: dict[int, Callable[..., Any]] = field(default_factory=dict)
    sizes: SizeRules = SizeRules()
    versions: Versions = Versions()
    is_random: bool = False
    reads_sizes: bool = False
    must_fit: bool = False
    read_at_load: Sequence[int] = ()
    takes_scalars: bool = False
    kept_from_operator: Callable[[Any], str] | None = None


MISREAD = 1 << 30

OP_TYPES: dict[tuple[str, str], OpType] = defaultdict(OpType)


def _register(
    functions: Callable[[OpType], dict[int, Callable[..., Any]]],
    *op_types: str,
    since: int = 1,
    domain: str = "",
    **facts: Any,
) -> Callable[[Function], Function]:
    """Add a function to the `functions` of the records of `op_types`, from version `since` on.

    `facts` are further attributes of the records, of all versions: those of `OpType`, of its
    `SizeRules` and of its `Versions`.
    """
    rules, differences, others = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for name, value in facts.items():
        part = rules if name in _RULES else differences if name in _DIFFERENCES else others
        part[name] = value

    def register(function: Function) -> Function:
        for key in ((domain, op_type) for op_type in op_types):
            record, changed = OP_TYPES[key], dict(others)
            if rules:
                changed["sizes"] = replace(record.sizes, **rules)
            if differences:
                changed["versions"] = replace(record.versions, **differences)
            if changed:  # a session waits for hundreds of these, and a copy takes long
                OP_TYPES[key] = record = replace(record, **changed)
            functions(record)[since] = function
        return function

    return register


_RULES, _DIFFERENCES = ({own.name for own in fields(kind)} for kind in (SizeRules, Versions))

translates = partial(_register, lambda record: record.translators)
inlines = partial(_register, lambda record: record.inlined)
fallback = partial(_register, lambda record: record.fallbacks)


def as_list(results: Any) -> Sequence[Any]:
    """Return what a translator or a fallback returns as a sequence of outputs."""
    if isinstance(results, Padded):
        return [results]
    return results if isinstance(results, (tuple, list)) else [results]


def record_of(domain: str, op_type: str) -> OpType:
    """Return the record of an op type, an empty one if nothing is known of it."""
    return OP_TYPES.get((domain, op_type)) or OpType()


def of_version(known: Mapping[int, Any], version: int) -> Any:
    """Return the value that serves a version, of values by first version; None where none does."""
    first = max((since for since in known if since <= version), default=None)
    return None if first is None else known[first]


@cache
def function_of(op_type: str) -> Callable[..., Any]:
    """Return the function of the operator that ONNX calls `op_type`, by the facts of names."""
    operators = {name for name, own in facts.names().items() if op_type in own.get("onnx", ())}
    entries = facts.functions().items()
    name = next(name for name, entry in entries if operators.intersection(entry["operators"]))
    return getattr(functional, name)
