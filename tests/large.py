"""Tensors of more than 2^31 bytes and elements: right beyond every 32-bit index.

    python tests/large.py            # all, on a GPU of 40 GB or more
    python tests/large.py --light    # one byte an element, within 12 GB: for a CPU

Elements are a hash of their index, so that one element in the wrong place is another value. What is
read back are single elements: both ends, around 2^30, 2^31 and 2^32, and some at random. Not a test
of the suite, for its memory: pytest does not collect it.
"""

import argparse
import functools
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax import (
    Argmax,
    Argmin,
    Buffer,
    BufferBinding,
    DepthToSpace1,
    ElementWiseClip,
    Join,
    Reduce,
    SpaceToDepth1,
    Split,
    TensorDesc,
    Tile,
    compile,
    load_onnx,
)

THIRD = 715_827_883
N = 3 * THIRD  # 2^31 + 1
SIDE = 23171  # 4 * SIDE^2 is above 2^31
MOST = 2**32 - 1
Index = Sequence[int]


def hashed(index: Any) -> Any:
    """A byte that tells an index from its neighbours, and from itself modulo 2^31 or 2^16."""
    return (index * 2654435761 & 0xFFFFFFFF) >> 24


@jax.jit
def _bytes(index: jax.Array) -> jax.Array:
    return (index * jnp.uint32(2654435761) >> jnp.uint32(24)).astype(jnp.uint8)


def filled(sizes: Index, data_type: str = "UINT8") -> jax.Array:
    """Each element the hash of its row-major index."""

    def make() -> jax.Array:
        return _bytes(lax.iota(jnp.uint32, math.prod(sizes))).reshape(sizes).astype(dtype)

    dtype = TensorDesc(data_type, [1]).dtype
    x = jax.jit(make)()
    expect(x, lambda at: hashed(_flat(at, sizes)), "the input itself")
    return x


@functools.partial(jax.jit, static_argnums=0)
def _planted(sizes: Index, places: jax.Array, value: jax.Array, rest: jax.Array) -> jax.Array:
    index = lax.iota(jnp.uint32, math.prod(sizes))
    here = (index == places[0]) | (index == places[1]) | (index == places[2])
    return jnp.where(here, value, rest).reshape(sizes)


def planted(
    sizes: Index, places: Sequence[int], value: float, data_type: str, rest: float = 0
) -> jax.Array:
    """`rest`, but for one to three places, which are given by their row-major index."""
    dtype = TensorDesc(data_type, [1]).dtype.type
    three = np.array([*places, *places, *places][:3], np.uint32)
    return _planted(tuple(sizes), three, dtype(value), dtype(rest))


def _flat(at: Index, sizes: Index) -> int:
    return int(np.ravel_multi_index(tuple(at), tuple(sizes)))


def spots(sizes: Index) -> list[tuple[int, ...]]:
    """The indices that are looked at."""
    count, rng = math.prod(sizes), random.Random(1)
    flat = {0, 1, count - 2, count - 1, *(rng.randrange(count) for _ in range(16))}
    flat |= {2**n + d for n in (30, 31, 32) for d in (-1, 0, 1)}
    places = sorted(p for p in flat if 0 <= p < count)
    return [tuple(map(int, np.unravel_index(p, tuple(sizes)))) for p in places]


def clip_of(tensor: TensorDesc) -> ElementWiseClip:
    return ElementWiseClip(input_tensor=tensor, output_tensor=tensor, min=50, max=200)


def clipped(at: Index) -> int:
    return min(max(hashed(at[0]), 50), 200)


def expect(y: jax.Array, value: Callable[[tuple[int, ...]], Any], what: str = "") -> None:
    """Each spot of an array has the value that its index says."""
    places = spots(y.shape)

    def look(y: jax.Array) -> jax.Array:  # slices of constant starts: no index is computed
        return jnp.stack([lax.slice(y, at, [i + 1 for i in at]).reshape(()) for at in places])

    got = np.asarray(jax.jit(look)(y))
    for at, found in zip(places, got.tolist(), strict=True):
        assert found == value(at), f"{what} {y.shape} at {at}: {found}, not {value(at)}"


def u8(*sizes: int) -> TensorDesc:
    return TensorDesc("UINT8", sizes)


# The cases.


def split() -> None:
    pieces = Split(input_tensor=u8(N), output_tensors=[u8(2**31), u8(1)], axis=0)(filled([N]))
    expect(pieces[0], lambda at: hashed(at[0]))
    expect(pieces[1], lambda at: hashed(2**31))
    rows = Split(input_tensor=u8(3, THIRD), output_tensors=[u8(1, THIRD)] * 3, axis=0)
    for row, piece in enumerate(rows(filled([3, THIRD]))):
        expect(piece, lambda at, row=row: hashed(row * THIRD + at[1]))


