"""What helps against the mistakes of a function's caller: faults with a cure, and hints."""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jax.core import Tracer

from dml_jax import facts
from dml_jax.description.arrays import is_plain
from dml_jax.description.tensor import X64_RULE, needs_x64, shown_array
from dml_jax.errors import OF_LENGTHS, Fault, Unquoted, abbreviate, nearest, raise_if
from dml_jax.operator import Operator
from dml_jax.operator.contract import is_of_axis

_RANKS = re.compile(r"be (?:in \[)?(\d+)(?:, \d+\])?")
_FLOAT = re.compile(r"be (FLOAT\d+) \(")
_INPUT_RANK = re.compile(r"be (\d+) \(InputTensor\.DimensionCount\)")


def of_argument(function: str, name: str, known: Iterable[str]) -> str:
    """Return the hint about an argument that a function lacks; "" where there is none."""
    other = next((n for n in ("axes", "axis") if n in known), "")
    if other and name in ("axis", "axes", "dim"):
        return f" (did you mean {other!r}?)"
    along = _elsewhere(function) if name in ("axis", "axes", "keepdims") else ""
    if along and "axis" not in known:
        return along
    told = facts.hints()["arguments"].get(name, [])
    if isinstance(told, str):
        return told
    other = next((n for n in told if n in known), "")
    return f" ({other})" if other else nearest(name, known)


def missing(function: str, names: Sequence[str], first: Any) -> str:
    """Return the message about arguments that a call of a function of the array `first` lacks."""
    one = "a required argument" if len(names) == 1 else "required arguments"
    hint = _elsewhere(function, len(getattr(first, "shape", ()))) or f" (help(dml_jax.{function}))"
    return f"missing {one}: {', '.join(map(repr, names))}{hint}"


def warn_of_order(function: str, names: Sequence[str], positional: Sequence[Any]) -> None:
    """Warn where all strides exceed a window: pools of DirectMLX differ in the order of the two."""
    if "strides" not in names[1:2] or len(positional) < 3:
        return
    strides, window = (v if isinstance(v, (list, tuple)) else (v,) for v in positional[1:3])
    pairs = zip(strides, window, strict=False)
    if all(type(stride) is type(size) is int and stride > size for stride, size in pairs):
        read = f"strides={positional[1]}, {names[2]}={positional[2]}"
        warnings.warn(f"dml_jax.{function} reads {read} (write the names)", stacklevel=4)


def _elsewhere(function: str, rank: int = 0) -> str:
    """Return the hint about a function that other libraries call in another way, or ""."""
    return _fill(facts.functions()[function].get("elsewhere", ""), rank or 4)


