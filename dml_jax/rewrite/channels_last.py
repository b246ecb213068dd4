"""Convolutions read arrays with their channels last, {N, spatial..., C}.

Each value of the graph has up to two faces: arrays {N, C, spatial...}, as the graph has them, and
arrays {N, spatial..., C}. A face is made where a node asks for it: convolutions, and the poolings
behind them, ask for the last channels; operators that map or move elements follow the face that is
there. A copy between both is a node ELEMENT_WISE_IDENTITY, so that filters are turned once, when
weights are prepared. A copy that the graph has itself (as networks of TensorFlow have) is a face.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jax import lax

from dml_jax import functional as dml
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorFlags
from dml_jax.errors import DmlError
from dml_jax.graph import ConstantNode, Expression, FunctionNode, Graph, GraphBuilder, OperatorNode
from dml_jax.graph.parts import AnyNode, laid_out, strides_of
from dml_jax.lowering.convolution import cost
from dml_jax.rewrite.pattern import built
from dml_jax.rewrite.weight_layouts import transpose

_FLOATS = ("FLOAT16", "FLOAT32", "FLOAT64")


@dataclass
class _Value:
    """A tensor of the old graph, and its faces in the new one.

    Attributes:
        desc: the tensor as the old graph has it.
        is_fixed: whether it follows from constants and weights alone.
        first: the face {N, C, spatial...}.
        last: the face {N, spatial..., C}.
        array: the elements of a constant.
    """

    desc: Any
    is_fixed: bool
    first: Expression | None = None
    last: Expression | None = None
    array: np.ndarray | None = None


@dataclass(frozen=True)
class ChannelsLast:
    """Lays the arrays of convolutions out with their channels last, where copies are few.

    It counts convolutions. Each one that stays would copy its input and its output, so that the
    rewrite gains where it needs less copies than these.

    Attributes:
        always: whether it does so with any number of copies.
        types: the types of the convolutions that gain.
        is_gpu: whether the program is for a GPU. Filters then lie as cuDNN reads them, and each
            convolution gains. Those of a CPU have kernels of several libraries.
        name: how reports name it.
    """

    always: bool = False
    types: Sequence[str] = _FLOATS
    is_gpu: bool = False
    name: str = "channels last"

    def once(self, graph: Graph) -> tuple[Graph, int]:
        """Return the graph in which convolutions have channels last, and their number."""
        operators = [node.operator for node in graph.nodes if isinstance(node, OperatorNode)]
        shapes = [_shape_of(operator) for operator in operators if self.gains(operator)]
        # A network of products alone is as fast in the layout that it has: copies do not pay.
        if not any(self.is_gpu or not shape.is_product for shape in shapes):
            return graph, 0
        walk = _Walk(graph, self)
        made = walk.build()
        return (made, walk.count) if self.always or walk.copied < walk.saved else (graph, 0)

    @property
    def platform(self) -> str:
        """Return the platform that the program is for."""
        return "cuda" if self.is_gpu else "cpu"

    def gains(self, operator: Any) -> bool:
        """Return whether a convolution is faster with channels last, at least not slower."""
        if operator.short_name != "CONVOLUTION" or operator.direction.suffix != "FORWARD":
            return False
        x, y = operator.input_tensor, operator.output_tensor
        is_plain = x.is_packed and y.is_packed and len(x.sizes) in (3, 4)
        if not is_plain or x.data_type.suffix not in self.types or _has_axes(operator):
            return False
        return cost.prefers_channels_last(_shape_of(operator), self.platform)


CHANNELS_LAST = ChannelsLast()


def _shape_of(operator: Any) -> cost.ConvolutionShape:
    """Return the sizes of a CONVOLUTION, by which the cost model answers."""
    x, w = operator.input_tensor, operator.filter_tensor
    sizes = (x.sizes[0], w.sizes[1], w.sizes[0], operator.group_count)
    return cost.ConvolutionShape(*sizes, operator.window, x.sizes[2:], x.dtype)


def _has_axes(operator: Any) -> bool:
    activation = getattr(operator, "fused_activation", None)
    return activation is not None and "axes" in activation.attributes


def _to_last(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return what belongs to dimensions, with that of the channels last."""
    return sizes[0], *sizes[2:], sizes[1]


def _has_faces(value: _Value, tensor: Any) -> bool:
    """Return whether what reads a value as `tensor` may read its last face."""
    whole = value.desc
    is_whole = isinstance(whole, TensorDesc) and whole.is_packed and len(whole.sizes) > 2
    return is_whole and whole.data_type == getattr(tensor, "data_type", None)


