"""Values outside of a session: `OrtValue` and `OrtDevice`."""

import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from onnx import helper

from dml_jax.onnxruntime.metadata import tensor_text
from dml_jax.onnxruntime.providers import gpus
from dml_jax.onnxruntime.refused import SPARSE, refusing

_DEVICES = {"cpu": 0, "cuda": 1, "gpu": 1, "dml": 4}


class OrtDevice:
    """A device by its name and number.

    Args:
        device_name: "cpu", "cuda", "gpu" or "dml".
        device_id: the number of the device among those of the name.
        vendor_id: the number of its maker, or -1.
    """

    def __init__(self, device_name: str, device_id: int = 0, vendor_id: int = -1):
        self.name = str(device_name).lower()
        if self.name not in _DEVICES:
            known = ", ".join(_DEVICES)
            raise RuntimeError(f"expected the device to be one of {known}, got {device_name!r}")
        self._id, self._vendor = operator.index(device_id), max(int(vendor_id), 0)

    @staticmethod
    def make(ort_device_name: str, device_id: int, vendor_id: int = -1) -> "OrtDevice":
        """Return the device of a name and a number."""
        return OrtDevice(ort_device_name, device_id, vendor_id)

    def device_type(self) -> int:
        """Return 0 for a CPU, 1 for a GPU, 4 for DirectML's."""
        return _DEVICES[self.name]

    def device_id(self) -> int:
        """Return the number of the device."""
        return self._id

    def device_mem_type(self) -> int:
        """Return 0, the memory that each device has."""
        return 0

    def device_vendor_id(self) -> int:
        """Return the number of its maker; 0 where none was given."""
        return self._vendor

    @property
    def of_jax(self) -> Any:
        """Return JAX's device; None for the CPU. Raises `RuntimeError` where JAX has none."""
        if self.name == "cpu":
            return None
        if self._id >= len(gpus()):
            text = f"expected the device {self.name}:{self._id} to be there; JAX has "
            raise RuntimeError(f"{text}{len(gpus()) or 'no'} GPUs")
        return gpus()[self._id]


