"""A function in a platform's form of it as a whole program."""

from collections.abc import Callable
from typing import Any

import jax

from dml_jax.lowering.whole_programs import whole_program


def in_form(platform: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what the function gives."""

    def form(*xs: Any) -> Any:
        program, shape = jax.make_jaxpr(function, return_shape=True)(*xs)
        results = whole_program.forms(program)[platform](*xs)
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return form
