"""Typical uses of operators, by which they are shown and measured: `facts/samples.json`."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING
from typing import Any

from dml_jax import facts
from dml_jax.constraints import View, evaluate
from dml_jax.description.fields import Array, Choice, Integer, Kind, Structure, Tensor
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.operator.declared import Declared
from dml_jax.operator.fused import Fused

_OF_OUTPUTS = dict.fromkeys(("output_data_type", "output_sizes", "outputs"))


def typical_sizes(elements: int) -> tuple[int, int, int, int]:
    """Return the sizes [N, C, H, W] of a feature map of about `elements` elements."""
    side = 2 ** min((max(elements, 1).bit_length() - 1) // 3, 8)
    channels = min(max(elements // side**2, 1), 64)
    return max(elements // (side**2 * channels), 1), channels, side, side


def smallest(kind: Kind, tensor: TensorDesc) -> Any:
    """Return a small value of a field that is not a no-op; for a tensor field, `tensor`."""
    match kind:
        case Array():
            count = 2 if smallest(kind.element, tensor) is tensor else tensor.dimension_count
            return [smallest(kind.element, tensor)] * count
        case Integer():
            return max(kind.least, 1)
        case Choice(enumeration=members):
            return tensor.data_type if members is TensorDataType else next(iter(members))
        case Tensor():
            return tensor
    return 1


def typical_fields(
    operator: type[Declared], elements: int, data_type: str, sizes: Sequence[int] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the fields of each typical use, and what `Operator.infer` takes beside them.

    The largest tensor has about so many `elements`, of `data_type`, or has `sizes`. Without a
    sample, all inputs have the sizes of `typical_sizes` and attributes are small. The scale of
    another tensor is one FLOAT32. Without inputs, the output has the sizes.
    """
    sample = facts.samples().get(operator.short_name, {})
    kinds = {f.name: f.kind for f in operator.fields} | _OF_OUTPUTS
    each = {name: some for name, some in sample.get("each", {}).items() if name in kinds}
    sizes = tuple(sizes or typical_sizes(elements // sample.get("part", 1)))
    scope = View({}, {})
    scope |= {"E": elements, "T": data_type, "root": math.isqrt}
    scope |= zip("NCHW", sizes, strict=True) if len(sizes) == 4 else ()
    for name, text in sample.get("let", {}).items():
        scope[name] = evaluate(text, scope)
    whole = TensorDesc(data_type, sizes)
    for use in sample.get("uses", ({},)):
        for chosen in itertools.product(*each.values()):
            given = {**sample.get("fields", {}), **use, **dict(zip(each, chosen, strict=True))}
            tensor = _tensor(given.pop("tensor", sample.get("tensor", "*")), whole, scope)
            values = {n: _value(kinds[n], v, tensor, scope) for n, v in given.items() if n in kinds}
            yield _smallest_fields(operator, tensor) | values


def _smallest_fields(operator: type[Declared], tensor: TensorDesc) -> dict[str, Any]:
    """Return small values of the fields that have to be given, of inputs that are like `tensor`."""
    needed = [f for f in operator.fields if f.default is MISSING and f not in operator.outputs_of()]
    like = {f.name: smallest(f.kind, tensor) for f in needed}
    one = TensorDesc("FLOAT32", [1] * tensor.dimension_count)
    like |= {name: one for name in like if name.endswith("_scale_tensor")}
    if not any(f.tensor for f in needed):
        like |= {"output_sizes": tensor.sizes, "output_data_type": tensor.data_type}
    return like


def _value(kind: Kind | None, value: Any, tensor: TensorDesc, scope: View) -> Any:
    """Return the value of a field in a sample, whose strings are sizes or expressions."""
    if isinstance(kind, Array) and isinstance(value, list):
        return [_value(kind.element, item, tensor, scope) for item in value]
    if isinstance(kind, Structure):
        return kind.descriptor(**value)
    if not isinstance(value, str) or isinstance(kind, (Choice, Fused)):
        return value
    return _tensor(value, tensor, scope) if isinstance(kind, Tensor) else evaluate(value, scope)


def _tensor(text: str, like: TensorDesc, scope: View) -> TensorDesc:
    """Return the tensor of sizes such as `N, 1, 2 * W`; of the type of `like`, if none is named."""
    data_type, _, sizes = text.rpartition(": ")
    return TensorDesc(
        data_type or like.data_type, like.sizes if sizes == "*" else evaluate(f"[{sizes}]", scope)
    )


def domain(short_name: str, field: str, view: View) -> tuple[float, float]:
    """Return the range of typical elements of an input of an operator with the fields of `view`."""
    ranges = facts.samples().get(short_name, {}).get("range", {})
    low, high = ranges.get(field, ranges.get("", (-1.0, 1.0)))
    return low, evaluate(high, view)
