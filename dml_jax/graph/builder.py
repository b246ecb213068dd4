"""Builds graphs from expressions, in the manner of DirectMLX and PyDirectML."""

import contextlib
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dml_jax.description.descriptor import snake_case
from dml_jax.description.tensor import Integers, Placeholder, TensorDesc, shown_array
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Expect, Fault, Unquoted
from dml_jax.graph.graph import Graph
from dml_jax.graph.parts import (
    AnyNode,
    ArrayType,
    ConstantNode,
    FunctionNode,
    InputEdge,
    IntermediateEdge,
    OperatorNode,
    OutputEdge,
    Source,
    layout_of,
    reached,
    same_layout,
    same_value,
    shown_at,
)
from dml_jax.lowering import strided_memory
from dml_jax.operator import Operator


def _calls(name: str, is_swapped: bool = False) -> Callable[..., Any]:
    """Return the method that calls a function of `dml_jax.functional` with an expression."""

    def method(self: "Expression", *others: Any) -> Any:
        if not all(type(other) in (Expression, bool, int, float) for other in others):
            return NotImplemented  # Python says which types do not go together
        function = self.function_of(name)
        return function(*others, self) if is_swapped else function(self, *others)

    return method


@dataclass(frozen=True, eq=False)
class Expression(Placeholder):
    """A tensor of an unfinished graph: a graph input, a constant, or an output of an operator.

    An operator or function that is called with an expression adds a node to the graph. So do the
    operators of Python, with expressions and numbers, as in DirectMLX: arithmetic, bits
    (`& | ^ << >> ~`) and comparisons, which give UINT8.
    `%` is MODULUS_TRUNCATE, `**` POW, or CONSTANT_POW of a number.

    Choice: `x / 2` and `2 / x` divide by, or into, a constant of the tensor's type. DirectMLX
    multiplies by a rounded reciprocal, which XLA may do as well; its `2 / x` is another function.
    """

    desc: TensorDesc
    builder: "GraphBuilder" = field(repr=False)
    source: Source = field(repr=False)
    # The functions behind the signs: `dml_jax.functional`, a layer above, registers its own here.
    function_of: ClassVar[Callable[[str], Callable[..., Any]]]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of the tensor."""
        return self.desc.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the sizes, under the name that arrays have for them."""
        return self.desc.sizes

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the elements."""
        return self.desc.dtype

    def reinterpret(
        self,
        sizes: Integers,
        strides: Integers | None = None,
        data_type: TensorDataType | str | None = None,
    ) -> "Expression":
        """Return the same bytes as a tensor of other sizes and strides; no node is added.

        Args:
            sizes: the sizes of the tensor.
            strides: the elements from one index to the next; 0 repeats. None is packed.
            data_type: the type of the elements; None is the same type.

        Raises `DmlError` where the tensor needs more bytes than there are.
        """
        total = self.desc.total_tensor_size_in_bytes
        desc = self.desc.replace(
            data_type=self.desc.data_type if data_type is None else data_type,
            sizes=sizes,
            strides=strides,
            total_tensor_size_in_bytes=total or None,
            beyond=self.builder.beyond,
        )
        return Expression(desc, self.builder, self.source)

    @property
    def is_written(self) -> bool:
        """Return whether a node writes the tensor as it is described."""
        return self.source[0] >= 0 and same_layout(self.builder.written(self.source), self.desc)

    def takes(self, operator: Operator, values: Sequence[Any]) -> Any:
        """Add a node of `operator` with `values` as its inputs; return its outputs."""
        return self.builder.apply(operator, *values)

    def _as_array(self, *_: Any, **__: Any) -> Any:
        rule = (
            "be passed to operators and Python's numbers only (what NumPy and jax.numpy do is for "
            "arrays: write a function of arrays, which jax.jit compiles)"
        )
        raise DmlError([Fault(Graph.c_name, "an expression", rule, self.desc.shown())])

    __jax_array__ = property(_as_array)  # JAX asks for it, and does not call it
    __array__ = __array_ufunc__ = _as_array

    def __bool__(self) -> bool:
        rule = "be no condition: it has no value before the graph runs (if_ chooses by element)"
        raise DmlError([Fault(Graph.c_name, "an expression", rule, self.desc.shown())])

    __hash__ = object.__hash__

    __add__, __radd__ = _calls("add"), _calls("add", True)
    __sub__, __rsub__ = _calls("subtract"), _calls("subtract", True)
    __mul__, __rmul__ = _calls("multiply"), _calls("multiply", True)
    __truediv__, __rtruediv__ = _calls("divide"), _calls("divide", True)
    __mod__, __rmod__ = _calls("modulus_truncate"), _calls("modulus_truncate", True)
    __pow__, __rpow__ = _calls("pow"), _calls("pow", True)
    __and__, __rand__ = _calls("bit_and"), _calls("bit_and", True)
    __or__, __ror__ = _calls("bit_or"), _calls("bit_or", True)
    __xor__, __rxor__ = _calls("bit_xor"), _calls("bit_xor", True)
    __lshift__, __rlshift__ = _calls("bit_shift_left"), _calls("bit_shift_left", True)
    __rshift__, __rrshift__ = _calls("bit_shift_right"), _calls("bit_shift_right", True)
    __invert__, __neg__, __pos__ = _calls("bit_not"), _calls("negate"), _calls("identity")
    __lt__, __le__ = _calls("less_than"), _calls("less_than_or_equal")
    __gt__, __ge__ = _calls("greater_than"), _calls("greater_than_or_equal")
    __eq__ = _calls("equals")  # pyright: ignore[reportAssignmentType]

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else self.function_of("logical_not")(equal)


class TensorPolicy(enum.Enum):
    """How the outputs of a builder's operators lie in memory, as in DirectMLX."""

    DEFAULT = "packed, in the order of the dimensions"
    INTERLEAVED_CHANNEL = "packed, with dimension 1 innermost (NHWC)"

    def strides(self, sizes: Sequence[int]) -> tuple[int, ...] | None:
        """Return the strides of a tensor of `sizes`; None is packed."""
        if self is TensorPolicy.DEFAULT or len(sizes) < 3:
            return None
        steps = strided_memory.packed_strides((sizes[0], *sizes[2:], sizes[1]))
        return steps[0], steps[-1], *steps[1:-1]


