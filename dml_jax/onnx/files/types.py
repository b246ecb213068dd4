"""The type and shape of a tensor of ONNX."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

from dml_jax.enums import TensorDataType
from dml_jax.errors import OF_SIZES, DmlError, Fault, Sentence, Unquoted
from dml_jax.lowering.dtypes import has_x64

Shape = tuple[int, ...]

_DENSE_MAX = 1 << 28  # bytes of a sparse tensor with its zeros

_TYPES = {
    TensorProto.FLOAT: TensorDataType.FLOAT32,
    TensorProto.FLOAT16: TensorDataType.FLOAT16,
    TensorProto.BFLOAT16: TensorDataType.FLOAT32,  # DirectML lacks it: `dml_jax.graph.bfloat16`
    TensorProto.DOUBLE: TensorDataType.FLOAT64,
    TensorProto.BOOL: TensorDataType.UINT8,
    **{
        TensorProto.DataType.Value(f"{sign}{bits}"): TensorDataType[f"{sign}{bits}"]
        for sign in ("INT", "UINT")
        for bits in (4, 8, 16, 32, 64)
    },
}

# While 64-bit types are off in JAX.
_NARROWED = {
    TensorDataType.INT64: TensorDataType.INT32,
    TensorDataType.UINT64: TensorDataType.UINT32,
}

QUANTIZED = {TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4}

WITHOUT_X64 = (
    'while 64-bit types are off in JAX (turn them on: jax.config.update("jax_enable_x64", True))'
)

ELEMENTS_MAX = 2**32 - 1

_NO_ARRAYS = {TensorProto.STRING, TensorProto.UNDEFINED}


def index_type() -> TensorDataType:
    """Return DirectML's type of ONNX's INT64, in which places and sizes are computed."""
    return TensorDataType.INT64 if has_x64() else TensorDataType.INT32


def _without_x64(kind: "Type") -> DmlError:
    more = "; most nodes of DOUBLE need fallback=True too" if kind.name == "DOUBLE" else ""
    return DmlError([Fault("", "", f"have another type {WITHOUT_X64}{more}", Unquoted(kind.name))])


class Type(NamedTuple):
    """An ONNX tensor's type of elements, and its shape; None where it is not known at load."""

    element: int
    shape: Shape | None

    @classmethod
    def of(cls, proto: TypeProto | None) -> "Type | None":
        """Return the type of a tensor; None for another kind of value, and for None."""
        if proto is None or not proto.HasField("tensor_type"):
            return None
        tensor = proto.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        is_known = tensor.HasField("shape") and min(dims, default=0) >= 0
        return cls(tensor.elem_type, tuple(dims) if is_known else None)

    def __repr__(self) -> str:
        """Return the type as a reader writes it: `FLOAT[1, 3]`, and `FLOAT[...]` without sizes."""
        return f"{self.name}{'[...]' if self.shape is None else [*self.shape]}"

    @property
    def name(self) -> str:
        """Return ONNX's name of the type of elements."""
        try:
            return TensorProto.DataType.Name(self.element)
        except ValueError:
            return f"data type {self.element}"

    @property
    def dtype(self) -> np.dtype:
        """Return NumPy's type of the elements."""
        return np.dtype(tensor_dtype_to_np_dtype(self.element))

    @property
    def inner(self) -> TensorDataType:
        """Return the type of the elements inside: BOOL is UINT8, and 64 bits are 32 without x64.

        A type that DirectML lacks is a member of its own. Raises `DmlError` where JAX lacks it too.
        """
        kind = _TYPES.get(self.element)
        if kind is None:
            return TensorDataType.of_dtype(self.array_dtype, beyond=True)
        if kind.bits < 64 or has_x64():
            return kind
        if kind is TensorDataType.FLOAT64:
            raise _without_x64(self)
        return _NARROWED[kind]

    def edge_type(self, beyond: bool = False) -> TensorDataType:
        """Return `inner`, which must be one of DirectML unless a graph may go `beyond` it.

        Raises `DmlError` where it is none.
        """
        if not beyond and self.element not in _TYPES:
            cure = " (sessions of ONNX Runtime take strings)" * (self.name == "STRING")
            raise DmlError([Fault("", "", "have a type of DirectML", Unquoted(self.name + cure))])
        return self.inner

    @property
    def has_inner(self) -> bool:
        """Return whether DirectML has the type of the elements."""
        return self.element in _TYPES

    @property
    def array_dtype(self) -> np.dtype:
        """Return the type of the elements of JAX's arrays: as ONNX's, 64 bits are 32 without x64.

        Raises `DmlError` where JAX lacks it.
        """
        if self.element in _NO_ARRAYS or self.element not in TensorProto.DataType.values():
            raise DmlError([Fault("", "", "have a type of JAX", Unquoted(self.name))])
        if self.element == TensorProto.DOUBLE and not has_x64():
            raise _without_x64(self)
        kind = _TYPES.get(self.element, TensorDataType.UNKNOWN)
        narrowed = None if has_x64() else _NARROWED.get(kind)
        return self.dtype if narrowed is None else narrowed.dtype

    @property
    def is_floating(self) -> bool:
        """Return whether the elements are floating-point numbers."""
        return self.name.startswith(("FLOAT", "DOUBLE", "BFLOAT"))

    @property
    def real(self) -> TensorDataType:
        """Return DirectML's type of the real numbers in which integers are computed."""
        is_wide = self.dtype.itemsize == 8 and has_x64()
        return TensorDataType.FLOAT64 if is_wide else TensorDataType.FLOAT32

    @property
    def is_small(self) -> bool:
        """Return whether the elements are floats of 8 bits or less, or integers of less."""
        return self.element not in _NO_ARRAYS and bool(
            re.search(r"float[48]|int[24]$", self.dtype.name)
        )

    @property
    def is_empty(self) -> bool:
        """Return whether a tensor of this type has no elements."""
        return self.shape is not None and 0 in self.shape

    @property
    def element_count(self) -> int:
        """Return the number of elements; that of a scalar where the shape is not known."""
        return math.prod(self.shape or ())

    @property
    def size_in_bytes(self) -> int:
        """Return the bytes that the elements take."""
        return self.element_count * self.dtype.itemsize


