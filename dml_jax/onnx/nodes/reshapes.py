"""An expression with other sizes, in another order, or in another type."""

import math
from collections.abc import Sequence

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.graph import Expression
from dml_jax.lowering.strided_memory import packed_strides
from dml_jax.onnx.nodes.node import expect


def is_packed(x: Expression) -> bool:
    """Return whether the elements of `x` lie in memory one after the other."""
    return x.desc.strides is None or all(
        size == 1 or stride == pack
        for size, stride, pack in zip(x.sizes, x.desc.strides, packed_strides(x.sizes), strict=True)
    )


def pack(x: Expression) -> Expression:
    """Return `x` with its elements one after the other in memory."""
    return x if is_packed(x) else dml.identity(x)


def reshape(x: Expression, sizes: Sequence[int]) -> Expression:
    """Return the elements of `x` in order, with other sizes; a scalar has sizes [1].

    Raises `DmlError` where these are more or fewer elements.
    """
    sizes, count = tuple(sizes) or (1,), math.prod(x.sizes)
    expect(math.prod(sizes) == count, "the sizes", f"be of {count} elements", list(sizes))
    x = pack(x)
    return x if x.sizes == sizes else x.reinterpret(sizes)


def transpose(x: Expression, order: Sequence[int]) -> Expression:
    """Return `x` with its dimensions in another order, without a copy."""
    strides = x.desc.strides or packed_strides(x.sizes)
    return x.reinterpret([x.sizes[d] for d in order], [strides[d] for d in order])


def permute(x: Expression, order: Sequence[int]) -> Expression:
    """Return `x` with its dimensions in another order, packed."""
    return pack(transpose(x, order))


def with_channels_second(x: Expression) -> Expression:
    """Return [batch, ..., channels] as [batch, channels, ...], packed."""
    rank = len(x.sizes)
    return permute(x, (0, rank - 1, *range(1, rank - 1)))


def with_channels_last(x: Expression) -> Expression:
    """Return [batch, channels, ...] as [batch, ..., channels], packed."""
    return permute(x, (0, *range(2, len(x.sizes)), 1))


def of_rank(x: Expression, rank: int) -> Expression:
    """Return `x` with dimensions of size 1 in front, `rank` dimensions in all."""
    return reshape(x, (1,) * (rank - len(x.sizes)) + tuple(x.sizes))


def cut(x: Expression, sizes: Sequence[int]) -> Expression:
    """Return the first elements of `x` along each dimension."""
    rank = len(sizes)
    return x if x.sizes == tuple(sizes) else dml.slice(x, [0] * rank, sizes, [1] * rank)


def lengthen(x: Expression, sizes: Sequence[int], value: float = 0.0) -> Expression:
    """Return `x` with `value` behind its elements along each dimension."""
    missing = [n - own for n, own in zip(sizes, x.sizes, strict=True)]
    return dml.padding(x, "CONSTANT", value, [0] * len(sizes), missing) if any(missing) else x


def resize(x: Expression, sizes: Sequence[int]) -> Expression:
    """Return `x` cut, or with zeros behind its elements, along each dimension."""
    return lengthen(cut(x, [min(pair) for pair in zip(x.sizes, sizes, strict=True)]), sizes)


def as_type(x: Expression, kind: TensorDataType | str) -> Expression:
    """Return `x` with elements of another type."""
    kind = TensorDataType.of(kind)
    return x if x.desc.data_type == kind else dml.cast(x, kind)


def spread(x: Expression, sizes: Sequence[int]) -> Expression:
    """Return `x` broadcast to `sizes`, without a copy. Raises `DmlError` where it cannot be."""
    missing = len(sizes) - len(x.sizes)
    is_right = missing >= 0 and all(
        size in (1, target) for size, target in zip(x.sizes, sizes[missing:], strict=True)
    )
    expect(is_right, "the sizes", f"be broadcast to {list(sizes)}", list(x.sizes))
    strides = (0,) * missing + tuple(x.desc.strides or packed_strides(x.sizes))
    own = (1,) * missing + tuple(x.sizes)
    steps = [
        0 if size == 1 != target else stride
        for size, target, stride in zip(own, sizes, strides, strict=True)
    ]
    return x.reinterpret(sizes, steps)


def taken(x: Expression, index: Expression, axis: int) -> Expression:
    """Return the elements of `x` at the places along `axis` that a tensor has, in its sizes."""
    before, after = math.prod(x.sizes[:axis]), math.prod(x.sizes[axis + 1 :])
    data = reshape(x, (before, x.sizes[axis], after))
    found = dml.gather(data, reshape(index, (1, 1, math.prod(index.sizes))), 1, 1)
    return reshape(found, (*x.sizes[:axis], *index.sizes, *x.sizes[axis + 1 :]))


def on_axis(x: Expression, axis: int, rank: int) -> Expression:
    """Return a tensor of one dimension as one of `rank` dimensions that lies along `axis`."""
    expect(len(x.sizes) == 1, "a tensor of one axis", "have rank 1", len(x.sizes))
    return reshape(x, [math.prod(x.sizes) if d == axis else 1 for d in range(rank)])


def without_owner(x: Expression) -> Expression:
    """Return a tensor that DirectML does not own, as recurrent networks take weights."""
    return dml.identity(x) if x.desc.flags else x
