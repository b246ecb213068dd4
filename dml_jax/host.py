"""The host: its cores and their caches, and Python's collector."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")
_pauses: list[bool] = []  # of the collector: whether it was on as each began


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's collector of cycles, while many objects are made that stay.

    It would look through all objects of the process time and again. Threads may pause it at once:
    the last one to end turns it on again, if it was on before the first one.
    """
    _pauses.append(gc.isenabled())
    gc.disable()
    try:
        yield
    finally:
        if _pauses.pop():  # the first one's, if no other goes on
            gc.enable()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def last_cache_bytes() -> int | None:
    """Return the bytes of the last caches of all cores; None where the system does not say.

    A virtual machine may be told the size of a whole cache that it shares with others.
    """
    found: dict[tuple[int, str], int] = {}
    for core in SYSTEM.glob("cpu[0-9]*"):
        caches = [
            (int(_text(place / "level")), _text(place / "shared_cpu_list"), _text(place / "size"))
            for place in core.glob("cache/index*")
            if (place / "size").exists()
        ]
        if caches:
            level, shared, size = max(caches)
            found[level, shared] = int(size.removesuffix("K")) * 1024
    return sum(found.values()) or None


def _text(path: Path) -> str:
    return path.read_text().strip()
