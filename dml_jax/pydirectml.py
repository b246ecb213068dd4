"""Microsoft's Python module `pydirectml`, whose programs run here as they are.

`import dml_jax.pydirectml as dml` in a program, or run an unmodified one with
`python -m dml_jax.pydirectml PROGRAM.py [ARGUMENTS]`, for which `import pydirectml` finds this
module. Functions, classes, argument names and defaults are PyDirectML's (DirectML 1.9.1).

Choices, where PyDirectML crashes, reads foreign memory or loses a value:

- `f / x` is f / x (DirectMLX computes 1 / (f * x)).
- `TensorPolicy.default` and `.interleaved_channel` can be read, and a `GraphBuilder` takes one.
- A tensor that is not FLOAT32 is bound from an array of its own type, or from numbers that its type
  holds; float32 data of another 32-bit type are bits, as in PyDirectML. A result has the type of
  its tensor.
- Inputs are matched by position, and checked. Outputs are those that `build` was given, in any
  order.
- An error is a `PyDirectMLError`, which is a `DmlError` and, as in PyDirectML, a `RuntimeError`.
  An argument of another type raises `TypeError`.
"""

import enum
import functools
import importlib
import inspect
import itertools
import operator
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from dml_jax import compiled, graph, tensor
from dml_jax.descriptor import ScaleBias
from dml_jax.descriptor import Size2D as _Size2D
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.operator import OPERATORS
from dml_jax.operator import FusedActivation as _Fused


class PyDirectMLError(DmlError, RuntimeError):
    """Carries every fault of a call, as `DmlError` does."""


def _refuse(where: str, field: str, rule: str, value: object) -> PyDirectMLError:
    return PyDirectMLError([Fault(f"pydirectml.{where}", field, rule, value)])


# Enumerations. The members of all but OutputOptions are attributes of the module too.


class _Enum(enum.Enum):
    """An enumeration whose members are no integers, but convert to them."""

    def __int__(self) -> int:
        return self.value

    __index__ = __int__


def _bits(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: _Enum, other: Any) -> Any:
        if not isinstance(other, (int, type(self))):
            return NotImplemented
        return function(int(self), int(other))

    return method


class _Arithmetic(_Enum):
    """An enumeration whose members compare and combine with integers, to integers."""

    __and__ = __rand__ = _bits("and_")
    __or__ = __ror__ = _bits("or_")
    __xor__ = __rxor__ = _bits("xor")
    __lt__, __le__, __gt__, __ge__ = _bits("lt"), _bits("le"), _bits("gt"), _bits("ge")
    __eq__ = _bits("eq")  # pyright: ignore[reportAssignmentType]
    __ne__ = _bits("ne")  # pyright: ignore[reportAssignmentType]

    def __invert__(self) -> int:
        return ~int(self)

    def __hash__(self) -> int:
        return hash(self.value)


class TensorDataType(_Enum):
    """The type of a tensor's elements."""

    UNKNOWN = 0
    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11


class TensorFlags(_Enum):
    """Whether memory is bound when a model is initialised."""

    NONE = 0
    OWNED_BY_DML = 1


class MatrixTransform(_Enum):
    """Whether a matrix is transposed."""

    NONE = 0
    TRANSPOSE = 1


class RecurrentNetworkDirection(_Enum):
    """The order in which a sequence is read."""

    FORWARD = 0
    BACKWARD = 1
    BIDIRECTIONAL = 2


class OutputOptions(_Arithmetic):
    """The outputs of `gru`."""

    Both = 0
    Sequence = 1
    Single = 2


class ConvolutionMode(_Enum):
    """Whether the filter is turned."""

    CONVOLUTION = 0
    CROSS_CORRELATION = 1


class ConvolutionDirection(_Enum):
    """Whether a convolution is transposed."""

    FORWARD = 0
    BACKWARD = 1


class InterpolationMode(_Enum):
    """How elements between others are computed."""

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class PaddingMode(_Enum):
    """What padding repeats."""

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2


