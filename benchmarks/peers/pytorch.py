"""PyTorch, eager and compiled."""

from collections.abc import Callable
from typing import Any

import expressions
import numpy as np
from roofline import Data
from table import Cell

from dml_jax import TensorDesc
from dml_jax.bench.memory import as_tuple
from dml_jax.bench.timing import Contender, Mark
from dml_jax.host import cores
from peers.common import (
    Entries,
    Entry,
    F,
    Inputs,
    allocating,
    arg_parts,
    block_steps,
    bound_nodes,
    event_mark,
    is_arg,
    last_node,
    tile_shapes,
    writing,
)


class Torch:
    """PyTorch, eager; with `compiling` through torch.compile."""

    def __init__(self, device: Any, compiling: bool = False):
        import torch  # pyright: ignore[reportMissingImports]

        self.torch = torch
        self.name = "torch.compile" if compiling else "torch"
        self.compiling = compiling
        self.on_cpu = device.platform == "cpu"
        if self.on_cpu:
            torch.set_num_threads(cores())
            self.options: dict[str, Any] = {"settle": 3e-3}  # its threads spin for a while
        else:
            self.options = {"mark": self._mark}

    def _mark(self) -> Mark:
        event = self.torch.cuda.Event()
        return event_mark(event, event.query)

    def entries(self, cell: Cell, inputs: Inputs, data: Data, compiled: Any) -> Entries:
        torch, function = self.torch, cell.function
        views = [tuple(map(torch.from_dlpack, xs)) for xs in inputs]
        allocated = expressions.compose(function, self.allocated)
        if self.compiling:
            torch._dynamo.reset()
            return self._compiled(function, allocated, views)
        outputs = [self._outs(function) for _ in views]
        bound = bound_nodes(function, self.bound, self._outs)
        entries = {
            "allocated": allocating(allocated, views, **self.options),
            "bound": writing(bound, outputs, views, **self.options),
        }
        if not self.on_cpu:
            entries["bound"] = self._at_once(entries["bound"], views)
        return entries

    def _compiled(self, function: Any, allocated: Any, views: Any) -> Entries:
        torch = self.torch

        def into(outs: Any, *xs: Any) -> None:
            for out, result in zip(outs, as_tuple(allocated(*xs)), strict=True):
                out.copy_(result)

        make: Any = torch.compile
        entries = {
            "allocated": allocating(
                make(allocated, dynamic=False, fullgraph=True), views, **self.options
            )
        }
        if self.on_cpu:
            outputs = [self._outs(function) for _ in views]
            program = make(into, dynamic=False, fullgraph=True)
            entries["bound"] = writing(program, outputs, views, **self.options)
        for entry in entries.values():
            entry.contender.call(0)  # compiles now, while its cache is its own
        if not self.on_cpu:
            entries["bound"] = self._at_once(entries["allocated"], views)
        return entries

    def _at_once(self, entry: Entry, views: Any) -> Entry:
        """All sets in one call, a CUDA graph, in whose own memory is what it allocates."""
        torch, made = self.torch, []
        entry.results(0)  # what is done the first time cannot be in a graph
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made.extend(entry.results(index) for index in range(len(views)))
        captured = entry, made  # the graph writes to what they hold

        def results(index: int) -> Any:
            graph.replay()
            return captured[1][index % len(made)]

        return Entry(Contender(results, **self.options, sets=len(views)), results)

    def _outs(self, function: Any) -> list[Any]:
        torch = self.torch
        where = "cpu" if self.on_cpu else "cuda"
        return [
            torch.ones(tuple(t.sizes), dtype=self._type(t, op), device=where)
            for t, op in zip(function.outputs, last_node(function), strict=True)
        ]

    def _type(self, tensor: TensorDesc, op: Any) -> Any:
        return self.torch.int64 if is_arg(op) else getattr(self.torch, tensor.dtype.name)

    def allocated(self, op: Any) -> Callable[..., Any]:
        """`call(*xs)`."""
        torch, name = self.torch, op.short_name
        dtype = op.inputs[0].dtype
        if is_arg(op):
            return self._arg(op)
        if name == "REDUCE":
            return self._reduce(op)
        if name.startswith("ELEMENT_WISE_CLIP"):
            low, high = op.bounds()
            if "GRAD" in name:
                return lambda x, g: torch.where((x > low) & (x < high), g, 0)
            map_ = op.scale_bias
            if map_ is None:
                return lambda x: torch.clamp(x, low, high)
            if np.issubdtype(dtype, np.integer):
                given = getattr(torch, dtype.name)
                return lambda x: (x * map_.scale + map_.bias).to(given).clamp(low, high)
            return lambda x: torch.clamp(x * map_.scale + map_.bias, low, high)
        if name == "SPLIT":
            pieces = [t.sizes[op.axis] for t in op.output_tensors]
            return lambda x: [
                piece.contiguous().clone() if piece.is_contiguous() else piece.contiguous()
                for piece in torch.split(x, pieces, op.axis)
            ]
        if name == "JOIN":
            return lambda *xs: torch.cat(xs, op.axis)
        if name == "TILE":
            return lambda x: x.repeat(*op.repeats)
        if not op.depth_first:
            deep = name.startswith("DEPTH")
            shuffle = torch.pixel_shuffle if deep else torch.pixel_unshuffle
            return lambda x: shuffle(x, op.block_size)
        shape, order, out = block_steps(op)
        return lambda x: x.reshape(shape).permute(order).reshape(out)

    def _arg(self, op: Any) -> Callable[..., Any]:
        torch, (largest, last) = self.torch, arg_parts(op)
        find, block = (torch.argmax if largest else torch.argmin), expressions.reduced_block(op)
        order, shape = expressions.reduced_last(op)
        sizes = tuple(op.outputs[0].sizes)

        def call(x: Any) -> Any:
            if block is not None:
                x, axis = x.reshape(block), 1
            else:
                x, axis = x.permute(order).reshape(shape), len(shape) - 1
            if last:
                return (x.shape[axis] - 1 - find(x.flip(axis), axis)).reshape(sizes)
            return find(x, axis).reshape(sizes)

        return call

    def _reduce(self, op: Any) -> Callable[..., Any]:
        torch, axes = self.torch, tuple(op.axes)
        over = {"dim": axes, "keepdim": True}
        norm = torch.linalg.vector_norm
        same = {**over, "dtype": getattr(torch, op.inputs[0].dtype.name)}
        block, sizes = expressions.reduced_block(op), tuple(op.outputs[0].sizes)

        def prod(x: Any) -> Any:
            if block is not None:
                return x.reshape(block).prod(1, dtype=same["dtype"]).reshape(sizes)
            for axis in axes:
                x = x.prod(axis, keepdim=True)
            return x

        return {
            F.AVERAGE: lambda x: torch.mean(x, **over),
            F.L1: lambda x: norm(x, 1, **over),
            F.L2: lambda x: norm(x, 2, **over),
            F.LOG_SUM: lambda x: torch.log(torch.sum(x, **over)),
            F.LOG_SUM_EXP: lambda x: torch.logsumexp(x, **over),
            F.MAX: lambda x: torch.amax(x, **over),
            F.MIN: lambda x: torch.amin(x, **over),
            F.MULTIPLY: prod,
            F.SUM: lambda x: torch.sum(x, **same),
            F.SUM_SQUARE: lambda x: torch.sum(torch.square(x), **same),
        }[op.function]

    def bound(self, op: Any) -> Callable[..., None]:
        """`call(outs, *xs)`."""
        torch, name = self.torch, op.short_name
        if is_arg(op):
            return self._bound_arg(op)
        if name == "REDUCE":
            return self._bound_reduce(op)
        if name.startswith("ELEMENT_WISE_CLIP"):
            return self._bound_clip(op, "GRAD" in name)
        if name == "JOIN":
            return lambda outs, *xs: torch.cat(xs, op.axis, out=outs[0])
        if name == "SPLIT":
            pieces = [t.sizes[op.axis] for t in op.output_tensors]

            def split(outs: Any, x: Any) -> None:
                for out, piece in zip(outs, torch.split(x, pieces, op.axis), strict=True):
                    out.copy_(piece)

            return split
        if name == "TILE":
            source, target = tile_shapes(op)
            return lambda outs, x: outs[0].view(target).copy_(x.view(source).expand(target))
        shape, order, _ = block_steps(op)
        moved = [shape[d] for d in order]
        return lambda outs, x: outs[0].view(moved).copy_(x.reshape(shape).permute(order))

    def _bound_clip(self, op: Any, grad: bool) -> Callable[..., None]:
        torch, (low, high) = self.torch, op.bounds()
        if grad:
            zero = self._outs(op)[0].flatten()[:1].zero_()
            return lambda outs, x, g: torch.where((x > low) & (x < high), g, zero, out=outs[0])
        map_ = op.scale_bias
        if map_ is None:
            return lambda outs, x: torch.clamp(x, low, high, out=outs[0])
        if np.issubdtype(op.inputs[0].dtype, np.integer):
            allocated = self.allocated(op)
            return lambda outs, x: outs[0].copy_(allocated(x))

        def call(outs: Any, x: Any) -> None:
            torch.mul(x, map_.scale, out=outs[0]).add_(map_.bias).clamp_(low, high)

        return call

    def _bound_arg(self, op: Any) -> Callable[..., None]:
        torch, (largest, last) = self.torch, arg_parts(op)
        block = expressions.reduced_block(op)
        if block is None or last:
            found = self._arg(op)
            return lambda outs, x: outs[0].copy_(found(x))
        before, _, after = block
        find: Any = torch.argmax if largest else torch.argmin
        return lambda outs, x: find(x.reshape(block), 1, out=outs[0].view(before, after))

    def _bound_reduce(self, op: Any) -> Callable[..., None]:
        torch, axes = self.torch, tuple(op.axes)
        over = {"dim": axes, "keepdim": True}
        norm, allocated = torch.linalg.vector_norm, self._reduce(op)
        if op.function == F.MULTIPLY:
            return lambda outs, x: outs[0].copy_(allocated(x))
        same = {**over, "dtype": getattr(torch, op.inputs[0].dtype.name)}
        return {
            F.AVERAGE: lambda outs, x: torch.mean(x, out=outs[0], **over),
            F.L1: lambda outs, x: norm(x, 1, out=outs[0], **over),
            F.L2: lambda outs, x: norm(x, 2, out=outs[0], **over),
            F.LOG_SUM: lambda outs, x: torch.sum(x, out=outs[0], **same).log_(),
            F.LOG_SUM_EXP: lambda outs, x: torch.logsumexp(x, out=outs[0], **over),
            F.MAX: lambda outs, x: torch.amax(x, out=outs[0], **over),
            F.MIN: lambda outs, x: torch.amin(x, out=outs[0], **over),
            F.SUM: lambda outs, x: torch.sum(x, out=outs[0], **same),
            F.SUM_SQUARE: lambda outs, x: torch.sum(torch.square(x), out=outs[0], **same),
        }[op.function]
