"""A function in a platform's form of it as a whole program; or compiled soon, however it runs."""

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


def compiled_soon(function: Callable[..., Any]) -> jax.stages.Wrapped:
    """`jax.jit` without LLVM's optimisations, a third of the time that many reductions take."""
    on_cpu = jax.default_backend() == "cpu"
    return jax.jit(
        function, compiler_options={"xla_backend_optimization_level": 0} if on_cpu else None
    )
