"""Keys of cached calls: the type and sizes of each array, the values of attributes."""

import enum
from typing import Any

import numpy as np

from dml_jax.description.descriptor import Descriptor
from dml_jax.description.tensor import TensorDesc
from dml_jax.graph import Expression
from dml_jax.operator import FusedActivation

NUMBERS: tuple[type, ...] = (bool, int, float, complex, np.int64)  # np.float64 is a float
_VALUES = (enum.Enum, Descriptor, FusedActivation, TensorDesc, type, np.dtype)


def tensor_key(value: Any) -> Any:
    """Return what the description of an array, or of a list of arrays, is kept by."""
    kind = type(value)
    if kind is Expression:  # graphs beyond DirectML make other nodes of the same tensors
        return (value.desc, "beyond") if value.builder.beyond else value.desc
    if value is None or kind in NUMBERS:
        return kind
    if kind is list or kind is tuple:
        return tuple(map(tensor_key, value))
    try:
        return value.dtype, value.shape
    except AttributeError:
        raise TypeError from None  # no array; a call says so


def either_key(value: Any) -> Any:
    """Return the key of an argument that one version reads as an array, another as a number."""
    return value_key(value) if isinstance(value, NUMBERS) else tensor_key(value)


def value_key(value: Any) -> Any:
    """Return what an attribute is kept by: floats by their bits, and 1, 1.0 and True apart."""
    kind = type(value)
    if kind is int or kind is bool or kind is str or value is None:
        return kind, value
    if isinstance(value, (float, np.floating)):
        return kind, float(value).hex()
    if isinstance(value, (list, tuple, range)):
        is_plain = all(type(item) is int for item in value)
        return (int, tuple(value)) if is_plain else tuple(map(value_key, value))
    if isinstance(value, (*_VALUES, np.generic)):
        return kind, value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype, value.shape, value.tobytes()
    raise TypeError  # an iterator, or something else that a key cannot stand for
