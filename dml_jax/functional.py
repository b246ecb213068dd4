"""Operators as functions of arrays, under DirectMLX's names, with its argument order and defaults.

`dml_jax.facts` has the signature of every function. A function reads sizes and types from its
arrays, broadcasts them as NumPy does, and makes the descriptor of the lowest version of the
operator that expresses the arguments. It keeps the descriptor, and a later call of the same shapes
looks it up. On expressions of a `GraphBuilder` it adds a node. Types are never promoted; a Python
number in place of an array has the type of the other arrays. Each function raises `DmlError` for
arguments that its operator refuses, and `TypeError` for a call that does not fit its signature.

DirectML has no bfloat16. Functions of arrays take it as an extension: they compute in FLOAT32, and
round results that FLOAT16 arrays would give in FLOAT16 to bfloat16, once.
"""

import ast
import builtins
import collections
import contextlib
import enum
import functools
import inspect
import math
import operator as python
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax import facts, remedies
from dml_jax.arrays import is_deleted, is_plain, unusable
from dml_jax.descriptor import Descriptor
from dml_jax.enums import TensorDataType, is_bfloat16
from dml_jax.errors import DmlError, Fault, Unquoted, items_of
from dml_jax.fields import Array, Field
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.operator import OPERATORS, Fitted, FusedActivation, Operator
from dml_jax.tensor import TensorDesc, is_array, shown_array

_KEPT_MAX = 4096  # calls of one function
_NUMBERS = (bool, int, float, complex)
_VALUES = (enum.Enum, Descriptor, FusedActivation, TensorDesc, type, np.dtype)
_BFLOAT16 = np.dtype(jnp.bfloat16)
_BITS = "ELEMENT_WISE_BIT_"

Place = tuple[int | str, int | None]  # an argument, and which item of a list


def _tensor_key(value: Any) -> Any:
    """Return what the description of an array, or of a list of arrays, is kept by."""
    kind = type(value)
    if kind is Expression:
        return value.desc
    if value is None or kind in _NUMBERS:
        return kind
    if kind is list or kind is tuple:
        return tuple(map(_tensor_key, value))
    try:
        return value.dtype, value.shape
    except AttributeError:
        raise TypeError from None  # no array; a call says so


def _either_key(value: Any) -> Any:
    """Return the key of an argument that one version reads as an array, another as a number."""
    return _value_key(value) if type(value) in _NUMBERS else _tensor_key(value)


def _value_key(value: Any) -> Any:
    """Return what an attribute is kept by: floats by their bits, and 1, 1.0 and True apart."""
    kind = type(value)
    if kind is int or kind is bool or kind is str or value is None:
        return kind, value
    if isinstance(value, (float, np.floating)):
        return kind, float(value).hex()
    if isinstance(value, (list, tuple, range)):
        return tuple(map(_value_key, value))
    if isinstance(value, (*_VALUES, np.generic)):
        return kind, value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.dtype, value.shape, value.tobytes()
    raise TypeError  # an iterator, or something else that a key cannot stand for


