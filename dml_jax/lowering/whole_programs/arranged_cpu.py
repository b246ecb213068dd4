"""What is moved and repeated last on a CPU: by one loop over all the factors of the axes.

XLA's loops are over the axes of what a fusion returns. Where that ends in a reshape that merges
axes, as in DEPTH_TO_SPACE and TILE, each element's index is divided to find where it is read, and
elements are read one by one. Here the axes are merged in a call that XLA does not inline and that
costs nothing. 2 cores, jax 0.10.2, ms with bound outputs, the function as it is, this, and a copy:

    depth_to_space  [8, 64, 256, 256], block 2: FLOAT32 22, 14, 17; FLOAT16 22, 7.7, 8.5; UINT8 21,
                    3.9, 4.4. [8, 63, 256, 256], block 3: 28, 15, 17; 25, 8.0, 8.5; 24, 4.2, 4.4
    tile            UINT8 [8, 64, 256, 256] by (1, 1, 1, 2) 18, 7.2; [2, 64, 256, 256] by
                    (2, 2, 2, 2) 35, 12. FLOAT16 [64, 256, 256] by (1, 1, 16) 19, 11
    clip, depth_to_space by 2, tile by (1, 1, 2, 2), of [2, 64, 256, 256] FLOAT32 20, 13;
                    [4, 64, 256, 256] FLOAT16 42, 13; [8, 64, 256, 256] UINT8 76, 13. (A
                    concatenation of four copies takes 16.)
    space_to_depth  takes the same time both ways: it is bound by what it reads
"""

import jax
from jax import lax

from dml_jax.lowering import loops_cpu
from dml_jax.lowering.all_cores_cpu import written_by_all_cores
from dml_jax.lowering.elementwise import alike
from dml_jax.lowering.stored_cpu import in_memory, reshaped
from dml_jax.lowering.whole_programs.pending import Factor, Pending

# On a CPU what is given and ends in rows that LLVM unrolls is repeated as a concatenation, which
# copies them, where that gives a row of so many elements or they are narrow. 2 cores, jax 0.10.2,
# ns a byte written, in a loop and so, a copy 0.06: UINT8 rows of 16 by 16 0.13, 0.04; of 64 by 2
# 0.22, 0.04; of 33 by 2 0.20, 0.14; FLOAT16 of 64 by 2 0.12, 0.04; FLOAT32 0.10, 0.05; of 33 by 2
# 0.09, 0.15. What is computed is faster in a loop: a clip of UINT8 rows of 17, by 4 0.10, 0.25.
COPIED_ROW = 128
# Pieces of such a concatenation.
MOST_COPIES = 16


def written(x: Pending) -> jax.Array:
    """What XLA does not fuse with what computes x, nor makes a copy of.

    Over few axes, since rows that are neighbours are one that LLVM does not unroll: ns a byte
    written, UINT8 [24, 72, 64, 64] by (1, 2, 1, 1) 0.14, so 0.05.
    """
    if not x.merges or loops_cpu.is_little(x.shape):
        return written_by_all_cores(x.arranged)
    flat = _rows_repeated(x.flat())
    if not isinstance(flat, Pending):
        return reshaped(flat, x.shape)
    apart = flat.apart()
    # A transposition that is a fusion's last step has a kernel of its own, of tiles: ms, FLOAT32
    # block 3 26, and 15 where there is another step, which XLA does not know to do nothing.
    (apart,) = alike(apart, 1)
    rows = apart.reshape(loops_cpu.with_even_rows(apart.shape))
    return reshaped(written_by_all_cores(rows), x.shape)


def _rows_repeated(x: Pending | jax.Array) -> Pending | jax.Array:
    """With short rows repeated by copying them, where that is how it ends."""
    if not isinstance(x, Pending) or not x.given or len(x.factors) < 2:
        return x
    *outer, repeats, row = x.factors
    if (
        repeats.axis is not None
        or row.axis != x.array.ndim - 1
        or row.size not in loops_cpu.UNROLLED
    ):
        return x
    counts = [n for n in range(2, MOST_COPIES + 1) if repeats.size % n == 0]
    enough = [n for n in counts if n * row.size >= COPIED_ROW]
    if repeats.size <= MOST_COPIES and (x.array.dtype.itemsize < 4 or enough):
        count = repeats.size
    elif enough:
        count = enough[0]
    else:
        return x
    # In memory, or XLA fuses the copies with what reads them, and takes elements one by one; as it
    # does of what it is given by a reshape (GB/s, FLOAT16 [96, 18, 96, 16] by 3 24, so 59; by 6 8,
    # 36; of 17 by 2 and 3 along the last two axes 10, 18).
    given = in_memory(x.array)
    rows = in_memory(lax.concatenate([given] * count, x.array.ndim - 1))
    left = [*outer, Factor(repeats.size // count, None), Factor(count * row.size, row.axis)]
    return Pending(rows, (tuple(f for f in left if f.size > 1),), given=False).simplest()
