"""The straightforward array expression of each operator: what a user writes without it.

Of `jax.numpy`, and of what has its functions (NumPy, CuPy). The answer is the operator's on
ordinary numbers; ties, NaN, rounding and overflow are as the library has them.
"""

import functools
import importlib
import math
import pkgutil
from collections.abc import Callable
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


def _depth_to_space(op: Any, xp: Any) -> Expression:
    (n, depth, h, w), b = op.inputs[0].sizes, op.block_size
    c = depth // b**2
    shape, order = [n, c, b, b, h, w], [0, 1, 4, 2, 5, 3]
    if op.order == DepthSpaceOrder.DEPTH_COLUMN_ROW:
        shape, order = [n, b, b, c, h, w], [0, 3, 4, 1, 5, 2]
    return lambda x: x.reshape(shape).transpose(order).reshape(n, c, h * b, w * b)


def _space_to_depth(op: Any, xp: Any) -> Expression:
    (n, c, height, width), b = op.inputs[0].sizes, op.block_size
    h, w = height // b, width // b
    is_depth_first = op.order == DepthSpaceOrder.DEPTH_COLUMN_ROW
    order = [0, 3, 5, 1, 2, 4] if is_depth_first else [0, 1, 3, 5, 2, 4]
    return lambda x: x.reshape(n, c, h, b, w, b).transpose(order).reshape(n, c * b * b, h, w)


def _split(op: Any, xp: Any) -> Expression:
    ends = np.cumsum([t.sizes[op.axis] for t in op.output_tensors])[:-1].tolist()
    if xp is jnp:
        return lambda x: jnp.split(x, ends, op.axis)
    return lambda x: [piece.copy() for piece in xp.split(x, ends, op.axis)]  # not views of x


def _arg(op: Any, xp: Any, largest: bool, last: bool = False) -> Expression:
    find, tensor = xp.argmax if largest else xp.argmin, op.outputs[0]
    sizes, axes = op.inputs[0].sizes, sorted(op.axes)
    kept = [d for d in range(len(sizes)) if d not in axes]
    # The reduced axes become one: where they are if they are neighbours, else the last.
    axis = axes[0] if axes[-1] - axes[0] < len(axes) else len(kept)
    order = [*kept[:axis], *axes, *kept[axis:]]
    shape = [sizes[d] for d in kept]
    shape.insert(axis, math.prod(sizes[d] for d in axes))

    def call(x: Any) -> Any:
        x = x.transpose(order).reshape(shape)
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
    "DEPTH_TO_SPACE": _depth_to_space,
    "DEPTH_TO_SPACE1": _depth_to_space,
    "SPACE_TO_DEPTH": _space_to_depth,
    "SPACE_TO_DEPTH1": _space_to_depth,
    "TILE": lambda op, xp: lambda x: xp.tile(x, op.repeats),
    "SPLIT": _split,
    "JOIN": lambda op, xp: lambda *xs: xp.concatenate(xs, axis=op.axis),
    "REDUCE": _reduce,
    "ARGMAX": _direction(True),
    "ARGMIN": _direction(False),
}
NUMPY = frozenset(EXPRESSIONS)  # those of any module that is like NumPy


# Those of the modules beside this one are of jax.numpy only, and functions of the operator and its
# arrays.
for _module in pkgutil.iter_modules(__path__):
    for _name, _make in importlib.import_module(f"{__name__}.{_module.name}").EXPRESSIONS.items():
        EXPRESSIONS.setdefault(_name, lambda op, xp, make=_make: functools.partial(make, op))
