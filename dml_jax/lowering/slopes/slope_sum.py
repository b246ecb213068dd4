"""The sum along axes of elements' slopes times their tangents, as a linear primitive.

JAX would transpose a product and a sum to XLA's own product of two arrays. Here the transposition
has a form of its own on one device. It stores no slopes, and computes them each time that it is
applied; under `jax.vmap`, and inside of `jax.shard_map`, it is JAX's own.

Over the first axis of much, each element reads from memory again what it shares with those of other
rows. So on a GPU a thread writes one element in each of four pieces. H200, jax 0.11.2, us of the
derivative of L2; MAX; LOG_SUM_EXP over the first axis, as it is and so:

                        FLOAT32                         FLOAT16
    [8, 64, 256, 256]   167, 126; 174, 133; 191, 152     89, 73; 119, 84; 134, 102
    [4, 64, 512, 256]   176, 133; 217, 151; 238, 182    111, 80; 153, 104; 185, 129
    [32, 64, 256, 256]  634, 470; 643, 476; 652, 494    310, 252; 441, 296; 462, 317
    [16, 64, 256, 128]  134, 127; 137, 131; 144, 138     73, 71; 78, 78; 88, 86
    [32, 64, 256, 64]   120, 123; 123, 129; 124, 129     75, 69; 81, 77; 86, 81
    [2, 256, 256, 256]   89, 92; 204, 166; 316, 258      52, 90; 113, 114; 228, 187

(In two pieces [8, 64, 256, 256] takes 149; 155; 172, in eight as long as whole.)
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.core import ShapedArray
from jax.interpreters import ad, batching

from dml_jax.lowering.all_cores_cpu import by_all_cores
from dml_jax.lowering.axes import Axes, restored
from dml_jax.lowering.devices import placement
from dml_jax.lowering.threads_gpu import MOST_PIECES
from dml_jax.lowering.wide import wide

Slope = Callable[..., jax.Array]
Transposed = Callable[..., jax.Array]

# Shared elements from which on a cache no longer holds them for the next row.
MUCH = 2**21


def slope_sum(
    slope: Slope, dx: jax.Array, x: jax.Array, shared: jax.Array, axes: Axes
) -> jax.Array:
    """The sum of `slope(x, shared) * dx` along axes, which become 1, in the type of `shared`.

    Args:
        slope: of elements; a function of a module (it is compared by identity) with derivatives.
        dx: of x's shape and type.
        x: floats.
        shared: by elements along the axes, which are 1.
        axes: along these.
    """
    first, x = _first(x.shape), by_all_cores(x)
    if first in axes and x.shape[first] > 2 and shared.size >= MUCH:
        return sloped(slope, _transposed_in_pieces, _like(shared), dx, x, shared)
    return _plain(dx, x, shared, slope=slope, out=_like(shared))


def sloped(
    slope: Slope, transposed: Transposed, out: Any, dx: jax.Array, *xs: jax.Array
) -> jax.Array:
    """The sum of slopes times `dx`, whose transposition has a form of its own on one device.

    Args:
        slope: of `xs`; hashable, and has derivatives.
        transposed: that form, of the platforms, its argument, `xs` and `slope`; hashable.
        out: the sum's shape and type; what is summed along is 1.
        dx: of the slopes' shape.
        xs: what slopes are of.
    """
    # Inside shard_map types say over which axes values vary, which this one's would have to.
    if placement.has_explicit_axes(jax.typeof(dx)) or jax.sharding.get_abstract_mesh().manual_axes:
        return _plain(dx, *xs, slope=slope, out=out)
    return _sloped.bind(dx, *xs, slope=slope, transposed=transposed, out=out)


def _plain(y: jax.Array, *xs: jax.Array, slope: Slope, out: Any) -> jax.Array:
    """Slopes times y: broadcast where y has 1, summed where `out` has."""
    product = slope(*xs) * wide(y)
    axes = [a for a, n in enumerate(product.shape) if n != out.shape[a]]
    if axes:
        product = restored(lax.reduce_sum(product, axes), axes)
    return lax.convert_element_type(product, out.dtype)


def _transposed_in_pieces(
    platforms: Sequence[str], y: jax.Array, x: jax.Array, shared: jax.Array, slope: Slope
) -> jax.Array:
    def whole(y: jax.Array, x: jax.Array, shared: jax.Array) -> jax.Array:
        return _plain(y, x, shared, slope=slope, out=_like(x))

    def in_pieces(y: jax.Array, x: jax.Array, shared: jax.Array) -> jax.Array:
        axis = _first(x.shape)
        n = x.shape[axis]
        step = -(-n // MOST_PIECES)
        cut = (lax.slice_in_dim(x, i, min(i + step, n), axis=axis) for i in range(0, n, step))
        return lax.concatenate([whole(y, piece, shared) for piece in cut], axis)

    return placement.by_platform(platforms, {"cuda": in_pieces}, whole)(y, x, shared)


def _first(shape: Sequence[int]) -> int:
    """The first axis of more than one element, if there is one."""
    return next((a for a, n in enumerate(shape) if n > 1), 0)


def _like(x: Any) -> Any:
    return ShapedArray(x.shape, x.dtype)


def _form(ctx: Any, *, slope: Slope, transposed: Transposed, out: Any) -> Any:
    sums = math.prod(out.shape) < math.prod(ctx.avals_in[0].shape)
    if not sums and placement.on_one_device(ctx.module_context):
        return functools.partial(transposed, placement.platforms_of(ctx), slope=slope)
    return functools.partial(_plain, slope=slope, out=out)


_sloped = placement.placed_primitive("dml_sloped", _form)
_sloped.def_abstract_eval(lambda *xs, out, **params: out)


def _jvp(primals: Any, tangents: Any, *, slope: Slope, out: Any, **params: Any) -> Any:
    (y, *xs), (dy, *dxs) = primals, tangents
    linear = functools.partial(_sloped.bind, slope=slope, out=out, **params)
    terms = [] if type(dy) is ad.Zero else [linear(dy, *xs)]
    if any(type(dx) is not ad.Zero for dx in dxs):
        plain = functools.partial(_plain, y, slope=slope, out=out)
        terms.append(jax.jvp(plain, tuple(xs), tuple(map(ad.instantiate_zeros, dxs)))[1])
    return linear(*primals), functools.reduce(lax.add, terms)


def _transposed(ct: Any, y: Any, *xs: Any, out: Any, **params: Any) -> Any:
    back = None if type(ct) is ad.Zero else _sloped.bind(ct, *xs, out=_like(y.aval), **params)
    return [back, *[None] * len(xs)]


def _batched(xs: Any, dims: Any, *, slope: Slope, out: Any, **params: Any) -> Any:
    return jax.vmap(functools.partial(_plain, slope=slope, out=out), dims)(*xs), 0


ad.primitive_jvps[_sloped] = _jvp
ad.primitive_transposes[_sloped] = _transposed
batching.primitive_batchers[_sloped] = _batched
