"""Microsoft's Python module `pydirectml`, whose programs run here as they are.

`import dml_jax.pydirectml as dml` in a program, or run an unmodified one with
`python -m dml_jax.pydirectml PROGRAM.py [ARGUMENTS]`, for which `import pydirectml` finds this
module. Functions, classes, argument names and defaults are PyDirectML's (DirectML 1.9.1).

Choices, where PyDirectML crashes, reads foreign memory or loses a value:

- `f / x` is f / x (DirectMLX computes 1 / (f * x)).
- `TensorPolicy.default` and `.interleaved_channel` can be read, and a `GraphBuilder` takes one.
- A tensor that is not FLOAT32 is bound from an array of its own type, or from numbers that its type
  holds; float32 data of another 32-bit type are bits, as in PyDirectML. A result has the type of
  its tensor.
- Inputs are matched by position; an input in the place of another is refused. Outputs are those
  that `build` was given, in any order.
- Strides and dilations of a window that are [] are 1, and paddings 0, in `average_pooling` too.
- An error is a `PyDirectMLError`, which is a `DmlError` and, as in PyDirectML, a `RuntimeError`.
  An argument of another type raises `TypeError`.
"""

import sys
from typing import Any, NoReturn

from dml_jax.pydirectml import (
    arguments,
    compiled_models,
    enumerations,
    expressions,
    functions,
    tensors,
)
from dml_jax.pydirectml.arguments import *  # noqa: F403
from dml_jax.pydirectml.compiled_models import *  # noqa: F403
from dml_jax.pydirectml.enumerations import *  # noqa: F403
from dml_jax.pydirectml.expressions import *  # noqa: F403
from dml_jax.pydirectml.functions import *  # noqa: F403
from dml_jax.pydirectml.tensors import *  # noqa: F403

__all__: list[str] = []
__all__ += arguments.__all__
__all__ += enumerations.__all__
__all__ += expressions.__all__
__all__ += functions.__all__
__all__ += compiled_models.__all__
__all__ += tensors.__all__
for _name in __all__:
    globals()[_name].__module__ = __name__  # as error messages and `help` shall name it

for _enumeration in enumerations.FLAT:
    globals().update(_enumeration.__members__)


def __getattr__(name: str) -> NoReturn:
    """Raise `AttributeError`, which names the function of dml_jax where PyDirectML has none."""
    text = f"module {__name__!r} has no attribute {name!r}"
    other = elsewhere(name)
    module: Any = sys.modules[__name__]
    if other:
        raise AttributeError(f"{text} ({other})", obj=module)
    raise AttributeError(text, name=name, obj=module)


def elsewhere(name: str) -> str:
    """Return where a function is that DirectML's users look for in PyDirectML; "" for others."""
    from dml_jax import facts

    if name == "matmul":
        return "PyDirectML has none; gemm multiplies matrices"
    if name in facts.functions() and name not in __all__:
        return f"PyDirectML has none; port the program to dml_jax.{name}"
    return ""
