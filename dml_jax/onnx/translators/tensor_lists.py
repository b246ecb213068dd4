"""Sequences and optionals of tensors, which are taken apart at load.

What a sequence holds is known then: its tensors are tensors of the graph, and nodes that put a
sequence together or read it cost nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import Unquoted
from dml_jax.onnx.nodes.graph_context import Site
from dml_jax.onnx.nodes.node import expect, refused
from dml_jax.onnx.nodes.op_types import inlines
from dml_jax.onnx.nodes.tensor import EmptyOptional, Scope, Tensor, TensorList

# Each tensor of a sequence that is split is a slice in the graph, which has to stay small.
_TENSORS_MAX = 1024


def _list(site: Site) -> list[Tensor]:
    """Return what the sequence that is the first input holds."""
    value = site.get(0)
    if not isinstance(value, TensorList) or isinstance(value, EmptyOptional):
        shown = "an optional without element" if isinstance(value, TensorList) else "a tensor"
        raise refused("input 0", "be a sequence", Unquoted(shown))
    return value.tensors


def _tensor(site: Site, index: int, name: str) -> Tensor:
    """Return input `index`, which is no sequence."""
    value = site.get(index)
    if not isinstance(value, Tensor):
        raise refused(name, "be a tensor", Unquoted("a sequence"))
    return value


def _known(site: Site, index: int, name: str) -> np.ndarray | None:
    """Return the elements of input `index`; None where it is left out."""
    value = site.get(index)
    if value is None:
        return None
    if not isinstance(value, Tensor) or not value.is_known:
        raise refused(name, "be known at load", Unquoted("a computed tensor"))
    return value.array


def _place(site: Site, index: int, size: int, default: int, most: int) -> int:
    """Return the place among `size` tensors that input `index` says, up to `most`."""
    known = _known(site, index, "position")
    if known is None:
        return default
    place = int(known.reshape(-1)[0])
    expect(-size <= place <= most, "position", f"be in [{-size}, {most}]", place)
    return place + size if place < 0 else place


def _made(
    site: Site, op_type: str, inputs: Sequence[Tensor], count: int, **values: Any
) -> list[Tensor]:
    """Return the outputs of a node of another op type, which a sequence needs."""
    scope: Scope = {f"{tensor.name} ({k})": tensor for k, tensor in enumerate(inputs)}
    outputs = [f"{inputs[0].name} part {k}" for k in range(count)]
    node = helper.make_node(op_type, [*scope], outputs, **values)
    found = site.translation.graph(onnx.GraphProto(node=[node]), scope, outputs, {"": 18})
    made = [tensor for tensor in found if isinstance(tensor, Tensor)]
    expect(len(made) >= count, "the sequence", "have parts that can be had", Unquoted("others"))
    return made


def _with_axes(site: Site, op_type: str, tensors: Sequence[Tensor], axis: int) -> list[Tensor]:
    """Return tensors with a dimension of size 1 added (Unsqueeze) or removed (Squeeze)."""
    axes = site.translation.constant("axes", np.array([axis], np.int64))
    return [_made(site, op_type, [tensor, axes], 1)[0] for tensor in tensors]


@inlines("SequenceConstruct", "SequenceEmpty")
def _construct(site: Site) -> list[Any]:
    return [TensorList([t for t in site.inputs if isinstance(t, Tensor)])]


@inlines("SequenceAt")
def _at(site: Site) -> list[Any]:
    tensors = _list(site)
    return [tensors[_place(site, 1, len(tensors), 0, len(tensors) - 1)]]


@inlines("SequenceInsert")
def _insert(site: Site) -> list[Any]:
    tensors = [*_list(site)]
    place = _place(site, 2, len(tensors), len(tensors), len(tensors))
    tensors.insert(place, _tensor(site, 1, "tensor"))
    return [TensorList(tensors)]


@inlines("SequenceErase")
def _erase(site: Site) -> list[Any]:
    tensors = [*_list(site)]
    del tensors[_place(site, 1, len(tensors), len(tensors) - 1, len(tensors) - 1)]
    return [TensorList(tensors)]


@inlines("SequenceLength")
def _length(site: Site) -> list[Any]:
    return [site.translation.constant(site.proto.output[0], np.array(len(_list(site)), np.int64))]


@inlines("SplitToSequence", takes_scalars=True)
def _split(site: Site) -> list[Any]:
    x, given = _tensor(site, 0, "input"), _known(site, 1, "split")
    axis = int(site.attribute("axis", 0)) % max(len(x.shape), 1)
    size, keeps = x.shape[axis], True
    step = 1 if given is None or given.ndim else max(1, int(given))
    count = given.size if given is not None and given.ndim else -(-size // step)
    expect(count <= _TENSORS_MAX, "input", f"be cut into at most {_TENSORS_MAX} tensors", count)
    if given is None:
        pieces, keeps = [1] * size, bool(site.attribute("keepdims", 1))
    elif given.ndim:
        pieces = [int(n) for n in given]
    else:
        pieces = [min(step, size - start) for start in range(0, size, step)]
    sizes, parts = site.translation.constant("split", np.array(pieces, np.int64)), [x]
    if pieces != [size]:
        parts = _made(site, "Split", [x, sizes], len(pieces), axis=axis)
    return [TensorList(parts if keeps else _with_axes(site, "Squeeze", parts, axis))]


@inlines("ConcatFromSequence")
def _concat(site: Site) -> list[Any]:
    tensors, axis = _list(site), int(site.attribute("axis", 0))
    expect(tensors, "input_sequence", "hold a tensor", Unquoted("none"))
    if site.attribute("new_axis", 0):
        tensors = _with_axes(site, "Unsqueeze", tensors, axis)
    return _made(site, "Concat", tensors, 1, axis=axis)


@inlines("SequenceMap")
def _map(site: Site) -> list[Any]:
    """Return the sequences that a graph gives of the tensors of sequences, one after the other."""
    body, shared = site.graph("body"), {**site.scope}
    site.translation.initializers(body, shared)
    rows: list[list[Tensor]] = []
    for turn in range(len(_list(site))):
        own = {**shared}
        for value, given in zip(body.input, site.inputs, strict=True):
            own[value.name] = given.tensors[turn] if isinstance(given, TensorList) else given
        made = site.inlined(body, own)
        rows.append([tensor for tensor in made if isinstance(tensor, Tensor)])
        if len(rows[-1]) < len(made):
            return [None] * len(site.proto.output)
    if not rows:
        return [TensorList([]) for _ in site.proto.output]
    return [TensorList([*column]) for column in zip(*rows, strict=True)]


@inlines("Optional")
def _optional(site: Site) -> list[Any]:
    return [EmptyOptional() if site.get(0) is None else site.get(0)]


@inlines("Identity")
def _same(site: Site) -> list[Any]:
    return [site.inputs[0]]


@inlines("OptionalGetElement")
def _element(site: Site) -> list[Any]:
    value = site.get(0)
    if value is None or isinstance(value, EmptyOptional):
        raise refused("input", "hold an element", Unquoted("none"))
    return [value]


@inlines("OptionalHasElement")
def _has_element(site: Site) -> list[Any]:
    has_one = not (site.get(0) is None or isinstance(site.get(0), EmptyOptional))
    return [site.translation.constant(site.proto.output[0], np.array(has_one))]
