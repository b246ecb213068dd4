"""Loads a network: reads the model, translates its nodes, and makes the network of their graph."""

import functools
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.errors import DmlError, Fault, Sentence, Unquoted
from dml_jax.lowering.precision import check_precision
from dml_jax.onnx import fallbacks, translators
from dml_jax.onnx import model as models
from dml_jax.onnx.arguments import bounds_of
from dml_jax.onnx.kept import programs_of
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.saving import Origin
from dml_jax.onnx.tensors import Scope, TensorList, Type, dense
from dml_jax.onnx.translate import Translation

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
    origin = Origin.of(model)
    read = models.read(model, options.shapes, options.names, options.constants, options.folder)
    graph = read.proto.graph
    translation = Translation(read.opsets, read.functions, read.proto.ir_version, options.fallback)
    translation.asked = set(read.inputs)
    scope: Scope = {}
    defaults: dict[str, tuple[Type, np.ndarray]] = {}
    translation.fixed |= {*read.defaults} - {*read.replaceable}
    names = [output.name for output in graph.output]
    for tensor in graph.initializer:
        try:
            array = read.array(tensor)
            is_replaceable = tensor.name in read.replaceable
            made = translation.weight(tensor.name, array, tensor.data_type, is_replaceable)
            scope[tensor.name] = made
            if tensor.name in read.defaults:
                defaults[tensor.name] = made.type, array
        except DmlError as error:
            translation.faults += error.faults
            scope[tensor.name] = None
    for sparse in graph.sparse_initializer:
        name, element = sparse.values.name, sparse.values.data_type
        try:
            scope[name] = translation.weight(name, dense(sparse, read.array), element)
        except DmlError as error:
            translation.faults += error.faults
            scope[name] = None
    for name, kind in read.inputs.items():
        try:
            scope[name] = translation.input(name, kind, bounds_of(name, kind))
        except DmlError as error:
            translation.faults += error.moved("", f"the input '{name}'")
            scope[name] = None
    results = translation.graph(graph, scope, names, read.opsets)
    outputs = {}
    for name, tensor in zip(names, results, strict=True):
        if name not in scope:
            rule = "be an output of a node"
            translation.faults.append(Fault("", "the output", rule, name))
        elif isinstance(tensor, TensorList):
            rule = "be a tensor (SequenceAt and ConcatFromSequence make tensors of a sequence)"
            value = Unquoted("a sequence")
            translation.faults.append(Fault("", f"the output '{name}'", rule, value))
        elif tensor is not None:
            outputs[name] = tensor
        elif not translation.faults:
            rule = "be given by its node"
            translation.faults.append(Fault("", f"the output '{name}'", rule, Unquoted("nothing")))
    if translation.faults and translation.curable:
        shown = Unquoted(", ".join(translation.curable))
        translation.faults.append(Fault("", "", Sentence(f"{FALLBACK} {shown}"), ""))
    if translation.faults:
        raise DmlError(translation.faults)
    free = models.free_names(read.proto)
    path = model if isinstance(model, (str, Path)) else None
    network = Network(read.inputs, outputs, translation, options, free, origin, defaults, path)
    network.programs, network.precision = programs_of(model, read, options), options.precision
    return network
