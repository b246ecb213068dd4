"""ONNX Runtime, and the ONNX models of operators and graphs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import expressions
import numpy as np
from roofline import Data
from table import Cell

from dml_jax.bench.memory import as_tuple
from dml_jax.host import cores
from peers.common import (
    Entries,
    Entry,
    F,
    Inputs,
    UnsupportedError,
    allocating,
    arg_parts,
    block_steps,
    is_arg,
    last_node,
    writing,
)


class OnnxRuntime:
    """ONNX Runtime's CPU provider."""

    name = "onnxruntime"

    def entries(self, cell: Cell, inputs: Inputs, data: Data, compiled: Any) -> Entries:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = cores()
        options.log_severity_level = 4
        # Its threads would spin beside the next contender.
        options.add_session_config_entry("session.force_spinning_stop_between_runs", "1")
        model = _Model(cell.function)
        session = ort.InferenceSession(
            model.serialized(), options, providers=["CPUExecutionProvider"]
        )
        views = [tuple(map(np.asarray, xs)) for xs in inputs]
        outputs = [[np.ones(o.shape, o.dtype) for o in model.outputs] for _ in views]
        values = [
            (
                {
                    n: ort.OrtValue.ortvalue_from_numpy(x)
                    for n, x in zip(model.names, xs, strict=True)
                },
            )
            for xs in views
        ]
        names = [o.name for o in model.outputs]
        bindings = []
        for xs, outs in zip(views, outputs, strict=True):
            binding = session.io_binding()
            for name, x in zip(model.names, xs, strict=True):
                binding.bind_input(name, "cpu", 0, x.dtype, x.shape, x.ctypes.data)
            for name, out in zip(names, outs, strict=True):
                binding.bind_output(name, "cpu", 0, out.dtype, out.shape, out.ctypes.data)
            bindings.append((binding,))
        allocated = allocating(lambda feeds: session.run_with_ort_values(names, feeds), values)
        bound = writing(lambda _, binding: session.run_with_iobinding(binding), outputs, bindings)
        return {
            "allocated": Entry(
                allocated.contender, lambda i: [v.numpy() for v in allocated.results(i)]
            ),
            "bound": bound,
        }


@dataclass
class _Output:
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


class _Model:
    """An ONNX model of an operator or a graph."""

    def __init__(self, function: Any):
        import onnx

        self.helper = onnx.helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs = list(function.inputs)
        self.names = [f"x{i}" for i in range(len(self.inputs))]
        made: Any = expressions.compose(function, self._of)(*self.names)
        self.outputs = [
            _Output(name, tuple(t.sizes), np.dtype(np.int64) if is_arg(op) else t.dtype)
            for name, t, op in zip(
                as_tuple(made), function.outputs, last_node(function), strict=True
            )
        ]

    def serialized(self) -> bytes:
        value = self.helper.make_tensor_value_info
        kind = self.helper.np_dtype_to_tensor_dtype
        graph = self.helper.make_graph(
            self.nodes,
            "cell",
            [
                value(n, kind(t.dtype), t.sizes)
                for n, t in zip(self.names, self.inputs, strict=True)
            ],
            [value(o.name, kind(o.dtype), o.shape) for o in self.outputs],
            self.constants,
        )
        opset = self.helper.make_opsetid("", 21)
        model = self.helper.make_model(graph, opset_imports=[opset], ir_version=10)
        return model.SerializeToString()

    def add(self, kind: str, *inputs: str, results: int = 1, **attributes: Any) -> Any:
        """A node; the name of its result, or the names."""
        names = [f"v{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(self.helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if results == 1 else tuple(names)

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """The name of an initializer."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def _of(self, op: Any) -> Callable[..., Any]:
        return lambda *names: self._node(op, names)

    def _node(self, op: Any, names: Sequence[str]) -> Any:
        add, constant = self.add, self.constant
        name, dtype = op.short_name, op.inputs[0].dtype
        x = names[0]
        if is_arg(op):
            return self._arg(op, x)
        if name == "REDUCE":
            kind = {
                F.AVERAGE: "ReduceMean",
                F.L1: "ReduceL1",
                F.L2: "ReduceL2",
                F.LOG_SUM: "ReduceLogSum",
                F.LOG_SUM_EXP: "ReduceLogSumExp",
                F.MAX: "ReduceMax",
                F.MIN: "ReduceMin",
                F.MULTIPLY: "ReduceProd",
                F.SUM: "ReduceSum",
                F.SUM_SQUARE: "ReduceSumSquare",
            }[op.function]
            return add(kind, x, constant(sorted(op.axes)), keepdims=1)
        if name.startswith("ELEMENT_WISE_CLIP"):
            low, high = (constant(bound, dtype) for bound in op.bounds())
            if "GRAD" in name:
                inside = add("And", add("Greater", x, low), add("Less", x, high))
                return add("Where", inside, names[1], constant(0, dtype))
            if op.scale_bias is not None:
                if np.issubdtype(dtype, np.integer):
                    raise UnsupportedError("no scale of integers")
                x = add("Mul", x, constant(op.scale_bias.scale, dtype))
                x = add("Add", x, constant(op.scale_bias.bias, dtype))
            return add("Clip", x, low, high)
        if name == "SPLIT":
            pieces = [t.sizes[op.axis] for t in op.output_tensors]
            return add("Split", x, constant(pieces), results=len(pieces), axis=op.axis)
        if name == "JOIN":
            return add("Concat", *names, axis=op.axis)
        if name == "TILE":
            return add("Tile", x, constant(list(op.repeats)))
        if name.startswith("DEPTH"):
            mode = "DCR" if op.depth_first else "CRD"
            return add("DepthToSpace", x, blocksize=op.block_size, mode=mode)
        if op.depth_first:
            return add("SpaceToDepth", x, blocksize=op.block_size)
        shape, order, out = block_steps(op)
        moved = add("Transpose", add("Reshape", x, constant(shape)), perm=order)
        return add("Reshape", moved, constant(out))

    def _arg(self, op: Any, x: str) -> str:
        add, constant = self.add, self.constant
        largest, last = arg_parts(op)
        block, (order, shape) = expressions.reduced_block(op), expressions.reduced_last(op)
        if block is not None:
            x, axis = add("Reshape", x, constant(block)), 1
        else:
            x, axis = add("Reshape", add("Transpose", x, perm=order), constant(shape)), -1
        found = add(
            "ArgMax" if largest else "ArgMin",
            x,
            axis=axis,
            keepdims=0,
            select_last_index=int(last),
        )
        return add("Reshape", found, constant(list(op.outputs[0].sizes)))