class _Call:
    """A call of a certain shape: the operator, and where its arrays are among the arguments.

    Args:
        op: the operator.
        places: the argument of each array, in the order of the operator's inputs.
        types: the type in which a Python number is taken there, None for arrays.
        targets: the sizes to which each array is broadcast, None where it has them; then it takes
            the sizes of the operator's input.
        result: the sizes of each result, None where they are those of the operator's outputs.
        rounded: which outputs are rounded to bfloat16; None where no bfloat16 takes part.
        returned: makes what the function returns of the results; None where they are that already.
    """

    def __init__(
        self,
        op: Operator,
        places: Sequence[Place],
        types: Sequence[np.dtype | None],
        targets: Sequence[tuple[int, ...] | None],
        result: tuple[int, ...] | None,
        rounded: tuple[bool, ...] | None,
        returned: Callable[[Any], Any] | None,
        is_fitted: bool,
    ):
        self.op, self.places, self.types, self.result = op, places, types, result
        self.targets, self.rounded, self.returned = tuple(targets), rounded, returned
        whole = [(number, None) for number in range(len(places))]
        self.in_order = [*places] == whole and set(types) <= {None}
        self.is_direct = rounded is None and set(targets) <= {None} and not is_fitted

    def __call__(
        self, positional: Sequence[Any], named: Mapping[str, Any], graph: GraphBuilder | None = None
    ) -> Any:
        op = self.op
        if self.in_order:
            arrays = positional[: len(self.places)]
        else:
            arrays = [*self._arrays(positional, named, graph)]
        if not arrays and graph is not None:
            results = graph.node(op)
        elif self.is_direct:
            results = op(*arrays)
        elif any(isinstance(array, Expression) for array in arrays):
            results = op(*map(_reinterpreted, arrays, op.inputs))
            if self.result is not None and op.returns_tuple:
                results = tuple(r.reinterpret(self.result) for r in results)
            elif self.result is not None:
                results = results.reinterpret(self.result)
        else:
            results = self._spread(arrays)
        return results if self.returned is None else self.returned(results)

    def _arrays(
        self, positional: Sequence[Any], named: Mapping[str, Any], graph: GraphBuilder | None
    ) -> Iterator[Any]:
        values = []
        for place, item in self.places:
            value = positional[place] if isinstance(place, int) else named[place]
            values.append(value if item is None else value[item])
        builder = next((v.builder for v in values if isinstance(v, Expression)), graph)
        paths = [path for path, _, _ in self.op.tensors(output=False)]
        ranks = [
            tensor.dimension_count if target is None else len(target)
            for tensor, target in zip(self.op.inputs, self.targets, strict=True)
        ]
        for value, dtype, path, rank in zip(values, self.types, paths, ranks, strict=True):
            if dtype is None:
                yield value
            else:
                held = _held(self.op.c_name, path, value, dtype).reshape((1,) * rank)
                yield held if builder is None else builder.constant(held)

    def _spread(self, arrays: Sequence[Any]) -> Any:
        paths = [path for path, _, _ in self.op.tensors(output=False)]
        if not all(is_plain(array) and not is_deleted(array) for array in arrays):
            found = map(unusable, [self.op.c_name] * len(paths), paths, arrays)
            raise DmlError(fault for fault in found if fault)
        return _spread_call(self.op, self.targets, self.rounded, self.result, *arrays)


def _reinterpreted(value: Any, tensor: TensorDesc) -> Any:
    """Return an expression as an operator's tensor describes it, which may broadcast it."""
    if not isinstance(value, Expression) or value.desc == tensor:
        return value
    return value.reinterpret(tensor.sizes, tensor.strides)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3), inline=True)
def _spread_call(op: Operator, targets: Any, rounded: Any, sizes: Any, *arrays: Any) -> Any:
    """Compute an operator of arrays that are broadcast, and in FLOAT32 where they are bfloat16.

    The arrays take the ranks of the operator's inputs, and the results take `sizes`, if any.
    """
    inputs = []
    for array, target, tensor in zip(arrays, targets, op.inputs, strict=True):
        if rounded is not None and array.dtype == _BFLOAT16:
            array = array.astype(tensor.dtype)
        array = array if target is None else jnp.broadcast_to(array, target)
        inputs.append(array if array.shape == tensor.sizes else array.reshape(tensor.sizes))
    results = op(*inputs)
    if sizes is None and not any(rounded or ()):
        return results
    made = results if op.returns_tuple else (results,)
    made = tuple(
        r.astype(_BFLOAT16) if narrow else r
        for r, narrow in zip(made, rounded or (False,) * len(made), strict=True)
    )
    made = made if sizes is None else tuple(r.reshape(sizes) for r in made)
    return made if op.returns_tuple else made[0]


