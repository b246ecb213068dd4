"""Times what a program does, and prints its answers: for the programs of this folder."""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

STEADY = 5


def report(answers: Callable[[], Any]) -> None:
    """Print a line of JSON: the answers, the seconds of the first call, and of later ones.

    `answers` makes all that it needs at its first call, and returns lists, texts and numbers.
    """
    start = time.perf_counter()
    found = answers()
    first, later = time.perf_counter() - start, []
    for _ in range(STEADY):
        start = time.perf_counter()
        answers()
        later.append(time.perf_counter() - start)
    line = {"answers": found, "first": first, "steady": statistics.median(later)}
    print(json.dumps(line, default=float))
