"""Translates a model: its initializers and inputs, then its nodes, then its outputs."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx

from dml_jax.errors import (
    OF_CURE,
    UNSAID,
    Expect,
    Fault,
    Sentence,
    Unquoted,
    bugs_within,
    collecting,
    moving,
)
from dml_jax.onnx import fallbacks, translators
from dml_jax.onnx.files.local_functions import functions_of
from dml_jax.onnx.files.model import Model, free_names
from dml_jax.onnx.files.types import COUNT, Type
from dml_jax.onnx.nodes.number_limits import turns_of
from dml_jax.onnx.nodes.tensor import Scope, Tensor, TensorList, mistyped
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.signature import Signature, bounds_of
from dml_jax.onnx.sizes.bounds import Bounded
from dml_jax.onnx.translate.translation import Translation
from dml_jax.onnx.translated import Translated

FALLBACK = "with fallback=True (the option --fallback), JAX computes:"
_LISTED = 8  # nodes in a message


@functools.cache
def load_translators() -> None:
    """Import the modules that register the translators and the fallbacks."""
    for package in (translators, fallbacks):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def translate_model(read: Model, options: NetworkOptions) -> tuple[Translated, bool]:
    """Return what becomes of a model, and whether its weights are all as initializers have them."""
    load_translators()
    graph, arrays = read.proto.graph, dict[str, np.ndarray]()
    bounds, ir = Bounded(options.bounds, graph), read.proto.ir_version
    files = read.opsets, functions_of(read.proto), ir, options.fallback
    translation = Translation(*files, policy=bounds)
    translation.asked = set(read.inputs)
    translation.turns, translation.looks = turns_of(options.turns), options.looks
    scope: Scope = {}

    def array_of(tensor: onnx.TensorProto) -> np.ndarray:
        arrays[tensor.name] = read.folder.array(tensor)
        return arrays[tensor.name]

    # Below IR version 4 each initializer had to be an input too: this says nothing of a default.
    replaceable = read.replaceable
    translation.fixed |= {*read.defaults} - {*replaceable}
    names = [output.name for output in graph.output]
    with collecting(translation.faults):
        translation.initializers(graph, scope, array_of, replaceable)
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
    expect.faults += mistyped(graph.output, scope)
    # A bound that no size took is a fault only where all nodes are there: a refused node may be the
    # one that has the size.
    if not expect.faults:
        expect.faults += bounds.faults()
    if expect.faults:
        expect.faults += _cures(translation)
    expect.check()
    outputs = {n: t for n, t in zip(names, results, strict=True) if t is not None}
    for name, size, limit in bounds.limits():
        outputs[name] = size
        translation.limits.append((name, limit))
    defaults = {name: scope[name] for name in read.defaults}
    given = {n: bounds.given[n] for n in bounds.met}
    found = translated_of(
        translation, read.inputs, outputs, defaults, free_names(read.proto), given
    )
    return found, all(found.weights[n] is arrays.get(n) for n in found.weights)


def _cures(translation: Translation) -> Iterator[Fault]:
    """Yield which options cure faults of a translation."""
    if nodes := translation.curable:
        more = f" and {len(nodes) - _LISTED} others" if len(nodes) > _LISTED else ""
        rule = Sentence(f"{FALLBACK} {', '.join(nodes[:_LISTED])}{more}")
        yield Fault("", "", rule, UNSAID, kind=OF_CURE)
    if names := sorted(translation.deciding):
        values = ", ".join(f"'{name}': ..." for name in names)
        options = " ".join(f"--constant {name}:NUMBERS" for name in names)
        text = f"with constants={{{values}}} ({options}), values of inputs are known at load"
        yield Fault("", "", Sentence(text), UNSAID, kind=OF_CURE)


def translated_of(
    translation: Translation,
    inputs: Mapping[str, Type],
    outputs: Mapping[str, Tensor],
    defaults: Mapping[str, Tensor] = {},
    free: Mapping[str, Sequence[str | None]] = {},
    bounds: Mapping[str, int] = {},
) -> Translated:
    """Return what became of nodes, of the tensors of inputs, outputs and defaults by name.

    `translation` is that of the nodes; `free` and `bounds` are as `Signature` has them.
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
    # The graph has lost the weights that no needed node reads: they are not sent to the device.
    read = [name for name in graph.input_names or () if name in translation.weights]
    weights = {name: translation.weights[name] for name in read}
    return Translated(signature, graph, checked, beyond, weights)
