"""What the programs of a network hold: its weights, and what follows from weights alone.

The latter is computed once, by NumPy or by a program of its own, and is an argument of the others.
"""

import copy
import functools
import operator
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import ConstantNode, Graph, OperatorNode, Source
from dml_jax.graph.evaluation import sources_of
from dml_jax.lowering.precision import chosen
from dml_jax.runtime.host_evaluation import ByNumPy

Arrays = Mapping[str, Any]
Keep = Callable[[str, Any], Any]
"""Returns a jitted function whose programs are kept under a name, if they are kept at all."""

_UNPACKED = 4  # bytes of a FLOAT32 for an integer of 8 bits
_UNPACKED_MAX = 1 << 28  # bytes
_UNPACKING = ("CAST", "ELEMENT_WISE_DEQUANTIZE_LINEAR")
_PRODUCTS = ("GEMM", "CONVOLUTION")


def _sizes(node: Any) -> list[int]:
    """Return the bytes of each output of an operator; none of another node."""
    if getattr(node, "operator", None) is None:
        return []
    return [t.total_tensor_size_in_bytes for _, t in node.slots(output=True) if t]


def _is(node: Any, names: Collection[str]) -> bool:
    """Return whether a node is one of these operators."""
    operator = getattr(node, "operator", None)
    return operator is not None and operator.short_name in names


class Store:
    """Arrays that several networks of one file hold once: weights, and what follows from these."""

    def __init__(self) -> None:
        self._weights: dict[int, tuple[weakref.ref[np.ndarray], jax.Array]] = {}
        self.made: weakref.WeakValueDictionary[Hashable, jax.Array] = weakref.WeakValueDictionary()

    def weights(self, arrays: Sequence[np.ndarray]) -> list[jax.Array]:
        """Return arrays on the device; the same array is there once."""
        missing = [array for array in arrays if not self._has(array)]
        for array, held in zip(missing, jax.device_put(missing), strict=True):
            self._weights[id(array)] = weakref.ref(array), held
        return [self._weights[id(array)][1] for array in arrays]

    def _has(self, array: np.ndarray) -> bool:
        """Return whether an array is on the device; another one may have had its identity."""
        return id(array) in self._weights and self._weights[id(array)][0]() is array

    def clear(self) -> None:
        """Forget all arrays on the device, which stay where networks hold them."""
        self._weights.clear()
        self.made.clear()


@dataclass
class Making:
    """The nodes of a graph that make some arrays of weights; all else is that of `whole()`."""

    plan: Sequence[Any]
    named_inputs: Sequence[Any]
    views: Mapping[Any, Any]
    whole: "Callable[[], Graph] | None" = None

    @classmethod
    def of(cls, graph: Graph, made: Sequence[Source], weights: Collection[str]) -> "Making":
        """Return the nodes that make some sources of weights."""
        nodes = {node for node, _ in made}
        for index, _, sources in reversed(graph.plan):
            nodes |= {node for node, _ in sources} if index in nodes else set()
        plan = [entry for entry in graph.plan if entry[0] in nodes]
        inputs = [entry for entry in graph.named_inputs if entry[1] in weights]
        return cls(plan, inputs, {key: v for key, v in graph.views.items() if key[0] in nodes})

    def __getattr__(self, name: str) -> Any:
        if self.whole is None or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.whole(), name)


@dataclass(frozen=True)
class _Apart:
    """A jitted function, whose results are no tracers where JAX traces the caller.

    JAX would compile a program for each operation of constants alone, if it evaluated these while
    it traces the function.
    """

    jitted: Any

    def lower(self, *arguments: Any) -> jax.stages.Lowered:
        """Return the program, before XLA compiles it."""
        return self.jitted.lower(*arguments)

    def __call__(self, *arguments: Any) -> Any:
        with jax.disable_jit(False):  # JAX calls no compiled program else
            return self.lower(*arguments).compile()(*arguments)


