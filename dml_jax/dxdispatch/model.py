"""A model of DxDispatch as data: resources, dispatchables, commands."""

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dml_jax.dxdispatch.dispatchables import Dispatchable
from dml_jax.dxdispatch.network_files import as_network
from dml_jax.dxdispatch.resources import Resource
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.memory.binding import TensorInMemory


@dataclass(frozen=True)
class Dispatch:
    """Runs a dispatchable on resources.

    Attributes:
        dispatchable: the operator, graph or network, a network with the shapes of this dispatch.
        tensors: its tensors in the resources, in the operator's order.
    """

    dispatchable: Dispatchable
    tensors: tuple[TensorInMemory, ...]


@dataclass(frozen=True)
class Print:
    """Prints the initialised part of a resource."""

    resource: str
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """Writes a resource to a file."""

    resource: str
    target_path: str
    dimensions: tuple[int, ...]


Command = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Result:
    """What a network leaves in a deferred resource.

    Attributes:
        place: the tensor in its memory.
        shape: the sizes, with the padding where the size depends on data.
        axis: the dimension that is padded; None for none.
        count: the tensor that says how many elements along it are there.
    """

    place: TensorInMemory
    shape: tuple[int, ...]
    axis: int | None
    count: TensorInMemory | None


@dataclass(frozen=True, eq=False)
class Model:
    """A DxDispatch model in which every name resolves and every binding fits.

    Attributes:
        resources: the buffers, by name; `resource.bytes()` makes their initial contents.
        dispatchables: the operators, graphs and networks, by name: `dispatchable.operator` is a
            function. A network has the shapes of its first dispatch.
        commands: the steps of the model, in order.
        path: the file of the model, if it has one.
        hidden: the memory that dispatches need beside the resources, by a name that no resource
            has: of constants of serialized graphs, and of tensors of networks that are bound to
            nothing.
        deferred: the resources whose contents the tensors decide that are bound to them.
    """

    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    path: Path | None = None
    hidden: Mapping[str, Resource] = field(default_factory=dict)
    deferred: Collection[str] = ()

    @functools.cached_property
    def memory(self) -> Mapping[str, Resource]:
        """Return all memory that the model needs, by name."""
        return {**self.resources, **self.hidden}

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.dispatchables))
        return f"<Model of {len(self.resources)} resources and dispatchables {names}>"

    def _repr_svg_(self) -> str | None:
        """Return the picture for notebooks as SVG; None before `show.dxdispatch_models` has it."""
        return None

    def results_of(self, dispatch: Dispatch) -> dict[str, Result]:
        """Return what a dispatch of a network leaves in deferred resources, by their names."""
        network, found = as_network(dispatch.dispatchable.operator), {}
        if network is None:
            return found
        places = {place.path: place for place in dispatch.tensors if place.output}
        for name, place in places.items():
            if place.memory in self.deferred:
                shape = network.output_types[name].shape or ()
                axis, count = network.counted.get(name, (None, ""))
                found[place.memory] = Result(place, shape, axis, places.get(count))
        return found

    def read_before_known(self) -> Iterator[Fault]:
        """Yield a fault for each tensor that reads a deferred resource which has a padding."""
        results: dict[str, Result] = {}
        for dispatch in self.dispatches:
            for place in dispatch.tensors:
                found = results.get(place.memory)
                if not place.output and found is not None and found.axis is not None:
                    rule = f"have sizes that are known at load ('{found.place.path}' has as many "
                    rule += "elements as data says; join the networks into one)"
                    context = (dispatch.dispatchable.context,)
                    yield Fault("ONNX", place.path, rule, Unquoted(f"'{place.memory}'"), context)
            results |= self.results_of(dispatch)

    @property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all dispatchables."""
        levels = (d.operator.minimum_feature_level for d in self.dispatchables.values())
        return max(levels, default=min(FeatureLevel))

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses dispatchables; nothing where it accepts them all."""
        faults: list[Fault] = []
        for dispatchable in self.dispatchables.values():
            refusals = DmlError(dispatchable.operator.refused_at(feature_level))
            faults += refusals.within(dispatchable.context).faults
        return tuple(faults)

    @property
    def dispatches(self) -> list[Dispatch]:
        """Return the dispatches among the commands, in order."""
        return [command for command in self.commands if isinstance(command, Dispatch)]
