"""Networks: what `load_onnx` returns."""

import collections
import functools
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax import facts
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Expect, Fault, Sentence, Unquoted, nearest
from dml_jax.graph import Graph, OperatorNode
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.onnx import model as models
from dml_jax.onnx import plain, translators
from dml_jax.onnx.program import Program
from dml_jax.onnx.tensors import Scope, Tensor, TensorList, Type, dense, has_x64
from dml_jax.onnx.translate import Translation
from dml_jax.tensor import shown_array

Arrays = Mapping[str, Any]

_SHOWN = 8  # names in a line of a report
FALLBACK = "with fallback=True (the option --fallback), JAX computes:"


class Network:
    """A network in ONNX's format, as a graph of DirectML operators.

    Functions that are no operators split the network into several graphs, which one pure function
    runs in their order: `apply`. Such functions are If, Loop and Scan that are decided while the
    program runs, and with `fallback=True` the nodes that DirectML has no operator for. A node of
    types that DirectML's operator lacks is a node of the graph, beyond DirectML.

    A call takes a mapping of arrays by input name, or arrays in the order of `inputs`. It returns
    a dictionary of arrays by output name.

    Attributes:
        inputs: the type of each input, by name.
        outputs: the names of the outputs.
        defaults: the type of each input that has a default, by name. A call may replace defaults by
            name: `network(x, w=...)`.
        fixed: the defaults that decided something at load, which a call cannot replace.
        weights: the floating and quantized weights, and defaults of inputs, by name. They are
            arguments of the program.
        graphs: the graphs of operators in the order in which they run; none where no output
            depends on the inputs. A graph takes what earlier ones and the functions between them
            give. The graphs within an If, a Loop or a Scan follow the graph before it.
    """

    def __init__(
        self,
        inputs: Mapping[str, Type],
        outputs: Mapping[str, Tensor],
        translation: Translation,
        defaults: Mapping[str, tuple[Type, np.ndarray]] = {},
    ):
        self.inputs = dict(inputs)
        self.defaults = {name: kind for name, (kind, _) in defaults.items()}
        self._padded = {n: t.padding.axis for n, t in outputs.items() if t.padding}
        counts = {f"{n}.count": t.padding.count for n, t in outputs.items() if t.padding}
        outputs = {**outputs, **counts}
        self._results = {name: tensor.type for name, tensor in outputs.items()}
        self._main = Program(
            translation.builder,
            translation.names,
            translation.unique,
            translation.steps,
            outputs.values(),
            translation.faults,
        )
        self.graphs = list(self._main.graphs)
        nodes = (id(node) for graph in self.graphs for node in graph.nodes)
        self._beyond = dict(translation.beyond[n] for n in nodes if n in translation.beyond)
        self.fixed = {n: array for n, (_, array) in defaults.items() if n in translation.fixed}
        read = [name for name in translation.weights if name in self._main.reads]
        arrays = jax.device_put([translation.weights[name] for name in read])
        self.weights: dict[str, jax.Array] = dict(zip(read, arrays, strict=True))

    @property
    def padded(self) -> dict[str, int]:
        """Return the outputs whose size depends on data: the dimension that is padded, by name.

        The output 'NAME.count' says how many elements along it are there. The rest is 0 where it
        comes from the node itself, and whatever follows from 0 where it was computed on.
        """
        return dict(self._padded)

    @property
    def graph(self) -> Graph | None:
        """Return the graph of operators, None where no output depends on the inputs.

        Raises `DmlError` where there are several (`graphs`).
        """
        if len(self.graphs) > 1:
            rule = "be one graph (network.graphs has all of them)"
            value = Unquoted(f"{len(self.graphs)} graphs")
            raise DmlError([Fault("", "network.graph", rule, value)])
        return next(iter(self.graphs), None)

    @property
    def outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return list(self._results)

    @property
    def output_types(self) -> dict[str, Type]:
        """Return the type of each output, by name."""
        return dict(self._results)

    @property
    def fallbacks(self) -> dict[str, str]:
        """Return the nodes that are no operators of DirectML, and why: beyond it, or functions."""
        return self._beyond | {step.label: step.reason for step in self._main.all_steps}

    @property
    def trainable(self) -> dict[str, jax.Array]:
        """Return the weights that are floating-point numbers."""
        return {n: w for n, w in self.weights.items() if jnp.issubdtype(w.dtype, jnp.floating)}

    def weights_as(self, dtype: Any) -> dict[str, jax.Array]:
        """Return all weights, FLOAT32 ones as `dtype`: jnp.bfloat16 for `apply` in bfloat16.

        bfloat16 spreads: nodes that read bfloat16 arrays compute in FLOAT32 and round their results
        to bfloat16, once. Outputs that depend on such arrays are bfloat16.
        """
        return {n: w.astype(dtype) if w.dtype == np.float32 else w for n, w in self.weights.items()}

    @property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all operators but those of `fallbacks`."""
        nodes = [n for graph in self.graphs for n in graph.nodes if isinstance(n, OperatorNode)]
        operators = (n.operator for n in nodes if not n.operator.beyond_directml)
        levels = (operator.minimum_feature_level for operator in operators)
        return max(levels, default=min(FeatureLevel))

    def report(self) -> str:
        """Return what the network is made of: operators, weights, and narrowed integers.

        It names each node that is no operator of DirectML, and says why.
        """
        nodes = [node for graph in self.graphs for node in graph.nodes]
        names = [n.operator.c_name for n in nodes if isinstance(n, OperatorNode)]
        counts = collections.Counter(n.removeprefix(facts.PREFIX) for n in names)
        size = sum(w.nbytes for w in self.weights.values())
        lines = [f"{len(names)} operators, from feature level {self.minimum_feature_level} on"]
        lines += [f"  {count} {name}" for name, count in counts.most_common()]
        lines.append(f"{len(self.weights)} weights, {size} bytes")
        replaceable = [name for name in self.defaults if name not in self.fixed]
        for names, what in (
            (replaceable, "replaced by name at a call"),
            ([*self.fixed], "replaced at load alone, by constants (--constant)"),
        ):
            if names:
                shown = ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
                lines.append(f"{len(names)} inputs have defaults that are {what}: {shown}")
        for name, axis in self._padded.items():
            size = (self._results[name].shape or ())[axis]
            lines.append(
                f"output '{name}': padded to {size} in dimension {axis}; '{name}.count' counts"
            )
        if self._beyond:
            lines.append(f"{len(self._beyond)} nodes of types beyond DirectML")
            lines += [f"  {label}: {reason}" for label, reason in self._beyond.items()]
        steps = list(self._main.all_steps)
        if steps:
            lines.append(f"{len(steps)} nodes by JAX, between {len(self.graphs)} graphs")
            lines += [f"  {step.label}: {step.reason}" for step in steps]
        for place, kinds in (("input", self.inputs), ("output", self._results)):
            for name, kind in kinds.items():
                if kind.array_dtype.itemsize < kind.dtype.itemsize:
                    lines.append(f"{place} '{name}': {kind.name} is {kind.inner.suffix} inside")
        return "\n".join(lines)

    def __repr__(self) -> str:
        nodes = sum(len(graph.nodes) for graph in self.graphs)
        return f"<Network: {nodes} operators, {len(self.weights)} weights>"

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function, for jax.jit, jax.grad and jax.vmap.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name, and those of `defaults` that have another value.

        Raises `DmlError` where a shape or a type is another.
        """
        results = self._main.compute(self._arrays(weights, inputs))
        return dict(zip(self._results, results, strict=True))

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return inputs by name: floats in [0, 1), and integers that are 0 or 1."""
        random, arrays = np.random.default_rng(seed), {}
        for name, kind in self.inputs.items():
            if kind.is_floating:
                arrays[name] = random.random(kind.shape, np.float32).astype(kind.dtype, copy=False)
            else:
                arrays[name] = random.integers(0, 2, kind.shape).astype(kind.dtype)
        return arrays

    @functools.cached_property
    def _program(self) -> Any:
        return jax.jit(self.apply)

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, jax.Array]:
        """Return the outputs by name, of one mapping of inputs or of arrays in their order.

        `named` has inputs too: those of `defaults` that get another value, say.

        Raises `DmlError` where a shape or a type is another, or an INT64 input does not fit INT32
        while 64-bit types are off in JAX.
        """
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            inputs = {**arrays[0], **named}
        else:
            names = [name for name in self.inputs if name not in named]
            expect = Expect("")
            rule = f"be {len(names)} ({', '.join(names)})"
            expect(len(arrays) == len(names), "the number of arrays", rule, len(arrays))
            expect.check()
            inputs = {**dict(zip(names, arrays, strict=True)), **named}
        for name in self.fixed.keys() & inputs.keys():  # an array that changes nothing is no fault
            if np.array_equal(inputs[name], self.fixed[name]):
                del inputs[name]
        results = self._program(self.weights, {n: _checked(n, x) for n, x in inputs.items()})
        return {name: results[name] for name in self._results}  # jax.jit sorts the names

    def _arrays(self, weights: Arrays, inputs: Arrays) -> dict[str, Any]:
        """Return the weights and inputs by name. Raises `DmlError` where they do not fit."""
        expect = Expect("")
        for place, given in (("inputs", inputs), ("weights", weights)):
            known = self.inputs if place == "inputs" else self.weights
            first = next(iter(known), "name")
            rule = f"be a dict, {{{first!r}: array}}"
            expect(isinstance(given, Mapping), place, rule, shown_array(given))
        expect.check()
        known = {**self.inputs, **self.defaults}
        for name in inputs:
            rule = f"name an input{nearest(name, known)}"
            expect(name in known, "inputs", rule, name)
            rule = "keep its default, which decided something at load (load_onnx(..., constants="
            rule += f"{{'{name}': ...}}) or --constant {name}:VALUE loads another one)"
            expect(name not in self.fixed, f"the input '{name}'", rule, shown_array(inputs[name]))
        for name in weights:
            rule = f"name a weight{nearest(name, self.weights)}"
            expect(name in self.weights, "weights", rule, name)
        values = {}
        replaced = {n: kind for n, kind in self.defaults.items() if n in inputs}
        kept = {n: _type_of(w) for n, w in self.weights.items() if n not in replaced}
        for place, given, wanted in (
            ("input", inputs, {**self.inputs, **replaced}),
            ("weight", weights, kept),
        ):
            for name, kind in wanted.items():
                where = f"the {place} '{name}'"
                if not expect(name in given, where, "be given", Unquoted("nothing")):
                    continue
                array = given[name]
                accepted = _accepted(kind)
                rule = f"be {accepted[0].name}{list(kind.shape or ())}"
                fits = getattr(array, "shape", None) == kind.shape
                fits = fits and np.dtype(array.dtype) in accepted
                if expect(fits, where, rule, shown_array(array)):
                    values[name] = array
        expect.check()
        return values


def _type_of(array: Any) -> Type:
    from onnx.helper import np_dtype_to_tensor_dtype

    return Type(np_dtype_to_tensor_dtype(np.dtype(array.dtype)), tuple(array.shape))


def _accepted(kind: Type) -> list[np.dtype]:
    """Return the types of arrays that stand for a tensor, ONNX's own first."""
    if kind.dtype == bool:
        return [kind.dtype, np.dtype(np.uint8)]
    known = [kind.dtype, kind.array_dtype]
    is_float32 = kind.has_inner and kind.inner.dtype == np.float32
    return [*known, np.dtype(np.float32), BFLOAT16] if is_float32 else known


