"""Weak scaling over the devices of one host: `python benchmarks/scaling.py --json scaling.json`.

SUM over a sharded axis, and DEPTH_TO_SPACE1 of a sharded batch, on 1, 2, 4 and 8 devices, as many
as there are; each holds the same share however many they are. Times are taken as `dml-jax bench`
takes them, interleaved over the numbers of devices; efficiency is the time of one device over that
of several. "all-reduce" is what the SUM waits for beside its reading: the partial results alone,
combined.

On CPU, whose devices share its cores, the figures say nothing; --mebibytes 1 tries the script.
"""

import argparse
import functools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import DepthToSpace1, Operator, Reduce, TensorDesc
from dml_jax.bench.timing import Contender, interleaved, jax_contender

COLUMNS = (2**14, 2**20)  # of what is summed: 64 KiB and 4 MiB to combine


say = functools.partial(print, flush=True)


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


def contender(devices: int, op: Operator) -> Contender:
    """The operator, compiled for so many devices, on random data that lies on them."""
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

    return jax_contender(lambda _: program(x), *chosen)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints a row for each cell and number of devices, and keeps them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    # A tensor has less than 2^32 elements, so those of 8 devices together less than 16 GiB.
    parser.add_argument("--mebibytes", type=int, default=2040, help="of input a device")
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--milliseconds", type=float, default=20.0, help="of calls in a sample")
    parser.add_argument("--json", type=Path, help="where to keep the results")
    options = parser.parse_args(argv)
    counts = [n for n in (1, 2, 4, 8) if n <= jax.device_count()]
    kind = jax.devices()[0].device_kind
    say(f"{kind} x {jax.device_count()}, jax {jax.__version__}, {options.mebibytes} MiB a device")

    cells = {n: dict(operators(n, options.mebibytes)) for n in counts}
    results = []
    for name in cells[1]:
        times = interleaved(
            {str(n): contender(n, cells[n][name]) for n in counts},
            samples=options.samples,
            least=options.samples,
            sample_seconds=options.milliseconds / 1e3,
            give_up=math.inf,
        )
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
                **times[str(n)].to_json(),
                "gigabytes_per_second_and_device": moved / times[str(n)].median / 1e9,
                "efficiency": times["1"].median / times[str(n)].median,
            }
            results.append(row)
            say(
                f"{name:<26} {n} devices {row['median_us']:9.1f} us "
                f"{row['gigabytes_per_second_and_device']:8.1f} GB/s each, "
                f"efficiency {row['efficiency']:.3f}"
            )
    if options.json:
        about = {"device": kind, "jax": jax.__version__, "mebibytes": options.mebibytes}
        options.json.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
