"""How a network runs: the choice of its form, its parameters and its programs."""

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from dml_jax.graph import Source
from dml_jax.graph.graph import sources_of
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.runtime.host_evaluation import HostEvaluation
from dml_jax.runtime.plan import Arrays, Parameters, Plan, keys_of
from dml_jax.runtime.weight_store import Storage
from dml_jax.system.processor import check_process


@dataclass(frozen=True)
class Choice:
    """What a measurement may choose for a network.

    Attributes:
        layout: how arrays lie, as `load_onnx` takes it; None is what suits the platform.
        compiler_options: XLA's options; None is the rule's.
        is_tuned: whether a measurement on this machine chose.
    """

    layout: str | None = None
    compiler_options: Mapping[str, Any] | None = None
    is_tuned: bool = False


@dataclass(frozen=True, eq=False)
class Planned:
    """What becomes of a network by a choice.

    Attributes:
        plan: the plan of the rewritten graph.
        rewrites: how many nodes each rewrite replaced, by its name.
        compiler_options: XLA's options for its programs.
    """

    plan: Plan
    rewrites: Mapping[str, int]
    compiler_options: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Start:
    """What is known of how a network runs before it runs.

    Attributes:
        choice: the choice.
        planned: what becomes of the network by it; None where that is still to be found.
        seconds: how long the quick compile of an earlier process took; 0 where there was none.
    """

    choice: Choice
    planned: Planned | None = None
    seconds: float = 0.0


class Executable:
    """The one object of a network that changes.

    Args:
        plan_by: returns what becomes of the network by a choice.
        call: returns the results, a tree of arrays, of a plan, of its parameters and of inputs by
            name; a pure function.
        storage: where arrays and programs are.
        start: what is known already.
        precision: how products are computed, as `load_onnx` takes it.
        is_quick_first: as for `CompiledFunction`.

    Attributes:
        choice: the choice by which it runs.
    """

    def __init__(
        self,
        plan_by: Callable[[Choice], Planned],
        call: Callable[[Plan, Sequence[Any], Arrays], Any],
        storage: Storage,
        start: Start,
        *,
        precision: str | None = None,
        is_quick_first: bool = False,
    ):
        self.choice, self.plan_by, self._call, self._storage = start.choice, plan_by, call, storage
        self._planned, self._seconds = start.planned, start.seconds
        self._precision, self._is_quick_first = precision, is_quick_first
        self._function: CompiledFunction | None = None
        # The weights by which parameters were computed, and these: other weights make others. They
        # are compared by identity, since a comparison of elements would wait for the device.
        self._last: tuple[list[Any], Parameters] | None = None
        # Threads that make the first call together: one plans, the others wait for it.
        self._lock = threading.RLock()

    @property
    def planned(self) -> Planned:
        """Return what becomes of the network by the choice."""
        with self._lock:
            if self._planned is None:
                self._planned = self.plan_by(self.choice)
            return self._planned

    @property
    def start(self) -> Start:
        """Return what another executable of the network, or another process, can start by."""
        seconds = self._seconds if self._function is None else self._function.seconds
        return Start(self.choice, self.planned, seconds)

    @property
    def function(self) -> CompiledFunction:
        """Return the function of parameters and of inputs by name, with its programs."""
        with self._lock:
            if self._function is None:
                plan, options = self.planned.plan, self.planned.compiler_options
                call, is_quick_first = partial(self._call, plan), self._is_quick_first
                self._function = self._compiled_function(
                    *("call", call), options=options, is_quick_first=is_quick_first
                )
            return self._function

    def __call__(self, weights: Arrays, inputs: Arrays) -> Any:
        """Return the results, of weights and of inputs by name."""
        return self.function(self.parameters(weights), inputs)

    def lower(self, weights: Arrays, inputs: Arrays) -> jax.stages.Lowered:
        """Return the program of a call, before XLA compiles it."""
        return self.function.lower(self.parameters(weights), inputs)

    def parameters(self, weights: Mapping[str, Any]) -> Parameters:
        """Return the arrays that calls hold, of weights by name.

        They are computed once, and again where an array of `weights` is another one.
        """
        check_process()
        given = [*weights.values()]
        last = self._last
        if last is None or any(map(operator.is_not, last[0], given)):
            kept = (weights[name] for name in self.planned.plan.kept)
            last = self._last = given, (*kept, *self._derive(weights))
        return last[1]

    def choose(self, choice: Choice) -> None:
        """Run by another choice from now on."""
        with self._lock:
            self.choice, self._planned = choice, None
            self._function = self._last = None

    def forget(self) -> None:
        """Drop the compiled programs; the next call compiles again."""
        if self._function is not None:
            self._function.forget()

    def with_plan(self, planned: Planned) -> "Executable":
        """Return another executable of the network, in a form that `plan_by` gave or a like one."""
        start = Start(self.choice, planned)
        return Executable(
            *(self.plan_by, self._call, self._storage, start), precision=self._precision
        )

    def _compiled_function(
        self, name: str, function: Callable[..., Any], **more: Any
    ) -> CompiledFunction:
        # The counts of rewrites tell programs of one file in two layouts apart, in one cache.
        name = f"{name} {sorted(self.planned.rewrites.items())}"
        cache, precision, seconds = self._storage.cache, self._precision, self._seconds
        return CompiledFunction(
            *(name, function), cache=cache, precision=precision, seconds=seconds, **more
        )

    def _derive(self, weights: Arrays) -> list[jax.Array]:
        """Return the arrays that follow from weights; those that the store lacks are computed."""
        plan, derived = self.planned.plan, self._storage.store.derived
        graph = plan.prepare_graph
        if graph is None:
            return []
        weights = {name: weights[name] for name in graph.input_names or ()}
        keys = keys_of(graph, {name: id(array) for name, array in weights.items()})
        found: dict[Source, Any] = {source: derived.get(keys[source]) for source in graph.results}
        on_host = HostEvaluation(graph, weights)
        for source in (source for source, array in found.items() if array is None):
            array = on_host(source)
            if array is not None:
                # The first call may be inside of a caller's jax.jit. Arrays that stay must be
                # arrays.
                with jax.ensure_compile_time_eval():  # a traced array must not be kept
                    found[source] = derived[keys[source]] = jax.device_put(array)
        missing = [source for source, array in found.items() if array is None]
        if missing:
            # One program for one set of arrays: another is missing where the store has some.
            function = self._compiled_function(
                f"prepare {missing}",
                lambda weights: graph.evaluated(sources_of(graph, weights), missing),
            )
            for source, array in zip(missing, function.compute_now(weights), strict=True):
                found[source] = derived[keys[source]] = array
        return [found[source] for source in graph.results]
