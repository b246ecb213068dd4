"""Check arrays: their library, deleted buffers, shapes and types."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from numpy.ma import MaskedArray

from dml_jax.description.tensor import Placeholder, TensorDesc, shown_array
from dml_jax.enums import NO_BFLOAT16
from dml_jax.errors import DmlError, Fault, Unquoted, with_article

IS_PLAIN = "be one of JAX or NumPy"


def is_plain(array: Any) -> bool:
    """Return whether `array` is one of JAX or NumPy without a mask, which JAX does not have."""
    of_either = isinstance(array, (jax.Array, np.ndarray, np.generic))
    return of_either and not isinstance(array, MaskedArray)


def is_deleted(array: Any) -> bool:
    """Return whether `array` is one of JAX whose buffer was deleted or donated."""
    is_one = isinstance(array, jax.Array) and not isinstance(array, Tracer)
    return is_one and array.is_deleted()


def deleted(array: Any) -> Unquoted:
    return Unquoted(f"a deleted {shown_array(array)}")


def check_untraced(array: Any, place: str) -> None:
    """Raises `DmlError` where an array has no elements yet."""
    if isinstance(array, Tracer):
        raise DmlError([Fault("", place, "be there", Unquoted(f"a traced {shown_array(array)}"))])


def check_there(array: Any, place: str) -> None:
    """Raises `DmlError` where an array has no elements yet, or no more."""
    check_untraced(array, place)
    if is_deleted(array):
        raise DmlError([Fault("", place, "be there", deleted(array))])


def are_described(tensors: Sequence[TensorDesc], arrays: Sequence[Any]) -> bool:
    """Return whether there is an array for each tensor, of its sizes and type."""
    return len(arrays) == len(tensors) and all(map(_is_described, tensors, arrays))


def _is_described(tensor: TensorDesc, array: Any) -> bool:
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    # A program that has run before takes what is masked, without its mask (jax 0.10.2).
    is_one = not isinstance(array, (Placeholder, MaskedArray))
    return is_one and shape == tensor.sizes and dtype == tensor.dtype


def array_faults(
    name: str, tensors: Sequence[tuple[str, TensorDesc]], arrays: Sequence[Any]
) -> Iterator[Fault]:
    """Yield the faults of arrays that differ from their (path, tensor)."""
    if len(arrays) != len(tensors):
        rule = f"be {len(tensors)}, one for each input tensor"
        yield Fault(name, "the number of arrays", rule, len(arrays))
    for (path, tensor), array in zip(tensors, arrays, strict=False):
        if not _is_described(tensor, array):
            rule = f"be an array {array_of(tensor)}{_remedy(tensor, array)}"
            yield Fault(name, path, rule, shown_array(array))


def unusable(name: str, path: str, array: Any) -> Fault | None:
    """Return the fault of an array that fits its tensor but that JAX cannot use; else None."""
    if not is_plain(array):
        hint = " (x[...] is one)" if hasattr(array, "__jax_array__") else ""  # of flax
        return Fault(name, path, IS_PLAIN + hint, Unquoted(with_article(type(array))))
    return Fault(name, path, "be there", deleted(array)) if is_deleted(array) else None


def array_of(tensor: TensorDesc) -> str:
    """`float32[2,3]`, as `shown_array` has it of an array that a tensor describes."""
    return shown_array(jax.ShapeDtypeStruct(tensor.sizes, tensor.dtype))


def _remedy(tensor: TensorDesc, array: Any) -> str:
    """Return the hint that most likely helps where an array differs from its tensor."""
    shape = getattr(array, "shape", None)
    if isinstance(array, Placeholder):
        return " (only operators take these)"
    if isinstance(array, MaskedArray):
        return " without a mask (x.filled() makes one)"
    if isinstance(array, dict):
        return " (arrays by name are **inputs)"
    if shape is None or not hasattr(array, "dtype"):
        return " (jax.numpy.asarray makes one)"
    if shape == tensor.sizes and array.dtype == jax.numpy.bfloat16:
        return NO_BFLOAT16
    if shape == tensor.sizes:
        return f" (x.astype({tensor.dtype.name!r}) converts)" if _is_of_numbers(array) else ""
    return " (jax.vmap maps over a dimension more)" if shape[1:] == tensor.sizes else ""


def _is_of_numbers(array: Any) -> bool:
    numbers = (np.number, np.bool_)
    return is_plain(array) and any(jax.numpy.issubdtype(array.dtype, kind) for kind in numbers)
