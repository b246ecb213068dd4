"""The record of each op type, and how translators register."""

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dml_jax import facts, functional
from dml_jax.onnx.nodes.tensor import Padded, Padding

Translator = Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
Bounds = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """A padded input of a node: its number, and its padding."""

    index: int
    padding: Padding


@dataclass(slots=True)  # a name that is no attribute is refused
class OpType:
    """All that is known of an op type.

    Attributes:
        translators: its translators, by the first version that each one knows.
        fallbacks: the functions of arrays that compute what DirectML has no operator for, by
            version as the translators (`dml_jax.onnx.fallbacks`).
        inlined: what translates a node of graphs or sequences in the graph around it, of its
            `Site`; returns the outputs.
        padded: returns what a node does with inputs whose size depends on data
            (`dml_jax.onnx.sizes.padding_rules`); None, or no rule, where the padding would matter.
        sized: returns the largest sizes of an output whose sizes come while the program runs
            (`dml_jax.onnx.sizes.bounds`); None where they are known, or cannot be had.
        terms: returns the elements of the first output as sums of integers that are not known at
            load (`dml_jax.onnx.sizes.symbolic_sizes`).
        counted: the input whose elements other than 0 are counted: what is padded by one tensor has
            one count.
        range: returns the bounds of an output of 64-bit integers
            (`dml_jax.onnx.sizes.integer_ranges`); without a rule an output only has elements of the
            inputs.
        is_random: whether it draws numbers, so that nothing of it is computed at load.
        reads_sizes: whether it reads the sizes of its input, and no elements.
        must_fit: whether an output is refused that is empty though no input is.
        inferred_since: the version by which ONNX infers the sizes of earlier versions too.
        inferred_as: changes copies of the node, of the types of its inputs by name, and of the
            list of these, so that ONNX's inference gives the sizes of ONNX's text, or of ONNX
            Runtime.
        written_as: the version that earlier ones are written as
            (`dml_jax.onnx.nodes.early_versions`).
        misread_before: the version before which ONNX's reference implementation computes something
            else than its text, so that nothing of it is computed at load by this.
        read_at_load: the inputs that the fallback gets no array of where their elements are known:
            it reads these numbers, which may need 64 bits.
        takes_scalars: whether an input that is a list of numbers may be one number.
        kept_from_operator: returns why the fallback computes a node though DirectML has an
            operator, "" where it does not.
    """

    translators: dict[int, Translator] = field(default_factory=dict)
    fallbacks: dict[int, Callable[..., Any]] = field(default_factory=dict)
    inlined: dict[int, Callable[..., Any]] = field(default_factory=dict)
    padded: Callable[[Any, Sequence[Place]], Any] | None = None
    sized: Callable[[Any], Any] | None = None
    terms: Callable[[Any], Any] | None = None
    counted: int | None = None
    range: Callable[[Any, int], Bounds | None] | None = None
    is_random: bool = False
    reads_sizes: bool = False
    must_fit: bool = False
    inferred_since: int = 1
    inferred_as: Callable[..., Any] | None = None
    written_as: Any = None
    misread_before: int = 0
    read_at_load: Sequence[int] = ()
    takes_scalars: bool = False
    kept_from_operator: Callable[[Any], str] | None = None


MISREAD = 1 << 30

OP_TYPES: dict[tuple[str, str], OpType] = defaultdict(OpType)


def translates(
    *op_types: str, since: int = 1, domain: str = "", to: str = "translators", **facts: Any
) -> Callable[[Function], Function]:
    """Register the translator of `op_types`, from version `since` of these on.

    `facts` are further attributes of their records (`OpType`), of all versions.
    """

    def register(function: Function) -> Function:
        for op_type in op_types:
            record = OP_TYPES[domain, op_type]
            getattr(record, to)[since] = function
            for name, value in facts.items():
                setattr(record, name, value)
        return function

    return register


inlines = functools.partial(translates, to="inlined")

fallback = functools.partial(translates, to="fallbacks")


def listed(results: Any) -> Sequence[Any]:
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


@functools.cache
def function_of(op_type: str) -> Callable[..., Any]:
    """Return the function of the operator that ONNX calls `op_type`, by the facts of names."""
    operators = {name for name, own in facts.names().items() if op_type in own.get("onnx", ())}
    entries = facts.functions().items()
    name = next(name for name, entry in entries if operators.intersection(entry["operators"]))
    return getattr(functional, name)
