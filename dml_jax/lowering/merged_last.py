"""A CPU form of whole programs: axes are merged after the loops over them, not within.

XLA's loops are over the axes of what a fusion returns. Where that ends in a reshape that merges
axes, as in DEPTH_TO_SPACE and TILE, each element's index is divided to find where it is read, and
elements are read one by one. Here such reshapes are put off: what follows is computed with the axes
apart, and they are merged at the end, in a call that XLA does not inline and that costs nothing.

2 cores, jax 0.10.2, ms with bound outputs, the function as it is, this, and a copy:

    depth_to_space  [8, 64, 256, 256], block 2: FLOAT32 22, 14, 17; FLOAT16 22, 7.7, 8.5; UINT8 21,
                    3.9, 4.4. [8, 63, 256, 256], block 3: 28, 15, 17; 25, 8.0, 8.5; 24, 4.2, 4.4
    tile            UINT8 [8, 64, 256, 256] by (1, 1, 1, 2) 18, 7.2; [2, 64, 256, 256] by
                    (2, 2, 2, 2) 35, 12. FLOAT16 [64, 256, 256] by (1, 1, 16) 19, 11
    clip, depth_to_space by 2, tile by (1, 1, 2, 2), of [2, 64, 256, 256] FLOAT32 20, 13;
                    [4, 64, 256, 256] FLOAT16 42, 13; [8, 64, 256, 256] UINT8 76, 13. (A
                    concatenation of four copies takes 16.)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax._src import source_info_util
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import Literal

# Elements below which dispatch is what counts.
LITTLE = 2**15

# What maps each element by itself.
_ELEMENTWISE = frozenset(
    {"abs", "add", "and", "bitcast_convert_type", "ceil", "clamp", "convert_element_type", "div"}
    | {"eq", "exp", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "lt"}
    | {"max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "round", "rsqrt", "select_n"}
    | {"shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sqrt", "square"}
    | {"sub", "tanh", "xor"}
)


@dataclass(frozen=True)
class _Apart:
    """An array whose axes are yet to be merged: each is the product of a run of `fine`'s axes."""

    fine: jax.Array
    runs: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(math.prod(run) for run in self.runs)


_Value = jax.Array | _Apart


