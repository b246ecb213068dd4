"""Which of XLA's kernels compute a network: options of the compiler, by a rule.

XLA's CPU has products and convolutions of YNNPACK, and those of Eigen. The rule is what the
networks of `benchmarks/networks.json` are fastest with on two cores. It needs no measurement at
load.
"""

import math
from collections.abc import Mapping
from typing import Any

import jax

from dml_jax.enums import MatrixTransform, TensorDataType
from dml_jax.graph import Graph

YNNPACK = "xla_cpu_experimental_ynn_fusion_type"
"""The option that lists what YNNPACK computes: products (DOT), convolutions, both or nothing."""

PRODUCTS, CONVOLUTIONS = (
    f"LIBRARY_FUSION_TYPE_INDIVIDUAL_{name}" for name in ("DOT", "CONVOLUTION")
)
TRITON = "xla_gpu_enable_triton_gemm"
"""The option by which XLA also makes kernels of products for a GPU, and times them."""

_ROWS = 16  # of a product, from which YNNPACK's is the faster one
_INTEGER = ("MATRIX_MULTIPLY_INTEGER", "QUANTIZED_LINEAR_MATRIX_MULTIPLY", "CONVOLUTION_INTEGER")


def by_rule(graph: Graph) -> Mapping[str, Any]:
    """Return XLA's options for the program of a graph on a CPU, by its shapes and types.

    YNNPACK computes graphs whose work is products of integers or of many rows, and Eigen the
    others, but for products that are many times slower there.
    """
    operators = [*graph.operators]
    rows, convolutions = (sum(map(count, operators)) for count in (_of_rows, _of_convolutions))
    needs = any(map(_needs_ynnpack, operators))
    if rows >= convolutions and (needs or rows):
        return {}
    return {YNNPACK: PRODUCTS if needs else ""}


def by_rule_of_gpu(graph: Graph, precision: str | None) -> Mapping[str, Any]:
    """Return XLA's options for the program of a graph on a GPU, by its types.

    Of products of FLOAT32 in full precision cuBLAS has the fastest kernels, and XLA takes long to
    try its own.
    """
    products = {
        operator.output_tensor.data_type
        for operator in graph.operators
        if operator.short_name in ("GEMM", "CONVOLUTION")
    }
    is_set = jax.config.jax_default_matmul_precision  # pyright: ignore[reportAttributeAccessIssue]
    is_exact = precision == "float32" or (precision is None and not is_set)
    is_full = products == {TensorDataType.FLOAT32} and is_exact
    return {TRITON: False} if is_full else {}


def _needs_ynnpack(operator: Any) -> bool:
    """Return whether Eigen's product is many times slower."""
    if operator.short_name == "GEMM":
        return operator.trans_b == MatrixTransform.TRANSPOSE and operator.a_tensor.sizes[-2] > 1
    return operator.short_name.startswith(_INTEGER) or "QUANTIZED" in operator.short_name


def _of_rows(operator: Any) -> int:
    """Return the multiplications of a product of many rows."""
    if operator.short_name != "GEMM" or operator.a_tensor.sizes[-2] < _ROWS:
        return 0
    return math.prod(operator.output_tensor.sizes) * operator.a_tensor.sizes[-1]


def _of_convolutions(operator: Any) -> int:
    """Return the multiplications of a convolution."""
    if operator.short_name != "CONVOLUTION":
        return 0
    w = operator.filter_tensor.sizes
    return math.prod(operator.output_tensor.sizes) * math.prod(w[1:])


def compiled_with(lowered: jax.stages.Lowered, options: Mapping[str, Any]) -> jax.stages.Compiled:
    """Compile a program with options of XLA; without them where this XLA does not know one."""
    try:
        return lowered.compile(compiler_options=dict(options) or None)
    except RuntimeError as error:
        if not are_refused(error):
            raise
        return lowered.compile()


def are_refused(error: Exception) -> bool:
    """Return whether JAX raised an error because of options of XLA.

    XLA may not know one, and JAX takes options for programs of their own alone: not for a part of
    another one, under jax.jit or jax.grad say.
    """
    return are_unknown(error) or "`compiler_options`" in str(error)


def are_unknown(error: Exception) -> bool:
    """Return whether JAX raised an error because this XLA does not know an option at all."""
    return "No such compile option" in str(error)
