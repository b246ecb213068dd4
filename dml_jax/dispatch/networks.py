"""ONNX networks as functions that memory is bound to, and models of one network."""

import functools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.bindable import Bindable, BindPoint
from dml_jax.dispatch.resources import Resource
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Sentence, Unquoted
from dml_jax.tensor import X64_RULE, TensorDesc

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Overrides:
    """The sizes of free dimensions, and of whole inputs.

    Attributes:
        names: the sizes that stand for the names of free dimensions.
        denotations: the sizes of dimensions that ONNX denotes so ("DATA_BATCH").
        shapes: the sizes of inputs and outputs, by their names.
        constants: the values that inputs always have, by their names.
        is_shared: whether these are for several networks, each of which takes those that it knows.
        fallback: whether nodes that are no operators of DirectML are computed too.
    """

    names: Sizes = field(default_factory=dict)
    denotations: Sizes = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    is_shared: bool = False
    fallback: bool = False

    def known_to(self, path: Path) -> "Overrides":
        """Return those that the network in a file knows; all of them if these are for one."""
        if not self.is_shared:
            return self
        from dml_jax.onnx import sizes_of

        names, denotations, tensors = sizes_of(path)
        return Overrides(
            {name: size for name, size in self.names.items() if name in names},
            {name: size for name, size in self.denotations.items() if name in denotations},
            {name: sizes for name, sizes in self.shapes.items() if name in tensors},
            {name: value for name, value in self.constants.items() if name in tensors},
            fallback=self.fallback,
        )

    def over(self, names: Sizes, denotations: Sizes) -> "Overrides":
        """Return these sizes, and those of `names` and `denotations` that these leave out."""
        names, denotations = {**names, **self.names}, {**denotations, **self.denotations}
        return replace(self, names=names, denotations=denotations, is_shared=False)


AS_THE_MODEL_SAYS = Overrides()


