"""Measure functions, operators, graphs and networks on a device, beside a plain copy.

`time` times a function of arrays. `Choice` makes cells of operators, and `Bench` measures cells,
each as a `Row`. `dml_jax.bench.compare.compare` says which cells of two `Results` differ.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dml_jax.bench.cells import Cell, Choice
    from dml_jax.bench.measure import Bench, time
    from dml_jax.bench.rows import Results, Row

__all__ = ["Bench", "Cell", "Choice", "Results", "Row", "time"]

_PLACES = {
    "Bench": "measure",
    "Cell": "cells",
    "Choice": "cells",
    "Results": "rows",
    "Row": "rows",
    "time": "measure",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
