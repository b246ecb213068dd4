"""Networks: what `load_onnx` returns."""

import copy
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from dml_jax.description.tensor import TensorDesc, shown_array
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, raise_if
from dml_jax.graph import FunctionNode, Graph, Source
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.graph.evaluation import inner, sources_of
from dml_jax.lowering.precision import chosen
from dml_jax.onnx.files.saving import Origin, save
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.nodes.number_limits import WORST, faults_of, kind_of, poisoned
from dml_jax.onnx.nodes.tensor import Tensor
from dml_jax.onnx.nodes.values import outer
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.reports import report, shown_point, table
from dml_jax.onnx.signature import fitted, points_of, type_of, unchanged
from dml_jax.onnx.tensor_parallel.sharded_network import ShardedNetwork, sharded
from dml_jax.onnx.translate.translation import Translation
from dml_jax.operator.call import Bindable, BindPoint
from dml_jax.rewrite import CHANNELS_LAST, rewritten
from dml_jax.rewrite.branch_weights import hoisted
from dml_jax.runtime import tuning
from dml_jax.runtime.compiler_options import are_refused, by_rule, by_rule_of_gpu
from dml_jax.runtime.plan import Arrays, Prepared, Store
from dml_jax.runtime.platform import platform
from dml_jax.runtime.program_cache import Kept
from dml_jax.system.processor import check_process

