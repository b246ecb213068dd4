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
from dml_jax.graph import Expression, FunctionNode
from dml_jax.lowering import matrix
from dml_jax.rewrite.pattern import Found, Rewrite

_BITS, _PER_BYTE = 4, 2


def _refusal(product: Found, weight: Found) -> bool | str:
    """Return why a GEMM does not read the integers that a DEQUANTIZE of a weight reads."""
    gemm, (x, scale, *_) = product.operator, weight.operator.inputs
    if x.data_type.suffix != "UINT4":
        return f"integers are {x.data_type.suffix}, not UINT4"
    if not gemm.trans_b == MatrixTransform.TRANSPOSE != gemm.trans_a:
        return "the second matrix alone has to be transposed"
    is_matrix = len(x.sizes) == 2 and math.prod(gemm.a_tensor.sizes[:-2]) == 1
    is_read = gemm.b_tensor.is_packed and gemm.b_tensor.sizes[-2:] == x.sizes
    if not (is_matrix and is_read and x.is_packed):
        return "the weight is no whole matrix of one batch"
    if scale.sizes[0] != x.sizes[0] or x.sizes[1] // scale.sizes[1] % _PER_BYTE:
        return "a block of one scale is no part of a row of whole bytes"
    is_fixed = weight.is_fixed(*range(len(weight.inputs)))
    return "" if is_fixed else "the integers are computed at each call"


@functools.lru_cache(maxsize=64)
def _product(alpha: float, beta: float, activation: Any) -> Any:
    """Return the function of arrays that JAX traces once for equal products."""
    given = {"bits": _BITS, "alpha": alpha, "beta": beta, "activation": activation}
    return jax.jit(functools.partial(matrix.quantized_gemm, **given))


def _node(product: Found, weight: Found) -> tuple[FunctionNode, dict[int, Any]]:
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
    node = FunctionNode(function, descs, (product.output,), "GEMM of 4 bits")
    return node, {k: x for k, x in enumerate(given) if x is not None}


QUANTIZED = Rewrite("products of quantized weights", ("GEMM", "DEQUANTIZE"), _node, _refusal, 1)