class ExecutionFlags(_Arithmetic):
    """Flags of `GraphBuilder.build`, which change nothing here."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class OperatorType(_Enum):
    """The operators of feature levels 1_0 and 2_0, which include all activations."""

    INVALID = 0
    ELEMENT_WISE_IDENTITY = 1
    ELEMENT_WISE_ABS = 2
    ELEMENT_WISE_ACOS = 3
    ELEMENT_WISE_ADD = 4
    ELEMENT_WISE_ASIN = 5
    ELEMENT_WISE_ATAN = 6
    ELEMENT_WISE_CEIL = 7
    ELEMENT_WISE_CLIP = 8
    ELEMENT_WISE_COS = 9
    ELEMENT_WISE_DIVIDE = 10
    ELEMENT_WISE_EXP = 11
    ELEMENT_WISE_FLOOR = 12
    ELEMENT_WISE_LOG = 13
    ELEMENT_WISE_LOGICAL_AND = 14
    ELEMENT_WISE_LOGICAL_EQUALS = 15
    ELEMENT_WISE_LOGICAL_GREATER_THAN = 16
    ELEMENT_WISE_LOGICAL_LESS_THAN = 17
    ELEMENT_WISE_LOGICAL_NOT = 18
    ELEMENT_WISE_LOGICAL_OR = 19
    ELEMENT_WISE_LOGICAL_XOR = 20
    ELEMENT_WISE_MAX = 21
    ELEMENT_WISE_MEAN = 22
    ELEMENT_WISE_MIN = 23
    ELEMENT_WISE_MULTIPLY = 24
    ELEMENT_WISE_POW = 25
    ELEMENT_WISE_CONSTANT_POW = 26
    ELEMENT_WISE_RECIP = 27
    ELEMENT_WISE_SIN = 28
    ELEMENT_WISE_SQRT = 29
    ELEMENT_WISE_SUBTRACT = 30
    ELEMENT_WISE_TAN = 31
    ELEMENT_WISE_THRESHOLD = 32
    ELEMENT_WISE_QUANTIZE_LINEAR = 33
    ELEMENT_WISE_DEQUANTIZE_LINEAR = 34
    ACTIVATION_ELU = 35
    ACTIVATION_HARDMAX = 36
    ACTIVATION_HARD_SIGMOID = 37
    ACTIVATION_IDENTITY = 38
    ACTIVATION_LEAKY_RELU = 39
    ACTIVATION_LINEAR = 40
    ACTIVATION_LOG_SOFTMAX = 41
    ACTIVATION_PARAMETERIZED_RELU = 42
    ACTIVATION_PARAMETRIC_SOFTPLUS = 43
    ACTIVATION_RELU = 44
    ACTIVATION_SCALED_ELU = 45
    ACTIVATION_SCALED_TANH = 46
    ACTIVATION_SIGMOID = 47
    ACTIVATION_SOFTMAX = 48
    ACTIVATION_SOFTPLUS = 49
    ACTIVATION_SOFTSIGN = 50
    ACTIVATION_TANH = 51
    ACTIVATION_THRESHOLDED_RELU = 52
    CONVOLUTION = 53
    GEMM = 54
    REDUCE = 55
    AVERAGE_POOLING = 56
    LP_POOLING = 57
    MAX_POOLING = 58
    ROI_POOLING = 59
    SLICE = 60
    CAST = 61
    SPLIT = 62
    JOIN = 63
    PADDING = 64
    VALUE_SCALE_2D = 65
    UPSAMPLE_2D = 66
    GATHER = 67
    SPACE_TO_DEPTH = 68
    DEPTH_TO_SPACE = 69
    TILE = 70
    TOP_K = 71
    BATCH_NORMALIZATION = 72
    MEAN_VARIANCE_NORMALIZATION = 73
    LOCAL_RESPONSE_NORMALIZATION = 74
    LP_NORMALIZATION = 75
    RNN = 76
    LSTM = 77
    GRU = 78
    ELEMENT_WISE_SIGN = 79
    ELEMENT_WISE_IS_NAN = 80
    ELEMENT_WISE_ERF = 81
    ELEMENT_WISE_SINH = 82
    ELEMENT_WISE_COSH = 83
    ELEMENT_WISE_TANH = 84
    ELEMENT_WISE_ASINH = 85
    ELEMENT_WISE_ACOSH = 86
    ELEMENT_WISE_ATANH = 87
    ELEMENT_WISE_IF = 88
    ELEMENT_WISE_ADD1 = 89
    ACTIVATION_SHRINK = 90
    MAX_POOLING1 = 91
    MAX_UNPOOLING = 92
    DIAGONAL_MATRIX = 93
    SCATTER = 94
    ONE_HOT = 95
    RESAMPLE = 96


_EXPORTED = (
    *(TensorDataType, TensorFlags, MatrixTransform, RecurrentNetworkDirection, ConvolutionMode),
    *(ConvolutionDirection, InterpolationMode, PaddingMode, ExecutionFlags, OperatorType),
)
for _enumeration in _EXPORTED:  # a later NONE, FORWARD or CONVOLUTION takes the name, as there
    globals().update(_enumeration.__members__)


# Arguments, which are converted as pybind11 does.

_MISFIT: Any = object()


def _converted(value: Any, hint: Any) -> Any:
    """Return an argument as its type hint says, or `_MISFIT`."""
    if isinstance(hint, types.UnionType):
        taken = (_converted(value, choice) for choice in typing.get_args(hint))
        return next((one for one in taken if one is not _MISFIT), _MISFIT)
    if typing.get_origin(hint) is Sequence:
        if not isinstance(value, (list, tuple, np.ndarray)):
            return _MISFIT
        items = [_converted(item, typing.get_args(hint)[0]) for item in value]
        return _MISFIT if any(item is _MISFIT for item in items) else items
    if hint is float:
        return float(value) if isinstance(value, _NUMBERS) else _MISFIT
    if hint is bool:
        return bool(value) if isinstance(value, (bool, int, np.bool_, np.integer)) else _MISFIT
    if hint is int:
        is_integer = isinstance(value, (int, np.integer, _Arithmetic))
        return operator.index(value) if is_integer else _MISFIT
    return value if hint is Any or isinstance(value, hint) else _MISFIT


_NUMBERS = (bool, int, float, np.integer, np.floating)


def _named(hint: Any) -> str:
    if isinstance(hint, types.UnionType):
        return " or ".join(map(_named, typing.get_args(hint)))
    if typing.get_origin(hint) is Sequence:
        return f"a list of {_named(typing.get_args(hint)[0])}"
    return "None" if hint is type(None) else hint.__name__


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _checked(function: _Function) -> _Function:
    """Return the function, which converts its arguments and raises PyDirectML's kinds of errors."""
    signature = inspect.signature(function)
    where = function.__qualname__.removesuffix(".__init__").removesuffix(".__new__")
    hints: dict[str, Any] = {}

    @functools.wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        hints.update({} if hints else typing.get_type_hints(function))
        try:
            bound = signature.bind(*positional, **named)
        except TypeError as error:
            raise TypeError(f"pydirectml.{where}: {error}") from None
        for argument, value in bound.arguments.items():
            hint = hints.get(argument, Any)
            taken = _converted(value, hint)
            if taken is _MISFIT:
                got = type(value).__name__
                text = f"argument {argument!r} must be {_named(hint)}, not {got}"
                raise TypeError(f"pydirectml.{where}: {text}")
            bound.arguments[argument] = taken
        try:
            return function(*bound.args, **bound.kwargs)
        except PyDirectMLError:
            raise
        except DmlError as error:
            raise PyDirectMLError(error.faults) from None

    return typing.cast(_Function, call)


