"""Reads a text out of logits that no single device holds.

    python examples/sharded_logits.py                             8 devices, of the CPU if need be
    python examples/sharded_logits.py --devices 1                 the same on one
    python examples/sharded_logits.py --devices 8 --processes 2   in two processes of 4 devices each

A language model's last layer gives a logit for each position of the text and each token of the
vocabulary; it is large enough to be sharded. Here the tokens are Unicode's first 131072 characters,
and the logits are noise but for a text. ARGMAX over the vocabulary reads it, REDUCE's LOG_SUM_EXP
normalises, and its gradient is the softmax that training needs. Which collectives XLA puts into
each program, for logits sharded over the vocabulary and over the positions, is printed; one device
must give the same.

On a machine with several GPUs the devices are those, as many as there are. With --processes each
process holds its share of the logits, as on several hosts; `jax.distributed` joins them.

Writes out/sharded_logits.png.
"""

import argparse
import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax
from dml_jax import TensorDesc

TEXT = "Hello, Γειά σου, こんにちは, 世界, 안녕, 𐌷𐌰𐌹𐌻𐍃 🌍🚀"  # noqa: RUF001
VOCABULARY = 2**17
SHAPE = (len(TEXT), VOCABULARY)  # both multiples of 8
COUNTS = (1, 2, 4, 8)

COLLECTIVE = re.compile(
    r"= (.+?) (all-reduce|all-gather|all-to-all|reduce-scatter|collective-\w+)(?:-start)?\("
)


def collectives(hlo: str) -> list[str]:
    """What devices send one another, as `all-reduce f32[34]`, in the order of the program."""
    found = COLLECTIVE.findall(hlo)
    return [f"{name} {re.sub(r'{[^}]*}', '', shape)}" for shape, name in found]


def argmax(logits: jax.Array) -> jax.Array:
    return dml_jax.argmax(logits, [1])


def log_sum_exp(logits: jax.Array) -> jax.Array:
    return dml_jax.reduce(logits, "LOG_SUM_EXP", [1])


def softmax(logits: jax.Array) -> jax.Array:
    """The gradient of LOG_SUM_EXP."""
    return jax.grad(lambda x: log_sum_exp(x).sum())(logits)


def written(text: str, seed: int = 0) -> np.ndarray:
    """Logits of noise, in which each character of the text stands out."""
    logits = np.random.default_rng(seed).standard_normal((len(text), VOCABULARY), np.float32)
    logits[np.arange(len(text)), [ord(character) for character in text]] += 15
    return logits


def draw(logits: np.ndarray, devices: int, path: Path) -> None:
    """The largest logit of each 1024 tokens, and where a device's share ends."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture without matplotlib")
        return
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.imshow(logits.reshape(len(logits), -1, 1024).max(2), aspect="auto", cmap="magma")
    shares = np.arange(devices) * VOCABULARY / 1024 / devices
    axes.vlines(shares[1:] - 0.5, -0.5, len(logits) - 0.5, "white", linewidth=0.5)
    axes.set_xticks(shares + shares[-1] / devices / 2, [f"device {d}" for d in range(devices)])
    read = [chr(int(token)) for token in logits.argmax(1)]
    axes.set_yticks(range(len(read)), [c if c.isascii() else f"U+{ord(c):X}" for c in read])
    axes.tick_params("y", length=0, labelsize=7)
    axes.set_ylabel("token read at each position")
    axes.set_title(f"Logits of {VOCABULARY} tokens, and the text that ARGMAX reads in them")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"{path} written")


def launch(devices: int, processes: int) -> None:
    """Runs this script as so many processes of one machine, and waits for them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, __file__, f"--devices={devices}", f"--processes={processes}"]
    running = [
        subprocess.Popen([*command, f"--address={address}", f"--process={process}"])
        for process in range(processes)
    ]
    try:
        codes = [process.wait(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    if any(codes):
        sys.exit(f"the processes ended with {codes}")


def main(argv: Sequence[str] | None = None) -> None:
    """Starts what is to run, or is it."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--devices", type=int, choices=COUNTS, default=8, help="8 by default")
    parser.add_argument("--processes", type=int, choices=COUNTS, default=1, help="1 by default")
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.processes > options.devices:
        parser.error("--processes must not be more than --devices")
    if options.processes > 1 and options.process is None:
        launch(options.devices, options.processes)
        return
    # The CPU is one device, if it is not told to be several before it is first used.
    share = options.devices // options.processes
    flag = f"--xla_force_host_platform_device_count={share}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
    if options.process is not None:
        own = range(options.process * share, (options.process + 1) * share)
        jax.distributed.initialize(
            options.address, options.processes, options.process, local_device_ids=list(own)
        )
    read(max(n for n in COUNTS if n <= min(options.devices, jax.device_count())))


def read(count: int) -> None:
    """Reads the text on so many devices, shows what they send, and checks it on one."""
    auto, devices = (AxisType.Auto,), jax.devices()[:count]
    mesh = jax.make_mesh((count,), ("devices",), axis_types=auto, devices=devices)
    first = jax.process_index() == 0
    say = print if first else lambda *_: None
    say(f"{count} x {jax.devices()[0].device_kind}, {jax.process_count()} processes")
    say(f"logits: float32{list(SHAPE)}, {np.prod(SHAPE) * 4 / count / 1e6:.1f} MB a device")

    logits = written(TEXT)
    results = {}
    everywhere = NamedSharding(mesh, P())
    for axis, spec in {"vocabulary": P(None, "devices"), "positions": P("devices")}.items():
        sharding = NamedSharding(mesh, spec)
        sharded = jax.make_array_from_callback(SHAPE, sharding, lambda part: logits[part])
        say(f"sharded over the {axis}:")
        for function in (argmax, log_sum_exp, softmax):
            out = sharding if function is softmax or axis == "positions" else everywhere
            program = dml_jax.compile(
                function, TensorDesc.of(logits), in_shardings=sharding, out_shardings=out
            )
            sent = collectives(program.as_text())
            say(f"  {function.__name__:<12} {', '.join(sent) or 'nothing is sent'}")
            results[axis, function] = program(sharded)

    tokens = np.asarray(results["vocabulary", argmax])[:, 0]
    totals = np.asarray(results["vocabulary", log_sum_exp])[:, 0]
    text = "".join(map(chr, tokens))
    chance = np.exp(np.mean(logits[np.arange(len(tokens)), tokens] - totals))
    say(f"read: {text}")
    say(f"with a chance of {chance:.2f} a token, in the geometric mean")

    assert text == TEXT
    alone = jax.local_devices()[0]
    for (_, function), result in results.items():
        program = dml_jax.compile(function, TensorDesc.of(logits), device=alone)
        expected = np.asarray(program(jax.device_put(logits, alone)))
        for part in result.addressable_shards:
            # Sums may be added up in another order, so they differ by rounding.
            np.testing.assert_allclose(np.asarray(part.data), expected[part.index], rtol=1e-5)
    say("one device gives the same")
    if first:
        draw(logits, count, Path("out/sharded_logits.png"))


if __name__ == "__main__":
    main()
