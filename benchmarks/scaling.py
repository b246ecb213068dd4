"""Weak scaling over the devices of one host: `python benchmarks/scaling.py --json scaling.json`.

SUM over a sharded axis, and DEPTH_TO_SPACE1 of a sharded batch, on 1, 2, 4 and 8 devices, as many
as there are; each holds the same share however many they are. A time is that of one call of many
that are queued, the median of samples that are interleaved over the numbers of devices; efficiency
is the time of one device over that of several. "all-reduce" is what the SUM waits for beside its
reading: the partial results alone, combined.

On CPU, whose devices share its cores, the figures say nothing; --mebibytes 1 tries the script.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import DepthToSpace1, Operator, Reduce, TensorDesc

COLUMNS = (2**14, 2**20)  # of what is summed: 64 KiB and 4 MiB to combine


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def operators(devices: int, mebibytes: int) -> Iterator[tuple[str, Operator]]:
    """Each cell's operator, with so much input a device, in FLOAT32."""
    elements = mebibytes * 2**18
    for columns in COLUMNS:
        for name, rows in (("SUM", max(elements // columns, 1)), ("all-reduce", 1)):
            tensor = TensorDesc("FLOAT32", [devices * rows, columns])
            op = Reduce.infer(function="SUM", input_tensor=tensor, axes=[0])
            yield f"{name}, {columns} columns", op
    tensor = TensorDesc("FLOAT32", [devices * max(elements // 2**18, 1), 64, 64, 64])
    fields = {"input_tensor": tensor, "block_size": 2, "order": "DEPTH_COLUMN_ROW"}
    yield "DEPTH_TO_SPACE1", DepthToSpace1.infer(**fields)


def queued(devices: int, op: Operator) -> Callable[[int], float]:
    """Milliseconds a call, of so many that wait for one another on the devices only."""
    auto, chosen = (AxisType.Auto,), jax.devices()[:devices]
    mesh = jax.make_mesh((devices,), ("devices",), axis_types=auto, devices=chosen)
    batch = NamedSharding(mesh, P("devices"))
    out = NamedSharding(mesh, P()) if isinstance(op, Reduce) else batch
    program = dml_jax.compile(op, in_shardings=batch, out_shardings=out)
    rows, *rest = op.inputs[0].sizes
    share = (rows // devices, *rest)
    x = jax.jit(
        jax.shard_map(
            lambda: jax.random.uniform(jax.random.key(0), share, jnp.float32),
            mesh=mesh,
            in_specs=(),
            out_specs=P("devices"),
        )
    )()

    def run(calls: int) -> float:
        jax.block_until_ready(x)
        start = time.perf_counter()
        for _ in range(calls - 1):
            program(x)
        jax.block_until_ready(program(x))
        return (time.perf_counter() - start) * 1e3 / calls

    return run


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a row for each cell and number of devices, and keeps them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # A tensor has less than 2^32 elements, so those of 8 devices together less than 16 GiB.
    parser.add_argument("--mebibytes", type=int, default=2040, help="of input a device")
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--calls", type=int, default=20, help="queued in a sample")
    parser.add_argument("--json", type=Path, help="where to keep the results")
    options = parser.parse_args(argv)
    counts = [n for n in (1, 2, 4, 8) if n <= jax.device_count()]
    kind = jax.devices()[0].device_kind
    say(f"{kind} x {jax.device_count()}, jax {jax.__version__}, {options.mebibytes} MiB a device")

    cells = {n: dict(operators(n, options.mebibytes)) for n in counts}
    results = []
    for name in cells[1]:
        runs = {n: queued(n, cells[n][name]) for n in counts}
        times: dict[int, list[float]] = {n: [] for n in counts}
        for sample in range(options.samples + 1):
            for n, run in runs.items():
                took = run(options.calls)
                if sample:  # the first warms up
                    times[n].append(took)
        medians = {n: statistics.median(times[n]) for n in counts}
        for n, op in cells.items():
            read, written = (
                sum(t.total_tensor_size_in_bytes for t in tensors)
                for tensors in (op[name].inputs, op[name].outputs)
            )
            # Each device has the whole of a sum, and its share of all else.
            moved = read / n + (written if isinstance(op[name], Reduce) else written / n)
            row = {
                "cell": name,
                "operator": op[name].describe(),
                "devices": n,
                "ms": medians[n],
                "fastest_ms": min(times[n]),
                "slowest_ms": max(times[n]),
                "gigabytes_per_second_and_device": moved / medians[n] / 1e6,
                "efficiency": medians[1] / medians[n],
            }
            results.append(row)
            say(
                f"{name:<26} {n} devices {medians[n]:9.4f} ms "
                f"{row['gigabytes_per_second_and_device']:8.1f} GB/s each, "
                f"efficiency {row['efficiency']:.3f}"
            )
    if options.json:
        about = {"device": kind, "jax": jax.__version__, "mebibytes": options.mebibytes}
        about |= {"samples": options.samples, "calls": options.calls}
        options.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
