"""A kept call of a function: its operator, and how arrays become the inputs of the operator."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dml_jax.description.arrays import is_deleted, is_plain, unusable
from dml_jax.description.tensor import TensorDesc
from dml_jax.errors import DmlError, Fault
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.lowering.axes import broadcast
from dml_jax.operator import Operator
from dml_jax.operator.call import program

Place = tuple[int | str, int | None]  # an argument, and which item of a list


class Call:
    """A call of a certain shape: the operator, and where its arrays are among the arguments.

    Args:
        op: the operator.
        places: the argument of each array, in the order of the operator's inputs.
        types: the type in which a Python number is taken there, None for arrays.
        targets: the sizes to which each array is broadcast, None where it has them; then it takes
            the sizes of the operator's input.
        result: the sizes of each result, None where they are those of the operator's outputs.
        rounded: which outputs are rounded to bfloat16; None where no bfloat16 takes part.
        returned: makes what the function returns of the results; None where they are that already.
    """

    def __init__(
        self,
        op: Operator,
        places: Sequence[Place],
        types: Sequence[np.dtype | None],
        targets: Sequence[tuple[int, ...] | None],
        result: tuple[int, ...] | None,
        rounded: tuple[bool, ...] | None,
        returned: Callable[[Any], Any] | None,
        is_fitted: bool,
    ):
        self.op, self.places, self.types, self.result = op, places, types, result
        self.targets, self.rounded, self.returned = tuple(targets), rounded, returned
        whole = [(number, None) for number in range(len(places))]
        self.in_order = [*places] == whole and set(types) <= {None}
        self.is_direct = rounded is None and set(targets) <= {None} and not is_fitted

    def __call__(
        self, positional: Sequence[Any], named: Mapping[str, Any], graph: GraphBuilder | None = None
    ) -> Any:
        op = self.op
        if self.in_order:
            arrays = positional[: len(self.places)]
        else:
            arrays = [*self._arrays(positional, named, graph)]
        if not arrays and graph is not None:
            results = graph.node(op)
        elif self.is_direct:
            results = op(*arrays)
        elif any(isinstance(array, Expression) for array in arrays):
            results = op(*map(_reinterpreted, arrays, op.inputs))
            if self.result is not None and op.returns_tuple:
                results = tuple(r.reinterpret(self.result) for r in results)
            elif self.result is not None:
                results = results.reinterpret(self.result)
        else:
            results = self._spread(arrays)
        return results if self.returned is None else self.returned(results)

    def _arrays(
        self, positional: Sequence[Any], named: Mapping[str, Any], graph: GraphBuilder | None
    ) -> Iterator[Any]:
        values = []
        for place, item in self.places:
            value = positional[place] if isinstance(place, int) else named[place]
            values.append(value if item is None else value[item])
        builder = next((v.builder for v in values if isinstance(v, Expression)), graph)
        paths = [path for path, _, _ in self.op.tensors(output=False)]
        ranks = [
            tensor.dimension_count if target is None else len(target)
            for tensor, target in zip(self.op.inputs, self.targets, strict=True)
        ]
        for value, dtype, path, rank in zip(values, self.types, paths, ranks, strict=True):
            if dtype is None:
                yield value
            else:
                held = _held(self.op.c_name, path, value, dtype).reshape((1,) * rank)
                yield held if builder is None else builder.constant(held)

    def _spread(self, arrays: Sequence[Any]) -> Any:
        paths = [path for path, _, _ in self.op.tensors(output=False)]
        if not all(is_plain(array) and not is_deleted(array) for array in arrays):
            found = map(unusable, [self.op.c_name] * len(paths), paths, arrays)
            raise DmlError(fault for fault in found if fault)
        described = self.op, self.targets, self.rounded, self.result
        if any(isinstance(array, Tracer) for array in arrays):
            return _spread_part(*described, *arrays)
        return program(type(self.op), _spread_call, *described)(*arrays)


def _reinterpreted(value: Any, tensor: TensorDesc) -> Any:
    """Return an expression as an operator's tensor describes it, which may broadcast it."""
    if not isinstance(value, Expression) or value.desc == tensor:
        return value
    return value.reinterpret(tensor.sizes, tensor.strides)


def _spread_call(op: Operator, targets: Any, rounded: Any, sizes: Any, *arrays: Any) -> Any:
    """Compute an operator of arrays that are broadcast, and in FLOAT32 where they are bfloat16.

    Arrays of bool take the type of the operator's input.

    The arrays take the ranks of the operator's inputs, and the results take `sizes`, if any.
    """
    inputs = []
    for array, target, tensor in zip(arrays, targets, op.inputs, strict=True):
        if array.dtype == np.bool_ or (rounded is not None and array.dtype == BFLOAT16):
            array = array.astype(tensor.dtype)
        array = array if target is None else broadcast(array, target)
        inputs.append(array if array.shape == tensor.sizes else array.reshape(tensor.sizes))
    results = op(*inputs)
    if sizes is None and not any(rounded or ()):
        return results
    made = results if op.returns_tuple else (results,)
    made = tuple(
        r.astype(BFLOAT16) if narrow else r
        for r, narrow in zip(made, rounded or (False,) * len(made), strict=True)
    )
    made = made if sizes is None else tuple(r.reshape(sizes) for r in made)
    return made if op.returns_tuple else made[0]


_spread_part = jax.jit(_spread_call, static_argnums=(0, 1, 2, 3), inline=True)


def _held(operator: str, path: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Return a Python number as an array. Raises `DmlError` where the type cannot hold it."""
    try:
        with np.errstate(all="ignore"):
            number = value if isinstance(value, (int, np.integer)) else float(value)
            held = np.asarray(number).astype(dtype)
    except (OverflowError, TypeError):
        pass
    else:
        is_rounded = isinstance(value, float) and jnp.issubdtype(dtype, jnp.floating)
        is_finite = bool(np.isfinite(held)) or not math.isfinite(value)
        if is_finite if is_rounded else held.item() == value:
            return held
    rule = f"be a number that the type {np.dtype(dtype).name} holds"
    raise DmlError([Fault(operator, path, rule, value)])