# Tensors.


class TensorPolicy:
    """How the outputs of operators lie in memory: `default`, or `interleaved_channel`."""

    default: "TensorPolicy"
    interleaved_channel: "TensorPolicy"

    def __init__(self) -> None:
        raise TypeError("pydirectml.TensorPolicy: no constructor (see its attributes)")

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
        raise TypeError("pydirectml.Dimensions: no constructor (give a list of integers)")


def _by_policy(
    data_type: TensorDataType, flags: TensorFlags, sizes: Any, policy: TensorPolicy
) -> tensor.TensorDesc:
    strides = policy._policy.strides(sizes)
    return tensor.TensorDesc(data_type.name, sizes, strides, flags.name)


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
        for make in _OVERLOADS:
            try:
                self._desc = make(*positional, **named)
                return
            except TypeError:
                continue
        given = [type(v).__name__ for v in positional]
        given += [f"{name}: {type(v).__name__}" for name, v in named.items()]
        text = f"no constructor takes ({', '.join(given)})"
        raise TypeError(f"pydirectml.TensorDesc: {text}")

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
        """Whether the tensor is bound when a model is initialised."""
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


@_checked
def _of_policy(
    data_type: TensorDataType,
    sizes: Sequence[int],
    tensor_policy: TensorPolicy = TensorPolicy.default,
) -> tensor.TensorDesc:
    return _by_policy(data_type, TensorFlags.NONE, sizes, tensor_policy)


@_checked
def _of_flags(
    data_type: TensorDataType,
    flags: TensorFlags,
    sizes: Sequence[int],
    tensor_policy: TensorPolicy = TensorPolicy.default,
) -> tensor.TensorDesc:
    return _by_policy(data_type, flags, sizes, tensor_policy)


@_checked
def _of_strides(
    data_type: TensorDataType, sizes: Sequence[int], strides: Sequence[int] | None
) -> tensor.TensorDesc:
    return tensor.TensorDesc(data_type.name, sizes, strides)


@_checked
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
            empty = np.nan if values.dtype.kind == "f" else 0
            memory = np.full(desc.span, empty, values.dtype)
            steps = [stride * values.itemsize for stride in desc.strides or ()]
            placed = np.lib.stride_tricks.as_strided(memory, desc.sizes, steps)
            placed[...] = values
            values = placed
        return values.view(cls)


class Size2D:
    """A width and a height."""

    @_checked
    def __init__(self, width: int, height: int, /) -> None:
        self.width, self.height = width, height


class FusedActivation:
    """An activation that an operator applies to its result.

    Args:
        activation: the activation; INVALID is none.
        param_1, param_2: its parameters in the order of its structure, such as alpha and beta.
    """

    @_checked
    def __init__(self, activation: OperatorType, param_1: float = 0, param_2: float = 0) -> None:
        self._activation, self._parameters = activation, (param_1, param_2)

    def _fused(self) -> _Fused | None:
        if self._activation is OperatorType.INVALID:
            return None
        kind = OPERATORS[f"DML_OPERATOR_{self._activation.name}"]
        names = [f.name for f in kind.fields if not f.tensor]
        return _Fused(kind, **dict(zip(names, self._parameters, strict=False)))


