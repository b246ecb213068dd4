"""Loads a network: reads the model, translates its nodes, and makes the network of their graph."""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax.errors import (
    DmlError,
    Expect,
    Fault,
    Sentence,
    Unquoted,
    bugs_within,
    collecting,
    moving,
)
from dml_jax.lowering.dtypes import has_x64
from dml_jax.lowering.precision import check_precision
from dml_jax.onnx import fallbacks, translators
from dml_jax.onnx.cache_key import programs_of
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.model import Model
from dml_jax.onnx.files.saving import Origin
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.network import Network, NetworkRecord, Translated
from dml_jax.onnx.nodes.number_limits import turns_of
from dml_jax.onnx.nodes.tensor import Scope, Tensor, TensorList
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.signature import Signature, bounds_of
from dml_jax.onnx.sizes.bounds import Bounded
from dml_jax.onnx.translate.translation import Translation
from dml_jax.runtime import tuning
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.weight_store import Storage
from dml_jax.system.processor import check_process

FALLBACK = "with fallback=True (the option --fallback), JAX computes:"


@functools.cache
def load_translators() -> None:
    """Import the modules that register the translators and the fallbacks."""
    for package in (translators, fallbacks):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def load(model: Any, options: NetworkOptions) -> Network:
    """Return the network of a model, as `load_onnx` says."""
    check_process()
    if options.precision is not None:
        check_precision(options.precision)
    origin = Origin.of(model, options.folder)
    read = models.read(model, options.shapes, options.names, options.constants, options.folder)
    programs = programs_of(model, read, options)
    storage, file = Storage(cache=programs), None
    if programs is not None and (device := default_device()):
        winners = tuning.state() if options.is_tunable else None
        file = programs.record_file(f"start {platform()} {winners}", device)
        record = programs.read_record(file)
        if isinstance(record, NetworkRecord):
            return _started(record, model, read, options, origin, storage)
    translated, is_file = _translated(read, options)
    network = network_of(translated, options, origin, storage, load)
    _ = network.executable.planned  # so that loading says what is wrong with an option
    if programs is not None and file is not None and is_file:
        programs.write_record(file, network.recorded())
    return network


def network_of(
    translated: Translated,
    options: NetworkOptions,
    origin: Origin,
    storage: Storage,
    loader: Callable[[Any, NetworkOptions], Network],
) -> Network:
    """Return the network of what its nodes became; the arguments are those of `Network`.

    It keeps no array of weights in the memory of the host.
    """
    arrays = storage.store.put([*translated.weights.values()])
    weights, signature = dict(zip(translated.weights, arrays, strict=True)), translated.signature
    light = replace(translated, weights={})
    return Network(signature, weights, options, origin, storage, lambda: light, loader)


def translated_of(
    translation: Translation,
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Tensor],
    defaults: Mapping[str, Tensor] = {},
    free: Mapping[str, Sequence[str | None]] = {},
    bounds: Mapping[str, int] = {},
) -> Translated:
    """Return what became of nodes, of the tensors of inputs, outputs and defaults by name.

    Args:
        translation: the translation of the nodes.
        inputs: the types of the inputs.
        outputs: the tensors of the outputs.
        defaults: the tensors of inputs that may be left out.
        free: the names of dimensions, as `Signature` has them.
        bounds: the bounds of sizes, by name.
    """
    with bugs_within("the outputs"):  # nodes of known inputs are translated where they are read
        graph, checked = translation.build([*outputs.items()])
    results = {name: tensor.type for name, tensor in outputs.items()}
    results |= dict.fromkeys((graph.output_names or ())[len(outputs) :], COUNT)
    names = dict(zip(graph.output_names or (), results, strict=True))
    signature = Signature(
        dict(inputs),
        results,
        {name: tensor.type for name, tensor in defaults.items()},
        {n: t.array for n, t in defaults.items() if n in translation.fixed},
        free,
        {names[name]: counted for name, counted in graph.counted.items()},
        *(bounds, translation.limits, translation.every_limit),
    )
    nodes = (id(node) for _, node in graph.all_nodes)
    beyond = dict(translation.beyond[n] for n in nodes if n in translation.beyond)
    read = [name for name in graph.input_names or () if name in translation.weights]
    weights = {name: translation.weights[name] for name in read}
    return Translated(signature, graph, checked, beyond, weights)


