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
from dml_jax import functional as dml
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, nearest
from dml_jax.graph import Graph, OperatorNode
from dml_jax.onnx import model as models
from dml_jax.onnx import translators
from dml_jax.onnx.tensors import Tensor, Type, has_x64
from dml_jax.onnx.translate import Scope, Translation
from dml_jax.tensor import shown_array

Arrays = Mapping[str, Any]


class Network:
    """A network in ONNX's format, as a graph of DirectML operators.

    A call takes a mapping of arrays by input name, or arrays in the order of `inputs`. It returns
    a dictionary of arrays by output name.

    Attributes:
        inputs: the type of each input, by name.
        outputs: the names of the outputs.
        weights: the floating and quantized weights, by name. They are arguments of the program.
        graph: the operators; None where no output depends on the inputs.
    """

    def __init__(
        self,
        inputs: Mapping[str, Type],
        outputs: Mapping[str, Tensor],
        weights: Mapping[str, np.ndarray],
        translation: Translation,
    ):
        self.inputs = dict(inputs)
        self._results = {name: tensor.type for name, tensor in outputs.items()}
        self._known: dict[str, np.ndarray] = {}
        self._passed: dict[str, str] = {}  # outputs that are an input, or a weight
        computed = {}
        for name, tensor in outputs.items():
            if tensor.is_known and not tensor.is_weight:
                self._known[name] = tensor.array
                continue
            x = tensor.expression
            if x.source[0] < 0:  # an input or a weight, as it is
                self._passed[name] = translation.names[x.source[1]]
            else:
                computed[name] = x if x.is_written else dml.identity(x)
        if translation.faults:  # outputs may be made of weights that are read here first
            raise DmlError(translation.faults)
        build = translation.builder.build
        self.graph: Graph | None = build(computed, only_read=True) if computed else None
        self._computed = list(computed)
        read = {*self._read, *self._passed.values()}
        self.weights: dict[str, jax.Array] = jax.device_put(
            {name: array for name, array in weights.items() if name in read}
        )

    @property
    def outputs(self) -> list[str]:
        """Return the names of the outputs."""
        return list(self._results)

    @property
    def trainable(self) -> dict[str, jax.Array]:
        """Return the weights that are floating-point numbers."""
        return {n: w for n, w in self.weights.items() if jnp.issubdtype(w.dtype, jnp.floating)}

    @property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all of the operators."""
        return self.graph.minimum_feature_level if self.graph else min(FeatureLevel)

    @functools.cached_property
    def _read(self) -> list[str]:
        """Return the names of the graph's inputs."""
        if self.graph is None:
            return []
        return [point.name for point in self.graph.bind_points() if not point.output]

    def report(self) -> str:
        """Return what the network is made of: operators, weights, and narrowed integers."""
        nodes = self.graph.nodes if self.graph else ()
        names = [n.operator.c_name for n in nodes if isinstance(n, OperatorNode)]
        counts = collections.Counter(n.removeprefix(facts.PREFIX) for n in names)
        size = sum(w.nbytes for w in self.weights.values())
        lines = [f"{len(names)} operators, from feature level {self.minimum_feature_level} on"]
        lines += [f"  {count} {name}" for name, count in counts.most_common()]
        lines.append(f"{len(self.weights)} weights, {size} bytes")
        for place, kinds in (("input", self.inputs), ("output", self._results)):
            for name, kind in kinds.items():
                if kind.dtype.itemsize == 8 and kind.inner.bits == 32:
                    lines.append(f"{place} '{name}': {kind.name} is {kind.inner.suffix} inside")
        return "\n".join(lines)

    def __repr__(self) -> str:
        nodes = len(self.graph.nodes) if self.graph else 0
        return f"<Network: {nodes} operators, {len(self.weights)} weights>"

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function, for jax.jit, jax.grad and jax.vmap.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name.

        Raises `DmlError` where a shape or a type is another.
        """
        values = self._arrays(weights, inputs)
        results: dict[str, Any] = {name: jnp.asarray(array) for name, array in self._known.items()}
        results |= {name: jnp.asarray(values[own]) for name, own in self._passed.items()}
        if self.graph is not None:
            arrays = [
                jnp.asarray(values[name]).astype(tensor.dtype).reshape(tensor.sizes)
                for name, tensor in zip(self._read, self.graph.inputs, strict=True)
            ]
            results |= zip(self._computed, self.graph.compute(*arrays), strict=True)
        return {name: _outer(results[name], kind) for name, kind in self._results.items()}

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return inputs by name: floats in [0, 1), and integers that are 0 or 1."""
        random, arrays = np.random.default_rng(seed), {}
        for name, kind in self.inputs.items():
            if kind.is_floating:
                arrays[name] = random.random(kind.shape).astype(kind.dtype)
            else:
                arrays[name] = random.integers(0, 2, kind.shape).astype(kind.dtype)
        return arrays

    @functools.cached_property
    def _program(self) -> Any:
        return jax.jit(self.apply)

    def __call__(self, *arrays: Any) -> dict[str, jax.Array]:
        """Return the outputs by name, of one mapping of inputs or of arrays in their order.

        Raises `DmlError` where a shape or a type is another, or an INT64 input does not fit INT32
        while 64-bit types are off in JAX.
        """
        inputs = arrays[0] if len(arrays) == 1 and isinstance(arrays[0], Mapping) else None
        if inputs is None:
            expect = Expect("")
            rule = f"be {len(self.inputs)} ({', '.join(self.inputs)})"
            expect(len(arrays) == len(self.inputs), "the number of arrays", rule, len(arrays))
            expect.check()
            inputs = dict(zip(self.inputs, arrays, strict=True))
        results = self._program(self.weights, {n: _checked(n, x) for n, x in inputs.items()})
        return {name: results[name] for name in self._results}  # jax.jit sorts the names

    def _arrays(self, weights: Arrays, inputs: Arrays) -> dict[str, Any]:
        """Return the weights and inputs by name. Raises `DmlError` where they do not fit."""
        expect = Expect("")
        for name in inputs:
            rule = f"name an input{nearest(name, self.inputs)}"
            expect(name in self.inputs, "inputs", rule, name)
        for name in weights:
            rule = f"name a weight{nearest(name, self.weights)}"
            expect(name in self.weights, "weights", rule, name)
        values = {}
        for place, given, wanted in (
            ("input", inputs, self.inputs),
            ("weight", weights, {n: _type_of(w) for n, w in self.weights.items()}),
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
    return [kind.dtype, kind.inner.dtype] if kind.shape is not None else []


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


def _outer(array: Any, kind: Type) -> jax.Array:
    """Return an output as ONNX has it."""
    array = array.reshape(kind.shape)
    return array.astype(bool) if kind.dtype == bool and array.dtype != bool else array


@functools.cache
def load_translators() -> None:
    """Import the modules that register the translators."""
    for module in pkgutil.iter_modules(translators.__path__, f"{translators.__name__}."):
        importlib.import_module(module.name)


def load(
    model: Any,
    input_shapes: Mapping[str, Sequence[int]] | None,
    free_dimensions: Mapping[str, int] | None,
) -> Network:
    """Return the network of a model, as `load_onnx` says."""
    load_translators()
    read = models.read(model, input_shapes, free_dimensions)
    graph = read.proto.graph
    translation = Translation(read.opsets, read.functions, read.proto.ir_version)
    scope: Scope = {}
    names = [output.name for output in graph.output]
    for tensor in graph.initializer:
        try:
            array = read.array(tensor)
            scope[tensor.name] = translation.weight(tensor.name, array, tensor.data_type)
        except DmlError as error:
            translation.faults += error.faults
            scope[tensor.name] = None
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
        elif tensor is not None:
            outputs[name] = tensor
    if translation.faults:
        raise DmlError(translation.faults)
    return Network(read.inputs, outputs, translation.weights, translation)
