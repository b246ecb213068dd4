"""Functions of arrays, each with one program for each set of types of its arguments.

This is the one place that compiles programs of networks, looks them up and drops them.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from dml_jax.lowering.precision import chosen
from dml_jax.runtime.compiler_options import are_refused, are_unknown, compiled_with
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.program_cache import ProgramCache

QUICK = {"xla_backend_optimization_level": 0}
# Of the seconds of the quick compile, spent in calls, after which the optimized program pays: a
# size that comes once or twice is answered soonest by the quick one alone.
_PART = 0.1


class CompiledFunction:
    """A pure function of arrays, and its programs.

    There are three ways to a program. Where JAX traces the caller, or where arrays lie on several
    devices, the function is a part of the caller's program, without options of XLA. Without a cache
    and without quick programs `jax.jit` looks programs up: it has the quickest call. Else they are
    looked up here, by the types of the arguments.

    Args:
        name: tells the functions of one cache apart.
        function: the function of `fixed`, a tree of arrays that stay, and of the arguments of a
            call, trees of arrays.
        options: XLA's options for programs that are no part of another one.
        donate: the places of arguments whose memory the results may take over; `fixed` is 0.
        cache: where programs are kept for other processes; None keeps none.
        is_quick_first: whether a CPU's first calls have a program that was compiled quickly. Once
            its calls have taken a part of that time, a thread compiles the optimized program, whose
            last digits may be others.
        precision: how products are computed, as `load_onnx` takes it.
        seconds: how long the quick compile took, where an earlier process did it; else 0.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        options: Mapping[str, Any] = {},
        donate: Sequence[int] = (),
        cache: ProgramCache | None = None,
        is_quick_first: bool = False,
        precision: str | None = None,
        seconds: float = 0.0,
    ):
        self._name, self._options, self._precision = name, dict(options), precision
        self._cache, self._is_quick_first, self.seconds = cache, is_quick_first, seconds
        jitted = partial(jax.jit, function, donate_argnums=tuple(donate))
        self._plain: Any = jitted()
        self._alone: Any = jitted(compiler_options=self._options) if options else self._plain
        self._takes_options = bool(options)
        # By the types of arguments. A program of `jax.jit` cannot be read from a file, and the
        # quick program is not the one that `jax.jit` would compile.
        self._programs: dict[Any, Callable[..., Any]] = {}
        self._lock = threading.Lock()  # one thread compiles a program, the others wait for it
        self._fixed: tuple[Any, Any] = (None, None)  # the last `fixed`, and what `_kind_of` says

    def __call__(self, fixed: Any, *arguments: Any) -> Any:
        """Return what the function returns."""
        with chosen(self._precision):  # what is chosen while JAX lowers a program follows it too
            types = self._types(fixed, arguments) if self._looks_up else None
            if types is not None:
                return self._program(types, fixed, arguments)(fixed, *arguments)
            leaves = jax.tree.leaves(arguments) if self._takes_options else ()
            if leaves and not any(isinstance(x, Tracer) for x in leaves):
                try:
                    return self._alone(fixed, *arguments)
                except (ValueError, RuntimeError) as error:
                    if not are_refused(error):
                        raise
                    if are_unknown(error):  # else each call would lower the function in vain
                        self._takes_options = False
            return self._plain(fixed, *arguments)

    def program(self, fixed: Any, *arguments: Any) -> Callable[..., Any]:
        """Return what computes `fixed` and arguments of these types, and looks nothing up.

        It is for a caller who calls with these types alone: to look at the types of a hundred small
        arrays takes as long as a small program.
        """
        with chosen(self._precision):
            types = self._types(fixed, arguments) if self._looks_up else None
            return self if types is None else self._program(types, fixed, arguments)

    def alone(self, fixed: Any, *arguments: Any) -> Any:
        """Return what a call returns. Raises `RuntimeError` where XLA does not know an option."""
        with chosen(self._precision):
            return self._alone(fixed, *arguments)

    def compute_now(self, fixed: Any) -> Any:
        """Return what the function returns of `fixed` alone, as arrays.

        They are no tracers, even where JAX traces the caller: it would compile a program for each
        operation of constants alone, if it evaluated these while it traces.
        """
        with chosen(self._precision), jax.disable_jit(False):  # JAX calls no compiled program else
            types = self._types(fixed, ()) if self._cache is not None else None
            if types is not None:
                return self._program(types, fixed, ())(fixed)
            return self._plain.lower(fixed).compile()(fixed)

    def lower(self, fixed: Any, *arguments: Any) -> jax.stages.Lowered:
        """Return the program for arguments, before XLA compiles it."""
        with chosen(self._precision):
            return self._alone.lower(fixed, *arguments)

    def forget(self) -> None:
        """Drop the compiled programs; the next call compiles again."""
        with self._lock:
            self._programs.clear()
        for jitted in (self._plain, self._alone):
            jitted.clear_cache()

    @property
    def is_optimized(self) -> bool:
        """Return whether all programs are optimized ones, so that none is to be replaced."""
        tiers = (p for p in self._programs.values() if isinstance(p, _Tiers))
        return all(program.is_optimized for program in tiers)

    @property
    def _looks_up(self) -> bool:
        return self._cache is not None or (self._is_quick_first and platform() == "cpu")

    def _types(self, fixed: Any, arguments: Sequence[Any]) -> Any:
        """Return what tells programs apart; None where `jax.jit` has to look at the arrays."""
        config: Any = jax.config
        # Under these settings JAX evaluates a function step by step, which no compiled program
        # does.
        if config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs:
            return None
        last, held = self._fixed
        if last is not fixed:  # there may be hundreds of them, which stay from call to call
            held = _kind_of(jax.tree.leaves(fixed))
            self._fixed = fixed, held
        given = _kind_of(jax.tree.leaves(arguments))
        if held is None or given is None or len(held[0] | given[0]) > 1:
            return None
        device = next(iter(held[0] | given[0]), None) or default_device()
        if device is None:
            return None
        settings = config.jax_enable_x64, config.jax_default_matmul_precision
        return device, settings, jax.tree.structure(arguments), held[1], given[1]

    def _program(self, types: Any, fixed: Any, arguments: Sequence[Any]) -> Callable[..., Any]:
        program = self._programs.get(types)
        if program is None:
            with self._lock:
                program = self._programs.get(types)
                if program is None:
                    program = self._compile(types[0], fixed, *arguments)
                    self._programs[types] = program
        return program

    def _compile(self, device: Any, *arguments: Any) -> Callable[..., Any]:
        """Return the first program for arguments: a quick one, where these come first."""
        lowered: Any = None if self._cache is not None else self._plain.lower(*arguments)

        def later(options: Mapping[str, Any], arguments: Sequence[Any]) -> Callable[[], Any]:
            if lowered is None:
                return self._cache.later(*names, *arguments, own=options)  # pyright: ignore
            return lambda: lowered.compile(dict(options) or None)

        names, optimized = (self._name, self._plain, device), self._options
        if self._is_quick_first and platform() == "cpu":
            start = time.perf_counter()
            try:
                quick = later({**self._options, **QUICK}, arguments)()
            except (ValueError, RuntimeError) as error:
                if not are_refused(error):
                    raise
                quick = None
            if quick is not None:
                self.seconds = self.seconds or time.perf_counter() - start
                return _Tiers(quick, partial(later, optimized), _PART * self.seconds)
        if self._cache is not None:
            return self._cache.compiled(*names, *arguments, own=optimized)
        return compiled_with(lowered, optimized)


