"""GEMM of FLOAT16 becomes casts around a GEMM of FLOAT32, which gives the same numbers.

A product of FLOAT16 is computed in FLOAT32 and rounded once. As a node of its own, the cast of a
weight follows from the weight alone, so that a network computes it once, not at each call: for
devices whose products of FLOAT16 are slow, such as CPUs.
"""

from dml_jax import functional as dml
from dml_jax.enums import TensorDataType
from dml_jax.graph import Expression
from dml_jax.rewrite.pattern import Found, Rewrite

_MATRICES = ("a_tensor", "b_tensor", "c_tensor")


def _is_half(node: Found) -> bool:
    is_weight = any(node[name] is not None and node.is_fixed(name) for name in _MATRICES[:2])
    return node.output.data_type == TensorDataType.FLOAT16 and is_weight


def _widen(node: Found) -> Expression:
    given = {n: node[n] if node[n] is None else dml.cast(node[n], "FLOAT32") for n in _MATRICES}
    descs = {n: None if x is None else x.desc for n, x in given.items()}
    output = node.output.replace(data_type="FLOAT32", total_tensor_size_in_bytes=None)
    made = node.operator.replace(**descs, output_tensor=output)
    return dml.cast(made(*(x for x in given.values() if x is not None)), "FLOAT16")


PRODUCTS = Rewrite("products in FLOAT32", ("GEMM",), _widen, _is_half)
