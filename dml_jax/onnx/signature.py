"""What a network is called with and returns: types, names, and arrays that fit them."""

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from onnx.helper import np_dtype_to_tensor_dtype

from dml_jax.description.tensor import X64_RULE, TensorDesc, shown_array
from dml_jax.errors import DmlError, Expect, Fault, Unquoted, collecting, moving, nearest, raise_if
from dml_jax.graph.bfloat16 import BFLOAT16
from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.files.types import WITHOUT_X64, Type
from dml_jax.onnx.nodes.number_limits import WORST, Limit, faults_of, kind_of, without_answer
from dml_jax.onnx.nodes.values import outer
from dml_jax.operator.call import Bindable, BindPoint


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
        if isinstance(weights, Mapping) and {*weights} & self.inputs.keys() - kinds.keys():
            raise DmlError([Fault("", "weights", "come before inputs", Unquoted("inputs first"))])
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
                where, rule = f"k of the TopK of '{name}'", f"be in [0, {full.shape[axis]}]"
                raise DmlError([Fault("", where, rule, size)])
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
        inputs, outputs = self.signature.inputs.items(), self.signature.results.items()
        kinds = [*((False, "input", *own) for own in inputs)]
        kinds += ((True, "output", *own) for own in outputs)
        points, faults = list[BindPoint](), list[Fault]()
        for is_output, word, name, kind in kinds:
            if kind.is_empty:
                continue
            with collecting(faults), moving("", f"the {word} '{name}'"):
                if kind.dtype.itemsize == 8 and kind.edge_type().bits == 32:
                    raise DmlError([Fault("", "", X64_RULE, Unquoted(kind.name))])
                tensor = TensorDesc(kind.edge_type(), kind.shape or (1,))
                points.append(BindPoint(name, (tensor,), is_output, False))
        raise_if(faults)
        return points

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


def fit_by_name(
    expect: Expect,
    word: str,
    given: Any,
    wanted: Mapping[str, Type],
    optional: Mapping[str, Type],
    cure: Callable[[str, Any], str] = lambda name, array: "",
) -> dict[str, Any]:
    """Return the arrays that are inputs or weights (`word`), by name; `expect` takes the others.

    `wanted` has the types of those that have to be given, `optional` of those that may be left out.
    `cure` returns what a message says behind the sizes of an array that does not fit.
    """
    known = {**wanted, **optional}
    first = next(iter(wanted), "name")
    rule = f"be a dict, {{{first!r}: array}}"
    if not expect(isinstance(given, Mapping), f"{word}s", rule, shown_array(given)):
        return {}
    # A name that is unknown and one that is missing are often the same one, spelled wrongly: both
    # are said, with the nearest known name.
    for name in given:
        rule = f"name {'an' if word == 'input' else 'a'} {word}{nearest(name, known)}"
        expect(name in known, f"{word}s", rule, name)
    values = {}
    for name, kind in known.items():
        if name in optional and name not in given:
            continue
        where = f"the {word} '{name}'"
        if name not in given:
            rest = " (network.weights | weights has all)" if word == "weight" else ""
            expect(False, where, f"be given{rest}", Unquoted("nothing"))
            continue
        array, accepted = given[name], _accepted_types(kind)
        has_shape = getattr(array, "shape", None) == kind.shape
        has_type = has_shape and np.dtype(array.dtype) in accepted
        converts = f" (x.astype('{accepted[0].name}') converts)" if has_shape else ""
        rule = f"be {accepted[0].name}{list(kind.shape or ())}{converts or cure(name, array)}"
        if expect(has_type, where, rule, shown_array(array)):
            values[name] = array
    return values


def type_of(array: Any) -> Type:
    return Type(np_dtype_to_tensor_dtype(np.dtype(array.dtype)), tuple(array.shape))


def _accepted_types(kind: Type) -> list[np.dtype]:
    """Return the types of arrays that stand for a tensor, ONNX's own first."""
    # DirectML has no type of truth values: an array of UINT8 is what a graph computes with.
    if kind.dtype == bool:
        return [kind.dtype, np.dtype(np.uint8)]
    known = [kind.dtype, kind.array_dtype]
    is_float32 = kind.has_inner and kind.inner.dtype == np.float32
    return [*known, np.dtype(np.float32), BFLOAT16] if is_float32 else known


# Exports of language models sum masks and positions in INT64. With these bounds the sums fit INT32,
# which is all that JAX has by default.
_BOUNDS = {"attention_mask": (0, 1), "position_ids": (0, (1 << 24) - 1)}


def bounds_of(name: str, kind: Type) -> tuple[int, int] | None:
    """Return the bounds of an input of tokens, whose sums fit 32 bits then; None for others."""
    found = next((bounds for end, bounds in _BOUNDS.items() if name.endswith(end)), None)
    return found if kind.name == "INT64" else None


def as_given(name: str, array: Any, kind: Type | None) -> Any:
    """Return an array that JAX takes as it is; numbers of Python have the type of the input.

    Raises `DmlError` where it would be cut.
    """
    # An array of JAX has lost its 64 bits where it was made, and JAX has warned there.
    if isinstance(array, jax.Array):
        return array
    given, array = array, np.asarray(array)
    if array.dtype.kind in "OSU":
        raise DmlError([Fault("", f"the input '{name}'", "be an array", shown_array(given))])
    if has_x64():
        return given
    if array.dtype == np.float64 and (kind is None or kind.is_floating):
        # A float of Python has no type of its own. An array of NumPy has, and halving its bits
        # without a word would be a surprise.
        if kind is not None and not hasattr(given, "dtype"):
            return array.astype(kind.dtype)
        rule = "have no 64 bits (x.astype('float32') converts)"
        raise DmlError([Fault("", f"the input '{name}'", rule, shown_array(array))])
    bounds = kind and bounds_of(name, kind)
    if bounds and array.size and (array.min() < bounds[0] or array.max() > bounds[1]):
        rule = f"have elements in [{bounds[0]}, {bounds[1]}] {WITHOUT_X64}"
        raise DmlError([Fault("", f"the input '{name}'", rule, array)])
    if array.dtype not in (np.int64, np.uint64):
        return array
    # JAX would cut the upper 32 bits and warn; indices and sizes would be wrong ones.
    narrow = array.astype(np.int32 if array.dtype == np.int64 else np.uint32)
    if not np.array_equal(narrow, array):
        rule = f"have elements that fit {narrow.dtype.name} {WITHOUT_X64}"
        raise DmlError([Fault("", f"the input '{name}'", rule, array)])
    return narrow
