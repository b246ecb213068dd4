"""A function in a platform's form of it, a form for many cores, or compiled soon, as it runs."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax

from dml_jax.lowering import all_cores_cpu, loops_cpu
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


@contextlib.contextmanager
def by_many_cores(cores: int = 16) -> Iterator[None]:
    """Forms for a CPU of so many cores, of a few elements as of millions."""
    several = mock.patch.object(loops_cpu, "CORES", cores)
    with several, mock.patch.object(all_cores_cpu, "MUCH", 0):
        yield


@contextlib.contextmanager
def nothing_traced() -> Iterator[None]:
    """JAX keeps what it traced, also derivatives; here and afterwards it has nothing."""
    jax.clear_caches()
    try:
        yield
    finally:
        jax.clear_caches()
