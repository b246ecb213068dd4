"""Memory on the CPU that is kept for the arrays that come next."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from dml_jax import host, release_host_memory, reuse_host_memory

# Runs in a process of its own: what it sets stays. 34 MB are more than glibc keeps by itself. Pages
# are small ones here, so that their number says how much memory is new.
_PROGRAM = """
import ctypes, resource
PR_SET_THP_DISABLE = 41
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
import jax, jax.numpy as jnp
import dml_jax

def resident():
    with open("/proc/self/statm") as counts:
        return int(counts.read().split()[1])

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

assert dml_jax.reuse_host_memory()
x = jnp.ones((2**23 + 1,), jnp.float32)
clip = jax.jit(lambda x: dml_jax.clip(x, 0.0, 0.5))
for turn in range(100):
    if turn == 80:
        before = faults()
    assert clip(x).block_until_ready()[-1] == 0.5
again = faults() - before
del x
held = resident()
assert dml_jax.release_host_memory()
print(again, held - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is glibc's")
def test_pages_are_used_again_and_given_back():
    again, released = map(int, _printed(_PROGRAM))
    pages = 2**25 // 4096
    assert again < 20 * pages / 2  # where memory is given back in between, all of them
    assert released >= pages


_ADVISED = """
import re, resource, sys
import dml_jax

def advised():
    with open("/proc/self/smaps") as maps:
        flags = re.findall(r"^Size: +(\\d+) kB$(?s:.*?)^VmFlags:(.*)$", maps.read(), re.M)
    return sum(int(size) for size, names in flags if "hg" in names.split()) // 1024

if len(sys.argv) > 1:
    resource.setrlimit(resource.RLIMIT_AS, (2**36, 2**36))
assert dml_jax.reuse_host_memory()
first = advised()
held = bytearray(2**26)
assert dml_jax.release_host_memory()
print(first, advised())
"""


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists()
    or Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    or platform.libc_ver()[0] != "glibc",
    reason="the system has no large pages, or accounts for addresses",
)
def test_large_pages_are_for_what_is_to_come():
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 3 / 4 / 2**20
    for advised in map(int, _printed(_ADVISED)):
        assert 0.8 * most < advised < most  # also after a release, and never more than there is
    assert _printed(_ADVISED, "limited") == ["0", "0"]  # addresses are not to be had for nothing


def _printed(program: str, *words: str) -> list[str]:
    # What of these the environment has would change what the program finds.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GLIBC_", "MALLOC_"))}
    env = clean | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    return done.stdout.split()


def test_it_is_too_late_once_jax_has_started():
    jax.block_until_ready(jnp.zeros(3))
    with pytest.raises(RuntimeError, match="before JAX is used"):
        reuse_host_memory()


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host.xla_bridge, "backends_are_initialized", lambda: False)
    monkeypatch.setattr(host.ctypes, "CDLL", lambda _: object())
    assert not reuse_host_memory()
    assert not release_host_memory()


def test_last_caches_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "SYSTEM", tmp_path)
    assert host.last_cache_bytes() is None
    # As Linux has it: two pairs of cores, each behind an L3 of its own; the first level in two.
    for core, pair in enumerate(["0-1", "0-1", "2-3", "2-3"]):
        caches = [(1, str(core), "32K"), (1, str(core), "48K"), (3, pair, "32768K")]
        for index, cache in enumerate(caches):
            place = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            place.mkdir(parents=True)
            for name, value in zip(("level", "shared_cpu_list", "size"), cache, strict=True):
                (place / name).write_text(f"{value}\n")
    (tmp_path / "cpufreq").mkdir()
    assert host.last_cache_bytes() == 2 * 2**25
