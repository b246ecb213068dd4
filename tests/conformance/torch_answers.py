"""PyTorch's answers and gradients for random descriptors of every operator.

PyTorch is large, so what it says is kept (`torch_answers.npz`), and compared with where it is not
installed. `python -m conformance.torch_answers`, in tests/ and with PyTorch, asks it anew.
"""

import functools
import importlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from conformance.cases import Case, compare
from records import combinations, record_of
from records.element_wise import cast

from dml_jax import (
    OPERATORS,
    AxisDirection,
    DepthSpaceOrder,
    Operator,
    ReduceFunction,
    operator_from_json,
)

FILE = Path(__file__).with_suffix(".npz")
EXAMPLES = 12  # of each operator; half as many of each function of one that has several
TYPES = ["FLOAT32", "FLOAT16", "INT64", "INT32", "INT16", "INT8", "UINT8"]  # with kernels in torch

Tensor = Any
Arrays = list[np.ndarray]
F = ReduceFunction
ARITHMETIC = set(F) - {F.ARGMAX, F.ARGMIN, F.MAX, F.MIN}


def torch() -> Any:
    return importlib.import_module("torch")


def flat(op: Any, x: Tensor) -> Tensor:
    """The reduced dimensions last, in increasing order, as one."""
    axes = sorted(op.axes)
    kept = [d for d in range(x.ndim) if d not in axes]
    return x.permute(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)


def arg(op: Any, x: Tensor, name: str) -> Tensor:
    rows, pick = flat(op, x), getattr(torch(), name)
    if getattr(op, "axis_direction", None) == AxisDirection.DECREASING:
        return rows.shape[-1] - 1 - pick(rows.flip(-1), -1)
    return pick(rows, -1)


def reduce(op: Any, x: Tensor) -> Tensor:
    t, rows = torch(), flat(op, x)
    return {
        F.ARGMAX: lambda: arg(op, x, "argmax"),
        F.ARGMIN: lambda: arg(op, x, "argmin"),
        F.AVERAGE: lambda: rows.mean(-1),
        F.L1: lambda: rows.abs().sum(-1, dtype=x.dtype),
        F.L2: lambda: t.linalg.vector_norm(rows, dim=-1),
        F.LOG_SUM: lambda: rows.sum(-1, dtype=x.dtype).log(),
        F.LOG_SUM_EXP: lambda: rows.logsumexp(-1),
        F.MAX: lambda: rows.amax(-1),
        F.MIN: lambda: rows.amin(-1),
        F.MULTIPLY: lambda: rows.prod(-1, dtype=x.dtype),
        F.SUM: lambda: rows.sum(-1, dtype=x.dtype),
        F.SUM_SQUARE: lambda: rows.square().sum(-1, dtype=x.dtype),
    }[op.function]()


def bounds(op: Any) -> list[float | int]:
    """Min and Max; where they cross, torch has max everywhere, and DirectML min."""
    low, high = (cast(bound, op.input_tensor.dtype) for bound in (op.min, op.max))
    return [low, max(low, high)]


def clip(op: Any, x: Tensor) -> Tensor:
    if op.scale_bias is not None:
        x = x * op.scale_bias.scale + op.scale_bias.bias
    return x.clamp(*bounds(op))


def clip_grad(op: Any, x: Tensor, gradient: Tensor) -> Tensor:
    """By autograd, of the clamp; beside its corners, where torch passes the gradient."""
    wide = x.detach().double().requires_grad_()
    low, high = bounds(op)
    wide.clamp(low, high).backward(gradient.detach().double())
    corners = (wide == low) | (wide == high)
    slope = wide.grad.to(x.dtype)
    return gradient * (slope != 0) * ~corners


def renumbered(op: Any, x: Tensor, *parts: int) -> Tensor:
    """Return channels, numbered by two parts, as torch numbers them: by the second part first."""
    if getattr(op, "order", None) == DepthSpaceOrder.COLUMN_ROW_DEPTH:
        return x
    n, _, h, w = x.shape
    return x.reshape(n, *parts, h, w).transpose(1, 2).reshape(x.shape)


def depth_to_space(op: Any, x: Tensor) -> Tensor:
    area = op.block_size**2
    deep = renumbered(op, x, area, x.shape[1] // area)
    return torch().nn.functional.pixel_shuffle(deep, op.block_size)


def space_to_depth(op: Any, x: Tensor) -> Tensor:
    deep = torch().nn.functional.pixel_unshuffle(x, op.block_size)
    return renumbered(op, deep, x.shape[1], op.block_size**2)


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "ARGMAX": partial(arg, name="argmax"),
    "ARGMIN": partial(arg, name="argmin"),
    "DEPTH_TO_SPACE": depth_to_space,
    "DEPTH_TO_SPACE1": depth_to_space,
    "ELEMENT_WISE_CLIP": clip,
    "ELEMENT_WISE_CLIP1": clip,
    "ELEMENT_WISE_CLIP_GRAD": clip_grad,
    "ELEMENT_WISE_CLIP_GRAD1": clip_grad,
    "JOIN": lambda op, *xs: torch().cat(xs, op.axis),
    "REDUCE": reduce,
    "SPACE_TO_DEPTH": space_to_depth,
    "SPACE_TO_DEPTH1": space_to_depth,
    "SPLIT": lambda op, x: x.split([t.sizes[op.axis] for t in op.output_tensors], op.axis),
    "TILE": lambda op, x: x.tile(op.repeats),
}


