"""Convolutions of arrays {N, C, spatial...} with filters {channels, channels, spatial...}.

`api`, `transposed` and `integers` have the functions that operators call. `cost` chooses a form by
sizes, and `forms` and `winograd` compute it.
"""

from dml_jax.lowering.convolution.api import convolution
from dml_jax.lowering.convolution.cost import NCHW, NHWC_HWIO, NHWC_OHWI
from dml_jax.lowering.convolution.integers import integer_convolution, quantize_sums
from dml_jax.lowering.convolution.transposed import transpose_convolution

__all__ = [
    "NCHW",
    "NHWC_HWIO",
    "NHWC_OHWI",
    "convolution",
    "integer_convolution",
    "quantize_sums",
    "transpose_convolution",
]
