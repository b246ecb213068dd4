"""What the class of an operator declares, as the modules below `Operator` read it."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from dml_jax import facts
from dml_jax.constraints import Record, View, records_of, solve_types
from dml_jax.description.descriptor import Descriptor
from dml_jax.description.fields import Field, OutputList
from dml_jax.description.support import Support
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType
from dml_jax.errors import Fault
from dml_jax.operator.call import Bindable


def tensors_of(f: Field, value: Any) -> list[tuple[str, str, TensorDesc]]:
    """Return (path, field, tensor) of each tensor in the value of a field."""
    if f.tensor is None or value is None:
        return []
    if not f.is_array:
        return [(f.c_name, f.name, value)]
    return [(f"{f.c_name}[{index}]", f.name, tensor) for index, tensor in enumerate(value)]


class Declared(Descriptor, Bindable):
    """The base of `Operator`: what its class declares, and the tensors that follow."""

    short_name: ClassVar[str]  # "REDUCE"
    family: ClassVar[str]  # the module that declares it
    support: ClassVar[Support]
    constraints: ClassVar[Sequence[Mapping[str, Any]]] = ()
    formula: ClassVar[str] = ""  # of the output, where the docstring has no paragraph of it
    function: ClassVar[Any] = None  # of arrays and attributes, where the operator may be fused
    # Whether its dimensions may come in any order: `axis`, `axes` and lists of all dimensions say
    # which one is meant.
    takes_any_axes: ClassVar[bool] = False
    takes_channels_last: ClassVar[bool] = False  # whether `lower` takes the layout "NHWC"
    sums_bfloat16: ClassVar[bool] = False  # products in FLOAT32, as matrix units do
    spatial_count: ClassVar[str] = ""  # of its lists with an element for each spatial dimension
    arguments: ClassVar[Sequence[str]] = ()  # of its function, beside fields; `call_of` reads them
    only: ClassVar[Sequence[str]] = ()  # those of `arguments` that must be the class's own value

    def expected_sizes(self) -> Mapping[str, Any]:
        """Return tensor field -> the sizes it must have (a sequence of them for a list).

        None is a size that does not follow.
        """
        return {}

    def because(self, field: str, dimension: int) -> str:
        """Return where an expected size comes from, as an error message says it."""
        return ""

    def default_sizes(self) -> Mapping[str, Sequence[int]]:
        """Return the sizes of outputs that no record gives, for `infer` without `output_sizes`."""
        return {}

    def default_data_types(self) -> Mapping[str, TensorDataType]:
        """Return the types of outputs that no record gives, for `infer` without types."""
        return {}

    @property
    def support_group(self) -> Any:
        """Return the value of the attribute by which the support rows go; None without one."""
        return getattr(self, self.support.by) if self.support.by else None

    @classmethod
    def expresses(cls, fields: Mapping[str, Any], beyond: bool = False) -> str:
        """Return why this version does not express a call of a function; "" where it does.

        Each field has to convert, and one support row to take the types and ranks of the tensors,
        of outputs too where they are known. A function constructs the first version that expresses
        its call. A version whose constraint records refuse what the next version takes overrides
        this, and raises `DmlError` where it has no words for the call.

        Args:
            fields: the fields, as `infer_from` takes them; also `arguments` that are no fields.
            beyond: whether the operator may lie beyond DirectML.
        """
        values = {f.name: v for f in cls.fields if (v := fields.get(f.name)) is not None}
        faults: list[Fault] = []
        cls._convert(values, faults, beyond)
        if faults:
            return str(faults[0])
        tensors: list[tuple[str, TensorDataType | None, int | None]] = [
            (name, tensor.data_type, len(tensor.sizes))
            for f in cls.fields
            for _, name, tensor in tensors_of(f, values.get(f.name))
        ]
        by = cls.support.by
        if by is not None and by not in values:
            return ""
        outputs, sizes = cls.outputs_of(), fields.get("output_sizes")
        rank = None if sizes is None or isinstance(sizes, Mapping) else len(sizes)
        names, view = [f.c_name for f in outputs], cls.view(values)
        types: dict[str, Any] = solve_types(cls.records(), view, names)
        chosen = fields.get("output_data_type")
        for f in outputs:
            own = chosen.get(f.name) if isinstance(chosen, Mapping) else chosen
            data_type = types.get(f.c_name, own)
            known = None if data_type is None else TensorDataType.of(data_type, beyond=True)
            tensors.append((f.name, known, rank))
        return cls.support.refusal(values[by] if by else None, tensors, beyond)

    def lower(self, *arrays: Any, **_: Any) -> Any:
        """Compute the outputs from one array for each input."""
        raise NotImplementedError

    @classmethod
    @functools.cache
    def records(cls) -> tuple[Record, ...]:
        """Return the constraint records; without any, all tensors of an own operator agree."""
        if cls.constraints or cls.short_name in facts.catalogue():
            return records_of(cls.constraints)
        alike = [f.c_name + "[*]" * f.is_array for f in cls.fields if f.tensor]
        return records_of([{"equal": alike, "of": ["DataType"]}])

    @classmethod
    def output_list(cls) -> Field | None:
        """Return the field of outputs that are a list, None where each output has a field."""
        return next((f for f in cls.fields if isinstance(f.kind, OutputList)), None)

    @classmethod
    def outputs_of(cls) -> list[Field]:
        """Return the fields of the outputs."""
        return [f for f in cls.fields if f.tensor and f.tensor.output]

    @classmethod
    def view(cls, values: Mapping[str, Any]) -> View:
        """Return the values of fields as records read them."""
        named = {f.c_name: values[f.name] for f in cls.fields if f.name in values}
        return View(named, cls._counts)

    def tensors(self, output: bool | None = None) -> Iterator[tuple[str, str, TensorDesc]]:
        """Yield (path, field, tensor) of all tensors, of the outputs or of the inputs.

        The path is DirectML's spelling: `InputTensor`, `OutputTensors[1]`. Optional tensors that
        are not given are left out.
        """
        for f in self.fields:
            if f.tensor and output in (None, f.tensor.output):
                yield from tensors_of(f, getattr(self, f.name))
