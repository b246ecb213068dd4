"""The straightforward array expression of each operator: what a user writes without it.

Of `jax.numpy`, and of what has its functions (NumPy, CuPy). The answer is the operator's on
ordinary numbers; ties, NaN, rounding and overflow are as the library has them.
"""

import functools
import importlib
import math
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.enums import AxisDirection, DepthSpaceOrder, ReduceFunction

Expression = Callable[..., Any]

RANDOM = {"RANDOM_GENERATOR"}  # operators whose expressions draw other numbers


def _clip(op: Any, xp: Any) -> Expression:
    low, high = op.bounds()
    map_, dtype = op.scale_bias, op.inputs[0].dtype

    def call(x: Any) -> Any:
        if map_ is not None and np.issubdtype(dtype, np.integer):
            x = (x.astype("float32") * map_.scale + map_.bias).astype(dtype)
        elif map_ is not None:
            x = x * map_.scale + map_.bias
        return xp.clip(x, low, high)

    return call


def _clip_grad(op: Any, xp: Any) -> Expression:
    low, high = op.bounds()
    return lambda x, g: xp.where((x > low) & (x < high), g, xp.zeros_like(g))


def depth_to_space_steps(op: Any) -> tuple[list[int], list[int], list[int]]:
    """The shape, the transposition of it, and the shape of that."""
    (n, depth, h, w), b = op.inputs[0].sizes, op.block_size
    c = depth // b**2
    if op.order == DepthSpaceOrder.DEPTH_COLUMN_ROW:
        return [n, b, b, c, h, w], [0, 3, 4, 1, 5, 2], [n, c, h * b, w * b]
    return [n, c, b, b, h, w], [0, 1, 4, 2, 5, 3], [n, c, h * b, w * b]


def space_to_depth_steps(op: Any) -> tuple[list[int], list[int], list[int]]:
    """The shape, the transposition of it, and the shape of that."""
    (n, c, height, width), b = op.inputs[0].sizes, op.block_size
    h, w = height // b, width // b
    is_depth_first = op.order == DepthSpaceOrder.DEPTH_COLUMN_ROW
    order = [0, 3, 5, 1, 2, 4] if is_depth_first else [0, 1, 3, 5, 2, 4]
    return [n, c, h, b, w, b], order, [n, c * b * b, h, w]


def _move_axes(steps: Callable[[Any], Any]) -> Any:
    def of(op: Any, xp: Any) -> Expression:
        shape, order, out = steps(op)
        return lambda x: x.reshape(shape).transpose(order).reshape(out)

    return of


def _split(op: Any, xp: Any) -> Expression:
    ends = np.cumsum([t.sizes[op.axis] for t in op.output_tensors])[:-1].tolist()
    if xp is jnp:
        return lambda x: jnp.split(x, ends, op.axis)
    return lambda x: [piece.copy() for piece in xp.split(x, ends, op.axis)]  # not views of x


def reduced_last(op: Any) -> tuple[list[int], list[int]]:
    """The transposition that puts the reduced axes last, and the shape in which they are one."""
    sizes, axes = op.inputs[0].sizes, sorted(op.axes)
    kept = [d for d in range(len(sizes)) if d not in axes]
    return [*kept, *axes], [*(sizes[d] for d in kept), math.prod(sizes[d] for d in axes)]


def reduced_block(op: Any) -> tuple[int, int, int] | None:
    """[before, reduced, after], where the reduced axes are neighbours."""
    sizes, axes = op.inputs[0].sizes, sorted(op.axes)
    if axes != list(range(axes[0], axes[-1] + 1)):
        return None
    parts: Sequence[Sequence[int]] = (
        sizes[: axes[0]],
        sizes[axes[0] : axes[-1] + 1],
        sizes[axes[-1] + 1 :],
    )
    before, reduced, after = map(math.prod, parts)
    return before, reduced, after


