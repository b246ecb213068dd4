"""Functions in another machine's form, or compiled soon, as tests run them."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
from jax._src import compiler
from nightly import NIGHTLY

from dml_jax.lowering import parallel_cpu, platform_forms
from dml_jax.lowering.reduce import cpu, gpu, primitive, reductions

SOON: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""Options of XLA for a CPU: no optimisations of LLVM, loops without MLIR, all kernels at once."""


@functools.cache
def soon() -> dict[str, Any] | None:
    """Return the options `SOON` that this version of XLA knows; None on other devices."""
    if jax.default_backend() != "cpu":
        return None
    known = {}
    for name, value in SOON.items():
        try:
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


def compiled_soon(function: Callable[..., Any]) -> jax.stages.Wrapped:
    """Jit with XLA's options `SOON`, which take a part of the time to compile."""
    return jax.jit(function, compiler_options=soon())


_options_of_jax = compiler.get_compile_options


def compile_all_soon(is_soon: bool) -> None:
    """Compile what JAX compiles by itself, too, as `compiled_soon` does, or not; nightly never."""
    wanted = _soon_options if is_soon and not NIGHTLY and soon() else _options_of_jax
    if compiler.get_compile_options is not wanted:
        jax.clear_caches()
        compiler.get_compile_options = wanted


def _soon_options(*given: Any, **named: Any) -> Any:
    options = {**(soon() or {}), **(named.get("env_options_overrides") or {})}
    return _options_of_jax(*given, **{**named, "env_options_overrides": options})


@contextlib.contextmanager
def of_platform(platform: str | None) -> Iterator[None]:
    """Lower to the forms of a platform ("cuda") on this one; None is the plain form."""
    patched = [
        mock.patch.object(module, "platform_of", lambda _: platform)
        for module in (platform_forms, primitive)
    ]
    with nothing_traced(), patched[0], patched[1]:
        yield


@contextlib.contextmanager
def by_branches_of(platform: str) -> Iterator[None]:
    """Trace the branch of a platform ("cuda") wherever `jax.lax.platform_dependent` has one."""

    def chosen(*arrays: Any, default: Any, **branches: Any) -> Any:
        return branches.get(platform, default)(*arrays)

    with nothing_traced(), mock.patch.object(jax.lax, "platform_dependent", chosen):
        yield


@contextlib.contextmanager
def of_few_elements() -> Iterator[None]:
    """Take the forms for many elements with few: constants are small."""
    with contextlib.ExitStack() as stack:
        for module in (reductions, gpu):
            stack.enter_context(mock.patch.object(module, "LITTLE", 0))
        small: dict[str, Any] = {"FEWEST": 3, "FUSED": 5, "STORED": 6, "UNROLLED": 4, "PIECE": 24}
        stack.enter_context(mock.patch.multiple(cpu, **small))
        small = {"AT_ONCE": 4, "PIECES": 3, "MANY": 50, "THREADS": 8}
        stack.enter_context(mock.patch.multiple(gpu, **small))
        stack.enter_context(nothing_traced())
        yield


@contextlib.contextmanager
def by_many_cores(count: int = 16) -> Iterator[None]:
    """Take the forms for a CPU of so many cores, of a few elements as of millions."""
    with (
        mock.patch.object(parallel_cpu, "cores", lambda: count),
        mock.patch.object(cpu, "cores", lambda: count),
        mock.patch.object(parallel_cpu, "MUCH", 0),
        nothing_traced(),
    ):
        yield


@contextlib.contextmanager
def nothing_traced() -> Iterator[None]:
    """JAX keeps what it traced, also derivatives; here and afterwards it has nothing."""
    jax.clear_caches()
    try:
        yield
    finally:
        jax.clear_caches()
