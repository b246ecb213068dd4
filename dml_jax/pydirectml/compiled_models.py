"""Devices, graphs in the making, and compiled models with the inputs that stay with them."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dml_jax import graph
from dml_jax.description import tensor
from dml_jax.errors import Unquoted
from dml_jax.memory import compiled
from dml_jax.pydirectml.arguments import ArgumentError, converts_arguments, refuse
from dml_jax.pydirectml.enumerations import ExecutionFlags
from dml_jax.pydirectml.expressions import Expression
from dml_jax.pydirectml.tensors import TensorData, TensorPolicy

__all__ = ["Binding", "Device", "GraphBuilder", "Model"]


class Device:
    """A device: the first accelerator that JAX finds, or else the CPU.

    Args:
        use_gpu: whether to take an accelerator.
        use_debug_layer: changes nothing: arguments are always checked.
    """

    @converts_arguments
    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        found = jax.local_devices() if use_gpu else jax.local_devices(backend="cpu")
        self._device = found[0]

    def __repr__(self) -> str:
        return f"dml.Device on {'CPU' if self._device.platform == 'cpu' else 'GPU'}"

    @converts_arguments
    def compute(
        self,
        model: "Model",
        inputs: "Sequence[Binding | None]",
        outputs: "Sequence[Expression | None]",
        /,
    ) -> list[TensorData]:
        """Return the values of a model's outputs.

        Args:
            model: the model.
            inputs: one binding for each graph input, in the order of their indices.
            outputs: expressions of which the model was built; None is left out.
        """
        count = max(model._indices.values(), default=-1) + 1
        if len(inputs) > count:
            rule = f"be at most {count}, the model's inputs"
            raise refuse("Device.compute", "the number of inputs", rule, len(inputs))
        bound = []
        for name, desc in zip(model._graph.input_names or (), model._graph.inputs, strict=True):
            index, where = int(name), ("Device.compute", f"inputs[{name}]")
            binding = inputs[index] if index < len(inputs) else None
            if binding is None:
                got = Unquoted("nothing")
                raise refuse(*where, "be bound", got)
            # The index of the graph input that is bound; None for other expressions.
            is_own = binding._source.builder is model._outputs[0].builder
            other = model._indices.get(binding._source.source) if is_own else None
            if other not in (None, index):
                got = Unquoted(f"graph input {other}")
                raise refuse(*where, f"be of graph input {index}", got)
            bound_to, own = ((d.data_type, d.span, d.flags) for d in (binding._desc, desc))
            # The elements of one tensor are not the memory of another.
            if bound_to != own:
                raise refuse(*where, f"be of graph input {index}, {desc!r}", binding._desc)
            bound.append(binding._data)
        places = [(o.source, o.desc) for o in model._outputs]
        chosen = []
        for index, output in enumerate(outputs):
            if output is None or output._source is None:
                continue
            place = output._source.source, output._source.desc
            if output._source.builder is not model._outputs[0].builder or place not in places:
                rule = "be an expression that the model was built of"
                raise refuse("Device.compute", f"outputs[{index}]", rule, place[1])
            chosen.append(places.index(place))
        results = model._program(self)(bound)
        return [TensorData._of(results[i], model._outputs[i].desc) for i in chosen]


class GraphBuilder:
    """Collects the operators of a graph.

    Args:
        device: where the graph will run.
        tensor_policy: how the outputs of operators lie in memory.
    """

    @converts_arguments
    def __init__(self, device: Device, tensor_policy: TensorPolicy = TensorPolicy.default) -> None:
        self._device = device
        self._graph = graph.GraphBuilder(tensor_policy._policy)
        self._inputs: dict[int, graph.Expression] = {}

    @converts_arguments
    def build(
        self, flags: ExecutionFlags | int, outputs: "Sequence[Expression | None]", /
    ) -> "Model":
        """Return the compiled model of these outputs; empty expressions are left out."""
        wanted = [o._source for o in outputs if o is not None and o._source is not None]
        made = object.__new__(Model)
        made._graph = self._graph.build(wanted, only_read=True)
        made._outputs, made._programs = wanted, {}
        made._indices = {e.source: index for index, e in self._inputs.items()}
        made._program(self._device)
        return made

    def _input(self, index: int, desc: tensor.TensorDesc) -> graph.Expression:
        if index not in self._inputs:
            self._inputs[index] = self._graph.input_tensor(str(index), desc)
        elif self._inputs[index].desc != desc:
            rule = f"be {self._inputs[index].desc!r}, as input_index {index} has"
            raise refuse("input_tensor", "tensor_desc", rule, desc)
        return self._inputs[index]


class Binding:
    """The values of a graph input.

    Args:
        expr: the graph input.
        data: an array, of which float32 values are taken at once; its elements lie in memory as the
            tensor says, so that one with strides of 0 needs few.
    """

    @converts_arguments
    def __init__(self, expr: Expression, data: Any) -> None:
        self._source = expr._there
        self._desc = self._source.desc
        self._data = _bytes_of(self._desc, data)


def _bytes_of(desc: tensor.TensorDesc, data: Any) -> np.ndarray:
    """Return the elements of a tensor, flat and in the tensor's type, as a copy."""
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise ArgumentError("Binding", f"argument 'data' must hold numbers, not {array.dtype}")
    flat = array.reshape(-1)
    if flat.size < desc.span:
        rule = f"hold {desc.span} elements ({desc.shown()})"
        raise refuse("Binding", "data", rule, tensor.shown_array(array))
    flat = flat[: desc.span]
    if flat.dtype == desc.dtype or desc.data_type.name == "FLOAT32":
        with np.errstate(over="ignore"):
            return np.array(flat, desc.dtype)
    # PyDirectML hands all data over as float32, so that programs write other types as their bits.
    if flat.dtype == np.float32 and desc.dtype.itemsize == 4:
        return np.array(flat).view(desc.dtype)
    with np.errstate(all="ignore"):
        made = flat.astype(desc.dtype)
        is_held = desc.dtype.kind == "f" or bool(np.all(made.astype(flat.dtype) == flat))
    if not is_held:
        rule = f"hold numbers that {desc.data_type.name} holds"
        raise refuse("Binding", "data", rule, tensor.shown_array(array))
    return made