def _is_repeated(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    return any(n > 1 and step == 0 for n, step in zip(sizes, strides, strict=True))


def _is_row_major(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    packed = TensorDesc("UINT8", sizes).packed_strides
    return all(n == 1 or a == b for n, a, b in zip(sizes, strides, packed, strict=True))


def _last_strides(
    sizes: Sequence[int], strides: Sequence[int], whole: TensorDesc
) -> list[int] | None:
    """Return the strides by which a view of {N, C, spatial...} reads {N, spatial..., C}.

    None where a dimension of the view runs over several of the tensor `whole`.
    """
    channels, plane = whole.sizes[1], math.prod(whole.sizes[2:])
    found = []
    for n, step in zip(sizes, strides, strict=True):
        if n == 1 or step == 0:
            found.append(0)
        elif n * step <= plane:
            found.append(step * channels)
        elif step % plane == 0 and n * (step // plane) <= channels:
            found.append(step // plane)
        elif step % (plane * channels) == 0:
            found.append(step)
        else:
            return None
    return found


class _Walk:
    """A graph that is built again, with two faces for each value.

    Attributes:
        count: the convolutions that have channels last.
        copied: the bytes of values that are copied between faces.
        saved: the bytes of arrays of convolutions, which would be copied.
    """

    def __init__(self, graph: Graph, how: ChannelsLast):
        self._graph, self._builder, self._how = graph, GraphBuilder(), how
        self._values: dict[tuple[int, int], _Value] = {}
        self._readers = Counter(node for read in graph.reads for node, _ in read.values())
        self.count = self.copied = self.saved = 0
        for source, name, edge in graph.named_inputs:
            is_fixed = isinstance(edge, TensorDesc) and TensorFlags.OWNED_BY_DML in edge.flags
            first = self._builder.input_tensor(name, edge)
            self._values[source] = _Value(edge, is_fixed, first)
        for index, node, _ in graph.plan:
            with self._builder.made_of(vars(node).get("origin", "")):
                self._add(index, node)

    def build(self) -> Graph:
        """Return the new graph."""
        return built(self._graph, self._builder, lambda s: self._first(self._values[s]).source)

    def _add(self, index: int, node: AnyNode) -> None:
        slots = node.slots(output=False)
        given = [
            (self._values[source], slot, slots[slot][1])
            for slot, source in sorted(self._graph.reads[index].items())
        ]
        is_fixed = all(value.is_fixed for value, _, _ in given)
        is_fixed = is_fixed and not isinstance(node, FunctionNode)
        values = {
            slot: _Value(tensor, is_fixed)
            for slot, (_, tensor) in enumerate(node.slots(output=True))
            if tensor is not None
        }
        for slot, value in values.items():
            self._values[index, slot] = value
        made = None
        if isinstance(node, ConstantNode):
            values[0].array = node.array
        elif isinstance(node, OperatorNode) and not is_fixed:
            if self._is_seen(node.operator, given, values[min(values)]):
                return
            made = self._of_last(index, node, given, [*values.values()])
        if made is None:
            reads = {slot: self._read(v, tensor, False).source for v, slot, tensor in given}
            views = [self._read(v, tensor, False).desc for v, _, tensor in given]
            node = _reading(node, views)
            for expression in self._builder.add(node, reads):
                values[expression.source[1]].first = expression
        else:
            for value, expression in zip(values.values(), made, strict=True):
                value.last = expression

    # Faces

    def _copy(self, value: _Value, view: Expression) -> Expression:
        if not value.is_fixed:
            self.copied += 2 * value.desc.total_tensor_size_in_bytes
        return dml.identity(view)

    def _first(self, value: _Value) -> Expression:
        """Return the face {N, C, spatial...}, copied where it is not there."""
        if value.first is None:
            assert value.last is not None
            sizes, strides = value.desc.sizes, value.desc.packed_strides
            moved = _last_strides(sizes, strides, value.desc)
            value.first = self._copy(value, value.last.reinterpret(sizes, moved))
        return value.first

    def _last(self, value: _Value) -> Expression:
        """Return the face {N, spatial..., C}, copied where it is not there."""
        if value.last is None and value.array is not None:
            axes = _to_last(range(value.array.ndim))
            value.last = self._builder.constant(np.ascontiguousarray(value.array.transpose(axes)))
        elif value.last is None:
            assert value.first is not None
            sizes, strides = _to_last(value.desc.sizes), _to_last(value.desc.packed_strides)
            value.last = self._copy(value, value.first.reinterpret(sizes, strides))
        return value.last

    def _read(self, value: _Value, tensor: Any, is_last: bool) -> Expression:
        """Return what reads a value as `tensor`, or as `tensor` with the channels last."""
        if not _has_faces(value, tensor):
            read = Expression(tensor, self._builder, self._first(value).source)
            if not is_last:
                return read
            return read.reinterpret(_to_last(tensor.sizes), _to_last(strides_of(tensor)))
        free = self._free(value, tensor, is_last)
        if free is None:
            _ = self._last(value) if is_last else self._first(value)
            free = self._free(value, tensor, is_last)
        if free is None:  # a view across dimensions, or of dimensions in another order
            sizes, strides = _to_last(tensor.sizes), _to_last(strides_of(tensor))
            free = self._copy(value, self._first(value).reinterpret(sizes, strides))
        return free

    def _free(self, value: _Value, tensor: TensorDesc, is_last: bool) -> Expression | None:
        """Return what reads a value without a copy; None where its face is not there."""
        sizes, strides = tensor.sizes, strides_of(tensor)
        if is_last:
            sizes, strides = _to_last(sizes), _to_last(strides)
        is_repeated = _is_repeated(sizes, strides)
        if value.last is not None:
            moved = _last_strides(sizes, strides, value.desc)
            if moved is not None:
                is_packed = _is_row_major(sizes, moved)
                if is_packed or is_repeated or (is_last and value.first is None):
                    return value.last.reinterpret(sizes, None if is_packed else moved)
        if value.first is not None:
            if not is_last:
                return Expression(tensor, self._builder, value.first.source)
            is_packed = _is_row_major(sizes, strides)
            if is_packed or is_repeated:
                return value.first.reinterpret(sizes, None if is_packed else strides)
        return None

    def _is_seen(self, operator: Any, given: Sequence[Any], made: _Value) -> bool:
        """Let the faces of a copy be views of what it reads; return whether one is."""
        if operator.short_name != "ELEMENT_WISE_IDENTITY" or operator.scale_bias is not None:
            return False
        ((value, _, tensor),) = given
        written = made.desc
        if value.is_fixed or not written.is_packed or len(tensor.sizes) not in (3, 4):
            return False
        if value.desc.total_tensor_size_in_bytes != written.total_tensor_size_in_bytes:
            return False
        if value.desc.data_type != tensor.data_type or len(value.desc.sizes) < 3:
            return False
        first, last = (self._free(value, tensor, is_last) for is_last in (False, True))
        made.first = first if first is not None and first.desc.is_packed else None
        made.last = last if last is not None and last.desc.is_packed else None
        return made.first is not None or made.last is not None

    # Nodes

    def _of_last(
        self, index: int, node: OperatorNode, given: Sequence[Any], values: Sequence[_Value]
    ) -> list[Expression] | None:
        """Return the outputs of a node with channels last; None where it stays as it is."""
        operator = node.operator
        outputs = [value.desc for value in values]
        rank = len(outputs[0].sizes)
        if rank not in (3, 4) or not all(t.is_packed and len(t.sizes) == rank for t in outputs):
            return None
        if operator.short_name == "CONVOLUTION":
            if not self._how.gains(operator):
                return None
            is_free = cost.is_free(_shape_of(operator), self._how.platform)
            if is_free and not self._follows(given[:1]):
                return None
            return self._convolution(node, given, outputs, self._readers[index])
        if any(len(tensor.sizes) != rank for _, _, tensor in given) or not self._follows(given):
            return None
        if operator.takes_channels_last:
            if len(outputs) > 1:
                return None
            read = [self._read(value, tensor, True) for value, _, tensor in given]
            return self._laid_out(node, read, outputs, "NHWC")
        if operator.by_element or operator.takes_any_axes:
            return self._in_other_order(node, given)
        return None

    def _follows(self, given: Sequence[Any]) -> bool:
        """Return whether as much of what a node reads has its channels last as not."""
        votes, has_last = 0, False
        most = max(math.prod(tensor.sizes) for _, _, tensor in given)
        for value, _, tensor in given:
            is_repeated = _is_repeated(tensor.sizes, strides_of(tensor))
            if not value.is_fixed and not is_repeated and 4 * math.prod(tensor.sizes) >= most:
                size = math.prod(tensor.sizes)
                is_first, is_last = (self._free_of(value, tensor, x) for x in (False, True))
                votes += size * (is_last - is_first)
                has_last |= is_last and not is_first
        return has_last and votes >= 0

    def _free_of(self, value: _Value, tensor: Any, is_last: bool) -> bool:
        if not _has_faces(value, tensor):
            return not is_last
        found = self._free(value, tensor, is_last)
        return found is not None and (found.desc.is_packed or value.first is not None)

    def _convolution(
        self, node: OperatorNode, given: Sequence[Any], outputs: Sequence[TensorDesc], readers: int
    ) -> list[Expression] | None:
        (x, _, x_tensor), (w, _, w_tensor), *bias = given
        if not w.is_fixed or not w_tensor.is_packed:
            return None
        spatial = range(2, len(w_tensor.sizes))
        order = (0, *spatial, 1) if self._how.is_gpu else (*spatial, 1, 0)
        filters = transpose(self._read(w, w_tensor, False), order)
        read = [self._read(x, x_tensor, True), filters]
        read += [self._read(value, tensor, True) for value, _, tensor in bias]
        self.count += 1
        if cost.copies_anyway(_shape_of(node.operator), self._how.platform):
            self.saved += 2 * sum(t.total_tensor_size_in_bytes for t in (x_tensor, *outputs))
        if not self._how.is_gpu:
            return self._laid_out(node, read, outputs, cost.NHWC_HWIO)
        # XLA would compute a convolution of each channel again for each of its readers.
        is_stored = readers > 1 and node.operator.group_count > 1
        return self._laid_out(node, read, outputs, cost.NHWC_OHWI, is_stored)

    def _laid_out(
        self,
        node: OperatorNode,
        read: Sequence[Expression],
        outputs: Sequence[TensorDesc],
        layout: str,
        is_stored: bool = False,
    ) -> list[Expression]:
        written = [TensorDesc(t.data_type, _to_last(t.sizes)) for t in outputs]
        inputs = [expression.desc for expression in read]
        made = laid_out(node.operator, layout, inputs, written, node.name)
        if is_stored:
            function = made.function
            made = replace(made, function=lambda *a: lax.optimization_barrier((*function(*a),)))
        return self._builder.function(made, read)

    def _in_other_order(self, node: OperatorNode, given: Sequence[Any]) -> list[Expression] | None:
        """Return the outputs of an operator of dimensions in the other order."""
        operator: Any = node.operator
        if _has_axes(operator) or _gives_indices(operator):
            return None
        read = [self._read(value, tensor, True) for value, _, tensor in given]
        try:
            made = _operator_of_last(operator, read)
        except DmlError:
            return None
        slots = [slot for _, slot, _ in given]
        sources = {slot: e.source for slot, e in zip(slots, read, strict=True)}
        return self._builder.add(OperatorNode(made, node.name), sources)


def _reading(node: AnyNode, tensors: Sequence[TensorDesc]) -> AnyNode:
    """Return a node that reads other views of the same tensors."""
    if not isinstance(node, OperatorNode):
        return node
    own = [tensor for _, _, tensor in node.operator.tensors(output=False)]
    if all(a is b or a == b for a, b in zip(own, tensors, strict=True)):
        return node
    return OperatorNode(_with_inputs(node.operator, tensors), node.name)


def _with_inputs(operator: Any, tensors: Sequence[TensorDesc], **changes: Any) -> Any:
    """Return an operator that reads other tensors, with other fields changed too."""
    left = iter(tensors)
    for f in operator.fields:
        value = getattr(operator, f.name)
        if f.tensor and not f.tensor.output and value is not None:
            changes[f.name] = [next(left) for _ in value] if f.is_array else next(left)
    return operator.replace(**changes)


def _gives_indices(operator: Any) -> bool:
    """Return whether results count elements over several axes, whose order matters then."""
    is_index = operator.short_name == "REDUCE" and operator.function.suffix in ("ARGMAX", "ARGMIN")
    return is_index and len(operator.axes) > 1


def _operator_of_last(operator: Any, read: Sequence[Expression]) -> Any:
    """Return an operator of tensors whose dimensions are turned, as those that are read."""
    changes: dict[str, Any] = {}
    for f in operator.fields:
        value = getattr(operator, f.name)
        if value is None:
            continue
        if f.tensor and f.tensor.output:
            tensors = value if f.is_array else [value]
            turned = [TensorDesc(t.data_type, _to_last(t.sizes)) for t in tensors]
            changes[f.name] = turned if f.is_array else turned[0]
        elif f.name in ("axis", "axes"):
            rank = len(operator.outputs[0].sizes)
            places = {d: place for place, d in enumerate(_to_last(range(rank)))}
            axes = [places[d] for d in (value if f.name == "axes" else [value])]
            changes[f.name] = axes if f.name == "axes" else axes[0]
        elif f.count == "DimensionCount":
            changes[f.name] = _to_last(value)
    return _with_inputs(operator, [expression.desc for expression in read], **changes)
