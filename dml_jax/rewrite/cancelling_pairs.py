"""Nodes that give what they, or the node before them, read: these are left out."""

import numpy as np

from dml_jax import functional as dml
from dml_jax.description.tensor import TensorDesc
from dml_jax.enums import TensorDataType, TensorFlags
from dml_jax.graph import Expression
from dml_jax.graph.parts import layout_of, same_layout, strides_of
from dml_jax.rewrite.pattern import Found, Rewrite


def _may_stand(x: Expression, node: Found) -> bool:
    """Return whether the memory of `x` may stand for the output of a node."""
    if x.source[0] >= 0:
        size = x.builder.written(x.source).total_tensor_size_in_bytes
        return size == node.output.total_tensor_size_in_bytes
    is_owned = TensorFlags.OWNED_BY_DML in x.builder.written(x.source).flags
    return not (is_owned or node.is_output)  # a node computes each output of a graph


def _read(x: Expression, as_: TensorDesc) -> Expression:
    return Expression(as_, x.builder, x.source)


def _copies(node: Found) -> bool:
    return getattr(node.operator, "scale_bias", None) is None


def _is_identity(node: Found) -> bool:
    is_same = _copies(node) and same_layout(node[0].desc, node.output)
    return is_same and _may_stand(node[0], node)


def _is_undone(second: Found, first: Found) -> bool:
    """Return whether two copies between different orders of dimensions give the first input."""
    order = _order(second[0].desc, first.output)
    if order is None or not (_copies(second) and _copies(first)):
        return False
    read = first[0].desc
    layout = [strides_of(read)[d] for d in order]
    is_same = read.data_type == second.output.data_type and layout == layout_of(second.output)
    return is_same and _may_stand(first[0], second)


def _order(read: TensorDesc, written: TensorDesc) -> list[int] | None:
    """Return the dimension of `written` that each dimension of `read` with elements lies along.

    None where `read` is another tensor than `written` in another order of dimensions.
    """
    if read.data_type != written.data_type:
        return None
    pairs = enumerate(zip(written.sizes, strides_of(written), strict=True))
    places = {(size, step): d for d, (size, step) in pairs if size > 1}
    wanted = [pair for pair in zip(read.sizes, strides_of(read), strict=True) if pair[0] > 1]
    if sorted(wanted) != sorted(places):
        return None
    return [places[pair] for pair in wanted]


def _holds(wide: TensorDataType, narrow: TensorDataType) -> bool:
    """Return whether a type has each number of another one, so that a cast to it rounds nothing."""
    a, b = wide.dtype, narrow.dtype
    if not (a.kind in "iuf" and b.kind in "iuf"):
        return a == b
    # NumPy says that FLOAT64 has each integer of 64 bits, which it has not.
    return np.can_cast(b, a) and (a.kind == b.kind or b.itemsize < 8)


def _is_cast_back(second: Found, first: Found) -> bool:
    is_same = same_layout(first[0].desc, second.output)
    is_same = is_same and same_layout(second[0].desc, first.output)
    is_exact = _holds(first.output.data_type, second.output.data_type)
    return is_same and is_exact and _may_stand(first[0], second)


def _uncast(second: Found, first: Found) -> Expression:
    """Return the first input; a CAST of it where bfloat16 may stand for FLOAT32, as CAST ends."""
    if second.output.data_type == TensorDataType.FLOAT32:
        return dml.cast(first[0], "FLOAT32")
    return _read(first[0], second.output)


IDENTITIES = Rewrite(
    "identities", ("ELEMENT_WISE_IDENTITY",), lambda node: _read(node[0], node.output), _is_identity
)
TRANSPOSES = Rewrite(
    "pairs of transposes",
    ("ELEMENT_WISE_IDENTITY", "ELEMENT_WISE_IDENTITY"),
    lambda second, first: _read(first[0], second.output),
    _is_undone,
)
CASTS = Rewrite("pairs of casts", ("CAST", "CAST"), _uncast, _is_cast_back)
