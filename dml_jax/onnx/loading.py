"""Loads a network: reads the model, starts from a record or translates, and makes the network."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnx.cache_key import cache_of
from dml_jax.onnx.files.model import Model, Origin, read
from dml_jax.onnx.network import Network
from dml_jax.onnx.options import NetworkOptions
from dml_jax.onnx.translated import NetworkRecord, Translated
from dml_jax.runtime import tuning
from dml_jax.runtime.platform import default_device, platform
from dml_jax.runtime.weight_store import Storage, WeightStore
from dml_jax.system.processor import check_process


def load(model: Any, options: NetworkOptions, store: WeightStore | None = None) -> Network:
    """Return the network of a model, as `load_onnx` says; its weights lie in `store`, if given."""
    # JAX's threads do not live on in a child that a process forks: a compile would wait for ever.
    check_process()
    # Before the file is read, which may take long for an option that is wrong.
    options.check()
    read_again = functools.partial(
        *(read, model, options.shapes, options.names, options.constants, options.folder)
    )
    found = read_again()
    cache = cache_of(found, options)
    storage, file = Storage(store or WeightStore(), cache), None
    if cache is not None and (device := default_device()) is not None:
        # A record has the layout that was the fastest one when it was written: `tune` and `untune`
        # change the files of winners, and with them the name of the record.
        winners = tuning.state() if options.is_tunable else None
        file = cache.record_file(f"start {platform()} {winners}", device)
        record = cache.read_record(file)
        if isinstance(record, NetworkRecord):
            # A record has names, not arrays: the file is there, and is the larger part by far.
            tensors = {tensor.name: tensor for tensor in found.proto.graph.initializer}
            arrays = [found.folder.array(tensors[name]) for name in record.weights]
            translate = _translate_later(read_again, options, cache.key)
            return start_from(record, arrays, options, found.origin, storage, translate)
    translated, is_file = _translate(found, options)
    network = network_of(translated, options, found.origin, storage)
    # Weights that the translation made have no name in the file by which a start could find them.
    if cache is not None and file is not None and is_file:
        cache.write_record(file, record_of(network))
    return network


def _translate(found: Model, options: NetworkOptions) -> tuple[Translated, bool]:
    # Imported here, since a start from a record needs none of the translators.
    from dml_jax.onnx.translate.model_graph import translate_model

    return translate_model(found, options)


def _translate_later(
    read_again: Callable[[], Model], options: NetworkOptions, key: str
) -> Callable[[], Translated]:
    """Return what translates a model where its graph is asked for, as it was when it was loaded.

    The function raises `DmlError` where the model has another `key` by then.
    """
    # The graph is asked for later, maybe under other settings, and its types follow from these.
    is_x64 = has_x64()

    @functools.cache
    def translate() -> Translated:
        with jax.enable_x64(is_x64):
            found = read_again()
            cache = cache_of(found, options)
            # The key has a digest of the file. Programs and weights are those of the file that was
            # loaded, so a graph of another file would not belong to them.
            if cache is None or cache.key != key:
                rule, value = "be as it was when it was loaded", Unquoted("another one")
                raise DmlError([Fault("", "the model", rule, value)])
            return replace(_translate(found, options)[0], weights={})

    return translate


def start_from(
    record: NetworkRecord,
    arrays: Sequence[np.ndarray],
    options: NetworkOptions,
    origin: Origin,
    storage: Storage,
    translate: Callable[[], Translated],
) -> Network:
    """Return a network that was recorded, of the arrays of its weights in their order."""
    weights = dict(zip(record.weights, storage.store.put(arrays), strict=True))
    start = record.start_of(translate, options)
    return Network(*(record.signature, weights, options, origin, storage, translate, load, start))


def network_of(
    translated: Translated, options: NetworkOptions, origin: Origin, storage: Storage
) -> Network:
    """Return the network of what its nodes became; the arguments are those of `Network`.

    It keeps no array of weights in the memory of the host.
    """
    weights, signature = storage.store.put_named(translated.weights), translated.signature
    light = replace(translated, weights={})  # or the arrays of the host would stay with the network
    return Network(signature, weights, options, origin, storage, lambda: light, load)


def record_of(network: Network) -> NetworkRecord:
    """Return what another process needs to start a network."""
    start = network.executable.start
    assert start.planned is not None  # the network's, which were asked for
    planned = replace(start.planned, plan=start.planned.plan.without_graph())
    return NetworkRecord(network.signature, [*network.weights], replace(start, planned=planned))
