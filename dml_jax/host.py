"""The host: its cores, and memory that a process keeps for the arrays that come next."""

import contextlib
import ctypes
import os
from pathlib import Path

from jax._src import xla_bridge

# glibc's <malloc.h>. One heap for all threads, since only that one can grow to any size; it, and
# not mmap, for blocks of any size; and its end is never given back.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_PARAMETERS = {_M_ARENA_MAX: 1, _M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1}
# Linux's <sys/mman.h>.
_MADV_HUGEPAGE = 14

SYSTEM = Path("/sys/devices/system/cpu")

_reused = False


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def last_cache_bytes() -> int | None:
    """Bytes of the last caches of all cores together; None where the system does not say.

    A virtual machine may be told of all of a cache that it shares with others.
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


def is_host_memory_reused() -> bool:
    """Whether `reuse_host_memory` took effect."""
    return _reused


def reuse_host_memory() -> bool:
    """Keeps what large arrays on the CPU leave, for the next ones, until the process ends.

    By itself glibc gives a block of more than 32 MB back to the system as soon as it is freed, and
    the next one begins with pages that the kernel has to clear, which takes longer than the work of
    an operator: 2 cores, jax 0.10.2, ms, an ELEMENT_WISE_CLIP of 134 MB, 50 without, 9 with, and
    16 where it does need new pages: they are large ones (2 MB) where the system has them, as those
    of NumPy's arrays are, and the heap reserves addresses for three quarters of the machine's
    memory. (That is not done, and small ones cost 38, where addresses are limited or accounted
    for: `ulimit -v`, strict overcommit.)
    The price is memory: what was held once is held until `release_host_memory`, and until blocks
    of the sizes that a program uses have settled, some calls still take a new one (3 to 12 of them
    of 34 MB in the first 20 calls, of a program that needs two). It is for programs that use the
    same few sizes again and again: what goes on to others leaves holes that fit nothing.

    To be called before JAX is used, and before other libraries start threads of their own: later
    it would do nothing. The same without a call, for any program: `MALLOC_ARENA_MAX=1
    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=18446744073709551615
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1` in the environment.

    Returns:
        Whether the allocator can do it: glibc's can, on Linux.

    Raises:
        RuntimeError: if JAX has started a backend.
    """
    global _reused
    if xla_bridge.backends_are_initialized():
        raise RuntimeError("reuse_host_memory() must be called before JAX is used")
    libc = _glibc()
    if libc is None:
        return False
    _reused = {libc.mallopt(*parameter) for parameter in _PARAMETERS.items()} == {1}
    if _reused:
        _advise(libc)
    return _reused


def release_host_memory() -> bool:
    """Gives the system back all pages that hold nothing now, for what comes next to take anew.

    Returns:
        Whether the allocator can do it.
    """
    libc = _glibc()
    if libc is None:
        return False
    libc.malloc_trim(0)
    if _reused:
        _advise(libc)
    return True


def _advise(libc: ctypes.CDLL) -> None:
    """Large pages for what the heap will grow to: the advice is of addresses, which it takes now.

    They cost nothing until they are written to, unless they count.
    """
    if _addresses_count():
        return
    page = os.sysconf("SC_PAGE_SIZE")
    used = int(Path("/proc/self/statm").read_text().split()[5])
    pages = os.sysconf("SC_PHYS_PAGES") * 3 // 4 - used
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    block = libc.malloc(page * pages) if pages > 1 else None
    if block is not None:
        libc.madvise(-(-block // page) * page, page * (pages - 1), _MADV_HUGEPAGE)
        libc.free(block)


def _addresses_count() -> bool:
    """Whether the system limits them or sets memory aside for them, or glibc writes to them."""
    import resource  # not everywhere

    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    with contextlib.suppress(OSError):
        strict = Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
        return limited or strict or "MALLOC_PERTURB_" in os.environ
    return True


def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  (what glibc alone has)
    except (OSError, TypeError, AttributeError):
        return None
    return libc
