"""Networks: what `load_onnx` returns."""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.graph import Graph
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.graph.evaluation import inner, sources_of
from dml_jax.lowering.precision import chosen
from dml_jax.onnx.files.saving import Origin, save
from dml_jax.onnx.nodes.number_limits import WORST, kind_of
from dml_jax.onnx.nodes.values import outer
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.reports import Reported
from dml_jax.onnx.signature import Signature, unchanged
from dml_jax.onnx.tensor_parallel.sharded_network import ShardedNetwork, sharded
from dml_jax.rewrite import rewritten
from dml_jax.rewrite.branch_weights import hoisted
from dml_jax.runtime import tuning
from dml_jax.runtime.compiler_options import by_rule, by_rule_of_gpu
from dml_jax.runtime.executable import Choice, Executable, Planned
from dml_jax.runtime.plan import Arrays, Parameters, Plan
from dml_jax.runtime.platform import platform
from dml_jax.runtime.weight_store import Storage


@dataclass(frozen=True, eq=False)
class Translated:
    """What the nodes of a file become.

    Attributes:
        signature: the inputs and outputs.
        graph: the graph of the file. Its inputs are the network's and the weights that it reads.
        checked: the graph with one more output, the worst of the numbers that have limits.
        beyond: the nodes of types beyond DirectML, and why each is.
        weights: the arrays of the weights, by name; none where a network has them on its device.
    """

    signature: Signature
    graph: Graph
    checked: Graph
    beyond: Mapping[str, str]
    weights: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class NetworkRecord:
    """What another process needs to start a network, beside the weights of the file.

    Attributes:
        signature: the inputs and outputs.
        weights: the names of the weights.
        plan: the plan, whose `call_graph` is missing.
        rewrites, compiler_options, choice: as `Planned` and `Executable` have them.
        seconds: how long the quick compile took; 0 where there was none.
    """

    signature: Signature
    weights: Sequence[str]
    plan: Plan
    rewrites: Mapping[str, int]
    compiler_options: Mapping[str, Any]
    choice: Choice
    seconds: float = 0.0