def _checked(name: str, array: Any) -> Any:
    """Return an array that JAX takes as it is. Raises `DmlError` where it would be cut."""
    if isinstance(array, jax.Array) or has_x64():
        return array
    array = np.asarray(array)
    if array.dtype not in (np.int64, np.uint64):
        return array
    narrow = array.astype(np.int32 if array.dtype == np.int64 else np.uint32)
    if not np.array_equal(narrow, array):
        rule = f"have elements that fit {narrow.dtype.name} while 64-bit types are off in JAX"
        rule += ' (turn them on: jax.config.update("jax_enable_x64", True))'
        raise DmlError([Fault("", f"the input '{name}'", rule, array)])
    return narrow


@functools.cache
def load_translators() -> None:
    """Import the modules that register the translators and the plain functions."""
    for package in (translators, plain):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def load(
    model: Any,
    input_shapes: Mapping[str, Sequence[int]] | None,
    free_dimensions: Mapping[str, int] | None,
    fallback: bool = False,
    constants: Mapping[str, Any] | None = None,
) -> Network:
    """Return the network of a model, as `load_onnx` says."""
    load_translators()
    read = models.read(model, input_shapes, free_dimensions, constants)
    graph = read.proto.graph
    translation = Translation(read.opsets, read.functions, read.proto.ir_version, fallback)
    translation.asked = set(read.inputs)
    scope: Scope = {}
    defaults: dict[str, tuple[Type, np.ndarray]] = {}
    translation.fixed |= {*read.defaults} - {*read.replaceable}
    names = [output.name for output in graph.output]
    for tensor in graph.initializer:
        try:
            array = read.array(tensor)
            is_replaceable = tensor.name in read.replaceable
            made = translation.weight(tensor.name, array, tensor.data_type, is_replaceable)
            scope[tensor.name] = made
            if tensor.name in read.defaults:
                defaults[tensor.name] = made.type, array
        except DmlError as error:
            translation.faults += error.faults
            scope[tensor.name] = None
    for sparse in graph.sparse_initializer:
        name, element = sparse.values.name, sparse.values.data_type
        try:
            scope[name] = translation.weight(name, dense(sparse, read.array), element)
        except DmlError as error:
            translation.faults += error.faults
            scope[name] = None
    for name, kind in read.inputs.items():
        try:
            scope[name] = translation.input(name, kind)
        except DmlError as error:
            translation.faults += error.moved("", f"the input '{name}'")
            scope[name] = None
    results = translation.graph(graph, scope, names, read.opsets)
    outputs = {}
    for name, tensor in zip(names, results, strict=True):
        if name not in scope:
            rule = "be an output of a node"
            translation.faults.append(Fault("", "the output", rule, name))
        elif isinstance(tensor, TensorList):
            rule = "be a tensor (SequenceAt and ConcatFromSequence make tensors of a sequence)"
            value = Unquoted("a sequence")
            translation.faults.append(Fault("", f"the output '{name}'", rule, value))
        elif tensor is not None:
            outputs[name] = tensor
        elif not translation.faults:
            rule = "be given by its node"
            translation.faults.append(Fault("", f"the output '{name}'", rule, Unquoted("nothing")))
    if translation.faults and translation.curable:
        shown = Unquoted(", ".join(translation.curable))
        translation.faults.append(Fault("", "", Sentence(f"{FALLBACK} {shown}"), ""))
    if translation.faults:
        raise DmlError(translation.faults)
    return Network(read.inputs, outputs, translation, defaults)
