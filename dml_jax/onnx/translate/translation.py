"""Translates an ONNX graph, node by node, into a graph of DirectML operators.

For each node `Translation` finds the record of its op type, and the types of its outputs by ONNX's
inference. `NodeOutputs` then calls the translator, which `dml_jax/onnx/translators` has.
"""

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from dml_jax.errors import PARTS_MAX, DmlError, Fault, Unquoted, bugs_within, raise_if
from dml_jax.onnx.files.attributes import label_of
from dml_jax.onnx.files.local_functions import (
    CALLS_MAX,
    FunctionKey,
    Opsets,
    fill,
    key_of,
    too_deep,
    without,
)
from dml_jax.onnx.files.topology import normalise
from dml_jax.onnx.nodes.early_versions import in_later_version
from dml_jax.onnx.nodes.graph_context import GraphContext, Results, Site
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.number_limits import faults_of, limits_of, origin
from dml_jax.onnx.nodes.op_types import record_of
from dml_jax.onnx.nodes.schemas import output_types, resolve
from dml_jax.onnx.nodes.tensor import Count, Scope, Tensor, TensorList
from dml_jax.onnx.sizes.bounds import Cut, SizePolicy
from dml_jax.onnx.sizes.counts import padded_with, same_count
from dml_jax.onnx.sizes.integer_ranges import INT32, bounds_of
from dml_jax.onnx.sizes.padding_rules import output_count, refusal
from dml_jax.onnx.sizes.symbolic_sizes import terms_of
from dml_jax.onnx.translate.known_values import body_of, domain_of
from dml_jax.onnx.translate.node_outputs import NodeOutputs, too_large


