"""Networks: what `load_onnx` returns."""

import collections
import copy
import functools
import html
import importlib
import operator
import pkgutil
import weakref
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dml_jax.description.tensor import X64_RULE, TensorDesc, shown_array
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Expect, Fault, Sentence, Unquoted, nearest
from dml_jax.graph import ConstantNode, FunctionNode, Graph, OperatorNode, Source
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.lowering.precision import check_precision, chosen, has_tensorfloat32
from dml_jax.memory.programs import Kept
from dml_jax.onnx import fallbacks, translators, tuning
from dml_jax.onnx import model as models
from dml_jax.onnx.arrays import inner, outer
from dml_jax.onnx.kept import programs_of
from dml_jax.onnx.kernels import by_rule, by_rule_of_gpu, platform
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.saving import Origin, save
from dml_jax.onnx.tensors import Scope, Tensor, TensorList, Type, dense, has_x64
from dml_jax.onnx.translate import Translation
from dml_jax.operator.callable import Bindable, BindPoint, are_refused
from dml_jax.rewrite import CHANNELS_LAST, rewritten

Arrays = Mapping[str, Any]

_SHOWN = 8  # names in a line of a report
FALLBACK = "with fallback=True (the option --fallback), JAX computes:"


class Store:
    """Arrays that several networks of one file hold once: weights, and what follows from these."""

    def __init__(self) -> None:
        self._weights: dict[int, tuple[np.ndarray, jax.Array]] = {}
        self.made: weakref.WeakValueDictionary[Hashable, jax.Array] = weakref.WeakValueDictionary()

    def weights(self, arrays: Sequence[np.ndarray]) -> list[jax.Array]:
        """Return arrays on the device; the same array is there once."""
        missing = [a for a in arrays if id(a) not in self._weights]
        for array, held in zip(missing, jax.device_put(missing), strict=True):
            self._weights[id(array)] = array, held  # the array too, or another one took its id
        return [self._weights[id(array)][1] for array in arrays]

    def clear(self) -> None:
        """Forget all arrays on the device, which stay where networks hold them."""
        self._weights.clear()
        self.made.clear()


