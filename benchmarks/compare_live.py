"""Shows the verdicts of `dml-jax bench --compare` on this machine.

`python benchmarks/compare_live.py` takes about ten minutes. It measures five cells twice while two
processes spin half of the time: no cell may be called changed. Then it measures the cells, and the
same ones with a tenth more to do, without these processes: each cell must be slower. The exit
status is 1 if a verdict is wrong. `--processes 5` is quicker, and finds less. `--length 400` makes
the cells as large as a GPU needs.
"""

import argparse
import functools
import subprocess
import sys
import time
from dataclasses import replace

import jax

from dml_jax.bench import compare, runs
from dml_jax.bench.cells import Cell, cells
from dml_jax.bench.measure import Bench
from dml_jax.bench.rows import Results, environment

MORE = 1.1  # the work of the cells that must be slower
SPIN = "import time\nwhile True:\n end = time.monotonic() + 0.05\n"
SPIN += " while time.monotonic() < end: pass\n time.sleep(0.05)"


def chosen(length: int) -> list[Cell]:
    """Return five cells whose work grows with the length of their first axis."""
    names = ("ELEMENT_WISE_CLIP", "ELEMENT_WISE_ADD", "ELEMENT_WISE_TANH", "REDUCE", "TILE")
    sizes = {"": (length, 32, 64, 64)}
    return [cells([name], ["FLOAT32"], variants=1, sizes=sizes)[0] for name in names]


def measured(name: str, length: int, processes: int) -> Results:
    """Measure a run of cells of a length in processes of their own."""
    results, begin = Results(), time.monotonic()
    command = [sys.executable, __file__, "--child", "--length", str(length)]
    for _ in runs.in_processes(command, results, processes, 0.0, lambda *_: None):
        pass
    results.rows = {row.label: replace(row, name=row.label) for row in results.rows.values()}
    print(f"{name}: {time.monotonic() - begin:.0f} s", flush=True)
    return results


def main() -> bool:
    """Print the verdicts; return whether they are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--length", type=int, default=20, help="of the cells' first axis")
    parser.add_argument("--child", action="store_true", help="one process (used by this script)")
    options = parser.parse_args()
    if options.child:
        device, say = jax.devices()[0], functools.partial(print, flush=True)
        runs.child(Bench(device, 0.5), chosen(options.length), environment(device), say)
        return True
    length, processes = options.length, options.processes
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        first, second = (measured(name, length, processes) for name in ("first", "second"))
    finally:
        for process in spinning:
            process.kill()
    old = measured("old", length, processes)
    slower = measured("slower", round(length * MORE), processes)
    right = True
    for pair, wanted in (((first, second), {"same", "undecided"}), ((old, slower), {"slower"})):
        found = compare.compare(*pair)
        for verdict in found:
            print(f"{verdict.ratio:.3f}  {verdict.verdict:10}{verdict.name}")
        print(compare.summary(found))
        right &= {verdict.verdict for verdict in found} <= wanted
    return right


if __name__ == "__main__":
    sys.exit(not main())
