"""Shows the verdicts of `dml-jax bench --compare` on this machine.

`python benchmarks/compare_live.py` takes about ten minutes. It measures five cells twice while two
processes spin half of the time: no cell may be called changed. Then it measures the cells, and the
same ones with a tenth more to do, without these processes: each cell must be slower. The exit
status is 1 if a verdict is wrong. `--processes 5` is quicker, and finds less. `--length 400` makes
the cells as large as a GPU needs.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from dml_jax.bench import compare
from dml_jax.bench.cells import cells
from dml_jax.bench.rows import Results

NAMES = ("ELEMENT_WISE_CLIP", "ELEMENT_WISE_ADD", "ELEMENT_WISE_TANH", "REDUCE", "TILE")
MORE = 1.1  # the work of the cells that must be slower
SPIN = "import time\nwhile True:\n end = time.monotonic() + 0.05\n"
SPIN += " while time.monotonic() < end: pass\n time.sleep(0.05)"


def measured(what: str, length: int, processes: int) -> Results:
    """Measure five cells whose work grows with the length of their first axis."""
    sizes, begin = {"": (length, 32, 64, 64)}, time.monotonic()
    chosen = [cells([name], ["FLOAT32"], variants=1, sizes=sizes)[0] for name in NAMES]
    with tempfile.TemporaryDirectory() as folder:
        names, target = Path(folder, "names.txt"), Path(folder, "run.json")
        names.write_text("\n".join(cell.name for cell in chosen))
        words = ["--sizes", ",".join(map(str, sizes[""])), "--dtype", "FLOAT32", "--seconds", "0.5"]
        words += [word for name in NAMES for word in ("--operator", name)]
        words += ["--cells", str(names), "--processes", str(processes), "-o", str(target)]
        command = [sys.executable, "-m", "dml_jax", "bench", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results = Results.load(target)
    results.rows = {row.label: replace(row, name=row.label) for row in results.rows.values()}
    print(f"{what}: {time.monotonic() - begin:.0f} s", flush=True)
    return results


def main() -> bool:
    """Print the verdicts; return whether they are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--length", type=int, default=20, help="of the cells' first axis")
    options = parser.parse_args()
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
