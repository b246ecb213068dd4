"""What a network is called with and returns: types, names, and arrays that fit them."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jax.core import Tracer

from dml_jax.description.tensor import X64_RULE, TensorDesc, shown_array
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, collecting, moving, raise_if
from dml_jax.onnx.array_checks import fit_by_name, type_of
from dml_jax.onnx.files.types import Type
from dml_jax.onnx.nodes.number_limits import WORST, Limit, faults_of, kind_of, without_answer
from dml_jax.onnx.nodes.values import outer
from dml_jax.operator.call import Bindable, BindPoint


def points_of(inputs: Mapping[str, Type], outputs: Mapping[str, Type]) -> list[BindPoint]:
    """Return what memory is bound to: the inputs and outputs that have elements.

    Raises `DmlError` if one of them has a type that no memory holds.
    """
    kinds = [
        *((False, name, "input", kind) for name, kind in inputs.items()),
        *((True, name, "output", kind) for name, kind in outputs.items()),
    ]
    points, faults = list[BindPoint](), list[Fault]()
    for is_output, name, word, kind in kinds:
        if kind.is_empty:
            continue
        with collecting(faults), moving("", f"the {word} '{name}'"):
            if kind.dtype.itemsize == 8 and kind.directml.bits == 32:
                raise DmlError([Fault("", "", X64_RULE, Unquoted(kind.name))])
            tensor = TensorDesc(kind.directml, kind.shape or (1,))
            points.append(BindPoint(name, (tensor,), is_output, False))
    raise_if(faults)
    return points


@dataclass(frozen=True, eq=False)
class Signature:
    """The inputs and outputs of a network: names and types, no weights.

    Attributes:
        inputs: the type of each input, by name.
        results: the type of each output, by name, and behind them the outputs that count.
        defaults: the type of each input that may be left out, by name.
        fixed: the defaults that decided something at load, which a call cannot replace.
        free: the name of each dimension of an input, None for one whose size is fixed.
        counted: the outputs whose size depends on data: (the dimension, the output that counts).
        bounds: the bounds of sizes that data decides, by name.
        limits: the inputs and outputs whose numbers have limits, and these.
        checks: the limits of other numbers, of which the program gives the worst.
    """

    inputs: dict[str, Type]
    results: dict[str, Type]
    defaults: dict[str, Type] = field(default_factory=dict)
    fixed: dict[str, np.ndarray] = field(default_factory=dict)
    free: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    counted: dict[str, tuple[int, str]] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    limits: Sequence[tuple[str, Limit]] = ()
    checks: Sequence[Limit] = ()

    def with_inputs(self, names: Collection[str]) -> "Signature":
        """Return the signature with some defaults as inputs, after the others."""
        inputs = self.inputs | {n: k for n, k in self.defaults.items() if n in names}
        defaults = {n: k for n, k in self.defaults.items() if n not in names}
        return replace(self, inputs=inputs, defaults=defaults)

    def inputs_by_name(self, arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs of a call by name.

        `arrays` are one mapping, or arrays in the order of the inputs that `named` lacks. Raises
        `DmlError` where they are more or fewer.
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
        return inputs

    def defaults_among(self, inputs: Mapping[str, Any]) -> list[str]:
        """Return the defaults among inputs. Raises `DmlError` where one is fixed."""
        expect = Expect("")
        for name in self.fixed.keys() & inputs.keys():
            rule = "keep its default, which decided something at load (load_onnx(..., constants="
            rule += f"{{'{name}': ...}}) or --constant {name}:VALUE loads another one)"
            expect(False, f"the input '{name}'", rule, shown_array(inputs[name]))
        expect.check()
        return [name for name in self.defaults if name in inputs]

    def check(self, inputs: Any) -> dict[str, Any]:
        """Return the inputs by name. Raises `DmlError` where they do not fit."""
        expect = Expect("")
        values = self._fit(expect, inputs)
        expect.check()
        return values

    def check_with(self, weights: Any, inputs: Any, there: Mapping[str, Any]) -> dict[str, Any]:
        """Return weights and inputs by name. Raises `DmlError` where they do not fit.

        `there` are the weights of the network. Inputs that are weights too replace these.
        """
        # The types of weights are read of the arrays: `weights_as` may have changed those of the
        # file.
        kinds = {name: type_of(array) for name, array in there.items()}
        names = self.defaults_among(inputs) if isinstance(inputs, Mapping) else ()
        replaced = {name: kinds.pop(name) for name in names if name in kinds}
        expect = Expect("")
        values = self._fit(expect, inputs)
        held = fit_by_name(expect, "weight", weights, kinds, replaced)
        expect.check()
        return {**held, **values}

    def check_weights(self, weights: Any, there: Mapping[str, Any]) -> dict[str, Any]:
        """Return weights by name in place of those that are `there`. Raises `DmlError`."""
        expect = Expect("")
        kinds = {name: type_of(array) for name, array in there.items()}
        given = fit_by_name(expect, "weight", weights, kinds, {})
        expect.check()
        return given

    def by_name(self, results: Sequence[Any]) -> dict[str, Any]:
        """Return the results of the graph by name, as ONNX has them."""
        kinds = {**self.results, **({WORST: kind_of(self.checks)} if self.checks else {})}
        pairs = zip(kinds.items(), results, strict=True)
        return {name: outer(array, kind) for (name, kind), array in pairs}

    def within(self, results: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs among results.

        Raises `DmlError` where a number of them or of the inputs lies beyond its limits. Where JAX
        traces, the outputs hold no answer then.
        """
        given = {**inputs, **results}
        named = [(name, [limit]) for name, limit in self.limits]
        named.append((WORST, [*self.checks]))
        looked = [(given[name], limits) for name, limits in named if name in given]
        outputs = {name: results[name] for name in self.results}  # jax.jit sorts the names
        # A traced program cannot raise by what it computes. Its floats are NaN instead, and its
        # integers the least ones, so that no answer looks right.
        if looked and any(isinstance(x, Tracer) for x in outputs.values()):
            counts = (count for _, count in self.counted.values())
            return without_answer(outputs, looked, [*(name for name, _ in self.limits), *counts])
        raise_if(faults_of(looked))
        return outputs

    def _fit(self, expect: Expect, inputs: Any) -> dict[str, Any]:
        return fit_by_name(expect, "input", inputs, self.inputs, self.defaults, self._cure)

    def _cure(self, name: str, array: Any) -> str:
        """Return how the network is loaded for an array, if free dimensions alone differ."""
        own, given = self.inputs.get(name), getattr(array, "shape", ())
        if own is None or own.shape is None or len(given) != len(own.shape):
            return ""
        places = zip(self.free.get(name, ()), own.shape, given, strict=False)
        other = {free: size for free, n, size in places if n != size}
        if not other or not all(free and free.isidentifier() for free in other):
            return ""
        return f" (load_onnx(..., free_dimensions={other}) loads it so)"


