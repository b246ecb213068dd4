"""Loads a network: reads the model, translates its nodes, and makes the network of their graph."""

import functools
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax import beyond
from dml_jax.errors import DmlError, Expect, Fault, Sentence, Unquoted, collecting, moving
from dml_jax.lowering.dtypes import has_x64
from dml_jax.lowering.precision import check_precision
from dml_jax.onnx import fallbacks, translators
from dml_jax.onnx.cache_key import programs_of
from dml_jax.onnx.files import model as models
from dml_jax.onnx.files.model import Model
from dml_jax.onnx.files.saving import Origin
from dml_jax.onnx.network import Network
from dml_jax.onnx.nodes.tensor import Scope, TensorList
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.signature import bounds_of
from dml_jax.onnx.sizes.bounds import SizeBounds, sizes_of
from dml_jax.onnx.sizes.loop_limit import turns_of
from dml_jax.onnx.translate.translation import Translation
from dml_jax.runtime import tuning
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.program_cache import Programs
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
    with beyond.allowed(options.fallback):
        return _loaded(model, options)


def _loaded(model: Any, options: NetworkOptions) -> Network:
    check_process()
    if options.precision is not None:
        check_precision(options.precision)
    origin = Origin.of(model, options.folder)
    read = models.read(model, options.shapes, options.names, options.constants, options.folder)
    programs = programs_of(model, read, options)
    network: Network | None = None
    file: Path | None = None
    if programs is not None and (device := default_device()):
        winners = tuning.state() if options.is_tunable else None
        file = programs.facts_file(f"start {platform()} {winners}", device)
        state = programs.facts_of(file)
        if isinstance(state, dict):
            network = _started(state, model, read, options, origin, programs)
    if network is None:
        network, is_file = _translated(model, read, options, origin)
        network.kept_in = file if is_file else None
    network.loader, network.precision, network.programs = load, options.precision, programs
    return network


def _started(
    state: Any, model: Any, read: Model, options: NetworkOptions, origin: Origin, programs: Programs
) -> Network:
    """Return a network whose `Network.state` was kept; its nodes are translated when asked for."""
    is_x64 = has_x64()

    def whole() -> Network:
        with jax.enable_x64(is_x64), beyond.allowed(options.fallback):
            again = models.read(
                model, options.shapes, options.names, options.constants, options.folder
            )
            found = programs_of(model, again, options)
            if found is None or found.key != programs.key:
                rule, value = "be as it was when it was loaded", Unquoted("another one")
                raise DmlError([Fault("", "the model", rule, value)])
            return _translated(model, again, options, origin)[0]

    held = {tensor.name: tensor for tensor in read.proto.graph.initializer}
    arrays = {name: read.array(held[name]) for name in state["weights"]}
    path = model if isinstance(model, (str, Path)) else None
    return Network.started(state, arrays, options, origin, whole, path)


def _translated(
    model: Any, read: Model, options: NetworkOptions, origin: Origin
) -> tuple[Network, bool]:
    """Return the network of a model, and whether its weights are all as initializers have them."""
    load_translators()
    graph, arrays = read.proto.graph, dict[str, np.ndarray]()
    translation = Translation(read.opsets, read.functions, read.proto.ir_version, options.fallback)
    translation.asked = set(read.inputs)
    translation.turns, translation.looks = turns_of(options.turns), options.looks
    translation.bounds = bounds = SizeBounds(options.bounds, graph)
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
    for name, size, limit in sizes_of(bounds):
        outputs[name] = size
        translation.limits.append((name, limit))
    defaults = {name: scope[name] for name in read.defaults}
    free, path = models.free_names(read.proto), model if isinstance(model, (str, Path)) else None
    network = Network(read.inputs, outputs, translation, options, free, origin, defaults, path)
    network.bounds = {n: bounds.given[n] for n in bounds.met}
    is_file = all(translation.weights[n] is arrays.get(n) for n in network.weights)
    return network, is_file
