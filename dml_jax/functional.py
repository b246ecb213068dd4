"""Operators as functions of arrays, under DirectMLX's names, with its argument order and defaults.

`dml_jax.facts` has the signature of every function. A function reads sizes and types from its
arrays, broadcasts them as NumPy does, makes the descriptor of the lowest version of the operator
that expresses the arguments, and keeps it, so that a later call of the same shapes costs a
dictionary look-up. On expressions of a `GraphBuilder` it adds a node. Types are never promoted; a
Python number in place of an array has the type of the other arrays. Each function raises `DmlError`
for arguments that its operator refuses.
"""

import ast
import builtins
import collections
import functools
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax import facts
from dml_jax.enums import TensorDataType
from dml_jax.errors import DmlError, Fault, items_of
from dml_jax.fields import Array
from dml_jax.graph import Expression, GraphBuilder
from dml_jax.operator import OPERATORS, Operator
from dml_jax.tensor import TensorDesc, is_array, shown_array

_KEPT_MAX = 4096
_kept: dict[Any, Operator] = {}


def _key(value: Any) -> Any:
    """Return what a descriptor is kept by: floats by their bits, and 1, 1.0 and True apart."""
    if isinstance(value, (float, np.floating)):
        return type(value), float(value).hex()
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return type(value), value


@functools.lru_cache(maxsize=_KEPT_MAX)
def _tensor_desc(dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> TensorDesc:
    return TensorDesc(TensorDataType.of_dtype(dtype), shape, strides)


def _axis(value: Any, rank: int) -> Any:
    """Return an axis that counts from the end as one that counts from the start."""
    is_negative = isinstance(value, (int, np.integer)) and -rank <= value < 0
    return int(value) + rank if is_negative else value


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, (np.ndarray, np.generic))