class NetworkFunction(Bindable):
    """A network whose inputs, weights and outputs have names that memory is bound to.

    Args:
        network: the network.
        free: the name of each dimension of an input, None for one whose size is fixed.

    Raises `DmlError` if an input or output has a type that no memory holds.
    """

    c_name = "ONNX"

    def __init__(self, network: Any, free: Mapping[str, Sequence[str | None]] = {}):
        self.network, self.free = network, free
        self._points = list(_points_of(network))
        every = {**network.inputs, **network.output_types}
        self.without_memory = {name for name, kind in every.items() if kind.is_empty}

    @property
    def kind(self) -> str:
        """Return how tables and pictures name the network."""
        count = sum(len(graph.nodes) for graph in self.network.graphs)
        return f"network of {count} node{'s' * (count != 1)}"

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """Yield (name, name, tensor) of the inputs and weights, and of the outputs."""
        for point in self._points:
            if output is None or point.output == output:
                yield point.name, point.name, point.tensors[0]

    def bind_points(self) -> Iterator[BindPoint]:
        """Yield the inputs, the weights and the outputs."""
        yield from self._points

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses operators of the network."""
        graphs = self.network.graphs
        return tuple(fault for graph in graphs for fault in graph.refused_at(feature_level))

    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all of the operators."""
        return self.network.minimum_feature_level

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return the outputs in the order of the network."""
        names = [name for name, _, _ in self.tensors(output=False)]
        values = dict(zip(names, arrays, strict=True))
        inputs = {
            name: values[name].reshape(kind.shape)
            if name in values
            else jnp.zeros(kind.shape, kind.array_dtype)
            for name, kind in self.network.inputs.items()
        }
        weights = {
            name: values[_weight(name, self.network)].reshape(array.shape)
            for name, array in self.network.weights.items()
        }
        results = self.network.apply(weights, inputs)
        return [
            results[name].astype(tensor.dtype).reshape(tensor.sizes)
            for name, _, tensor in self.tensors(output=True)
        ]

    def describe(self) -> str:
        """Return the names, types and sizes of inputs and outputs, without weights.

        A free dimension stands with its name: `x FLOAT32[batch=8,2] -> y FLOAT32[8,2]`.
        """
        inputs = [self.shown(p) for p in self._points if p.name in self.network.inputs]
        outputs = [self.shown(p) for p in self._points if p.output]
        return f"{', '.join(inputs)} -> {', '.join(outputs)}"

    def shown(self, point: BindPoint) -> str:
        """Return the name, type and sizes of an input or an output."""
        (tensor,) = point.tensors
        names = self.free.get(point.name) or [None] * len(tensor.sizes)
        sizes = [
            str(size) if name is None else f"{name or '?'}={size}"
            for name, size in zip(names, tensor.sizes, strict=True)
        ]
        kind, _, rest = tensor.shown().partition("[")
        return f"{point.name} {kind}[{','.join(sizes)}{rest[rest.index(']') :]}"


def _points_of(network: Any) -> Iterator[BindPoint]:
    faults: list[Fault] = []
    kinds = [
        *((False, name, "input", kind) for name, kind in network.inputs.items()),
        *((True, name, "output", kind) for name, kind in network.output_types.items()),
    ]
    weights = [
        BindPoint(_weight(name, network), (_tensor_of(array),), False, False)
        for name, array in network.weights.items()
    ]
    points = []
    for is_output, name, word, kind in kinds:
        if kind.is_empty:
            continue
        try:
            if kind.dtype.itemsize == 8 and kind.inner.bits == 32:
                raise DmlError([Fault("", "", X64_RULE, Unquoted(kind.name))])
            tensor = TensorDesc(kind.inner, kind.shape or (1,))
            points.append(BindPoint(name, (tensor,), is_output, False))
        except DmlError as error:
            faults += error.moved("", f"the {word} '{name}'")
    if faults:
        raise DmlError(faults)
    yield from (point for point in points if not point.output)
    yield from weights
    yield from (point for point in points if point.output)


def _tensor_of(array: Any) -> TensorDesc:
    return TensorDesc.of(array.reshape(array.shape or (1,)))


def _weight(name: str, network: Any) -> str:
    """Return the name that memory for a weight is bound to: unlike all inputs and outputs."""
    while name in network.inputs or name in network.output_types:
        name = f"{name} (weight)"
    return name


@dataclass(frozen=True)
class NetworkFile:
    """A network in a file, which is loaded for the shapes that are asked for.

    Attributes:
        path: the file.
        own: the sizes of free dimensions that the model gives. Those without a size have size 1.
        given: the sizes that come first.
    """

    path: Path
    own: Overrides
    given: Overrides
    _loaded: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def at(
        self, name: str, shapes: Mapping[str, Sequence[int]]
    ) -> tuple[NetworkFunction, dict[str, Resource]]:
        """Return the network, and memory for its tensors that are bound to nothing.

        Args:
            name: how the names of that memory begin.
            shapes: the sizes of inputs and outputs. Those of `given` come first.

        Raises `DmlError` with everything that is in the way.
        """
        overrides = self.given.known_to(self.path).over(self.own.names, self.own.denotations)
        shapes = {**shapes, **overrides.shapes}
        key = tuple((tensor, tuple(sizes)) for tensor, sizes in sorted(shapes.items()))
        if key not in self._loaded:
            function = self._function(overrides, shapes)
            self._loaded[key] = function, _memory(name, function)
        return self._loaded[key]

    def _function(
        self, overrides: Overrides, shapes: Mapping[str, Sequence[int]]
    ) -> NetworkFunction:
        from dml_jax.onnx import free_names, free_sizes, load_onnx

        free = free_names(self.path)
        # Shapes of the model come before its own names; the caller's have to agree with each other.
        bound = shapes.keys() - overrides.shapes.keys()
        inputs, names = free_sizes(
            self.path, overrides.names, overrides.denotations, shapes, settled=bound
        )
        try:
            inputs = {name: inputs[name] for name in inputs if name not in overrides.constants}
            network = load_onnx(self.path, inputs, names, overrides.fallback, overrides.constants)
        except DmlError as error:
            left = _left_at_1(free, inputs, {*overrides.names}, {*shapes})
            if left is None or not any(map(_is_of_sizes, error.faults)):
                raise
            raise DmlError([*error.faults, left]) from None
        faults = []
        for output, kind in network.output_types.items():
            sizes = list(kind.shape or ())
            if list(shapes.get(output, sizes)) != sizes:
                rule = f"have shape {sizes}, as its network gives"
                faults.append(Fault("", f"the output '{output}'", rule, list(shapes[output])))
        if faults:
            raise DmlError(faults)
        return NetworkFunction(network, free)


UNSET = "free dimensions"
"""The field of the fault that says which free dimensions have no size from the caller."""


def _left_at_1(
    free: Mapping[str, Sequence[str | None]],
    inputs: Mapping[str, Sequence[int]],
    named: Set[str],
    shaped: Set[str],
) -> Fault | None:
    """Return the fault that names the free dimensions of size 1, None where there are none.

    Args:
        free: the name of each dimension of an input, None for one whose size is fixed.
        inputs: the sizes of these inputs.
        named: the free dimensions whose sizes the caller gives.
        shaped: the inputs whose sizes the caller gives.
    """
    lines, value = [], []
    for name, dims in free.items():
        sizes = inputs.get(name, [])
        pairs = zip(dims, sizes, strict=False)
        left = [d for d, size in pairs if d is not None and size == 1 and d not in named]
        if left and name not in shaped:
            listed = ", ".join(dict.fromkeys(d or "without a name" for d in left))
            by_name = "-f NAME:SIZE or " if any(left) else ""
            value += left
            subject = f"free dimension{'s' * (len(left) > 1)} {listed}"
            if len(left) > 1 and not any(left):
                subject = f"{len(left)} free dimensions without names"
            verb, object_ = ("have", "them") if len(left) > 1 else ("has", "it")
            lines.append(
                f"{subject} of '{name}' {verb} size 1: set {object_} with {by_name}-b {name}:SIZES"
            )
    if not lines:
        return None
    return Fault("", UNSET, Sentence("; ".join(lines)), list(dict.fromkeys(value)))


def _is_of_sizes(fault: Fault) -> bool:
    """Return whether other sizes could cure a fault."""
    if fault.operator or (isinstance(fault.rule, Sentence) and "refuses" in fault.rule):
        return True
    words = ("size", "shape", "dimension", "element", "rank")
    return any(word in fault.rule or word in fault.field for word in words)


def _memory(title: str, function: NetworkFunction) -> dict[str, Resource]:
    """Return memory for each tensor of a network: random inputs, its weights, and zeros."""
    network, own = function.network, {}
    weights = {_weight(name, network): name for name in network.weights}
    for point in function.bind_points():
        (tensor,), name = point.tensors, point.name
        if name in weights:
            make = functools.partial(_bytes_of, tensor, network.weights[weights[name]])
        elif point.output:
            make = functools.partial(np.zeros, 0, np.uint8)
        else:
            make = functools.partial(_random_bytes, tensor, network, name)
        key = f"{title}: {name}" if name in weights else f"{title}: {name} {tensor.shown()}"
        size, used = tensor.total_tensor_size_in_bytes, tensor.span_in_bytes
        own[name] = Resource(key, tensor.data_type, size, None, 0, used, make)
    return own


def _random_bytes(tensor: TensorDesc, network: Any, name: str) -> np.ndarray:
    return _bytes_of(tensor, network.random_inputs()[name])


def _bytes_of(tensor: TensorDesc, array: Any) -> np.ndarray:
    """Return the elements of a packed tensor as they lie in memory."""
    if tensor.data_type.element_size:
        return np.asarray(array).astype(tensor.dtype, copy=False)
    memory = np.zeros(tensor.span_in_bytes, tensor.memory_dtype)
    values = np.asarray(array).astype(tensor.dtype, copy=False).reshape(tensor.sizes)
    return np.asarray(tensor.write(memory, values))