_NO_ACTIVATION = FusedActivation(OperatorType.INVALID)


# Graphs.


def _calls(name: str, with_number: Callable[..., Any] | None, is_swapped: bool = False) -> Any:
    def method(self: "Expression", other: Any) -> Any:
        if isinstance(other, Expression):
            return globals()[name](self, other)
        if isinstance(other, _NUMBERS) and with_number is not None:
            return with_number(self, float(other))
        return NotImplemented

    method.__name__ = name
    return method


def _scaled(scale: Callable[[float], float], bias: Callable[[float], float]) -> Any:
    """Return the function that computes x * scale(f) + bias(f) of an expression and a number."""

    def function(x: "Expression", f: float) -> "Expression":
        pair = ScaleBias(scale=scale(f), bias=bias(f))
        return _node("ELEMENT_WISE_IDENTITY", {"input_tensor": x}, scale_bias=pair)

    return function


def _divided(x: "Expression", f: float) -> "Expression":
    if f == 0:
        raise _refuse("Expression", "the divisor", "not be 0", f)
    pair = ScaleBias(scale=1 / f, bias=0)
    return _node("ELEMENT_WISE_IDENTITY", {"input_tensor": x}, scale_bias=pair)


class Expression:
    """A tensor of a graph that is not built yet.

    It has the operators `+ - * / %` with expressions, `+ - * /` with numbers, and `-`.
    """

    __array_ufunc__ = None  # so that NumPy's numbers leave their operators to it

    def __init__(self) -> None:
        self._source: graph.Expression | None = None

    @classmethod
    def _of(cls, source: graph.Expression) -> "Expression":
        made = cls()
        made._source = source
        return made

    @property
    def _there(self) -> graph.Expression:
        if self._source is None:
            raise _refuse("Expression", "an expression", "be computed", Unquoted("an empty one"))
        return self._source

    def get_output_desc(self) -> TensorDesc:
        """Return the type, sizes and layout of the tensor."""
        return TensorDesc._of(self._there.desc)

    def __neg__(self) -> "Expression":
        return _node("ELEMENT_WISE_NEGATE", {"input_tensor": self})

    def _reciprocal(self, f: float) -> "Expression":
        return Expression._of(_guarded(lambda: f / self._there))

    __add__ = _calls("_sum", _scaled(lambda f: 1, lambda f: f))
    __radd__ = __add__
    __sub__ = _calls("subtract", _scaled(lambda f: 1, lambda f: -f))
    __rsub__ = _calls("subtract", _scaled(lambda f: -1, lambda f: f))
    __mul__ = _calls("multiply", _scaled(lambda f: f, lambda f: 0))
    __rmul__ = __mul__
    __truediv__ = _calls("divide", _divided)
    __rtruediv__ = _calls("divide", _reciprocal)
    __mod__ = _calls("_remainder", None)