class Translation(GraphContext):
    """Translates a graph. All that is in the way becomes `faults`.

    Args:
        opsets: the version of each domain that the model imports.
        functions: the functions that the model defines, by domain, name and overload.
        ir: the version of the format.
        fallback: whether nodes go beyond DirectML: by types that its operators lack, and by
            functions of JAX of op types that it has no operator for.
        outer: the translation of the graph around this one.
        policy: decides what becomes of sizes that data decides.
    """

    def __init__(
        self,
        opsets: Opsets,
        functions: Mapping[FunctionKey, onnx.FunctionProto],
        ir: int,
        fallback: bool = False,
        outer: "Translation | None" = None,
        policy: SizePolicy | None = None,
    ):
        super().__init__(fallback, outer)
        self._policy: SizePolicy = policy or Cut()
        self._numbers = itertools.count() if outer is None else outer._numbers
        self._opsets, self._functions, self._ir = opsets, functions, ir

    def inner(self, fallback: bool | None = None) -> "Translation":
        """Return a translation of a graph within a node; `fallback` as here, unless it is given."""
        fallback = self.fallback if fallback is None else fallback
        inner = Translation(self._opsets, self._functions, self._ir, fallback, self)
        inner.called, inner.asked, inner.beyond = self.called, self.asked, self.beyond
        inner.deciding = self.deciding
        inner.turns, inner.looks = self.turns, self.looks
        return inner

    def graph(
        self,
        proto: onnx.GraphProto | onnx.FunctionProto,
        scope: Scope,
        outputs: Sequence[str],
        opsets: Opsets,
    ) -> Results:
        """Translate the nodes that `outputs` depend on; return the outputs.

        Nodes beyond `PARTS_MAX`, those of functions and of written-out turns included, are a fault.
        """
        nodes, faults = normalise(proto, outputs)
        self.faults += faults
        # The count is shared by all graphs within: a loop whose turns are written out many times
        # over would else fill the memory from a file of a few lines.
        for node in nodes:
            if next(self._numbers) >= PARTS_MAX:
                rule = f"be at most {PARTS_MAX}, with those of functions and of turns of loops"
                fault = Fault("", "the number of nodes", rule, Unquoted("more"))
                self.faults += [] if fault in self.faults else [fault]
                break
            self._put(node, scope, opsets)
        return [scope.get(name) for name in outputs]

    def _put(self, node: onnx.NodeProto, scope: Scope, opsets: Opsets) -> None:
        """Put the outputs of a node into the scope; None, and a fault, where it is refused.

        Raises `InternalError` where a node of the model meets a bug of this package.
        """
        label = label_of(node)
        origin = self.builder.origin if self.called else node.name or label
        # None for each output: nodes that read one are not translated, and add no faults of their
        # own.
        results: Sequence[Any] = [None] * len(node.output)
        # A bug in a graph or a function within a node goes up to the node of the model: no code
        # between the two may take it for a refusal, which another way to the outputs could cure.
        is_within = self.is_inner or bool(self.called)
        with contextlib.nullcontext() if is_within else bugs_within(label):
            try:
                with self.builder.made_of(origin):
                    found = self._results(node, scope, opsets)[: len(node.output)]
                if len(found) < len(node.output):
                    rule = f"be at most {len(found)}"
                    raise DmlError([Fault("", "the number of outputs", rule, len(node.output))])
                results = found
            except DmlError as error:
                self.faults += error.within(label).faults
            except MemoryError as error:  # a small file may say large sizes
                self.faults += too_large(error).within(label).faults
        scope.update({n: t for n, t in zip(node.output, results, strict=True) if n})
        self.padded += (t for t in results if isinstance(t, Tensor) and t.count is not None)

    def attempt(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> Sequence[Fault]:
        """Translate a node; return what is in the way, of which no fault stays here."""
        count = len(self.faults)
        self._put(proto, scope, opsets)
        found, self.faults = self.faults[count:], self.faults[:count]
        return found

    def _results(self, proto: onnx.NodeProto, scope: Scope, opsets: Opsets) -> Sequence[Any]:
        """Return the outputs of a node. Raises `DmlError` where it cannot be had."""
        for name in filter(None, proto.input):
            if name not in scope:
                rule = (
                    "be an input, an initializer or an output of a node that does not read this one"
                )
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("none of these"))])
            if scope[name] is None:
                if self.faults:  # what it lacks is a fault already
                    return [None] * len(proto.output)
                rule = "be given by its node"
                raise DmlError([Fault("", f"the tensor '{name}'", rule, Unquoted("nothing"))])
        inputs = [scope[name] if name else None for name in proto.input]
        if (function := self._function_of(proto)) is not None:
            return self.call(function, proto, inputs)
        domain, has_list = domain_of(proto.domain), any(isinstance(x, TensorList) for x in inputs)
        record = record_of(domain, proto.op_type)
        if record.inlined and (has_list or not record.translators):
            resolve(proto, record, (), opsets)
            try:
                return record.inlined[1](Site(self, proto, inputs, scope, opsets))
            except DmlError:
                self.blame(inputs[:1] if proto.op_type == "Loop" else ())  # the number of turns
                raise
        if has_list:
            raise DmlError([Fault("", "the inputs", "be tensors", Unquoted("a sequence"))])
        early = record.versions.written_as
        if early and opsets.get("", 0) < early.version:
            proto, inputs = in_later_version(proto, inputs, early, self.constant)
            opsets = {**opsets, "": early.version}
            record = record_of(domain, proto.op_type)
        version, schema = resolve(proto, record, inputs, opsets)
        inputs = [*inputs]
        node = Node(proto, record, version, schema, inputs, self.builder, opsets, self._policy)
        try:
            stated = self._count_by_output(node, inputs)
        except DmlError:
            self.blame([t for t in inputs if t is not None and not t.type.is_floating])
            raise
        node.types = output_types(node, self._ir)
        # A translator comes before ONNX's function: DirectML's operator is one kernel, and the
        # function of ONNX many nodes, which XLA need not fuse into as fast a one.
        body = None if node.translator else body_of(node)
        if body is not None:
            return self.call(body, proto, inputs)
        count = stated or output_count(node)
        self._look(node)
        results = NodeOutputs(self, node).made()
        for result in filter(None, results):
            result.made_by = node
            if count and result.count and not same_count(result.count, count):
                raise refusal(node.op_type, node.tensor(0), count)
            result.count = count or result.count
        return [self._settle(t) for t in results] if self._policy.carries(node) else results

    def _look(self, node: Node) -> None:
        """Have the indices of a node looked at, where they may lie beyond their table.

        Raises `DmlError` where it is known that they do, unless data decide whether it is computed.
        """
        if not self.looks or not (limits := limits_of(node)):
            return
        tensor, source = node.tensor(1), origin(node.tensor(1))
        is_known, is_weight = tensor.is_known and not tensor.is_weight, source.is_weight
        bounds = INT32 if is_weight else bounds_of(source)  # a call may replace what is not read
        found = tensor.array if is_known else np.repeat(bounds, len(limits))
        faults = faults_of([(found, limits)])
        if is_known and not self.is_inner:
            raise_if(replace(fault, context=()) for fault in faults)
        if faults and len(limits) == 1 and source is self.inputs.get(source.name):
            self.limits.append((source.name, limits[0]))
        elif faults:
            is_whole = tensor.count is None
            self.checks.append((tensor if is_whole else padded_with(tensor, 0), limits))

    def _count_by_output(self, node: Node, inputs: list[Tensor | None]) -> Count | None:
        """Return the count of the output where sizes come while the program runs, else None.

        Its largest sizes take the place of the one of `inputs` that decides them.
        """
        rule = node.record.sizes.output
        found = rule and self._policy.carries(node) and rule(node)
        if not found:
            return None
        inputs[found.index] = self.constant(node.tensor(found.index).name, found.array)
        return Count(found.axis, found.number, node.label)

    def _settle(self, tensor: Tensor | None) -> Tensor | None:
        """Return an output: known where its elements follow from sizes, cut to its bound."""
        if tensor is None:
            return tensor
        if tensor.count is not None:
            self._policy.shrink_to_bound(tensor)
            return tensor
        is_small = tensor.type.dtype.kind in "ib" and not tensor.is_known
        terms = terms_of(tensor) if is_small and not tensor.type.is_empty else None
        numbers = [term.known for term in terms or ()]
        if not numbers or None in numbers:
            return tensor
        array = np.array(numbers).reshape(tensor.shape).astype(tensor.type.dtype)
        return self.constant(tensor.name, array, tensor.type.element)

    def _function_of(self, proto: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function of the model that a node calls; None where it calls none."""
        if not (self._functions or proto.overload):
            return None
        key = key_of(proto.domain, proto.op_type, proto.overload)
        if key not in self._functions and proto.overload:
            known = [repr(k[2]) for k in self._functions if k[:2] == key[:2]]
            rule = f"be that of a function of the model ({', '.join(known) or 'it has none'})"
            raise DmlError([Fault("", "overload", rule, proto.overload)])
        return self._functions.get(key)

    def call(
        self, function: onnx.FunctionProto, proto: onnx.NodeProto, inputs: Sequence[Tensor | None]
    ) -> Results:
        """Translate the body of a function in place of the node that calls it."""
        given = {a.name: a for a in (*function.attribute_proto, *proto.attribute)}
        # Attributes of the call are written into the nodes, and each call has others.
        body = deepcopy(function)
        given_inputs = zip(function.input, inputs, strict=False)
        inner: Scope = {name: tensor for name, tensor in given_inputs if tensor is not None}
        left_out = {*function.input} - inner.keys()
        for node in body.node:
            fill(node, given)
            without(node, left_out)
        opsets = {domain_of(o.domain): o.version for o in function.opset_import}
        names = list(function.output)[: len(proto.output)]
        key, outside = key_of(function.domain, function.name, function.overload), self.called
        if key in outside:
            raise DmlError([Fault("", "the function", "call none that calls it", function.name)])
        # Each call is some frames of Python's stack, which a file must not be able to exhaust.
        if len(outside) >= CALLS_MAX:
            raise too_deep(function.name)
        self.called = (*outside, key)
        try:
            return self.graph(body, inner, names, {**self._opsets, **opsets})
        finally:
            self.called = outside
