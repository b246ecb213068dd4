"""`InferenceSession`: a model that runs as ONNX Runtime's sessions do."""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax.errors import DmlError, Fault, raise_if, with_article
from dml_jax.onnx.cache_key import digest_of
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.external_data import Folder, files_of
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnxruntime import errors
from dml_jax.onnxruntime.compile_notice import notice_of
from dml_jax.onnxruntime.errors import BRIEF, raised_as
from dml_jax.onnxruntime.host_nodes import HostNodes, knows
from dml_jax.onnxruntime.input_checks import InputChecks, expect_outputs
from dml_jax.onnxruntime.io_binding import IOBinding
from dml_jax.onnxruntime.metadata import ModelMetadata, NodeArg
from dml_jax.onnxruntime.model_parts import (
    Source,
    cycles,
    types_of,
    unknown_nodes,
    unknown_tensors,
    unknown_types,
    unmade_outputs,
    untyped_inputs,
    wrong_outputs,
)
from dml_jax.onnxruntime.ort_values import OrtValue, as_own_arrays
from dml_jax.onnxruntime.profiling import Profile
from dml_jax.onnxruntime.providers import chosen
from dml_jax.onnxruntime.refused import DEVICES, MEMORY, TUNED, refusing
from dml_jax.onnxruntime.session_options import RunOptions, SessionOptions
from dml_jax.onnxruntime.specializations import SplitModel
from dml_jax.runtime.platform import platform
from dml_jax.system.aligned_memory import Pages, align
from dml_jax.system.processor import check_process

_FOLDER_ENTRY = "session.model_external_initializers_file_folder_path"