class Network(Bindable):
    """A network in ONNX's format, as a graph of DirectML operators.

    A call takes a mapping of arrays by input name, or arrays in the order of `inputs`. It returns
    a dictionary of arrays by output name. `compile`, models of DxDispatch and the command line take
    a network as they take a graph: with a tensor for each input and each output, by name.

    Functions are nodes of the graph as operators are: If, Loop and Scan that are decided while the
    program runs, and with `fallback=True` the nodes that DirectML has no operator for.

    Attributes:
        inputs: the type of each input, by name.
        outputs: the names of the outputs.
        defaults: the type of each input that has a default, by name. A call may replace defaults by
            name: `network(x, w=...)`.
        fixed: the defaults that decided something at load, which a call cannot replace.
        weights: the floating and quantized weights, and defaults of inputs, by name. They are
            arguments of the program.
        graph: the graph of the file. Its inputs are the inputs and the weights that it reads.
        rewritten: what rewrites made of the graph, which the program computes.
        rewrites: how many nodes each rewrite replaced, by its name.
        is_tuned: whether layout and kernels are those that `tune` chose.
        precision: how products are computed, as `load_onnx` was told.
        free: the name of each dimension of an input, None for one whose size is fixed.
    """

    c_name = "ONNX"
    precision: str | None = None

    def __init__(
        self,
        inputs: Mapping[str, Type],
        outputs: Mapping[str, Tensor],
        translation: Translation,
        options: NetworkOptions,
        free: Mapping[str, Sequence[str | None]],
        origin: Origin,
        defaults: Mapping[str, tuple[Type, np.ndarray]] = {},
        path: str | Path | None = None,
        store: Store | None = None,
    ):
        self._options, self._path = options, path
        self.inputs: dict[str, Type] = dict(inputs)  # pyright: ignore[reportIncompatibleVariableOverride]
        self.defaults = {name: kind for name, (kind, _) in defaults.items()}
        self.free, self._origin = free, origin
        self._padded = {n: t.padding.axis for n, t in outputs.items() if t.padding}
        counts = {f"{n}.count": t.padding.count for n, t in outputs.items() if t.padding}
        outputs = {**outputs, **counts}
        self._results = {name: tensor.type for name, tensor in outputs.items()}
        every = {**self.inputs, **self._results}
        self.without_memory = {name for name, kind in every.items() if kind.is_empty}
        self.graph = translation.build([*outputs.items()])
        nodes = (id(node) for _, node in self.graph.all_nodes)
        self._beyond = dict(translation.beyond[n] for n in nodes if n in translation.beyond)
        self._graphs: dict[str, tuple[Graph, dict[str, int]]] = {}  # by their layouts
        found = tuning.kept(self.graph) if options.is_tunable else None
        self.is_tuned = found is not None
        if found is not None:
            self._adopt(found[0], tuning.KERNELS[found[1]])
        else:
            self._compute(*rewritten(self.graph, options.made_by(platform())))
        self.fixed = {n: array for n, (_, array) in defaults.items() if n in translation.fixed}
        read = [name for name in self.graph.input_names or () if name in translation.weights]
        self._store = store or Store()
        arrays = self._store.weights([translation.weights[name] for name in read])
        self.weights: dict[str, jax.Array] = dict(zip(read, arrays, strict=True))

    def taking(self, names: Collection[str]) -> "Network":
        """Return the network that takes some of its `defaults` as inputs too, after the others."""
        if not names:
            return self
        key = frozenset(names)
        if key not in self._taking:
            other, found = copy.copy(self), vars(self).items()
            kept = {n: v for n, v in found if not _is_cached(n)}
            other.__dict__ = kept | {"_prepared": None, "_taking": {}}
            other.inputs = self.inputs | {n: k for n, k in self.defaults.items() if n in key}
            other.defaults = {n: k for n, k in self.defaults.items() if n not in key}
            self._taking[key] = other
        self._taking[key].weights = {n: w for n, w in self.weights.items() if n not in key}
        return self._taking[key]

    @property
    def padded(self) -> dict[str, int]:
        """Return the outputs whose size depends on data: the dimension that is padded, by name.

        The output 'NAME.count' says how many elements along it are there. The rest is 0 where it
        comes from the node itself, and whatever follows from 0 where it was computed on.
        """
        return dict(self._padded)

    @property
    def outputs(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the names of the outputs."""
        return list(self._results)

    @property
    def output_types(self) -> dict[str, Type]:
        """Return the type of each output, by name."""
        return dict(self._results)

    @property
    def fallbacks(self) -> dict[str, str]:
        """Return the nodes that are no operators of DirectML, and why: beyond it, or functions."""
        functions = {node.label: node.reason for node in self.graph.functions if node.reason}
        return self._beyond | functions

    @property
    def trainable(self) -> dict[str, jax.Array]:
        """Return the weights that are floating-point numbers."""
        return {n: w for n, w in self.weights.items() if jnp.issubdtype(w.dtype, jnp.floating)}

    def weights_as(self, dtype: Any) -> dict[str, jax.Array]:
        """Return all weights, FLOAT32 ones as `dtype`: jnp.bfloat16 for `apply` in bfloat16.

        bfloat16 spreads: nodes that read bfloat16 arrays compute in FLOAT32 and round their results
        to bfloat16, once. Outputs that depend on such arrays are bfloat16.

        Raises `DmlError` for another type than FLOAT32 and bfloat16, which `apply` does not take.
        """
        if np.dtype(dtype) not in (np.float32, BFLOAT16):
            rule = "be bfloat16 or float32 (a network saved in FLOAT16 computes in FLOAT16)"
            raise DmlError([Fault("", "dtype", rule, Unquoted(np.dtype(dtype).name))])
        return {n: w.astype(dtype) if w.dtype == np.float32 else w for n, w in self.weights.items()}

    @property
    def kind(self) -> str:
        """Return how tables and pictures name the network."""
        count = self.node_count
        return f"network of {count} node{'s' * (count != 1)}"

    @property
    def node_count(self) -> int:
        """Return the number of operators and constants, those within functions included."""
        nodes = (node for _, node in self.graph.all_nodes)
        return sum(not isinstance(node, FunctionNode) for node in nodes)

    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel:
        """Return the lowest feature level that accepts all operators but those of `fallbacks`."""
        operators = (o for o in self.graph.operators if not o.beyond_directml)
        levels = (operator.minimum_feature_level for operator in operators)
        return max(levels, default=min(FeatureLevel))

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses operators of the network."""
        return self.graph.refused_at(feature_level)

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """Yield (name, name, tensor) of the inputs and of the outputs."""
        for point in self._points:
            if output is None or point.output == output:
                yield point.name, point.name, point.tensors[0]

    def bind_points(self) -> Iterator[BindPoint]:
        """Yield the inputs and the outputs that have elements.

        Raises `DmlError` if one of them has a type that no memory holds.
        """
        yield from self._points

    @functools.cached_property
    def _points(self) -> Sequence[BindPoint]:
        kinds = [
            *((False, name, "input", kind) for name, kind in self.inputs.items()),
            *((True, name, "output", kind) for name, kind in self._results.items()),
        ]
        points, faults = list[BindPoint](), list[Fault]()
        for is_output, name, word, kind in kinds:
            if kind.is_empty:
                continue
            try:
                if kind.dtype.itemsize == 8 and kind.inner.bits == 32:
                    raise DmlError([Fault("", "", X64_RULE, Unquoted(kind.name))])
                tensor = TensorDesc(kind.inner, kind.shape or (1,))
                points.append(BindPoint(name, (tensor,), is_output, False))
            except DmlError as error:
                faults += error.moved("", f"the {word} '{name}'")
        if faults:
            raise DmlError(faults)
        return points

    def describe(self) -> str:
        """Return the names, types and sizes of inputs and outputs.

        A free dimension stands with its name: `x FLOAT32[batch=8,2] -> y FLOAT32[8,2]`.
        """
        sides = [[p for p in self._points if p.output == is_output] for is_output in (False, True)]
        return " -> ".join(", ".join(map(self._shown, side)) for side in sides)

    def _shown(self, point: BindPoint) -> str:
        (tensor,) = point.tensors
        names = (not point.output and self.free.get(point.name)) or [None] * len(tensor.sizes)
        sizes = [
            str(size) if name is None else f"{name or '?'}={size}"
            for name, size in zip(names, tensor.sizes, strict=True)
        ]
        kind, _, rest = tensor.shown().partition("[")
        return f"{point.name} {kind}[{','.join(sizes)}{rest[rest.index(']') :]}"

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return the outputs in their order, of the inputs and of `constants`, in their tensors."""
        names = [name for name, _, _ in self.tensors(output=False)]
        count, tensors = len(names), self.tensors(output=True)
        values = dict(zip(names, arrays[:count], strict=True))
        results = self._of_prepared(arrays[count:] or self.constants, values)
        return [inner(results[name], tensor) for (name, _, tensor) in tensors]

    @property
    def constants(self) -> Sequence[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the arrays that calls hold: weights, and what follows from weights alone.

        They are computed at the first call, and again for other weights.
        """
        names, sources = self._kept
        given = [*self.weights.values()]
        if self._prepared is None or any(map(operator.is_not, self._prepared[0], given)):
            with jax.ensure_compile_time_eval():  # a traced array must not be kept
                made = self._prepared_of(sources)
            self._prepared = given, (*(self.weights[name] for name in names), *made)
        return self._prepared[1]

    @functools.cached_property
    def _kept(self) -> tuple[list[str], list[Source]]:
        """Return the weights that calls read, and the outputs of nodes that follow from weights.

        An array that is larger than all that it is computed from, by more than the growth that the
        options allow, is computed at each call.
        """
        if not self._options.prepare:
            return [name for name in self.rewritten.input_names or () if name in self.weights], []
        graph, names = self.rewritten, self.rewritten.input_names or ()
        fixed = {  # the bytes of each source that follows from weights; 0 for a constant
            (-1, index): graph.inputs[index].total_tensor_size_in_bytes
            for index, name in enumerate(names)
            if name in self.weights
        }
        used = [*graph.results]
        for index, node, sources in graph.plan:
            has_operator = getattr(node, "operator", None) is not None
            outputs = [t for _, t in node.slots(output=True) if t] if has_operator else ()
            sizes = [tensor.total_tensor_size_in_bytes for tensor in outputs]
            most = max((fixed.get(source, 0) for source in sources), default=0)
            if isinstance(node, ConstantNode):
                fixed[index, 0] = 0
            elif (
                sizes
                and max(sizes) <= most * self._options.growth
                and all(source in fixed for source in sources)
            ):
                fixed |= {(index, place): size for place, size in enumerate(sizes)}
            else:
                used += sources
        kept = dict.fromkeys(source for source in used if fixed.get(source))
        made = [source for source in kept if source[0] >= 0]
        return [names[index] for node, index in kept if node < 0], made

    @property
    def _made(self) -> list[TensorDesc]:
        """Return the tensors that are prepared of weights."""
        nodes = self.rewritten.nodes
        outputs = [[t for _, t in node.slots(output=True) if t] for node in nodes]
        return [outputs[node][place] for node, place in self._kept[1]]

    @functools.cached_property
    def _prepare(self) -> Any:
        """Return the function of weights that computes what follows from these alone."""

        def prepare(weights: Arrays) -> list[jax.Array]:
            with chosen(self.precision):
                return self.rewritten.evaluated(self._sources_of(weights), self._kept[1])

        return jax.jit(prepare)

    def _prepared_of(self, sources: Sequence[Source]) -> list[jax.Array]:
        """Return what follows from weights alone; what another network made of them is shared."""
        keys, made = self._keys(), self._store.made
        found = {source: made.get(keys[source]) for source in sources}
        missing = [source for source in sources if found[source] is None]

        def prepare(weights: Arrays) -> list[jax.Array]:
            with chosen(self.precision):
                return self.rewritten.evaluated(self._sources_of(weights), missing)

        # One program for one set of tensors: another is missing where a `Store` has some of these.
        program = self._kept_program(f"prepare {missing}", jax.jit(prepare), {})
        results = program(self.weights) if missing else []
        for source, array in zip(missing, results, strict=True):
            found[source] = made[keys[source]] = array
        return [array for array in found.values() if array is not None]

    def _keys(self) -> dict[Source, Hashable]:
        """Return what makes each source that follows from weights: equal keys have equal arrays."""
        graph, weights = self.rewritten, self.weights
        keys: dict[Source, Hashable] = {
            (-1, index): id(weights[name])
            for index, name in enumerate(graph.input_names or ())
            if name in weights
        }
        for index, node, sources in graph.plan:
            if isinstance(node, ConstantNode):
                keys[index, 0] = node.array.dtype.name, node.array.shape, node.array.tobytes()
            elif isinstance(node, OperatorNode) and all(source in keys for source in sources):
                views = tuple(graph.views.get((index, place)) for place in range(len(sources)))
                key = node.operator, views, tuple(keys[source] for source in sources)
                keys |= {(index, k): (k, key) for k in range(len(node.operator.outputs))}
            elif all(source in keys for source in sources):  # it is computed for each network
                count = sum(tensor is not None for _, tensor in node.slots(output=True))
                keys |= {(index, k): object() for k in range(count)}
        return keys

    def _sources_of(self, values: Arrays) -> dict[Source, Any]:
        """Return the inputs of the graph by their sources, of arrays by name."""
        points = zip(self.rewritten.input_names or (), self.rewritten.inputs, strict=True)
        return {
            (-1, index): inner(values[name], edge)
            for index, (name, edge) in enumerate(points)
            if name in values
        }

    def _of_prepared(self, held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name, of `constants` and of inputs by name."""
        names, sources = self._kept
        known = self._sources_of({**inputs, **dict(zip(names, held, strict=False))})
        known |= dict(zip(sources, held[len(names) :], strict=True))
        return self._computed(known)

    def _computed(self, known: dict[Source, Any]) -> dict[str, jax.Array]:
        """Return the outputs by name, of what is known of the graph."""
        with chosen(self.precision):
            return self._by_name(self.rewritten.computed(known))

    def _by_name(self, results: Sequence[Any]) -> dict[str, jax.Array]:
        pairs = zip(self._results.items(), results, strict=True)
        return {name: outer(array, kind) for (name, kind), array in pairs}

    def report(self) -> str:
        """Return what the network is made of: operators, weights, and narrowed integers.

        It names each node that is no operator of DirectML, and says why.
        """
        counts = collections.Counter(operator.short_name for operator in self.graph.operators)
        size = sum(w.nbytes for w in self.weights.values())
        lines = [f"{counts.total()} operators, from feature level {self.minimum_feature_level} on"]
        lines += [f"  {count} {name}" for name, count in counts.most_common()]
        lines.append(f"{len(self.weights)} weights, {size} bytes")
        made = [tensor.total_tensor_size_in_bytes for tensor in self._made]
        if made:
            lines.append(f"{len(made)} arrays prepared of weights, {sum(made)} bytes beside these")
        options = self.compiler_options.items()
        if self.is_tuned:
            lines.append("layout and kernels that were tuned on this machine")
        lines += [f"compiler option {name}={value or 'nothing'}" for name, value in options]
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
        nodes = [node for node in self.graph.functions if node.reason]
        if nodes:
            lines.append(f"{len(nodes)} nodes by JAX")
            lines += [f"  {node.label}: {node.reason}" for node in nodes]
        made = {name: count for name, count in self.rewrites.items() if count}
        if made:
            lines.append(f"{sum(made.values())} nodes rewritten in the program")
            lines += [f"  {count} {name}" for name, count in made.items()]
        for place, kinds in (("input", self.inputs), ("output", self._results)):
            for name, kind in kinds.items():
                if kind.array_dtype.itemsize < kind.dtype.itemsize:
                    lines.append(f"{place} '{name}': {kind.name} is {kind.inner.suffix} inside")
        if self.precision is not None:
            lines.append(f"products of FLOAT32 in {self._precision_on(jax.devices()[0])}")
        if self.programs is not None:
            lines.append(self.programs.report())
        return "\n".join(lines)

    def _precision_on(self, device: Any) -> str:
        """Return the precision of products on a device."""
        if self.precision == "tensorfloat32" and not has_tensorfloat32(device):
            return f"float32 (asked for tensorfloat32, which {device.device_kind} lacks)"
        return str(self.precision)

    def __repr__(self) -> str:
        return f"<Network: {self.node_count} operators, {len(self.weights)} weights>"

    def _repr_html_(self) -> str:
        """Return a table of the inputs and outputs, for notebooks."""
        rows = [
            f"<tr><td>{place}</td><td>{html.escape(name)}</td><td>{kind.name}</td>"
            f"<td>{'of any sizes' if kind.shape is None else list(kind.shape)}</td></tr>"
            for place, kinds in (("input", self.inputs), ("output", self._results))
            for name, kind in kinds.items()
        ]
        counts = f"{self.node_count} operators, {len(self.weights)} weights"
        return f"<table><caption>Network: {counts}</caption>{''.join(rows)}</table>"

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function, for jax.jit, jax.grad and jax.vmap.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name, and those of `defaults` that have another value.

        Raises `DmlError` where a shape or a type is another.
        """
        return self._computed(self._sources_of(self._arrays(weights, inputs)))

    def prepared(self, weights: Arrays) -> Sequence[jax.Array]:
        """Return the arrays that calls hold, of weights by name: for `apply_prepared`.

        They are weights, and what follows from weights alone. The function is pure.
        """
        names, sources = self._kept
        return (*(weights[name] for name in names), *(self._prepare(weights) if sources else ()))

    @property
    def prepared_from(self) -> tuple[list[str], int]:
        """Return the weights that `prepared` gives as they are, and the number of arrays behind."""
        names, sources = self._kept
        return names, len(sources)

    def apply_prepared(self, held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return what `apply` returns, of what `prepared` gives; a pure function too."""
        return self._of_prepared(held, self._checked_inputs(inputs))

    def save(self, path: Any, weights: Arrays | None = None, dtype: Any = None) -> None:
        """Write the model that was read, with other values of its initializers.

        All else is as it was read: types, names of sizes, metadata, functions. What was external
        data is so again, in the file `PATH.data` beside the new one. The file that was read is not
        changed.

        Args:
            path: the file to write, another one than the one that was read.
            weights: the new values by name, as `apply` takes them; others stay as they are in
                `self.weights`. A type that holds fewer numbers than the file's is widened.
            dtype: jnp.float16 or jnp.bfloat16 stores FLOAT initializers of the graph so, rounded;
                nodes Cast, which are new, make FLOAT of them. None keeps all types.

        Raises `DmlError` where a value does not fit, or a file cannot be written.
        """
        own = {name: np.asarray(array) for name, array in self.weights.items()}
        save(self._origin, path, {**own, **(weights or {})}, dtype, own)

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return inputs by name: floats in [0, 1), and integers that are 0 or 1."""
        random, arrays = np.random.default_rng(seed), {}
        for name, kind in self.inputs.items():
            if kind.is_floating:
                arrays[name] = random.random(kind.shape, np.float32).astype(kind.dtype, copy=False)
            else:
                arrays[name] = random.integers(0, 2, kind.shape).astype(kind.dtype)
        return arrays

    def _jitted(self, options: Mapping[str, Any]) -> Any:
        """Return the program of `constants` and inputs by name, with options of XLA."""

        def program(held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
            return self._of_prepared(held, self._checked_inputs(inputs))

        own = None if self.programs is not None else dict(options) or None
        return self._kept_program("call", jax.jit(program, compiler_options=own), options)

    @functools.cached_property
    def compiler_options(self) -> Mapping[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return XLA's options for programs of the network alone, by shapes and types.

        Calls and `compile` use them. In a program of your own, give them to its `jax.jit`:
        `jax.jit(f, compiler_options=dict(network.compiler_options))`.
        """
        return self.rule(self.rewritten) if self._chosen is None else self._chosen

    def rule(self, graph: Graph) -> Mapping[str, Any]:
        """Return XLA's options for the program of a graph, by its shapes and types."""
        kind = platform()
        if kind == "gpu":
            return by_rule_of_gpu(graph, self._options.precision)
        return by_rule(graph) if kind == "cpu" else {}

    def made(self, layout: str) -> Graph:
        """Return the graph with its arrays in a layout: "file" or "channels_last"."""
        if layout not in self._graphs:
            rewrites = replace(self._options, layout=layout).made_by(platform())
            graph, counts = rewritten(self.graph, rewrites)
            first = next((g for g, _ in self._graphs.values()), None)
            is_same = first is not None and not counts.get(CHANNELS_LAST.name) and layout != "file"
            self._graphs[layout] = (first, counts) if is_same and first else (graph, counts)
        return self._graphs[layout][0]

    def _adopt(self, layout: str, options: Mapping[str, Any] | None) -> None:
        """Compute in a layout, with options of XLA; None stands for those of the rule."""
        self._compute(self.made(layout), self._graphs[layout][1], options)

    def _compute(
        self, graph: Graph, counts: dict[str, int], options: Mapping[str, Any] | None = None
    ) -> None:
        """Let a rewritten graph be the program, with options of XLA; None: those of the rule."""
        self.rewritten, self.rewrites, self._chosen = graph, counts, options
        for name in ("_kept", "_prepare", "_program", "_alone", "compiler_options"):
            vars(self).pop(name, None)
        self._prepared: tuple[list[jax.Array], tuple[jax.Array, ...]] | None = None
        self._taking: dict[frozenset[str], Network] = {}

    def with_layout(self, layout: str, options: Mapping[str, Any]) -> "Network":
        """Return the network as a program in a layout, with options of XLA."""
        other = copy.copy(self)
        other.__dict__ = dict(vars(self))
        other._adopt(layout, options)
        return other

    def alone(self, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by the program with XLA's options, which must know these."""
        program = self._program if self._alone is None else self._alone
        with chosen(self.precision):
            return program(self.constants, inputs)

    def tune(self, seconds: float = 60) -> "tuning.Tuning":
        """Time layouts and kernels for this network on this machine, and use the fastest.

        A file keeps the winner for later loads on this machine with these versions; `untune`
        removes it. Calls get random inputs. Candidates that differ from the network's answers, or
        that XLA cannot compile, are left out.

        Args:
            seconds: about how long it takes. The candidates at the end of the list may get no time.

        Returns a table of the candidates, which `print` shows.
        """
        if platform() != "cpu":
            rule = "be a CPU (other platforms have one layout and one set of kernels)"
            raise DmlError([Fault("tune", "the platform", rule, platform())])
        origin = None if self._path is None else (self._path, replace(self._options, tuned=False))
        found = tuning.tuned(self, seconds, origin)
        self._adopt(found.winner.layout, tuning.KERNELS[found.winner.kernels])
        self.is_tuned = True
        return found

    def untune(self) -> bool:
        """Forget what `tune` kept for this network and machine; return whether there was any."""
        self._compute(*rewritten(self.graph, self._options.made_by(platform())))
        self.is_tuned = False
        return tuning.forget(self.graph)

    @functools.cached_property
    def _program(self) -> Any:
        """Return the program that is a part of another one, and any where XLA has no options."""
        return self._jitted({})

    @functools.cached_property
    def _alone(self) -> Any:
        """Return the program with options; None where there are none."""
        return self._jitted(self.compiler_options) if self.compiler_options else None

    def _kept_program(self, name: str, program: Any, options: Mapping[str, Any]) -> Any:
        """Return a jitted function, whose programs are kept where `load_onnx` has a `cache`."""
        if self.programs is None:
            return program
        return Kept(self.programs, f"{name} {sorted(self.rewrites.items())}", program, options)

    def _results_of(self, held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return what the program gives: by itself, or as a part of one that JAX traces."""
        is_traced = any(isinstance(array, Tracer) for array in inputs.values())
        with chosen(self.precision):  # what is chosen when JAX lowers a program follows it too
            if self._alone is not None and not is_traced:
                try:
                    return self._alone(held, inputs)
                except (ValueError, RuntimeError) as error:
                    if not are_refused(error):
                        raise
            return self._program(held, inputs)

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
        network = self.taking(self._replaced(inputs))
        checked = {n: _checked(n, x, self.inputs.get(n)) for n, x in inputs.items()}
        results = network._results_of(network.constants, checked)
        return {name: results[name] for name in self._results}  # jax.jit sorts the names

    def run(self, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name, of all inputs by name in their types; nothing is narrowed."""
        return self._results_of(self.constants, inputs)

    def forget(self) -> None:
        """Drop the compiled program; the next run compiles it again."""
        for name in ("_program", "_alone"):
            program = vars(self).pop(name, None)
            if hasattr(program, "clear_cache"):
                program.clear_cache()

    def _arrays(self, weights: Arrays, inputs: Arrays) -> dict[str, Any]:
        """Return the weights and inputs by name. Raises `DmlError` where they do not fit."""
        kinds = {name: _type_of(array) for name, array in self.weights.items()}
        names = self._replaced(inputs) if isinstance(inputs, Mapping) else ()
        replaced = {name: kinds.pop(name) for name in names if name in kinds}
        expect = Expect("")
        values = _fitting(expect, "input", inputs, self.inputs, self.defaults)
        held = _fitting(expect, "weight", weights, kinds, replaced)
        expect.check()
        return {**held, **values}

    def _replaced(self, inputs: Arrays) -> list[str]:
        """Return the defaults among inputs. Raises `DmlError` where one is fixed."""
        expect = Expect("")
        for name in self.fixed.keys() & inputs.keys():
            rule = "keep its default, which decided something at load (load_onnx(..., constants="
            rule += f"{{'{name}': ...}}) or --constant {name}:VALUE loads another one)"
            expect(False, f"the input '{name}'", rule, shown_array(inputs[name]))
        expect.check()
        return [name for name in self.defaults if name in inputs]

    def _checked_inputs(self, inputs: Arrays) -> dict[str, Any]:
        """Return the inputs by name. Raises `DmlError` where they do not fit."""
        expect = Expect("")
        values = _fitting(expect, "input", inputs, self.inputs, self.defaults)
        expect.check()
        return values


def _fitting(
    expect: Expect,
    word: str,
    given: Any,
    wanted: Mapping[str, Type],
    optional: Mapping[str, Type],
) -> dict[str, Any]:
    """Return the arrays that are inputs or weights (`word`), by name.

    Args:
        expect: takes what does not fit.
        word: what they are.
        given: the arrays.
        wanted: the types of those that have to be given.
        optional: the types of those that may be left out.
    """
    known = {**wanted, **optional}
    first = next(iter(wanted), "name")
    rule = f"be a dict, {{{first!r}: array}}"
    if not expect(isinstance(given, Mapping), f"{word}s", rule, shown_array(given)):
        return {}
    for name in given:
        rule = f"name {'an' if word == 'input' else 'a'} {word}{nearest(name, known)}"
        expect(name in known, f"{word}s", rule, name)
    values = {}
    for name, kind in known.items():
        if name in optional and name not in given:
            continue
        where = f"the {word} '{name}'"
        if not expect(name in given, where, "be given", Unquoted("nothing")):
            continue
        array, accepted = given[name], _accepted(kind)
        rule = f"be {accepted[0].name}{list(kind.shape or ())}"
        fits = getattr(array, "shape", None) == kind.shape
        fits = fits and np.dtype(array.dtype) in accepted
        if expect(fits, where, rule, shown_array(array)):
            values[name] = array
    return values


def _is_cached(name: str) -> bool:
    """Return whether an attribute of a network is a property that is computed once."""
    return isinstance(getattr(Network, name, None), functools.cached_property)


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


_BOUNDS = {"attention_mask": (0, 1), "position_ids": (0, (1 << 24) - 1)}


def _bounds_of(name: str, kind: Type) -> tuple[int, int] | None:
    """Return the bounds of an input of tokens, whose sums fit 32 bits then; None for others."""
    found = next((bounds for end, bounds in _BOUNDS.items() if name.endswith(end)), None)
    return found if kind.name == "INT64" else None


def _checked(name: str, array: Any, kind: Type | None) -> Any:
    """Return an array that JAX takes as it is. Raises `DmlError` where it would be cut."""
    if isinstance(array, jax.Array) or has_x64():
        return array
    array = np.asarray(array)
    bounds = kind and _bounds_of(name, kind)
    if bounds and array.size and (array.min() < bounds[0] or array.max() > bounds[1]):
        rule = f"have elements in [{bounds[0]}, {bounds[1]}] while 64-bit types are off in JAX"
        rule += ' (turn them on: jax.config.update("jax_enable_x64", True))'
        raise DmlError([Fault("", f"the input '{name}'", rule, array)])
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
    """Import the modules that register the translators and the fallbacks."""
    for package in (translators, fallbacks):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def load(model: Any, options: NetworkOptions) -> Network:
    """Return the network of a model, as `load_onnx` says."""
    if options.precision is not None:
        check_precision(options.precision)
    load_translators()
    origin = Origin.of(model)
    read = models.read(model, options.shapes, options.names, options.constants, options.folder)
    graph = read.proto.graph
    translation = Translation(read.opsets, read.functions, read.proto.ir_version, options.fallback)
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
            scope[name] = translation.input(name, kind, _bounds_of(name, kind))
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
    free = models.free_names(read.proto)
    path = model if isinstance(model, (str, Path)) else None
    network = Network(read.inputs, outputs, translation, options, free, origin, defaults, path)
    network.programs, network.precision = programs_of(model, read, options), options.precision
    return network
