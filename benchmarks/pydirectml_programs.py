"""Microsoft's PyDirectML programs, beside the same calls in PyTorch: answers and times.

`python benchmarks/pydirectml_programs.py results.json --folder FOLDER [NAME ...]` runs the programs
that lie in FOLDER beside their data, as microsoft/DirectML has them in Python/samples. It times the
last `Device.compute` of each, all but the first call, in turns with PyTorch, which computes a call
for each operator, with weights that were converted once. It needs torch and pillow.
"""

# pyright: reportMissingImports=false

import contextlib
import functools
import io
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, difference, measure, milliseconds, parser, restart_with_kept_pages, run

import dml_jax.pydirectml as dml
from dml_jax.bench.peers import made_of
from dml_jax.system.processor import cores

PROGRAMS = ("mnist", "squeezenet", "mobilenet", "candy", "superres")


def of_pytorch(op: Any) -> Callable[..., Any]:
    """Return PyTorch's function for an operator of the samples, with its fused activation."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    activations = {"ACTIVATION_RELU": torch.relu, "ACTIVATION_TANH": torch.tanh}

    def forward(x: Any, w: Any, b: Any = None) -> Any:
        b = None if b is None else b.reshape(-1)
        if op.direction.name == "FORWARD":
            return F.conv2d(x, w, b, op.strides, op.start_padding, 1, op.group_count)
        each = (op.output_tensor.sizes, x.shape, w.shape)
        parts = zip(*(sizes[2:] for sizes in each), op.strides, op.start_padding, strict=True)
        more = [size - (n - 1) * step - k + 2 * cut for size, n, k, step, cut in parts]
        return F.conv_transpose2d(x, w, b, op.strides, op.start_padding, more, op.group_count)

    def batch(x: Any, *parts: Any) -> Any:
        mean, variance, scale, bias = (part.reshape(-1) for part in parts)
        return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, op.epsilon)

    def instance(x: Any, *parts: Any) -> Any:  # of one picture, whose axes are 0, 2 and 3
        scale, bias = (part.reshape(-1) for part in parts)
        return F.instance_norm(x, weight=scale, bias=bias, eps=op.epsilon)

    def part(x: Any) -> Any:
        begins, counts = op.input_window_offsets, op.input_window_sizes
        ends = map(sum, zip(begins, counts, strict=True))
        return x[tuple(map(slice, begins, ends, op.input_window_strides))]

    functions: dict[str, Callable[..., Any]] = {
        **activations,
        "ACTIVATION_IDENTITY": lambda x: x,
        "ACTIVATION_LINEAR": lambda x: op.alpha * x + op.beta,
        "ACTIVATION_SOFTMAX": lambda x: torch.softmax(x.reshape(op.input_tensor.sizes), -1),
        "AVERAGE_POOLING": lambda x: F.avg_pool2d(x, tuple(op.window_size), tuple(op.strides)),
        "BATCH_NORMALIZATION": batch,
        "CONVOLUTION": forward,
        "ELEMENT_WISE_ADD1": torch.add,
        "ELEMENT_WISE_MULTIPLY": torch.mul,
        "GEMM": lambda a, b: a.reshape(op.a_tensor.sizes) @ b.reshape(op.b_tensor.sizes),
        "JOIN": lambda *parts: torch.cat(parts, op.axis),
        "MAX_POOLING2": lambda x: F.max_pool2d(x, tuple(op.window_size), tuple(op.strides)),
        "MEAN_VARIANCE_NORMALIZATION1": instance,
        "PADDING": lambda x: F.pad(
            x, [n[d] for d in (3, 2) for n in (op.start_padding, op.end_padding)], "reflect"
        ),
        "SLICE1": part,
        "VALUE_SCALE_2D": lambda x: x * op.scale + torch.tensor(op.bias).reshape(1, -1, 1, 1),
    }
    function = functions[op.short_name]
    fused = getattr(op, "fused_activation", None)
    return function if fused is None else lambda *xs: activations[fused.Type](function(*xs))


def by_pytorch(model: Any, bindings: Any) -> Callable[[], list[np.ndarray]]:
    """Return a call of PyTorch that computes a model, whose inputs lie as their tensors say."""
    import torch

    function, inputs = made_of(model._graph, of_pytorch), []
    for name, tensor in zip(model._graph.input_names, model._graph.inputs, strict=True):
        flat = torch.from_numpy(bindings[int(name)]._data)
        inputs.append(flat.as_strided(tensor.sizes, tensor.strides or tensor.packed_strides))

    def call() -> list[np.ndarray]:
        with torch.inference_mode():
            return [result.numpy() for result in function(*inputs)]

    return call


def measured(program: str) -> Row:
    """Return the largest error of a program's outputs, and both times; its words are not shown."""
    from PIL import Image

    Image.Image.show = lambda *_, **__: None  # pyright: ignore[reportAttributeAccessIssue]
    computed, compute = [], dml.Device.compute

    def noted(*arguments: Any) -> Any:
        computed.append(arguments)
        return compute(*arguments)

    sys.modules["pydirectml"], sys.argv = dml, [f"{program}.py"]
    dml.Device.compute = noted  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            runpy.run_path(f"{program}.py", run_name="__main__")
    finally:
        dml.Device.compute = compute
    own, other = functools.partial(compute, *computed[-1]), by_pytorch(*computed[-1][1:3])
    pairs = zip(own(), other(), strict=True)
    error = max(difference(np.ravel(a), np.ravel(b)) for a, b in pairs)
    ms, peer = milliseconds(own, other)
    return {"error": error, "ms": ms, "peer_ms": peer}


def main() -> int:
    """Measure the programs of a folder; return how many fail."""
    import torch

    made = parser(__doc__, "programs")
    made.add_argument("--folder", type=Path, required=True, help="has the programs and their data")
    given = made.parse_intermixed_args()
    restart_with_kept_pages()
    torch.set_num_threads(cores())
    given.results = given.results.resolve()
    os.chdir(given.folder)
    there = [name for name in PROGRAMS if Path(f"{name}.py").exists()]
    return measure(given, programs={name: functools.partial(measured, name) for name in there})


if __name__ == "__main__":
    run(main)