class Function:
    """A function of one family of versions, made from its entry in `dml_jax.facts`."""

    def __init__(self, name: str):
        entry = facts.functions()[name]
        self.__name__ = self.__qualname__ = name
        self.__module__ = __name__
        self.name = name
        self.operators: list[type[Operator]] = [
            OPERATORS[f"{facts.PREFIX}{op}"]
            for op in entry["operators"]
            if f"{facts.PREFIX}{op}" in OPERATORS
        ]
        self._fields: Mapping[str, str] = entry.get("fields", {})
        self._results: Sequence[str] = entry.get("results", ())
        needs_graph = any(
            all(f.optional for f in op.fields if f.tensor and not f.tensor.output)
            for op in self.operators
        )
        parameters = [self._parameter(text) for text in entry["arguments"]]
        if needs_graph:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter("graph", kind, default=None))
        self.__signature__ = inspect.Signature(parameters)
        self._named = (
            collections.namedtuple(f"{facts.class_name_of(name.upper())}Outputs", self._results)
            if self._results
            else None
        )
        self.__doc__ = self._documentation(entry["arguments"])

    @staticmethod
    def _parameter(text: str) -> inspect.Parameter:
        name, _, default = text.partition("=")
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        value = ast.literal_eval(default) if default else inspect.Parameter.empty
        return inspect.Parameter(name, kind, default=value)

    def _documentation(self, arguments: Sequence[str]) -> str:
        """Return the docstring: that of the newest operator, and what the arguments are."""
        newest = self.operators[-1]
        summary = inspect.cleandoc(newest.__doc__ or "").split("\n\n")[0]
        versions = " or ".join(op.c_name for op in self.operators)
        several = f"Returns a named tuple of {', '.join(self._results)}." if self._results else ""
        lines = [summary, f"{self.name}({', '.join(arguments)})", several, f"Makes {versions}."]
        return "\n\n".join(line for line in lines if line)

    def __repr__(self) -> str:
        return f"<function dml_jax.{self.name}>"

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Return the result of the operator that the arguments describe."""
        try:
            bound = self.__signature__.bind(*positional, **named)
        except TypeError as error:
            raise TypeError(f"dml_jax.{self.name}: {error}") from None
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        graph = arguments.pop("graph", None)
        if graph is not None and not isinstance(graph, GraphBuilder):
            raise DmlError([Fault(self._c_name, "graph", "be a GraphBuilder", graph)])
        return self._run(arguments, graph)

    @property
    def _c_name(self) -> str:
        return self.operators[-1].c_name

    def _run(self, arguments: Mapping[str, Any], graph: GraphBuilder | None) -> Any:
        refusals: list[DmlError] = []
        for operator in self.operators:
            try:
                fields = operator.call_of(self._fields_of(operator, arguments))
            except DmlError as error:  # this version does not express the arguments
                if operator is not self.operators[-1]:
                    continue
                refusals.append(error)
                continue
            try:
                return self._apply(operator, fields, arguments, graph)
            except DmlError as error:
                refusals.append(error)  # a newer version may take the arguments
        raise refusals[0]

    def _apply(
        self,
        operator: type[Operator],
        fields: Mapping[str, Any],
        arguments: Mapping[str, Any],
        graph: GraphBuilder | None,
    ) -> Any:
        inputs, values = _split_inputs(operator, fields)
        inputs = _with_numbers(operator, inputs)
        is_narrow = any(getattr(v, "dtype", None) == jnp.bfloat16 for v in inputs.values())
        if is_narrow:
            return self._in_float32(arguments, graph)
        targets = _broadcast(operator, inputs)
        descs = {
            name: _described(operator, name, value, targets.get(name))
            for name, value in inputs.items()
        }
        ranks = [t.dimension_count for t in _flat(descs) if t is not None]
        values = _normalised(operator, values, ranks[0] if ranks else 0)
        op = _described_operator(operator, {**descs, **values})
        arrays = [
            (value, targets.get(name)) for name, item in inputs.items() for value in _items(item)
        ]
        if any(isinstance(value, Expression) for value, _ in arrays) or graph is not None:
            results = _in_graph(op, arrays, graph)
        elif any(t is not None and np.shape(v) != t for v, t in arrays):
            results = _broadcast_call(op, tuple(t for _, t in arrays), *(v for v, _ in arrays))
        else:
            results = op(*(value for value, _ in arrays))
        return self._presented(op, results)

    def _fields_of(self, operator: type[Operator], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by field. Raises `DmlError` where the version has no such field."""
        names = {f.name for f in operator.fields}
        defaults = {p.name: p.default for p in self.__signature__.parameters.values()}
        fields: dict[str, Any] = {}
        for argument, value in arguments.items():
            field = self._fields.get(argument, argument)
            known = [n for n in (field, f"{field}_tensor", f"{field}_tensors") if n in names]
            if known:
                fields[known[0]] = value
            elif field in ("output_sizes", "output_data_type") or argument in operator.arguments:
                fields[argument if argument in operator.arguments else field] = value
            elif value is None or value == defaults[argument]:
                continue  # the version means what the default says
            else:
                rule = f"be left out (dml_jax.{self.name})"
                raise DmlError([Fault(operator.c_name, argument, rule, value)])
        return fields

    def _in_float32(self, arguments: Mapping[str, Any], graph: GraphBuilder | None) -> Any:
        """Compute bfloat16, which DirectML lacks, in float32, and round results once."""
        values = list(arguments.values())
        leaves, tree = jax.tree.flatten(values, is_leaf=lambda v: v is None)
        narrow = [k for k, v in enumerate(leaves) if getattr(v, "dtype", None) == jnp.bfloat16]

        @jax.jit
        def computed(*arrays: Any) -> Any:
            wide = list(leaves)
            for k, array in zip(narrow, arrays, strict=True):
                wide[k] = array.astype(jnp.float32)
            whole = dict(zip(arguments, jax.tree.unflatten(tree, wide), strict=True))
            results = self._run(whole, graph)
            chosen = {self._fields.get(n, n) for n, value in whole.items() if value is not None}
            keeps = "output_data_type" not in chosen
            return jax.tree.map(
                lambda r: r.astype(jnp.bfloat16) if keeps and r.dtype == jnp.float32 else r, results
            )

        return computed(*(leaves[k] for k in narrow))

    def _presented(self, op: Operator, results: Any) -> Any:
        """Return one result as it is, several as a named tuple with None for one left out."""
        if self._named is None:
            return results
        made = iter(results if isinstance(results, tuple) else (results,))
        outputs = op.outputs_of()
        values = [next(made) if getattr(op, f.name) is not None else None for f in outputs]
        return self._named(*values, *[None] * (len(self._results) - len(values)))


