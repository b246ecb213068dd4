"""Loads a network: reads the model, translates its nodes, and makes the network of their graph."""

import functools
import importlib
import pkgutil
from pathlib import Path
from typing import Any

from dml_jax.errors import Expect, Sentence, Unquoted, collecting, moving
from dml_jax.lowering.precision import check_precision
from dml_jax.onnx import fallbacks, translators
from dml_jax.onnx import model as models
from dml_jax.onnx.arguments import bounds_of
from dml_jax.onnx.carried import SizeBounds, checked_outputs
from dml_jax.onnx.kept import programs_of
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.saving import Origin
from dml_jax.onnx.tensors import Scope, TensorList
from dml_jax.onnx.translate import Translation
from dml_jax.onnx.turns import turns_of

FALLBACK = "with fallback=True (the option --fallback), JAX computes:"


@functools.cache
def load_translators() -> None:
    """Import the modules that register the translators and the fallbacks."""
    for package in (translators, fallbacks):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def load(model: Any, options: NetworkOptions) -> Network:
    """Return the network of a model, as `load_onnx` says."""
    if options.precision is not None:
        check_precision(options.precision)
    load_translators()
    origin = Origin.of(model, options.folder)
    read = models.read(model, options.shapes, options.names, options.constants, options.folder)
    graph = read.proto.graph
    translation = Translation(read.opsets, read.functions, read.proto.ir_version, options.fallback)
    translation.asked = set(read.inputs)
    translation.turns = turns_of(options.turns)
    translation.bounds = bounds = SizeBounds(options.bounds, graph)
    scope: Scope = {}
    translation.fixed |= {*read.defaults} - {*read.replaceable}
    names = [output.name for output in graph.output]
    with collecting(translation.faults):
        translation.initializers(graph, scope, read.array, read.replaceable)
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
    outputs = checked_outputs(outputs, bounds)
    defaults = {name: scope[name] for name in read.defaults}
    free = models.free_names(read.proto)
    path = model if isinstance(model, (str, Path)) else None
    network = Network(read.inputs, outputs, translation, options, free, origin, defaults, path)
    network.bounds, network.loader = {n: bounds.given[n] for n in bounds.met}, load
    network.programs, network.precision = programs_of(model, read, options), options.precision
    return network
