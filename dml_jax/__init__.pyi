"""DirectML's operators on XLA: descriptors that are checked, and are pure JAX functions.

Made by tools/stubs.py.
"""

from dml_jax import (
    enums as enums,
    functional as functional,
    operators as operators,
)
from dml_jax.binding_table import (
    BindingTable as BindingTable,
    Buffer as Buffer,
    BufferBinding as BufferBinding,
)
from dml_jax.compiled import (
    Compiled as Compiled,
    compile as compile,
)
from dml_jax.descriptor import (
    ScaleBias as ScaleBias,
    Size2D as Size2D,
)
from dml_jax.dispatch.model import (
    Model as Model,
    load_model as load_model,
)
from dml_jax.dispatch.run import (
    run_model as run_model,
)
from dml_jax.enums import (
    AxisDirection as AxisDirection,
    ConvolutionDirection as ConvolutionDirection,
    ConvolutionMode as ConvolutionMode,
    DepthSpaceOrder as DepthSpaceOrder,
    FeatureLevel as FeatureLevel,
    InterpolationMode as InterpolationMode,
    IsInfinityMode as IsInfinityMode,
    MatrixTransform as MatrixTransform,
    MultiheadAttentionMaskType as MultiheadAttentionMaskType,
    PaddingMode as PaddingMode,
    QuantizationType as QuantizationType,
    RandomGeneratorType as RandomGeneratorType,
    RecurrentNetworkDirection as RecurrentNetworkDirection,
    ReduceFunction as ReduceFunction,
    RoundingMode as RoundingMode,
    TensorDataType as TensorDataType,
    TensorFlags as TensorFlags,
)
from dml_jax.errors import (
    DmlError as DmlError,
    Fault as Fault,
)
from dml_jax.functional import (
    argmax as argmax,
    argmin as argmin,
    clip as clip,
    clip_grad as clip_grad,
    depth_to_space as depth_to_space,
    join as join,
    reduce as reduce,
    space_to_depth as space_to_depth,
    split as split,
    sqrt as sqrt,
    tile as tile,
)
from dml_jax.graph import (
    ConstantNode as ConstantNode,
    Expression as Expression,
    Graph as Graph,
    GraphBuilder as GraphBuilder,
    InputEdge as InputEdge,
    IntermediateEdge as IntermediateEdge,
    OperatorNode as OperatorNode,
    OutputEdge as OutputEdge,
)
from dml_jax.host import (
    release_host_memory as release_host_memory,
    reuse_host_memory as reuse_host_memory,
)
from dml_jax.operator import (
    OPERATORS as OPERATORS,
    FusedActivation as FusedActivation,
    Operator as Operator,
    operator_from_json as operator_from_json,
)
from dml_jax.operators import (
    Argmax as Argmax,
    Argmin as Argmin,
    DepthToSpace as DepthToSpace,
    DepthToSpace1 as DepthToSpace1,
    ElementWiseClip as ElementWiseClip,
    ElementWiseClip1 as ElementWiseClip1,
    ElementWiseClipGrad as ElementWiseClipGrad,
    ElementWiseClipGrad1 as ElementWiseClipGrad1,
    ElementWiseSqrt as ElementWiseSqrt,
    Join as Join,
    Reduce as Reduce,
    SpaceToDepth as SpaceToDepth,
    SpaceToDepth1 as SpaceToDepth1,
    Split as Split,
    Tile as Tile,
)
from dml_jax.tensor import (
    TensorDesc as TensorDesc,
    calc_buffer_tensor_size as calc_buffer_tensor_size,
)

__version__: str

__all__ = [
    "OPERATORS",
    "Argmax",
    "Argmin",
    "AxisDirection",
    "BindingTable",
    "Buffer",
    "BufferBinding",
    "Compiled",
    "ConstantNode",
    "ConvolutionDirection",
    "ConvolutionMode",
    "DepthSpaceOrder",
    "DepthToSpace",
    "DepthToSpace1",
    "DmlError",
    "ElementWiseClip",
    "ElementWiseClip1",
    "ElementWiseClipGrad",
    "ElementWiseClipGrad1",
    "ElementWiseSqrt",
    "Expression",
    "Fault",
    "FeatureLevel",
    "FusedActivation",
    "Graph",
    "GraphBuilder",
    "InputEdge",
    "IntermediateEdge",
    "InterpolationMode",
    "IsInfinityMode",
    "Join",
    "MatrixTransform",
    "Model",
    "MultiheadAttentionMaskType",
    "Operator",
    "OperatorNode",
    "OutputEdge",
    "PaddingMode",
    "QuantizationType",
    "RandomGeneratorType",
    "RecurrentNetworkDirection",
    "Reduce",
    "ReduceFunction",
    "RoundingMode",
    "ScaleBias",
    "Size2D",
    "SpaceToDepth",
    "SpaceToDepth1",
    "Split",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "Tile",
    "argmax",
    "argmin",
    "calc_buffer_tensor_size",
    "clip",
    "clip_grad",
    "compile",
    "depth_to_space",
    "join",
    "load_model",
    "operator_from_json",
    "reduce",
    "release_host_memory",
    "reuse_host_memory",
    "run_model",
    "space_to_depth",
    "split",
    "sqrt",
    "tile",
]
