"""Measure functions, operators, graphs and networks on a device, beside a plain copy.

`time` times a function of arrays. `Choice` makes cells of operators, and `Bench` measures cells,
each as a `Row`. `dml_jax.bench.compare.compare` says which cells of two `Results` differ.
"""

from dml_jax.bench.cells import Cell, Choice
from dml_jax.bench.measure import Bench, time
from dml_jax.bench.rows import Results, Row

__all__ = ["Bench", "Cell", "Choice", "Results", "Row", "time"]
