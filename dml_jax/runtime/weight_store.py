"""Arrays that several networks of one file hold once on the device."""

import weakref
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from dml_jax.runtime.program_cache import ProgramCache


class WeightStore:
    """Weights, and arrays that follow from weights, each once on the device.

    Args:
        named: weights by name, for networks that are read of one file again and again: each reading
            makes another host array of a weight, and the name tells that it is the same. None tells
            weights by their host arrays.

    Attributes:
        named: these, with those that `put_named` added.
        derived: the arrays that follow from weights, by what makes them. They are here as long as
            a network holds them.
    """

    def __init__(self, named: Mapping[str, jax.Array] | None = None) -> None:
        self.named = None if named is None else dict(named)
        # The identity of an array may be another array's later: the reference tells.
        self._weights: dict[int, tuple[weakref.ref[np.ndarray], jax.Array]] = {}
        self.derived: weakref.WeakValueDictionary[Hashable, jax.Array] = (
            weakref.WeakValueDictionary()
        )

    def put(self, arrays: Sequence[np.ndarray]) -> list[jax.Array]:
        """Return arrays on the device; the same array is there once."""
        # All of them in one call: a transfer to a GPU has a cost of its own.
        known = self._weights
        missing = [a for a in arrays if id(a) not in known or known[id(a)][0]() is not a]
        for array, held in zip(missing, jax.device_put(missing), strict=True):
            known[id(array)] = weakref.ref(array), held
        return [known[id(array)][1] for array in arrays]

    def put_named(self, arrays: Mapping[str, np.ndarray]) -> dict[str, jax.Array]:
        """Return arrays on the device by name; a store of names has each name once."""
        if self.named is None:
            return dict(zip(arrays, self.put([*arrays.values()]), strict=True))
        kinds = {name: (array.shape, array.dtype) for name, array in self.named.items()}
        missing = {n: a for n, a in arrays.items() if kinds.get(n) != (a.shape, a.dtype)}
        added = dict(zip(missing, jax.device_put([*missing.values()]), strict=True))
        self.named = {**added, **self.named}
        return {name: added.get(name, self.named[name]) for name in arrays}

    def clear(self) -> None:
        """Forget all arrays on the device, which stay where networks hold them."""
        self._weights.clear()
        self.derived.clear()


@dataclass(frozen=True, eq=False)
class Storage:
    """Where the arrays and the programs of a network are.

    Attributes:
        store: the arrays on the device, which networks of one file share.
        cache: where programs are kept for other processes; None keeps none.
    """

    store: WeightStore = field(default_factory=WeightStore)
    cache: ProgramCache | None = None
