"""How a network runs: the choice of its form, its parameters and its programs."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from dml_jax.graph import Source
from dml_jax.graph.evaluation import sources_of
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


class Executable:
    """The one object of a network that changes.

    Args:
        planned_of: returns what becomes of the network by a choice.
        call: returns the results, a tree of arrays, of a plan, of its parameters and of inputs by
            name; a pure function.
        storage: where arrays and programs are.
        choice: the first choice.
        planned: what `planned_of` gives of it, where that is known already.
        precision: how products are computed, as `load_onnx` takes it.
        is_quick_first, seconds: as for `CompiledFunction`.

    Attributes:
        choice: the choice by which it runs.
    """

    def __init__(
        self,
        planned_of: Callable[[Choice], Planned],
        call: Callable[[Plan, Sequence[Any], Arrays], Any],
        storage: Storage,
        choice: Choice,
        planned: Planned | None = None,
        *,
        precision: str | None = None,
        is_quick_first: bool = False,
        seconds: float = 0.0,
    ):
        self.choice, self._planned_of, self._call, self._storage = choice, planned_of, call, storage
        self._planned, self._precision = planned, precision
        self._is_quick_first, self._seconds = is_quick_first, seconds
        self._function: CompiledFunction | None = None
        # The weights by which parameters were made, and these: other weights make others.
        self._last: tuple[list[Any], Parameters] | None = None

    @property
    def planned(self) -> Planned:
        """Return what became of the network by the choice."""
        if self._planned is None:
            self._planned = self._planned_of(self.choice)
        return self._planned

    @property
    def seconds(self) -> float:
        """Return how long the quick compile took; 0 where there was none."""
        return self._seconds if self._function is None else self._function.seconds

    @property
    def function(self) -> CompiledFunction:
        """Return the function of parameters and of inputs by name, with its programs."""
        if self._function is None:
            plan = self.planned.plan

            def call(parameters: Parameters, inputs: Arrays) -> Any:
                return self._call(plan, parameters, inputs)

            self._function = self._made(
                *("call", call),
                options=self.planned.compiler_options,
                is_quick_first=self._is_quick_first,
                seconds=self._seconds,
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
            last = self._last = given, (*kept, *self._derived(weights))
        return last[1]

    def choose(self, choice: Choice) -> None:
        """Run by another choice from now on."""
        self.choice, self._planned = choice, None
        self._function = self._last = None

    def forget(self) -> None:
        """Drop the compiled programs; the next call compiles again."""
        if self._function is not None:
            self._function.forget()

    def _made(self, name: str, function: Callable[..., Any], **more: Any) -> CompiledFunction:
        name = f"{name} {sorted(self.planned.rewrites.items())}"
        cache, precision = self._storage.cache, self._precision
        return CompiledFunction(name, function, cache=cache, precision=precision, **more)

    def _derived(self, weights: Arrays) -> list[jax.Array]:
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
                with jax.ensure_compile_time_eval():  # a traced array must not be kept
                    found[source] = derived[keys[source]] = jax.device_put(array)
        missing = [source for source, array in found.items() if array is None]
        if missing:
            # One program for one set of arrays: another is missing where the store has some.
            function = self._made(
                f"prepare {missing}",
                lambda weights: graph.evaluated(sources_of(graph, weights), missing),
            )
            for source, array in zip(missing, function.compute_now(weights), strict=True):
                found[source] = derived[keys[source]] = array
        return [found[source] for source in graph.results]
