"""Nodes of early versions, written as the later version that says the same of them."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.onnx.files.attributes import attribute_value
from dml_jax.onnx.nodes.tensor import Tensor

Constant = Callable[[str, np.ndarray], Tensor]
"""Makes a tensor of a name and elements."""


class Early(NamedTuple):
    """How early versions of an op type are written.

    Attributes:
        version: the version that they are written as.
        change: changes the attributes; returns the elements of one more input, None without one.
        op_type: the name of the op type that says the same; "" for the same name.
    """

    version: int
    change: Callable[[dict[str, Any]], np.ndarray | None]
    op_type: str = ""


def in_later_version(
    proto: onnx.NodeProto, inputs: Sequence[Any], early: Early, constant: Constant
) -> tuple[onnx.NodeProto, Sequence[Any]]:
    """Return a node and its inputs in a version that is inferred.

    Early versions lack inference, or keep in an attribute what later ones take as an input, which
    `constant` makes.
    """
    copy = deepcopy(proto)
    copy.op_type = early.op_type or proto.op_type
    given = {a.name: attribute_value(a) for a in proto.attribute}
    del copy.attribute[:]
    more = early.change(given)
    for name, value in sorted(given.items()):
        copy.attribute.append(helper.make_attribute(name, value))
    if more is None:
        return copy, inputs
    name = f"{proto.op_type} {len(proto.input)}"
    copy.input.append(name)
    return copy, [*inputs, constant(name, more)]


def _reshape(given: dict[str, Any]) -> np.ndarray:
    given.pop("consumed_inputs", None)
    if "shape" not in given:
        raise DmlError([Fault("", "shape", "be given", Unquoted("nothing"))])
    return np.array(given.pop("shape"), np.int64)


def _cast(given: dict[str, Any]) -> None:
    names = onnx.TensorProto.DataType.keys()
    if given.get("to") not in names:
        raise DmlError([Fault("", "to", f"be one of {', '.join(names)}", given.get("to"))])
    given["to"] = onnx.TensorProto.DataType.Value(given["to"])


def _lp_pool(given: dict[str, Any]) -> None:
    if "p" in given:
        if given["p"] != int(given["p"]):
            raise DmlError([Fault("", "p", "be a whole number", given["p"])])
        given["p"] = int(given["p"])


def _recurrent(given: dict[str, Any]) -> None:
    given.pop("output_sequence", None)  # whether the first output is there, as its name says


CAST, LP_POOL, RESHAPE = Early(6, _cast), Early(2, _lp_pool), Early(5, _reshape)
RECURRENT, SPLIT = Early(7, _recurrent), Early(2, lambda given: given.update({"axis": 0, **given}))
DYNAMIC_SLICE = Early(10, lambda given: None, "Slice")
