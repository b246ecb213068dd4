"""What the host is: its cores and their caches."""

import os
from pathlib import Path

import pytest

from dml_jax.system import processor


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
def test_cores_are_those_of_the_process():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert processor.cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert processor.cores() == len(before)


def test_last_caches_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processor, "SYSTEM", tmp_path)
    assert processor.last_cache_bytes() is None
    # As Linux has it: two pairs of cores, each behind an L3 of its own; the first level in two.
    for core, pair in enumerate(["0-1", "0-1", "2-3", "2-3"]):
        caches = [(1, str(core), "32K"), (1, str(core), "48K"), (3, pair, "32768K")]
        for index, cache in enumerate(caches):
            place = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            place.mkdir(parents=True)
            for name, value in zip(("level", "shared_cpu_list", "size"), cache, strict=True):
                (place / name).write_text(f"{value}\n")
    (tmp_path / "cpufreq").mkdir()
    assert processor.last_cache_bytes() == 2 * 2**25