class GraphBuilder:
    """Builds a graph operator by operator, in the manner of DirectMLX and PyDirectML.

    Args:
        tensor_policy: the layout of the outputs of operators.
        beyond: whether functions of its expressions may add nodes of types that DirectML lacks.

    Attributes:
        origin: names the node of a file, such as an ONNX network, of which nodes are made.
    """

    def __init__(
        self, tensor_policy: TensorPolicy = TensorPolicy.DEFAULT, beyond: bool = False
    ) -> None:
        if not isinstance(tensor_policy, TensorPolicy):
            rule = "be a TensorPolicy"
            raise DmlError([Fault(Graph.c_name, "tensor_policy", rule, tensor_policy)])
        self.tensor_policy, self.beyond, self.origin = tensor_policy, beyond, ""
        self._inputs: dict[str, TensorDesc] = {}
        self._nodes: list[AnyNode] = []
        self._edges: list[tuple[Source, int, int]] = []  # (source, reading node, its input)

    def __repr__(self) -> str:
        return f"<GraphBuilder: {len(self._inputs)} inputs, {len(self._nodes)} nodes>"

    @property
    def nodes(self) -> Sequence[AnyNode]:
        """The nodes that were added, in their order."""
        return self._nodes

    def input_tensor(self, name: str, desc: TensorDesc) -> Expression:
        """Add an input to the graph. Raises `DmlError` if another input has the name."""
        is_name = isinstance(name, str) and bool(name)
        is_tensor = isinstance(desc, (TensorDesc, ArrayType))
        if not is_name or name in self._inputs or not is_tensor:
            expect = Expect(Graph.c_name)
            expect(is_name, "the input's name", "be a name", name)
            expect(name not in self._inputs, "the input's name", "differ from the others", name)
            expect(is_tensor, "the input's tensor", "be a TensorDesc", desc)
            expect.check()
        self._inputs[name] = desc
        return Expression(desc, self, (-1, len(self._inputs) - 1))

    @contextlib.contextmanager
    def made_of(self, origin: str) -> Iterator[None]:
        """Let the nodes that are added within have an origin."""
        before, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = before

    def constant(self, array: Any, name: str | None = None) -> Expression:
        """Add an array to the graph as a constant."""
        return self.add(ConstantNode(array, name, beyond=self.beyond), {})[0]

    def function(
        self, node: FunctionNode, expressions: Sequence[Expression | None]
    ) -> list[Expression]:
        """Add a function of `expressions`; None stands for an input that is left out.

        Only functions read an expression whose `desc` is an `ArrayType`.

        Raises `DmlError` if an expression is of another builder.
        """
        expect = Expect("")
        for index, value in enumerate(expressions):
            if value is not None:
                self._check_own(expect, f"input {index} of {node.label}", value)
        expect.check()
        return self.add(node, {k: e.source for k, e in enumerate(expressions) if e is not None})

    def add(self, node: AnyNode, reads: Mapping[int, Source]) -> list[Expression]:
        """Add a node that is not checked, and return its outputs; `reads` has sources by input."""
        index = len(self._nodes)
        if self.origin:  # no field: it is of no meaning, and changes no graph
            vars(node).setdefault("origin", self.origin)
        self._nodes.append(node)
        self._edges += [(source, index, slot) for slot, source in reads.items()]
        slots = enumerate(node.slots(output=True))
        return [Expression(t, self, (index, slot)) for slot, (_, t) in slots if t is not None]

    def node(self, operator: Operator, name: str | None = None) -> Any:
        """Return the output of an operator without inputs, a tuple where it has several."""
        return self.apply(operator, name=name)

    def apply(self, operator: Operator, *expressions: Expression, name: str | None = None) -> Any:
        """Add a node of `operator` that reads `expressions`; return its output, or a tuple.

        Raises `DmlError` if types or sizes differ, or if an expression is of another builder.
        """
        node = OperatorNode(self._laid_out(operator), name)
        slots = [
            (index, path, tensor)
            for index, (path, tensor) in enumerate(node.slots(output=False))
            if tensor is not None
        ]
        expect = Expect(operator.c_name)
        rule = f"be {len(slots)}, one for each input tensor"
        expect(len(expressions) == len(slots), "the number of expressions", rule, len(expressions))
        for (_, path, tensor), value in zip(slots, expressions, strict=False):
            if self._check_own(expect, path, value) and tensor is not value.desc:
                if same_value(tensor, value.desc):
                    self._check_memory(expect, path, tensor, value)
                else:
                    rule = f"be {shown_at(value.desc, 'the expression')}"
                    got = TensorDesc(tensor.data_type, tensor.sizes).shown()
                    expect(False, path, rule, got)
        expect.check()
        pairs = zip(slots, expressions, strict=True)
        results = self.add(node, {slot: value.source for (slot, _, _), value in pairs})
        return tuple(results) if operator.returns_tuple else results[0]

    def _laid_out(self, operator: Operator) -> Operator:
        """Return the operator with outputs that lie as the policy says, if they are packed."""
        if not isinstance(operator, Operator) or self.tensor_policy is TensorPolicy.DEFAULT:
            return operator
        laid: dict[str, Any] = {}
        for f in operator.outputs_of():
            value = getattr(operator, f.name)
            if value is not None:
                tensors = [self._by_policy(t) for t in (value if f.is_array else (value,))]
                laid[f.name] = tensors if f.is_array else tensors[0]
        return operator.replace(**laid)

    def _by_policy(self, tensor: TensorDesc) -> TensorDesc:
        strides = self.tensor_policy.strides(tensor.sizes) if tensor.is_packed else None
        return tensor if strides is None else tensor.replace(strides=strides)

    def build(
        self,
        outputs: Expression | Iterable[Expression] | Mapping[str, Expression],
        only_read: bool = False,
        counted: Mapping[Any, tuple[int, str]] = {},
    ) -> Graph:
        """Return the graph of these outputs, with the nodes that they need.

        Args:
            outputs: the outputs; the keys of a mapping become their names.
            only_read: whether inputs that no output needs are left out; else they are refused.
            counted: the arrays of which data decides a size: the dimension, and the name of this
                size. Arrays between nodes are known by their sources, outputs by their names; the
                name of an output's size is an output too.

        Raises `DmlError` with all faults.
        """
        names: Any = list(outputs) if isinstance(outputs, Mapping) else None
        outputs = _listed(outputs)
        expect, sources = Expect(Graph.c_name), []
        for index, output in enumerate(outputs):
            if self._check_own(expect, f"outputs[{index}]", output):
                rule = "be computed by a node"
                got = Unquoted("a graph input")
                if expect(output.source[0] >= 0, f"outputs[{index}]", rule, got):
                    sources.append(output.source)
        expect.check()
        every = names or [""] * len(outputs)
        read: list[list[int]] = [[] for _ in self._nodes]
        for (source, _), node, _ in self._edges:
            read[node].append(source)
        needed = sorted(reached((node for node, _ in sources), read))
        places = {node: place for place, node in enumerate(needed)}
        edges = [(source, places[n], slot) for source, n, slot in self._edges if n in places]
        used = {index for (source, index), _, _ in edges if source < 0}
        kept = [i for i in range(len(self._inputs)) if i in used or not only_read]
        names_kept, none = [[*self._inputs][i] for i in kept], (None, None)
        return Graph(
            len(kept),
            len(outputs),
            [self._nodes[node] for node in needed],
            [
                InputEdge(kept.index(i), n, slot, None, *counted.get((source, i), none))
                for (source, i), n, slot in edges
                if source < 0
            ],
            [
                IntermediateEdge(places[source], i, n, slot, None, *counted.get((source, i), none))
                for (source, i), n, slot in edges
                if source >= 0
            ],
            [
                OutputEdge(places[node], i, index, None, *counted.get(name, none))
                for index, ((node, i), name) in enumerate(zip(sources, every, strict=True))
            ],
            names_kept,
            names,
            self._declared([*self._inputs.values()], places, edges, kept),
            self._views(sources, outputs),
        )

    def _views(
        self, sources: Sequence[Source], outputs: Sequence[Expression]
    ) -> list[TensorDesc] | None:
        """Return the tensors of outputs; None where each is as its node writes it."""
        views = [output.desc for output in outputs]
        pairs = zip(sources, views, strict=True)
        if all(same_layout(self.written(source), view) for source, view in pairs):
            return None
        return views

    def written(self, source: Source) -> TensorDesc:
        """Return the tensor of a graph input, or of a node's output as the node writes it."""
        node, slot = source
        if node < 0:
            return [*self._inputs.values()][slot]
        tensor = self._nodes[node].slots(output=True)[slot][1]
        assert tensor is not None  # an expression stands for an output that is there
        return tensor

    def _declared(
        self,
        tensors: Sequence[TensorDesc],
        places: Mapping[int, int],
        edges: Any,
        kept: Sequence[int],
    ) -> Sequence[TensorDesc] | None:
        """Return the tensors of the graph inputs, if a node reads one as another tensor."""
        nodes = {place: self._nodes[node] for node, place in places.items()}
        for (source, index), node, slot in edges:
            read = nodes[node].slots(output=False)[slot][1]
            if source < 0 and read is not None and not same_layout(tensors[index], read):
                return [tensors[i] for i in kept]
        return None

    def _check_memory(
        self, expect: Expect, path: str, tensor: TensorDesc, source: Expression
    ) -> None:
        """Check that a reader of `source` describes its memory alike, or larger.

        Its layout is that of the expression; a graph input's flags are the same, and the operator
        may demand more bytes and a larger alignment than the input has.
        """
        is_input, known = source.source[0] < 0, source.desc
        if known is tensor:
            return
        where = f"graph input {source.source[1]}" if is_input else "the expression"
        cure = "" if is_input else " (reinterpret makes an expression of other strides)"
        rule = f"have strides {layout_of(known)}, as {where} has{cure}"
        own = layout_of(tensor)
        expect(layout_of(known) == own, path, rule, Unquoted(own))
        if not is_input:
            return
        flags = tensor.flags.name
        rule = f"have Flags {known.flags.name}, as {where} has"
        expect(known.flags.name == flags, path, rule, Unquoted(flags))
        for what in ("TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment"):
            least, own = (getattr(t, snake_case(what)) for t in (known, tensor))
            expect(own >= least, path, f"have {what} of at least {least}, as {where} has", own)

    def _check_own(self, expect: Expect, path: str, value: Any) -> bool:
        """Check that `value` is an expression of this builder."""
        if isinstance(value, Expression) and value.builder is self:
            return True
        if not expect(isinstance(value, Expression), path, "be an Expression", shown_array(value)):
            return False
        return expect(value.builder is self, path, "be of this builder", Unquoted("another's"))


def _listed(outputs: Any) -> "list[Expression]":
    """Return the expressions of the argument `outputs` of `build`, in order. Raises `DmlError`."""
    if isinstance(outputs, Expression):
        return [outputs]
    if isinstance(outputs, (str, bytes, Set)) or not isinstance(outputs, Iterable):
        rule = "be an expression, several in order, or a mapping of names"
        raise DmlError([Fault(Graph.c_name, "outputs", rule, shown_array(outputs))])
    return list(outputs.values() if isinstance(outputs, Mapping) else outputs)
