"""Calls of operators and graphs: the checks of the arrays, and the program that a call becomes."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

from dml_jax.arrays import are_described, array_faults, unusable
from dml_jax.enums import FeatureLevel, TensorDataType
from dml_jax.errors import DmlError, Fault
from dml_jax.lowering.alone import alone, elementwise
from dml_jax.tensor import X64_RULE, TensorDesc, needs_x64


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
        is_one: whether it is a single operator, for which the forms of `alone` are made.
    """

    c_name: ClassVar[str]
    in_place: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # output -> inputs that it may lie on
    by_element: ClassVar[bool] = False
    is_one: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        """How tables and pictures name it: `graph of 3 nodes`."""
        return self.c_name

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """(path, field, tensor) of all tensors, of the outputs or of the inputs."""
        raise NotImplementedError

    def bind_points(self) -> Iterator[BindPoint]:
        """Where memory is bound, by name."""
        raise NotImplementedError

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Why a feature level does not take this description; empty where it does."""
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

    @functools.cached_property
    def constants(self) -> tuple[np.ndarray, ...]:
        """The large arrays of the description, which programs take as arguments after the inputs.

        Neither a program nor the time to compile it grows with them.
        """
        return ()

    if TYPE_CHECKING:  # or a class's own name would be a property for type checkers
        __name__: ClassVar[str]
    else:

        @property
        def __name__(self) -> str:
            """The name of the program of `jax.jit` of it, which profiles show."""
            return self.c_name

    @functools.cached_property
    def returns_tuple(self) -> bool:
        """Whether a call gives a tuple of results, else the only one."""
        outputs = [point for point in self.bind_points() if point.output]
        return len(outputs) != 1 or outputs[0].is_array

    def __call__(self, *arrays: Any) -> Any:
        """Compute the result, or a tuple of several, from one array for each input.

        Under a trace of JAX the call is a part of that program. Else it is a program of its own.

        Raises `DmlError` where shapes or types are not those of the tensors.
        """
        if any(isinstance(array, Tracer) for array in arrays):
            return self.part(*arrays)
        return self._checked(_whole_program, arrays, lambda: self._placed_constants(arrays))

    def part(self, *arrays: ArrayLike, constants: Sequence[Any] | None = None) -> Any:
        """Compute what a call gives, as a part of a program, with which XLA fuses it.

        `constants` stand for those of the description. Raises `DmlError` as a call does.
        """
        return self._checked(_inside_a_program, arrays, lambda: constants or self.constants)

    def whole(self, *arrays: ArrayLike, constants: Sequence[Any] | None = None) -> Any:
        """Compute what a call gives, by the form that is fastest as the whole program.

        `constants` stand for those of the description. Raises `DmlError` as a call does.
        """
        return self._checked(_as_whole_program, arrays, lambda: constants or self.constants)

    def _checked(
        self, program: Callable[..., Any], arrays: Sequence[Any], held: Callable[[], Sequence[Any]]
    ) -> Any:
        """Run a program of checked arrays, and of the constants that `held` returns."""
        self._check_arrays(arrays)
        try:
            return program(self, *arrays, *held())
        except (TypeError, ValueError, RuntimeError):
            self._check_usable(arrays)
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
    def inputs(self) -> tuple[TensorDesc, ...]:
        """The input tensors, in the order that a call takes arrays."""
        return tuple(tensor for _, _, tensor in self.tensors(output=False))

    @functools.cached_property
    def outputs(self) -> tuple[TensorDesc, ...]:
        """The output tensors, in the order that a call returns them."""
        return tuple(tensor for _, _, tensor in self.tensors(output=True))

    def validate(self, feature_level: FeatureLevel | str) -> None:
        """Raises `DmlError` where a feature level ("2_1") does not take this descriptor."""
        faults = self.refused_at(feature_level)
        if faults:
            raise DmlError(faults)

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
        if not are_described(self.inputs, arrays):
            tensors = [(path, tensor) for path, _, tensor in self.tensors(output=False)]
            raise DmlError(array_faults(self.c_name, tensors, arrays))

    def _check_usable(self, arrays: Sequence[Any]) -> None:
        """Raises the error that JAX did not take what fits the tensors, if that is so."""
        paths = (path for path, _, _ in self.tensors(output=False))
        found = map(unusable, itertools.repeat(self.c_name), paths, arrays)
        faults = [fault for fault in found if fault]
        if faults:
            raise DmlError(faults)

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


@functools.partial(jax.jit, static_argnums=0, inline=True)  # so that XLA sees no call
def _inside_a_program(function: Bindable, *arrays: Any) -> Any:
    with alone(False):
        return _returned(function, function.compute(*arrays))


def _as_whole_program(function: Bindable, *arrays: Any) -> Any:
    with alone(function.is_one):
        results = function.compute
        if function.by_element:
            results = functools.partial(elementwise, function.evaluate)
        return _returned(function, results(*arrays))


_whole_program = jax.jit(_as_whole_program, static_argnums=0)


def _returned(function: Bindable, results: Sequence[Any]) -> Any:
    return tuple(results) if function.returns_tuple else results[0]


def whole_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of an operator or graph as a whole program; other functions as they are."""
    return function.whole if isinstance(function, Bindable) else function