class Prepared:
    """The split of a graph into what follows from weights alone, and what calls compute.

    Args:
        graph: the graph, whose inputs are the network's and its weights.
        weights: the names of the weights.
        precision: how products are computed, as `load_onnx` takes it.
        growth: how many times as large as what it follows from an array may be that is prepared;
            None prepares nothing.

    Attributes:
        names: the weights that calls read as they are.
        sources: the outputs of nodes that follow from weights alone, and that calls read; of equal
            ones the first.
    """

    def __init__(
        self, graph: Graph, weights: Collection[str], precision: str | None, growth: float | None
    ):
        self._graph: Any = graph
        self._precision = precision
        self._last: tuple[list[jax.Array], tuple[jax.Array, ...]] | None = None
        names = graph.input_names or ()
        self.names = [name for name in names if name in weights]
        self._first: dict[Source, Source] = {}  # of the sources with the same array
        if growth is not None:
            kept = self._followed(weights, growth)
            self.names = [names[index] for node, index in kept if node < 0]
            made, keys = dict[Hashable, Source](), self._keys({name: name for name in weights})
            for source in (source for source in kept if source[0] >= 0):
                self._first[source] = made.setdefault(keys[source], source)
        self.sources = [*dict.fromkeys(self._first.values())]

    def of_weights(self, weights: Collection[str]) -> "Prepared":
        """Return the split with only those nodes of its graph that make arrays of weights."""
        other = copy.copy(self)
        other._last, other._graph = None, Making.of(self._graph, self.sources, weights)
        vars(other).pop("jitted", None)
        return other

    def within(self, whole: Callable[[], Graph]) -> "Prepared":
        """Return what `of_weights` made, with the graph that it was made of."""
        self._graph.whole = whole
        return self

    @functools.cached_property
    def jitted(self) -> Any:
        """Return the compiled function of weights by name that gives the arrays of `sources`."""
        return jax.jit(lambda weights: self._computed(weights, self.sources))

    def _followed(self, weights: Collection[str], growth: float) -> list[Source]:
        """Return the sources that follow from weights alone, and that calls read."""
        graph = self._graph
        fixed = {  # the bytes of each source that follows from weights and constants
            source: edge.total_tensor_size_in_bytes
            for source, name, edge in graph.named_inputs
            if name in weights
        }
        used, unpacked = [*graph.results], self._unpacked(weights)
        for index, node, sources in graph.plan:
            sizes = _sizes(node)
            most = max((fixed.get(source, 0) for source in sources), default=0)
            most *= _UNPACKED if index in unpacked else growth
            if isinstance(node, ConstantNode):
                fixed[index, 0] = node.array.nbytes
            elif sizes and max(sizes) <= most and all(source in fixed for source in sources):
                fixed |= {(index, place): size for place, size in enumerate(sizes)}
            else:
                used += sources
        constants = {index for index, node, _ in graph.plan if isinstance(node, ConstantNode)}
        kept = (source for source in used if fixed.get(source) and source[0] not in constants)
        return [*dict.fromkeys(kept)]

    def _unpacked(self, weights: Collection[str]) -> set[int]:
        """Return the nodes that make floats of integer weights which products alone read.

        There are none where all these floats take more than `_UNPACKED_MAX` bytes.
        """
        graph, readers = self._graph, dict[int, list[int]]()
        fixed = {source for source, name, _ in graph.named_inputs if name in weights}
        for index, node, sources in graph.plan:
            for source in sources:
                readers.setdefault(source[0], []).append(index)
            is_constant = isinstance(node, ConstantNode)
            if is_constant or (_sizes(node) and fixed.issuperset(sources)):
                fixed |= {(index, place) for place in range(max(1, len(_sizes(node))))}
        leads, ends, found = set[int](), {node for node, _ in graph.results}, dict[int, int]()
        for index, node, _ in reversed(graph.plan):
            if (index, 0) not in fixed or index in ends:
                continue
            if all(k in leads or _is(graph.nodes[k], _PRODUCTS) for k in readers[index]):
                leads.add(index)
                if _is(node, _UNPACKING):
                    found[index] = max(_sizes(node))
        return set(found) if sum(found.values()) <= _UNPACKED_MAX else set()

    @property
    def tensors(self) -> list[TensorDesc]:
        """Return the tensors of `sources`."""
        nodes = self._graph.nodes
        outputs = [[t for _, t in node.slots(output=True) if t] for node in nodes]
        return [outputs[node][place] for node, place in self.sources]

    def _computed(self, weights: Arrays, wanted: Sequence[Source]) -> list[jax.Array]:
        with chosen(self._precision):
            return self._graph.evaluated(sources_of(self._graph, weights), wanted)

    def of(self, weights: Arrays) -> Sequence[Any]:
        """Return the arrays that calls hold, of weights by name; a pure function."""
        made = self.jitted(weights) if self.sources else ()
        return (*(weights[name] for name in self.names), *made)

    def known(self, made: Sequence[Any]) -> dict[Source, Any]:
        """Return the array of each source that calls read, of the arrays of `sources`."""
        arrays = dict(zip(self.sources, made, strict=True))
        return {source: arrays[first] for source, first in self._first.items()}

    def held(self, weights: Mapping[str, jax.Array], store: Store, keep: Keep) -> Sequence[Any]:
        """Return what `of` returns; it is computed once, and again for other weights.

        Args:
            weights: the weights by name.
            store: what other networks made of the same weights, which is shared.
            keep: keeps the program.
        """
        given = [*weights.values()]
        if self._last is None or any(map(operator.is_not, self._last[0], given)):
            made = self._shared(weights, store, keep)
            self._last = given, (*(weights[name] for name in self.names), *made)
        return self._last[1]

    def _shared(
        self, weights: Mapping[str, jax.Array], store: Store, keep: Keep
    ) -> list[jax.Array]:
        """Return the arrays of `sources`; only what `store` lacks is computed."""
        keys = self._keys({name: id(array) for name, array in weights.items()})
        made = store.made
        found = {source: made.get(keys[source]) for source in self.sources}
        by_numpy = ByNumPy(self._graph, weights)
        for source in (source for source in self.sources if found[source] is None):
            array = by_numpy(source)
            if array is not None:
                with jax.ensure_compile_time_eval():  # a traced array must not be kept
                    found[source] = made[keys[source]] = jax.device_put(array)
        missing = [source for source in self.sources if found[source] is None]
        # One program for one set of tensors: another is missing where the store has some of these.
        jitted = _Apart(jax.jit(lambda weights: self._computed(weights, missing)))
        results = keep(f"prepare {missing}", jitted)(weights) if missing else []
        for source, array in zip(missing, results, strict=True):
            found[source] = made[keys[source]] = array
        return [array for array in found.values() if array is not None]

    def _keys(self, weights: Mapping[str, Hashable]) -> dict[Source, Hashable]:
        """Return what makes each source that follows from weights: equal keys have equal arrays.

        `weights` has a key for each weight.
        """
        graph = self._graph
        keys: dict[Source, Hashable] = {
            source: weights[name] for source, name, _ in graph.named_inputs if name in weights
        }
        for index, node, sources in graph.plan:
            if isinstance(node, ConstantNode):
                keys[index, 0] = node.array.dtype.name, node.array.shape, node.array.tobytes()
            elif isinstance(node, OperatorNode) and all(source in keys for source in sources):
                views = tuple(graph.views.get((index, place)) for place in range(len(sources)))
                key = node.operator, views, tuple(keys[source] for source in sources)
                keys |= {(index, k): (k, key) for k in range(len(node.operator.outputs))}
            elif all(source in keys for source in sources):  # it is computed for each network
                count = sum(tensor is not None for _, tensor in node.slots(output=True))
                keys |= {(index, k): object() for k in range(count)}
        return keys
