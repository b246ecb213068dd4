"""The cache by last use: what is evicted, and threads that build."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from dml_jax.runtime.recently_used import RecentlyUsed


def test_the_least_recently_used_entry_is_evicted():
    dropped = list[int]()
    cache = RecentlyUsed[int](2, dropped.append)
    assert [cache.get_or_build(key, lambda key=key: key * 10) for key in (1, 2)] == [10, 20]
    assert cache.get(1) == 10  # so that 2 goes first
    cache.put(3, 30)
    assert cache.entries() == [10, 30] and dropped == [20] and len(cache) == 2
    assert 2 not in cache and cache.get(2) is None
    cache.clear()
    assert sorted(dropped) == [10, 20, 30] and not len(cache)


def test_threads_that_want_one_key_build_it_once_and_other_keys_meanwhile():
    cache, built = RecentlyUsed[str](4), list[str]()
    both = threading.Barrier(2, timeout=20)

    def build(key: str) -> str:
        built.append(key)
        both.wait()  # passes only where the two keys are built at the same time
        time.sleep(0.02)
        return key

    with ThreadPoolExecutor(8) as threads:
        keys = ["a", "b"] * 4
        assert [*threads.map(lambda key: cache.get_or_build(key, lambda: build(key)), keys)] == keys
    assert sorted(built) == ["a", "b"]


def test_an_error_is_raised_and_the_next_call_builds_again():
    cache = RecentlyUsed[int](1)

    def fail() -> int:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cache.get_or_build("key", fail)
    assert cache.get_or_build("key", lambda: 1) == 1


def test_entries_that_hold_each_other_are_freed_after_some_evictions():
    class Program:
        def __init__(self):
            self.itself = self

    cache, held = RecentlyUsed[Program](1), list[weakref.ref[Program]]()
    gc.disable()  # so that nothing but the cache looks
    try:
        for key in range(40):
            program = Program()
            held.append(weakref.ref(program))
            cache.put(key, program)
            del program
    finally:
        gc.enable()
    assert sum(found() is not None for found in held) < 10
