"""Programs by sizes: each set of sizes has its own, and all share the file and its weights."""

import collections
import gc
import threading
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
import onnx

from dml_jax.onnxruntime.deciding_inputs import first_stage
from dml_jax.onnxruntime.model_parts import Source
from dml_jax.onnxruntime.stage import Stage, Values

_COLLECTED = 32  # programs that are dropped between two collections of their memory


class Programs:
    """The programs of a part of a model, for the sizes that runs have.

    Args:
        source: the model.
        nodes: the part, each node after those that it reads from.
        names: the tensors that a run gives.
        wanted: the tensors that a run asks for.
        limit: how many programs are kept; the least recently used goes first.
        device: where they compute; None is JAX's own choice.
    """

    def __init__(
        self,
        source: Source,
        nodes: Sequence[onnx.NodeProto],
        names: Sequence[str],
        wanted: Sequence[str],
        limit: int,
        device: Any,
    ):
        self._source, self._nodes, self._names, self._wanted = source, nodes, [*names], wanted
        self._limit, self._device = limit, device
        self._stages: collections.OrderedDict[Hashable, Stage] = collections.OrderedDict()
        self._deciding: set[str] = set()
        self._lock, self._dropped = threading.RLock(), 0

    @property
    def count(self) -> int:
        """Return how many programs are kept."""
        return len(self._stages)

    def knows(self, feeds: Any) -> bool:
        """Return whether arrays have the sizes and types of an earlier run: these need no check."""
        if len(feeds) != len(self._names):
            return False
        is_plain = all(type(feeds.get(name)) is np.ndarray for name in self._names)
        return is_plain and self._key(feeds) in self._stages

    def run(self, values: Values) -> Values:
        """Return all tensors of a run by name; `values` are the inputs, checked."""
        while True:
            deciding = len(self._deciding)
            key = self._key(values)
            stage = self._stages.get(key)
            if stage is None:
                with self._lock, jax.enable_x64(True), jax.default_device(self._device):
                    stage = self._stages.get(key) or first_stage(
                        self._source, self._nodes, values, self._wanted, self._deciding
                    )
                    if len(self._deciding) == deciding:
                        self._keep(key, stage)
                    else:  # the values of more inputs decide sizes
                        self._stages.clear()
                        continue
            return self._run(stage, key, dict(values))

    def _key(self, values: Values) -> Hashable:
        """Return what the first stage depends on."""
        names: Any = self._names
        if len(values) != len(names):  # some defaults are given too
            names = sorted(values)
        key: list[Any] = []
        for name in names:
            value = values[name]
            if isinstance(value, list):
                key.append(tuple((x.shape, x.dtype) for x in value if hasattr(x, "dtype")))
                continue
            key += [getattr(value, "shape", None), getattr(value, "dtype", None)]
            if name in self._deciding:
                key.append(np.asarray(value).tobytes())
        return tuple(key) if names is self._names else (*names, *key)

    def _run(self, stage: Stage, key: Hashable, values: Values) -> Values:
        with jax.enable_x64(True):
            while True:
                self._touch(key)
                if self._device is None:
                    self._compute(stage, values)
                else:
                    with jax.default_device(self._device):
                        self._compute(stage, values)
                if not stage.left:
                    return values
                key = (id(stage), stage.key(values))
                following = self._stages.get(key)
                if following is None:
                    with self._lock, jax.default_device(self._device):
                        following = self._stages.get(key)
                        if following is None:
                            following = stage.next(values, self._wanted)
                            following.before = stage  # which keeps its identity
                            self._keep(key, following)
                stage = following

    def _compute(self, stage: Stage, values: Values) -> None:
        if stage.is_compiled:
            stage.run(values)
            return
        with self._lock:  # or each thread would compile it
            stage.run(values)

    def _keep(self, key: Hashable, stage: Stage) -> None:
        self._stages[key] = stage
        while len(self._stages) > self._limit:
            _, old = self._stages.popitem(last=False)
            old.drop()
            self._dropped += 1
            if self._dropped % _COLLECTED == 0:
                del old
                gc.collect()  # programs hold each other: memory would grow until Python looks

    def _touch(self, key: Hashable) -> None:
        try:
            self._stages.move_to_end(key)
        except KeyError:  # another thread dropped it
            return