def _started(
    record: NetworkRecord,
    model: Any,
    read: Model,
    options: NetworkOptions,
    origin: Origin,
    storage: Storage,
) -> Network:
    """Return a network that was recorded; its nodes are translated when they are asked for."""
    is_x64 = has_x64()

    def translated() -> Translated:
        with jax.enable_x64(is_x64):
            again = models.read(
                model, options.shapes, options.names, options.constants, options.folder
            )
            found = programs_of(model, again, options)
            if found is None or storage.cache is None or found.key != storage.cache.key:
                rule, value = "be as it was when it was loaded", Unquoted("another one")
                raise DmlError([Fault("", "the model", rule, value)])
            return replace(_translated(again, options)[0], weights={})

    held = {tensor.name: tensor for tensor in read.proto.graph.initializer}
    arrays = storage.store.put([read.array(held[name]) for name in record.weights])
    weights = dict(zip(record.weights, arrays, strict=True))
    made = record.signature, weights, options, origin, storage, functools.cache(translated), load
    return Network(*made, record)


def _translated(read: Model, options: NetworkOptions) -> tuple[Translated, bool]:
    """Return what becomes of a model, and whether its weights are all as initializers have them."""
    load_translators()
    graph, arrays = read.proto.graph, dict[str, np.ndarray]()
    bounds, ir = Bounded(options.bounds, graph), read.proto.ir_version
    files = read.opsets, read.functions, ir, options.fallback
    translation = Translation(*files, policy=bounds)
    translation.asked = set(read.inputs)
    translation.turns, translation.looks = turns_of(options.turns), options.looks
    scope: Scope = {}

    def array_of(tensor: onnx.TensorProto) -> np.ndarray:
        arrays[tensor.name] = read.array(tensor)
        return arrays[tensor.name]

    translation.fixed |= {*read.defaults} - {*read.replaceable}
    names = [output.name for output in graph.output]
    with collecting(translation.faults):
        translation.initializers(graph, scope, array_of, read.replaceable)
    for name, kind in read.inputs.items():
        scope[name] = None
        with collecting(translation.faults), moving("", f"the input '{name}'"):
            scope[name] = translation.input(name, kind, bounds_of(name, kind))
    results, expect = translation.graph(graph, scope, names, read.opsets), Expect("")
    expect.faults += translation.faults
    for name, tensor in zip(names, results, strict=True):
        if expect(name in scope, "the output", "be an output of a node", name):
            where, is_list = f"the output '{name}'", isinstance(tensor, TensorList)
            rule = "be a tensor (SequenceAt and ConcatFromSequence make tensors of a sequence)"
            expect(not is_list, where, rule, Unquoted("a sequence"))
            is_given = tensor is not None or bool(expect.faults)  # another fault says why
            expect(is_given, where, "be given by its node", Unquoted("nothing"))
    if not expect.faults:
        expect.faults += bounds.faults()
    if translation.curable:
        shown = Unquoted(", ".join(translation.curable))
        expect(not expect.faults, "", Sentence(f"{FALLBACK} {shown}"), "")
    expect.check()
    outputs = {n: t for n, t in zip(names, results, strict=True) if t is not None}
    for name, size, limit in bounds.limits():
        outputs[name] = size
        translation.limits.append((name, limit))
    defaults = {name: scope[name] for name in read.defaults}
    given = {n: bounds.given[n] for n in bounds.met}
    free = models.free_names(read.proto)
    found = translated_of(translation, read.inputs, outputs, defaults, free, given)
    return found, all(found.weights[n] is arrays.get(n) for n in found.weights)