def check_constant(operator: str, fields: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Raise `DmlError` where one of `values` is traced; `fields` has their names in messages."""
    faults = []
    for name, value in values.items():
        listed = value if isinstance(value, (list, tuple)) else (value,)
        traced = next((v for v in listed if isinstance(v, Tracer)), None)
        if traced is not None:
            rule, got = "be a constant: attributes cannot be traced", shown_array(traced)
            fault = Fault(operator, fields.get(name, name), rule, Unquoted(f"a traced {got}"))
            cure = of_table(fault, 0) or " (static_argnames of jax.jit)"
            faults.append(replace(fault, rule=rule + cure))
    raise_if(faults)


def check_64_bits(op: Operator, arrays: Sequence[Any]) -> None:
    """Raise `DmlError` where an array of 64 bits meets a JAX without such types."""
    faults = []
    for (path, _, tensor), array in zip(op.tensors(output=False), arrays, strict=True):
        if is_plain(array) and needs_x64(tensor.data_type):
            less = tensor.dtype.name.replace("64", "32")
            rule = f"{X64_RULE.removesuffix(')')}; or x.astype({less!r}) converts)"
            faults.append(Fault(op.c_name, f"{path}.DataType", rule, tensor.data_type.shown()))
    raise_if(faults)


def of_lists(
    operator: str, faults: Iterable[Fault], lists: Mapping[str, Any], count: int
) -> list[Fault]:
    """Return the `faults`, with those about lengths as faults of the caller's own `lists`.

    The lists are by field, of one element for each of `count` spatial dimensions.
    """
    found = list(faults)
    rule = f"have {count} elements, one for each spatial dimension"
    lengths = [f for f in found if f.kind == OF_LENGTHS]
    listed = {name: v for name, v in lists.items() if isinstance(v, (list, tuple)) and v}
    own = [Fault(operator, n, rule, list(v)) for n, v in listed.items() if len(v) != count]
    return [*(f for f in found if f not in lengths), *own] if lengths and own else found


def cured(
    faults: Iterable[Fault], inputs: Mapping[str, Collection[str]], rank: int, beside: str
) -> Iterator[Fault]:
    """Yield the `faults` of a function's call, with what its caller can do about them.

    `inputs` has the types that each array may have, by its path. Axes count from the end up to
    `rank`. `beside` is the type of the first array that is not of bool, "" where there is none.
    """
    found = list(faults)
    is_of_rank = any(fault.field.endswith(".DimensionCount") for fault in found)
    for fault in found:
        if is_of_rank and fault.field == "DimensionCount":
            continue  # it follows from the rank, and is no argument
        root, _, aspect = fault.field.partition(".")
        is_of_range = is_of_axis(fault) and rank
        rule = f"be in [{-rank}, {rank - 1}]" if is_of_range else fault.rule
        if fault.field == "Axis" and rule.startswith("be an integer") and rank:
            rule = f"be an integer in [{-rank}, {rank - 1}]"
        if root in inputs and aspect in ("DataType", "dtype"):
            hint = of_table(fault, rank)
            own = _of_type(fault, str(fault.value), inputs[root], beside)
            rule = fault.rule + hint if hint else own
        elif root in inputs or "Tensor" not in root:
            hint = of_table(replace(fault, rule=rule), rank) or _of_rank(fault)
            rule = rule + hint if hint else rule  # a `Sentence` stays one
        yield replace(fault, rule=rule)


def of_table(fault: Fault, rank: int) -> str:
    """Return the hint of the first row whose patterns are found in the parts of a fault, or ""."""
    parts = {part: getattr(fault, part) for part in ("operator", "field", "rule")}
    parts["value"] = abbreviate(fault.value)
    rows = facts.hints()["faults"]
    fitting = (r for r in rows if all(re.search(r[p], parts[p]) for p in r if p in parts))
    return _fill(next(fitting, {"hint": ""})["hint"], rank)


def _fill(hint: str, rank: int) -> str:
    """Return a hint with examples for arrays of `rank` in its braces."""
    ones = [1] * rank
    return hint.format(
        paddings=[0] * (rank - 2) + ones[:2],
        shape=str([*ones[1:], 2])[1:-1],
        channels=str([1, -1, *ones[2:]])[1:-1],
    )


def _of_rank(fault: Fault) -> str:
    """Return the hint about an array of too few dimensions, or more than the input, or ""."""
    if not fault.field.endswith(".DimensionCount"):
        return ""
    input_rank = _INPUT_RANK.fullmatch(fault.rule)
    if input_rank:
        is_of_batch = int(str(fault.value)) == int(input_rank[1]) + 1
        return "; or the input takes a batch: x[None]" if is_of_batch else ""
    least = _RANKS.fullmatch(fault.rule)
    missing = ["None"] * (int(least[1]) - int(str(fault.value))) if least else []
    return f" (x[{', '.join(missing)}] has this rank)" if missing else ""


def _of_type(fault: Fault, got: str, taken: Collection[str], beside: str) -> str:
    """Return a rule about an array's type with the conversion that keeps most."""
    if got == "bool":  # which takes the type of the array beside it
        sums = ("INT32",) if fault.operator.endswith("_REDUCE") else ()
        like = (beside, *sums, "UINT8", "UINT32", "INT32")
        best = next((n for n in like if n in taken), "FLOAT32")
        return f"be one that DirectML has (x.astype('{best.lower()}') converts)"
    if not fault.choices:
        only = _FLOAT.match(fault.rule)
        return f"{fault.rule}; x.astype('{only[1].lower()}') converts" if only else fault.rule
    if fault.field.startswith("ConditionTensor") or "_LOGICAL_" in fault.operator:
        return f"{fault.rule} (x != 0 is a condition)"
    kind = got.rstrip("0123456789")
    like = (f"{kind}32", "FLOAT32", "INT32", "UINT32", *fault.choices)
    best = next(name for name in like if name in fault.choices)
    if best.endswith("8") and not got.endswith("8"):
        return fault.rule  # a byte would lose most of the numbers
    return f"{fault.rule} (x.astype('{best.lower()}') converts)"