def _split_inputs(
    operator: type[Operator], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arrays by field, and the other fields."""
    inputs: dict[str, Any] = {}
    values = dict(fields)
    for f in operator.fields:
        if f.tensor and not f.tensor.output and f.name in values:
            value = values.pop(f.name)
            if value is None:
                continue
            if f.is_array:
                if is_array(value):  # or its slices would be taken
                    got = shown_array(value)
                    raise DmlError([Fault(operator.c_name, f.c_name, "be a list of arrays", got)])
                value = _listed(operator, f.c_name, value)
            inputs[f.name] = value
    return inputs, values


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _flat(descs: Mapping[str, Any]) -> list[TensorDesc]:
    return [desc for item in descs.values() for desc in _items(item)]


def _listed(operator: type[Operator], field: str, values: Any) -> tuple[Any, ...]:
    try:
        return items_of(values)
    except DmlError as error:
        raise DmlError(error.moved(operator.c_name, field)) from None


def _with_numbers(operator: type[Operator], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs, with Python numbers as arrays of the other arrays' type."""
    arrays = [v for item in inputs.values() for v in _items(item) if not _is_number(v)]
    typed = next((v for v in arrays if hasattr(v, "dtype") or isinstance(v, Expression)), None)
    if typed is None:
        return dict(inputs)
    graph = typed.graph if isinstance(typed, Expression) else None
    dtype = typed.desc.dtype if isinstance(typed, Expression) else typed.dtype

    def made(name: str, value: Any) -> Any:
        if not _is_number(value):
            return value
        held = np.asarray(value).astype(dtype)
        if not _holds(dtype, value, held):
            field = next(f.c_name for f in operator.fields if f.name == name)
            rule = f"fit the type {np.dtype(dtype).name} of the other arrays"
            raise DmlError([Fault(operator.c_name, field, rule, value)])
        held = held.reshape((1,))
        return held if graph is None else graph.constant(held)

    return {
        name: tuple(made(name, v) for v in item) if isinstance(item, tuple) else made(name, item)
        for name, item in inputs.items()
    }


def _holds(dtype: Any, value: Any, held: np.ndarray) -> bool:
    """Return whether a type holds a Python number: integers exactly, floats to rounding."""
    if isinstance(value, complex) and not isinstance(value, (int, float)):
        return False
    return jnp.issubdtype(dtype, jnp.floating) or held == value


def _shape(value: Any) -> tuple[int, ...] | None:
    if isinstance(value, Expression):
        return value.desc.sizes
    return tuple(value.shape) if hasattr(value, "shape") else None


def _broadcast(operator: type[Operator], inputs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the sizes to which each input that must agree with others in sizes is broadcast."""
    targets: dict[str, tuple[int, ...]] = {}
    for names in operator.inputs_of_equal_sizes():
        shapes = {name: _shape(inputs[name]) for name in names if name in inputs}
        known = [shape for shape in shapes.values() if shape]
        if len(known) < 2 or None in shapes.values() or len({*known}) == 1:
            continue
        try:
            whole = np.broadcast_shapes(*known)
        except ValueError:
            continue  # the descriptor says which sizes disagree
        targets |= dict.fromkeys(shapes, whole)
    return targets


def _described(operator: type[Operator], name: str, value: Any, target: Any) -> Any:
    """Return the description of an array, or of a list of them; broadcast ones by strides of 0."""
    c_name = next(f.c_name for f in operator.fields if f.name == name)
    if isinstance(value, tuple):
        paths = [f"{c_name}[{i}]" for i in range(len(value))]
        return tuple(
            _one_described(operator, p, v, None) for p, v in zip(paths, value, strict=True)
        )
    return _one_described(operator, c_name, value, target)


def _one_described(operator: type[Operator], path: str, value: Any, target: Any) -> TensorDesc:
    if isinstance(value, Expression):
        shape, dtype = value.desc.sizes, value.desc.dtype
    elif hasattr(value, "dtype") and hasattr(value, "shape"):
        shape, dtype = tuple(value.shape), value.dtype
    else:
        rule = "be an array (jax.numpy.asarray makes one) or an Expression"
        raise DmlError([Fault(operator.c_name, path, rule, shown_array(value))])
    try:
        if target is None or target == shape:
            if isinstance(value, Expression):
                return value.desc
            return _tensor_desc(dtype, shape, None)
        return _tensor_desc(dtype, target, _strides_of_broadcast(shape, target))
    except DmlError as error:
        raise DmlError(error.moved(operator.c_name, path)) from None


def _strides_of_broadcast(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the strides by which memory of `shape` is read as `target`."""
    strides, step = [0] * len(target), 1
    for d in range(1, len(shape) + 1):
        strides[-d] = 0 if shape[-d] == 1 and target[-d] != 1 else step
        step *= shape[-d]
    return tuple(strides)


def _normalised(operator: type[Operator], values: dict[str, Any], rank: int) -> dict[str, Any]:
    """Return attributes with an integer as a list of one, and axes that count from the start."""
    result = dict(values)
    for f in operator.fields:
        value = values.get(f.name)
        if value is None or f.tensor:
            continue
        if isinstance(f.kind, Array):
            if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
                value = [value]
            if f.name == "axes":
                value = [_axis(v, rank) for v in _listed(operator, f.c_name, value)]
            result[f.name] = tuple(_listed(operator, f.c_name, value))
        elif f.name == "axis":
            result[f.name] = _axis(value, rank)
    return result


def _described_operator(operator: type[Operator], fields: Mapping[str, Any]) -> Operator:
    """Return the operator of these fields, made once."""
    try:
        key = (operator, *((name, _key(value)) for name, value in fields.items()))
        op = _kept.get(key)
    except TypeError:  # something that has no hash is no field either: let it be refused
        return operator.infer_from(**fields)
    if op is None:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        op = _kept[key] = operator.infer_from(**fields)
    return op


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def _broadcast_call(op: Operator, targets: tuple[Any, ...], *arrays: Any) -> Any:
    pairs = zip(arrays, targets, strict=True)
    return op(*(a if t is None else jnp.broadcast_to(a, t) for a, t in pairs))


def _in_graph(op: Operator, arrays: Sequence[Any], graph: GraphBuilder | None) -> Any:
    """Add a node to the graph of the expressions among `arrays`, or to `graph`."""
    if not arrays and graph is not None:
        return graph.node(op)
    return op(*(value for value, _ in arrays))


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    return Function(name)


def _is_implemented(name: str) -> bool:
    operators = facts.functions()[name]["operators"]
    return any(f"{facts.PREFIX}{op}" in OPERATORS for op in operators)


def __getattr__(name: str) -> Any:
    if name == "FUNCTIONS":
        return [name for name in facts.functions() if _is_implemented(name)]
    if name == "__all__":  # without the names of Python's own functions
        return [n for n in __getattr__("FUNCTIONS") if not hasattr(builtins, n)]
    if name in facts.functions() and _is_implemented(name):
        return _function(name)
    if name in facts.functions():
        missing = facts.functions()[name]["operators"][0]
        raise AttributeError(f"dml_jax.{name}: DML_OPERATOR_{missing} is not implemented yet")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __getattr__("FUNCTIONS")
