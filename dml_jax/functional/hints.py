"""What helps against the mistakes of a function's caller: faults with a cure, and hints."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jax.core import Tracer

from dml_jax.description.arrays import is_plain
from dml_jax.description.tensor import X64_RULE, needs_x64, shown_array
from dml_jax.errors import OF_LENGTHS, Fault, Unquoted, nearest, raise_if
from dml_jax.operator import Operator
from dml_jax.operator.contract import is_of_axis

_ALONG_AXES = {"max": "MAX", "min": "MIN", "mean": "AVERAGE"}
_RANKS = re.compile(r"be (?:in \[)?(\d+)(?:, \d+\])?")
_SQUEEZE = " (a reduced axis stays, with size 1; jax.numpy.squeeze drops it)"
_ARGUMENTS = {
    **dict.fromkeys(("pad", "padding", "pads", "pad_width"), " (start_padding and end_padding)"),
    **dict.fromkeys(("kernel_size", "kernel_shape", "window_shape"), " (window_size)"),
    "keepdims": _SQUEEZE,
    "dim": " (axes)",
    "num_classes": " (output_length)",
    "is_causal": " (mask: jax.numpy.tril makes a causal one)",
}
"""What other libraries call arguments, and what to use here."""

_CHANNELS = re.compile(r"(Filter|Mean|Variance|Scale|Bias)Tensor\.Sizes\[1\]")
_HEADS = re.compile(r"(Query|Key|Value)Tensor\.Sizes\[0\]")
_INSTEAD = {"learning_rate": " (for a schedule, use learning_rate=1 and scale the change)"}


def of_argument(function: str, name: str, known: Iterable[str]) -> str:
    """Return the hint about an argument that a function lacks; "" where there is none."""
    if name in ("axis", "axes", "keepdims") and function in _ALONG_AXES:
        return along_axes(function)
    if name == "axis" and "axes" in known:
        return " (did you mean 'axes'?)"
    return _ARGUMENTS.get(name) or nearest(name, known)


def missing(function: str, names: Sequence[str]) -> str:
    """Return the message about arguments that a call of a function lacks."""
    one = "a required argument" if len(names) == 1 else "required arguments"
    hint = along_axes(function) or f" (help(dml_jax.{function}))"
    return f"missing {one}: {', '.join(map(repr, names))}{hint}"


def along_axes(function: str) -> str:
    """Return the hint about a function of two tensors which is a reduction elsewhere, or ""."""
    name = _ALONG_AXES.get(function)
    return f' (along axes: dml_jax.reduce(x, "{name}", axes))' if name else ""


def check_constant(operator: str, fields: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Raise `DmlError` where one of `values` is traced; `fields` has their names in messages."""
    faults = []
    for name, value in values.items():
        listed = value if isinstance(value, (list, tuple)) else (value,)
        traced = next((v for v in listed if isinstance(v, Tracer)), None)
        if traced is not None:
            rule = f"be a constant: attributes cannot be traced{_INSTEAD.get(name, '')}"
            got = Unquoted(f"a traced {shown_array(traced)}")
            faults.append(Fault(operator, fields.get(name, name), rule, got))
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
    for fault in faults:
        root, _, aspect = fault.field.partition(".")
        is_input, rule = root in inputs, fault.rule
        if is_of_axis(fault) and rank:
            rule = f"be in [{-rank}, {rank - 1}]"
            if "MEAN_VARIANCE" in fault.operator and fault.value in (2, 3):  # of the default
                rule += " (axes=-1, say: without axes the input is an image, NCHW)"
        elif is_input and aspect in ("DataType", "dtype"):
            rule = _of_type(fault, str(fault.value), inputs[root], beside)
        elif is_input and aspect == "DimensionCount" and fault.value == 0:
            rule += " (x.reshape(1) has rank 1)"
        elif is_input and aspect == "DimensionCount" and (least := _RANKS.fullmatch(rule)):
            missing = ["None"] * (int(least[1]) - int(str(fault.value)))
            rule += f" (x[{', '.join(missing)}] has this rank)" if missing else ""
        elif (
            is_input
            and aspect == "DimensionCount"
            and rule.endswith("(InputTensor.DimensionCount)")
        ):
            rule += "; or the input takes a batch: x[None]"
        elif is_input and _CHANNELS.fullmatch(fault.field):
            rule += " (images are NCHW)"
        elif _HEADS.fullmatch(fault.field) and "ATTENTION" in fault.operator:
            rule += " ([B, S, H, D] is x.reshape(B, S, H * D) here)"
        elif root == "IndicesTensor" and "ONE_HOT" in fault.operator:
            rule += " (indices[..., None] has a dimension for the classes)"
        elif root in ("ScaleTensor", "ZeroPointTensor") and "QUANTIZE" in fault.operator:
            rule += " (one a channel is s.reshape(1, -1, 1, 1))"
        elif fault.value is True and rule.endswith("TRANSPOSE"):
            rule += " (True is 'TRANSPOSE')"
        yield replace(fault, rule=rule)


def _of_type(fault: Fault, got: str, taken: Collection[str], beside: str) -> str:
    """Return a rule about an array's type with the conversion that keeps most."""
    if got == "bool":  # which takes the type of the array beside it
        best = next((n for n in (beside, "UINT8", "UINT32", "INT32") if n in taken), "FLOAT32")
        return f"be one that DirectML has (x.astype('{best.lower()}') converts)"
    if not fault.choices:
        return fault.rule
    if fault.field.startswith("ConditionTensor"):
        return f"{fault.rule} (x != 0 is a condition)"
    kind = got.rstrip("0123456789")
    like = (f"{kind}32", "FLOAT32", "INT32", "UINT32", *fault.choices)
    best = next(name for name in like if name in fault.choices)
    if best.endswith("8") and not got.endswith("8"):
        return fault.rule  # a byte would lose most of the numbers
    return f"{fault.rule} (x.astype('{best.lower()}') converts)"
