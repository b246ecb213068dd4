"""Checks what a run is given, with the exceptions of ONNX Runtime."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dml_jax.errors import nearest
from dml_jax.onnxruntime.errors import Fail, InvalidArgument, sentence
from dml_jax.onnxruntime.metadata import NodeArg, tensor_text
from dml_jax.onnxruntime.ort_values import OrtValue
from dml_jax.runtime.recently_used import RecentlyUsed

_PASSED_MAX = 4096  # a key is small, and the stages of most of these sizes are gone by then
_ELEMENTS = {tensor_text(k): k for k in TensorProto.DataType.values() if k}


class InputChecks:
    """Checks the values of runs.

    Args:
        inputs: the inputs that have to be given, by name.
        defaults: those that may be left out.
    """

    def __init__(self, inputs: Mapping[str, NodeArg], defaults: Mapping[str, NodeArg]):
        self._inputs, self._defaults = inputs, defaults
        optional = (name for name, arg in inputs.items() if arg.type.startswith("optional("))
        self._absent = dict.fromkeys(optional)
        # The sizes and types of arrays that passed: a small model computes faster than the checks.
        self._passed = RecentlyUsed[bool](_PASSED_MAX)

    def values(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a run by name, as arrays of the types of the inputs.

        Raises `ValueError` where an input is missing, `InvalidArgument` for a name, a type, a rank
        or a size that the model does not have, and `RuntimeError` for what is no array.
        """
        feeds = {**self._absent, **feeds} if self._absent else feeds
        key = self._key(feeds)
        if key is not None and key in self._passed:
            return dict(feeds)
        self.expect_all(feeds)
        values = {name: _value(value, self._input(name)) for name, value in feeds.items()}
        # The key of what came out: a list, or an array of another byte order, is not an array that
        # may pass as it is.
        key = self._key(values)
        if key is not None:
            self._passed.put(key, True)
        return values

    def expect_all(self, feeds: Mapping[str, Any]) -> None:
        """Raise `ValueError` where an input is missing."""
        missing = [name for name in self._inputs if name not in feeds]
        if missing:
            text = f"expected the inputs {_list_text(self._inputs)} to be given, got "
            unknown = [name for name in feeds if name not in {*self._inputs, *self._defaults}]
            cure = f"add {_list_text(missing)}"
            if len(unknown) == len(missing):
                cure = f"rename {_list_text(unknown)} to {_list_text(missing)}"
            raise sentence(f"{text}{_list_text(feeds)}: {cure}")

    def _key(self, feeds: Mapping[str, Any]) -> Hashable:
        """Return the sizes and types of the inputs; None unless each is an array of NumPy."""
        if len(feeds) != len(self._inputs):
            return None
        arrays: list[Any] = [feeds.get(name) for name in self._inputs]
        if not all(type(array) is np.ndarray for array in arrays):
            return None
        return tuple((array.shape, array.dtype) for array in arrays)

    def _input(self, name: str) -> NodeArg:
        kind = self._inputs.get(name) or self._defaults.get(name)
        if kind is None:
            raise _unknown("input", name, self._inputs, [*self._inputs, *self._defaults])
        return kind


def expect_outputs(names: Any, known: Sequence[str]) -> Sequence[str]:
    """Return the outputs that a run asks for: all of them for None or none.

    Raises `InvalidArgument` for a name that the model does not have, `TypeError` for what is none.
    """
    if names is None or len(names) == 0:
        return known
    if isinstance(names, str):
        raise TypeError(f"expected output_names to be a list of names, got {names!r}: [{names!r}]")
    for name in names:
        if name not in known:
            raise _unknown("output", name, known, known)
    return names


def _unknown(what: str, name: Any, shown: Any, known: Sequence[str]) -> Exception:
    """Return the error of a name that is not among the `known` ones."""
    text = f"expected the name of an {what} ({_list_text(shown)}), got {name!r}"
    if isinstance(name, str):
        return InvalidArgument(text + nearest(name, known))
    return TypeError(text)


def _list_text(names: Any) -> str:
    return ", ".join(map(repr, names)) or "none"


