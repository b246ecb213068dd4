"""Times of several contenders in one run, interleaved: a noisy machine is as noisy to each."""

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


@dataclass(frozen=True)
class Contender:
    """What is timed.

    Attributes:
        call: does the work on the set of data whose number it takes, or on several; may only queue
            it.
        wait: returns when the last call is done, where calls are not queued: each is waited for.
        mark: where they are, queues a mark behind them.
        settle: seconds for which its threads are busy after it is done, in the next one's way.
        sets: on how many sets a call does the work.
    """

    call: Callable[[int], object]
    wait: Callable[[], object] = lambda: None
    mark: Callable[[], "Mark"] | None = None
    settle: float = 0.0
    sets: int = 1

    def sample(self, sets: Iterator[int], calls: int) -> tuple[float, float | None]:
        """Seconds of so many calls, behind one that does not count.

        That one takes what is none of theirs: waking threads that slept while others had their
        turn, and caches that those filled.

        Of what is queued, the clock is read when the device has passed a mark before the first call
        that counts, and when it has passed one behind the last: the host's way to the device and
        back is in neither. (H200, jax 0.11.2: 0.3 ms a sample, which made a CLIP of 537 MB 275 us,
        where its kernel takes 250.) Where the device has passed the first mark before that call is
        queued, it waits for the host, and the call counts from its beginning.

        Returns:
            The seconds, and the part of them in which calls still were being queued.
        """
        self.call(next(sets))
        if self.mark is None:
            self.wait()
            start = time.perf_counter()
            for index in itertools.islice(sets, calls):
                self.call(index)
                self.wait()
            return time.perf_counter() - start, None
        begun = self.mark()
        start = time.perf_counter()
        self.call(next(sets))  # what the device does while the host hears of the mark
        if not begun.passed():
            begun.wait()
            start = time.perf_counter()
        for index in itertools.islice(sets, calls - 1):
            self.call(index)
        done = self.mark()
        queued = time.perf_counter() - start
        done.wait()
        took = time.perf_counter() - start
        self.wait()  # lets results go, and raises what went wrong
        return took, queued / took


class Mark(NamedTuple):
    """A place in what is queued: whether the device has passed it, and what waits until it has."""

    passed: Callable[[], bool]
    wait: Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds the work took.

    Attributes:
        median, low, high: the median, and the quartiles around it.
        samples: how many were taken.
        calls: how often it was done in each sample.
        queueing: where calls are queued, the part of a sample in which they still were. Near 1, the
            device waited for the host, and the time is the host's.
    """

    median: float
    low: float
    high: float
    samples: int
    calls: int
    queueing: float | None

    def to_json(self) -> dict[str, Any]:
        """In microseconds."""
        us = {name: getattr(self, name) * 1e6 for name in ("median", "low", "high")}
        found = {f"{name}_us": round(value, 3) for name, value in us.items()}
        found |= {"samples": self.samples, "calls": self.calls}
        return found if self.queueing is None else {**found, "queueing": round(self.queueing, 2)}


def interleaved(
    contenders: Mapping[str, Contender],
    sets: int = 1,
    *,
    samples: int = 11,
    least: int = 3,
    seconds: float = 1.0,
    sample_seconds: float = 5e-3,
    give_up: float = 3.0,
    keep: Collection[str] = (),
) -> dict[str, Times]:
    """The times of each, from samples taken in turn, in an order that is shuffled each time.

    Args:
        contenders: by name.
        sets: how many sets of data there are. Each call gets the one after the last call's,
            whoever made that: no contender finds in the cache what another one left there.
        samples: of each contender.
        least: of each, even where the seconds are over.
        seconds: after these no further round begins.
        sample_seconds: a sample makes as many calls as last this long.
        give_up: one that is slower than the fastest by more than this factor gets `least` samples,
            by more than three times this factor two: once may be an accident, as new pages are.
        keep: those that are neither given up nor counted as the fastest.
    """
    turns = itertools.cycle(range(sets))
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    queueing: dict[str, list[float]] = {name: [] for name in contenders}
    calls: dict[str, int] = {}
    for name, contender in contenders.items():
        count = 1
        while True:
            took, _ = contender.sample(turns, count)  # the first compiles, allocates
            if took >= sample_seconds / 2 or count >= 2**14:
                break
            count *= min(max(2, int(sample_seconds / 2 / max(took, 1e-7))), 16)
        calls[name] = max(1, min(math.ceil(count * sample_seconds / took), 2**14))
    order, dice, begin = list(contenders), random.Random(0), time.perf_counter()
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(samples):
            over = time.perf_counter() - begin > seconds
            if turn >= least and over:
                break
            compared = [v for name, v in taken.items() if name not in keep] if turn else []
            best = min(map(min, compared), default=0.0)
            dice.shuffle(order)
            for name in order:
                slower = min(taken[name], default=0.0) / best if best else 0.0
                enough = 2 if slower > 3 * give_up else least
                if turn >= enough and slower > give_up and name not in keep:
                    continue
                contender, count = contenders[name], calls[name]
                took, queued = contender.sample(turns, count)
                taken[name].append(took / (count * contender.sets))
                if queued is not None:
                    queueing[name].append(queued)
                time.sleep(contender.settle)
    finally:
        if collecting:
            gc.enable()
    return {
        name: _summary(taken[name], calls[name] * contender.sets, queueing[name])
        for name, contender in contenders.items()
    }


def _summary(taken: Sequence[float], calls: int, queueing: Sequence[float]) -> Times:
    low, median, high = np.percentile(taken, [25, 50, 75])
    waits = float(np.median(queueing)) if queueing else None
    return Times(float(median), float(low), float(high), len(taken), calls, waits)


def is_queued(device: Any) -> bool:
    """Whether work for a device is queued. The CPU's would run beside each other if it were."""
    return device.platform != "cpu"


def marks(*devices: Any) -> Callable[[], Mark] | None:
    """A `Contender.mark` of what JAX queues on devices: on each a program of one number."""
    return functools.partial(_mark, devices) if is_queued(devices[0]) else None


def _mark(devices: Sequence[Any]) -> Mark:
    numbers = [program(number) for program, number in map(_short_program, devices)]
    wait = functools.partial(jax.block_until_ready, numbers)
    return Mark(lambda: all(number.is_ready() for number in numbers), wait)


@functools.cache
def _short_program(device: Any) -> tuple[Any, jax.Array]:
    number = jax.device_put(np.int32(0), device)
    return jax.jit(lambda x: x + 1).lower(number).compile(), number


def jax_contender(function: Callable[[int], Any], *devices: Any, sets: int = 1) -> Contender:
    """Of a function that returns arrays of these devices; each is let go at the next call."""
    held: list[Any] = [None]

    def call(index: int) -> None:
        held[0] = function(index)

    def wait() -> None:
        jax.block_until_ready(held[0])
        held[0] = None

    return Contender(call, wait, marks(*devices), sets=sets)
