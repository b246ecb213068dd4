"""Writes ONNX nodes: values with types and shapes, initializers, and the model at the end."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
from onnx import checker, helper, numpy_helper

from dml_jax import __version__
from dml_jax.errors import DmlError, Fault, Sentence
from dml_jax.lowering.clamp import cast_bound
from dml_jax.onnx.files.topology import needed, read_by

OPSET, IR_VERSION = 21, 10
"""What a model needs at least: ONNX 1.16, ONNX Runtime 1.18."""

_BROADCASTS = {"Add", "Div", "Max", "Min", "Mul", "Sub"}
FOLDED_MAX = 1 << 16  # bytes: what constants give is an initializer up to this size
Shape = tuple[int, ...]

_NARROW, _UNSIGNED = ("int8", "int16", "uint8", "uint16"), ("uint32", "uint64")
_WIDER = {  # a type that holds all elements of another one
    **dict.fromkeys(("bfloat16", "float16"), "float32"),
    **dict.fromkeys(("bool", "int8", "int16", "uint8", "uint16", "int4", "uint4"), "int32"),
    **dict.fromkeys(("uint32", "uint64"), "int64"),  # of uint64, modulo 2^64
}
_NOT = {  # the types that ONNX Runtime's CPU lacks, of those that ONNX lists
    **dict.fromkeys(("Max", "Min", "Clip", "Pad"), ("int16", "uint16")),
    "Where": ("int8", "int16", "uint16", "uint32", "uint64", "bool", "float16"),
    **dict.fromkeys(("Relu", "Conv"), ("int32", "int64", *_NARROW, *_UNSIGNED)),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMean"), (*_NARROW, *_UNSIGNED)),
    **dict.fromkeys(("CumSum", "Pow"), (*_NARROW, *_UNSIGNED)),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), ("int16", "uint16", *_UNSIGNED)),
    **dict.fromkeys(("ArgMax", "ArgMin"), ("int16", "uint16", *_UNSIGNED)),
    "MatMul": _NARROW,
    "TopK": ("uint16", *_UNSIGNED),
    "Neg": ("uint8", "uint16", *_UNSIGNED),
    **dict.fromkeys(("Celu", "ScatterElements"), ("float16",)),
}
_IN_BFLOAT16 = ("Cast", "Reshape", "Transpose", "Slice", "Concat", "Expand", "Gather", "Identity")


class Value(str):
    """The name of a tensor, with its type and shape.

    Attributes:
        dtype: NumPy's type of the elements.
        shape: the sizes.
        array: the elements, where they are known.
        once: the value that this one repeats, which broadcasts to it.
    """

    dtype: np.dtype
    shape: Shape
    array: np.ndarray | None
    once: "Value | None"

    def __new__(
        cls, name: str, dtype: Any, shape: Sequence[int], array: Any = None, once: Any = None
    ) -> "Value":
        if array is None and np.dtype(dtype).kind == "c":
            raise unwritten(f"the type {np.dtype(dtype).name}")
        value = super().__new__(cls, name)
        value.dtype, value.shape, value.array = np.dtype(dtype), tuple(shape), array
        value.once = once
        return value

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)


class Writer:
    """Writes the nodes of a graph.

    `writer("Add", a, b)` adds a node, and returns its output: of the type of the first input and
    the shape to which the inputs broadcast, or of those that are given.

    Args:
        outer: the writer of the graph around this one, whose values this graph reads.
    """

    def __init__(self, outer: "Writer | None" = None):
        self.nodes: list[onnx.NodeProto] = []
        self._top: Writer = self if outer is None else outer._top
        if outer is None:
            self.opset = OPSET
            self._count, self._names = 0, dict[str, int]()
            self._initializers: dict[Any, onnx.TensorProto] = {}

    def name(self, wanted: str = "") -> str:
        """Return a name that no other value has."""
        top = self._top
        if not wanted:
            top._count += 1
            wanted = f"v{top._count}"
        while wanted in top._names:
            top._names[wanted] += 1
            wanted = f"{wanted}_{top._names[wanted]}"
        top._names[wanted] = 0
        return wanted

    def constant(self, array: Any, dtype: Any = None, name: str = "") -> Value:
        """Return an initializer: one for all equal arrays that have no name."""
        array = np.asarray(array) if dtype is None else np.asarray(array, dtype)
        packed, known = np.ascontiguousarray(array), self._top._initializers
        key = name or (array.dtype.name, array.shape, packed.tobytes())
        if key not in known:
            known[key] = numpy_helper.from_array(packed, self.name(name or "c"))
            known[key].dims[:] = array.shape
        return Value(known[key].name, array.dtype, array.shape, array)

    def indices(self, values: Any) -> Value:
        """Return integers that a node takes as an input."""
        return self.constant(np.asarray(values, np.int64))

    def like(self, value: Any, x: Value) -> Value:
        """Return a number in the type of `x`: integers saturate, floats become infinite."""
        return self.constant(np.asarray(cast_bound(value, x.dtype), x.dtype))

    def __call__(
        self,
        op_type: str,
        *inputs: Any,
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        **attributes: Any,
    ) -> Value:
        """Add a node of one output; None stands for an input that is left out."""
        (made,) = self.several(op_type, *inputs, results=[(dtype, shape)], **attributes)
        return made

    def several(
        self, op_type: str, *inputs: Any, results: Sequence[Any], **attributes: Any
    ) -> list[Value]:
        """Add a node of several outputs, (type, shape) of each in `results`.

        ONNX Runtime computes it in a wider type where it lacks the type of the first input.
        """
        given = [x for x in inputs if x is not None]
        own = given[op_type == "Where"].dtype
        outs = [
            (
                np.dtype(own if d is None else d),
                np.broadcast_shapes(*(x.shape for x in given)) if s is None else tuple(s),
            )
            for d, s in results
        ]
        if not _runs(op_type, own):
            wide = np.dtype(_WIDER[own.name])
            cast = [x if x is None or x.dtype != own else self.cast(x, wide) for x in inputs]
            inner = [(wide if d == own else d, s) for d, s in outs]
            made = self.several(op_type, *cast, results=inner, **attributes)
            return [self.cast(x, d) for x, (d, _) in zip(made, outs, strict=True)]
        less = tuple(x.once or x for x in given)
        if op_type in _BROADCASTS and np.broadcast_shapes(*(x.shape for x in less)) == outs[0][1]:
            inputs = less
        names = [self.name() for _ in outs]
        kept = {k: v for k, v in attributes.items() if v is not None}
        read = ["" if x is None else str(x) for x in inputs]
        self.nodes.append(helper.make_node(op_type, read, names, **kept))
        return [Value(n, d, s) for n, (d, s) in zip(names, outs, strict=True)]

    def needs(self, opset: int) -> None:
        """Let the model have at least a version of ONNX's operators."""
        self._top.opset = max(self._top.opset, opset)

    def cast(self, x: Value, dtype: Any) -> Value:
        """Return `x` in another type: integers modulo 2^n, floats rounded."""
        if x.dtype == (dtype := np.dtype(dtype)):
            return x
        if x.array is not None and x.array.nbytes <= FOLDED_MAX and dtype.kind != "V":
            with np.errstate(all="ignore"):
                return self.constant(x.array.astype(dtype))
        to = helper.np_dtype_to_tensor_dtype(dtype)
        return self("Cast", x, dtype=dtype, to=to)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return `x` in another shape of as many elements."""
        if x.shape == (shape := tuple(map(int, shape))):
            return x
        if x.array is not None and x.array.nbytes <= FOLDED_MAX:
            return self.constant(x.array.reshape(shape))
        zeros = int(0 in shape) or None
        return self("Reshape", x, self.indices(shape), shape=shape, allowzero=zeros)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        """Return `x` with its dimensions in another order."""
        order = [int(a) for a in order]
        if order == sorted(order):
            return x
        shape = [x.shape[a] for a in order]
        long = [a for a in order if x.shape[a] > 1]
        if math.prod(shape) and long == sorted(long):
            return self.reshape(x, shape)
        return self("Transpose", x, shape=shape, perm=order)

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Return `x` repeated along dimensions of size 1."""
        if x.shape == (shape := tuple(map(int, shape))):
            return x
        made = self("Expand", x, self.indices(shape), shape=shape)
        return Value(made, made.dtype, shape, once=x)

    def slice(
        self, x: Value, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] = ()
    ) -> Value:
        """Return a part of `x`, from starts to stops in steps that are not negative."""
        steps = steps or (1,) * x.rank
        rows = zip(starts, stops, steps, strict=True)
        shape = tuple(max(0, -(-(b - a) // s)) for a, b, s in rows)
        axes = [
            k for k in range(x.rank) if (starts[k], shape[k]) != (0, x.shape[k]) or steps[k] != 1
        ]
        if not axes:
            return x
        chosen = [[int(v[k]) for k in axes] for v in (starts, stops, range(x.rank), steps)]
        return self("Slice", x, *map(self.indices, chosen), shape=shape)

    def part(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Return the part of `x` from `start` to `stop` along a dimension."""
        starts, stops, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], stops[axis], steps[axis] = start, stop, step
        return self.slice(x, starts, stops, steps)

    def concatenate(self, xs: Sequence[Value], axis: int) -> Value:
        """Return values after each other along a dimension."""
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self("Concat", *xs, shape=shape, axis=axis)

    def pad(self, x: Value, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Value:
        """Return `x` with a value around it; negative counts leave elements out."""
        if any(n < 0 for n in (*before, *after)):
            starts = [max(0, -a) for a in before]
            x = self.slice(x, starts, [n + min(0, b) for n, b in zip(x.shape, after, strict=True)])
        low, high = ([max(0, int(n)) for n in side] for side in (before, after))
        if not any((*low, *high)):
            return x
        shape = [a + n + b for a, n, b in zip(low, x.shape, high, strict=True)]
        fill = value if isinstance(value, Value) else self.like(value, x)
        return self("Pad", x, self.indices([*low, *high]), fill, shape=shape)

    def reduce(self, op_type: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
        """Return a reduction of `x`, whose dimensions `axes` have size 1 or go."""
        shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keep or k not in axes]
        if not axes:
            return x
        is_extreme = op_type in ("ReduceMax", "ReduceMin")
        if is_extreme and x.dtype in (np.int64, np.uint32):  # ONNX Runtime 1.30 mistakes large ones
            return self.reshape(self._extreme(f"Arg{op_type[-3:]}", x, axes), shape)
        where = self.indices([int(a) for a in sorted(axes)])
        return self(op_type, x, where, shape=shape, keepdims=int(keep))

    def top_k(self, x: Value, k: int, axis: int, largest: bool = True) -> list[Value]:
        """Return the first elements of `x` in their order along a dimension, and their places."""
        shape = [k if d == axis else n for d, n in enumerate(x.shape)]
        results = [(None, shape), (np.int64, shape)]
        which = {"axis": int(axis), "largest": int(largest)}
        return self.several("TopK", x, self.indices([k]), results=results, **which)

    def _extreme(self, op_type: str, x: Value, axes: Sequence[int]) -> Value:
        """Return the largest or the least of integers by their places; dimensions keep size 1."""
        found = self.cast(x, np.int64)
        for axis in axes:
            sizes = [1 if k == axis else n for k, n in enumerate(found.shape)]
            place = self(op_type, found, dtype=np.int64, shape=sizes, axis=int(axis), keepdims=1)
            found = self("GatherElements", found, place, shape=sizes, axis=int(axis))
        return self.cast(found, x.dtype)

    def where(self, condition: Value, a: Value, b: Value) -> Value:
        """Return `a` where a condition holds, else `b`."""
        shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
        if a.dtype == np.float64:  # ONNX Runtime has this Where since 1.32
            rows = [self.reshape(self.expand(x, shape), (1, *shape)) for x in (b, a)]
            place = self.reshape(self.expand(self.cast(condition, np.int64), shape), (1, *shape))
            both = self.concatenate(rows, 0)
            made = self("GatherElements", both, place, shape=place.shape, axis=0)
            return self.reshape(made, shape)
        return self("Where", condition, a, b, dtype=a.dtype, shape=shape)

    def compare(self, op_type: str, a: Value, b: Value) -> Value:
        """Return where a comparison holds."""
        if a.dtype == bool and op_type != "Equal":
            a, b = self.cast(a, np.int32), self.cast(b, np.int32)
        return self(op_type, a, b, dtype=bool)

    def graph(
        self, name: str, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> onnx.GraphProto:
        """Return the graph of the nodes that the outputs need, within a node."""
        outs = [self("Identity", x) for x in outputs]  # may be inputs, or of the graph around
        ins = [_info(x) for x in inputs]
        return helper.make_graph(needed(self.nodes, outs), name, ins, [_info(x) for x in outs])

    def model(self, inputs: Sequence[Value], outputs: Mapping[str, Value]) -> onnx.ModelProto:
        """Return the model, which ONNX's checker accepts.

        Args:
            inputs: the values that are inputs.
            outputs: the values that are outputs, by name.
        """
        made = [Value(name, value.dtype, value.shape) for name, value in outputs.items()]
        self.nodes += (helper.make_node("Identity", [str(v)], [n]) for n, v in outputs.items())
        nodes = _fused_identities(needed(self.nodes, made), {*inputs})
        read = {name for node in nodes for name in read_by(node)}
        tensors = [t for t in self._initializers.values() if t.name in read]
        ins, outs = ([_info(x) for x in values] for values in (inputs, made))
        graph = helper.make_graph(nodes, "dml_jax", ins, outs, tensors)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name, model.producer_version = "dml_jax", __version__
        if self.opset > 23:
            model.ir_version = 11 + (self.opset > 24)
        checker.check_model(model)
        return model


def places_of(sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """Return where the elements of a block lie in a row, in steps of each dimension."""
    places = np.zeros((), np.int64)
    for size, step in zip(sizes, steps, strict=True):
        places = places[..., None] + np.arange(size) * step
    return places


def _runs(op_type: str, dtype: np.dtype) -> bool:
    if dtype == jnp.bfloat16:
        return op_type in _IN_BFLOAT16
    if dtype.name in ("int4", "uint4"):
        return op_type in ("Cast", "Identity")
    return dtype.name not in _NOT.get(op_type, ())


def _info(x: Value) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    return helper.make_tensor_value_info(str(x), element, [int(n) for n in x.shape])


def _fused_identities(nodes: list[onnx.NodeProto], inputs: set[str]) -> list[onnx.NodeProto]:
    """Return the nodes, which write the outputs themselves where nothing else reads these."""
    readers = Counter(name for node in nodes for name in read_by(node))
    makers = {name: node for node in nodes for name in node.output}
    kept = []
    for node in nodes:
        source = node.input[0] if node.op_type == "Identity" else ""
        maker = makers.get(source)
        if maker is None or readers[source] > 1 or source in inputs:
            kept.append(node)
            continue
        for k, name in enumerate(maker.output):
            if name == source:
                maker.output[k] = node.output[0]
        makers[node.output[0]] = maker
    return kept


def unwritten(what: str) -> DmlError:
    """Return the error that something has no ONNX nodes."""
    return DmlError([Fault("", "", Sentence(f"{what} has no nodes of ONNX"), "")])