def _guarded(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except DmlError as error:
        raise PyDirectMLError(error.faults) from None


def _sum(a: Expression, b: Expression) -> Expression:
    return _node("ELEMENT_WISE_ADD", {"a_tensor": a, "b_tensor": b})


def _remainder(a: Expression, b: Expression) -> Expression:
    return _node("ELEMENT_WISE_MODULUS_TRUNCATE", {"a_tensor": a, "b_tensor": b})


def _node(name: str, inputs: Mapping[str, Any], **fields: Any) -> Any:
    """Return the output, or outputs, of an operator of expressions.

    Args:
        name: the operator.
        inputs: its input tensors by field: an expression, a list of such, or None.
        fields: its attributes; `output_sizes` and `outputs` as of `Operator.infer`.
    """
    given: list[graph.Expression] = []
    for f, value in inputs.items():
        listed = value if isinstance(value, list) else [value]
        if not isinstance(value, list) and (value is None or value._source is None):
            if not any(f == field.name and field.optional for field in _kind(name).fields):
                raise _refuse("Expression", f, "be computed", Unquoted("an empty expression"))
            fields[f] = None
            continue
        sources = [expression._there for expression in listed]
        descs = [source.desc for source in sources]
        fields[f] = descs if isinstance(value, list) else descs[0]
        given += sources
    return _guarded(lambda: _applied(name, given, fields))


def _kind(name: str) -> Any:
    return OPERATORS[f"DML_OPERATOR_{name}"]


def _applied(name: str, given: Sequence[graph.Expression], fields: dict[str, Any]) -> Any:
    for field, value in fields.items():
        if isinstance(value, _Enum):
            fields[field] = value.name
        elif isinstance(value, FusedActivation):
            fields[field] = value._fused()
    made = given[0].builder.apply(_kind(name).infer(**fields), *given)
    several = isinstance(made, tuple)
    return tuple(map(Expression._of, made)) if several else Expression._of(made)


class Device:
    """A device: the first accelerator that JAX finds, or else the CPU.

    Args:
        use_gpu: whether to take an accelerator.
        use_debug_layer: changes nothing: arguments are always checked.
    """

    @_checked
    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        found = jax.local_devices() if use_gpu else jax.local_devices(backend="cpu")
        self._device = found[0]

    def __repr__(self) -> str:
        return f"dml.Device on {'CPU' if self._device.platform == 'cpu' else 'GPU'}"

    @_checked
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
        return model._compute(self, inputs, outputs)


class GraphBuilder:
    """Collects the operators of a graph.

    Args:
        device: where the graph will run.
        tensor_policy: how the outputs of operators lie in memory.
    """

    @_checked
    def __init__(self, device: Device, tensor_policy: TensorPolicy = TensorPolicy.default) -> None:
        self._device = device
        self._graph = graph.GraphBuilder(tensor_policy._policy)
        self._inputs: dict[int, graph.Expression] = {}

    @_checked
    def build(
        self, flags: ExecutionFlags | int, outputs: "Sequence[Expression | None]", /
    ) -> "Model":
        """Return the compiled model of these outputs; empty expressions are left out."""
        wanted = [o._source for o in outputs if o is not None and o._source is not None]
        return Model._of(self, wanted)

    def _input(self, index: int, desc: tensor.TensorDesc) -> graph.Expression:
        if index not in self._inputs:
            self._inputs[index] = self._graph.input_tensor(str(index), desc)
        elif self._inputs[index].desc != desc:
            rule = f"be {self._inputs[index].desc!r}, as input_index {index} has"
            raise _refuse("input_tensor", "tensor_desc", rule, desc)
        return self._inputs[index]


class Binding:
    """The values of a graph input.

    Args:
        expr: the graph input.
        data: an array, of which float32 values are taken at once; its elements lie in memory as the
            tensor says, so that one with strides of 0 needs few.
    """

    @_checked
    def __init__(self, expr: Expression, data: Any) -> None:
        self._desc = expr._there.desc
        self._data = _bytes_of(self._desc, data)


def _bytes_of(desc: tensor.TensorDesc, data: Any) -> np.ndarray:
    """Return the elements of a tensor, flat and in the tensor's type, as a copy."""
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"pydirectml.Binding: argument 'data' must hold numbers, not {array.dtype}")
    flat = array.reshape(-1)
    if flat.size < desc.span:
        rule = f"hold {desc.span} elements ({desc.shown()})"
        raise _refuse("Binding", "data", rule, tensor.shown_array(array))
    flat = flat[: desc.span]
    if flat.dtype == desc.dtype or desc.data_type.name == "FLOAT32":
        with np.errstate(over="ignore"):
            return np.array(flat, desc.dtype)
    if flat.dtype == np.float32 and desc.dtype.itemsize == 4:
        return np.array(flat).view(desc.dtype)
    with np.errstate(all="ignore"):
        made = flat.astype(desc.dtype)
        is_held = desc.dtype.kind == "f" or bool(np.all(made.astype(flat.dtype) == flat))
    if not is_held:
        rule = f"hold numbers that {desc.data_type.name} holds"
        raise _refuse("Binding", "data", rule, tensor.shown_array(array))
    return made


class Model:
    """A compiled graph, which `GraphBuilder.build` makes and `Device.compute` runs."""

    _graph: graph.Graph
    _outputs: list[graph.Expression]
    _count: int  # the inputs that programs bind
    _programs: dict[Any, "_Program"]

    def __init__(self) -> None:
        raise TypeError("pydirectml.Model: no constructor (GraphBuilder.build makes it)")

    @classmethod
    def _of(cls, builder: GraphBuilder, outputs: list[graph.Expression]) -> "Model":
        made = object.__new__(cls)
        made._graph = builder._graph.build(outputs, only_read=True)
        made._outputs, made._programs = outputs, {}
        made._count = max(builder._inputs, default=-1) + 1
        made._program(builder._device)
        return made

    def _program(self, device: Device) -> "_Program":
        found = self._programs.get(device._device)
        if found is None:
            found = self._programs[device._device] = _Program(self._graph, device._device)
        return found

    def _compute(
        self, device: Device, inputs: Sequence[Binding | None], outputs: Sequence[Any]
    ) -> list[TensorData]:
        if len(inputs) > self._count:
            rule = f"be at most {self._count}, the model's inputs"
            raise _refuse("Device.compute", "the number of inputs", rule, len(inputs))
        bound = []
        for name, desc in zip(self._graph.input_names or (), self._graph.inputs, strict=True):
            index = int(name)
            binding = inputs[index] if index < len(inputs) else None
            if binding is None:
                got = Unquoted("nothing")
                raise _refuse("Device.compute", f"inputs[{index}]", "be bound", got)
            if not _alike(binding._desc, desc):
                rule = f"be of graph input {index}, {desc!r}"
                raise _refuse("Device.compute", f"inputs[{index}]", rule, binding._desc)
            bound.append(binding._data)
        places = [(o.source, o.desc) for o in self._outputs]
        chosen = []
        for index, output in enumerate(outputs):
            if output is None or output._source is None:
                continue
            place = output._source.source, output._source.desc
            if output._source.builder is not self._outputs[0].builder or place not in places:
                rule = "be an expression that the model was built of"
                raise _refuse("Device.compute", f"outputs[{index}]", rule, place[1])
            chosen.append(places.index(place))
        results = self._program(device)(bound)
        return [TensorData._of(results[i], self._outputs[i].desc) for i in chosen]


