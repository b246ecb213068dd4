"""The sum along axes of elements' slopes times their tangents, linear in these.

Its transposition multiplies what results are given by each element's slope. Where that is over the
first axis of much, each of the elements reads what they share from memory again; on a GPU a thread
therefore writes one element in each of four pieces. H200, jax 0.11.2, us of the derivative of L2;
MAX; LOG_SUM_EXP over the first axis, as it is and so:

                        FLOAT32                         FLOAT16
    [8, 64, 256, 256]   167, 126; 174, 133; 191, 152     89, 73; 119, 84; 134, 102
    [4, 64, 512, 256]   176, 133; 217, 151; 238, 182    111, 80; 153, 104; 185, 129
    [32, 64, 256, 256]  634, 470; 643, 476; 652, 494    310, 252; 441, 296; 462, 317
    [16, 64, 256, 128]  134, 127; 137, 131; 144, 138     73, 71; 78, 78; 88, 86
    [32, 64, 256, 64]   120, 123; 123, 129; 124, 129     75, 69; 81, 77; 86, 81
    [2, 256, 256, 256]   89, 92; 204, 166; 316, 258      52, 90; 113, 114; 228, 187

(In two pieces [8, 64, 256, 256] takes 149; 155; 172, in eight as long as it is.)
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dml_jax.lowering import placement
from dml_jax.lowering.fold import Axes
from dml_jax.lowering.pieces import MOST
from dml_jax.lowering.wide import wide

Slope = Callable[..., jax.Array]
Spread = Callable[..., jax.Array]

# Elements that are shared, from which on they are not read from a cache by the next that need them.
MUCH = 2**21


def slope_sum(
    slope: Slope, dx: jax.Array, x: jax.Array, shared: Sequence[jax.Array], axes: Axes
) -> jax.Array:
    """The sum of `slope(x, *shared) * dx` along axes, which become 1, in the type of `shared`.

    Args:
        slope: of elements; a function of the module it is in, which has derivatives.
        dx: of x's shape and type.
        x: floats.
        shared: by elements along the axes, which are 1.
        axes: along these.
    """
    out = _like(shared[0])
    longer = [a for a, n in enumerate(x.shape) if n > 1]
    if longer and longer[0] in axes and x.shape[longer[0]] > 2 and out.size >= MUCH:
        return sloped(slope, _spread, out, dx, x, *shared)
    return _plain(dx, x, *shared, slope=slope, out=out)


def sloped(slope: Slope, spread: Spread, out: Any, dx: jax.Array, *xs: jax.Array) -> jax.Array:
    """The sum of slopes times `dx`, whose transposition has a form of its own on one device.

    Args:
        slope: of `xs`; hashable, and has derivatives.
        spread: of the platforms, the transposition's argument, `xs` and `slope`; hashable.
        out: the sum's shape and type; what is summed along is 1.
        dx: of the slopes' shape.
        xs: what slopes are of.
    """
    # Inside shard_map types say over which axes values vary, which this one's would have to.
    if placement.has_explicit_axes(jax.typeof(dx)) or jax.sharding.get_abstract_mesh().manual_axes:
        return _plain(dx, *xs, slope=slope, out=out)
    return _sloped.bind(dx, *xs, slope=slope, spread=spread, out=out)


def _plain(y: jax.Array, *xs: jax.Array, slope: Slope, out: Any) -> jax.Array:
    """Slopes times what is of their shape, summed; or times what a sum is of, broadcast."""
    product = slope(*xs) * wide(y)
    axes = [a for a, n in enumerate(product.shape) if n != out.shape[a]]
    if axes:
        product = lax.expand_dims(lax.reduce_sum(product, axes), axes)
    return lax.convert_element_type(product, out.dtype)


def _spread(
    platforms: Sequence[str], y: jax.Array, x: jax.Array, *shared: jax.Array, slope: Slope
) -> jax.Array:
    def whole(y: jax.Array, x: jax.Array, *shared: jax.Array) -> jax.Array:
        return _plain(y, x, *shared, slope=slope, out=_like(x))

    def in_pieces(y: jax.Array, x: jax.Array, *shared: jax.Array) -> jax.Array:
        axis = next(a for a, n in enumerate(x.shape) if n > 1)
        n = x.shape[axis]
        step = -(-n // MOST)
        cut = (lax.slice_in_dim(x, i, min(i + step, n), axis=axis) for i in range(0, n, step))
        return lax.concatenate([whole(y, piece, *shared) for piece in cut], axis)

    return placement.by_platform(platforms, {"cuda": in_pieces}, whole)(y, x, *shared)


def _like(x: Any) -> Any:
    return ShapedArray(x.shape, x.dtype)


_sloped = Primitive("dml_sloped")
_sloped.def_abstract_eval(lambda *xs, out, **params: out)


@functools.lru_cache(maxsize=4096)
def _jitted(**params: Any) -> Callable[..., jax.Array]:
    return jax.jit(functools.partial(_sloped.bind, **params))


@_sloped.def_impl
def _eager(*xs: jax.Array, **params: Any) -> jax.Array:
    return _jitted(**params)(*xs)


def _lowered(ctx: Any, *xs: Any, slope: Slope, spread: Spread, out: Any) -> Any:
    form = functools.partial(_plain, slope=slope, out=out)
    is_spread = math.prod(out.shape) > math.prod(ctx.avals_in[0].shape)
    if is_spread and placement.on_one_device(ctx.module_context):
        form = functools.partial(spread, placement.platforms_of(ctx), slope=slope)
    return mlir.lower_fun(form, multiple_results=False)(ctx, *xs)


def _jvp(primals: Any, tangents: Any, slope: Slope, spread: Spread, out: Any) -> Any:
    plain = functools.partial(_plain, slope=slope, out=out)
    return jax.jvp(plain, primals, tuple(map(ad.instantiate_zeros, tangents)))


def _transposed(ct: Any, y: Any, *xs: Any, out: Any, **params: Any) -> Any:
    back = None if type(ct) is ad.Zero else _sloped.bind(ct, *xs, out=_like(y.aval), **params)
    return [back, *[None] * len(xs)]


def _batched(xs: Any, dims: Any, slope: Slope, spread: Spread, out: Any) -> Any:
    return jax.vmap(functools.partial(_plain, slope=slope, out=out), dims)(*xs), 0


mlir.register_lowering(_sloped, _lowered)
placement.needs_devices(_sloped)
ad.primitive_jvps[_sloped] = _jvp
ad.primitive_transposes[_sloped] = _transposed
batching.primitive_batchers[_sloped] = _batched
