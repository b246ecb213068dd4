"""`IOBinding`: inputs and outputs that are bound to memory before a run."""

import ctypes
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from dml_jax.errors import nearest, with_article
from dml_jax.onnxruntime import errors
from dml_jax.onnxruntime.ort_values import OrtDevice, OrtValue, as_own_arrays, dtype_of


class IOBinding:
    """The memory that the inputs and the outputs of a session's runs have.

    Args:
        session: the `InferenceSession`.
    """

    def __init__(self, session: Any):
        self._session = session
        self._inputs: dict[str, OrtValue] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._devices: dict[str, OrtDevice] = {}
        self._results: list[OrtValue] = []

    def _check(self, name: str, names: Sequence[str], value: Any = None) -> None:
        """Raise `RuntimeError` for an unknown name, `AttributeError` for what is no `OrtValue`."""
        if name not in names:
            listed = ", ".join(map(repr, names))
            raise RuntimeError(f"expected one of {listed}, got {name!r}{nearest(name, names)}")
        if value is not None and not isinstance(value, OrtValue):
            text = f"expected {name!r} to be bound to an OrtValue, got {with_article(type(value))}"
            raise AttributeError(text + ": OrtValue.ortvalue_from_numpy(...)")

    def bind_cpu_input(self, name: str, arr_on_cpu: np.ndarray) -> None:
        """Give an input the memory of an array."""
        self.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Give an input the memory at an address of the CPU, `buffer_ptr`.

        `device_type` is "cpu": memory of a GPU is given by `bind_ortvalue_input`. `element_type` is
        a type of NumPy, or ONNX's number of it.
        """
        self._need_cpu(device_type)
        self.bind_ortvalue_input(name, OrtValue(_at(buffer_ptr, element_type, shape)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Give an input a value, which later runs read again."""
        self._check(name, self._session.input_names, ortvalue)
        self._inputs[name] = ortvalue

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output on a device, at the address `buffer_ptr` of the CPU if it is given.

        `element_type` and `shape` say what lies there.
        """
        self._check(name, self._session.output_names)
        self._devices[name] = OrtDevice(device_type, device_id)
        self._outputs[name] = None
        if buffer_ptr:
            self._need_cpu(device_type)
            self._outputs[name] = OrtValue(_at(buffer_ptr, element_type, shape or ()))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Ask for an output in the memory of a value."""
        self._check(name, self._session.output_names, ortvalue)
        self._devices[name] = OrtDevice(ortvalue.device_name())
        self._outputs[name] = ortvalue

    def _need_cpu(self, device_type: str) -> None:
        if device_type != "cpu":
            text = f"addresses of a GPU ({device_type!r}) are not taken, since JAX owns its "
            text += "memory: use bind_ortvalue_input and bind_output without buffer_ptr"
            raise errors.NotImplemented(text)

    def run(self, options: Any = None) -> None:
        """Run the session, and write the outputs that were asked for."""
        names = [*self._outputs]
        if not names:
            listed = ", ".join(map(repr, self._session.output_names))
            raise RuntimeError(f"expected an output to be bound, {listed}: bind_output(name)")
        given = {name: value.held for name, value in self._inputs.items()}
        with self._session.pages.lent() as memory:
            try:
                results = self._session.values_of(names, given, options, memory)
            except (errors.OnnxRuntimeError, TypeError, ValueError) as error:
                # ONNX Runtime has one exception for all mistakes of bindings.
                raise RuntimeError(str(error)) from None
            self._results = []
            for name, result in zip(names, results, strict=True):
                target = self._outputs[name]
                if target is None:
                    target = _laid_out(result, self._devices[name])
                else:
                    try:
                        target.update_inplace(result)
                    except RuntimeError as error:
                        raise RuntimeError(f"the output {name!r}: {error}") from None
                self._results.append(target)

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were asked for."""
        return [*self._results]

    get_outputs_as_ortvaluevector = get_outputs

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as arrays of NumPy."""
        return [as_own_arrays(value.numpy()) for value in self._results]

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Do nothing: a run waits for its inputs by itself."""

    def synchronize_outputs(self) -> None:
        """Wait until the outputs are computed."""
        jax.block_until_ready([value.held for value in self._results])


def _laid_out(result: Any, device: OrtDevice) -> OrtValue:
    """Return a result as a value on a device; on the CPU as an array of NumPy of its own."""
    if isinstance(result, list) or device.of_jax is None:
        return OrtValue(as_own_arrays(result))
    if isinstance(result, np.ndarray):
        return OrtValue.ortvalue_from_numpy(result, device.name, device.device_id())
    return OrtValue(result, device)


def _at(address: int, element_type: Any, shape: Sequence[int]) -> np.ndarray:
    """Return the array at an address of the CPU."""
    dtype = dtype_of(np.float32 if element_type is None else element_type)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.zeros(tuple(shape), dtype)
    buffer: Any = (ctypes.c_char * size).from_address(int(address))
    return np.frombuffer(buffer, dtype).reshape(tuple(shape))