def _held(operator: str, path: str, value: Any, dtype: np.dtype) -> np.ndarray:
    """Return a Python number as an array. Raises `DmlError` where the type cannot hold it."""
    try:
        with np.errstate(all="ignore"):
            held = np.asarray(value if isinstance(value, int) else float(value)).astype(dtype)
    except (OverflowError, TypeError):
        pass
    else:
        is_rounded = isinstance(value, float) and jnp.issubdtype(dtype, jnp.floating)
        is_finite = bool(np.isfinite(held)) or not math.isfinite(value)
        if is_finite if is_rounded else held.item() == value:
            return held
    rule = f"be a number that the type {np.dtype(dtype).name} holds"
    raise DmlError([Fault(operator, path, rule, value)])


class _Family:
    """What a function knows of its operator's versions, from its entry in `dml_jax.facts`."""

    def __init__(self, name: str):
        entry = facts.functions()[name]
        self.name = name
        self.operators: list[type[Operator]] = [
            OPERATORS[f"{facts.PREFIX}{op}"] for op in entry["operators"]
        ]
        self.fields: Mapping[str, str] = entry.get("fields", {})
        self.results: Sequence[str] = entry.get("results", ())
        parameters = [_parameter(text) for text in entry["arguments"]]
        if any(_is_generator(op) for op in self.operators):
            parameters.append(_parameter("graph=None"))
        self.signature = inspect.Signature(parameters)
        self.defaults = {p.name: p.default for p in parameters}
        self.tensors = {p.name for p in parameters if any(self._reads(p.name))}
        self.outputs = (
            collections.namedtuple(
                f"{facts.class_name_of(name.upper())}Outputs", self.results, module=__name__
            )
            if self.results
            else None
        )

    def _reads(self, argument: str) -> Iterator[Field]:
        """Yield the tensor fields, of each version, that an argument gives."""
        for operator in self.operators:
            f = self.field_of(operator, argument)
            if f is not None and f.tensor and not f.tensor.output:
                yield f

    def key_of(self, argument: str) -> Callable[[Any], Any]:
        """Return what makes the key by which a call is kept, of the value of an argument."""
        if argument not in self.tensors:
            return _value_key
        fields = [f for op in self.operators if (f := self.field_of(op, argument)) is not None]
        return _tensor_key if all(f.tensor for f in fields) else _either_key

    def field_of(self, operator: type[Operator], argument: str) -> Field | None:
        """Return the field of a version that an argument gives."""
        name = self.fields.get(argument, argument)
        known = {f.name: f for f in operator.fields}
        names = (name, f"{name}_tensor", f"{name}_tensors")
        return next((known[n] for n in names if n in known), None)

    @property
    def documentation(self) -> str:
        """The docstring: the first version's summary, the versions, and what is returned."""
        first = self.operators[0]
        summary = inspect.cleandoc(first.__doc__ or "").split("\n\n")[0]
        versions = " or ".join(op.c_name for op in self.operators)
        several = f"Returns a named tuple of {', '.join(self.results)}." if self.results else ""
        return "\n\n".join(line for line in (summary, several, f"Makes {versions}.") if line)

    def bound(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name. Raises `TypeError` where they do not fit the signature."""
        try:
            return self.signature.bind(*positional, **named).arguments
        except TypeError as error:
            text = str(error)
            if "missing" in text:
                text += remedies.along_axes(self.name)
            for name in named:
                if name not in self.defaults:
                    hint = remedies.of_argument(self.name, name, self.defaults)
                    text = f"got an unexpected argument {name!r}{hint}"
            raise TypeError(f"dml_jax.{self.name}: {text}") from None

    def call(self, given: Mapping[str, Any], places: Mapping[str, int | str]) -> _Call:
        """Return the call that arguments describe, of the lowest version that expresses them.

        Args:
            given: the arguments.
            places: where a call of this shape has them: their position, or their name.
        """
        refusals: list[DmlError] = []
        for is_default_type in (False, True):
            if is_default_type and not self._chooses_type(given):
                break
            for operator in self.operators:
                arguments = {**self.defaults, **given}
                if is_default_type:  # the type follows from the tensors
                    arguments["output_data_type"] = None
                arguments.pop("graph", None)
                try:
                    fields, origins = self._fields_of(operator, arguments)
                    return self._described(operator, fields, origins, places)
                except DmlError as error:
                    refusals.append(error)
        is_refused = [r for r in refusals if not isinstance(r, _LacksError)]
        best = min(is_refused or refusals[:1], key=lambda error: len(error.faults))
        raise DmlError(best.faults) from None

    def _chooses_type(self, given: Mapping[str, Any]) -> bool:
        return "output_data_type" in self.defaults and "output_data_type" not in given

    def _fields_of(
        self, operator: type[Operator], arguments: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the arguments by field, and the argument of each field.

        Raises `_LacksError` where the version of the operator has no field for an argument.
        """
        fields: dict[str, Any] = {}
        origins: dict[str, str] = {}
        optional = {f.name for f in operator.outputs_of() if f.optional}
        left_out: set[str] = set()
        for argument, value in arguments.items():
            f = self.field_of(operator, argument)
            name = self.fields.get(argument, argument)
            if argument in operator.arguments:
                fields[argument], origins[argument] = value, argument
            elif f is not None and f.tensor and f.tensor.output:
                left_out |= set() if value else {f.name}
            elif f is not None and not (
                f.tensor is None and _is_tensor(value, self.tensors, argument)
            ):
                fields[f.name], origins[f.name] = value, argument
            elif name in ("output_sizes", "output_data_type"):
                fields[name] = value
            elif value is not None and not self._is_default(argument, value):
                rule = f"be left out (dml_jax.{self.name})"
                raise _LacksError([Fault(operator.c_name, argument, rule, value)])
        try:
            fields = operator.call_of(fields)
        except DmlError as error:
            raise _LacksError(error.faults) from None
        if left_out:
            fields["outputs"] = optional - left_out
        return fields, origins

    def _is_default(self, argument: str, value: Any) -> bool:
        """Return whether a value is the default of an argument, in whatever spelling."""
        default = self.defaults[argument]
        if default is inspect.Parameter.empty or isinstance(value, Expression) or is_array(value):
            return False
        for f in filter(None, (self.field_of(op, argument) for op in self.operators)):
            if f.tensor is not None:
                continue  # whether an output is made
            try:
                return f.kind.convert(value) == f.kind.convert(default)
            except DmlError:
                return False
        return value == default

    def _described(
        self,
        operator: type[Operator],
        fields: Mapping[str, Any],
        origins: Mapping[str, str],
        places: Mapping[str, int | str],
    ) -> _Call:
        inputs, values = _split_inputs(operator, fields)
        remedies.check_constant(
            operator.c_name, {f.name: f.c_name for f in operator.fields}, values
        )
        types = _number_types(operator, inputs, values)
        is_narrow = _BFLOAT16 in map(_dtype, _flat(inputs)) or _BFLOAT16 in types.values()
        is_narrow = is_narrow or any(map(is_bfloat16, values.values()))
        if is_narrow and operator.short_name.startswith(_BITS):
            rule = "be no bfloat16, which is computed as FLOAT32: its bits are others"
            raise DmlError([Fault(operator.c_name, "the type", rule, Unquoted("bfloat16"))])
        targets = _broadcast(operator, inputs, values)
        fitted = _fitted(operator, inputs, values, targets)
        values = {**values, **fitted.attributes}
        make = functools.partial(_made, operator, inputs, values, types, targets, fitted.sizes)
        rounded = None
        if is_narrow:
            op, rounded = _in_float32(make, inputs, values)
        else:
            op = make(_BFLOAT16)
        remedies.check_64_bits(op, _flat(inputs))
        at: list[Place] = []
        sizes: list[Any] = []
        taken: list[Any] = []
        for name, value in inputs.items():
            place = places.get(origins.get(name, name), origins.get(name, name))
            if isinstance(value, tuple):
                at += [(place, item) for item in range(len(value))]
            else:
                at.append((place, None))
            for array in _items(value):
                wanted = targets.get(name)
                sizes.append(None if wanted == _shape(array) else wanted)
                taken.append(types[name] if isinstance(array, _NUMBERS) else None)
        returned, is_fitted = self._returned(op), fitted.sizes != {}
        return _Call(op, at, taken, sizes, fitted.result, rounded, returned, is_fitted)

    def _returned(self, op: Operator) -> Callable[[Any], Any] | None:
        """Return what makes a named tuple of the results, with None for one that is left out."""
        if self.outputs is None:
            return None
        named, is_tuple = self.outputs, op.returns_tuple
        is_made = [getattr(op, f.name) is not None for f in op.outputs_of()]
        is_made += [False] * (len(self.results) - len(is_made))

        def returned(results: Any) -> Any:
            made = iter(results if is_tuple else (results,))
            return named(*(next(made) if there else None for there in is_made))

        return returned


class _LacksError(DmlError):
    """Raised where a version of an operator has no field for an argument."""


def _parameter(text: str) -> inspect.Parameter:
    name, _, default = text.partition("=")
    value = ast.literal_eval(default) if default else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)


