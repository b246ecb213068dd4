"""Times what a program does, and prints its answers: for the programs of this folder."""

import json
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

STEADY, SETTLING = 3, 6  # calls that are timed, and calls before these


def report(answers: Callable[[], Any]) -> None:
    """Print a line of JSON: the answers, the seconds of the first call, and of later ones.

    The seconds are processor time, which other work on the machine does not change much. `answers`
    makes all that it needs at its first call, and returns lists, texts and numbers. Programs that
    were compiled quickly at first are replaced by good ones while it is called more often.
    """
    start = time.process_time()
    found = answers()
    first, later = time.process_time() - start, []
    for _ in range(SETTLING):
        answers()
    while any(thread.name == "dml_jax compiles" for thread in threading.enumerate()):
        time.sleep(0.1)
    for _ in range(STEADY):
        start = time.process_time()
        answers()
        later.append(time.process_time() - start)
    line = {"answers": found, "first": first, "steady": statistics.median(later)}
    print(json.dumps(line, default=float))
