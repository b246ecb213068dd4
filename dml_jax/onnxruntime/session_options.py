"""`SessionOptions` and `RunOptions`: fields with ONNX Runtime's names, types and defaults."""

import contextlib
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import ModelProto, numpy_helper

from dml_jax.errors import nearest, with_article
from dml_jax.onnxruntime import errors
from dml_jax.onnxruntime.enumerations import ExecutionMode, ExecutionOrder, GraphOptimizationLevel
from dml_jax.onnxruntime.errors import sentence
from dml_jax.onnxruntime.refused import ADAPTERS, COMPILED, DEVICES, refusing
from dml_jax.system.files import cache_folder

PROGRAMS_ENTRY = "session.dml_jax_programs"
QUICK_ENTRY = "session.dml_jax_quick_compile"
CACHE_ENTRY = "session.dml_jax_cache"
DEFAULTS = {CACHE_ENTRY: "0"}
LOGGER = {"severity": -1}
"""The severity of sessions that have none; with -1 they write to terminals alone."""


class _Fields:
    """An object with the public attributes of its class alone, each of the type of its default.

    Attributes:
        entries: the config entries, by key.
    """

    _defaults: ClassVar[Mapping[str, Any]] = {}
    entries: dict[str, str]

    def __init_subclass__(cls) -> None:
        """Take note of the defaults."""
        cls._defaults = {name: vars(cls)[name] for name in cls.__annotations__ if name in vars(cls)}

    def __init__(self) -> None:
        vars(self).update(self._defaults, entries={})

    def __setattr__(self, name: str, value: Any) -> None:
        kind = type(self).__name__
        if name not in self._defaults:
            text = f"{kind!r} object has no attribute {name!r}{nearest(name, self._defaults)}"
            raise AttributeError(text)
        wanted = type(self._defaults[name])
        if wanted is int and not isinstance(value, bool):
            with contextlib.suppress(TypeError):  # the check below says it
                value = operator.index(value)
        if wanted is bool and isinstance(value, int) and value in (0, 1):
            value = bool(value)
        if not isinstance(value, wanted):
            given = shown(value)
            raise TypeError(f"expected {kind}.{name} to be {with_article(wanted)}, got {given}")
        object.__setattr__(self, name, value)

    def _add(self, key: Any, value: Any) -> None:
        """Add a config entry."""
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"expected a config entry to be two texts, got {key!r}: {value!r}")
        self.entries[key] = value

    def _get(self, key: str) -> str:
        """Return a config entry. Raises `RuntimeError` where there is none."""
        if key not in self.entries:
            text = f"expected {type(self).__name__} to have a config entry {key!r}"
            raise RuntimeError(f"{text}{nearest(key, self.entries)}")
        return self.entries[key]


def shown(value: Any) -> str:
    """Return how a message shows a value."""
    return f"{value!r} ({with_article(type(value))})"