class _Tiers:
    """A quick program, until a thread has compiled the optimized one.

    Args:
        quick: the quick program.
        later: lowers the function for arguments, and returns what compiles the optimized program.
        seconds: how long calls of the quick program may take together before that.
    """

    def __init__(
        self,
        quick: Callable[..., Any],
        later: Callable[[Sequence[Any]], Callable[[], Any]],
        seconds: float,
    ) -> None:
        self._program, self._seconds = quick, seconds
        self._later: Callable[[Sequence[Any]], Callable[[], Any]] | None = later
        self._lock = threading.Lock()  # of two threads that call at once, one starts the compile
        self.is_optimized = False

    def __call__(self, *arguments: Any) -> Any:
        if self._later is None:
            return self._program(*arguments)
        # A call returns before XLA has computed: the time until the results are there is what
        # counts.
        start = time.perf_counter()
        results = jax.block_until_ready(self._program(*arguments))
        with self._lock:
            self._seconds -= time.perf_counter() - start
            later = self._later
            if self._seconds > 0 or later is None:
                return results
            self._later = None
        # JAX's settings are those of the thread that calls: the function is lowered in it.
        optimized = later(arguments)

        def adopt() -> None:
            try:
                self._program = optimized() or self._program
            finally:
                self.is_optimized = True  # or the quick program stays for good

        _BACKGROUND.add(adopt)
        return results


class _BackgroundCompiler:
    """A thread that compiles one program after the other.

    It ends where nothing is left to do. The end of Python waits for one program alone.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  # over the queue, and over whether a thread reads it
        self._thread: threading.Thread | None = None

    def add(self, work: Callable[[], None]) -> None:
        """Let the thread do something, after what it was given before."""
        with self._lock:
            self._waiting.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dml_jax compiles")
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                # The thread ends with the queue: an idle one would keep Python from ending, and a
                # daemon thread within XLA may crash a process that ends.
                if not self._waiting or not threading.main_thread().is_alive():
                    self._thread = None
                    return
                work = self._waiting.popleft()
            try:
                work()
            except RuntimeError:  # XLA's: the program that is there stays
                continue


_BACKGROUND = _BackgroundCompiler()


def _kind_of(arrays: Sequence[Any]) -> tuple[set[Any], tuple[Any, ...]] | None:
    """Return the devices and the types of arrays; None where `jax.jit` has to look at them."""
    places = set[Any]()
    for array in arrays:
        if isinstance(array, Tracer) or not isinstance(array, (jax.Array, np.ndarray)):
            return None
        if isinstance(array, jax.Array):
            if len(array.sharding.device_set) != 1:
                return None
            # An array without a fixed place goes where the others are, as in a call of `jax.jit`.
            if array.committed:
                places |= array.sharding.device_set
    return places, tuple((array.shape, array.dtype) for array in arrays)
