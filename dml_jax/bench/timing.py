"""Times several contenders in turn, so that noise of the machine affects all alike."""

import functools
import gc
import itertools
import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

LEAST = 3  # samples of each contender


class Sample(NamedTuple):
    """Seconds of some calls, and the seconds of all cores; these are 0 where calls are queued."""

    took: float
    processor: float = 0.0


class Mark(NamedTuple):
    """A place in a device's queue: `passed` asks for it, `wait` returns when it is passed."""

    passed: Callable[[], bool]
    wait: Callable[[], object]


@dataclass(frozen=True)
class Contender:
    """A call to be timed, which does or queues the work on the set of data of a number."""

    call: Callable[[int], Any]
    wait: Callable[[], object] = lambda: None  # returns when the last call is done
    mark: Callable[[], Mark] | None = None  # marks the end of the queue, where calls are queued
    settle: float = 0.0  # seconds for which threads stay busy after a call
    warm: float = 0.0  # seconds of calls before a sample
    sets: int = 1  # on so many sets of data one call works

    def sample(self, sets: Iterator[int], calls: int) -> Sample:
        """Time some calls.

        Calls that are not counted wake threads and refill caches: one, or those of `warm` seconds.
        Where calls are queued, the clock runs between two marks: the way to the device and back is
        not part of the time.
        """
        end = time.perf_counter() + self.warm
        self.call(next(sets))
        while time.perf_counter() < end:
            self.wait()
            self.call(next(sets))
        if self.mark is None:
            self.wait()
            start, used = time.perf_counter(), time.process_time()
            for index in itertools.islice(sets, calls):
                self.call(index)
                self.wait()
            return Sample(time.perf_counter() - start, time.process_time() - used)
        begun = self.mark()
        start = time.perf_counter()
        self.call(next(sets))  # keeps the device busy while the host learns of the mark
        if not begun.passed():
            begun.wait()
            start = time.perf_counter()
        for index in itertools.islice(sets, calls - 1):
            self.call(index)
        self.mark().wait()
        took = time.perf_counter() - start
        self.wait()  # releases the results, and raises what went wrong
        return Sample(took)


@dataclass(frozen=True)
class Times:
    """Seconds of a call: quartiles, the least, and the median of the seconds of all cores.

    Other programs disturb `processor` less; it is 0 where calls are queued.
    """

    low: float
    median: float
    high: float
    best: float
    processor: float
    samples: int
    calls: int


def interleave(
    contenders: Mapping[str, Contender],
    sets: int = 1,
    *,
    samples: int = 11,
    seconds: float = 1.0,
    sample_seconds: float = 5e-3,
    give_up: float = 3.0,
    keep: Collection[str] = (),
) -> dict[str, Times]:
    """Time contenders by samples that are taken in turn, in an order that is shuffled each round.

    Args:
        contenders: by name.
        sets: how many sets of data there are. Each call uses the next one, whichever contender
            made the last call: none finds in the cache what another left there.
        samples: how many of each contender.
        seconds: after these, and `LEAST` rounds, no further round begins. On a busy machine they
            are processor time, up to four times as long.
        sample_seconds: a sample makes as many calls as last this long.
        give_up: a contender slower than the fastest by this factor gets `LEAST` samples.
        keep: contenders that are neither given up nor counted as the fastest.
    """
    turns = itertools.cycle(range(sets))
    taken: dict[str, list[Sample]] = {name: [] for name in contenders}
    calls = {n: _calls_of_a_sample(c, turns, sample_seconds) for n, c in contenders.items()}
    order, dice = list(contenders), random.Random(0)
    begin, used, collecting = time.perf_counter(), time.process_time(), gc.isenabled()
    # A collection would stop one contender alone, whichever happens to run then.
    gc.disable()
    try:
        for turn in range(samples):
            spent = time.perf_counter() - begin
            if turn >= LEAST and min(spent, max(time.process_time() - used, spent / 4)) > seconds:
                break
            fastest = {n: min(s.took for s in of) for n, of in taken.items() if of}
            limit = give_up * min((t for n, t in fastest.items() if n not in keep), default=0.0)
            # In a fixed order each contender would always find the caches as the same other left.
            dice.shuffle(order)
            for name in order:
                if turn >= LEAST and name not in keep and fastest[name] > limit:
                    continue
                found = contenders[name].sample(turns, calls[name])
                each = calls[name] * contenders[name].sets
                taken[name].append(Sample(found.took / each, found.processor / each))
                time.sleep(contenders[name].settle)
    finally:
        if collecting:
            gc.enable()
    return {n: _summary(taken[n], calls[n] * c.sets) for n, c in contenders.items()}


def _calls_of_a_sample(contender: Contender, turns: Iterator[int], seconds: float) -> int:
    """Find how many calls last this long; the first call compiles and touches memory."""
    count = 1
    while True:
        took = contender.sample(turns, count).took
        if took >= seconds / 2 or count >= 2**14:
            return max(1, min(math.ceil(count * seconds / took), 2**14))
        count *= min(max(2, int(seconds / 2 / max(took, 1e-7))), 16)


def _summary(taken: Sequence[Sample], calls: int) -> Times:
    took, processor = zip(*taken, strict=True)
    low, median, high = map(float, np.percentile(took, [25, 50, 75]))
    used = float(np.median(processor))
    return Times(low, median, high, min(took), used, len(taken), calls)


def has_queue(device: Any) -> bool:
    """Whether calls for a device are queued. On a CPU they would run beside each other."""
    return device.platform != "cpu"


def marks(*devices: Any) -> Callable[[], Mark] | None:
    """Return a `Contender.mark` for JAX's queues: on each device a program of one number."""

    def mark() -> Mark:
        numbers = [program(number) for program, number in map(_short_program, devices)]
        wait = functools.partial(jax.block_until_ready, numbers)
        return Mark(lambda: all(number.is_ready() for number in numbers), wait)

    return mark if has_queue(devices[0]) else None


@functools.cache
def _short_program(device: Any) -> tuple[Any, jax.Array]:
    number = jax.device_put(np.int32(0), device)
    return jax.jit(lambda x: x + 1).lower(number).compile(), number


def jax_contender(function: Callable[[int], Any], *devices: Any, sets: int = 1) -> Contender:
    """Return the contender of a function that returns arrays, which are kept until it is called."""
    held: list[Any] = [None]

    def call(index: int) -> Any:
        held[0] = function(index)
        return held[0]

    def wait() -> None:
        jax.block_until_ready(held[0])
        held[0] = None

    return Contender(call, wait, marks(*devices), sets=sets)