@refusing(SPARSE, "as_sparse_tensor ort_value_from_sparse_tensor")
class OrtValue:
    """A tensor, a sequence of tensors, or an optional that holds nothing (None).

    Args:
        value: an array of NumPy, whose memory is shared, an array of JAX, a list of arrays, None.
        device: where it lies.

    Attributes:
        held: the value.
    """

    def __init__(self, value: Any, device: OrtDevice | None = None):
        self.held, self._device = value, device or OrtDevice("cpu")

    @staticmethod
    def ortvalue_from_numpy(
        numpy_obj: Any, device_type: str = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> "OrtValue":
        """Return the value of an array: on the CPU it has the array's memory."""
        if not isinstance(numpy_obj, np.ndarray) or numpy_obj.dtype.kind in "OUS":
            raise RuntimeError("expected an array of numbers for an OrtValue, got another value")
        device = OrtDevice(device_type, device_id, vendor_id)
        target = device.of_jax
        if target is None:
            return OrtValue(np.ascontiguousarray(numpy_obj).reshape(numpy_obj.shape), device)
        with jax.enable_x64(True):
            return OrtValue(jax.device_put(numpy_obj, target), device)

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: np.ndarray, onnx_element_type: int) -> "OrtValue":
        """Return the value whose bytes `data` has, as another type of its size (BFLOAT16)."""
        return OrtValue(data.view(helper.tensor_dtype_to_np_dtype(onnx_element_type)))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Sequence[int],
        element_type: Any = np.float32,
        device_type: str = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> "OrtValue":
        """Return a value of zeros; `element_type` is a type of NumPy, or ONNX's number of it."""
        zeros = np.zeros(tuple(shape), dtype_of(element_type))
        return OrtValue.ortvalue_from_numpy(zeros, device_type, device_id, vendor_id)

    @staticmethod
    def from_dlpack(data: Any, /) -> "OrtValue":
        """Return the value of a tensor of another library, whose memory it shares."""
        kind, index = data.__dlpack_device__()
        if kind == 1:  # the CPU
            return OrtValue(np.from_dlpack(data))
        with jax.enable_x64(True):
            return OrtValue(jax.dlpack.from_dlpack(data), OrtDevice("cuda", index))

    @property
    def _ortvalue(self) -> "OrtValue":
        """Return the value itself, where ONNX Runtime has one of its C++ code."""
        return self

    def to_dlpack(self) -> Any:
        """Return the capsule by which another library shares the memory."""
        return self.__dlpack__()

    def __dlpack__(self, **arguments: Any) -> Any:
        """Return the capsule by which another library shares the memory."""
        return self._tensor().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[Any, int]:
        """Return where the memory is, as DLPack says it."""
        return self._tensor().__dlpack_device__()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the elements as an array of NumPy."""
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def _tensor(self) -> Any:
        if not hasattr(self.held, "dtype"):
            raise RuntimeError("expected the OrtValue to hold a tensor, got another value")
        return self.held

    def numpy(self) -> Any:
        """Return the elements; on the CPU they share the value's memory, else they are copied."""
        if isinstance(self.held, list):
            return [np.asarray(x) for x in self.held]
        own = self._tensor()
        return own if isinstance(own, np.ndarray) else np.array(own)

    def update_inplace(self, data: Any) -> None:
        """Copy the elements of an array of this type and shape into the value."""
        own = self._tensor()
        array = np.asarray(data)
        if array.shape != own.shape or array.dtype != own.dtype:
            text = f"expected {own.dtype.name}{list(own.shape)} to update the OrtValue, got "
            raise RuntimeError(f"{text}{array.dtype.name}{list(array.shape)}")
        if isinstance(own, np.ndarray):
            own[...] = array
        else:
            device = self._device
            made = OrtValue.ortvalue_from_numpy(array, device.name, device.device_id())
            self.held = made.held

    def shape(self) -> list[int]:
        """Return the sizes."""
        return [*self._tensor().shape]

    def element_type(self) -> int:
        """Return ONNX's number of the type of elements."""
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(self._tensor().dtype)))

    def data_type(self) -> str:
        """Return the type as ONNX Runtime spells it: `tensor(float)`."""
        if isinstance(self.held, list):
            inner = OrtValue(self.held[0]).data_type() if self.held else "tensor(float)"
            return f"seq({inner})"
        return tensor_text(self.element_type())

    def device_name(self) -> str:
        """Return the name of the device: "cpu", "cuda"."""
        return self._device.name

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        own = self._tensor()
        return own.ctypes.data if isinstance(own, np.ndarray) else own.unsafe_buffer_pointer()

    def tensor_size_in_bytes(self) -> int:
        """Return the bytes of the elements."""
        return self._tensor().nbytes

    def has_value(self) -> bool:
        """Return whether an optional holds something."""
        return self.held is not None

    def is_tensor(self) -> bool:
        """Return whether it is a tensor."""
        return hasattr(self.held, "dtype")

    def is_tensor_sequence(self) -> bool:
        """Return whether it is a sequence of tensors."""
        return isinstance(self.held, list)

    def is_sparse_tensor(self) -> bool:
        """Return False: sparse tensors are refused."""
        return False


def dtype_of(element_type: Any) -> np.dtype:
    """Return NumPy's type, of this or of ONNX's number."""
    if isinstance(element_type, int):
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type))
    return np.dtype(element_type)


def as_own_arrays(value: Any) -> Any:
    """Return a result, or a list of these, as arrays of NumPy that nothing else holds."""
    if isinstance(value, list):
        return [as_own_arrays(x) for x in value]
    if not hasattr(value, "dtype"):
        return value
    array = np.array(value)
    return array.astype(object) if array.dtype.kind == "U" else array
