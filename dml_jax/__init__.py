"""DirectML's operators on XLA: descriptors that are checked, and are pure JAX functions."""

from dml_jax.descriptor import ScaleBias
from dml_jax.enums import (
    AxisDirection,
    DepthSpaceOrder,
    FeatureLevel,
    ReduceFunction,
    TensorDataType,
    TensorFlags,
)
from dml_jax.errors import DmlError, Fault
from dml_jax.operator import OPERATORS, Operator, operator_from_json
from dml_jax.operators import DepthToSpace1, ElementWiseClip, Reduce, Split, Tile
from dml_jax.tensor import TensorDesc, calc_buffer_tensor_size

__version__ = "0.1.0"

__all__ = [
    "OPERATORS",
    "AxisDirection",
    "DepthSpaceOrder",
    "DepthToSpace1",
    "DmlError",
    "ElementWiseClip",
    "Fault",
    "FeatureLevel",
    "Operator",
    "Reduce",
    "ReduceFunction",
    "ScaleBias",
    "Split",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "Tile",
    "calc_buffer_tensor_size",
    "operator_from_json",
]
