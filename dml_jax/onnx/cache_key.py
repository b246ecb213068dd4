"""What the kept programs of a network follow from: its file, and the options of `load_onnx`."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dml_jax.onnx.files.model import Model
from dml_jax.onnx.options import NetworkOptions
from dml_jax.runtime.program_cache import ProgramCache


def cache_of(read: Model, options: NetworkOptions) -> ProgramCache | None:
    """Return the cache of the programs of a model with options; None where there is none.

    A network with rewrites of the caller has none: no digest tells what these do.
    """
    if options.cache is None:
        return None
    rewrites = options.rewrites or ()
    parts = (getattr(rewrite, "replacement", rewrite) for rewrite in rewrites)
    places = (getattr(part, "__module__", "") for part in parts)
    # A function of the caller may change without its name: no digest of it would be sure.
    if not all(place.startswith("dml_jax.rewrite.") for place in places):
        return None
    digest, model = hashlib.sha256(), read.origin.model
    if isinstance(model, Path):
        with model.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    elif isinstance(model, (bytes, bytearray, memoryview)):
        digest.update(model)
    else:
        digest.update(model.SerializeToString(deterministic=True))
    _add(digest, options.constants, read.files)
    others = replace(
        options, constants={}, cache=None, rewrites=options.rewrites and [r.name for r in rewrites]
    )
    digest.update(repr((others, options.rewrites is None)).encode())
    return ProgramCache(options.cache, digest.hexdigest())


def digest_of(data: bytes, arrays: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return what tells models apart: bytes, arrays in place of initializers, external files."""
    digest = hashlib.sha256(data)
    _add(digest, arrays, files)
    return digest.hexdigest()


def _add(digest: Any, arrays: Mapping[str, Any], files: Sequence[Path]) -> None:
    for name, value in sorted(arrays.items()):
        array = np.asarray(value)
        digest.update(repr((name, array.dtype, array.shape)).encode() + array.tobytes())
    # Files of weights are large, and to read them would take longer than a start may: their sizes
    # and times tell whether they may be others.
    # A missing one is a fault of the initializer that lies there.
    found = [(str(f), f.stat()) for f in files if f.is_file()]
    digest.update(repr([(name, s.st_size, s.st_mtime_ns) for name, s in found]).encode())