@dataclass(eq=False, repr=False)
class Network(Reported):
    """A network in ONNX's format, as a graph of DirectML operators.

    A call takes a mapping of arrays by input name, or arrays in the order of `inputs`. It returns
    a dictionary of arrays by output name. `compile`, models of DxDispatch and the command line take
    a network as they take a graph: with a tensor for each input and each output, by name.

    Functions are nodes of the graph as operators are: If, Loop and Scan that are decided while the
    program runs, and with `fallback=True` the nodes that DirectML has no operator for.

    A network is data: `executable` is the one object of it that changes.

    Attributes:
        signature: the names and types of inputs and outputs.
        weights: the floating and quantized weights, and defaults of inputs, by name. They are
            arguments of the program. `replace` returns the network with others.
        options: how it was loaded.
        origin: the model that it is of.
        storage: where its arrays and programs are.
        translated: returns what the nodes of the file become; after a start from a cache they are
            translated when this is called.
        record: what a start from a cache read.
        loader: loads a model with options, as this network was loaded.
    """

    c_name = "ONNX"

    signature: Signature
    weights: dict[str, jax.Array]
    options: NetworkOptions
    origin: Origin
    storage: Storage
    translated: Callable[[], Translated]
    loader: Callable[[Any, NetworkOptions], "Network"]
    record: NetworkRecord | None = None
    _taking: "dict[frozenset[str], Network]" = field(default_factory=dict)

    @functools.cached_property
    def executable(self) -> Executable:
        """Return what compiles and runs the network."""
        choice, planned, seconds, record = Choice(self.options.layout), None, 0.0, self.record
        if record is not None:
            choice, seconds = record.choice, record.seconds

            def whole() -> Graph:
                return self.planned(choice).plan.call_graph()

            plan = replace(record.plan, call_graph=functools.cache(whole))
            planned = Planned(plan, record.rewrites, record.compiler_options)
        elif self.options.is_tunable and (found := tuning.kept(self.graph)):
            choice = Choice(found[0], tuning.KERNELS[found[1]], is_tuned=True)
        return self._executable(choice, planned, seconds)

    def _executable(
        self, choice: Choice, planned: Planned | None = None, seconds: float = 0.0
    ) -> Executable:
        return Executable(
            *(self.planned, self._results, self.storage, choice, planned),
            precision=self.options.precision,
            is_quick_first=self.options.is_quick_first,
            seconds=seconds,
        )

    def planned(self, choice: Choice) -> Planned:
        """Return what becomes of the network by a choice; a pure function of what it is."""
        options = replace(self.options, layout=choice.layout)
        graph, counts = rewritten(self.translated().checked, options.made_by(platform()))
        graph = hoisted(graph) if options.prepare else graph
        plan = Plan.of(graph, self.weights, options.growth if options.prepare else None)
        compiler_options = choice.compiler_options
        if compiler_options is None:
            compiler_options = self.compiler_options_of(graph)
        return Planned(plan, counts, compiler_options)

    def compiler_options_of(self, graph: Graph) -> Mapping[str, Any]:
        """Return XLA's options for the program of a graph, by its shapes and types."""
        kind = platform()
        if kind == "gpu":
            return by_rule_of_gpu(graph, self.options.precision)
        return by_rule(graph) if kind == "cpu" else {}

    @property
    def programs(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return where compiled programs are kept for other processes; None where they are not."""
        return self.storage.cache

    @property
    def compiler_options(self) -> Mapping[str, Any]:
        """Return XLA's options for programs of the network alone, by shapes and types.

        Calls and `compile` use them. In a program of your own, give them to its `jax.jit`:
        `jax.jit(f, compiler_options=dict(network.compiler_options))`.
        """
        return self.executable.planned.compiler_options

    @property
    def constants(self) -> Parameters:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the arrays that calls hold: weights, and what follows from weights alone.

        They are computed at the first call, and again for other weights.
        """
        return self.executable.parameters(self.weights)

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

    def __setattr__(self, name: str, value: Any) -> None:
        if vars(self).get(name, value) is not value:  # `network.weights |= ...` sets the same one
            text = f"{name} of a network stays: network.replace(weights=...) returns another one"
            raise AttributeError(text)
        super().__setattr__(name, value)

    def __call__(self, *arrays: Any, **named: Any) -> dict[str, jax.Array]:
        """Return the outputs by name, of one mapping of inputs or of arrays in their order.

        `named` has inputs too: those of `defaults` that get another value, say.

        Raises `DmlError` where a shape or a type is another, or an INT64 input does not fit INT32
        while 64-bit types are off in JAX.
        """
        inputs = self.signature.named(arrays, named)
        network = self.with_inputs(self.signature.replaced(inputs))
        checked = {n: unchanged(n, x, self.inputs.get(n)) for n, x in inputs.items()}
        return self.within(network.run(checked), checked)

    def run(self, inputs: Arrays, *others: Any) -> dict[str, jax.Array]:
        """Return results for `within`, of all inputs by name in their types; nothing is narrowed.

        Raises `TypeError` for the arguments of ONNX Runtime's `run`.
        """
        if others:
            raise TypeError("a network is called with arrays: network(x=array)")
        return self.executable(self.weights, inputs)

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function, for jax.jit, jax.grad and jax.vmap.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name, and those of `defaults` that have another value.

        Raises `DmlError` where a shape or a type is another.
        """
        arrays = self.signature.checked_with(weights, inputs, self.weights)
        with chosen(self.precision):
            graph = self.rewritten
            results = self._named(graph.computed(sources_of(graph, arrays)))
        return self.within(results, inputs)

    def prepared(self, weights: Arrays) -> Parameters:
        """Return the arrays that calls hold, of weights by name: for `apply_prepared`.

        They are weights, and what follows from weights alone. The function is pure.
        """
        with chosen(self.precision):
            return self.executable.planned.plan.parameters(weights)

    @property
    def prepared_from(self) -> tuple[Sequence[str], int]:
        """Return the weights that `prepared` gives as they are, and the number of arrays behind."""
        plan = self.executable.planned.plan
        return plan.kept, len(plan.derived)

    def apply_prepared(self, parameters: Sequence[Any], inputs: Arrays) -> dict[str, jax.Array]:
        """Return what `apply` returns, of what `prepared` gives; a pure function too.

        It does not look at indices: one beyond its table reads another row.
        """
        with chosen(self.precision):
            results = self._results(self.executable.planned.plan, parameters, inputs)
        return {name: results[name] for name in self.outputs}

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return the outputs in their order, of the inputs and of `constants`, in their tensors."""
        names = [name for name, _, _ in self.tensors(output=False)]
        count, tensors = len(names), self.tensors(output=True)
        values = dict(zip(names, arrays[:count], strict=True))
        with chosen(self.precision):
            plan = self.executable.planned.plan
            results = self._named(plan.call(arrays[count:] or self.constants, values))
        results = self.within(results, values)
        return [inner(results[name], tensor) for (name, _, tensor) in tensors]

    def _results(
        self, plan: Plan, parameters: Sequence[Any], inputs: Arrays
    ) -> dict[str, jax.Array]:
        return self._named(plan.call(parameters, self.signature.checked(inputs)))

    def _named(self, results: Sequence[Any]) -> dict[str, jax.Array]:
        """Return the results of the graph by name, as ONNX has them."""
        checks = self.signature.checks
        kinds = {**self.signature.results, **({WORST: kind_of(checks)} if checks else {})}
        pairs = zip(kinds.items(), results, strict=True)
        return {name: outer(array, kind) for (name, kind), array in pairs}

    def replace(
        self, *, weights: Mapping[str, Any] | None = None, planned: Planned | None = None
    ) -> "Network":
        """Return the network with other weights by name, or in another form.

        `planned` is what `planned` returns of a choice. Both networks have the same graph. Raises
        `DmlError` where a weight is missing, or has another shape or type.
        """
        given, made = self.weights, self.executable
        if weights is not None:
            given = self.signature.checked_weights(weights, given)
        other = replace(self, weights=given, _taking={})
        executable = other._executable(made.choice, planned or made.planned, made.seconds)
        vars(other).update(executable=executable)
        return other

    def with_inputs(self, names: Collection[str]) -> "Network":
        """Return the network that takes some of its `defaults` as inputs too, after the others."""
        if not names:
            return self
        key = frozenset(names)
        if key not in self._taking:
            signature = self.signature.with_inputs(key)
            weights = {n: w for n, w in self.weights.items() if n not in key}
            other = replace(self, signature=signature, weights=weights, record=None, _taking={})
            choice = self.executable.choice
            vars(other).update(executable=other._executable(choice))
            self._taking[key] = other
        other = self._taking[key]
        other.weights.update({n: w for n, w in self.weights.items() if n not in key})
        return other

    def recorded(self) -> NetworkRecord:
        """Return what another process needs to start this network."""
        made, planned = self.executable, self.executable.planned
        return NetworkRecord(
            *(self.signature, [*self.weights], planned.plan.without_graph()),
            *(planned.rewrites, planned.compiler_options, made.choice, made.seconds),
        )

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

        Raises `DmlError` where a value does not fit, or a file cannot be read or written.
        """
        own = {name: np.asarray(array) for name, array in self.weights.items()}
        save(self.origin, path, {**own, **(weights or {})}, dtype, own)

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
            self.loader, self.origin.model, self.options, mesh, axis, weights=self.weights
        )

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
        reload = None
        if isinstance(self.origin.model, Path):
            options = replace(self.options, tuned=False)
            reload = functools.partial(self.loader, str(self.origin.model), options)
        found = tuning.tuned(self, seconds, reload)
        kernels = tuning.KERNELS[found.winner.kernels]
        self._choose(Choice(found.winner.layout, kernels, is_tuned=True))
        return found

    def untune(self) -> bool:
        """Forget what `tune` kept for this network and machine; return whether there was any."""
        self._choose(Choice(self.options.layout))
        return tuning.forget(self.graph)

    def _choose(self, choice: Choice) -> None:
        self.executable.choose(choice)
        self._taking.clear()
