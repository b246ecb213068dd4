"""How much memory is free: of a device, and of this process on its host."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Device = Any  # jax.Device, which type checkers take for a variable

ROOT = Path("/")


def device_bytes(device: Device) -> int | None:
    """Bytes free on a device; None where its platform does not say, as the host's does not."""
    stats = device.memory_stats() or {}
    limit = stats.get("bytes_limit")
    return None if limit is None else limit - stats.get("bytes_in_use", 0)


def host_bytes() -> int | None:
    """Bytes that this process can still get: of the machine, its container and its own limits."""
    sources = (_machine, _containers, _limits)
    return min((max(free, 0) for source in sources for free in source()), default=None)


def _fields(path: Path) -> dict[str, int]:
    """`MemAvailable: 123 kB` and `anon 123`, a line each; none where there is no such file."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {
        words[0].rstrip(":"): int(words[1]) for words in lines if words[1:2] and words[1].isdigit()
    }


def _machine() -> Iterator[int]:
    available = _fields(ROOT / "proc/meminfo").get("MemAvailable")
    if available is not None:
        yield available * 1024


def _containers() -> Iterator[int]:
    """Control groups, of version 2 and 1, this process's own and those that it lies in."""
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
                continue  # what lies outside of a container is not seen in it
            if most.isdigit():
                yield int(most) - _fields(folder / "memory.stat").get(anonymous, 0)


def _limits() -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave."""
    try:
        import resource

        pages = [int(n) for n in (ROOT / "proc/self/statm").read_text().split()]
    except (ImportError, OSError):
        return
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        most, _ = resource.getrlimit(limit)
        if most != resource.RLIM_INFINITY:
            yield most - used * resource.getpagesize()
