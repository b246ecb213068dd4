"""Calls of operators and graphs: the checks of the arrays, and the program that a call becomes."""

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
from jax.core import Tracer
from jax.typing import ArrayLike

from dml_jax.description.arrays import are_described, array_faults, unusable
from dml_jax.description.tensor import X64_RULE, TensorDesc, needs_x64
from dml_jax.enums import FeatureLevel, TensorDataType
from dml_jax.errors import DmlError, Fault, raise_if
from dml_jax.lowering.mesh_axes import laid_out_by_xla

PROGRAMS = 64  # of calls of one kind of operator, and of graphs, that stay compiled


class BindPoint(NamedTuple):
    """A name that memory is bound to: one tensor, or an array of them."""

    name: str
    tensors: tuple[TensorDesc, ...]
    output: bool
    is_array: bool


class Bindable:
    """An operator or a graph: it is called with arrays, and has names that memory is bound to.

    A subclass gives `tensors`, `bind_points`, `refused_at` and `compute`.

    Attributes:
        in_place: whether an output may lie where an input does.
        by_element: whether it maps each element by itself, wherever that lies.
        without_memory: the names of inputs and outputs without elements, to which memory may be
            bound and need not.
    """

    c_name: ClassVar[str]
    in_place: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # output -> inputs that it may lie on
    by_element: ClassVar[bool] = False
    without_memory: Collection[str] = ()

    @property
    def kind(self) -> str:
        """Return the name in tables and figures: `graph of 3 nodes`."""
        return self.c_name

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """(path, field, tensor) of all tensors, of the outputs or of the inputs."""
        raise NotImplementedError

    def bind_points(self) -> Iterator[BindPoint]:
        """Yield the names that memory is bound to."""
        raise NotImplementedError

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses this description; nothing where it accepts it."""
        raise NotImplementedError

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return all results, in their order, of arrays that are not checked; without `jax.jit`.

        The arrays are the inputs, and after them the constants.
        """
        raise NotImplementedError

    def evaluate(self, *arrays: Any) -> Sequence[jax.Array]:
        """Compute all results without checks.

        An operator that maps elements takes arrays of any shape, if all have the same one.
        """
        return self.compute(*arrays)

    programs: Any = None
    """The `dml_jax.runtime.program_cache.Programs` that keeps programs of `compile`, or None."""

    @functools.cached_property
    def constants(self) -> Sequence[Any]:
        """The large arrays of the description, which programs take as arguments after the inputs.

        Neither a program nor the time to compile it grows with them.
        """
        return ()

    @property
    def compiler_options(self) -> Mapping[str, Any]:
        """Return XLA's options for programs of it alone: those that this package compiles."""
        return {}

    if TYPE_CHECKING:  # or a class's own name would be a property for type checkers
        __name__: ClassVar[str]
    else:

        @property
        def __name__(self) -> str:
            """The name of the program of `jax.jit` of it, which profiles show."""
            return self.c_name

    @functools.cached_property
    def returns_tuple(self) -> bool:
        """Return whether a call gives a tuple of results, else the only one."""
        outputs = [point for point in self.bind_points() if point.output]
        return len(outputs) != 1 or outputs[0].is_array

    def __call__(self, *arrays: Any) -> Any:
        """Compute the result, or a tuple of several, from one array for each input.

        Under a trace of JAX the call is a part of that program, with which XLA fuses it. Else the
        same program runs by itself.

        Raises `DmlError` where shapes or types are not those of the tensors.
        """
        return self.call_with(None, *arrays)

    def call_with(self, constants: Sequence[Any] | None, *arrays: ArrayLike) -> Any:
        """Compute what a call gives, with `constants` in place of those of the description.

        Raises `DmlError` as a call does.
        """
        self._check_arrays(arrays)
        is_traced = any(isinstance(array, Tracer) for array in (*arrays, *(constants or ())))
        if constants is None:
            constants = self.constants if is_traced else self._placed_constants(arrays)
        try:
            return (_inlined if is_traced else _run)(self, *arrays, *constants)
        except (TypeError, ValueError, RuntimeError):
            # An array may fit its tensor, and JAX not be able to use it.
            paths = (path for path, _, _ in self.tensors(output=False))
            found = map(unusable, itertools.repeat(self.c_name), paths, arrays)
            raise_if(fault for fault in found if fault)
            raise

    def _placed_constants(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the constants on the device of `arrays`, to which they are sent once."""
        if not self.constants:
            return ()
        places = [a.sharding for a in arrays if isinstance(a, jax.Array) and a.committed]
        is_single = bool(places) and len(places[0].device_set) == 1
        place = places[0] if is_single else None
        kept: dict[Any, Sequence[Any]] = self.__dict__.setdefault("_kept_constants", {})
        if place not in kept:
            with jax.ensure_compile_time_eval():  # a traced array must not be kept
                kept[place] = [jax.device_put(array, place) for array in self.constants]
        return kept[place]

    def _described(self) -> Iterator[tuple[str, TensorDesc]]:
        """(path, tensor) of every tensor that is computed, those inside a graph included."""
        return ((path, tensor) for path, _, tensor in self.tensors())

    @functools.cached_property
    def _arguments(self) -> tuple[TensorDesc, ...]:
        return tuple(tensor for _, _, tensor in self.tensors(output=False))

    @functools.cached_property
    def inputs(self) -> Any:
        """The input tensors, in the order that a call takes arrays."""
        return self._arguments

    @functools.cached_property
    def outputs(self) -> Any:
        """The output tensors, in the order that a call returns them."""
        return tuple(tensor for _, _, tensor in self.tensors(output=True))

    def validate(self, feature_level: FeatureLevel | str) -> None:
        """Raises `DmlError` where a feature level ("2_1") does not take this descriptor."""
        raise_if(self.refused_at(feature_level))

    @functools.cached_property
    def minimum_feature_level(self) -> FeatureLevel:
        """The lowest feature level that takes this very descriptor.

        Raises `DmlError` for a node beyond DirectML, which no level takes.
        """
        found = next((level for level in FeatureLevel if not self.refused_at(level)), None)
        if found is None:
            raise DmlError(self.refused_at(max(FeatureLevel)))
        return found

    @property
    def refusals(self) -> dict[FeatureLevel, tuple[Fault, ...]]:
        """For each level below `minimum_feature_level`, why it refuses."""
        faults = ((level, self.refused_at(level)) for level in FeatureLevel)
        return dict(itertools.takewhile(lambda pair: pair[1], faults))

    def _check_arrays(self, arrays: Sequence[Any]) -> None:
        if self._widest is not None and needs_x64(self._widest):
            raise DmlError(
                Fault(self.c_name, f"{path}.DataType", X64_RULE, tensor.data_type.shown())
                for path, tensor in self._described()
                if needs_x64(tensor.data_type)
            )
        if not are_described(self._arguments, arrays):
            tensors = [(path, tensor) for path, _, tensor in self.tensors(output=False)]
            raise DmlError(array_faults(self.c_name, tensors, arrays))

    @functools.cached_property
    def _widest(self) -> TensorDataType | None:
        types = (tensor.data_type for _, tensor in self._described())
        return max(types, key=lambda t: t.bits, default=None)

    def describe(self) -> str:
        """Types and sizes on one line: `FLOAT32[1,1,3,3] -> FLOAT32[1,1,3,1]`."""
        return described(self.inputs, self.outputs)


def described(inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc]) -> str:
    """Types and sizes on one line: `FLOAT32[1,1,3,3] -> FLOAT32[1,1,3,1]`."""
    return " -> ".join(", ".join(t.shown() for t in ts) for ts in (inputs, outputs))


def _run(function: Bindable, *arrays: Any) -> Any:
    if not function.constants:
        return program(type(function), _computed, function)(*arrays)
    kept = function.__dict__  # or the constants would outlive the graph
    if "_program" not in kept:
        kept["_program"] = jax.jit(functools.partial(_computed, function))
    return kept["_program"](*arrays)


def program(kind: type[Bindable], call: Callable[..., Any], *described: Any) -> Callable[..., Any]:
    """Return the program of `call(*described, *arrays)`, a function of the arrays.

    PROGRAMS of a kind are kept, those that were used last. (`jax.jit` keeps thousands of programs
    of a function with static arguments, and all their memory.)
    """
    return _programs(kind)(call, *described)


@functools.cache
def _programs(kind: type[Bindable]) -> Callable[..., Any]:
    def jitted(call: Callable[..., Any], *described: Any) -> Callable[..., Any]:
        return jax.jit(functools.partial(call, *described))

    return functools.lru_cache(PROGRAMS)(jitted)


def _computed(function: Bindable, *arrays: Any) -> Any:
    sizes = [tensor.sizes for _, _, tensor in function.tensors(output=True)]
    results = laid_out_by_xla(function.compute, sizes)(*arrays)
    return tuple(results) if function.returns_tuple else results[0]


_inlined = jax.jit(_computed, static_argnums=0, inline=True)  # so that XLA sees no call
