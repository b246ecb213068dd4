"""Networks of several devices, each of which has its heads and columns."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from dml_jax.description.tensor import shown_array
from dml_jax.errors import DmlError, Expect, Fault, Unquoted
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.tensor_parallel.division import Division, divided
from dml_jax.runtime.compiled_function import CompiledFunction
from dml_jax.runtime.executable import Executable
from dml_jax.runtime.plan import Arrays, keys_of
from dml_jax.runtime.weight_store import WeightStore


class LocalNetwork(Protocol):
    """The network of one device, which computes with shapes in place of weights too."""

    @property
    def inputs(self) -> Mapping[str, Type]: ...

    @property
    def outputs(self) -> Sequence[str]: ...

    weights: dict[str, Any]

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]: ...

    def prepared(self, weights: Arrays) -> Sequence[jax.Array]: ...

    @property
    def prepared_from(self) -> tuple[Sequence[str], int]: ...

    def apply_prepared(self, parameters: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]: ...

    def report(self) -> str: ...

    @property
    def executable(self) -> Executable: ...

    def replace(self, *, weights: Mapping[str, Any]) -> "LocalNetwork": ...


class ShardedNetwork:
    """A decoder's network, divided among the devices of a mesh by `Network.shard`.

    It has the functions of a `Network`: a call, `apply`, `prepared` and `apply_prepared`. Each is
    one program for all devices. Arrays have the sizes of all devices together: caches are divided
    by their heads, weights by the columns or rows that a device multiplies; all else is the same on
    all devices.

    Args:
        local: the network of one device.
        division: how the graph is divided.
        mesh: the devices.
        axis: the name of the mesh's axis that they are along.
        read: returns a weight of the whole network, by its name.
        store: the arrays on the devices, by name, which networks of one file share.

    Attributes:
        inputs: the type of each input, by name.
        outputs: the names of the outputs.
        mesh: the devices.
        weights: the weights by name, on the devices.
        note: what is not divided, and why, in one line; "" where all is.
    """

    def __init__(
        self,
        local: LocalNetwork,
        division: Division,
        mesh: Mesh,
        axis: str,
        read: Callable[[str], Any],
        store: WeightStore,
    ):
        self._division, self._axis, self._store = division, axis, store
        self.mesh = Mesh(mesh.devices, mesh.axis_names)  # whose axes are automatic
        self.note, count = division.note, mesh.shape[axis]

        def whole(name: str, kind: Type) -> Type:
            if name not in division.caches or kind.shape is None:
                return kind
            batch, heads, *rest = kind.shape
            return Type(kind.element, (batch, heads * count, *rest))

        self.inputs: dict[str, Type] = {n: whole(n, kind) for n, kind in local.inputs.items()}
        self.outputs: list[str] = [*local.outputs]
        shapes = {n: jax.ShapeDtypeStruct(w.shape, w.dtype) for n, w in local.weights.items()}
        # The network of one device is traced alone: it needs the shapes of its weights, and arrays
        # would take memory of the first device beside its part of `weights`.
        self._local, known = local.replace(weights=shapes), store.named or {}
        self.weights: dict[str, jax.Array] = {
            name: known[name] if name in known else self._place(name, read) for name in shapes
        }
        store.named = {**self.weights, **known}

    def _place(self, name: str, read: Callable[[str], Any]) -> jax.Array:
        whole, cut = self._division.cuts.get(name, (name, None))
        array = np.asarray(read(whole))
        if array.dtype == bool:
            array = array.astype(np.uint8)
        sizes = [*array.shape] if cut is None else [*cut.sizes]
        own = sizes[cut.axis] if cut else 0
        if cut:
            sizes[cut.axis] = own * self.mesh.shape[self._axis]

        def part(index: Any) -> np.ndarray:
            return array if cut is None else cut.part(array, (index[cut.axis].start or 0) // own)

        sharding = NamedSharding(self.mesh, self._spec(name))
        return jax.make_array_from_callback(tuple(sizes), sharding, part)

    def _spec(self, name: str) -> P:
        """Return along which axis a weight, an input or an output is divided."""
        if name in self._division.caches:
            return P(None, self._axis)
        _, cut = self._division.cuts.get(name, (name, None))
        return P() if cut is None else P(*[None] * cut.axis, self._axis)

    def _specs(self, names: Any) -> dict[str, P]:
        return {name: self._spec(name) for name in names}

    def _map(self, function: Any, *specs: Any, results: Any = None) -> Any:
        """Return a function that each device computes with what it has."""
        results = self._specs(self.outputs) if results is None else results
        given = {"mesh": self.mesh, "in_specs": specs, "out_specs": results}
        return jax.shard_map(function, **given, check_vma=False)

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name.

        Raises `DmlError` where a shape or a type is another.
        """
        self._check(inputs)
        specs = self._specs(weights), self._specs(inputs)
        return self._map(self._local.apply, *specs)(dict(weights), dict(inputs))

    def prepared(self, weights: Arrays) -> Sequence[jax.Array]:
        """Return the arrays that calls hold, as `Network.prepared` does; a pure function.

        Arrays that are computed from weights have the devices as their first dimension.
        """
        names, count = self.prepared_from
        made = self._prepare(dict(weights)) if count else ()
        return (*(weights[name] for name in names), *made)

    @functools.cached_property
    def _prepare(self) -> CompiledFunction:
        names, count = self.prepared_from

        def prepare(weights: Arrays) -> Sequence[jax.Array]:
            return [x[None] for x in self._local.prepared(weights)[len(names) :]]

        results = [P(self._axis)] * count
        mapped = self._map(prepare, self._specs(self.weights), results=results)
        return CompiledFunction("prepare", mapped)

    @property
    def prepared_from(self) -> tuple[Sequence[str], int]:
        """Return the weights that `prepared` gives as they are, and the number of arrays behind."""
        return self._local.prepared_from

    def apply_prepared(self, held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return what `apply` returns, of what `prepared` gives; a pure function too."""
        self._check(inputs)
        names, count = self.prepared_from

        def apply(held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
            made = [x[0] for x in held[len(names) :]]
            return self._local.apply_prepared((*held[: len(names)], *made), inputs)

        specs = (*(self._spec(name) for name in names), *[P(self._axis)] * count)
        return self._map(apply, specs, self._specs(inputs))(tuple(held), dict(inputs))

    def _check(self, inputs: Arrays) -> None:
        """Raise `DmlError` where an input has other sizes than those of all devices together."""
        expect = Expect("")
        for name in inputs.keys() & self._division.caches.keys():
            shape, array = self.inputs[name].shape, inputs[name]
            rule = f"have the shape {list(shape or ())}, of all devices together"
            fits = getattr(array, "shape", None) == shape
            expect(fits, f"the input '{name}'", rule, shown_array(array))
        expect.check()

    @functools.cached_property
    def constants(self) -> Sequence[jax.Array]:
        """Return the arrays that calls hold; what follows from weights is in the store once."""
        names, count = self.prepared_from
        graph, derived = self._local.executable.planned.plan.prepare_graph, self._store.derived
        ids = {name: id(array) for name, array in self.weights.items()}
        keys = keys_of(graph, ids) if graph is not None else {}
        # An array of all devices is another one than that of the whole network: `self.mesh` is part
        # of its key.
        own = [(self.mesh, keys[source]) for source in graph.results] if graph is not None else []
        found = [derived.get(key) for key in own]
        if any(array is None for array in found):
            found = self.prepared(self.weights)[len(names) :]
            derived.update(zip(own, found, strict=True))
        return (*(self.weights[name] for name in names), *found[:count])  # pyright: ignore

    @functools.cached_property
    def _program(self) -> CompiledFunction:
        return CompiledFunction("call", self.apply_prepared)

    def __call__(self, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name, of inputs by name."""
        results = self._program(self.constants, dict(inputs))
        return {name: results[name] for name in self.outputs}

    def report(self) -> str:
        """Return what each device computes, and what is not divided."""
        lines = [f"{self.mesh.shape[self._axis]} devices, each with", self._local.report()]
        return "\n".join([*lines, self.note] if self.note else lines)

    def __repr__(self) -> str:
        return f"<ShardedNetwork: {self.mesh.shape[self._axis]} devices of {self._local!r}>"


def axis_of(mesh: Any, axis: str | None) -> str:
    """Return the axis of a mesh that devices are along: the only one, or that named `axis`.

    Raises `DmlError` where it has no such axis.
    """
    if not isinstance(mesh, Mesh):
        raise DmlError([Fault("shard", "mesh", "be a jax.sharding.Mesh", mesh)])
    names = [str(name) for name in mesh.axis_names]
    axis = names[0] if axis is None and len(names) == 1 else axis
    if axis not in names:
        rule = f"name one of the mesh's axes ({', '.join(names)})"
        shown = Unquoted("nothing") if axis is None else axis
        raise DmlError([Fault("shard", "axis", rule, shown)])
    return axis


def sharded(
    load: Callable[[Any, NetworkOptions], Any],
    model: Any,
    options: NetworkOptions,
    mesh: Any,
    axis: str | None = None,
    *,
    weights: Arrays | None = None,
    store: WeightStore | None = None,
) -> ShardedNetwork:
    """Return the network of a decoder's model, as `Network.shard` does.

    `load` returns the network of a model with options. The `weights` of the whole network are those
    of the file by default; `store` has the arrays of the model's other networks.
    """
    axis = axis_of(mesh, axis)
    proto, files = models.parsed(model)
    files, count = options.folder or files, mesh.shape[axis]
    division = divided(proto, files, count, axis)
    shapes = {n: [*sizes] for n, sizes in options.shapes.items()}
    for name in shapes.keys() & division.caches:
        shapes[name][1] = division.caches[name]
    made = division.files(proto, files)
    own = replace(options, shapes=shapes, folder=made, cache=None, tuned=False)
    local = load(division.proto, own)
    tensors = {tensor.name: tensor for tensor in proto.graph.initializer}

    def read(name: str) -> Any:
        return files.array(tensors[name]) if weights is None else weights[name]

    return ShardedNetwork(local, division, mesh, axis, read, store or WeightStore({}))
