"""ONNX networks in files, which models of DxDispatch and the commands load."""

import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dml_jax.description.tensor import TensorDesc
from dml_jax.dxdispatch.resources import Resource
from dml_jax.errors import OF_BUG, OF_SIZES, OF_UNSET_SIZES, DmlError, Fault, Sentence, raise_if
from dml_jax.onnx.options import NetworkOptions
from dml_jax.operator.call import Bindable
from dml_jax.runtime.recently_used import RecentlyUsed

if TYPE_CHECKING:
    from dml_jax.onnx.network import Network

Shapes = Mapping[str, Sequence[int]]

_NETWORKS = 64  # of a file, for different sizes: more than the dispatchables of one model ask for


@dataclass(frozen=True)
class NetworkFile:
    """A network in a file, which is loaded for the shapes that are asked for.

    Attributes:
        path: the file.
        own: the options that the model gives. Free dimensions without a size have size 1.
        given: the options that come first.
    """

    path: Path
    own: NetworkOptions
    given: NetworkOptions
    _loaded: RecentlyUsed[Any] = field(
        default_factory=lambda: RecentlyUsed(_NETWORKS), repr=False, compare=False
    )

    def at(self, name: str, shapes: Shapes) -> "tuple[Network, dict[str, Resource]]":
        """Return the network, and memory for its tensors that are bound to nothing.

        The names of that memory begin with `name`. `shapes` has the sizes of inputs and outputs;
        those of `given` come first. Raises `DmlError` with everything that is in the way.
        """
        key = tuple((tensor, tuple(sizes)) for tensor, sizes in sorted(shapes.items()))

        def build() -> "tuple[Network, dict[str, Resource]]":
            network = self.load(shapes)
            return network, _memory(name, network)

        return self._loaded.get_or_build(key, build)

    def load(self, shapes: Shapes) -> "Network":
        """Return the network, of `shapes` as in `at`. Raises `DmlError`."""
        from dml_jax.onnx import free_names, free_sizes, load_network

        options = self.given.known_to(self.path).over(self.own)
        shapes = {**shapes, **options.shapes}
        free = free_names(self.path)
        # Shapes of the model come before its own names; the caller's have to agree with each other.
        bound = shapes.keys() - options.shapes.keys()
        inputs, names = free_sizes(
            self.path, options.names, options.denotations, shapes, settled=bound
        )
        inputs = {name: inputs[name] for name in inputs if name not in options.constants}
        try:
            network = load_network(self.path, replace(options, names=names, shapes=inputs))
        except DmlError as error:
            left = _left_at_1(free, inputs, {*options.names}, {*shapes})
            # Another size cures no bug of this package, so the sizes are not blamed for one.
            is_bug = any(fault.kind == OF_BUG for fault in error.faults)
            is_of_sizes = any(f.operator or f.kind == OF_SIZES for f in error.faults)
            if left is None or is_bug or not is_of_sizes:
                raise
            raise DmlError([*error.faults, left]) from None
        faults = []
        for output, kind in network.output_types.items():
            sizes = list(kind.shape or ())
            if list(shapes.get(output, sizes)) != sizes:
                rule = f"have shape {sizes}, as its network gives"
                faults.append(Fault("", f"the output '{output}'", rule, list(shapes[output])))
        raise_if(faults)
        _ = network.bind_points()  # raises where memory holds no such tensors
        return network


def as_network(function: Bindable) -> "Network | None":
    """Return a function as a network; None where it is another one. The package onnx may lack."""
    return cast("Network", function) if function.c_name == "ONNX" else None


def _left_at_1(
    free: Mapping[str, Sequence[str | None]],
    inputs: Mapping[str, Sequence[int]],
    named: Set[str],
    shaped: Set[str],
) -> Fault | None:
    """Return the fault that names the free dimensions of size 1, None where there are none.

    `free` has the names of the dimensions of inputs, None for fixed ones, and `inputs` their sizes;
    the caller gives the sizes of the dimensions `named` and of the inputs `shaped`.
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
    rule, names = Sentence("; ".join(lines)), list(dict.fromkeys(value))
    return Fault("", "free dimensions", rule, names, kind=OF_UNSET_SIZES)


def _memory(title: str, network: "Network") -> dict[str, Resource]:
    """Return memory for each tensor of a network: random inputs, and zeros."""
    own = {}
    for point in network.bind_points():
        (tensor,), name = point.tensors, point.name
        if point.output:
            make = functools.partial(np.zeros, 0, np.uint8)
        else:
            make = functools.partial(_random_bytes, tensor, network, name)
        key = f"{title}: {name} {tensor.shown()}"
        size, used = tensor.total_tensor_size_in_bytes, tensor.span_in_bytes
        own[name] = Resource(key, tensor.data_type, size, None, 0, used, make)
    return own


def _random_bytes(tensor: TensorDesc, network: "Network", name: str) -> np.ndarray:
    """Return random elements of a packed tensor as they lie in memory."""
    values = np.asarray(network.random_inputs()[name]).astype(tensor.dtype, copy=False)
    if tensor.data_type.element_size:
        return values
    memory = np.zeros(tensor.span_in_bytes, tensor.memory_dtype)
    return np.asarray(tensor.write(memory, values.reshape(tensor.sizes)))
