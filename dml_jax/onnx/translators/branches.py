"""If: one branch where the condition is known at load, else both in a function of the graph."""

from collections import ChainMap
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.errors import DmlError, Fault, Sentence, Unquoted
from dml_jax.graph import Graph
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes.graph_context import GraphContext, Results, Site
from dml_jax.onnx.nodes.node import refused
from dml_jax.onnx.nodes.number_limits import worst
from dml_jax.onnx.nodes.op_types import inlines
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.translators.subgraphs import (
    BRANCHES,
    REASON,
    axes_and_origins,
    expect_counts,
    expect_single,
    single_element,
    subgraph_of,
    type_text,
)


@inlines("If")
def branch(site: Site) -> Results:
    """Translate an If: one branch where its condition is known at load, else both."""
    translation, condition = site.translation, site.get(0)
    if condition is None:
        raise refused("cond", "be given", Unquoted("nothing"))
    expect_single("cond", condition.type, "BOOL")
    known = single_element(condition)
    if known is not None:
        body, own = site.graph(BRANCHES[0 if known else 1]), ChainMap({}, site.scope)
        translation.initializers(body, own)
        return site.inlined(body, own)
    try:
        bodies = [subgraph_of(site, name) for name in BRANCHES]
        kinds = _common_types(translation.is_inner, *(body.types for body in bodies))
    except DmlError as error:
        raise DmlError([*error.faults, *_cures(translation, condition)]) from None
    paddings = [tensor.count for tensor in bodies[0].results]
    cure = "both branches have to give it padded in one dimension, or cond to be known at load"
    expect_counts("else_branch", bodies[1].results, paddings, cure)
    tensors = [tensor for body in bodies for tensor in body.captured.values()]
    count = len(bodies[0].captured)

    def of(place: int, graph: Graph, captured: Any) -> list[Any]:  # the counts stay as they are
        sizes = [kind.shape or () for kind in kinds]
        *arrays, numbers = bodies[place].compute(graph, captured, ())
        own = [worst(np.zeros(0), body.limits) for body in bodies]
        own[place] = numbers
        return [*map(jnp.reshape, arrays, sizes), *arrays[len(sizes) :], jnp.concatenate(own)]

    def run(graphs: Sequence[Graph], arrays: Sequence[Any]) -> Sequence[Any]:
        chosen, *captured = arrays
        of_each = zip((0, 1), graphs, (captured[:count], captured[count:]), strict=True)
        return lax.cond(chosen.reshape(()), *(partial(of, *each) for each in of_each))

    limits = [*bodies[0].limits, *bodies[1].limits]
    graphs = [body.graph for body in bodies]
    inputs, places = [condition, *tensors], iter(range(1, len(tensors) + 1))
    captured = [{name: next(places) for name in body.captured} for body in bodies]
    return translation.function(
        site.proto, REASON, inputs, kinds, run, graphs, axes_and_origins(paddings), captured, limits
    )


def _common_types(is_inner: bool, one: Sequence[Type], other: Sequence[Type]) -> list[Type]:
    """Return the types of what two branches give. Raises `DmlError` where they differ.

    Within a graph of a node, one element may have another rank in each branch. It has the larger.
    """
    pairs = [*zip(one, other, strict=False)]
    if len(one) != len(other) or not all(
        a == b
        or (is_inner and a.element == b.element and {*(a.shape or ()), *(b.shape or ())} <= {1})
        for a, b in pairs
    ):
        rule = "give what then_branch gives, in types and sizes (or cond to be known at load)"
        shown = [[type_text(kind) for kind in kinds] for kinds in (other, one)]
        raise refused("else_branch", rule, Unquoted("{} and {}".format(*shown)))
    return [max(a, b, key=lambda t: len(t.shape or ())) for a, b in pairs]


def _cures(translation: GraphContext, condition: Tensor) -> list[Fault]:
    """Return how `condition` becomes known at load, where it follows from inputs of the model."""
    names, left = set[str](), [condition]
    while left:
        tensor = left.pop()
        if not tensor.is_known and tensor.made_by is None:
            names.add(tensor.name)
        elif not tensor.is_known:
            left += [t for t in tensor.made_by.inputs if isinstance(t, Tensor)]
    if not names or not names <= translation.asked:
        return []
    shown = ", ".join(f"'{name}': ..." for name in sorted(names))
    text = "one branch is enough where cond is known at load: "
    options = " ".join(f"--constant {name}:VALUE" for name in sorted(names))
    text += f"load_onnx(..., constants={{{shown}}}) or {options}"
    return [Fault("", "cond", Sentence(text), Unquoted("a computed tensor"))]