@refusing(DEVICES, "add_provider_for_devices set_load_cancellation_flag")
@refusing(DEVICES, "set_provider_selection_policy set_provider_selection_policy_delegate")
@refusing(COMPILED, "clear_ep_context_data_read_func set_ep_context_data_read_func")
class SessionOptions(_Fields):
    """The options of a session.

    Those of threads, memory, optimization and order are for ONNX Runtime; XLA decides these things
    by itself. A session whose `log_severity_level` is at most 2, or is -1 on a terminal, writes one
    line to stderr where a run compiles for some seconds. `optimized_model_filepath` and
    `register_custom_ops_library` are refused.
    """

    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True

    sizes_by_name: dict[str, int]
    sizes_by_denotation: dict[str, int]
    initializers: dict[str, Any]
    files: dict[str, bytes]
    providers: list[Any]

    def __init__(self) -> None:
        super().__init__()
        own = {"sizes_by_name": {}, "sizes_by_denotation": {}, "initializers": {}, "providers": []}
        vars(self).update(own, files={})

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give the free dimensions of that name a size."""
        self.sizes_by_name[name] = operator.index(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give the free dimensions of that denotation a size."""
        self.sizes_by_denotation[denotation] = operator.index(size)

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Add an entry.

        `session.dml_jax_programs` is the number of programs in memory. "0" for
        `session.dml_jax_quick_compile` compiles all programs well before they answer, as
        `use_deterministic_compute` does. `session.dml_jax_cache` is the folder where programs are
        kept for other processes; "1" is the one of `load_onnx(cache=True)`, "0" keeps none.
        `python -m dml_jax.onnxruntime PROGRAM.py` keeps them, and `--no-cache` before it does not.

        Raises `InvalidArgument` for a key of dml_jax that there is not.
        """
        own = (PROGRAMS_ENTRY, QUICK_ENTRY, CACHE_ENTRY)
        if key.startswith("session.dml_jax") and key not in own:
            text = f"expected the config entry to be one of {', '.join(own)}{nearest(key, own)}"
            raise errors.InvalidArgument(f"{text}, got {key!r}")
        self._add(key, value)

    get_session_config_entry = _Fields._get

    def add_initializer(self, name: str, ortvalue: Any) -> None:
        """Put a value in place of the initializer of that name."""
        self.initializers[name] = ortvalue

    def add_external_initializers(self, names: Sequence[str], ortvalues: Sequence[Any]) -> None:
        """Put values in place of the initializers of these names, also of external ones."""
        self.initializers.update(zip(names, ortvalues, strict=True))

    def add_external_initializers_from_files_in_memory(
        self, file_names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Read external data of a model, whose files have these names, from memory."""
        held = (bytes(memoryview(b)[:n]) for b, n in zip(buffers, lengths, strict=True))
        self.files.update(zip(file_names, held, strict=True))

    def add_provider(self, name: str, options: dict[str, str]) -> None:
        """Add a provider after those that were added before."""
        self.providers.append((name, dict(options)))

    def has_providers(self) -> bool:
        """Return whether a provider was added."""
        return bool(self.providers)

    def register_custom_ops_library(self, path: str) -> None:
        """Raise `NotImplemented`: custom libraries are code for ONNX Runtime."""
        text = f"custom operators cannot come from the library '{path}', whose code is for ONNX "
        text += "Runtime (write the operator as a function of the model: onnx.FunctionProto)"
        raise errors.NotImplemented(text)

    @property
    def program_count(self) -> int:
        """Return how many programs a session keeps. Raises `ValueError` where that is no number."""
        text = self.entries.get(PROGRAMS_ENTRY, "32")
        if not text.isdecimal() or int(text) < 1:
            raise sentence(f"expected {PROGRAMS_ENTRY} to be a number of at least 1, got {text!r}")
        return int(text)

    @property
    def is_quick(self) -> bool:
        """Return whether the first calls of a program may have one that was compiled quickly.

        Raises `ValueError` where the entry is neither "0" nor "1".
        """
        text = self.entries.get(QUICK_ENTRY, "1")
        if text not in ("0", "1"):
            raise sentence(f"expected {QUICK_ENTRY} to be '0' or '1', got {text!r}")
        is_plain = not self.enable_profiling and not self.use_deterministic_compute
        return text == "1" and is_plain

    @property
    def cache(self) -> Path | None:
        """Return the folder where programs are kept; None keeps none."""
        text = self.entries.get(CACHE_ENTRY, DEFAULTS[CACHE_ENTRY])
        return cache_folder() if text == "1" else Path(text) if text not in ("", "0") else None

    def arrays(self, proto: ModelProto) -> dict[str, np.ndarray]:
        """Return the arrays that stand in place of the initializers of a model, by name.

        External data that is in memory goes into the model.
        """
        found = {name: np.asarray(value.numpy()) for name, value in self.initializers.items()}
        for tensor in proto.graph.initializer if self.files else ():
            place = {entry.key: entry.value for entry in tensor.external_data}
            data = self.files.get(place.get("location", ""))
            if data is not None:
                start = int(place.get("offset", 0))
                tensor.raw_data = data[start : start + int(place.get("length", len(data)))]
                tensor.ClearField("data_location")
                tensor.ClearField("external_data")
                found.setdefault(tensor.name, numpy_helper.to_array(tensor))
        return found


@refusing(ADAPTERS, "add_active_adapter")
class RunOptions(_Fields):
    """The options of a run. `terminate` makes it fail before it begins."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False

    add_run_config_entry = _Fields._add  # nothing here reads them
    get_run_config_entry = _Fields._get
