"""What the nodes of a file become, and what of it another process needs to start."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from dml_jax.graph import Graph
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.signature import Signature
from dml_jax.rewrite import rewritten
from dml_jax.rewrite.branch_weights import hoist
from dml_jax.runtime.compiler_options import by_rule, by_rule_of_gpu
from dml_jax.runtime.executable import Choice, Planned, Start
from dml_jax.runtime.plan import Arrays, Plan
from dml_jax.runtime.platform import platform


@dataclass(frozen=True, eq=False)
class Translated:
    """What the nodes of a file become.

    Attributes:
        signature: the inputs and outputs.
        graph: the graph of the file. Its inputs are the network's and the weights that it reads.
        checked: the graph with one more output, the worst of the numbers that have limits.
        beyond: the nodes of types beyond DirectML, and why each is.
        weights: the arrays of the weights, by name; none where a network has them on its device.
    """

    signature: Signature
    graph: Graph
    checked: Graph
    beyond: Mapping[str, str]
    weights: Mapping[str, np.ndarray]


Translate = Callable[[], Translated]


def plan_by(
    translate: Translate, options: NetworkOptions, weights: Sequence[str], choice: Choice
) -> Planned:
    """Return what becomes of a network by a choice.

    Args:
        translate: returns what the nodes of the file become.
        options: how the network was loaded.
        weights: the names of the weights.
        choice: the layout and the compiler's options.
    """
    options, kind = replace(options, layout=choice.layout), platform()
    graph, counts = rewritten(translate().checked, options.rewrites_on(kind))
    # What the branches of an If compute of weights alone moves out of them first: the plan does not
    # look into functions.
    graph = hoist(graph) if options.prepare else graph
    plan = Plan.of(graph, weights, options.growth if options.prepare else None)
    # A rule by shapes, not a measurement: a load may not take seconds. `tune` measures.
    compiler_options = choice.compiler_options
    if compiler_options is None and kind == "gpu":
        compiler_options = by_rule_of_gpu(graph, options.precision)
    elif compiler_options is None:
        compiler_options = by_rule(graph) if kind == "cpu" else {}
    return Planned(plan, counts, compiler_options)


def call(
    signature: Signature, plan: Plan, parameters: Sequence[Any], inputs: Arrays
) -> dict[str, jax.Array]:
    """Return the results of a plan by name, of its parameters and of inputs; a pure function."""
    return signature.by_name(plan.call(parameters, signature.check(inputs)))


@dataclass(frozen=True)
class NetworkRecord:
    """What another process needs to start a network, beside the weights of the file.

    Attributes:
        signature: the inputs and outputs.
        weights: the names of the weights.
        start: how it runs; the plan's `call_graph` is missing.
    """

    signature: Signature
    weights: Sequence[str]
    start: Start

    def start_of(self, translate: Translate, options: NetworkOptions) -> Start:
        """Return how the network starts, whose nodes are translated where its graph is read."""
        planned, choice = self.start.planned, self.start.choice
        assert planned is not None

        # Programs of the cache are looked up by types alone, so that a start needs no graph. A
        # report, a gradient or a program that the cache lacks does, and then all of them share one.
        @functools.cache
        def call_graph() -> Graph:
            return plan_by(translate, options, self.weights, choice).plan.call_graph()

        plan = replace(planned.plan, call_graph=call_graph)
        return replace(self.start, planned=replace(planned, plan=plan))