def merged_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` of arrays, computed with axes apart for as long as it can be."""

    def form(*xs: jax.Array) -> Any:
        jaxpr, shape = jax.make_jaxpr(function, return_shape=True)(*xs)
        results = map(_merged_by_itself, _evaluate(jaxpr, xs))
        return jax.tree.unflatten(jax.tree.structure(shape), list(results))

    return form


def _evaluate(closed: Any, xs: Sequence[jax.Array]) -> list[_Value]:
    jaxpr = closed.jaxpr
    values: dict[Any, _Value] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, xs, strict=True))

    def value(var: Any) -> _Value:
        return var.val if isinstance(var, Literal) else values[var]

    for eqn in jaxpr.eqns:
        names = source_info_util.current_name_stack() + eqn.source_info.name_stack
        traceback = eqn.source_info.traceback
        with source_info_util.user_context(traceback, name_stack=names), eqn.ctx.manager:
            outs = _applied(eqn, [value(var) for var in eqn.invars])
        values.update(zip(eqn.outvars, outs, strict=True))
    return [value(var) for var in jaxpr.outvars]


def _applied(eqn: Any, xs: Sequence[_Value]) -> Sequence[_Value]:
    name, out = eqn.primitive.name, eqn.outvars[0].aval
    if len(xs) == 1 and 0 not in out.shape:
        if name == "reshape" and eqn.params["dimensions"] is None:
            return [_reshaped(xs[0], out.shape)]
        if name == "broadcast_in_dim" and jnp.shape(xs[0]):
            return [_broadcast(xs[0], out.shape, eqn.params["broadcast_dimensions"])]
    apart = next((x for x in xs if isinstance(x, _Apart)), None)
    if apart is not None:
        if name == "transpose":
            return [_transposed(apart, eqn.params["permutation"])]
        if name in _ELEMENTWISE and out.shape == apart.shape:
            (fine,) = _bound(eqn, [_fine(x, apart) if jnp.shape(x) else x for x in xs])
            return [_Apart(fine, apart.runs)]
    return _bound(eqn, [_merged(x) for x in xs])


def _bound(eqn: Any, xs: Sequence[Any]) -> Sequence[jax.Array]:
    outs = eqn.primitive.bind(*xs, **eqn.primitive.get_bind_params(eqn.params))
    return outs if eqn.primitive.multiple_results else [outs]


def _reshaped(x: _Value, shape: Sequence[int]) -> _Value:
    fine = x.fine if isinstance(x, _Apart) else x
    runs = _runs(fine.shape, shape)
    if runs is None:
        return _merged(x).reshape(shape)
    return _simplest(fine.reshape([n for run in runs for n in run]), runs)


def _runs(sizes: Sequence[int], into: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """`sizes` without ones, split where need be, in runs whose products are `into`; else None."""
    left, runs = [n for n in reversed(sizes) if n > 1], []
    for whole in into:
        run = []
        while whole > 1:
            n = left.pop()
            part = math.gcd(n, whole)
            if part not in (n, whole):
                return None
            run.append(part)
            whole //= part
            if part < n:
                left.append(n // part)
        runs.append(tuple(run))
    return tuple(runs)


def _transposed(x: _Apart, permutation: Sequence[int]) -> _Value:
    at = _positions(x.runs)
    fine = x.fine.transpose([i for axis in permutation for i in at[axis]])
    return _simplest(fine, tuple(x.runs[axis] for axis in permutation))


def _broadcast(x: _Value, shape: Sequence[int], axes: Sequence[int]) -> _Value:
    """`lax.broadcast_in_dim`: axis k of x is axis `axes[k]` of the result."""
    x = _apart(x)
    runs: list[tuple[int, ...]] = [(n,) if n > 1 else () for n in shape]
    kept = [axis for run, axis in zip(x.runs, axes, strict=True) if run]
    for run, axis in zip(x.runs, axes, strict=True):
        runs[axis] = run or runs[axis]
    at = _positions(runs)
    sizes = [n for run in runs for n in run]
    fine = lax.broadcast_in_dim(x.fine, sizes, [i for axis in kept for i in at[axis]])
    return _simplest(fine, tuple(runs))


def _apart(x: _Value) -> _Apart:
    runs = x.runs if isinstance(x, _Apart) else tuple((n,) if n > 1 else () for n in x.shape)
    fine = x.fine if isinstance(x, _Apart) else x.reshape([n for run in runs for n in run])
    return _Apart(fine, runs)


def _positions(runs: Sequence[Sequence[int]]) -> list[range]:
    """For each run, which axes of the fine array it is."""
    ends = [sum(len(run) for run in runs[: k + 1]) for k in range(len(runs))]
    return [range(end - len(run), end) for run, end in zip(runs, ends, strict=True)]


def _simplest(fine: jax.Array, runs: tuple[tuple[int, ...], ...]) -> _Value:
    """An array where no axes are to be merged."""
    x = _Apart(fine, runs)
    return x if any(len(run) > 1 for run in runs) else fine.reshape(x.shape)


def _fine(x: _Value, like: _Apart) -> jax.Array:
    if isinstance(x, _Apart) and x.runs == like.runs:
        return x.fine
    return _merged(x).reshape(like.fine.shape)


def _merged(x: _Value) -> jax.Array:
    return x.fine.reshape(x.shape) if isinstance(x, _Apart) else x


def _merged_by_itself(x: _Value) -> jax.Array:
    """What XLA does not fuse with what computes x, nor makes a copy of."""
    if not isinstance(x, _Apart) or x.fine.size < LITTLE:
        return _merged(x)
    # A transposition that is a fusion's last step has a kernel of its own, of tiles: ms, FLOAT32
    # block 3 26, and 15 where there is another step, which XLA does not know to do nothing.
    unsigned = jnp.dtype(f"uint{x.fine.dtype.itemsize * 8}")
    zero = lax.optimization_barrier(jnp.zeros((), unsigned))
    bits = lax.bitcast_convert_type(x.fine, unsigned) | zero
    fine = lax.bitcast_convert_type(bits, x.fine.dtype)
    # With no layout named, XLA names another where an axis has one element, and copies.
    layout = Layout(tuple(range(len(x.shape))))
    with set_xla_metadata(inlineable="false"):
        return jax.jit(lambda fine: with_layout_constraint(fine.reshape(x.shape), layout))(fine)
