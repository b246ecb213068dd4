"""The base of all operators, which are called with arrays and read from JSON."""

import functools
import inspect
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, overload

import jax
from jax import lax
from jax.typing import ArrayLike

from dml_jax import facts
from dml_jax.constraints import UnknownError
from dml_jax.description import support
from dml_jax.description.arrays import are_described, array_of
from dml_jax.description.descriptor import snake_case
from dml_jax.description.fields import Choice
from dml_jax.description.tensor import Integers, Placeholder, TensorDesc, shown_array
from dml_jax.enums import Enumeration, FeatureLevel, TensorDataType
from dml_jax.errors import NOTHING, DmlError, Fault, Unquoted, raise_if
from dml_jax.operator.call import BindPoint
from dml_jax.operator.contract import NEWEST, Contract
from dml_jax.operator.declared import Declared
from dml_jax.operator.fields_from_facts import fields_of_facts, half_declared
from dml_jax.operator.fused import FusedActivation
from dml_jax.operator.inference import Fitted, outputs_that_follow, types_by_output
from dml_jax.operator.registry import OPERATORS, named
from dml_jax.operator.samples import domain, typical_fields

Result = TypeVar("Result", covariant=True)


class _Lowering(Protocol[Result]):
    """Gives a call the type of `lower`: type checkers tell one output from several."""

    def lower(self, *arrays: Any, **_: Any) -> Result: ...
    def _check_arrays(self, arrays: Sequence[Any]) -> None: ...