def _alike(a: tensor.TensorDesc, b: tensor.TensorDesc) -> bool:
    """Return whether the elements of one tensor are the memory of another."""
    return (a.data_type, a.span, a.flags) == (b.data_type, b.span, b.flags)


class _Program:
    """A graph that is compiled for a device, and the inputs that stay there.

    All inputs are arguments of the program, flat as they lie in memory.
    """

    def __init__(self, made: graph.Graph, device: Any):
        descs = made.inputs

        def function(*memory: Any) -> Any:
            results = made.whole(*(d.read(part) for d, part in zip(descs, memory, strict=True)))
            return results if isinstance(results, tuple) else (results,)

        shapes = [tensor.TensorDesc(d.data_type, [d.span]) for d in descs]
        self._compiled = compiled.compile(function, *shapes, device=device)
        self._device = device
        self._stays = [tensor.TensorFlags.OWNED_BY_DML in d.flags for d in descs]
        self._kept: dict[int, tuple[np.ndarray, Any]] = {}

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        placed = [self._placed(index, array) for index, array in enumerate(arrays)]
        return [np.array(result) for result in self._compiled(*placed)]

    def _placed(self, index: int, array: np.ndarray) -> Any:
        """Return an input on the device: an OWNED_BY_DML one is sent once, while it stays equal."""
        if not self._stays[index]:
            return jax.device_put(array, self._device)
        kept, placed = self._kept.get(index, (None, None))
        if kept is array:
            return placed
        if kept is None or not np.array_equal(kept.view(np.uint8), array.view(np.uint8)):
            placed = jax.device_put(array, self._device)
        self._kept[index] = array, placed
        return placed


class MaxPoolingOutputs:
    """The outputs of `max_pooling`; `indices` is empty unless they were asked for."""

    @_checked
    def __init__(self, values: Expression, indices: Expression, /) -> None:
        self.values, self.indices = values, indices


class GRUOutputs:
    """The outputs of `gru`; one that was not asked for is empty."""

    @_checked
    def __init__(self, sequence: Expression, single: Expression, /) -> None:
        self.sequence, self.single = sequence, single


# Functions.


@_checked
def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """Return the graph input of an index, to which `Device.compute` binds by position."""
    if input_index < 0:
        raise _refuse("input_tensor", "input_index", "be at least 0", input_index)
    return Expression._of(scope._input(input_index, tensor_desc._desc))


def _spatial(input: Expression, values: Sequence[int], default: int) -> Sequence[int]:
    """Return one value for each spatial dimension."""
    return values or [default] * (len(input._there.sizes) - 2)


@_checked
def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Sequence[int] = [],
    dilations: Sequence[int] = [],
    start_padding: Sequence[int] = [],
    end_padding: Sequence[int] = [],
    output_padding: Sequence[int] = [],
    group_count: int = 1,
    fused_activation: FusedActivation = _NO_ACTIVATION,
    output_sizes: Sequence[int] = [],
) -> Expression:
    """Convolve with a filter: CONVOLUTION."""
    return _node(
        "CONVOLUTION",
        {"input_tensor": input, "filter_tensor": filter, "bias_tensor": bias},
        mode=mode,
        direction=direction,
        strides=_spatial(input, strides, 1),
        dilations=_spatial(input, dilations, 1),
        start_padding=_spatial(input, start_padding, 0),
        end_padding=_spatial(input, end_padding, 0),
        output_padding=_spatial(input, output_padding, 0),
        group_count=group_count,
        fused_activation=fused_activation,
        output_sizes=output_sizes or None,
    )


@_checked
def up_sample_2d(
    input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode
) -> Expression:
    """Enlarge by whole factors: UPSAMPLE_2D."""
    size = _Size2D(width=scale_size.width, height=scale_size.height)
    return _node(
        "UPSAMPLE_2D",
        {"input_tensor": input},
        scale_size=size,
        interpolation_mode=interpolation_mode,
    )


@_checked
def activation_relu(input: Expression) -> Expression:
    """Compute max(0, x): ACTIVATION_RELU."""
    return _node("ACTIVATION_RELU", {"input_tensor": input})


@_checked
def activation_sigmoid(input: Expression) -> Expression:
    """Compute 1 / (1 + exp(-x)): ACTIVATION_SIGMOID."""
    return _node("ACTIVATION_SIGMOID", {"input_tensor": input})


@_checked
def activation_identity(input: Expression) -> Expression:
    """Copy: ACTIVATION_IDENTITY."""
    return _node("ACTIVATION_IDENTITY", {"input_tensor": input})


