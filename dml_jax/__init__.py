"""DirectML's operators on XLA: descriptors that are checked, and are pure JAX functions.

The package has four wings. Each imports itself and the wings below it:

- Tools: `cli`, `bench`, `show`.
- Compatible APIs: `onnxruntime`, `genai`, `pydirectml`, `dxdispatch`.
- Networks: `onnx`, `rewrite`.
- Core: `functional`, `memory`, `runtime`, `operators`, `graph`, `operator`, `constraints`,
  `description`, `lowering`, `enums`, `system`, `facts`, `errors`.
"""

import importlib.util
import opcode
import sys
from typing import Any

__version__ = "0.4.0"

# Where each public name is defined. The operators (`dml_jax.operators`) and the functions
# (`dml_jax.functional`) are found there; everything is imported when it is asked for.
_PLACES = {
    "memory.binding_table": ("BindingTable", "Buffer", "BufferBinding"),
    "memory.compiled": ("Compiled", "compile"),
    "description.descriptor": ("ScaleBias", "Size2D"),
    "dxdispatch.model": ("Model",),
    "dxdispatch.parsing": ("load_model",),
    "dxdispatch.run_model": ("run_model",),
    "enums": (
        "AxisDirection",
        "ConvolutionDirection",
        "ConvolutionMode",
        "DepthSpaceOrder",
        "FeatureLevel",
        "InterpolationMode",
        "IsInfinityMode",
        "MatrixTransform",
        "MultiheadAttentionMaskType",
        "PaddingMode",
        "QuantizationType",
        "RandomGeneratorType",
        "RecurrentNetworkDirection",
        "ReduceFunction",
        "RoundingMode",
        "TensorDataType",
        "TensorFlags",
    ),
    "errors": ("DmlError", "Fault"),
    "graph": (
        "ConstantNode",
        "Expression",
        "Graph",
        "GraphBuilder",
        "InputEdge",
        "IntermediateEdge",
        "OperatorNode",
        "OutputEdge",
        "TensorPolicy",
    ),
    "onnx": ("load_onnx",),
    "operator": ("OPERATORS", "FusedActivation", "Operator", "operator_from_json"),
    "description.tensor": ("TensorDesc", "calc_buffer_tensor_size"),
}
_MODULES = ("enums", "functional", "operators")
_DRAWN = {
    **dict.fromkeys(("Graph", "GraphBuilder", "load_onnx"), "show.diagrams"),
    **dict.fromkeys(("Model", "load_model"), "show.dxdispatch_models"),
}
_PLACE_OF = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _PLACE_OF:
        value = getattr(importlib.import_module(f"dml_jax.{_PLACE_OF[name]}"), name)
        if name in ("Expression", "GraphBuilder"):
            _of("functional")  # registers what the signs of expressions mean
        if name in _DRAWN:
            _of(_DRAWN[name])  # registers how notebooks draw a graph or a model
    elif name == "__all__":
        return [*_PLACE_OF, *_of("operators").__all__, *_of("functional").__all__]
    elif name in _MODULES:
        value = _of(name)
    elif name in _of("facts").names_of_classes():
        value = getattr(_of("operators"), name)
    elif name in _of("facts").functions():
        value = getattr(_of("functional"), name)
    else:
        if importlib.util.find_spec(f"{__name__}.{name}") is not None:  # asked, or being imported
            raise AttributeError(
                f"{__name__}.{name} is a module: write `import {__name__}.{name}` first"
            )
        hint = "" if name.startswith("_") else _of("show.names").attribute_hint(name)
        # Python drops the text of an AttributeError where a name is imported.
        error = ImportError if hint and _is_import(sys._getframe(1)) else AttributeError
        raise error(f"module {__name__!r} has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def _is_import(frame: Any) -> bool:
    """Return whether the code of a frame is at `from ... import ...`."""
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


def _of(module: str) -> Any:
    return importlib.import_module(f"{__name__}.{module}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
