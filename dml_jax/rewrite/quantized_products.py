"""Products of quantized weights read these as they are: bytes of two integers of 4 bits.

A matrix that a DEQUANTIZE makes of a weight would be stored as floats at each call. A product that
reads the integers itself needs no more memory than the file, and a GPU has a form of it for one row
that stores nothing.
"""

import functools
import math
from typing import Any

import jax

from dml_jax.enums import MatrixTransform
from dml_jax.graph import Expression, FunctionNode, Graph, OperatorNode
from dml_jax.lowering import matrix
from dml_jax.rewrite.pattern import Copy, Found

_BITS, _PER_BYTE = 4, 2


class QuantizedProducts:
    """Makes one node of a GEMM and the DEQUANTIZE of a weight that it multiplies by."""

    name = "products of quantized weights"

    def once(self, graph: Graph) -> tuple[Graph, int]:
        """Return the graph whose products read quantized weights, and their number."""
        pairs = {index: b for index in range(len(graph.nodes)) if (b := _weight(graph, index)) >= 0}
        if not pairs:
            return graph, 0
        made, count = Copy(graph), 0
        for index, node, _ in made.plan():
            if index in pairs:
                product, weight = made.found(index), made.found(pairs[index])
                if weight.is_fixed(*range(len(weight.inputs))):
                    other, inputs = _node(product, weight, node.name)
                    made.add(index, other, inputs)
                    count += 1
                    continue
            made.add(index, node)
        return (made.build(), count) if count else (graph, 0)


def _weight(graph: Graph, index: int) -> int:
    """Return the node that dequantizes what a GEMM multiplies by; -1 where there is none."""
    node = graph.nodes[index]
    if not isinstance(node, OperatorNode) or node.operator.short_name != "GEMM":
        return -1
    source, _ = graph.reads[index].get(1, (-1, 0))
    b = graph.nodes[source] if source >= 0 else None
    if not isinstance(b, OperatorNode) or b.operator.short_name != "DEQUANTIZE":
        return -1
    gemm, dequantize = node.operator, b.operator
    x, scale, *_ = dequantize.inputs
    is_turned = gemm.trans_b == MatrixTransform.TRANSPOSE != gemm.trans_a
    is_matrix = len(x.sizes) == 2 and math.prod(gemm.a_tensor.sizes[:-2]) == 1
    is_read = gemm.b_tensor.is_packed and gemm.b_tensor.sizes[-2:] == x.sizes
    if not (is_turned and is_matrix and is_read and x.is_packed and x.data_type.suffix == "UINT4"):
        return -1
    in_rows = scale.sizes[0] == x.sizes[0] and x.sizes[1] // scale.sizes[1] % _PER_BYTE == 0
    return source if in_rows else -1


@functools.lru_cache(maxsize=64)
def _product(alpha: float, beta: float, activation: Any) -> Any:
    """Return the function of arrays that JAX traces once for equal products."""
    given = {"bits": _BITS, "alpha": alpha, "beta": beta, "activation": activation}
    return jax.jit(functools.partial(matrix.quantized_gemm, **given))


def _node(product: Found, weight: Found, name: str | None) -> tuple[FunctionNode, dict[int, Any]]:
    """Return the node of both, and its inputs by their place."""
    gemm = product.operator
    integers, scale, *zero = weight.inputs
    rows, width = integers.sizes
    blocks = scale.sizes[1]
    sizes = (rows, blocks, width // blocks // _PER_BYTE)
    packed = integers.reinterpret(sizes, None, "UINT8")
    c = product["c_tensor"]
    given: list[Expression | None] = [product["a_tensor"], packed, c, scale, *zero]
    run = _product(gemm.alpha, gemm.beta, gemm.fused_activation)

    def function(_: Any, a: Any, packed: Any, c: Any, scale: Any, zero: Any = None) -> list[Any]:
        return [run(a, packed, scale, zero, c)]

    descs = tuple(None if x is None else x.desc for x in given)
    node = FunctionNode(function, descs, (product.output,), "GEMM of 4 bits", name=name)
    return node, {k: x for k, x in enumerate(given) if x is not None}


QUANTIZED = QuantizedProducts()