COUNT = Type(TensorProto.INT64, ())


def dimension_in(sizes: Shape, axis: int, shape: Shape) -> int | None:
    """Return the dimension of `sizes` that has the elements of `axis` of `shape`, None if none has.

    Both are sizes of the same elements.
    """
    before = math.prod(shape[:axis])
    places = (k for k, n in enumerate(sizes) if n == shape[axis] and math.prod(sizes[:k]) == before)
    return next(places, None)


def expect_no_more(kind: Type, where: str) -> None:
    """Raise `DmlError` where a tensor has more elements than DirectML's have at most."""
    if kind.element_count > ELEMENTS_MAX:
        rule = f"hold at most {ELEMENTS_MAX} elements, as DirectML's tensors"
        raise DmlError([Fault("", where, rule, kind.element_count, kind=OF_SIZES)])


def fitting(name: str, array: np.ndarray, kind: Type) -> np.ndarray:
    """Return the elements of a constant. Raises `DmlError` where 32 bits would cut integers."""
    if array.dtype.kind in "iu" and not np.array_equal(array.astype(kind.array_dtype), array):
        rule = f"fit {kind.inner.suffix} {WITHOUT_X64}"
        raise DmlError([Fault("", f"the constant '{name}'", rule, array)])
    return array


def expect_sizes(tensor: onnx.TensorProto) -> None:
    """Raise `DmlError` where a tensor of a file has a negative size, which NumPy would work out."""
    if min(tensor.dims, default=0) < 0:
        field = f"the sizes of '{tensor.name}'"
        raise DmlError([Fault("", field, "be 0 or more", list(tensor.dims))])


@contextlib.contextmanager
def readable(where: str) -> Iterator[None]:
    """Raise an error of ONNX's reader inside as a `DmlError` that names the tensor `where`."""
    try:
        yield
    except DmlError:
        raise
    except Exception as error:  # the package onnx has another class for each way to be broken
        text = " ".join(str(error).split()) or type(error).__name__
        rule = Sentence(f"{where} cannot be read: {text}")
        raise DmlError([Fault("", where, rule, "")]) from None


def elements_of(tensor: onnx.TensorProto) -> np.ndarray:
    """Return the elements of a tensor that stand in the model. Raises `DmlError`."""
    expect_sizes(tensor)
    with readable(f"the tensor '{tensor.name}'"):
        return numpy_helper.to_array(tensor)


def dense(
    sparse: onnx.SparseTensorProto,
    array_of: Callable[[onnx.TensorProto], np.ndarray] = elements_of,
) -> np.ndarray:
    """Return the elements of a sparse tensor, with zeros filled in; `array_of` reads its tensors.

    Raises `DmlError` where an element lies outside, and for too many zeros.
    """
    values, places = (array_of(t) for t in (sparse.values, sparse.indices))
    sizes, where = tuple(sparse.dims), f"the elements of '{sparse.values.name}'"
    if min(sizes, default=0) < 0 or math.prod(sizes) * values.itemsize > _DENSE_MAX:
        rule = f"take at most {_DENSE_MAX} bytes with the zeros between them"
        raise DmlError([Fault("", where, rule, list(sizes))])
    array = np.zeros(sizes, values.dtype)
    try:
        at = np.unravel_index(places, array.shape) if places.ndim == 1 else tuple(places.T)
        if places.ndim != 1 and bool((places < 0).any()):
            raise IndexError
        array[at] = values
    except (IndexError, TypeError, ValueError):
        raise DmlError([Fault("", where, f"lie within the sizes {[*sizes]}", places)]) from None
    return array
