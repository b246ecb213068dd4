"""Repeats a dispatch and measures it, with DxDispatch's options."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, median_high
from typing import Any

from dml_jax.errors import printable

_FIGURES: Any = {"average": fmean, "min": min, "median": median_high, "max": max}
Track = Callable[[Iterable[int], str], Iterable[int]]


@dataclass(frozen=True)
class Timing:
    """Options for the repetition of dispatches and for their report, as DxDispatch has them.

    Attributes:
        iterations: the least number of iterations.
        repeat: the dispatches in one iteration.
        milliseconds_to_run: the least time of all iterations.
        interval: the least milliseconds from one iteration to the next.
        warmup_samples: the first iterations, which hot statistics leave out.
        verbosity: 0 reports the hot median, 1 all statistics, 2 every iteration too.
    """

    iterations: int = 1
    repeat: int = 1
    milliseconds_to_run: float | None = None
    interval: float = 0.0
    warmup_samples: int = 1
    verbosity: int = 0

    def measure(
        self,
        name: str,
        dispatch: Callable[[], Any],
        wait: Callable[[], Any],
        track: Track = lambda iterations, _: iterations,
    ) -> list[float]:
        """Return the milliseconds of a call of `dispatch` in each iteration.

        `wait` waits until all that was dispatched is done, and `track` wraps the iterations, for a
        progress bar with `name`.
        """
        samples: list[float] = []
        begin = due = time.perf_counter()

        def count() -> Iterator[int]:
            limit, done = self.milliseconds_to_run or 0.0, 0
            while done < self.iterations or (max(time.perf_counter(), due) - begin) * 1e3 < limit:
                yield done
                done += 1

        iterations = range(self.iterations) if self.milliseconds_to_run is None else count()
        for _ in track(iterations, name):
            time.sleep(max(due - time.perf_counter(), 0))
            start = time.perf_counter()
            due = start + self.interval / 1e3
            for _ in range(self.repeat):
                dispatch()
            wait()
            samples.append((time.perf_counter() - start) * 1e3 / self.repeat)
        return samples

    def report(self, name: str, samples: list[float]) -> Iterator[str]:
        """Yield the lines of the report on the samples of a dispatch."""
        cold = min(len(samples) - 1, self.warmup_samples)
        parts = {"Cold": samples[:cold], "Hot": samples[cold:]}
        title = f"Dispatch '{printable(name)}': {len(samples)} iteration{'s' * (len(samples) != 1)}"
        if self.verbosity == 0:
            hot = parts["Hot"]
            median = median_high(hot)
            yield f"{title}, {median:.4f} ms{' median' * (len(hot) > 1)}"
            return
        yield title
        for part, times in parts.items():
            if times:
                figures = ", ".join(f"{of(times):.4f} ms {what}" for what, of in _FIGURES.items())
                yield f"Timings {f'({part})':<6} : {len(times)} samples, {figures}"
        if self.verbosity > 1:
            yield "The timings of each iteration:"
            for index, sample in enumerate(samples):
                yield f"iteration {index}: {sample:.4f} ms"


ONCE = Timing()