def _arg(op: Any, xp: Any, largest: bool, last: bool = False) -> Expression:
    find = xp.argmax if largest else xp.argmin
    tensor = op.outputs[0]
    block, (order, shape) = reduced_block(op), reduced_last(op)

    def call(x: Any) -> Any:
        if block is not None:
            x, axis = x.reshape(block), 1
        else:
            x, axis = x.transpose(order).reshape(shape), -1
        if last:
            found = x.shape[axis] - 1 - find(xp.flip(x, axis), axis=axis)
        else:
            found = find(x, axis=axis)
        return found.astype(tensor.dtype).reshape(tensor.sizes)

    return call


def _log_sum_exp(x: Any, axes: tuple[int, ...], xp: Any) -> Any:
    if xp is jnp:
        return jax.nn.logsumexp(x, axes, keepdims=True)
    top = xp.max(x, axes, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - top), axes, keepdims=True)) + top


def _reduce(op: Any, xp: Any) -> Expression:
    f, axes, dtype = ReduceFunction, tuple(op.axes), op.inputs[0].dtype
    # An integer sum of a library's own choice is wider.
    keep = {"axis": axes, "keepdims": True}
    same = keep if np.issubdtype(dtype, np.floating) else {**keep, "dtype": dtype}
    if op.function in (f.ARGMAX, f.ARGMIN):
        return _arg(op, xp, op.function == f.ARGMAX)
    return {
        f.AVERAGE: lambda x: xp.mean(x, **keep),
        f.L1: lambda x: xp.sum(xp.abs(x), **same),
        f.L2: lambda x: xp.sqrt(xp.sum(xp.square(x), **same)),
        f.LOG_SUM: lambda x: xp.log(xp.sum(x, **same)),
        f.LOG_SUM_EXP: lambda x: _log_sum_exp(x, axes, xp),
        f.MAX: lambda x: xp.max(x, **keep),
        f.MIN: lambda x: xp.min(x, **keep),
        f.MULTIPLY: lambda x: xp.prod(x, **same),
        f.SUM: lambda x: xp.sum(x, **same),
        f.SUM_SQUARE: lambda x: xp.sum(xp.square(x), **same),
    }[op.function]


def _direction(largest: bool) -> Any:
    return lambda op, xp: _arg(op, xp, largest, op.axis_direction == AxisDirection.DECREASING)


EXPRESSIONS: dict[str, Callable[[Any, Any], Expression]] = {
    "ELEMENT_WISE_CLIP": _clip,
    "ELEMENT_WISE_CLIP1": _clip,
    "ELEMENT_WISE_CLIP_GRAD": _clip_grad,
    "ELEMENT_WISE_CLIP_GRAD1": _clip_grad,
    "DEPTH_TO_SPACE": _move_axes(depth_to_space_steps),
    "DEPTH_TO_SPACE1": _move_axes(depth_to_space_steps),
    "SPACE_TO_DEPTH": _move_axes(space_to_depth_steps),
    "SPACE_TO_DEPTH1": _move_axes(space_to_depth_steps),
    "TILE": lambda op, xp: lambda x: xp.tile(x, op.repeats),
    "SPLIT": _split,
    "JOIN": lambda op, xp: lambda *xs: xp.concatenate(xs, axis=op.axis),
    "REDUCE": _reduce,
    "ARGMAX": _direction(True),
    "ARGMIN": _direction(False),
}
NUMPY = frozenset(EXPRESSIONS)  # those of any module that is like NumPy


def _of_families() -> None:
    """Add the expressions of the modules beside this one, which are of jax.numpy only.

    Theirs are functions of the operator and its arrays.
    """
    for module in pkgutil.iter_modules(__path__):
        made = importlib.import_module(f"{__name__}.{module.name}").EXPRESSIONS
        for name, make in made.items():
            EXPRESSIONS.setdefault(name, lambda op, xp, make=make: functools.partial(make, op))


_of_families()
