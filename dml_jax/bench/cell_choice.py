"""Which cells a run measures: of operators as a command line names them, and by their names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dml_jax.bench.cells import MEBIBYTES, VARIANTS, Cell, Choice
from dml_jax.facts import catalogue


def choice_of(
    device: Any,
    operators: Sequence[str],
    of_families: Sequence[str],
    types: Sequence[str],
    mebibytes: Sequence[float],
    *,
    quick: bool,
    roofline: bool,
    sizes: Mapping[str, Sequence[int]],
    gradient: bool,
    batch: int,
) -> Choice:
    """Return the cells of `operators` and of all operators `of_families`.

    A roofline without operators has those of all families. `quick` has few variants of each, of one
    type and size. The other arguments are those of `Choice`.
    """
    is_whole = bool(of_families or (roofline and not operators))
    all_of = [
        name
        for name, facts in catalogue().items()
        if not of_families or facts["family"] in of_families
    ]
    is_one_size = roofline or is_whole
    # On an accelerator a small cell would measure how fast the host starts it.
    size = MEBIBYTES[0 if is_one_size and device.platform == "cpu" else -1]
    return Choice(
        [*(all_of if is_whole else ()), *operators],
        types,
        mebibytes or ([size] if is_one_size or quick else ()),
        1 if quick or is_whole else None if operators else VARIANTS,
        1 if (quick or is_whole) and not types else None,
        sizes,
        gradient,
        batch,
    )


def matching(cells: Sequence[Cell], words: str) -> list[Cell]:
    """Return the cells whose names have `words`, written with or without signs of attributes."""
    parts = map(re.escape, _plain(words).split(" "))
    pattern = re.compile(r"(?<![A-Z_0-9])" + r"(?: \])? ".join(parts))
    return [cell for cell in cells if pattern.search(_plain(cell.name))]


def _plain(words: str) -> str:
    """Return words with few signs of attributes: `SUM axes=[0]` is `SUM AXES 0 ]`."""
    words = words.upper().replace("AXIS", "AXES").replace("]", " ] ")
    return re.sub(r"[=\[, ]+", " ", words).strip()