class Signed(Bindable):
    """What has a `Signature`, and is bound to memory by its names."""

    signature: Signature

    @property
    def inputs(self) -> dict[str, Type]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the type of each input, by name."""
        return self.signature.inputs

    @property
    def outputs(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the names of the outputs."""
        return list(self.signature.results)

    @property
    def output_types(self) -> dict[str, Type]:
        """Return the type of each output, by name."""
        return dict(self.signature.results)

    @property
    def defaults(self) -> dict[str, Type]:
        """Return the type of each input that has a default, by name.

        A call may replace defaults by name: `network(x, w=...)`.
        """
        return self.signature.defaults

    @property
    def fixed(self) -> dict[str, np.ndarray]:
        """Return the defaults that decided something at load, which a call cannot replace."""
        return self.signature.fixed

    @property
    def free(self) -> Mapping[str, Sequence[str | None]]:
        """Return the name of each dimension of an input, None for one whose size is fixed."""
        return self.signature.free

    @property
    def bounds(self) -> Mapping[str, int]:
        """Return the bounds of sizes that data decides, by name.

        The output 'NAME.size' says the size that a call had.
        """
        return self.signature.bounds

    @property
    def counted(self) -> dict[str, tuple[int, str]]:
        """Return the outputs whose size depends on data, by name: (dimension, name of the count).

        The count is an output too, which says how many elements along the dimension are there. The
        rest is 0 where it comes from the node itself, and whatever follows from 0 where it was
        computed on. `without_padding` cuts it off.
        """
        return self.signature.counted

    @property
    def padded(self) -> dict[str, int]:
        """Return the outputs whose size depends on data: the dimension that is padded, by name."""
        return {name: axis for name, (axis, _) in self.counted.items()}

    def without_padding(self, results: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs of a call as the file has them: without paddings and counts.

        Outputs that are padded become arrays of NumPy, with as many elements as their counts say.
        Raises `DmlError` for a count that is no size, as TopK of more elements than there are has.
        """
        counted = self.counted
        found = {n: x for n, x in results.items() if n not in {c for _, c in counted.values()}}
        for name, (axis, count) in counted.items():
            full, size = np.asarray(results[name]), int(results[count])
            if not 0 <= size <= full.shape[axis]:
                rule = f"have a size in [0, {full.shape[axis]}] in dimension {axis}"
                raise DmlError([Fault("", f"the output '{name}'", rule, size)])
            found[name] = full.take(range(size), axis)
        return found

    @functools.cached_property
    def without_memory(self) -> set[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the names of inputs and outputs without elements."""
        kinds = {**self.signature.inputs, **self.signature.results}
        return {name for name, kind in kinds.items() if kind.is_empty}

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
        return points_of(self.signature.inputs, self.signature.results)

    def describe(self) -> str:
        """Return the names, types and sizes of inputs and outputs.

        A free dimension stands with its name: `x FLOAT32[batch=8,2] -> y FLOAT32[8,2]`. So does one
        whose size data decides, with the output that counts: `y FLOAT32[y.count<=20,2]`.
        """
        sides = [[p for p in self._points if p.output == is_output] for is_output in (False, True)]
        return " -> ".join(", ".join(self._shown(p) for p in side) for side in sides)

    def _shown(self, point: BindPoint) -> str:
        (tensor,) = point.tensors
        sizes = [*map(str, tensor.sizes)]
        for axis, name in enumerate(() if point.output else self.free.get(point.name, ())):
            sizes[axis] = sizes[axis] if name is None else f"{name or '?'}={sizes[axis]}"
        if point.output and point.name in self.counted:
            axis, count = self.counted[point.name]
            sizes[axis] = f"{count}<={sizes[axis]}"
        kind, _, rest = tensor.shown().partition("[")
        return f"{point.name} {kind}[{','.join(sizes)}{rest[rest.index(']') :]}"

    def random_inputs(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return inputs by name: floats in [0, 1), and integers that are 0, or 1 where they can."""
        random, arrays = np.random.default_rng(seed), {}
        for name, kind in self.inputs.items():
            if kind.is_floating:
                arrays[name] = random.random(kind.shape, np.float32).astype(kind.dtype, copy=False)
            else:
                limits = (limit for own, limit in self.signature.limits if own == name)
                most = min([1, *(limit.high for limit in limits)])
                arrays[name] = random.integers(0, most + 1, kind.shape).astype(kind.dtype)
        return arrays
