"""The free memory of a device, and of this process on its host."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Device = Any  # jax.Device, which type checkers take for a variable

ROOT = Path("/")


def device_bytes(device: Device) -> int | None:
    """Return the bytes that are free on `device`, or None if its platform does not say."""
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    return None if limit is None else limit - stats.get("bytes_in_use", 0)


def free_bytes(device: Device) -> int | None:
    """Return the bytes that are free for arrays on `device`: those of the host if it is a CPU."""
    return host_bytes() if device.platform == "cpu" else device_bytes(device)


def host_bytes() -> int | None:
    """Return the bytes that the machine, the containers and the limits leave to this process."""
    sources = (_machine, _containers, _limits)
    return min((max(free, 0) for source in sources for free in source()), default=None)


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file (`MemAvailable: 123 kB`, `anon 123`), by name."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {
        words[0].rstrip(":"): int(words[1]) for words in lines if words[1:2] and words[1].isdigit()
    }


def _machine() -> Iterator[int]:
    """Yield the available bytes of the machine, on Linux."""
    available = _fields(ROOT / "proc/meminfo").get("MemAvailable")
    if available is not None:
        yield available * 1024


def _containers() -> Iterator[int]:
    """Yield the bytes that each enclosing control group (version 1 or 2) leaves."""
    try:
        lines = (ROOT / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        mount = ROOT / "sys/fs/cgroup" / controllers
        limit, anonymous = (
            ("memory.limit_in_bytes", "total_rss") if controllers else ("memory.max", "anon")
        )
        inner = mount / place.lstrip("/")
        for folder in (inner, *inner.parents):
            try:
                most = (folder / limit).read_text().strip()
            except OSError:
                continue  # a container does not show its outer groups
            if most.isdigit():
                # Not all memory of the group: its cache of files goes where memory is needed.
                yield int(most) - _fields(folder / "memory.stat").get(anonymous, 0)


def _limits() -> Iterator[int]:
    """Yield the bytes that `ulimit -v` and `ulimit -d` leave."""
    try:
        import resource

        pages = [int(n) for n in (ROOT / "proc/self/statm").read_text().split()]
    except (ImportError, OSError):
        return
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            yield most - used * resource.getpagesize()
