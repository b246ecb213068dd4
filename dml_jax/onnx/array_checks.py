"""Checks of the arrays that a network is called with: their types, sizes and numbers."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from dml_jax.description.tensor import shown_array
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, nearest
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.files.types import WITHOUT_X64, Type


def fit_by_name(
    expect: Expect,
    word: str,
    given: Any,
    wanted: Mapping[str, Type],
    optional: Mapping[str, Type],
    cure: Callable[[str, Any], str] = lambda name, array: "",
) -> dict[str, Any]:
    """Return the arrays that are inputs or weights (`word`), by name.

    Args:
        expect: takes what does not fit.
        word: what they are.
        given: the arrays.
        wanted: the types of those that have to be given.
        optional: the types of those that may be left out.
        cure: returns what a message says behind the sizes of one that does not fit.
    """
    known = {**wanted, **optional}
    first = next(iter(wanted), "name")
    rule = f"be a dict, {{{first!r}: array}}"
    if not expect(isinstance(given, Mapping), f"{word}s", rule, shown_array(given)):
        return {}
    # A name that is unknown and one that is missing are often the same one, spelled wrongly: both
    # are said, with the nearest known name.
    for name in given:
        rule = f"name {'an' if word == 'input' else 'a'} {word}{nearest(name, known)}"
        expect(name in known, f"{word}s", rule, name)
    values = {}
    for name, kind in known.items():
        if name in optional and name not in given:
            continue
        where = f"the {word} '{name}'"
        if not expect(name in given, where, "be given", Unquoted("nothing")):
            continue
        array, accepted = given[name], _accepted_types(kind)
        rule = f"be {accepted[0].name}{list(kind.shape or ())}{cure(name, array)}"
        fits = getattr(array, "shape", None) == kind.shape
        fits = fits and np.dtype(array.dtype) in accepted
        if expect(fits, where, rule, shown_array(array)):
            values[name] = array
    return values


def type_of(array: Any) -> Type:
    return Type(np_dtype_to_tensor_dtype(np.dtype(array.dtype)), tuple(array.shape))


def _accepted_types(kind: Type) -> list[np.dtype]:
    """Return the types of arrays that stand for a tensor, ONNX's own first."""
    # DirectML has no type of truth values: an array of UINT8 is what a graph computes with.
    if kind.dtype == bool:
        return [kind.dtype, np.dtype(np.uint8)]
    known = [kind.dtype, kind.array_dtype]
    is_float32 = kind.has_inner and kind.inner.dtype == np.float32
    return [*known, np.dtype(np.float32), BFLOAT16] if is_float32 else known


# Exports of language models sum masks and positions in INT64. With these bounds the sums fit INT32,
# which is all that JAX has by default.
_BOUNDS = {"attention_mask": (0, 1), "position_ids": (0, (1 << 24) - 1)}


def bounds_of(name: str, kind: Type) -> tuple[int, int] | None:
    """Return the bounds of an input of tokens, whose sums fit 32 bits then; None for others."""
    found = next((bounds for end, bounds in _BOUNDS.items() if name.endswith(end)), None)
    return found if kind.name == "INT64" else None


def as_given(name: str, array: Any, kind: Type | None) -> Any:
    """Return an array that JAX takes as it is; numbers of Python have the type of the input.

    Raises `DmlError` where it would be cut.
    """
    # An array of JAX has lost its 64 bits where it was made, and JAX has warned there.
    if isinstance(array, jax.Array) or has_x64():
        return array
    given, array = array, np.asarray(array)
    if array.dtype == np.float64 and (kind is None or kind.is_floating):
        # A float of Python has no type of its own. An array of NumPy has, and halving its bits
        # without a word would be a surprise.
        if kind is not None and not hasattr(given, "dtype"):
            return array.astype(kind.dtype)
        rule = "have no 64 bits (x.astype('float32') converts)"
        raise DmlError([Fault("", f"the input '{name}'", rule, shown_array(array))])
    bounds = kind and bounds_of(name, kind)
    if bounds and array.size and (array.min() < bounds[0] or array.max() > bounds[1]):
        rule = f"have elements in [{bounds[0]}, {bounds[1]}] {WITHOUT_X64}"
        raise DmlError([Fault("", f"the input '{name}'", rule, array)])
    if array.dtype not in (np.int64, np.uint64):
        return array
    # JAX would cut the upper 32 bits and warn; indices and sizes would be wrong ones.
    narrow = array.astype(np.int32 if array.dtype == np.int64 else np.uint32)
    if not np.array_equal(narrow, array):
        rule = f"have elements that fit {narrow.dtype.name} {WITHOUT_X64}"
        raise DmlError([Fault("", f"the input '{name}'", rule, array)])
    return narrow
