"""jax.numpy, and NumPy with what has its functions: CuPy."""

from collections.abc import Callable, Sequence
from typing import Any

import expressions
import jax
import numpy as np
from roofline import Data, sets_of
from table import Cell

from dml_jax.bench.memory import Programs, as_tuple, jax_contenders, programs
from peers.common import (
    Entries,
    Entry,
    F,
    Inputs,
    allocating,
    arg_parts,
    block_steps,
    bound_nodes,
    is_arg,
    last_node,
    tile_shapes,
    writing,
)


class Jnp:
    """The straightforward jax.numpy expression under jit."""

    name = "jnp"

    def programs(self, cell: Cell, device: Any) -> Programs:
        function, sets = cell.function, sets_of(cell, device)
        expression = expressions.expression(function)
        return programs(expression, function.inputs, function.outputs, device, sets)

    def entries(self, cell: Cell, inputs: Inputs, data: Data, compiled: Programs) -> Entries:
        return jax_entries(cell, inputs, data, compiled)


def jax_entries(cell: Cell, inputs: Inputs, data: Data, compiled: Programs) -> Entries:
    """Of programs compiled both ways."""

    def results(index: int) -> Any:
        return as_tuple(compiled.allocated(*inputs[index]))

    made = jax_contenders(compiled, inputs, cell.function.outputs, data)
    contenders = {"bound": made["donated"], "allocated": made["allocated"]}
    # A donated output's values are gone with the next call: ask the other program.
    return {way: Entry(contender, results) for way, contender in contenders.items()}


