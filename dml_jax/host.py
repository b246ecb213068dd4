"""The host: its cores, and their caches."""

import os
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")


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