@_checked
def activation_tanh(input: Expression) -> Expression:
    """Compute tanh(x): ACTIVATION_TANH."""
    return _node("ACTIVATION_TANH", {"input_tensor": input})


@_checked
def activation_soft_max(input: Expression) -> Expression:
    """Compute exp(x) by its sum over the last dimension: ACTIVATION_SOFTMAX."""
    return _node("ACTIVATION_SOFTMAX", {"input_tensor": input})


@_checked
def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """Compute alpha * x + beta: ACTIVATION_LINEAR."""
    return _node("ACTIVATION_LINEAR", {"input_tensor": input}, alpha=alpha, beta=beta)


@_checked
def add(
    a: Expression, b: Expression, fused_activation: FusedActivation = _NO_ACTIVATION
) -> Expression:
    """Add, and apply an activation: ELEMENT_WISE_ADD1."""
    inputs = {"a_tensor": a, "b_tensor": b}
    return _node("ELEMENT_WISE_ADD1", inputs, fused_activation=fused_activation)


@_checked
def subtract(a: Expression, b: Expression) -> Expression:
    """Subtract: ELEMENT_WISE_SUBTRACT."""
    return _node("ELEMENT_WISE_SUBTRACT", {"a_tensor": a, "b_tensor": b})


@_checked
def multiply(a: Expression, b: Expression) -> Expression:
    """Multiply: ELEMENT_WISE_MULTIPLY."""
    return _node("ELEMENT_WISE_MULTIPLY", {"a_tensor": a, "b_tensor": b})


@_checked
def divide(a: Expression, b: Expression) -> Expression:
    """Divide: ELEMENT_WISE_DIVIDE."""
    return _node("ELEMENT_WISE_DIVIDE", {"a_tensor": a, "b_tensor": b})


