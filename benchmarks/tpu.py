"""What a TPU's compiler makes of every cell, on a machine without one: `python benchmarks/tpu.py`.

With `pip install 'jax[tpu]'`, on Linux; as long as `JAX_PLATFORMS=cpu` is set, no TPU is looked
for. libtpu compiles each cell of `table.py` and its straightforward expression, and says what
temporary memory the program needs, and how many cycles it expects of each of its parts. These are
its own estimates, by which it schedules: nothing runs, and nothing is measured. Where it estimates
only some parts of a program, it takes more than these.
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from expressions import expression
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding
from table import Cell, cells, named_kinds

import dml_jax

FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "iota", "after-all"}
"""Instructions that take no time; the ends of asynchronous copies overlap with others."""


say = functools.partial(print, flush=True)


def devices(topology: str = "v5e:2x2", accelerator: str = "v5litepod-4") -> Sequence[Any]:
    """Those of a topology, for which programs compile; they run nowhere."""
    # Read when libtpu is loaded: no other machines are to be asked what this one is.
    os.environ |= {
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": accelerator,
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
    }
    return topologies.get_topology_desc(topology, "tpu").devices


def estimated(text: str) -> dict[str, Any]:
    """The cycles that the optimised HLO expects of the entry computation's parts; if of all."""
    total, whole = 0, True
    for line in text[text.index("\nENTRY") :].splitlines()[2:]:
        found = re.match(r"\s+(?:ROOT )?%\S+ = .*? ([\w-]+)\(", line)
        if not found or found[1] in FREE or found[1].startswith(("copy-", "slice-", "async-")):
            continue
        estimate = re.search(r'"estimated_cycles":"(\d+)"', line)
        total += int(estimate[1]) if estimate else 0
        whole &= estimate is not None
    return {"cycles": total, "whole": whole}


def compiled(function: Callable[..., Any], cell: Cell, device: Any) -> dict[str, Any]:
    """Estimated cycles and bytes of temporary memory; or libtpu's first words on why not."""
    place = SingleDeviceSharding(device)
    inputs = [jax.ShapeDtypeStruct(t.sizes, t.dtype, sharding=place) for t in cell.function.inputs]
    try:
        program = jax.jit(function).trace(*inputs).lower(lowering_platforms=("tpu",)).compile()
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error).partition("\n")[0]}
    memory: Any = program.memory_analysis()
    return {**estimated(program.as_text() or ""), "temporary": memory.temp_size_in_bytes}


def shown(found: dict[str, Any], cell: Cell) -> str:
    """In millions of cycles, and beside the bytes that must move."""
    if "error" in found:
        return f"{found['error'][:25]:>25}"
    estimate = f"{'' if found['whole'] else '>'}{found['cycles'] / 1e6:.3f}"
    return f"{estimate:>10} {found['temporary'] / cell.bytes:>8.2f} times"


def summarised(results: dict[str, dict[str, Any]]) -> str:
    """Over all cells."""
    pairs = [(r["dml_jax"], r["plain"]) for r in results.values()]
    both = [(a, b) for a, b in pairs if a.get("whole") and b.get("whole")]
    ratio = statistics.geometric_mean(b["cycles"] / a["cycles"] for a, b in both) if both else 1
    slower = sum(a["cycles"] > 1.05 * b["cycles"] for a, b in both)
    failed = [sum("error" in pair[i] for pair in pairs) for i in (0, 1)]
    return (
        f"{len(pairs)} cells; {failed[0]} do not compile, {failed[1]} plain ones; of {len(both)} "
        f"with both estimates {ratio:.2f} times as fast as plain, {slower} more than 5% slower"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a line for each cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", nargs="*", help=f"of {', '.join(named_kinds())}; or all")
    parser.add_argument("--topology", default="v5e:2x2", help="v5e:2x2, v6e:2x2, v4:2x2x1 ...")
    parser.add_argument("--accelerator", default="v5litepod-4", help="as TPU_ACCELERATOR_TYPE")
    parser.add_argument("--json", type=Path, help="where results go, too")
    options = parser.parse_args(argv)
    try:
        chosen = cells(options.kind)
    except dml_jax.DmlError as error:
        parser.error(str(error))
    if importlib.util.find_spec("libtpu") is None:
        parser.error("this needs libtpu: pip install 'jax[tpu]'")
    device = devices(options.topology, options.accelerator)[0]
    results: dict[str, dict[str, Any]] = {}
    say(f"{device.device_kind}, jax {jax.__version__}: millions of cycles, temporary memory")
    width = max(len(cell.name) for cell in chosen)
    for cell in chosen:
        functions = {"dml_jax": cell.function, "plain": expression(cell.function)}
        found = {name: compiled(f, cell, device) for name, f in functions.items()}
        results[cell.name] = {"bytes": cell.bytes, **found}
        say(f"{cell.name:<{width}} {'  '.join(shown(r, cell) for r in found.values())}")
    say(summarised(results))
    if options.json:
        about = {
            "device": device.device_kind,
            "jax": jax.__version__,
            "libtpu": importlib.metadata.version("libtpu"),
        }
        options.json.write_text(json.dumps({**about, "cells": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
