"""Memory on the CPU that is kept for the arrays that come next."""

import platform
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from dml_jax import host_memory, release_host_memory, reuse_host_memory

# Runs in a process of its own: what it sets stays. 34 MB are more than glibc keeps by itself.
_PROGRAM = """
import resource
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
released = held - resident()
with open("/proc/self/smaps") as maps:
    flags = [line.split()[1:] for line in maps if line.startswith("VmFlags")]
print(again, released, sum("hg" in of_one for of_one in flags))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is glibc's")
def test_pages_are_used_again_and_given_back():
    program = [sys.executable, "-c", _PROGRAM]
    out = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    again, released, advised = map(int, out.split())
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    assert (advised > 0) == setting.exists()
    large = setting.exists() and "[never]" not in setting.read_text()
    pages = 2**25 // (2**21 if large else 4096)
    assert again < 20 * pages / 2  # where memory is given back in between, all of them
    assert released >= 2**25 // 4096


def test_it_is_too_late_once_jax_has_started():
    jax.block_until_ready(jnp.zeros(3))
    with pytest.raises(RuntimeError, match="before JAX is used"):
        reuse_host_memory()


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_memory.xla_bridge, "backends_are_initialized", lambda: False)
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda _: object())
    assert not reuse_host_memory()
    assert not release_host_memory()