@refusing(DEVICES, "get_input_epdevices get_provider_graph_assignment_info set_ep_dynamic_options")
@refusing(MEMORY, "get_input_memory_infos get_output_memory_infos run_with_ortvaluevector")
@refusing(MEMORY, "create_ortvalue_from_shape_and_type release_captured_graph")
@refusing(TUNED, "get_tuning_results set_tuning_results")
class InferenceSession:
    """A model in ONNX's format, which runs of arrays of any sizes compute.

    The first run of each set of sizes compiles a program for these, which later runs use.
    INT64, UINT64 and DOUBLE are computed in their own types, whatever `jax_enable_x64` says. Random
    numbers follow from the names of nodes: each run draws the same ones.

    Args:
        path_or_bytes: the path of a file, or its bytes.
        sess_options: `SessionOptions`.
        providers: names, or pairs of a name and options; by default the first that is there.
        provider_options: the options of each provider.
        kwargs: further arguments of ONNX Runtime, which change nothing here.

    Raises `NoSuchFile`, `InvalidProtobuf`, `InvalidGraph` and `Fail` for models that cannot be
    read, and `NotImplemented` for what ONNX Runtime has and this package has not.
    """

    def __init__(
        self,
        path_or_bytes: "str | bytes | os.PathLike[str]",
        sess_options: SessionOptions | None = None,
        providers: "Sequence[str | tuple[str, dict[Any, Any]]] | None" = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        **kwargs: Any,
    ):
        if sess_options is not None and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"expected sess_options to be SessionOptions, got {sess_options!r}")
        with raised_as(errors.Fail):
            check_process()
        self._options = options = sess_options or SessionOptions()
        if options.optimized_model_filepath:
            text = "optimized_model_filepath asks for the graph that ONNX Runtime rewrites, and "
            raise errors.NotImplemented(text + "XLA writes no ONNX (leave it empty)")
        if providers is None and options.providers:
            providers = options.providers
        self._providers = chosen(providers, provider_options)
        prefix, provider = options.profile_file_prefix, self._providers.names[0]
        self._profile = Profile(prefix, provider) if options.enable_profiling else None
        # Programs ask for the start after `end_profiling` too, when the profile is gone.
        self._profile_start = self._profile.start_time_ns if self._profile else 0
        with BRIEF:
            self._source = _source(path_or_bytes, options)
        is_path = not isinstance(path_or_bytes, bytes)
        self._model_path = os.fspath(path_or_bytes) if is_path else None  # Optimum reads it
        graph = self._source.proto.graph
        names, denoted = options.sizes_by_name, options.sizes_by_denotation
        defaults = {t.name: t for t in graph.initializer}
        self._inputs = {
            v.name: NodeArg.of(v, names, denoted) for v in graph.input if v.name not in defaults
        }
        # Files of older versions list each initializer among the inputs: there it is a constant.
        is_replaceable = self._source.proto.ir_version >= 4
        self._overridable = {
            v.name: NodeArg.of_initializer(defaults[v.name])
            for v in graph.input
            if v.name in defaults and is_replaceable
        }
        self._outputs = [NodeArg.of(v, names, denoted) for v in _typed_outputs(self._source)]
        self._checks = InputChecks(self._inputs, self._overridable)
        self.input_names = [*self._inputs, *self._overridable]
        self.output_names = [arg.name for arg in self._outputs]
        self._specialize()
        if self._profile is not None:
            self._profile.add("Session", f"model_loading_{'uri' if is_path else 'array'}", 0)
            self._profile.add("Session", "session_initialization", 0)

    def _specialize(self) -> None:
        self._device, self.pages = self._providers.device, Pages()
        with jax.default_device(self._device):
            self._is_cpu = platform() == "cpu"
        limit = self._options.program_count
        self._stages = SplitModel(self._source, self.output_names, limit, self._device)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """Return the outputs: arrays of NumPy of their own, lists for sequences.

        Args:
            output_names: the outputs that are asked for; None for all.
            input_feed: an array, a list or a number for each input, by name.
            run_options: `RunOptions`.

        Raises `ValueError` where an input is missing, `InvalidArgument` where a name, a type, a
        rank or a size is not the model's, and `NodeError` where a node cannot be computed.
        """
        with BRIEF, self.pages.lent() as memory:
            values = self.values_of(output_names, input_feed, run_options, memory)
            return as_own_arrays(values)

    def values_of(
        self, names: Any, feeds: Mapping[str, Any], options: Any, memory: Any
    ) -> list[Any]:
        """Return the outputs as they were computed: arrays of JAX or NumPy, and lists.

        `memory` gives bytes for copies of inputs, which outputs may share.
        """
        if options is not None:
            if not isinstance(options, RunOptions):
                raise TypeError(f"expected run_options to be RunOptions, got {options!r}")
            if options.terminate:
                raise errors.Fail("the run ends, as RunOptions.terminate says")
        with raised_as(errors.Fail):
            check_process()
        names = expect_outputs(names, self.output_names)
        if not isinstance(feeds, Mapping):
            kind = with_article(type(feeds))
            text = f"expected input_feed to be a dict, {{name: array}}, got {kind}"
            raise AttributeError(text)  # as ONNX Runtime does
        values = self._checks.values(feeds)
        # A CPU computes in the memory of its inputs, where this begins at the right byte. JAX would
        # copy others to new pages at each run, whose first use is slow.
        if self._is_cpu:
            for name, value in values.items():
                values[name] = align(value, memory) if type(value) is np.ndarray else value
        with raised_as(errors.NodeError):
            if self._profile is None:
                values = self._stages.run(values)
            else:
                values = self._profile.run(self._source, values, self._device)
        # The memory of the inputs is the caller's, and that of copies the next run's.
        if self._is_cpu:
            jax.block_until_ready([x for x in values.values() if isinstance(x, jax.Array)])
        # An output may be an initializer itself, which no stage computes.
        initializers = self._source.initializers
        return [values[name] if name in values else initializers[name][0] for name in names]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run in another thread, which then calls `callback(outputs, user_data, error)`.

        The other arguments are those of `run`; the text of the error is "" for none.
        """
        self._checks.expect_all(input_feed)

        def work() -> None:
            results, text = list[Any](), ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:
                # The end of a thread: what it does not pass on is lost, and the caller waits.
                text = str(error)
            callback(results, user_data, text)

        threading.Thread(target=work).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Return the outputs of `run` as `OrtValue`s, of inputs that are such."""
        return [OrtValue(x) for x in self.run(output_names, input_dict_ort_values, run_options)]

    def io_binding(self) -> IOBinding:
        """Return a new `IOBinding` of the session."""
        return IOBinding(self)

    def run_with_iobinding(
        self, iobinding: IOBinding, run_options: RunOptions | None = None
    ) -> None:
        """Run with the inputs and outputs of an `IOBinding`.

        Raises `RuntimeError` for all mistakes, as ONNX Runtime does.
        """
        iobinding.run(run_options)

    def get_inputs(self) -> list[NodeArg]:
        """Return the inputs that have to be given."""
        return [*self._inputs.values()]

    def get_outputs(self) -> list[NodeArg]:
        """Return the outputs."""
        return [*self._outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that may be given, and have defaults."""
        return [*self._overridable.values()]

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the file says of its model."""
        return ModelMetadata.of(self._source.proto)

    def get_session_options(self) -> SessionOptions:
        """Return the options of the session."""
        return self._options

    def get_providers(self) -> list[str]:
        """Return the providers of the session; the first one computes."""
        return [*self._providers.names]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider, by its name."""
        return {name: dict(options) for name, options in self._providers.options.items()}

    def set_providers(
        self,
        providers: "Sequence[str | tuple[str, dict[Any, Any]]] | None" = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
    ) -> None:
        """Compute with other providers from here on; programs are compiled again."""
        self._providers = chosen(providers, provider_options)
        # The stages of the other device hold their arrays; new ones put weights on this device.
        self._source.store.clear()
        self._specialize()

    def enable_fallback(self) -> None:
        """Do nothing: what a provider lacks, the CPU computes, or an error says so."""

    disable_fallback = enable_fallback

    def end_profiling(self) -> str:
        """Write the profile; return the name of its file, "" where none was asked for."""
        profile, self._profile = self._profile, None
        return "" if profile is None else profile.save()

    def get_profiling_start_time_ns(self) -> int:
        """Return when profiling began, in nanoseconds; 0 where it did not."""
        return self._profile_start


def _source(model: Any, options: SessionOptions) -> Source:
    """Return the model. Raises the exceptions of ONNX Runtime where it cannot be read."""
    if not isinstance(model, (str, bytes, os.PathLike)):
        text = f"expected the path of a model or its bytes, got {type(model).__name__}"
        cure = " (onnx_model.SerializeToString() gives the bytes)"
        raise TypeError(text + cure * isinstance(model, onnx.ModelProto))
    if isinstance(model, bytes):
        data, where = model, "the bytes"
        path = options.entries.get(_FOLDER_ENTRY)
        folder = Folder() if path is None else Folder(Path(path), Path(path).resolve())
    else:
        path = Path(os.fspath(model))
        where, folder = f"the file '{path}'", Folder.of(path)
        if not path.exists():
            raise errors.NoSuchFile(f"expected {where} to exist")
        try:
            data = path.read_bytes()
        except OSError as error:
            text = f"expected {where} to be a model, got {error.strerror}"
            raise errors.InvalidProtobuf(text) from None
    # The format .ort is of FlatBuffers, whose files have their mark at the fifth byte.
    if data[4:8] == b"ORTM":
        text = f"expected {where} to be an .onnx model, got ONNX Runtime's own format .ort (give "
        raise errors.NotImplemented(text + "the .onnx file that it was made of)")
    if not data:
        raise errors.InvalidArgument(f"expected {where} to hold a graph, got nothing")
    try:
        proto, places = models.parsed(data, is_whole=False)
    except DmlError as error:
        faults = [replace(fault, field=where) for fault in error.faults]
        raise errors.InvalidProtobuf(DmlError(faults)) from None
    folder = replace(folder, large=places.large)
    if not proto.HasField("graph"):
        raise errors.InvalidArgument(f"expected {where} to hold a graph, got none")
    networks = NetworkOptions(tuned=False, is_quick_first=options.is_quick)
    with raised_as(errors.Fail):
        if proto.ir_version > onnx.IR_VERSION:
            rule = f"be at most {onnx.IR_VERSION}"
            raise DmlError([Fault("", "the IR version of the model", rule, proto.ir_version)])
        arrays, cache = options.arrays(proto), options.cache
        digest = digest_of(data, arrays, files_of(proto, folder)) if cache is not None else ""
        source = Source.read(proto, folder, arrays, networks, cache, digest)
    with raised_as(errors.InvalidArgument):
        raise_if([*unknown_tensors(source), *unknown_types(source)])
    with raised_as(errors.ModelError):
        raise_if([*untyped_inputs(source), *unmade_outputs(source), *cycles(source)])
        raise_if(unknown_nodes(source, knows))
        kinds, faults = types_of(source)
        raise_if(faults)
        source = replace(source, kinds=kinds, notice=notice_of(options))
        raise_if(wrong_outputs(source))
    return replace(source, host=HostNodes(source))


def _typed_outputs(source: Source) -> Iterator[onnx.ValueInfoProto]:
    """Yield the outputs, with the types and sizes that follow where none are declared."""
    for value in source.proto.graph.output:
        kind = source.kinds.get(value.name, value.type)
        if value.type.HasField("tensor_type") and value.type.tensor_type.HasField("shape"):
            kind = _with_sizes(value.type, kind)
        yield onnx.ValueInfoProto(name=value.name, type=kind)


def _with_sizes(declared: onnx.TypeProto, found: onnx.TypeProto) -> onnx.TypeProto:
    """Return a declared type with the numbers that follow; without names, also with those."""
    made = onnx.TypeProto()
    made.CopyFrom(declared)
    pairs = made.tensor_type.shape.dim, found.tensor_type.shape.dim
    for told, own in zip(*pairs, strict=True) if len(pairs[0]) == len(pairs[1]) else ():
        if not models.is_fixed(told) and (models.is_fixed(own) or not told.dim_param):
            told.MergeFrom(own)
    return made
