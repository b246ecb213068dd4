"""Graphs within nodes as graphs that a function of the graph around them runs, and If."""

from collections import ChainMap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dml_jax.errors import DmlError, Unquoted
from dml_jax.graph import Graph
from dml_jax.onnx.files.topology import read_by_graph
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.nodes.graph_context import Results, Site
from dml_jax.onnx.nodes.node import expect, refused
from dml_jax.onnx.nodes.number_limits import Limit, worst
from dml_jax.onnx.nodes.op_types import inlines
from dml_jax.onnx.nodes.tensor import Count, Tensor
from dml_jax.onnx.nodes.values import computed

REASON = "it is decided while the program runs"
BRANCHES = ("then_branch", "else_branch")


@dataclass
class Subgraph:
    """A graph within a node, translated.

    Attributes:
        graph: computes the outputs.
        names: the name of each input of the node's graph.
        captured: tensors of the graph around it, by their names among the graph's inputs.
        results: the outputs; the graph gives the counts of those that are padded behind them.
        limits: the limits of numbers that the graph gives at last, if there are any.
    """

    graph: Graph
    names: list[str]
    captured: dict[str, Tensor]
    results: list[Tensor]
    limits: Sequence[Limit]

    @property
    def types(self) -> list[Type]:
        """Return the types of the outputs."""
        return [tensor.type for tensor in self.results]

    def compute(
        self, graph: Graph, captured: Iterable[Any], inputs: Iterable[Any]
    ) -> list[jax.Array]:
        """Return the outputs in ONNX's types, then the counts, and the numbers of `limits`.

        `graph` is the graph, or what became of it; `inputs` end with the counts of padded ones.
        """
        values = dict(zip(self.names, inputs, strict=True))
        values |= zip(self.captured, captured, strict=True)
        results, kinds = computed(graph, values, self.types), [*self.types]
        kinds += [COUNT] * (len(results) - len(kinds))
        made = [x.astype(kind.array_dtype) for x, kind in zip(results, kinds, strict=True)]
        return made if self.limits else [*made, worst(np.zeros(0), ())]


def subgraph_of(
    site: Site,
    name: str,
    inputs: Sequence[np.ndarray | tuple[Any, ...]] = (),
    paddings: Sequence[Count | None] = (),
) -> Subgraph:
    """Return the graph that is the attribute `name` of a node.

    An input is elements, or a tuple of its type and, if these are known, its bounds. `paddings` are
    those of the last inputs, None for a whole one. Raises `DmlError` where a part cannot be had.
    """
    graph, inner = site.graph(name), site.translation.inner()
    inner.is_branch = name in BRANCHES
    expect(len(graph.input) == len(inputs), name, f"have {len(inputs)} inputs", len(graph.input))
    tensors: dict[str, Tensor | None] = {}
    for value, given in zip(graph.input, inputs, strict=True):
        if isinstance(given, np.ndarray):
            tensors[value.name] = inner.constant(value.name, given)
        else:
            tensors[value.name] = inner.input(value.name, *given)
    names = [*tensors]
    last = graph.input[len(inputs) - len(paddings) :]
    for value, padding in zip(last, paddings, strict=True):
        state = tensors[value.name]
        if padding is not None and state is not None:
            name_of_count = f"{value.name}.count"
            while name_of_count in names:
                name_of_count += "'"
            count = inner.input(name_of_count, COUNT, (0, 2**31 - 1))
            state.count = replace(padding, number=count)
            inner.padded.append(state)
            names.append(name_of_count)
    own = {*tensors, *(t.name for t in graph.initializer)}
    for read in dict.fromkeys(read_by_graph(graph)):
        if read in site.scope and read not in own:
            tensor = site.scope[read]
            tensors[read] = None if tensor is None else inner.captured(tensor)
    inner.initializers(graph, tensors)
    results = inner.graph(graph, tensors, [o.name for o in graph.output], site.opsets)
    pairs = zip(graph.output, results, strict=True)
    missing = [o.name for o, t in pairs if not isinstance(t, Tensor)]
    if inner.faults:
        raise DmlError(inner.faults).within(name)
    expect(not missing, name, "have outputs that are tensors", missing)
    made_of = [tensor for tensor in results if isinstance(tensor, Tensor)]
    try:
        _, made = inner.build([(tensor.name, tensor) for tensor in made_of])
    except DmlError as error:
        raise error.within(name) from None
    captured = {n: t for n, t in inner.around.items() if n in set(made.input_names or ())}
    return Subgraph(made, names, captured, made_of, inner.every_limit)


def expect_counts(
    field: str, tensors: Sequence[Tensor], wanted: Sequence[Count | None], cure: str
) -> None:
    """Expect that outputs of a graph are padded as `wanted` says, None for one that is not.

    Raises `DmlError`, which ends with the cure.
    """
    for tensor, other in zip(tensors, wanted, strict=True):
        own = tensor.count
        if (own and own.axis) == (other and other.axis):
            continue
        known = own or other
        assert known is not None
        rule = f"give '{tensor.name}' with a size that is known at load: {known.origin} decides "
        rule += f"that of dimension {known.axis} while the network runs ({cure})"
        raise refused(field, rule, Unquoted("a padded tensor" if own else "a whole tensor"))


def axes_and_origins(paddings: Sequence[Count | None]) -> list[tuple[int, str] | None]:
    """Return how outputs are padded, as `GraphContext.function` takes it."""
    return [None if padding is None else (padding.axis, padding.origin) for padding in paddings]


def expect_single(field: str, kind: Type, name: str) -> None:
    """Raise `DmlError` unless a tensor has one element of the type `name`."""
    if kind.name != name or kind.element_count != 1:
        raise refused(field, f"be one element of {name}", Unquoted(type_text(kind)))


def single_element(tensor: Tensor | None) -> Any:
    """Return the only element of a tensor that is known at load; None for another one."""
    if not isinstance(tensor, Tensor) or not tensor.is_known:
        return None
    return tensor.array.reshape(-1)[0].item() if tensor.array.size == 1 else None


def type_text(kind: Type) -> str:
    return f"{kind.name}{list(kind.shape or ())}"


def expect_same_types(
    word: str, after: Sequence[Type], kinds: Sequence[Type], cure: str = ""
) -> None:
    """Raise `DmlError`, which ends with the cure, where the state has other types after a turn."""
    for k, (made, kind) in enumerate(zip(after, kinds, strict=False)):
        if made != kind:
            rule = f"keep {word} {k} as {type_text(kind)}{cure}"
            raise refused("body", rule, Unquoted(type_text(made)))


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
    except DmlError:
        translation.blame([condition])  # one branch is enough where it is known at load
        raise
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
    padded, made = axes_and_origins(paddings), partial(translation.function, site.proto, REASON)
    return made(inputs, kinds, run, graphs, padded, captured, limits)


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
