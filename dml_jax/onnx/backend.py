"""ONNX's interface of backends: `onnx.backend.test.BackendTest(DmlBackend)` runs ONNX's own tests.

The module is a backend too, as `onnxruntime.backend` is: `backend.run_model(model, inputs)`.
"""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from dml_jax.errors import (
    OF_CURE,
    OF_SIZES,
    OF_VALUES,
    DmlError,
    Expect,
    Fault,
    InternalError,
    Unquoted,
    nearest,
    with_article,
)
from dml_jax.onnx import load_onnx
from dml_jax.onnx.files.model import free_sizes, parsed
from dml_jax.onnx.network import Network
from dml_jax.runtime.recently_used import RecentlyUsed

_PLATFORMS = {"CPU": "cpu", "CUDA": "gpu"}
# Networks of a model, for different sizes, that stay loaded: as many as a session of ONNX Runtime
# keeps here. Each has programs of its own, and shares no weights with the others.
_NETWORKS = 32


class DmlRep(BackendRep):
    """A model that runs with inputs of any sizes: each set of sizes is loaded once.

    Args:
        model: the model.
        device: the device that computes.
    """

    def __init__(self, model: onnx.ModelProto, device: Any):
        self._model, self._device = model, device
        initialized = {tensor.name for tensor in model.graph.initializer}
        self._inputs = [v.name for v in model.graph.input if v.name not in initialized]
        values = (v for v in model.graph.input if v.type.HasField("tensor_type"))
        self._tensors = {v.name for v in values}
        self._defaults = [v.name for v in model.graph.input if v.name in initialized]
        self._loaded = RecentlyUsed[tuple[Network, list[str]]](_NETWORKS)

    @property
    def networks(self) -> list[Network]:
        """Return the networks that were loaded, for each set of sizes one."""
        return [network for network, _ in self._loaded.entries()]

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs in their order, arrays of NumPy in ONNX's types.

        Args:
            inputs: arrays in the order of the model's inputs, or by name.
            kwargs: options of other backends, which change nothing.

        Raises `DmlError` where something does not fit, or cannot be had.
        """
        given = self._by_name(inputs)
        expect = Expect("")
        for name, value in given.items():
            is_array = not isinstance(value, (list, tuple, type(None))) and name in self._tensors
            rule = "be a tensor (sequences and optionals are not taken)"
            expect(is_array, f"the input '{name}'", rule, Unquoted(with_article(type(value))))
        expect.check()
        arrays = {name: np.asarray(array) for name, array in given.items()}
        with jax.enable_x64(True), jax.default_device(self._device):
            network, fixed = self._network(arrays)
            results = network({n: a for n, a in arrays.items() if n not in fixed})
        whole = network.without_padding(results)
        return tuple(np.array(whole[output.name]) for output in self._model.graph.output)

    def _by_name(self, inputs: Any) -> Mapping[str, Any]:
        if isinstance(inputs, Mapping):
            return inputs
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        expect, names = Expect(""), [*self._inputs, *self._defaults]
        rule = f"be {len(self._inputs)} ({', '.join(self._inputs)})"
        is_right = len(self._inputs) <= len(given) <= len(names)
        expect(is_right, "the number of arrays", rule, len(given))
        expect.check()
        return dict(zip(names, given, strict=False))

    def _network(self, arrays: Mapping[str, np.ndarray]) -> tuple[Network, list[str]]:
        """Return a network for inputs, and the names of inputs whose values are fixed in it.

        These are none, or else the integers of rank 1 and less (sizes, axes), or else all of such
        a rank.
        """
        small = [name for name, array in arrays.items() if array.ndim <= 1]
        integers = [name for name in small if arrays[name].dtype.kind in "biu"]
        shapes = {n: (a.shape, a.dtype.str) for n, a in arrays.items()}
        errors = list[DmlError]()
        for fixed in ([], *filter(None, (integers, small))):
            values = tuple((name, arrays[name].tobytes()) for name in fixed)
            key = (tuple(shapes.items()), values)
            sizes = {n: a.shape for n, a in arrays.items() if n in self._inputs and n not in fixed}
            load = functools.partial(self._load, sizes, fixed, arrays)
            try:
                return self._loaded.get_or_build(key, load)
            except InternalError:
                raise
            except DmlError as error:
                errors.append(error)
        raise errors[0]

    def _load(
        self, sizes: Mapping[str, Any], fixed: list[str], arrays: Mapping[str, np.ndarray]
    ) -> tuple[Network, list[str]]:
        constants = {name: arrays[name] for name in fixed}
        return load_onnx(self._model, sizes, fallback=True, constants=constants), fixed


class DmlBackend(Backend):
    """Runs ONNX models by DirectML's operators, and by functions of JAX where there are none."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether nodes of a model can be had, at least with other sizes and values."""
        try:
            with jax.enable_x64(True):
                shapes, names = free_sizes(model, {})
                load_onnx(model, shapes, names, fallback=True)
        except DmlError as error:
            if any(fault.kind not in (OF_CURE, OF_SIZES, OF_VALUES) for fault in error.faults):
                return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> DmlRep:
        """Return a model that is ready to run.

        Args:
            model: an onnx.ModelProto, a path, or the bytes of a file.
            device: "CPU", "CUDA", or "CUDA:1" for the second GPU.
            kwargs: options of other backends, which change nothing.

        Raises `DmlError` where the model cannot be read, or the device is not there.
        """
        return DmlRep(parsed(model)[0], _device(device))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of one node.

        Args:
            node: the node.
            inputs: an array for each of its inputs that has a name.
            device: as `prepare` takes it.
            outputs_info: the type and the shape of each output, which are not needed.
            kwargs: `opset_version`, the version of ONNX's operators; the newest by default.

        Raises `DmlError` where the node cannot be had.
        """
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        names = [name for name in dict.fromkeys(node.input) if name]
        expect = Expect("")
        rule = f"be {len(names)} ({', '.join(names)})"
        expect(len(given) == len(names), "the number of arrays", rule, len(given))
        expect.check()
        arrays = [np.asarray(array) for array in given]
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, arrays, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, outputs)
        opset = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        versions = {"": opset, **({node.domain: 1} if node.domain else {})}
        imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        return cls.prepare(helper.make_model(graph, opset_imports=imports), device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether JAX has a device: "CPU", "CUDA", or "CUDA:1" for the second GPU."""
        try:
            _device(device)
        except DmlError:
            return False
        return True


def _device(name: str) -> Any:
    """Return a device. Raises `DmlError` where JAX has it not."""
    kind, _, index = name.partition(":")
    if (index or "0").isdecimal():
        with contextlib.suppress(KeyError, IndexError, RuntimeError):  # of JAX: no such platform
            return jax.devices(_PLATFORMS[kind])[int(index or 0)]
    rule = f"be CPU, CUDA or CUDA:1, and there{nearest(kind, _PLATFORMS)}"
    raise DmlError([Fault("", "the device", rule, Unquoted(name))])


is_compatible, prepare = DmlBackend.is_compatible, DmlBackend.prepare
run_model, run_node = DmlBackend.run_model, DmlBackend.run_node
supports_device = DmlBackend.supports_device
