"""Descriptions of tensors, and results as arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dml_jax import graph
from dml_jax.description import tensor
from dml_jax.pydirectml.arguments import ArgumentError, converts_arguments
from dml_jax.pydirectml.enumerations import TensorDataType, TensorFlags

__all__ = ["Dimensions", "TensorData", "TensorDesc", "TensorPolicy"]


class TensorPolicy:
    """How the outputs of operators lie in memory: `default`, or `interleaved_channel`."""

    default: "TensorPolicy"
    interleaved_channel: "TensorPolicy"

    def __init__(self) -> None:
        raise ArgumentError("TensorPolicy", "no constructor (see its attributes)")

    @classmethod
    def _of(cls, policy: graph.TensorPolicy) -> "TensorPolicy":
        made = object.__new__(cls)
        made._policy = policy
        return made

    _policy: graph.TensorPolicy


TensorPolicy.default = TensorPolicy._of(graph.TensorPolicy.DEFAULT)
TensorPolicy.interleaved_channel = TensorPolicy._of(graph.TensorPolicy.INTERLEAVED_CHANNEL)


class Dimensions:
    """The sizes of a tensor; lists of integers are used in its place."""

    def __init__(self) -> None:
        raise ArgumentError("Dimensions", "no constructor (give a list of integers)")


class TensorDesc:
    """Type, sizes and layout of a tensor.

    It is made of

    - `data_type, sizes, tensor_policy=TensorPolicy.default`;
    - `data_type, flags, sizes, tensor_policy=TensorPolicy.default`;
    - `data_type, sizes, strides`, where strides may be None;
    - `data_type, flags, sizes, strides, total_tensor_size_in_bytes,
      guaranteed_base_offset_alignment`.
    """

    _desc: tensor.TensorDesc

    def __init__(self, *positional: Any, **named: Any) -> None:
        # As pybind11 does: the first constructor that takes the arguments wins, in this order.
        for make in _OVERLOADS:
            try:
                self._desc = make(*positional, **named)
                return
            except TypeError:
                continue
        given = [type(v).__name__ for v in positional]
        given += [f"{name}: {type(v).__name__}" for name, v in named.items()]
        raise ArgumentError("TensorDesc", f"no constructor takes ({', '.join(given)})")

    @classmethod
    def _of(cls, desc: tensor.TensorDesc) -> "TensorDesc":
        made = object.__new__(cls)
        made._desc = desc
        return made

    @property
    def data_type(self) -> TensorDataType:
        """The type of the elements."""
        return TensorDataType[self._desc.data_type.name]

    @property
    def flags(self) -> TensorFlags:
        """Return the flags: whether the tensor is bound when a model is initialised."""
        return TensorFlags(int(self._desc.flags))

    @property
    def sizes(self) -> list[int]:
        """The elements of each dimension."""
        return list(self._desc.sizes)

    @property
    def strides(self) -> list[int] | None:
        """The elements from one index to the next of each dimension; None is packed."""
        return None if self._desc.strides is None else list(self._desc.strides)

    @property
    def total_tensor_size_in_bytes(self) -> int:
        """The bytes of the tensor."""
        return self._desc.total_tensor_size_in_bytes

    @property
    def guaranteed_base_offset_alignment(self) -> int:
        """The alignment of the first byte."""
        return self._desc.guaranteed_base_offset_alignment

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.sizes))
        kind, flags = self.data_type.value, self.flags.value
        return f"dml.TensorDesc of type {kind} and shape [{sizes}] with flags {flags}"


@converts_arguments
def _of_policy(
    data_type: TensorDataType,
    sizes: Sequence[int],
    tensor_policy: TensorPolicy = TensorPolicy.default,
) -> tensor.TensorDesc:
    return _of_flags(data_type, TensorFlags.NONE, sizes, tensor_policy)


@converts_arguments
def _of_flags(
    data_type: TensorDataType,
    flags: TensorFlags,
    sizes: Sequence[int],
    tensor_policy: TensorPolicy = TensorPolicy.default,
) -> tensor.TensorDesc:
    strides = tensor_policy._policy.strides(sizes)
    return tensor.TensorDesc(data_type.name, sizes, strides, flags.name)


@converts_arguments
def _of_strides(
    data_type: TensorDataType, sizes: Sequence[int], strides: Sequence[int] | None
) -> tensor.TensorDesc:
    return tensor.TensorDesc(data_type.name, sizes, strides)


@converts_arguments
def _of_all(
    data_type: TensorDataType,
    flags: TensorFlags,
    sizes: Sequence[int],
    strides: Sequence[int] | None,
    total_tensor_size_in_bytes: int,
    guaranteed_base_offset_alignment: int,
) -> tensor.TensorDesc:
    total, alignment = total_tensor_size_in_bytes, guaranteed_base_offset_alignment
    return tensor.TensorDesc(data_type.name, sizes, strides, flags.name, total, alignment)


_OVERLOADS = (_of_policy, _of_flags, _of_strides, _of_all)


class TensorData(np.ndarray):
    """A result of `Device.compute`: an array, which `numpy.array(data)` copies."""

    def __new__(cls, data: Any, /) -> "TensorData":
        """Return the array `data`, as float32."""
        return np.asarray(data, np.float32).view(cls)

    @classmethod
    def _of(cls, values: np.ndarray, desc: tensor.TensorDesc) -> "TensorData":
        """Return values that lie in memory as `desc` says; NaN lies between them."""
        if not desc.is_packed:
            # As in PyDirectML the elements lie apart; NaN between them shows who reads the gaps.
            empty = np.nan if values.dtype.kind == "f" else 0
            memory = np.full(desc.span, empty, values.dtype)
            steps = [stride * values.itemsize for stride in desc.strides or ()]
            placed = np.lib.stride_tricks.as_strided(memory, desc.sizes, steps)
            placed[...] = values
            values = placed
        return values.view(cls)