def _value(value: Any, kind: NodeArg) -> Any:
    """Return a value as the input takes it."""
    if isinstance(value, OrtValue):
        value = value.held
    word, _, inner = kind.type[:-1].partition("(")
    if word == "optional":
        return None if value is None else _value(value, NodeArg(kind.name, kind.shape, inner))
    if value is None:
        raise Fail(f"expected the input {kind.name!r} to be {shown(kind)}, got None")
    if word == "seq" and isinstance(value, list):
        items = (NodeArg(f"{kind.name}[{k}]", [], inner) for k in range(len(value)))
        return [*map(_value, value, items)]
    if word == "map" and isinstance(value, dict):
        return value
    if word != "tensor":
        raise _misfit(value, kind)
    element = _ELEMENTS[kind.type]
    if element == TensorProto.STRING:
        array = _strings(value, kind)
    else:
        array = _numbers(value, kind, np.dtype(helper.tensor_dtype_to_np_dtype(element)))
    _check_shape(array.shape, kind)
    return array


def _misfit(value: Any, kind: NodeArg) -> Exception:
    """Return the error of a value that is not what Python has for a type."""
    what = {"seq": "a list", "map": "a dict"}.get(kind.type.partition("(")[0], "an array")
    text = f"expected the input {kind.name!r} to be {what} ({shown(kind)}), got "
    is_known = isinstance(value, (np.ndarray, dict))  # to ONNX Runtime, for another type
    return (InvalidArgument if is_known else RuntimeError)(text + type(value).__name__)


def _strings(value: Any, kind: NodeArg) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.dtype.kind not in "OU":
        text = f"expected the input {kind.name!r} to be {kind.type}, got "
        raise InvalidArgument(f"{text}{_text_of(array.dtype)}")
    return array.astype(object)


def _numbers(value: Any, kind: NodeArg, dtype: np.dtype) -> Any:
    if not hasattr(value, "dtype") and isinstance(value, (list, tuple, bool, int, float)):
        return _of_list(value, kind, dtype)
    if not any(hasattr(value, name) for name in ("dtype", "__array__", "__dlpack__")):
        raise _misfit(value, kind)
    if not isinstance(value, np.ndarray) and not hasattr(value, "addressable_shards"):
        value = np.asarray(value)
    if value.dtype != dtype:
        if isinstance(value, np.ndarray) and value.dtype.newbyteorder("=") == dtype:
            return value.astype(dtype)
        cure = f"{kind.name}.astype(numpy.{dtype.name})"
        text = f"expected the input {kind.name!r} to be {kind.type}, got {_text_of(value.dtype)}"
        raise InvalidArgument(f"{text}: pass {cure}")
    return value


def _of_list(value: Any, kind: NodeArg, dtype: np.dtype) -> np.ndarray:
    """Return the array of a list or a number; no number of it may change."""
    try:
        given = np.asarray(value)
        if given.dtype.kind not in "biuf":
            raise ValueError("they are no numbers")
        with np.errstate(all="ignore"):
            array = given.astype(dtype)
        if dtype.kind in "biu" and given.size and not np.array_equal(array, given):
            raise ValueError(f"{dtype.name} cannot hold them")
    except ValueError as error:
        text = f"expected the list of the input {kind.name!r} to make {shown(kind)}: {error}"
        raise RuntimeError(text) from None
    return array


def _text_of(dtype: Any) -> str:
    if np.dtype(dtype).kind in "OU":
        return "tensor(string)"
    try:
        return tensor_text(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    except (KeyError, ValueError):
        return f"elements of {np.dtype(dtype).name}"


def shown(kind: NodeArg) -> str:
    """Return the type and sizes of an input for a message: `tensor(float) [batch, 3]`."""
    sizes = ", ".join("?" if size is None else str(size) for size in kind.shape)
    return f"{kind.type} [{sizes}]" if kind.shape else kind.type


def _check_shape(shape: Sequence[int], kind: NodeArg) -> None:
    if not kind.shape:  # ONNX Runtime takes any sizes for a scalar, as for what has no sizes
        return
    text = f"expected the input {kind.name!r} to be {shown(kind)}, got the sizes {list(shape)}"
    if len(shape) != len(kind.shape):
        raise InvalidArgument(
            f"{text}: there are {len(kind.shape)} dimensions in the model, and {len(shape)} here"
        )
    for k, (size, wanted) in enumerate(zip(shape, kind.shape, strict=True)):
        if isinstance(wanted, int) and wanted >= 0 and size != wanted:
            raise InvalidArgument(
                f"{text}: dimension {k} has size {wanted} in the model, and {size} here"
            )