_SHOWN = 4  # inputs or outputs that a repr shows
_KEPT = (
    *("inputs", "defaults", "fixed", "free", "bounds", "without_memory", "counted", "_results"),
    *("limits", "checks", "rewrites", "is_tuned", "compiler_options"),
)
_OF_GRAPH = ("graph", "rewritten", "_whole_graph", "_graphs", "_beyond", "_chosen")
"""The attributes that follow from the nodes of the file."""


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
        bounds: the bounds of sizes that data decides, by name. The output 'NAME.size' says the
            size that a call had.
        limits: the inputs and outputs whose numbers have limits, and these.
        checks: the limits of other numbers, of which the program gives the worst.
        loader: loads a model with options, as this network was loaded.
        kept_in: the file where the first call keeps `state`, or None.
    """

    c_name = "ONNX"
    precision: str | None = None
    bounds: Mapping[str, int] = {}
    loader: Callable[[Any, NetworkOptions], "Network"]
    kept_in: Path | None = None
    _whole: "Callable[[], Network] | None" = None

    def __init__(
        self,
        inputs: Mapping[str, Type],
        outputs: Mapping[str, Tensor],
        translation: Translation,
        options: NetworkOptions,
        free: Mapping[str, Sequence[str | None]],
        origin: Origin,
        defaults: Mapping[str, Tensor] = {},
        path: str | Path | None = None,
        store: Store | None = None,
    ):
        self._options, self._path = options, path
        self.inputs: dict[str, Type] = dict(inputs)  # pyright: ignore[reportIncompatibleVariableOverride]
        self.defaults = {name: tensor.type for name, tensor in defaults.items()}
        self.free, self._origin = free, origin
        self.graph, self._whole_graph = translation.build([*outputs.items()])
        self.limits, self.checks = translation.limits, translation.every_limit
        self._results = {name: tensor.type for name, tensor in outputs.items()}
        counts = (self.graph.output_names or ())[len(outputs) :]
        self._results |= dict.fromkeys(counts, COUNT)
        every = {**self.inputs, **self._results}
        self.without_memory = {name for name, kind in every.items() if kind.is_empty}
        nodes = (id(node) for _, node in self.graph.all_nodes)
        self._beyond = dict(translation.beyond[n] for n in nodes if n in translation.beyond)
        self._graphs: dict[str, tuple[Graph, dict[str, int]]] = {}  # by their layouts
        found = tuning.kept(self.graph) if options.is_tunable else None
        self.is_tuned = found is not None
        if found is not None:
            self._adopt(found[0], tuning.KERNELS[found[1]])
        else:
            self._compute(*rewritten(self._whole_graph, options.made_by(platform())))
        self.fixed = {n: t.array for n, t in defaults.items() if n in translation.fixed}
        read = [name for name in self.graph.input_names or () if name in translation.weights]
        self._store = store or Store()
        arrays = self._store.weights([translation.weights[name] for name in read])
        self.weights: dict[str, jax.Array] = dict(zip(read, arrays, strict=True))

    @classmethod
    def started(
        cls,
        state: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        options: NetworkOptions,
        origin: Origin,
        whole: "Callable[[], Network]",
        path: str | Path | None = None,
        store: Store | None = None,
    ) -> "Network":
        """Return the network whose `state` was kept, without a graph until one is asked for.

        `arrays` are the initializers by name, and `whole` returns the network with its graph. The
        other arguments are those of the class.
        """
        made, held = cls.__new__(cls), {name: state[name] for name in _KEPT}
        made._options, made._path, made._origin = options, path, origin
        made._whole, made._taking, made._store = whole, {}, store or Store()
        vars(made).update(held, _prepared=state["_prepared"].within(lambda: made.rewritten))
        given = made._store.weights([arrays[name] for name in state["weights"]])
        made.weights = dict(zip(state["weights"], given, strict=True))
        return made

    def state(self) -> dict[str, Any]:
        """Return what a call reads of this network, beside its weights and its programs."""
        prepared = self._prepared.of_weights(self.weights)
        known = {name: getattr(self, name) for name in _KEPT}
        return {**known, "weights": [*self.weights], "_prepared": prepared}

    def __getattr__(self, name: str) -> Any:
        whole = self._whole if name in _OF_GRAPH else None
        if whole is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = vars(whole())
        for other in _OF_GRAPH:
            vars(self).setdefault(other, found[other])
        return vars(self)[name]

    def taking(self, names: Collection[str]) -> "Network":
        """Return the network that takes some of its `defaults` as inputs too, after the others."""
        if not names:
            return self
        key = frozenset(names)
        if key not in self._taking:
            other, found = copy.copy(self), vars(self).items()
            cached = functools.cached_property
            kept = {n: v for n, v in found if not isinstance(getattr(Network, n, 0), cached)}
            other.__dict__ = kept | {"_taking": {}, "kept_in": None}
            other.inputs = self.inputs | {n: k for n, k in self.defaults.items() if n in key}
            other.defaults = {n: k for n, k in self.defaults.items() if n not in key}
            self._taking[key] = other
        self._taking[key].weights = {n: w for n, w in self.weights.items() if n not in key}
        return self._taking[key]

    @functools.cached_property
    def counted(self) -> dict[str, tuple[int, str]]:
        """Return the outputs whose size depends on data, by name: (dimension, name of the count).

        The count is an output too, which says how many elements along the dimension are there. The
        rest is 0 where it comes from the node itself, and whatever follows from 0 where it was
        computed on. `without_padding` cuts it off.
        """
        names = dict(zip(self.graph.output_names or (), self._results, strict=True))
        return {names[name]: counted for name, counted in self.graph.counted.items()}

    @property
    def padded(self) -> dict[str, int]:
        """Return the outputs whose size depends on data: the dimension that is padded, by name."""
        return {name: axis for name, (axis, _) in self.counted.items()}

    def without_padding(self, results: Arrays) -> dict[str, Any]:
        """Return the outputs of a call as the file has them: without paddings and counts.

        Outputs that are padded become arrays of NumPy, with as many elements as their counts say.
        Raises `DmlError` for a count that is no size, as TopK of more elements than there are has.
        """
        counted = self.counted
        found = {n: x for n, x in results.items() if n not in {c for _, c in counted.values()}}
        for name, (axis, count) in counted.items():
            whole, size = np.asarray(results[name]), int(results[count])
            if not 0 <= size <= whole.shape[axis]:
                rule = f"have a size in [0, {whole.shape[axis]}] in dimension {axis}"
                raise DmlError([Fault("", f"the output '{name}'", rule, size)])
            found[name] = whole.take(range(size), axis)
        return found

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
        """Return the weights that are floating-point numbers, several and finite ones.

        A file does not tell parameters from other arrays. An array of one element is mostly a
        constant of a formula, and one with infinite elements a mask. `weights` has these too:
        `{name: network.weights[name] for name in names}` is another choice.
        """
        return {name: self.weights[name] for name in self._parameters}

    @functools.cached_property
    def _parameters(self) -> list[str]:
        floats = [n for n, w in self.weights.items() if jnp.issubdtype(w.dtype, jnp.floating)]
        several = [name for name in floats if self.weights[name].size > 1]
        return [name for name in several if np.isfinite(self.weights[name]).all()]

    def weights_as(self, dtype: Any) -> dict[str, jax.Array]:
        """Return all weights, FLOAT32 ones as `dtype`: jnp.bfloat16 for `apply` in bfloat16.

        bfloat16 spreads: nodes that read bfloat16 arrays compute in FLOAT32 and round their results
        to bfloat16, once. Outputs that depend on such arrays are bfloat16.

        Raises `DmlError` for another type than FLOAT32 and bfloat16, which `apply` does not take.
        """
        if np.dtype(dtype) not in (np.float32, BFLOAT16):
            rule = "be bfloat16 or float32 (load a file of FLOAT16 tensors for FLOAT16)"
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
        return points_of(self.inputs, self._results)

    def describe(self) -> str:
        """Return the names, types and sizes of inputs and outputs.

        A free dimension stands with its name: `x FLOAT32[batch=8,2] -> y FLOAT32[8,2]`. So does one
        whose size data decides, with the output that counts: `y FLOAT32[y.count<=20,2]`.
        """
        sides = [[p for p in self._points if p.output == is_output] for is_output in (False, True)]
        return " -> ".join(", ".join(shown_point(self, p) for p in side) for side in sides)

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return the outputs in their order, of the inputs and of `constants`, in their tensors."""
        names = [name for name, _, _ in self.tensors(output=False)]
        count, tensors = len(names), self.tensors(output=True)
        values = dict(zip(names, arrays[:count], strict=True))
        results = self.within(self._of_prepared(arrays[count:] or self.constants, values), values)
        return [inner(results[name], tensor) for (name, _, tensor) in tensors]

    @property
    def constants(self) -> Sequence[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the arrays that calls hold: weights, and what follows from weights alone.

        They are computed at the first call, and again for other weights.
        """
        check_process()
        keep = functools.partial(self._kept_program, options={})
        held = self._prepared.held(self.weights, self._store, keep)
        file, self.kept_in = self.kept_in, None
        if file and self.programs and self.programs.facts_of(file) is None:
            self.programs.keep_facts(file, self.state())
        return held

    @functools.cached_property
    def _prepared(self) -> Prepared:
        growth = self._options.growth if self._options.prepare else None
        return Prepared(self.rewritten, self.weights, self.precision, growth)

    def _of_prepared(self, held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return the results by name, of `constants` and of inputs by name."""
        names = self._prepared.names
        given = {**inputs, **dict(zip(names, held, strict=False))}
        known = sources_of(self.rewritten, given)
        return self._computed(known | self._prepared.known(held[len(names) :]))

    def _computed(self, known: dict[Source, Any]) -> dict[str, jax.Array]:
        """Return the outputs by name, and the worst numbers, of what is known of the graph."""
        kinds = {**self._results, **({WORST: kind_of(self.checks)} if self.checks else {})}
        with chosen(self.precision):
            pairs = zip(kinds.items(), self.rewritten.computed(known), strict=True)
            return {name: outer(array, kind) for (name, kind), array in pairs}

    def within(self, results: dict[str, Any], inputs: Arrays) -> dict[str, Any]:
        """Return the outputs among results.

        Raises `DmlError` where a number of them or of the inputs lies beyond its limits. Where JAX
        traces, the outputs hold no answer then.
        """
        given = {**inputs, **results}
        named = [*((name, [limit]) for name, limit in self.limits), (WORST, self.checks)]
        looked = [(given[name], limits) for name, limits in named if name in given]
        results = {name: results[name] for name in self._results}  # jax.jit sorts the names
        if looked and any(isinstance(x, Tracer) for x in results.values()):
            kept = [*(n for n, _ in self.limits), *(count for _, count in self.counted.values())]
            return poisoned(results, looked, kept)
        raise_if(faults_of(looked))
        return results

    def report(self) -> str:
        """Return what the network is made of: operators, weights, and narrowed integers.

        It names each node that is no operator of DirectML, and says why.
        """
        return report(self, self._prepared.tensors, self._beyond)

    def __repr__(self) -> str:
        sides = []
        for kinds in (self.inputs, self._results):
            shown = [f"{name} {kind.name}{list(kind.shape or ())}" for name, kind in kinds.items()]
            sides.append(", ".join([*shown[:_SHOWN], *["..."] * (len(shown) > _SHOWN)]))
        counts = f"{self.node_count} operators, {len(self.weights)} weights"
        return f"<Network: {' -> '.join(sides)}; {counts}>"

    def _repr_html_(self) -> str:
        """Return a table of the inputs and outputs, for notebooks."""
        return table(self)

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function, for jax.jit, jax.grad and jax.vmap.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name, and those of `defaults` that have another value.

        Raises `DmlError` where a shape or a type is another.
        """
        results = self._computed(sources_of(self.rewritten, self._arrays(weights, inputs)))
        return self.within(results, inputs)

    def prepared(self, weights: Arrays) -> Sequence[jax.Array]:
        """Return the arrays that calls hold, of weights by name: for `apply_prepared`.

        They are weights, and what follows from weights alone. The function is pure.
        """
        return self._prepared.of(weights)

    @property
    def prepared_from(self) -> tuple[list[str], int]:
        """Return the weights that `prepared` gives as they are, and the number of arrays behind."""
        return self._prepared.names, len(self._prepared.sources)

    def apply_prepared(self, held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return what `apply` returns, of what `prepared` gives; a pure function too.

        It does not look at indices: one beyond its table reads another row.
        """
        results = self._of_prepared(held, self._checked_inputs(inputs))
        return {name: results[name] for name in self._results}

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

    def shard(self, mesh: Any, axis: str | None = None) -> ShardedNetwork:
        """Return a decoder's network that several devices compute together.

        Each device has some heads of the attentions and some columns of the MLPs; two sums over all
        devices a layer are all that they send (Megatron-LM, arXiv:1909.08053). Where the heads of
        the keys are fewer than the devices, several devices have the same one; where heads or
        columns cannot be divided evenly, each device computes all of them, and `note` says so.

        Args:
            mesh: the devices, a jax.sharding.Mesh.
            axis: the axis of the mesh that the network is divided along; the only one by default.

        Raises `DmlError` for a network without attentions of ONNX Runtime's GroupQueryAttention
        that have past keys and values, and where nothing can be divided.
        """
        return sharded(
            self.loader, self._origin.model, self._options, mesh, axis, weights=self.weights
        )

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return inputs by name: floats in [0, 1), and integers that are 0, or 1 where they can."""
        random, arrays = np.random.default_rng(seed), {}
        for name, kind in self.inputs.items():
            if kind.is_floating:
                arrays[name] = random.random(kind.shape, np.float32).astype(kind.dtype, copy=False)
            else:
                most = min([1, *(limit.high for own, limit in self.limits if own == name)])
                arrays[name] = random.integers(0, most + 1, kind.shape).astype(kind.dtype)
        return arrays

    def _jitted(self, options: Mapping[str, Any]) -> Any:
        """Return the program of `constants` and inputs by name, with options of XLA."""
        if self.programs is not None:
            return self._kept_program("call", self._plain, options)
        return jax.jit(self._plain.__wrapped__, compiler_options=dict(options) or None)

    @functools.cached_property
    def _plain(self) -> Any:
        """Return the program that kept ones are traced by once, whatever their options of XLA."""

        def program(held: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
            return self._of_prepared(held, self._checked_inputs(inputs))

        return jax.jit(program)

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
            graph, counts = rewritten(self._whole_graph, rewrites)
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
        graph = hoisted(graph) if self._options.prepare else graph
        self.rewritten, self.rewrites, self._chosen = graph, counts, options
        for name in ("_prepared", "_program", "_alone", "_plain", "compiler_options"):
            vars(self).pop(name, None)
        self._taking: dict[frozenset[str], Network] = {}
        self.kept_in = None

    def with_layout(self, layout: str, options: Mapping[str, Any]) -> "Network":
        """Return the network as a program in a layout, with options of XLA."""
        other = copy.copy(self)
        other._adopt(layout, options)
        return other

    def alone(self, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by the program with XLA's options, which must know these."""
        program = self._alone or self._program
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
        reload, options = None, replace(self._options, tuned=False)
        if self._path is not None:
            reload = functools.partial(self.loader, str(self._path), options)
        found = tuning.tuned(self, seconds, reload)
        self._adopt(found.winner.layout, tuning.KERNELS[found.winner.kernels])
        self.is_tuned = True
        return found

    def untune(self) -> bool:
        """Forget what `tune` kept for this network and machine; return whether there was any."""
        self._compute(*rewritten(self._whole_graph, self._options.made_by(platform())))
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
        if not arrays or (len(arrays) == 1 and isinstance(arrays[0], Mapping)):
            inputs = {**(arrays[0] if arrays else {}), **named}
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
        checked = {n: unchanged(n, x, self.inputs.get(n)) for n, x in inputs.items()}
        return self.within(network._results_of(network.constants, checked), checked)

    def run(self, inputs: Arrays, *others: Any) -> dict[str, jax.Array]:
        """Return results for `within`, of all inputs by name in their types; nothing is narrowed.

        Raises `TypeError` for the arguments of ONNX Runtime's `run`.
        """
        if others:
            raise TypeError("a network is called with arrays: network(x=array)")
        return self._results_of(self.constants, inputs)

    def lowered(self, inputs: Arrays) -> Any:
        """Return the program that `run` computes, before XLA compiles it."""
        program = self._alone or self._program
        with chosen(self.precision):
            return program.lower(self.constants, inputs)

    def later(self, inputs: Arrays, more: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
        """Return the kept program of `run`, and a function that compiles or reads it.

        `more` has further options of XLA. The program takes `constants` and the inputs by name.
        """
        own = None if more is None else self._jitted({**self.compiler_options, **more})
        program = own or self._alone or self._program
        with chosen(self.precision):
            return program, program.later(self.constants, inputs)

    def forget(self) -> None:
        """Drop the compiled program; the next run compiles it again."""
        for name in ("_program", "_alone", "_plain"):
            program = vars(self).pop(name, None)
            if hasattr(program, "clear_cache"):
                program.clear_cache()

    def _arrays(self, weights: Arrays, inputs: Arrays) -> dict[str, Any]:
        """Return the weights and inputs by name. Raises `DmlError` where they do not fit."""
        kinds = {name: type_of(array) for name, array in self.weights.items()}
        names = self._replaced(inputs) if isinstance(inputs, Mapping) else ()
        replaced = {name: kinds.pop(name) for name in names if name in kinds}
        expect = Expect("")
        values = fitted(expect, "input", inputs, self.inputs, self.defaults, self._loads)
        held = fitted(expect, "weight", weights, kinds, replaced)
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

    def _loads(self, name: str, array: Any) -> str:
        """Return how the network is loaded for an array, if free dimensions alone differ."""
        own, given = self.inputs.get(name), getattr(array, "shape", ())
        if own is None or own.shape is None or len(given) != len(own.shape):
            return ""
        places = zip(self.free.get(name, ()), own.shape, given, strict=False)
        other = {free: size for free, n, size in places if n != size}
        if not other or not all(free and free.isidentifier() for free in other):
            return ""
        return f" (load_onnx(..., free_dimensions={other}) loads it so)"

    def _checked_inputs(self, inputs: Arrays) -> dict[str, Any]:
        """Return the inputs by name. Raises `DmlError` where they do not fit."""
        expect = Expect("")
        values = fitted(expect, "input", inputs, self.inputs, self.defaults, self._loads)
        expect.check()
        return values
