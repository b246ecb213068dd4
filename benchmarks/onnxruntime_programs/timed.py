"""Times what a program does, and prints its answers: for the programs of this folder."""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

STEADY = 3


def report(answers: Callable[[], Any]) -> None:
    """Print a line of JSON: the answers, the seconds of the first call, and of later ones.

    The seconds are processor time, which other work on the machine does not change much. `answers`
    makes all that it needs at its first call, and returns lists, texts and numbers.
    """
    start = time.process_time()
    found = answers()
    first, later = time.process_time() - start, []
    for _ in range(STEADY):
        start = time.process_time()
        answers()
        later.append(time.process_time() - start)
    line = {"answers": found, "first": first, "steady": statistics.median(later)}
    print(json.dumps(line, default=float))
