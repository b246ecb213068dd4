"""Programs: graphs of DirectML operators, and plain functions of arrays between these.

A function between graphs splits a network, as a node that a provider leaves to the CPU splits it in
ONNX Runtime. The parts run one after the other within one pure function of arrays.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax import functional as dml
from dml_jax.errors import DmlError, Fault
from dml_jax.graph import Expression, Graph, GraphBuilder
from dml_jax.graph.bfloat16 import BFLOAT16, held, is_narrow
from dml_jax.onnx.tensors import Tensor, Type, fitting

Values = Mapping[str, Any]
Function = Callable[[Values, Sequence[Any]], Sequence[Any]]


@dataclass
class Step:
    """A function of arrays between graphs.

    Attributes:
        label: how messages name its node.
        reason: why the node is no operator of DirectML.
        inputs: what the function takes; None for an input that is left out.
        outputs: the name and the type of each array that it returns.
        function: takes all values of the program by name, and the arrays of `inputs`.
        programs: the programs that the function runs: the bodies of a loop, say.
    """

    label: str
    reason: str
    inputs: Sequence[Tensor | None]
    outputs: Sequence[tuple[str, Type]]
    function: Function
    programs: Sequence["Program"] = field(default=())


@dataclass(frozen=True)
class _Place:
    """Where the array of a tensor is: in the values by a name, or known at load."""

    kind: Type
    name: str = ""
    array: np.ndarray | None = None

    def of(self, values: Values) -> jax.Array:
        """Return the array as ONNX has it; bfloat16 may stand for FLOAT."""
        return outer(values[self.name] if self.array is None else self.array, self.kind)


class Program:
    """Computes tensors from named values: inputs and weights.

    Args:
        builder: makes the graphs.
        names: the names of the builder's inputs among the values, in their order.
        unique: gives a name like another one that no value has.
        steps: the functions between graphs, each one after its sources.
        outputs: the tensors.
        faults: what cannot be had, which is raised once all expressions are made.

    Attributes:
        steps: the functions that the outputs depend on.
        reads: the names of the values that it reads.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        names: Sequence[str],
        unique: Callable[[str], str],
        steps: Iterable[Step],
        outputs: Iterable[Tensor],
        faults: Sequence[Fault] = (),
    ):
        self._builder, self._names, self._unique = builder, names, unique
        self._computed: dict[str, Expression] = {}
        self._named: dict[int, str] = {}  # by the identity of the expression
        self._outputs = [self._place(tensor, is_output=True) for tensor in outputs]
        if faults:  # outputs may be made of weights that are read here first
            raise DmlError(faults)
        needed = self._needed(self._outputs)
        made = {name: step for step in steps for name, _ in step.outputs}
        kept: list[tuple[Step, list[_Place | None]]] = []
        for step in reversed([*steps]):
            if any(name in needed for name, _ in step.outputs):
                places = [None if t is None else self._place(t) for t in step.inputs]
                kept.append((step, places))
                needed |= self._needed(p for p in places if p is not None)
                needed |= {name for program in step.programs for name in program.reads}
        kept.reverse()
        levels: dict[str, int] = {}  # the part of the program behind each step's outputs
        parts: list[list[tuple[Step, list[_Place | None]]]] = []
        for step, places in kept:
            read = self._needed(p for p in places if p is not None)
            level = max((levels.get(name, 0) for name in read), default=0)
            parts += [[] for _ in range(level + 1 - len(parts))]
            parts[level].append((step, places))
            levels |= {name: level + 1 for name, _ in step.outputs}
        self._parts, self.steps = [*parts, []], [step for step, _ in kept]
        outputs_of = [
            {p.name: self._computed[p.name] for p in places if p.name in self._computed}
            for places in (
                *([p for _, ps in part for p in ps if p is not None] for part in parts),
                self._outputs,
            )
        ]
        earlier: set[str] = set()  # an array that two parts read is computed once
        for part in outputs_of:
            for name in earlier & set(part):
                del part[name]
            earlier |= set(part)
        self._graphs = builder.build_parts(outputs_of)
        self.reads = needed - set(made) - set(self._computed)

    def _place(self, tensor: Tensor, is_output: bool = False) -> _Place:
        """Return where the array of a tensor is; the last resort is an operator."""
        if tensor.is_known and not tensor.is_weight:
            return _Place(tensor.type, array=fitting(tensor.name, tensor.array, tensor.type))
        if tensor.source:
            return _Place(tensor.type, tensor.source)
        x = tensor.expression
        if x.source[0] < 0:  # an input or a weight, as it is
            return _Place(tensor.type, self._names[x.source[1]])
        if id(x) not in self._named:
            self._named[id(x)] = name = self._unique(tensor.name)
            self._computed[name] = dml.identity(x) if is_output and not x.is_written else x
        return _Place(tensor.type, self._named[id(x)])

    def _needed(self, places: Iterable[_Place]) -> set[str]:
        """Return the names of the values that arrays are computed from."""
        found = set()
        for place in places:
            if place.name in self._computed:
                read = self._builder.read([self._computed[place.name]])
                found |= {self._names[index] for index in read}
            elif place.array is None:
                found.add(place.name)
        return found

    @property
    def graphs(self) -> Iterator[Graph]:
        """Yield the graphs, in their order, those within steps included."""
        for graph, part in zip(self._graphs, self._parts, strict=True):
            if graph is not None:
                yield graph
            for step, _ in part:
                for program in step.programs:
                    yield from program.graphs

    @property
    def all_steps(self) -> Iterator[Step]:
        """Yield the steps, in their order, those within steps included."""
        for step in self.steps:
            yield step
            for program in step.programs:
                yield from program.all_steps

    def compute(self, given: Values) -> list[jax.Array]:
        """Return the outputs as ONNX has them, of values by name."""
        values = dict(given)
        for graph, part in zip(self._graphs, self._parts, strict=True):
            if graph is not None:
                points = list(graph.bind_points())
                taken = [values[point.name] for point in points if not point.output]
                arrays = [
                    held(array, tensor).reshape(tensor.sizes)
                    for array, tensor in zip(taken, graph.inputs, strict=True)
                ]
                names = [p.name for p in points if p.output]
                values |= zip(names, graph.compute(*arrays), strict=True)
            for step, places in part:
                values |= _results(step, places, values)
        return [place.of(values) for place in self._outputs]


def _results(step: Step, places: Sequence[_Place | None], values: Values) -> dict[str, jax.Array]:
    """Return the results of a step by name; rounded where it reads bfloat16 as FLOAT."""
    arrays, is_rounded = list[Any](), False
    for place in places:
        array = None if place is None else place.of(values)
        if place is not None and array is not None and array.dtype != place.kind.array_dtype:
            array, is_rounded = array.astype(place.kind.array_dtype), True
        arrays.append(array)
    with jax.named_scope(step.label):
        results = step.function(values, arrays)
    found = {}
    for (name, kind), result in zip(step.outputs, results, strict=True):
        whole = outer(result, kind)
        is_float32 = is_rounded and kind.array_dtype == np.float32
        found[name] = whole.astype(BFLOAT16) if is_float32 else whole
    return found


def outer(array: Any, kind: Type) -> jax.Array:
    """Return an array as ONNX has it: of its shape, and bool where DirectML has UINT8.

    bfloat16 may stand for FLOAT.
    """
    array = jnp.asarray(array).reshape(kind.shape)
    dtype = kind.array_dtype
    is_kept = array.dtype == dtype or (is_narrow(array) and dtype == np.float32)
    return array if is_kept else array.astype(dtype)
