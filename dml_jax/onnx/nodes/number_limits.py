"""Limits of numbers that data decides: indices of tables, sizes with a bound, turns of loops.

A program on a device cannot raise. It gives the worst of the numbers that it computes as one more
result, which a call looks at, as it looks at indices among the inputs. A program that JAX traces
gives no answer where a number lies beyond its limits.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from onnx import TensorProto

from dml_jax.errors import OF_LIMITS, DmlError, Fault, Sentence
from dml_jax.onnx.files.types import Type, index_type
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.tensor import Tensor

WORST = ""
"""The name of the result that has the worst numbers; no output has it."""

_VIEWS = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


TURNS_MAX = 2**31 - 1
"""The number of turns of a Loop that a counter of 32 bits holds."""


class Limit(NamedTuple):
    """The least and the largest value of a number, and the fault where it has another one.

    Attributes:
        context: the node, or nothing.
        field, rule: those of the fault.
        low, high: the least and the largest value.
    """

    context: tuple[str, ...]
    field: str
    rule: str
    low: int
    high: int


def turns_of(turns: Any) -> int | None:
    """Return the option `turns`. Raises `DmlError` where it is no count."""
    if turns is None or (type(turns) is int and 0 < turns <= TURNS_MAX):
        return turns
    raise DmlError([Fault("load_onnx", "turns", f"be in [1, {TURNS_MAX}], or None", turns)])


def limit_of(name: str, turns: int) -> Limit:
    """Return the limit of the turns of a Loop by its name: a Loop that would go on took `turns`."""
    text = f"a Loop goes on after {turns} turns: {name!r}. (turns= of load_onnx says how many)"
    return Limit((), "", Sentence(text), 0, turns - 1)


def limits_of(node: Node) -> list[Limit]:
    """Return the limits of the elements, in turn, of a node's second input, if it has indices."""
    sizes: Sequence[int] = ()
    if node.op_type in ("Gather", "GatherElements", "Scatter", "ScatterElements"):
        sizes = [node.shape()[node.axis()]]
    elif node.op_type in ("GatherND", "ScatterND"):
        batch = node.attribute("batch_dims", 0)
        sizes = node.shape()[batch : batch + node.shape(1)[-1]]
    if not sizes or 0 in sizes or node.type(1).is_empty:
        return []
    field = f"the indices '{node.tensor(1).name}'"
    return [Limit((node.label,), field, f"be in [{-n}, {n - 1}]", -n, n - 1) for n in sizes]


def origin(tensor: Tensor) -> Tensor:
    """Return the tensor whose integers a tensor has, in another shape or type."""
    while (node := tensor.made_by) and node.op_type in _VIEWS and not node.type().is_floating:
        tensor = node.tensor(0)
    return tensor


def kind_of(limits: Sequence[Limit]) -> Type:
    """Return the type of a number for each limit."""
    return Type(TensorProto.INT64, (len(limits),))


def worst(array: Any, limits: Sequence[Limit]) -> Any:
    """Return a number for each limit: one that lies beyond, if there is any."""
    lows = np.array([limit.low for limit in limits], index_type().dtype)
    if not array.size:
        return np.zeros_like(lows)
    found = array.reshape(-1, len(limits)).astype(lows.dtype)
    low, high = found.min(0), found.max(0)
    return (jnp if isinstance(array, jax.Array) else np).where(low < lows, low, high)


def faults_of(looked: Sequence[tuple[Any, Sequence[Limit]]]) -> list[Fault]:
    """Return the faults of arrays whose elements have, in turn, certain limits."""
    faults = list[Fault]()
    for array, limits in looked:
        for limit, number in zip(limits, worst(np.asarray(array), limits), strict=True):
            context, field, rule, low, high = limit
            if not low <= number <= high:
                faults.append(Fault("", field, rule, int(number), context, OF_LIMITS))
    return faults


def without_answer(results: Mapping[str, Any], looked: Any, kept: Sequence[str]) -> dict[str, Any]:
    """Return results that hold no answer where `faults_of` would have faults; `kept` stay.

    A float is NaN then, an integer the least one of its type, or the largest one if it has no sign.
    """
    is_beyond: Any = False
    for array, limits in looked:
        ends, number = np.array([limit[3:] for limit in limits]).T, worst(array, limits)
        is_beyond |= ((number < ends[0]) | (number > ends[1])).any()

    def guard(x: Any) -> Any:
        is_integer = jnp.issubdtype(x.dtype, jnp.integer)
        value = jnp.iinfo(x.dtype).min or jnp.iinfo(x.dtype).max if is_integer else math.nan
        return jnp.where(is_beyond, np.array(value, x.dtype), x)

    return {n: x if n in kept or x.dtype == bool else guard(x) for n, x in results.items()}
