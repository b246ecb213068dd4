"""Functions of arrays, for nodes that have no DirectML operator: `load_onnx(fallback=True)`.

A fallback takes its `Node`, for attributes, and an array for each input, None for one that is
left out. It returns an array for each output. Arrays are as ONNX has them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from onnx.helper import np_dtype_to_tensor_dtype

from dml_jax.errors import DmlError, Fault, Sentence, Unquoted
from dml_jax.onnx.files.types import Type, expect_no_more
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import as_list
from dml_jax.onnx.nodes.tensor import Padded
from dml_jax.onnx.sizes.integer_ranges import output_bounds


def curing_types(node: Node) -> list[Type | None] | None:
    """Return the types that a fallback gives of a node; None where it cannot compute it.

    64-bit integers must fit 32 bits while these are all that JAX computes with.
    """
    if node.fallback is None:
        return None
    try:
        kinds, _ = fallback_types(node)
        for index, kind in enumerate(kinds):
            _ = kind and output_bounds(node, index, kind)
    except DmlError:
        return None
    return kinds


def results_of(node: Node, arrays: Sequence[Any]) -> list[Any]:
    """Return the results of a fallback, which broadcasts arrays of different ranks.

    A result whose size depends on data is `Padded`.
    """
    if node.fallback is None:
        raise node.refusal("op type", "have a fallback", node.op_type)
    with jax.numpy_rank_promotion("allow"):
        return [*as_list(node.fallback(node, *arrays))]


def known_results(node: Node) -> list[np.ndarray]:
    """Return the results of the fallback of a node whose inputs are known, in ONNX's types.

    A result whose size depends on data has this size. Raises `DmlError` where there is no function,
    or where it cannot compute the results.
    """
    kinds, _ = fallback_types(node)
    given = [t and t.array.astype(t.type.array_dtype) for t in node.inputs]
    found = []
    for made, kind in zip(jax.jit(partial(results_of, node))(given), kinds, strict=False):
        array = np.asarray(_value(made))
        if isinstance(made, Padded):
            array = array.take(range(int(made.count)), made.axis)
        found.append(array if kind is None else array.astype(kind.dtype))
    return found


def _value(result: Any) -> Any:
    return result.value if isinstance(result, Padded) else result


def in_order(node: Node, arrays: Sequence[Any]) -> list[Any]:
    """Return the arrays that a node's outputs are, then the counts of its padded outputs."""
    pairs = zip(results_of(node, arrays), node.proto.output, strict=False)
    asked = [result for result, name in pairs if name]
    return [*map(_value, asked), *(r.count for r in asked if isinstance(r, Padded))]


def fallback_types(node: Node) -> tuple[list[Type | None], list[int | None]]:
    """Return the types of the outputs of a fallback; None for one that is not asked for.

    The second list has the dimension that is padded, for an output whose size depends on data.

    Raises `DmlError` where JAX cannot compute it, or where ONNX says other types.
    """
    given = [t and jax.ShapeDtypeStruct(t.shape, t.type.array_dtype) for t in node.inputs]
    try:
        results = jax.eval_shape(partial(results_of, node), given)
    except DmlError:
        raise
    except (TypeError, ValueError, IndexError) as error:
        # ONNX does not infer nodes of other domains, so that arrays may have other ranks, sizes or
        # types than the function takes: JAX, or the index of a size, says so.
        text = str(error).strip().splitlines()
        rule = Sentence(f"cannot be computed by JAX: {text[0] if text else type(error).__name__}")
        raise DmlError([Fault("", "", rule, "")]) from None
    kinds: list[Type | None] = []
    for index, name in enumerate(node.proto.output):
        if not name:
            kinds.append(None)
            continue
        if index >= len(results) or results[index] is None:
            raise node.refusal(f"output {index}", "be left out", Unquoted(f"'{name}'"))
        made, known = _value(results[index]), node.types[index]
        element = np_dtype_to_tensor_dtype(made.dtype) if known is None else known.element
        kind = Type(element, tuple(made.shape))
        where, wanted = f"output {index}", known.shape if known else None
        rule = f"have shape {list(wanted or ())}"
        node.expect(wanted in (None, kind.shape), where, rule, list(made.shape))
        expect_no_more(kind, where)
        rule, own = f"be {kind.array_dtype.name}", Unquoted(made.dtype.name)
        node.expect(made.dtype == kind.array_dtype, where, rule, own)
        kinds.append(kind)
    return kinds, [r.axis if isinstance(r, Padded) else None for r in results]
