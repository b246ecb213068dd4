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
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.graph.graph import inner, sources_of
from dml_jax.lowering.precision import chosen
from dml_jax.onnx.files.model import Origin
from dml_jax.onnx.files.saving import save
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.reports import Reported
from dml_jax.onnx.signature import Signature, as_given
from dml_jax.onnx.tensor_parallel.sharded_network import ShardedNetwork, sharded
from dml_jax.onnx.translated import Translate, call, plan_by
from dml_jax.runtime import tuning
from dml_jax.runtime.executable import Choice, Executable, Start
from dml_jax.runtime.plan import Arrays, Parameters
from dml_jax.runtime.platform import platform
from dml_jax.runtime.weight_store import Storage

# What `compile`, pictures and this package ask of a network, and a user does not.
_OF_BINDINGS = {
    *("bind_points", "by_element", "c_name", "call_with", "compute", "constants"),
    *("in_place", "kind", "programs", "returns_tuple", "tensors", "without_memory"),
    *("loader", "origin", "start", "storage", "translated"),
}


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
        loader: loads a model with options, as this network was loaded.
        start: what is known of how it runs; None where nothing is.
    """

    c_name = "ONNX"

    signature: Signature
    weights: dict[str, jax.Array]
    options: NetworkOptions
    origin: Origin
    storage: Storage
    translated: Translate
    loader: Callable[[Any, NetworkOptions], "Network"]
    start: Start | None = None
    # The networks that take defaults as inputs, by their names: each call that replaces the same
    # defaults runs the same programs. `tune` and `untune` drop them, since they run by a choice.
    _variants: "dict[frozenset[str], Network]" = field(default_factory=dict)

    @functools.cached_property
    def executable(self) -> Executable:
        """Return what compiles and runs the network."""
        options, start = self.options, self.start
        if start is None and options.is_tunable:
            start = tuning.start_of(self.graph)
        return Executable(
            functools.partial(plan_by, self.translated, options, [*self.weights]),
            functools.partial(call, self.signature),
            *(self.storage, start or Start(Choice(options.layout))),
            precision=options.precision,
            is_quick_first=options.is_quick_first,
        )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - _OF_BINDINGS)

    @property
    def constants(self) -> Parameters:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the arrays that calls hold: weights, and what follows from weights alone.

        They are computed at the first call, and again for other weights.
        """
        return self.executable.parameters(self.weights)

    @property
    def trainable(self) -> dict[str, jax.Array]:
        """Return a new dictionary of the weights that are finite floating-point numbers, several.

        A file does not tell parameters from other arrays. An array of one element is mostly a
        constant of a formula, and one with infinite elements a mask. Another choice is
        `{name: network.weights[name] for name in names}`. `replace` takes weights that changed.
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
        inputs = self.signature.inputs_by_name(arrays, named)
        network = self.with_inputs(self.signature.defaults_among(inputs))
        checked = {n: as_given(n, x, self.inputs.get(n)) for n, x in inputs.items()}
        return self.signature.within(network.executable(network.weights, checked), checked)

    def run(self, *arguments: Any) -> None:
        """Raise `TypeError`, which says that a network is called, as ONNX Runtime's are not."""
        raise TypeError("a network is called with arrays: network(x=array)")

    def apply(self, weights: Arrays, inputs: Arrays) -> dict[str, jax.Array]:
        """Return the outputs by name; a pure function, for jax.jit, jax.grad and jax.vmap.

        Args:
            weights: the weights by name, as `weights` has them.
            inputs: the inputs by name, and those of `defaults` that have another value.

        Raises `DmlError` where a shape or a type is another.
        """
        arrays = self.signature.check_with(weights, inputs, self.weights)
        with chosen(self.options.precision):
            graph = self.rewritten
            results = self.signature.by_name(graph.computed(sources_of(graph, arrays)))
        return self.signature.within(results, inputs)

    def prepared(self, weights: Arrays) -> Parameters:
        """Return the arrays that calls hold, of weights by name: for `apply_prepared`.

        They are weights, and what follows from weights alone. The function is pure.
        """
        with chosen(self.options.precision):
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
        with chosen(self.options.precision):
            results = call(self.signature, self.executable.planned.plan, parameters, inputs)
        return {name: results[name] for name in self.outputs}

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return the outputs in their order, of the inputs and of `constants`, in their tensors."""
        names = [name for name, _, _ in self.tensors(output=False)]
        count, tensors = len(names), self.tensors(output=True)
        values = dict(zip(names, arrays[:count], strict=True))
        with chosen(self.options.precision):
            plan = self.executable.planned.plan
            results = plan.call(arrays[count:] or self.constants, values)
            results = self.signature.by_name(results)
        results = self.signature.within(results, values)
        return [inner(results[name], tensor) for (name, _, tensor) in tensors]

    def replace(self, *, weights: Mapping[str, Any]) -> "Network":
        """Return the network with other weights by name.

        Both networks have the same graph. Raises `DmlError` where a weight is missing, or has
        another shape or type.
        """
        weights = self.signature.check_weights(weights, self.weights)
        return replace(self, weights=weights, start=self.executable.start, _variants={})

    def with_inputs(self, names: Collection[str]) -> "Network":
        """Return the network that takes some of its `defaults` as inputs too, after the others."""
        if not names:
            return self
        key, kept = frozenset(names), {n: w for n, w in self.weights.items() if n not in names}
        if key not in self._variants:
            # The plan is another one: arrays that followed from these weights no longer do.
            start = Start(self.executable.choice)
            signature = self.signature.with_inputs(key)
            self._variants[key] = replace(
                self, signature=signature, weights=kept, start=start, _variants={}
            )
        network = self._variants[key]
        network.weights.update(kept)  # a caller may have changed entries of `weights` since
        return network

    def save(self, path: Any, weights: Arrays | None = None, dtype: Any = None) -> None:
        """Write the model that was read, with other values of its initializers.

        All else is as it was read: types, names of sizes, metadata, functions. What was external
        data is so again, in the file `PATH.data` beside the new one. The file that was read is not
        changed.

        Args:
            path: the file to write, another one than the one that was read. Its folder is made.
            weights: the new values by name, as `apply` takes them; others stay as they are in
                `self.weights`. A type that holds fewer numbers than the file's is widened.
            dtype: jnp.float16 or jnp.bfloat16 stores FLOAT initializers of the graph so, rounded;
                nodes Cast, which are new, make FLOAT of them. None keeps all types.

        Raises `DmlError` where a value does not fit, or a file cannot be read or written.
        """
        own = {name: np.asarray(array) for name, array in self.weights.items()}
        save(self.origin, path, {} if weights is None else weights, dtype, own)

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
        found = tuning.tune(self, seconds, reload)
        self._choose(found.winner.choice)
        return found

    def untune(self) -> bool:
        """Forget what `tune` kept for this network and machine; return whether there was any."""
        self._choose(Choice(self.options.layout))
        return tuning.forget(self.graph)

    def _choose(self, choice: Choice) -> None:
        self.executable.choose(choice)
        self._variants.clear()