class Operator(Declared):
    """A DirectML operator: a checked description, and a function of JAX arrays.

    `op(x, ...)` takes one array for each input tensor that is given, in the order of the fields, of
    exactly the described sizes and type, and returns the output (a tuple of several). It is a pure
    function: it works eagerly and under jit, grad, vmap and shard_map, and is itself a static
    argument of jit. Strides do not matter to it: they are a property of memory (`TensorDesc.read`
    and `write`).

    With `beyond=True` the constructor and `infer` take tensors of every type and of more
    dimensions, and keep all bits of numbers: for nodes of networks of types that DirectML lacks.
    All other checks stay. Such an operator has no JSON, and no feature level takes it.

    To declare an operator of the catalogue, name it (`op="REDUCE"`) and give `lower`: its fields,
    support rows and constraints come from `dml_jax.facts`. An operator of your own annotates its
    fields and gives `support`, and `constraints` in the form of `dml_jax.constraints`. Where they
    are needed, override or add

    - methods marked with `rule`: conditions that no constraint record can say;
    - `expected_sizes`: sizes that follow from the other fields by a rule that no record has;
    - `default_sizes`, `default_data_types`: those of outputs that the caller of `infer` may choose;
    - `lower`: the function of arrays. It is called with one array for each input field, None for an
      input that is left out, and returns one array for each output field (an output that is left
      out is dropped).

    The docstring says, a paragraph each, a summary, the formula, "Choices:" where the documentation
    is silent, "Gradient:" and "Fields:". `dml_jax.operator.documentation` reads them, also those of
    the bases.
    """

    contract: ClassVar[Contract]

    if TYPE_CHECKING:  # fields come from the facts; the stubs beside the package have their types
        beyond: bool = False

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, op: str | None = None, function: Any = None, **kwargs: Any) -> None:
        super().__init_subclass__(c_name=op and f"{facts.PREFIX}{op}", **kwargs)
        if function is not None:
            cls.function = staticmethod(function)
            if cls.__name__.startswith("Activation"):
                cls.nothing = Unquoted(f"nothing ({cls.__name__}.fused() has no tensors)")
        if op is None:
            if {"support", "constraints"} <= {*vars(cls)}:  # a base of a family lacks one
                raise TypeError(_without_name(cls))
            return
        entry = facts.catalogue().get(op)
        cls.short_name, cls.family = op, cls.__module__.rpartition(".")[2]
        is_in_place = bool(cls.in_place)
        if entry is not None and not inspect.get_annotations(cls):
            cls._declare(fields_of_facts(entry["fields"]))
            tensors = {f.c_name: f.name for f in cls.fields if f.tensor}
            kinds = {f.c_name: f.kind for f in cls.fields}
            choices = {n: k.enumeration for n, k in kinds.items() if isinstance(k, Choice)}
            cls.support = support.of_facts(entry["support"], tensors, choices)
            cls.constraints = entry["constraints"]
            is_in_place = entry.get("in_place", False)
        wrong = "; ".join(half_declared(cls, Operator))
        if wrong:
            raise TypeError(f"{cls.c_name} is half declared: {wrong}")
        if entry is None or ("support" in vars(cls) and cls.support.fields == ()):
            cls.support = cls.support.of([f.name for f in cls.fields if f.tensor])
            _ = cls.support.groups  # a row that misses a tensor is refused here
        cls.contract = Contract(cls)
        cls.in_place = cls.contract.pairs_in_place() if is_in_place else {}
        jax.tree_util.register_static(cls)
        OPERATORS.put(cls)

    # What a function of `dml_jax.functional` asks.

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of `infer`, from the arguments of the function by field.

        Raises `DmlError` where this version of the operator does not express them.
        """
        for name in cls.only:
            value, own = arguments.pop(name), getattr(cls, name)
            if isinstance(own, Enumeration):
                value = type(own).of(value)
            is_other = isinstance(value, bool) and not isinstance(own, bool)
            if is_other or not isinstance(value, (int, float)) or value != own:
                raise DmlError([Fault(cls.c_name, name, f"be {own}", value)])
        return arguments

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the operator that a function describes: `infer`, with types filled in.

        A data type that a record ties to a tensor, such as MinMaxDataType, is that tensor's.
        """
        for record in cls.records():
            if record.kind == "type" and record.data["is"].endswith(".DataType"):
                f = next((f for f in cls.fields if f.c_name == record.data["type"]), None)
                of = snake_case(record.data["is"].removesuffix(".DataType"))
                if f and isinstance(f.kind, Choice) and isinstance(fields.get(of), TensorDesc):
                    fields.setdefault(f.name, fields[of].data_type)
        return cls.infer(**fields)

    @classmethod
    def broadcast_sizes(
        cls, sizes: Mapping[str, Sequence[int] | None], attributes: Mapping[str, Any]
    ) -> Mapping[str, tuple[int, ...]]:
        """Return the sizes to which functions broadcast inputs, beside inputs of equal sizes.

        Args:
            sizes: the sizes of each array by field, None for a number.
            attributes: the other arguments of the function by field.
        """
        return {}

    @classmethod
    def fitted(
        cls, sizes: Mapping[str, tuple[int, ...] | None], attributes: Mapping[str, Any]
    ) -> Fitted:
        """Return how functions fit arrays of other ranks, after they are broadcast.

        The arguments are those of `broadcast_sizes`. Raises `DmlError` where ranks and attributes
        contradict each other.
        """
        return Fitted()

    # What its contract says of a description.

    def _check(self, faults: list[Fault], present: Mapping[str, Any]) -> None:
        self.contract.check(self, faults, present)

    @functools.cached_property
    def beyond_directml(self) -> tuple[Fault, ...]:
        """Return why no feature level accepts this descriptor; empty for all but nodes of networks.

        `load_onnx(fallback=True)` makes nodes of types that DirectML lacks.
        """
        return self.refused_at(NEWEST)

    def refused_at(self, feature_level: FeatureLevel | str) -> tuple[Fault, ...]:
        """Return why a feature level refuses this descriptor; nothing where it accepts it."""
        return self.contract.refused_at(self, FeatureLevel.of(feature_level))

    @classmethod
    def infer(
        cls,
        *positional: Any,
        output_data_type: TensorDataType | str | Mapping[str, Any] | None = None,
        output_sizes: Integers | Sequence[Integers | None] | Mapping[str, Integers] | None = None,
        outputs: Collection[str] | None = None,
        beyond: bool = False,
        **fields: Any,
    ) -> Self:
        """Return the descriptor whose outputs follow from the other fields, packed.

        Args:
            positional: none: fields are given by name.
            output_data_type: of the outputs whose type does not follow from the other fields, or
                field -> type; None takes the operator's default.
            output_sizes: of the first output, or a list for each output (None where its sizes
                follow), or field -> sizes, where they do not follow.
            outputs: the optional outputs to make; None makes all.
            beyond: whether the operator may lie beyond DirectML, as for the constructor.
            fields: all fields but the outputs.

        Raises `DmlError` as the constructor does, and for operators whose outputs are a list.
        """
        made, faults = cls.outputs_of(), list[Fault]()
        if not hasattr(cls, "contract"):
            raise TypeError(_without_name(cls))
        if positional:
            names = [f.name for f in cls.fields if f not in made]
            raise TypeError(f"{cls.__name__}.infer takes fields by name: {', '.join(names)}")
        for f in made:
            if f.name in fields:
                left_out = f"be left out: {cls.__name__}.infer makes it"
                faults.append(Fault(cls.c_name, f.name, left_out, fields.pop(f.name)))
        if listed := cls.output_list():
            given = f"be given to {cls.__name__}(...): they choose their own sizes"
            faults.append(Fault(cls.c_name, listed.c_name, given, NOTHING))
        cls._fill(fields, faults, cls._convert(fields, faults, beyond), made)
        types = types_by_output(cls, output_data_type, faults)
        partial = object.__new__(cls)
        partial.__dict__.update(fields, beyond=beyond)
        partial._check(faults, fields)
        raise_if(faults)
        wanted = [f for f in made if not f.optional or outputs is None or f.name in outputs]
        fields |= {f.name: None for f in made if f not in wanted}
        fields |= outputs_that_follow(partial, wanted, types, output_sizes, faults)
        raise_if(faults)
        return cls(**fields, beyond=beyond)

    def bind_points(self) -> Iterator[BindPoint]:
        """Yield where memory is bound: the tensor fields that are given, by their C names."""
        for f in self.fields:
            value = getattr(self, f.name)
            if f.tensor is not None and value is not None:
                tensors = value if f.is_array else (value,)
                yield BindPoint(f.c_name, tensors, f.tensor.output, f.is_array)

    @classmethod
    def fused(cls, **attributes: Any) -> FusedActivation:
        """Return this activation without tensors, for the field FusedActivation of another one."""
        return FusedActivation(cls, **attributes)

    @classmethod
    def typical(
        cls, elements: int, data_type: str, sizes: Sequence[int] | None = None
    ) -> "list[Operator]":
        """Describe typical uses of the operator: one a variant, the most telling first.

        `facts/samples.json` has the uses; an operator of your own may override this.

        Args:
            elements: about how many elements the largest tensor has.
            data_type: the type of that tensor.
            sizes: its sizes; None takes those of a feature map.

        Returns:
            The descriptors; an empty list if the operator does not take the type.
        """
        accepted: list[Operator] = []
        make = cls.infer if cls.output_list() is None else cls
        with suppress(UnknownError):
            for fields in typical_fields(cls, elements, data_type, sizes):
                with suppress(DmlError):
                    accepted.append(make(**fields))
        return accepted

    def domain(self, field: str) -> tuple[float, float]:
        """Return the range of typical elements of the input `field`."""
        return domain(self.short_name, field, self.view(vars(self)))

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
        if len(results) == len(outputs) and self.output_list() is None:
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
        raise_if(self.beyond_directml)
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


def operator_from_json(value: Any) -> Operator:
    """Return the operator of {"Type", "Desc"}, or with the fields beside the type.

    Both keys may be in lower case, as DxDispatch's dispatchables have them. Raises `DmlError`.
    """
    op, fields = named(value)
    return op.of_fields(fields)


def _without_name(cls: type[Operator]) -> str:
    """Return the message about a class of an operator that does not say the operator's name."""
    example = f'class {cls.__name__}(Operator, op="{cls.__name__.upper()}")'
    return f"{cls.__name__} is an operator without its name: {example}"
