"""Check and solve the constraint records of `dml_jax.facts`.

A record is a dictionary; its first key says what it demands:

- `{"equal": [T, ...], "of": ["DataType", "DimensionCount", "Sizes"]}`: the tensors agree; with
  `"except": "Axis"` not in that dimension;
- `{"type": T, "is": TYPE or PATH}`; `{"range": F, "from", "below" or "to"}`;
  `{"least": F, "value"}`; `{"one_of": F, "values"}` (None: left out); `{"nonzero": F}`;
  `{"finite": F}`; `{"unique": F}`; `{"length": F, "is"}`;
- `{"fits": F, "in": TYPE}`: an integer that the type holds, if it is one of integers;
  `{"number": F, "for": TYPE}`: not NaN; with a type, only where it is one of integers;
- `{"shapes": {T: PATTERN}}`: a letter is one number in the whole record; `1|N` is either;
  `{...}` holds an expression; `...` is any sizes, `1...` any ones, `B...` one list of sizes;
- `{"broadcast": [T, ...], "to": U}`: each size is 1 or that of U;
- `{"size": PATH, "is": "window", "window": {...}}`: the output size of a sliding window; with
  `"chosen": true` the caller may choose fewer windows, or a last one that hangs over the end;
- `{"holds": EXPRESSION, "each": "i", "let": {...}}`: the expression is true, for every i; where it
  is more than a comparison of one path, `"fault": [PATH, RULE, EXPRESSION]` says what is wrong: the
  path and the rule have expressions in `{}`, and the last one is the value;
  `sum(T[*].Sizes[F])` is the sum of a size of all tensors of a list;
- `{"given": T, "with": U}`, `{"at_least_one": [T, ...]}`: which tensors may be left out.

`"where": {PATH: value, list, "given" or "absent"}` limits a record to such descriptions, and
`"levels": {"below" or "from": LEVEL}` to such feature levels.
"""

from dml_jax.constraints.record import Record, check, records_of
from dml_jax.constraints.record_expressions import (
    Aspect,
    UnknownError,
    View,
    aspect_of,
    evaluate,
    is_wrong,
)
from dml_jax.constraints.solving import solve_sizes, solve_types

__all__ = [
    "Aspect",
    "Record",
    "UnknownError",
    "View",
    "aspect_of",
    "check",
    "evaluate",
    "is_wrong",
    "records_of",
    "solve_sizes",
    "solve_types",
]
