"""The base of all operators, which are called with arrays and read from JSON."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, overload

import jax
from jax import lax
from jax.typing import ArrayLike

from dml_jax import facts
from dml_jax.description.arrays import are_described, array_of
from dml_jax.description.fields import Fused
from dml_jax.description.tensor import Placeholder, TensorDesc, shown_array
from dml_jax.errors import NOTHING, DmlError, Fault
from dml_jax.operator.inference import Inferred
from dml_jax.operator.registry import Registry
from dml_jax.operator.samples import smallest, typical_sizes

if TYPE_CHECKING:
    from dml_jax.operator.fused import FusedActivation

Result = TypeVar("Result", covariant=True)


class _Lowering(Protocol[Result]):
    """Gives a call the type of `lower`: type checkers tell one output from several."""

    def lower(self, *arrays: Any, **_: Any) -> Result: ...
    def _check_arrays(self, arrays: Sequence[Any]) -> None: ...


class Operator(Inferred):
    """A DirectML operator: a checked description, and a function of JAX arrays.

    `op(x, ...)` takes one array for each input tensor that is given, in the order of the fields, of
    exactly the described sizes and type, and returns the output (a tuple of several). It is a pure
    function: it works eagerly and under jit, grad, vmap and shard_map, and is itself a static
    argument of jit. Strides do not matter to it: they are a property of memory (`TensorDesc.read`
    and `write`).

    To declare an operator of the catalogue, name it (`op="REDUCE"`) and give `lower`: its fields,
    support rows and constraints come from `dml_jax.facts`. An operator of your own annotates its
    fields and gives `support`, and `constraints` in the form of `dml_jax.constraints`. Where they
    are needed, override or add

    - methods marked with `rule`: conditions that no constraint record can say;
    - `expected_sizes`: sizes that follow from the other fields by a rule that no record has;
    - `default_data_types`: types of outputs that the caller of `infer` may choose;
    - `lower`: the function of arrays. It is called with one array for each input field, None for an
      input that is left out, and returns one array for each output field (an output that is left
      out is dropped).

    The docstring says, a paragraph each, a summary, the formula, "Choices:" where the documentation
    is silent, "Gradient:" and "Fields:". `dml_jax.operator.documentation` reads them, also those of
    the bases.
    """

    def __init_subclass__(cls, op: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(op=op, **kwargs)
        if op is not None:
            jax.tree_util.register_static(cls)
            OPERATORS.put(cls)

    @classmethod
    def fused(cls, **attributes: Any) -> "FusedActivation":
        """Return this activation without tensors, for the field FusedActivation of another one."""
        return Fused.activation(cls, **attributes)

    @classmethod
    def typical(cls, elements: int, data_type: str) -> "list[Operator]":
        """Describe typical uses of the operator: one a variant, the most telling first.

        An operator overrides this where its tensors have different sizes, and `typical_attributes`
        where the smallest attributes are not typical.

        Args:
            elements: about how many elements the largest tensor has.
            data_type: the type of that tensor.

        Returns:
            The descriptors; an empty list if the operator does not take the type.
        """
        return cls._uses(TensorDesc(data_type, typical_sizes(elements)))

    @classmethod
    def _uses(cls, tensor: TensorDesc, **fields: Any) -> "list[Operator]":
        """Return the uses with `typical_attributes`, with `fields`, and with inputs like `tensor`.

        The scale of another tensor is one FLOAT32. Without inputs, `tensor` is the output.
        """
        needed = [f for f in cls.fields if f.default is MISSING and f not in cls.outputs_of()]
        like = {f.name: smallest(f.kind, tensor) for f in needed}
        scale = TensorDesc("FLOAT32", [1] * tensor.dimension_count)
        like |= {name: scale for name in like if name.endswith("_scale_tensor")}
        if not any(f.tensor for f in needed):
            like |= {"output_sizes": tensor.sizes, "output_data_type": tensor.data_type}
        return cls._accepted({**like, **fields, **given} for given in cls.typical_attributes)

    @classmethod
    def _accepted(cls, variants: Iterable[Mapping[str, Any]]) -> "list[Operator]":
        """Infer a descriptor from the fields of each variant; leave out refused ones."""
        accepted: list[Operator] = []
        for fields in variants:
            with suppress(DmlError):
                accepted.append(cls.infer(**fields))
        return accepted

    @overload
    def __call__(self: _Lowering[Result], *arrays: ArrayLike) -> Result: ...
    @overload
    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any: ...

    def __call__(self, *arrays: ArrayLike | Placeholder) -> Any:
        """Return the output, or a tuple of several, given one array for each input tensor.

        Given expressions of a `GraphBuilder`, it becomes a node of the graph, and returns
        expressions. Raises `DmlError` where shapes or types are not those of the tensors.
        """
        for array in arrays:
            if isinstance(array, Placeholder):
                return array.takes(self, arrays)
        return super().__call__(*arrays)

    def compute(self, *arrays: Any) -> Sequence[jax.Array]:
        """Return all results, in their order, of arrays that are not checked; without `jax.jit`."""
        results = self.evaluate(*arrays)
        if not are_described(self.outputs, results):
            made = ", ".join(map(shown_array, results))
            needed = ", ".join(map(array_of, self.outputs))
            raise TypeError(f"{type(self).__name__}.lower makes {made} of {self}, not {needed}")
        return results

    def evaluate(self, *arrays: Any, **layout: str) -> Sequence[jax.Array]:
        """Return all results; if it maps elements, of arrays of any one shape.

        `layout` is for operators whose `lower` takes arrays in another layout.
        """
        with jax.named_scope(self.c_name):
            strong = (lax.convert_element_type(a, a.dtype) for a in arrays)  # drops weak types
            return self._results(self.lower(*self._placed(strong), **layout))

    def _results(self, made: Any) -> list[jax.Array]:
        """Return the results of the outputs that are described, of all that `lower` makes."""
        results = list(made) if isinstance(made, (tuple, list)) else [made]
        outputs = self.outputs_of()
        if len(results) == len(outputs) and not any(f.is_array for f in outputs):
            pairs = zip(outputs, results, strict=True)
            return [r for f, r in pairs if getattr(self, f.name) is not None]
        return [result for result in results if result is not None]

    def _placed(self, arrays: Iterator[Any]) -> Iterator[Any]:
        """Yield the arrays, and None for each input that is left out."""
        for f in self.fields:
            if f.tensor and not f.tensor.output:
                value = getattr(self, f.name)
                if value is None:
                    yield None
                else:
                    yield from itertools.islice(arrays, len(value) if f.is_array else 1)

    def to_json(self) -> dict[str, Any]:
        """Return {"Type", "Desc"} as DxDispatch's JSON has them, count fields included.

        Raises `DmlError` for a node beyond DirectML, which has no JSON.
        """
        if self.beyond_directml:
            raise DmlError(self.beyond_directml)
        return {"Type": self.c_name, "Desc": super().to_json()}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the operator that `to_json` gave `value`; also takes the fields by themselves.

        `Operator.from_json` takes any operator, as `operator_from_json` does. Raises `DmlError`.
        """
        if cls is Operator:
            return operator_from_json(value)  # pyright: ignore[reportReturnType]
        if not isinstance(value, Mapping) or cls._are_fields(value):
            return cls.of_fields(value)
        op, fields = named(value)
        if op is not cls:
            raise DmlError([Fault("", "type", f"be {cls.c_name}", op.c_name)])
        return cls.of_fields(fields)

    @classmethod
    def _are_fields(cls, value: Mapping[str, Any]) -> bool:
        """Return whether an object has the fields of this operator, without the operator's name."""
        if any(f.c_name == "Type" for f in cls.fields):
            return "Desc" not in value and "desc" not in value
        return {"Type", "type"}.isdisjoint(value)

    @classmethod
    def of_fields(cls, fields: Any) -> Self:
        """Return the operator that a JSON object of its fields describes. Raises `DmlError`."""
        return super().from_json(fields)


