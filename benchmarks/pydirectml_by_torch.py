"""PyDirectML's functions computed by PyTorch, one call for each: those of Microsoft's samples.

Enumerations and TensorDesc are those of `dml_jax.pydirectml`. A function adds a step to a program;
`Device.compute` runs the steps, with weights that were converted once.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # noqa: N812  # pyright: ignore[reportMissingImports]

import dml_jax.pydirectml as dml

_ACTIVATIONS = {"ACTIVATION_RELU": torch.relu, "ACTIVATION_TANH": torch.tanh}


class Expression:
    """A step of a program: a function of the results of other steps."""

    def __init__(
        self, function: Callable[..., Any], *inputs: "Expression | None", desc: Any = None
    ):
        self.function, self.inputs, self.desc = function, inputs, desc
        self.values = self  # of MaxPoolingOutputs

    def get_output_desc(self) -> Any:
        """Return the description of a graph input."""
        return self.desc


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
                return [_value(output, found).numpy() for output in outputs]

        self.runs.append(run)
        return run()


def _value(step: Expression, found: dict[int, Any]) -> Any:
    if id(step) not in found:
        inputs = [None if x is None else _value(x, found) for x in step.inputs]
        found[id(step)] = step.function(*inputs)
    return found[id(step)]


def _activated(y: Any, fused: Any = None) -> Any:
    return y if fused is None else _ACTIVATIONS[fused._activation.name](y)


def convolution(
    x: Expression,
    w: Expression,
    bias: Expression | None = None,
    mode: Any = None,
    direction: Any = dml.ConvolutionDirection.FORWARD,
    strides: Sequence[int] = (1, 1),
    start_padding: Sequence[int] = (0, 0),
    group_count: int = 1,
    fused_activation: Any = None,
    output_sizes: Sequence[int] = (),
    **_: Any,
) -> Expression:
    """Return conv2d, or conv_transpose2d whose result is cut or continued to `output_sizes`."""
    steps, padding = list(strides) or [1, 1], list(start_padding) or [0, 0]

    def forward(x: Any, w: Any, b: Any) -> Any:
        b = None if b is None else b.reshape(-1)
        if direction == dml.ConvolutionDirection.FORWARD:
            y = F.conv2d(x, w, b, steps, padding, groups=group_count)
        else:
            more = [
                size - (n - 1) * step - k + 2 * cut
                for size, n, step, k, cut in zip(
                    output_sizes[2:], x.shape[2:], steps, w.shape[2:], padding, strict=True
                )
            ]
            y = F.conv_transpose2d(x, w, b, steps, padding, more, group_count)
        return _activated(y, fused_activation)

    return Expression(forward, x, w, bias)


def batch_normalization(x: Expression, *given: Any) -> Expression:
    """Return batch_norm of a mean, a variance, a scale, a bias, and its options."""
    parts, (_, epsilon, *fused) = given[:4], given[4:]

    def normalized(x: Any, *parts: Any) -> Any:
        mean, variance, scale, bias = (part.reshape(-1) for part in parts)
        y = F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)
        return _activated(y, *fused)

    return Expression(normalized, x, *parts)


def mean_variance_normalization(
    x: Expression, scale: Expression, bias: Expression, *given: Any
) -> Expression:
    """Return instance_norm: of one picture, the axes 0, 2 and 3 are its axes."""
    _, _, epsilon, *fused = given

    def normalized(x: Any, scale: Any, bias: Any) -> Any:
        y = F.instance_norm(x, weight=scale.reshape(-1), bias=bias.reshape(-1), eps=epsilon)
        return _activated(y, *fused)

    return Expression(normalized, x, scale, bias)


_OTHERS: dict[str, Callable[..., Expression]] = {
    "activation_identity": lambda x: Expression(lambda x: x, x),
    "activation_linear": lambda x, alpha, beta: Expression(lambda x: alpha * x + beta, x),
    "activation_relu": lambda x: Expression(torch.relu, x),
    "activation_soft_max": lambda x: Expression(lambda x: torch.softmax(x, -1), x),
    "add": lambda a, b: Expression(torch.add, a, b),
    "average_pooling": lambda x, strides, window_sizes, *_, **__: Expression(
        lambda x: F.avg_pool2d(x, window_sizes, strides), x
    ),
    "gemm": lambda a, b: Expression(torch.matmul, a, b),
    "input_tensor": lambda builder, index, desc: Expression(lambda: None, desc=desc),
    "join": lambda inputs, axis: Expression(lambda *parts: torch.cat(parts, axis), *inputs),
    "max_pooling": lambda x, window_sizes, strides: Expression(
        lambda x: F.max_pool2d(x, window_sizes, strides), x
    ),
    "multiply": lambda a, b: Expression(torch.mul, a, b),
    "padding": lambda x, mode, value, start, end: Expression(
        lambda x: F.pad(x, (start[3], end[3], start[2], end[2]), "reflect"), x
    ),
    "reinterpret": lambda x, data_type, sizes, strides: Expression(lambda x: x.reshape(sizes), x),
}


def value_scale_2d(x: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """Return `x * scale + bias`."""
    added = torch.tensor(bias).reshape(1, -1, 1, 1)
    return Expression(lambda x: x * scale + added, x)


def slice_(x: Expression, offsets: Any, sizes: Any, strides: Any) -> Expression:
    """Return the part of `x`."""
    ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
    places = tuple(slice(*part) for part in zip(offsets, ends, strides, strict=True))
    return Expression(lambda x: x[places], x)


def module() -> ModuleType:
    """Return the module that programs import as `pydirectml`."""
    made = ModuleType("pydirectml")
    vars(made).update({name: getattr(dml, name) for name in dir(dml) if name[0].isupper()})
    vars(made).update({n: v for n, v in globals().items() if not n.startswith("_")})
    vars(made).update(_OTHERS, slice=slice_)
    return made
