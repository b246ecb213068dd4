"""Other sizes and strides of the memory that an expression has."""

import math
from collections.abc import Sequence

from dml_jax import functional as dml
from dml_jax.graph import Expression


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a packed tensor."""
    return tuple(math.prod(sizes[d + 1 :]) for d in range(len(sizes)))


def is_packed(x: Expression) -> bool:
    """Return whether the elements of `x` lie in memory one after the other."""
    return x.desc.strides is None or all(
        size == 1 or stride == packed
        for size, stride, packed in zip(
            x.sizes, x.desc.strides, packed_strides(x.sizes), strict=True
        )
    )


def packed(x: Expression) -> Expression:
    """Return `x` with its elements one after the other in memory."""
    return x if is_packed(x) else dml.identity(x)


def reshaped(x: Expression, sizes: Sequence[int]) -> Expression:
    """Return the elements of `x` in order, with other sizes; a scalar has sizes [1]."""
    sizes = tuple(sizes) or (1,)
    x = packed(x)
    return x if x.sizes == sizes else x.reinterpret(sizes)


def transposed(x: Expression, order: Sequence[int]) -> Expression:
    """Return `x` with its dimensions in another order, without a copy."""
    strides = x.desc.strides or packed_strides(x.sizes)
    return x.reinterpret([x.sizes[d] for d in order], [strides[d] for d in order])


def spread(x: Expression, sizes: Sequence[int]) -> Expression:
    """Return `x` broadcast to `sizes`, without a copy."""
    missing = len(sizes) - len(x.sizes)
    strides = (0,) * missing + tuple(x.desc.strides or packed_strides(x.sizes))
    own = (1,) * missing + tuple(x.sizes)
    steps = [
        0 if size == 1 != target else stride
        for size, target, stride in zip(own, sizes, strides, strict=True)
    ]
    return x.reinterpret(sizes, steps)


def taken(x: Expression, index: Expression, axis: int) -> Expression:
    """Return the elements of `x` at the places along `axis` that a tensor has."""
    before, after = math.prod(x.sizes[:axis]), math.prod(x.sizes[axis + 1 :])
    data = reshaped(x, (before, x.sizes[axis], after))
    count = math.prod(index.sizes)
    found = dml.gather(data, reshaped(index, (1, 1, count)), 1, 1)
    return reshaped(found, (*x.sizes[:axis], count, *x.sizes[axis + 1 :]))


def on_axis(x: Expression, axis: int, rank: int) -> Expression:
    """Return a tensor of one dimension as one of `rank` dimensions that lies along `axis`."""
    return reshaped(x, [math.prod(x.sizes) if d == axis else 1 for d in range(rank)])


def unowned(x: Expression) -> Expression:
    """Return a tensor that DirectML does not own, as recurrent networks take weights."""
    return dml.identity(x) if x.desc.flags else x
