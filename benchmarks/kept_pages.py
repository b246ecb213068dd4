"""Starts a benchmark again with an allocator that keeps the memory of freed arrays.

docs/performance.md has the same environment variables for users. ONNX Runtime and PyTorch keep
freed memory by themselves.
"""

import os
import sys

KEPT_PAGES = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**64 - 1),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""What glibc's allocator reads when a process starts."""


def restart_with_kept_pages() -> None:
    """Start this program again with `KEPT_PAGES`, where it does not have them."""
    if not KEPT_PAGES.items() <= os.environ.items():
        os.environ |= KEPT_PAGES
        os.execv(sys.executable, [sys.executable, *sys.argv])