@_checked
def padding(
    input: Expression,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """Add elements at the ends of dimensions: PADDING."""
    return _node(
        "PADDING",
        {"input_tensor": input},
        padding_mode=padding_mode,
        padding_value=padding_value,
        start_padding=start_padding,
        end_padding=end_padding,
    )


_REQUIRED: Any = inspect.Parameter.empty  # after arguments with defaults, as pybind11 allows


@_checked
def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    axes: Sequence[int] = [],
    normalize_variance: bool = _REQUIRED,
    epsilon: float = _REQUIRED,
    fused_activation: FusedActivation = _NO_ACTIVATION,
) -> Expression:
    """Subtract the mean and divide by the deviation: MEAN_VARIANCE_NORMALIZATION1."""
    return _node(
        "MEAN_VARIANCE_NORMALIZATION1",
        {"input_tensor": input, "scale_tensor": scale, "bias_tensor": bias},
        axes=axes,
        normalize_variance=normalize_variance,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@_checked
def slice(
    input: Expression,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Expression:
    """Take a window, with steps that may be negative: SLICE1."""
    return _node(
        "SLICE1",
        {"input_tensor": input},
        input_window_offsets=input_window_offsets,
        input_window_sizes=input_window_sizes,
        input_window_strides=input_window_strides,
    )


@_checked
def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """Multiply by a number, and add one of each channel: VALUE_SCALE_2D."""
    return _node("VALUE_SCALE_2D", {"input_tensor": input}, scale=scale, bias=bias)


@_checked
def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation = _NO_ACTIVATION,
) -> Expression:
    """Normalize with means and variances that are given: BATCH_NORMALIZATION."""
    inputs = {
        "input_tensor": input,
        "mean_tensor": mean,
        "variance_tensor": variance,
        "scale_tensor": scale,
        "bias_tensor": bias,
    }
    return _node(
        "BATCH_NORMALIZATION",
        inputs,
        spatial=spatial,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


@_checked
def local_response_normalization(
    input: Expression, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """Divide by a sum of squares of neighbours: LOCAL_RESPONSE_NORMALIZATION."""
    return _node(
        "LOCAL_RESPONSE_NORMALIZATION",
        {"input_tensor": input},
        cross_channel=cross_channel,
        local_size=local_size,
        alpha=alpha,
        beta=beta,
        bias=bias,
    )


@_checked
def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1,
    beta: float = 1,
    fused_activation: FusedActivation = _NO_ACTIVATION,
) -> Expression:
    """Compute alpha * a * b + beta * c of matrices: GEMM."""
    return _node(
        "GEMM",
        {"a_tensor": a, "b_tensor": b, "c_tensor": c},
        trans_a=trans_a,
        trans_b=trans_b,
        alpha=alpha,
        beta=beta,
        fused_activation=fused_activation,
    )


@_checked
def average_pooling(
    input: Expression,
    strides: Sequence[int],
    window_sizes: Sequence[int],
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    include_padding: bool,
) -> Expression:
    """Take the mean of windows: AVERAGE_POOLING."""
    return _node(
        "AVERAGE_POOLING",
        {"input_tensor": input},
        strides=strides,
        window_size=window_sizes,
        start_padding=start_padding,
        end_padding=end_padding,
        include_padding=include_padding,
    )


@_checked
def max_pooling(
    input: Expression,
    window_sizes: Sequence[int],
    strides: Sequence[int] = [],
    start_padding: Sequence[int] = [],
    end_padding: Sequence[int] = [],
    dilations: Sequence[int] = [],
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """Take the greatest element of windows, and where it lies: MAX_POOLING2."""
    made = _node(
        "MAX_POOLING2",
        {"input_tensor": input},
        window_size=window_sizes,
        strides=_spatial(input, strides, 1),
        start_padding=_spatial(input, start_padding, 0),
        end_padding=_spatial(input, end_padding, 0),
        dilations=_spatial(input, dilations, 1),
        outputs=["output_tensor", "output_indices_tensor"][: 1 + output_indices],
    )
    values, *indices = made if isinstance(made, tuple) else (made,)
    return MaxPoolingOutputs(values, *(indices or [Expression()]))


@_checked
def reinterpret(
    input: Expression,
    new_type: TensorDataType,
    new_size: Sequence[int],
    new_strides: Sequence[int] | None,
) -> Expression:
    """Return the same bytes as a tensor of another type, sizes and strides."""
    return Expression._of(input._there.reinterpret(new_size, new_strides, new_type.name))


@_checked
def join(input: Sequence[Expression], axis: int) -> Expression:
    """Put tensors one after the other: JOIN."""
    if not input:
        raise _refuse("join", "input", "have at least 1 expression", [])
    return _node("JOIN", {"input_tensors": list(input)}, axis=axis)


@_checked
def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    activation_descs: Sequence[FusedActivation] = _REQUIRED,
    direction: RecurrentNetworkDirection = _REQUIRED,
    linear_before_reset: bool = True,
    output_options: OutputOptions = _REQUIRED,
) -> GRUOutputs:
    """Run gated recurrent units: GRU."""
    fields = ["output_sequence_tensor", "output_single_tensor"]
    chosen = {"Both": fields, "Sequence": fields[:1], "Single": fields[1:]}[output_options.name]
    made = _node(
        "GRU",
        {
            "input_tensor": input,
            "weight_tensor": weight,
            "recurrence_tensor": recurrence,
            "bias_tensor": bias,
            "hidden_init_tensor": hidden_init,
            "sequence_lengths_tensor": sequence_lengths,
        },
        activation_descs=[_guarded(activation._fused) for activation in activation_descs],
        direction=direction,
        linear_before_reset=linear_before_reset,
        outputs=chosen,
    )
    results = dict(zip(chosen, made if isinstance(made, tuple) else (made,), strict=True))
    return GRUOutputs(*(results.get(f, Expression()) for f in fields))


@_checked
def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """Take elements along an axis by their indices: GATHER."""
    return _node(
        "GATHER",
        {"input_tensor": input, "indices_tensor": indices},
        axis=axis,
        index_dimensions=index_dimensions,
    )


# Programs.

_USAGE = "Usage: python -m dml_jax.pydirectml PROGRAM.py [ARGUMENTS]"


def main(arguments: Sequence[str]) -> None:
    """Run a program as `python PROGRAM.py ARGUMENTS` does; it finds this module as `pydirectml`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if arguments else sys.stderr)
        sys.exit(0 if arguments else 2)
    path = Path(arguments[0])
    try:
        source = path.read_bytes()
    except OSError as error:
        print(f"dml_jax.pydirectml: can't open file '{path}': {error.strerror}", file=sys.stderr)
        sys.exit(2)
    program = types.ModuleType("__main__")
    program.__file__ = str(path)
    sys.modules["pydirectml"] = importlib.import_module("dml_jax.pydirectml")
    sys.modules["__main__"] = program
    sys.argv = list(arguments)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.realpath(path.parent)
    try:
        exec(compile(source, str(path), "exec"), program.__dict__)
    except Exception as error:
        _show(error)
        sys.exit(1)


def _show(error: Exception) -> None:
    """Print the traceback of a program without the lines that run it.

    The lines of this package are left out too where the error is about the program's arguments.
    """
    shown = traceback.TracebackException.from_exception(error)
    is_usage = isinstance(error, PyDirectMLError) or str(error).startswith("pydirectml.")
    part: traceback.TracebackException | None = shown
    while part is not None:
        lines = itertools.dropwhile(_is_own, part.stack)
        kept = [line for line in lines if not (is_usage and _is_own(line))]
        part.stack = traceback.StackSummary.from_list(kept)
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    print("".join(shown.format()), end="", file=sys.stderr)


def _is_own(line: traceback.FrameSummary) -> bool:
    return line.filename.startswith(str(Path(__file__).parent))


if __name__ == "__main__":  # the program shall meet the classes of one module
    importlib.import_module("dml_jax.pydirectml").main(sys.argv[1:])