class Model:
    """A compiled graph, which `GraphBuilder.build` makes and `Device.compute` runs."""

    _graph: graph.Graph
    _outputs: list[graph.Expression]
    _indices: dict[Any, int]  # of the inputs that programs bind, by their places in the graph
    _programs: dict[Any, "_Program"]

    def __init__(self) -> None:
        raise ArgumentError("Model", "no constructor (GraphBuilder.build makes it)")

    def _program(self, device: Device) -> "_Program":
        found = self._programs.get(device._device)
        if found is None:
            found = self._programs[device._device] = _Program(self._graph, device._device)
        return found


class _Program:
    """A graph that is compiled for a device, and the inputs that stay there.

    All inputs are arguments of the program, flat as they lie in memory.
    """

    def __init__(self, made: graph.Graph, device: Any):
        descs = made.inputs

        def function(*memory: Any) -> Any:
            results = made(*(d.read(part) for d, part in zip(descs, memory, strict=True)))
            return results if isinstance(results, tuple) else (results,)

        shapes = [tensor.TensorDesc(d.data_type, [d.span]) for d in descs]
        self._compiled = compiled.compile(function, *shapes, device=device)
        self._device = device
        self._stays = [tensor.TensorFlags.OWNED_BY_DML in d.flags for d in descs]
        self._kept: dict[int, tuple[np.ndarray, Any]] = {}

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        placed = [self._put(index, array) for index, array in enumerate(arrays)]
        return [np.array(result) for result in self._compiled(*placed)]

    def _put(self, index: int, array: np.ndarray) -> Any:
        """Return an input on the device: an OWNED_BY_DML one is sent once, while it stays equal.

        The call of the program sends the others.
        """
        if not self._stays[index]:
            return array
        kept, placed = self._kept.get(index, (None, None))
        if kept is array:
            return placed
        if kept is None or not np.array_equal(kept.view(np.uint8), array.view(np.uint8)):
            placed = jax.device_put(array, self._device)
        self._kept[index] = array, placed
        return placed
