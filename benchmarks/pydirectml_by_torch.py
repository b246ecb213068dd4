"""PyDirectML's functions computed by PyTorch, one call for each: those of Microsoft's samples.

Enumerations and TensorDesc are those of `dml_jax.pydirectml`. A function adds a step to a program;
`Device.compute` runs the steps, with weights that were converted once.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # noqa: N812  # pyright: ignore[reportMissingImports]

import dml_jax.pydirectml as dml

_ACTIVATIONS = {"ACTIVATION_RELU": torch.relu, "ACTIVATION_TANH": torch.tanh}


class Expression:
    """A step of a program: a function of the results of other steps, by name."""

    def __init__(
        self, function: Callable[..., Any], inputs: "Mapping[str, Expression]", desc: Any = None
    ):
        self.function, self.inputs, self.desc = function, inputs, desc
        self.values = self  # of MaxPoolingOutputs

    def get_output_desc(self) -> Any:
        """Return the description of a graph input."""
        return self.desc

    def value(self, found: dict[int, Any]) -> Any:
        """Return the result; `found` has those of other steps."""
        if id(self) not in found:
            inputs = {name: step.value(found) for name, step in self.inputs.items()}
            found[id(self)] = self.function(**inputs)
        return found[id(self)]


class Binding:
    """The tensor of a graph input, in the layout that its description says."""

    def __init__(self, expression: Expression, data: Any):
        desc = expression.desc
        flat = torch.from_numpy(np.ascontiguousarray(data, np.float32).reshape(-1))
        strides = desc.strides or [int(np.prod(desc.sizes[d + 1 :])) for d in range(4)]
        self.expression, self.tensor = expression, flat.as_strided(desc.sizes, strides)


class GraphBuilder:
    """Keeps nothing: the expressions are the program."""

    def __init__(self, device: Any):
        self.device = device

    def build(self, flags: Any, outputs: Sequence[Expression]) -> Sequence[Expression]:
        """Return the outputs."""
        return outputs


class Device:
    """Computes programs; each of `runs` computes a program again."""

    runs: ClassVar[list[Callable[[], list[np.ndarray]]]] = []

    def __init__(self, *_: Any):
        pass

    def compute(self, model: Any, inputs: Sequence[Binding], outputs: Sequence[Expression]) -> Any:
        """Return the values of the outputs."""
        bound = {id(b.expression): b.tensor for b in inputs}

        def run() -> list[np.ndarray]:
            found = dict(bound)
            with torch.inference_mode():
                return [output.value(found).numpy() for output in outputs]

        self.runs.append(run)
        return run()


def _convolution(
    x: Any,
    w: Any,
    bias: Any = None,
    mode: Any = None,
    direction: Any = dml.ConvolutionDirection.FORWARD,
    strides: Sequence[int] = (),
    start_padding: Sequence[int] = (),
    group_count: int = 1,
    fused_activation: Any = None,
    output_sizes: Sequence[int] = (),
    **_: Any,
) -> Any:
    """Return conv2d, or conv_transpose2d whose result is cut or continued to `output_sizes`."""
    steps, padding = list(strides) or [1, 1], list(start_padding) or [0, 0]
    bias = None if bias is None else bias.reshape(-1)
    if direction == dml.ConvolutionDirection.FORWARD:
        return F.conv2d(x, w, bias, steps, padding, groups=group_count)
    ends = zip(output_sizes[2:], x.shape[2:], steps, w.shape[2:], padding, strict=True)
    more = [size - (n - 1) * step - k + 2 * cut for size, n, step, k, cut in ends]
    return F.conv_transpose2d(x, w, bias, steps, padding, more, group_count)


def _batch_norm(x: Any, *parts: Any) -> Any:
    *vectors, epsilon = parts
    return F.batch_norm(x, *(part.reshape(-1) for part in vectors), False, 0.0, epsilon)


def _slice(x: Any, offsets: Any, sizes: Any, strides: Any) -> Any:
    places = zip(offsets, sizes, strides, strict=True)
    return x[tuple(slice(start, start + size, step) for start, size, step in places)]


_FUNCTIONS: dict[str, Callable[..., Any]] = {  # of tensors and options, in PyDirectML's order
    "activation_identity": lambda x: x,
    "activation_linear": lambda x, alpha, beta: alpha * x + beta,
    "activation_relu": lambda x: torch.relu(x),
    "activation_soft_max": lambda x: torch.softmax(x, -1),
    "add": lambda a, b: torch.add(a, b),
    "average_pooling": lambda x, strides, window_sizes, *_, **__: F.avg_pool2d(
        x, window_sizes, strides
    ),
    "batch_normalization": (
        lambda x, mean, variance, scale, bias, spatial, epsilon, fused_activation=None: _batch_norm(
            x, mean, variance, scale, bias, epsilon
        )
    ),
    "convolution": _convolution,
    "gemm": lambda a, b: torch.matmul(a, b),
    "max_pooling": lambda x, window_sizes, strides: F.max_pool2d(x, window_sizes, strides),
    "mean_variance_normalization": (  # of one picture, the axes 0, 2 and 3 are its axes
        lambda x, scale, bias, axes, normalize_variance, epsilon, fused_activation=None: (
            F.instance_norm(x, weight=scale.reshape(-1), bias=bias.reshape(-1), eps=epsilon)
        )
    ),
    "multiply": lambda a, b: torch.mul(a, b),
    "padding": lambda x, mode, value, start, end: F.pad(
        x, (start[3], end[3], start[2], end[2]), "reflect"
    ),
    "reinterpret": lambda x, data_type, sizes, strides: x.reshape(sizes),
    "slice": _slice,
    "value_scale_2d": lambda x, scale, bias: x * scale + torch.tensor(bias).reshape(1, -1, 1, 1),
}


def _adding(function: Callable[..., Any]) -> Callable[..., Expression]:
    """Return the function of expressions and options that adds a step, of one of tensors."""
    names = inspect.signature(function)

    def step(*arguments: Any, **options: Any) -> Expression:
        given = names.bind(*arguments, **options).arguments
        inputs = {n: given.pop(n) for n in [*given] if isinstance(given[n], Expression)}
        fused = given.pop("fused_activation", None)
        known = {name: value for name, value in given.items() if name.strip("_")}
        if fused is None:
            return Expression(functools.partial(function, **known), inputs)
        activation = _ACTIVATIONS[fused._activation.name]
        return Expression(lambda **tensors: activation(function(**tensors, **known)), inputs)

    return step


def _input_tensor(builder: Any, index: int, desc: Any) -> Expression:
    return Expression(lambda: None, {}, desc)


def _join(inputs: Sequence[Expression], axis: int) -> Expression:
    named = {f"x{k}": x for k, x in enumerate(inputs)}
    return Expression(lambda **parts: torch.cat([*parts.values()], axis), named)


def module() -> ModuleType:
    """Return the module that programs import as `pydirectml`."""
    made = ModuleType("pydirectml")
    vars(made).update({name: getattr(dml, name) for name in dir(dml) if name[0].isupper()})
    vars(made).update({cls.__name__: cls for cls in (Binding, Device, Expression, GraphBuilder)})
    vars(made).update({name: _adding(function) for name, function in _FUNCTIONS.items()})
    vars(made).update(input_tensor=_input_tensor, join=_join)
    return made
