"""Loops that a CPU's cores cannot share evenly, over rows in place of their last axis.

XLA gives each core an equal part of a loop's outermost axis. Where that is the only one, and the
parts do not come out even, every element is tested for the end, and LLVM does not vectorise that.
"""

# Rows that are more than most machines' cores, and still long where it matters.
MOST_ROWS = 2**7


def is_uneven(before: int, last: int, cores: int) -> bool:
    """Whether a loop over so many elements before its last axis, and over that, is such a one."""
    return before < cores and last % cores > 0


def even_rows(last: int, cores: int) -> int | None:
    """In how many rows such an axis goes, which cores can share; None of a prime and the like.

    How many there are makes little difference: of CLIPs three take two cores as long as 128 do.
    """
    return next((rows for rows in range(MOST_ROWS, cores - 1, -1) if last % rows == 0), None)