class NumPy:
    """NumPy, and with `xp` CuPy; one core of a CPU."""

    def __init__(self, name: str = "numpy", xp: Any = np, mark: Any = None):
        self.name = name
        self.xp = xp
        self.options = {"mark": mark} if mark else {}

    def _view(self, x: jax.Array) -> Any:
        return np.asarray(x) if self.xp is np else self.xp.from_dlpack(x)

    def _full(self, sizes: Sequence[int], dtype: Any) -> Any:
        return self.xp.full(tuple(sizes), 1, dtype)  # touched, so that no page is new

    def entries(self, cell: Cell, inputs: Inputs, data: Data, compiled: Any) -> Entries:
        function = cell.function
        expression = expressions.expression(function, self.xp)
        views = [tuple(map(self._view, xs)) for xs in inputs]
        outputs = [self._outs(function) for _ in views]
        bound = bound_nodes(function, self.bound, self._outs)
        return {
            "allocated": allocating(expression, views, **self.options),
            "bound": writing(bound, outputs, views, **self.options),
        }

    def _outs(self, function: Any) -> list[Any]:
        makers = last_node(function)
        return [
            self._full(t.sizes, np.int64 if is_arg(op) else t.dtype)
            for t, op in zip(function.outputs, makers, strict=True)
        ]

    def bound(self, op: Any) -> Callable[..., None]:
        """`call(outs, *xs)`."""
        name = op.short_name
        if is_arg(op):
            return self._arg(op)
        if name == "REDUCE":
            return self._reduce(op)
        if name.startswith("ELEMENT_WISE_CLIP"):
            return self._clip_grad(op) if "GRAD" in name else self._clip(op)
        return self._arrange(op, name)

    def _clip(self, op: Any) -> Callable[..., None]:
        xp, (low, high), map_ = self.xp, op.bounds(), op.scale_bias
        if map_ is None:
            return lambda outs, x: xp.clip(x, low, high, out=outs[0])
        wide = None
        if np.issubdtype(op.inputs[0].dtype, np.integer):
            wide = self._full(op.inputs[0].sizes, np.float32)

        def call(outs: Any, x: Any) -> None:
            y = outs[0] if wide is None else wide
            xp.multiply(x, y.dtype.type(map_.scale), out=y)
            xp.add(y, y.dtype.type(map_.bias), out=y)
            xp.clip(y, low, high, out=y)
            if wide is not None:
                outs[0][...] = wide

        return call

    def _clip_grad(self, op: Any) -> Callable[..., None]:
        xp, (low, high) = self.xp, op.bounds()
        above, below = (self._full(op.inputs[0].sizes, bool) for _ in range(2))

        def call(outs: Any, x: Any, g: Any) -> None:
            xp.greater(x, low, out=above)
            xp.less(x, high, out=below)
            xp.logical_and(above, below, out=above)
            xp.multiply(g, above, out=outs[0])

        return call

    def _arrange(self, op: Any, name: str) -> Callable[..., None]:
        xp = self.xp
        if name == "JOIN":
            return lambda outs, *xs: xp.concatenate(xs, axis=op.axis, out=outs[0])
        if name == "SPLIT":
            ends = np.cumsum([t.sizes[op.axis] for t in op.output_tensors])[:-1].tolist()

            def split(outs: Any, x: Any) -> None:
                for out, piece in zip(outs, xp.split(x, ends, op.axis), strict=True):
                    out[...] = piece

            return split
        if name == "TILE":
            source, target = tile_shapes(op)

            def tile(outs: Any, x: Any) -> None:
                outs[0].reshape(target)[...] = x.reshape(source)

            return tile
        shape, order, _ = block_steps(op)
        moved = [shape[d] for d in order]

        def move(outs: Any, x: Any) -> None:
            outs[0].reshape(moved)[...] = x.reshape(shape).transpose(order)

        return move

    def _arg(self, op: Any) -> Callable[..., None]:
        largest, last = arg_parts(op)
        xp, block = self.xp, expressions.reduced_block(op)
        order, shape = expressions.reduced_last(op)
        find = xp.argmax if largest else xp.argmin

        def call(outs: Any, x: Any) -> None:
            if block is None:
                x, axis, kept = x.transpose(order).reshape(shape), len(shape) - 1, shape[:-1]
            else:
                x, axis, kept = x.reshape(block), 1, (block[0], block[2])
            out = outs[0].reshape(kept)
            find(xp.flip(x, axis) if last else x, axis=axis, out=out)
            if last:
                xp.subtract(x.shape[axis] - 1, out, out=out)

        return call

    def _reduce(self, op: Any) -> Callable[..., None]:
        xp, axes, tensor = self.xp, tuple(op.axes), op.inputs[0]
        over = {"axis": axes, "keepdims": True}
        scratch = top = None
        if op.function in (F.L1, F.L2, F.SUM_SQUARE, F.LOG_SUM_EXP):
            scratch = self._full(tensor.sizes, tensor.dtype)
        if op.function == F.LOG_SUM_EXP:
            top = self._full(op.outputs[0].sizes, tensor.dtype)

        def total(x: Any, out: Any) -> None:
            xp.sum(x, out=out, dtype=None if x.dtype.kind == "f" else x.dtype, **over)

        def call(outs: Any, x: Any) -> None:
            (out,) = outs
            match op.function:
                case F.AVERAGE:
                    xp.mean(x, out=out, **over)
                case F.MAX:
                    xp.max(x, out=out, **over)
                case F.MIN:
                    xp.min(x, out=out, **over)
                case F.MULTIPLY:
                    xp.prod(x, out=out, dtype=x.dtype, **over)
                case F.L1:
                    total(xp.abs(x, out=scratch), out)
                case F.L2 | F.SUM_SQUARE:
                    total(xp.square(x, out=scratch), out)
                case F.LOG_SUM_EXP:
                    xp.max(x, out=top, **over)
                    xp.subtract(x, top, out=scratch)
                    total(xp.exp(scratch, out=scratch), out)
                case _:
                    total(x, out)
            if op.function == F.L2:
                xp.sqrt(out, out=out)
            if op.function in (F.LOG_SUM, F.LOG_SUM_EXP):
                xp.log(out, out=out)
            if op.function == F.LOG_SUM_EXP:
                xp.add(out, top, out=out)

        return call