OPERATORS: Registry[type[Operator]] = Registry()
"""Every operator, by its full name (`DML_OPERATOR_REDUCE`)."""


def operator_type(name: Any) -> type[Operator]:
    """Return the operator class of a name with or without DML_OPERATOR_. Raises `DmlError`."""
    short = str(name).removeprefix(facts.PREFIX)
    short = facts.names_of_aliases().get(short, short)
    full = f"{facts.PREFIX}{short}"
    if isinstance(name, str) and full in OPERATORS:
        return OPERATORS[full]
    if not isinstance(name, str):
        raise DmlError([Fault("", "type", "be an operator's name", name)])
    raise DmlError([facts.unknown_operator(name)])


def operator_from_json(value: Any) -> Operator:
    """Return the operator of {"Type", "Desc"}, or with the fields beside the type.

    Both keys may be in lower case, as DxDispatch's dispatchables have them. Raises `DmlError`.
    """
    op, fields = named(value)
    return op.of_fields(fields)


def named(value: Any) -> tuple[type[Operator], Any]:
    """Return the class of {"Type", "Desc"}, and the fields."""
    if not isinstance(value, Mapping):
        raise DmlError([Fault("DML_OPERATOR_DESC", "", "be an object", value)])
    for pair in (("Type", "type"), ("Desc", "desc")):
        if all(name in value for name in pair):
            rule = f"stand alone, not beside {pair[0]}"
            raise DmlError([Fault("", pair[1], rule, value[pair[1]])])
    name = value.get("Type", value.get("type", NOTHING))
    if not isinstance(name, str) or name is NOTHING:
        raise DmlError([Fault("", "type", "be an operator's name", name)])
    fields = {key: item for key, item in value.items() if key not in ("Type", "type")}
    return operator_type(name), fields.get("Desc", fields.get("desc", fields))
