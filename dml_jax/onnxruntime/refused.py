"""Names of ONNX Runtime's API that are there, and are refused in words where they are used."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dml_jax.onnxruntime import errors
from dml_jax.system.refused_names import refused_name

_Class = TypeVar("_Class", bound=type)

ADAPTERS = "adapters are not taken: pass their arrays as inputs, or merge them into the model"
COMPILED = "compiled models are no files: the config entry session.dml_jax_cache keeps programs"
DEVICES = "providers and their devices come from JAX: choose them with providers=[...]"
MEMORY = "memory is JAX's own: OrtValue and io_binding() say where values lie"
TUNED = "sessions are not tuned: load_onnx(model).tune() tunes a network on this machine"
SPARSE = "sparse tensors are not taken: pass the dense array"
_NATIVE = "this is native code of ONNX Runtime: call it in a program of the package onnxruntime"


def _refuse_name(name: str, reason: str) -> Any:
    def error_of(used: str) -> errors.NotImplemented:
        return errors.NotImplemented(f"{used}: {reason}")

    return refused_name(name, error_of, f"Refused: {reason}.")


def refusing(reason: str, names: str) -> Callable[[_Class], _Class]:
    """Return the decorator of a class whose methods `names` are refused for a reason."""

    def decorate(cls: _Class) -> _Class:
        for name in names.split():
            setattr(cls, name, _refuse_name(f"{cls.__name__}.{name}", reason))
        return cls

    return decorate


def _classes(names: Mapping[str, str]) -> dict[str, Any]:
    pairs = ((name, reason) for reason, listed in names.items() for name in listed.split())
    return {name: _refuse_name(name, reason) for name, reason in pairs}


MODULE = _classes(
    {
        ADAPTERS: "AdapterFormat LoraAdapter",
        COMPILED: "ModelCompiler ModelPackage ModelPackageComponentContext ModelPackageContext "
        "ModelPackageOptions ModelPackageWriteMode OrtCompileApiFlags OrtEpContextData "
        "OrtEpContextDataBuffer OrtExternalInitializerInfo",
        DEVICES: "OrtEpAssignedNode OrtEpAssignedSubgraph OrtEpDevice OrtHardwareDevice "
        "OrtExecutionProviderDevicePolicy OrtHardwareDeviceType get_ep_devices "
        "register_execution_provider_library unregister_execution_provider_library",
        MEMORY: "OrtArenaCfg OrtMemoryInfo OrtSyncStream create_and_register_allocator "
        "create_and_register_allocator_v2",
        SPARSE: "SparseTensor",
    }
)
"""The names of the module that are refused."""

NATIVE = MODULE | _classes(
    {
        _NATIVE: "ArenaExtendStrategy OrtCompiledModelCompatibility OrtValueVector "
        "OrtDeviceEpIncompatibilityReason SessionObjectInitializer SparseBlockSparseView "
        "SparseCooView SparseCsrView get_all_operator_schema get_all_opkernel_def "
        "get_compatibility_info_from_model get_compatibility_info_from_model_bytes "
        "get_default_session_options get_hardware_device_ep_incompatibility_details "
        "get_hardware_devices get_model_compatibility_for_ep_devices get_registered_ep_kernel_defs "
        "get_session_initializer opkernel pack_fp4_weights_for_cuda_moe_gemm quantize_matmul_2bits "
        "quantize_matmul_4bits quantize_matmul_8bits quantize_matmul_bnb4 "
        "quantize_qdq_matmul_2bits quantize_qdq_matmul_4bits schemadef"
    }
)
"""The names of `onnxruntime_pybind11_state` that are refused."""
