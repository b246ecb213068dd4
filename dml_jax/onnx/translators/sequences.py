"""Sequences and optionals of tensors, which are taken apart at load.

What a sequence holds is known then: its tensors are tensors of the graph, and nodes that put a
sequence together or read it cost nothing.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.onnx.functions import Opsets
from dml_jax.onnx.nodes import attribute_value, inlines
from dml_jax.onnx.tensors import EmptyOptional, Scope, Tensor, TensorList

if TYPE_CHECKING:
    from dml_jax.onnx.translate import Translation


Value = Tensor | TensorList | None


def _refusal(field: str, rule: str, value: object) -> DmlError:
    return DmlError([Fault("", field, rule, value)])


def _list(inputs: Sequence[Value], index: int = 0) -> list[Tensor]:
    """Return what the sequence that is input `index` holds."""
    value = inputs[index] if index < len(inputs) else None
    if not isinstance(value, TensorList) or isinstance(value, EmptyOptional):
        shown = "an optional without element" if isinstance(value, TensorList) else "a tensor"
        raise _refusal(f"input {index}", "be a sequence", Unquoted(shown))
    return value.tensors


def _place(inputs: Sequence[Value], index: int, size: int, default: int | None) -> int:
    """Return the place in a sequence that input `index` says."""
    value = inputs[index] if index < len(inputs) else None
    if value is None and default is not None:
        return default
    if not isinstance(value, Tensor) or not value.is_known:
        raise _refusal("position", "be known at load", Unquoted("a computed tensor"))
    place = int(value.array.reshape(-1)[0])
    if not -size <= place < size:
        raise _refusal("position", f"be in [{-size}, {size - 1}]", place)
    return place % max(size, 1)


def _attribute(proto: onnx.NodeProto, name: str, default: Any) -> Any:
    found = [attribute_value(a) for a in proto.attribute if a.name == name]
    return found[0] if found else default


def _made(
    translation: "Translation", op_type: str, inputs: Sequence[Tensor], count: int, **values: Any
) -> list[Tensor]:
    """Return the outputs of a node of another op type, which a sequence needs."""
    scope: Scope = {}
    names = []
    for k, tensor in enumerate(inputs):
        names.append(f"{tensor.name} ({k})")
        scope[names[-1]] = tensor
    outputs = [f"{inputs[0].name} part {k}" for k in range(count)]
    node = helper.make_node(op_type, names, outputs, **values)
    found = translation.graph(onnx.GraphProto(node=[node]), scope, outputs, {"": 18})
    if any(tensor is None for tensor in found):
        raise _refusal("the sequence", "have parts that can be had", Unquoted("others"))
    return [tensor for tensor in found if isinstance(tensor, Tensor)]


@inlines("SequenceConstruct")
def _construct(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    return [TensorList([t for t in inputs if isinstance(t, Tensor)])]


@inlines("SequenceEmpty")
def _empty(*_: Any) -> list[Any]:
    return [TensorList([])]


@inlines("SequenceAt")
def _at(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    tensors = _list(inputs)
    return [tensors[_place(inputs, 1, len(tensors), None)]]


@inlines("SequenceInsert")
def _insert(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    tensors, new = [*_list(inputs)], inputs[1]
    if not isinstance(new, Tensor):
        raise _refusal("tensor", "be a tensor", Unquoted("a sequence"))
    given = inputs[2] if len(inputs) > 2 else None
    place = len(tensors)
    if given is not None:
        if not isinstance(given, Tensor) or not given.is_known:
            raise _refusal("position", "be known at load", Unquoted("a computed tensor"))
        place = int(given.array.reshape(-1)[0])
        place += len(tensors) if place < 0 else 0
    tensors.insert(place, new)
    return [TensorList(tensors)]


@inlines("SequenceErase")
def _erase(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    tensors = [*_list(inputs)]
    del tensors[_place(inputs, 1, len(tensors), len(tensors) - 1)]
    return [TensorList(tensors)]


@inlines("SequenceLength")
def _length(
    translation: "Translation", proto: onnx.NodeProto, inputs: Sequence[Value], *_: Any
) -> list[Any]:
    count = np.array(len(_list(inputs)), np.int64)
    return [translation.constant(proto.output[0], count)]


@inlines("SplitToSequence", takes_scalars=True)
def _split(
    translation: "Translation", proto: onnx.NodeProto, inputs: Sequence[Value], *_: Any
) -> list[Any]:
    x, given = inputs[0], inputs[1] if len(inputs) > 1 else None
    if not isinstance(x, Tensor):
        raise _refusal("input", "be a tensor", Unquoted("a sequence"))
    axis = int(_attribute(proto, "axis", 0)) % max(len(x.shape), 1)
    size, keeps = x.shape[axis], True
    if given is None:
        pieces, keeps = [1] * size, bool(_attribute(proto, "keepdims", 1))
    elif not isinstance(given, Tensor) or not given.is_known:
        raise _refusal("split", "be known at load", Unquoted("a computed tensor"))
    elif given.array.ndim:
        pieces = [int(n) for n in given.array]
    else:
        step = max(1, int(given.array))
        pieces = [min(step, size - start) for start in range(0, size, step)]
    sizes = translation.constant("split", np.array(pieces, np.int64))
    parts = (
        [x] if pieces == [size] else _made(translation, "Split", [x, sizes], len(pieces), axis=axis)
    )
    if not keeps:
        axes = translation.constant("axes", np.array([axis], np.int64))
        parts = [_made(translation, "Squeeze", [part, axes], 1)[0] for part in parts]
    return [TensorList(parts)]


@inlines("ConcatFromSequence")
def _concat(
    translation: "Translation", proto: onnx.NodeProto, inputs: Sequence[Value], *_: Any
) -> list[Any]:
    tensors, axis = _list(inputs), int(_attribute(proto, "axis", 0))
    if not tensors:
        raise _refusal("input_sequence", "hold a tensor", Unquoted("none"))
    if _attribute(proto, "new_axis", 0):
        axes = translation.constant("axes", np.array([axis], np.int64))
        tensors = [_made(translation, "Unsqueeze", [t, axes], 1)[0] for t in tensors]
    return _made(translation, "Concat", tensors, 1, axis=axis)


@inlines("SequenceMap")
def _map(
    translation: "Translation",
    proto: onnx.NodeProto,
    inputs: Sequence[Value],
    scope: Scope,
    opsets: Opsets,
) -> list[Any]:
    """Return the sequences that a graph gives of the tensors of sequences, one after the other."""
    body = next(a.g for a in proto.attribute if a.name == "body")
    rows: list[list[Tensor]] = []
    shared: Scope = {**scope}
    translation.initializers(body, shared)
    for turn in range(len(_list(inputs))):
        own = {**shared}
        for value, given in zip(body.input, inputs, strict=True):
            own[value.name] = given.tensors[turn] if isinstance(given, TensorList) else given
        made = translation.graph(body, own, [o.name for o in body.output], opsets)
        if not all(isinstance(tensor, Tensor) for tensor in made):
            return [None] * len(proto.output)
        rows.append([tensor for tensor in made if isinstance(tensor, Tensor)])
    if not rows:
        return [TensorList([]) for _ in proto.output]
    return [TensorList([*column]) for column in zip(*rows, strict=True)]


@inlines("Optional")
def _optional(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    if inputs and inputs[0] is not None:
        return [inputs[0]]
    return [EmptyOptional()]


@inlines("Identity")
def _same(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    return [inputs[0]]


@inlines("OptionalGetElement")
def _element(_: Any, proto: onnx.NodeProto, inputs: Sequence[Value], *__: Any) -> list[Any]:
    value = inputs[0]
    if value is None or isinstance(value, EmptyOptional):
        raise _refusal("input", "hold an element", Unquoted("none"))
    return [value]


@inlines("OptionalHasElement")
def _has_element(
    translation: "Translation", proto: onnx.NodeProto, inputs: Sequence[Value], *_: Any
) -> list[Any]:
    value = inputs[0] if inputs else None
    has_one = value is not None and not isinstance(value, EmptyOptional)
    return [translation.constant(proto.output[0], np.array(has_one))]