@dataclass(frozen=True)
class Answer:
    """What torch says of an operator.

    Attributes:
        operator: the operator.
        inputs, outputs: its arrays.
        cotangents, gradients: gradients of the outputs, and what they are of the inputs; empty
            where they are not compared.
    """

    operator: Operator
    inputs: Arrays
    outputs: Arrays
    cotangents: Arrays
    gradients: Arrays

    def check(self) -> None:
        """Raises `AssertionError` where the operator says something else."""
        near = {}
        if getattr(self.operator, "function", F.MAX) in ARITHMETIC:
            # Both round sums of float16 once; torch some of the terms, too.
            half = self.outputs[0].dtype == np.float16
            near = {"rtol": 2e-3} if half else {"rtol": 1e-5, "atol": 1e-6}
        if not self.gradients:
            compare(jax.tree.leaves(self.operator(*self.inputs)), self.outputs, **near)
            return

        @jax.jit
        def call(inputs: Arrays, cotangents: Arrays) -> Any:
            results, pullback = jax.vjp(lambda *xs: jax.tree.leaves(self.operator(*xs)), *inputs)
            return results, pullback(cotangents)

        results, gradients = call(self.inputs, self.cotangents)
        compare(results, self.outputs, **near)
        compare(gradients, self.gradients, rtol=1e-5, atol=1e-5)


def has_corners(op: Any, x: np.ndarray) -> bool:
    """Whether torch passes the gradient where DirectML does not: at a bound of clipping."""
    scale = getattr(op, "scale_bias", None)
    values = x if scale is None else x * scale.scale + scale.bias
    return hasattr(op, "min") and bool(np.isin(values, bounds(op)).any())


def answer(op: Operator, inputs: Arrays) -> Answer:
    """Asks torch."""
    t, name = torch(), op.short_name
    smooth = op.outputs[0].dtype == np.float32 and not has_corners(op, inputs[0])
    tensors = [t.tensor(x, requires_grad=smooth) for x in inputs]
    results = EXPRESSIONS[name](op, *tensors)
    results = results if isinstance(results, (tuple, list)) else [results]
    results = [r.reshape(d.sizes) for r, d in zip(results, op.outputs, strict=True)]
    outputs = [r.detach().numpy().astype(d.dtype) for r, d in zip(results, op.outputs, strict=True)]
    if not smooth:
        return Answer(op, inputs, outputs, [], [])
    rng = np.random.default_rng(len(name))
    cotangents = [rng.integers(-8, 8, o.shape).astype(np.float32) for o in outputs]
    gradients = t.autograd.grad(
        results, tensors, list(map(t.tensor, cotangents)), allow_unused=True, materialize_grads=True
    )
    return Answer(op, inputs, outputs, cotangents, [g.numpy() for g in gradients])


def drawn(name: str) -> list[tuple[Operator, Arrays]]:
    """Random descriptors of an operator, as many for each function that it has."""
    found: dict[Any, list[Operator]] = {}
    op_class, rng = OPERATORS[f"DML_OPERATOR_{name}"], np.random.default_rng(len(name))
    record, by = record_of(op_class), op_class.support.by
    tensor = next(f.name for f in op_class.fields if f.tensor)
    chosen = [types for types, _ in combinations(op_class, record) if types[tensor] in TYPES]
    floats = [types for types in chosen if types[tensor] == "FLOAT32"]
    for types in (floats * len(chosen) + chosen) * EXAMPLES:
        op: Any = record.operator(rng, op_class, types)
        # Integers that are scaled are DirectML's own rule.
        scaled = op.inputs[0].dtype.kind != "f" and getattr(op, "scale_bias", None)
        if not scaled:
            found.setdefault(getattr(op, by) if by else None, []).append(op)
    each = EXAMPLES if len(found) == 1 else EXAMPLES // 2
    return [
        (ops[k], record.arrays(rng, ops[k]))
        for ops in found.values()
        for k in rng.permutation(len(ops))[:each]
    ]


PARTS = ("inputs", "outputs", "cotangents", "gradients")


def write() -> None:
    """Asks torch for everything, and keeps it: the elements one after the other, type by type."""
    elements: dict[str, list[np.ndarray]] = {}
    index: list[dict[str, Any]] = []
    for name in EXPRESSIONS:
        for case in drawn(name):
            told = answer(*case)
            index.append({"operator": told.operator.to_json()})
            for part in PARTS:
                arrays: Arrays = getattr(told, part)
                index[-1][part] = [[x.dtype.name, *x.shape] for x in arrays]
                for x in arrays:
                    elements.setdefault(x.dtype.name, []).append(x.ravel())
    text = json.dumps({"torch": torch().__version__, "answers": index})
    joined = {dtype: np.concatenate(parts) for dtype, parts in elements.items()}
    np.savez_compressed(FILE, allow_pickle=False, index=np.array(text), **joined)


@functools.cache
def kept() -> tuple[str, list[Answer]]:
    """The version of torch, and its answers."""
    with np.load(FILE) as file:
        left = dict(file)
    index = json.loads(str(left.pop("index")))

    def taken(dtype: str, *shape: int) -> np.ndarray:
        first, left[dtype] = np.split(left[dtype], [math.prod(shape)])
        return first.reshape(shape)

    answers = []
    for told in index["answers"]:
        parts = ([taken(*x) for x in told[part]] for part in PARTS)
        answers.append(Answer(operator_from_json(told["operator"]), *parts))
    return index["torch"], answers


def version() -> str:
    return kept()[0]


def cases() -> list[Case]:
    return [
        Case(name, f"{name}-{k}", a.check)
        for k, a in enumerate(kept()[1])
        for name in [a.operator.short_name]
    ]


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    write()
