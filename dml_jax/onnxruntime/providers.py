"""Execution providers: which of ONNX Runtime's names stand for the devices that JAX has."""

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from dml_jax.onnxruntime.errors import EPFail

CPU = "CPUExecutionProvider"
ON_GPU = ("CUDAExecutionProvider", "DmlExecutionProvider")

ALL = (
    *("TensorrtExecutionProvider", "CUDAExecutionProvider", "MIGraphXExecutionProvider"),
    *("OpenVINOExecutionProvider", "DnnlExecutionProvider", "VitisAIExecutionProvider"),
    *("QNNExecutionProvider", "CoreMLExecutionProvider", "DmlExecutionProvider"),
    *("WebGpuExecutionProvider", "XnnpackExecutionProvider", "CANNExecutionProvider"),
    *("AzureExecutionProvider", "CPUExecutionProvider"),
)


@functools.cache
def gpus() -> tuple[Any, ...]:
    """Return the GPUs of JAX."""
    try:
        return tuple(jax.local_devices(backend="gpu"))
    except RuntimeError:
        return ()


def get_available_providers() -> list[str]:
    """Return the providers that are there, in the order of preference."""
    return [*(ON_GPU if gpus() else ()), CPU]


def get_all_providers() -> list[str]:
    """Return the providers that ONNX Runtime has names for, in the order of preference."""
    return [*ALL]


def get_device() -> str:
    """Return "GPU" where JAX has one, else "CPU"."""
    return "GPU" if gpus() else "CPU"


@dataclass(frozen=True)
class Providers:
    """The providers of a session.

    Attributes:
        names: their names, the one that computes first.
        options: the options of each, by name.
    """

    names: tuple[str, ...]
    options: Mapping[str, Mapping[str, str]]

    @property
    def device(self) -> Any:
        """Return the device that computes; None where JAX's own choice is this one.

        Raises `EPFail` where no GPU has the number `device_id`.
        """
        first = self.names[0]
        if first == CPU:
            return jax.local_devices(backend="cpu")[0] if gpus() else None
        text = str(self.options[first].get("device_id", 0))
        if not text.isdecimal() or int(text) >= len(gpus()):
            count = len(gpus())
            raise EPFail(f"expected device_id of {first} to be in [0, {count - 1}], got {text!r}")
        return gpus()[int(text)]


def chosen(providers: Any, options: Sequence[Mapping[str, Any]] | None) -> Providers:
    """Return the providers that a session gets: those that are there, and the CPU as the last.

    What is not there gives a warning that begins as ONNX Runtime's, which programs filter.

    Args:
        providers: names, or pairs of a name and options; None for the first that is there.
        options: the options of each provider.
    """
    known = get_available_providers()
    providers = [providers] if isinstance(providers, str) else providers
    given = known[:1] if providers is None else [*providers]
    rest = options if options is not None else [{}] * len(given)
    if len(rest) != len(given):
        warnings.warn(
            f"expected provider_options to have {len(given)} items, as providers, got {len(rest)}",
            UserWarning,
            _OF_THE_CALLER,
        )
        rest = [{}] * len(given)
    found: dict[str, dict[str, str]] = {}
    item: Any
    own: Any
    for item, more in zip(given, rest, strict=True):
        is_pair = isinstance(item, (tuple, list)) and len(item) == 2
        name, own = (item[0], item[1]) if is_pair else (item, more)
        if name in found:
            text = f"Duplicate provider {name!r}: the first one counts"
        elif name in known:
            found[str(name)] = {k: str(v) for k, v in own.items()}
            continue
        else:
            text = f"Specified provider {name!r} is not in available provider names: the CPU "
            text += f"computes. Available providers: {', '.join(map(repr, known))}"
        warnings.warn(text, UserWarning, _OF_THE_CALLER)
    found.setdefault(CPU, {})
    return Providers(tuple(found), found)


_OF_THE_CALLER = 3  # frames up: `chosen`, `InferenceSession`, the program
