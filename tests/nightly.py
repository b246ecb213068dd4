"""Whether the tests take every case (DML_JAX_NIGHTLY=1), or a sample of these."""

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")
NIGHTLY = bool(os.environ.get("DML_JAX_NIGHTLY"))


def sample(cases: Sequence[Case], turn: int = 0, of: int = 2) -> list[Case]:
    """Return every `of`-th case from `turn` on; nightly all. Turns 0 to `of` - 1 have all cases."""
    return list(cases if NIGHTLY else cases[turn % of :: of])