def _is_generator(operator: type[Operator]) -> bool:
    """Return whether an operator may have no input: none has to be given, by no record either."""
    demanded = any("given(" in record.data.get("holds", "") for record in operator._records())
    inputs = [f for f in operator.fields if f.tensor and not f.tensor.output]
    return not demanded and all(f.optional for f in inputs)


def _is_tensor(value: Any, tensors: Iterable[str], argument: str) -> bool:
    """Return whether an argument that some version takes as an array is one."""
    return argument in tensors and (isinstance(value, Expression) or is_array(value))


def _split_inputs(
    operator: type[Operator], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays by field, in the operator's order, and the other fields."""
    inputs: dict[str, Any] = {}
    values = dict(fields)
    for f in operator.fields:
        if f.tensor is None or f.tensor.output or f.name not in values:
            continue
        value = values.pop(f.name)
        if value is None and f.optional:
            continue
        if f.is_array:
            if is_array(value):  # or its slices would be taken
                got = shown_array(value)
                raise DmlError([Fault(operator.c_name, f.c_name, "be a list of arrays", got)])
            value = _listed(operator, f.c_name, value)
        for path, array in _paths(f, value):
            is_number = isinstance(array, _NUMBERS) and not f.is_array
            if not (is_number or is_array(array) or isinstance(array, Expression)):
                rule = "be an array (jax.numpy.asarray makes one) or an Expression"
                raise DmlError([Fault(operator.c_name, path, rule, shown_array(array))])
        inputs[f.name] = value
    return inputs, values


def _paths(f: Field, value: Any) -> list[tuple[str, Any]]:
    """Return (path, array) of each array of a field."""
    if isinstance(value, tuple):
        return [(f"{f.c_name}[{index}]", array) for index, array in enumerate(value)]
    return [(f.c_name, value)]


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _flat(inputs: Mapping[str, Any]) -> list[Any]:
    return [array for value in inputs.values() for array in _items(value)]


def _listed(operator: type[Operator], field: str, values: Any) -> tuple[Any, ...]:
    try:
        return items_of(values)
    except DmlError as error:
        raise DmlError(error.moved(operator.c_name, field)) from None


def _dtype(array: Any) -> Any:
    """Return the type of an array or expression, None for a number."""
    return getattr(array, "dtype", None)


def _shape(array: Any) -> tuple[int, ...] | None:
    """Return the sizes of an array or expression, None for a number."""
    return getattr(array, "shape", None)


def _number_types(
    operator: type[Operator], inputs: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, np.dtype]:
    """Return the type in which each input that is a Python number is taken.

    It is the type of the arrays whose type it must have, or else that of the first array.
    """
    numbers = [name for name, value in inputs.items() if isinstance(value, _NUMBERS)]
    if not numbers:
        return {}
    known = {name: _dtype(_items(v)[0]) for name, v in inputs.items() if _items(v)}
    chosen = values.get("output_data_type")
    for f in operator.outputs_of():
        if chosen is not None and not isinstance(chosen, Mapping):
            known[f.name] = _BFLOAT16 if is_bfloat16(chosen) else TensorDataType.of(chosen).dtype
    types: dict[str, np.dtype] = {}
    for name in numbers:
        alike = operator.fields_of_type(name)
        only = operator.only_type_of(name)
        found = [known[n] for n in (*alike, *inputs) if known.get(n) is not None]
        found = found if only is None else [only.dtype]
        if not found:
            f = next(f for f in operator.fields if f.name == name)
            rule = "be an array, or another argument (numbers have no type of their own)"
            raise DmlError([Fault(operator.c_name, f.c_name, rule, inputs[name])])
        types[name] = np.dtype(found[0])
    return types


def _broadcast(
    operator: type[Operator], inputs: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Return the sizes to which each input that must agree with others in sizes is broadcast."""
    targets: dict[str, tuple[int, ...]] = {}
    known = {name: _shape(array) for name, array in inputs.items()}
    for name, sizes in operator.broadcast_sizes(known, values).items():
        with contextlib.suppress(ValueError):  # the descriptor says which sizes disagree
            if np.broadcast_shapes(known[name] or (), sizes) == sizes:
                targets[name] = sizes
    for names in operator.inputs_of_equal_sizes():
        shapes = {n: _shape(inputs[n]) or () for n in names if n in inputs}
        if len({*shapes.values()}) < 2 and not any(isinstance(inputs[n], _NUMBERS) for n in shapes):
            continue
        try:
            targets |= dict.fromkeys(shapes, np.broadcast_shapes(*shapes.values()))
        except ValueError:
            continue  # the descriptor says which sizes disagree
    return targets


def _fitted(
    operator: type[Operator],
    inputs: Mapping[str, Any],
    values: Mapping[str, Any],
    targets: Mapping[str, tuple[int, ...]],
) -> Fitted:
    """Return how single arrays of other ranks than the operator's are fitted to these."""
    sizes = {n: targets.get(n, _shape(v)) for n, v in inputs.items() if not isinstance(v, tuple)}
    plain = {n: python.index(v) if _is_integer(v) else v for n, v in values.items()}
    return operator.fitted(sizes, plain)


def _made(
    operator: type[Operator],
    inputs: Mapping[str, Any],
    values: Mapping[str, Any],
    types: Mapping[str, np.dtype],
    targets: Mapping[str, tuple[int, ...]],
    fitted: Mapping[str, tuple[int, ...]],
    narrow: np.dtype,
) -> Operator:
    """Return the operator of arrays and attributes, with the type `narrow` for bfloat16."""
    rank = next((len(_shape(a) or ()) for a in _flat(inputs) if _shape(a) is not None), 0)
    paths = [
        path for f in operator.fields if f.name in inputs for path, _ in _paths(f, inputs[f.name])
    ]
    lists = operator.spatial_lists()
    try:
        return _inferred(operator, inputs, values, types, targets, fitted, narrow, rank)
    except DmlError as error:
        spatial = {f.c_name: values.get(f.name) for f in operator.fields if f.name in lists}
        faults = remedies.of_lists(operator.c_name, error.faults, spatial, rank - 2)
        raise DmlError(remedies.cured(faults, paths, rank)) from None


def _inferred(
    operator: type[Operator],
    inputs: Mapping[str, Any],
    values: Mapping[str, Any],
    types: Mapping[str, np.dtype],
    targets: Mapping[str, tuple[int, ...]],
    fitted: Mapping[str, tuple[int, ...]],
    narrow: np.dtype,
    rank: int,
) -> Operator:
    fields: dict[str, Any] = {}
    for f in operator.fields:
        if f.name not in inputs:
            continue
        descs = []
        for path, array in _paths(f, inputs[f.name]):
            dtype = types[f.name] if isinstance(array, _NUMBERS) else array.dtype
            dtype = narrow if dtype == _BFLOAT16 else dtype
            ones = (1,) * len(targets.get(f.name, (1,) * rank))
            shape = ones if isinstance(array, _NUMBERS) else array.shape
            try:
                target, sizes = targets.get(f.name), fitted.get(f.name)
                descs.append(_tensor_desc(array, dtype, shape, target, sizes))
            except DmlError as error:
                raise DmlError(error.moved(operator.c_name, path)) from None
        fields[f.name] = tuple(descs) if f.is_array else descs[0]
    for name, value in _normalised(operator, values, rank).items():
        fields[name] = np.dtype(narrow).name.upper() if is_bfloat16(value) else value
    return operator.infer_from(**fields)


def _tensor_desc(
    array: Any,
    dtype: Any,
    shape: tuple[int, ...],
    target: tuple[int, ...] | None,
    fitted: tuple[int, ...] | None,
) -> TensorDesc:
    """Return the description of an array that is broadcast to `target`, in the sizes `fitted`."""
    if fitted is not None and isinstance(array, Expression):
        return _with_sizes(_tensor_desc(array, dtype, shape, target, None), fitted)
    if fitted is not None and isinstance(array, _NUMBERS):
        return _tensor_desc(array, dtype, (1,) * len(fitted), fitted, None)
    if fitted is not None:
        return TensorDesc(TensorDataType.of_dtype(dtype), fitted)
    desc = array.desc if isinstance(array, Expression) else None
    if target is None or target == shape:
        return desc or TensorDesc(TensorDataType.of_dtype(dtype), shape)
    steps = desc.strides if desc and desc.strides else None
    strides = _strides_of_broadcast(shape, target, steps)
    if desc is None:
        return TensorDesc(TensorDataType.of_dtype(dtype), target, strides)
    total = desc.total_tensor_size_in_bytes
    return desc.replace(sizes=target, strides=strides, total_tensor_size_in_bytes=total)


def _with_sizes(desc: TensorDesc, sizes: tuple[int, ...]) -> TensorDesc:
    """Return the description of the same elements in other sizes."""
    more = len(sizes) - desc.dimension_count
    if more == 0 or desc.strides is None:
        return desc if desc.sizes == sizes else desc.replace(sizes=sizes)
    if sizes != (1,) * more + desc.sizes:
        return desc  # no strides read these elements in such sizes; the rank is refused
    return desc.replace(sizes=sizes, strides=(0,) * more + desc.strides)


def _strides_of_broadcast(
    shape: Sequence[int], target: Sequence[int], steps: Sequence[int] | None
) -> tuple[int, ...]:
    """Return the strides by which memory of `shape` is read as `target`; `steps` are its own."""
    strides, packed = [0] * len(target), 1
    for d in range(1, len(shape) + 1):
        step = packed if steps is None else steps[-d]
        strides[-d] = 0 if shape[-d] == 1 and target[-d] != 1 else step
        packed *= shape[-d]
    return tuple(strides)


def _in_float32(
    make: Callable[[np.dtype], Operator], inputs: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[Operator, tuple[bool, ...]]:
    """Return the operator that computes bfloat16 in FLOAT32, and which of its results are rounded.

    FLOAT16 in place of bfloat16 says which: the results that it turns into FLOAT16.
    """
    note = " (bfloat16, which DirectML lacks, is computed as FLOAT32)"
    try:
        op = make(np.dtype(np.float32))
    except DmlError as error:
        raise DmlError(replace(f, rule=f.rule + note) for f in error.faults) from None
    try:
        half = make(np.dtype(np.float16))
    except DmlError as error:
        if np.dtype(np.float32) in map(_dtype, _flat(inputs)):
            rule = "be of one type with the others (bfloat16 and FLOAT32 are not promoted)"
            got = Unquoted("bfloat16") if error.value == "FLOAT16" else error.value
            raise DmlError([Fault(op.c_name, error.field, rule, got)]) from None
        is_asked = values.get("output_data_type") is not None
        return op, tuple(t.data_type.name == "FLOAT32" and not is_asked for t in op.outputs)
    pairs = zip(op.outputs, half.outputs, strict=True)
    return op, tuple(
        (a.data_type.name, b.data_type.name) == ("FLOAT32", "FLOAT16") for a, b in pairs
    )


def _normalised(operator: type[Operator], values: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """Return attributes with lists for integers, and axes that count from the start.

    An integer stands for each spatial dimension, in a list of these, and else for a list of one.
    """
    result, spatial = dict(values), operator.spatial_lists()
    if "output_sizes" in values and not isinstance(values["output_sizes"], Mapping):
        sizes, first = values["output_sizes"], operator.outputs_of()[0]
        is_listed = sizes is None or not _is_integer(sizes)
        path = f"{first.c_name}.Sizes"
        listed = _listed(operator, path, sizes) if sizes is not None and is_listed else (sizes,)
        result["output_sizes"] = None if sizes is None else listed
    for f in operator.fields:
        value = values.get(f.name)
        if value is None or f.tensor:
            continue
        if isinstance(f.kind, Array):
            count = max(rank - 2, 1) if f.name in spatial else 1
            items = [value] * count if _is_integer(value) else _listed(operator, f.c_name, value)
            result[f.name] = tuple(_axis(v, rank) for v in items) if f.name == "axes" else items
        elif f.name == "axis":
            result[f.name] = _axis(value, rank)
    return result


def _is_integer(value: Any) -> bool:
    try:
        python.index(value)
    except TypeError:
        return False
    return not isinstance(value, (bool, np.bool_))


def _axis(value: Any, rank: int) -> Any:
    """Return an axis that counts from the end as one that counts from the start."""
    is_negative = _is_integer(value) and -rank <= python.index(value) < 0
    return python.index(value) + rank if is_negative else value


def _as_listed(value: Any) -> Any:
    """Return a tuple for an iterator, which can be read once only."""
    return tuple(value) if isinstance(value, Iterator) else value


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    """Return the function of a name."""
    family = _Family(name)
    kept: dict[Any, _Call] = {}
    key_of = {p: family.key_of(p) for p in family.defaults}
    keys = [key_of[p] for p in family.defaults]
    has_graph = "graph" in family.defaults

    def call(*positional: Any, **named: Any) -> Any:
        graph = None
        if has_graph:
            positional, named = (), family.bound(positional, named)
            graph = named.pop("graph", None)
            if not isinstance(graph, (GraphBuilder, type(None))):
                c_name = family.operators[0].c_name
                raise DmlError([Fault(c_name, "graph", "be a GraphBuilder", graph)])
        try:
            key: Any = [make(value) for make, value in zip(keys, positional)]  # noqa: B905
            if named:
                key += [(n, key_of[n](value)) for n, value in named.items()]
            key = len(positional), *key
            found = kept.get(key)
        except (TypeError, KeyError):
            key = found = None
        if found is None:
            given = family.bound(positional, named)
            if key is None:
                given = {n: _as_listed(value) for n, value in given.items()}
                return family.call(given, {})((), given, graph)
            places = dict(zip(family.defaults, range(len(positional)), strict=False))
            found = family.call(given, places)
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            kept[key] = found
        return found(positional, named, graph)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = family.documentation
    call.__signature__ = family.signature  # pyright: ignore[reportFunctionMemberAccess]
    call.family = family  # pyright: ignore[reportFunctionMemberAccess]
    return call


def __getattr__(name: str) -> Any:
    if name == "FUNCTIONS":
        return list(facts.functions())
    if name == "__all__":  # without the names of Python's own functions
        return [n for n in __getattr__("FUNCTIONS") if not hasattr(builtins, n)]
    if name in facts.functions():
        return _function(name)
    if name.endswith("Outputs"):  # `pickle` asks for the class of a named tuple
        for function in __getattr__("FUNCTIONS"):
            outputs = facts.class_name_of(function.upper()) + "Outputs"
            if outputs == name and facts.functions()[function].get("results"):
                return _function(function).family.outputs  # pyright: ignore[reportFunctionMemberAccess]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __getattr__("FUNCTIONS")
