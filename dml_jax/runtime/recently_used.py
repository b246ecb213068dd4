"""The one cache by last use: entries that are built once, up to a number."""

import collections
import gc
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

# Compiled programs refer to each other in circles, so that memory would grow until Python happens
# to search for circles. A search at each eviction would take longer than many calls do.
_EVICTIONS = 32


class RecentlyUsed(Generic[Entry]):
    """Entries by key, of which the least recently used ones are evicted. Threads may share it.

    Args:
        limit: how many entries there are at most.
        drop: takes each entry that is evicted, to free what it holds.
    """

    def __init__(self, limit: int, drop: Callable[[Entry], object] = lambda entry: None) -> None:
        self._limit, self._drop, self._evictions = limit, drop, 0
        self._entries: collections.OrderedDict[Hashable, Entry] = collections.OrderedDict()
        # A lock for each key that is being built, not one for all: to build an entry takes seconds,
        # and threads that want other keys build theirs meanwhile.
        self._building: dict[Hashable, threading.RLock] = {}
        self._lock = threading.Lock()  # over `_building`, and over evictions

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def entries(self) -> list[Entry]:
        """Return all entries, the least recently used first."""
        return [*self._entries.copy().values()]

    def get(self, key: Hashable) -> Entry | None:
        """Return the entry of a key, which is the last one to be evicted then; None without one."""
        # No lock here: this is on the way of each call, and Python does each of the two steps at
        # once. Between them another thread may have evicted the entry, which stays good.
        entry = self._entries.get(key)
        if entry is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:
                return entry
        return entry

    def get_or_build(self, key: Hashable, build: Callable[[], Entry]) -> Entry:
        """Return the entry of a key, which one thread builds while others that want it wait.

        An error of `build` is raised, and the next call builds again.
        """
        entry = self.get(key)
        if entry is not None:
            return entry
        with self._lock:
            lock = self._building.setdefault(key, threading.RLock())
        with lock:
            entry = self.get(key)
            if entry is None:
                try:
                    entry = build()
                    self.put(key, entry)
                finally:
                    with self._lock:
                        self._building.pop(key, None)
        return entry

    def put(self, key: Hashable, entry: Entry) -> None:
        """Set the entry of a key, and evict others beyond the limit."""
        evicted = list[Entry]()
        with self._lock:
            self._entries[key] = entry
            while len(self._entries) > self._limit:
                evicted.append(self._entries.popitem(last=False)[1])
            self._evictions += len(evicted)
            collects = self._evictions >= _EVICTIONS
            self._evictions = 0 if collects else self._evictions
        for old in evicted:  # without the lock: what frees an entry may take long
            self._drop(old)
        evicted.clear()
        if collects:
            gc.collect()

    def clear(self) -> None:
        """Evict all entries."""
        with self._lock:
            entries = [*self._entries.values()]
            self._entries.clear()
        for entry in entries:
            self._drop(entry)