def join() -> None:
    x = filled([2**31 - 1])
    op = Join(input_tensors=[u8(2**31 - 1), u8(2)], output_tensor=u8(N), axis=0)
    ends = [7, 9]
    y = op(x, jnp.array(ends, jnp.uint8))
    expect(y, lambda at: hashed(at[0]) if at[0] < 2**31 - 1 else ends[at[0] - 2**31 + 1])


def tile() -> None:
    op = Tile(input_tensor=u8(1, THIRD), output_tensor=u8(3, THIRD), repeats=[3, 1])
    expect(op(filled([1, THIRD])), lambda at: hashed(at[1]))
    op = Tile(input_tensor=u8(THIRD, 1), output_tensor=u8(THIRD, 3), repeats=[1, 3])
    expect(op(filled([THIRD, 1])), lambda at: hashed(at[0]))


def clip(count: int = N) -> None:
    expect(clip_of(u8(count))(filled([count])), clipped)


def clip_most() -> None:
    clip(MOST)


def blocks() -> None:
    deep, wide = u8(1, 4, SIDE, SIDE), u8(1, 1, 2 * SIDE, 2 * SIDE)
    fields: dict[str, Any] = {"block_size": 2, "order": "DEPTH_COLUMN_ROW"}
    y = DepthToSpace1(input_tensor=deep, output_tensor=wide, **fields)(filled(deep.sizes))

    def source(at: Index) -> int:
        _, _, row, column = at
        channel = row % 2 * 2 + column % 2
        return hashed(_flat((0, channel, row // 2, column // 2), deep.sizes))

    expect(y, source)
    back = SpaceToDepth1(input_tensor=wide, output_tensor=deep, **fields)(y)
    expect(back, lambda at: hashed(_flat(at, deep.sizes)))


def extremes() -> None:
    for function, value, rest in (("MAX", 255, 3), ("MIN", 3, 255)):
        for sizes in ([N], [3, THIRD]):
            axes = [*range(len(sizes))]
            op = Reduce.infer(function=function, input_tensor=u8(*sizes), axes=axes)
            for place in (0, 2**31):
                assert op(planted(sizes, [place], value, "UINT8", rest)).item() == value


def indices(data_type: str = "UINT8") -> None:
    wide = ["INT64"] if jax.config.read("jax_enable_x64") else []
    for operator, value, rest in ((Argmax, 2, 1), (Argmin, 1, 2)):
        for sizes in ([N], [3, THIRD]):

            def index_of(x: jax.Array, index_type: str, direction: str, of: Any = operator) -> int:
                sizes = x.shape
                return of(
                    input_tensor=TensorDesc(data_type, sizes),
                    output_tensor=TensorDesc(index_type, [1] * len(sizes)),
                    axes=range(len(sizes)),
                    axis_direction=direction,
                )(x).item()

            for place in (2**31 - 1, 2**31):
                x = planted(sizes, [place], value, data_type, rest)
                assert index_of(x, "UINT32", "INCREASING") == place
            x = planted(sizes, [5, 2**31 - 2, 2**31], value, data_type, rest)
            for index_type in ("UINT32", *wide):
                assert index_of(x, index_type, "INCREASING") == 5
                assert index_of(x, index_type, "DECREASING") == 2**31


def indices_most() -> None:
    """The largest index that there is, and one dimension kept beside 2^31 others."""
    op = Reduce(
        function="ARGMAX", input_tensor=u8(MOST), output_tensor=TensorDesc("UINT32", [1]), axes=[0]
    )
    assert op(planted([MOST], [MOST - 1], 1, "UINT8")).item() == MOST - 1
    sizes = [THIRD, 3]
    kept = TensorDesc("UINT32", [1, 3])
    op = Reduce(function="ARGMAX", input_tensor=u8(*sizes), output_tensor=kept, axes=[0])
    x = planted(sizes, [0, 3 * 5 + 1, N - 1], 1, "UINT8")
    assert op(x).tolist() == [[0, 5, THIRD - 1]]


def floats() -> None:
    """2^31 + 1 elements of two bytes."""
    half = TensorDesc("FLOAT16", [N])

    def reduce(function: str, x: jax.Array) -> float:
        return Reduce.infer(function=function, input_tensor=half, axes=[0])(x).item()

    x = planted([N], [0, 2**30, 2**31], 1, "FLOAT16")
    assert reduce("SUM", x) == 3
    assert reduce("SUM_SQUARE", x) == 3
    assert reduce("L1", x) == 3
    assert reduce("L2", x) == np.float16(3**0.5)
    assert reduce("MAX", x) == 1
    assert reduce("LOG_SUM_EXP", x) == np.float16(math.log(N))
    x = planted([N], [0], 2, "FLOAT16", 2)
    assert abs(reduce("AVERAGE", x) - 2) < 0.01  # a sum of 2^32 in float32
    expect(clip_of(half)(filled([N], "FLOAT16")), clipped)


def float_indices() -> None:
    indices("FLOAT16")


def int_sums() -> None:
    """2^31 + 1 elements of four bytes; the sum wraps."""
    op = Reduce.infer(function="SUM", input_tensor=TensorDesc("UINT32", [N]), axes=[0])
    assert op(planted([N], [2**31], 6, "UINT32", 3)).item() == (3 * N + 3) % 2**32


def strides() -> None:
    padded = TensorDesc("UINT8", [3, THIRD], strides=[THIRD + 1, 1])
    turned = TensorDesc("UINT8", [THIRD, 3], strides=[1, THIRD])
    for tensor in (padded, turned):
        step = tensor.strides or (0, 0)
        span = tensor.span
        y = jax.jit(tensor.read)(filled([span]))
        expect(y, lambda at, step=step: hashed(at[0] * step[0] + at[1] * step[1]), "read")
        del y
        # Written to where other elements lie between, which stay.
        buffer = jnp.full(span, 1, jnp.uint8)
        x = filled(tensor.sizes)
        buffer = jax.jit(tensor.write, donate_argnums=0)(buffer, x)
        del x

        def written(at: Index, tensor: TensorDesc = tensor) -> int:
            first, second = (
                divmod(at[0], THIRD + 1) if tensor is padded else (at[0] % THIRD, at[0] // THIRD)
            )
            inside = second < tensor.sizes[1]
            return hashed(_flat((first, second), tensor.sizes)) if inside else 1

        expect(buffer, written, "write")


def gathered() -> None:
    """Windows that overlap, which no slices can read."""
    windows = TensorDesc("UINT8", [65537, 32769], strides=[32768, 1])
    y = jax.jit(windows.read)(filled([windows.span]))
    expect(y, lambda at: hashed(at[0] * 32768 + at[1]))


def bound() -> None:
    """Memory bound beyond 2^31 bytes; what lies before it stays."""
    start, count = 2**31 + 16, 64
    source, target = Buffer(filled([start + count])), Buffer(filled([start + count]))
    op = compile(clip_of(u8(count)))
    op.bind([BufferBinding(source, start)], [BufferBinding(target, start)]).dispatch()
    expect(target.array, lambda at: clipped(at) if at[0] >= start else hashed(at[0]), "a part")
    compile(clip_of(u8(N))).bind([source], [source]).dispatch()
    expect(source.array, lambda at: clipped(at) if at[0] < N else hashed(at[0]), "in place")


def network() -> None:
    """A network in ONNX's format."""
    from build import parse

    text = "g (uint8[2147483647] x, uint8[2] t) => (uint8[M] y) { y = Concat <axis = 0> (x, t) }"
    net = load_onnx(parse(text))
    ends = [7, 9]
    y = net(filled([2**31 - 1]), jnp.array(ends, jnp.uint8))["y"]
    expect(y, lambda at: hashed(at[0]) if at[0] < 2**31 - 1 else ends[at[0] - 2**31 + 1])


LIGHT = [split, join, tile, clip, blocks, extremes, indices, strides, bound, network]
HEAVY = [clip_most, indices_most, floats, float_indices, int_sums, gathered]


def chosen(options: argparse.Namespace) -> Iterator[Callable[[], None]]:
    for case in LIGHT if options.light else LIGHT + HEAVY:
        if not options.only or case.__name__ in options.only:
            yield case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--light", action="store_true", help="one byte an element, within 12 GB")
    parser.add_argument("--only", nargs="*", help="these cases")
    parser.add_argument("--no-x64", action="store_true", help="without JAX's 64-bit types")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", not options.no_x64)
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}")  # noqa: T201
    failed = 0
    for case in chosen(options):
        start = time.perf_counter()
        try:
            case()
            result = "right"
        except Exception as error:  # the others are still of interest
            failed += 1
            result = f"WRONG: {type(error).__name__}: {str(error)[:300]}"
        seconds = time.perf_counter() - start
        print(f"{case.__name__:14} {seconds:6.1f} s  {result}", flush=True)  # noqa: T201
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
