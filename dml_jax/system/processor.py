"""The host: its cores, their caches, and the process."""

import os
import sys
from pathlib import Path

from dml_jax.errors import DmlError, Fault, Sentence

SYSTEM = Path("/sys/devices/system/cpu")


def cores() -> int:
    """Return how many cores this process may use."""
    # A container or `taskset` leaves fewer cores than `cpu_count` says, where the system tells.
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


_FORKED = list[int]()  # the children that began after JAX had begun: this process, or one before it


def _note_fork() -> None:
    # JAX says nowhere in public whether its backends have begun. Where the module is not loaded, or
    # loses the function, no child is refused.
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "backends_are_initialized", bool)():
        _FORKED.append(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def check_process() -> None:
    """Raise `DmlError` in the child of a process whose JAX had begun: programs would never end."""
    if _FORKED:
        text = "JAX cannot compute in this process: os.fork made it, of a process that had used "
        text += "JAX, whose threads it lacks (fork before the first session, network or array of "
        text += "JAX; or multiprocessing.get_context('spawn') makes processes that can)"
        raise DmlError([Fault("", "", Sentence(text), "")])
