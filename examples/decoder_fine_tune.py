"""Fine-tunes a language model with an adapter, on all devices of one machine or of several.

    python examples/decoder_fine_tune.py FOLDER                   devices of the CPU if need be
    python examples/decoder_fine_tune.py FOLDER --processes 2     in two processes of 4 devices each
    python examples/decoder_fine_tune.py FOLDER --processes 2 --process 0 --address HOST:1234
                             on the first of two machines, HOST; the other has --process 1

FOLDER is one that ONNX Runtime GenAI's model builder writes. Its weights stay as they are, also
quantized ones; beside each product an adapter of low rank (LoRA) learns a text. The devices share
the parts of the text among each other, and add up the gradients. Then

- the adapter is saved in the files of Hugging Face's PEFT, and is read again;
- the devices share the heads and columns of the decoder, and go on with the text together, as one
  device does alone;
- the adapter is added to the weights: in a folder of FLOAT16, and in one of the first folder's
  types, where quantized weights are rounded again. The loss of each is printed.

Writes out/decoder_fine_tune/adapter, merged and merged_float16.
"""

import argparse
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import dml_jax.genai as og

TEXT = """When in the Course of human events, it becomes necessary for one people to dissolve the
political bands which have connected them with another, and to assume among the powers of the earth,
the separate and equal station to which the Laws of Nature and of Nature's God entitle them, a
decent respect to the opinions of mankind requires that they should declare the causes which impel
them to the separation."""
LENGTH, DEVICES, GENERATED = 24, 8, 12
OUT = Path("out/decoder_fine_tune")

Weights = dict[str, jax.Array]


def windows(tokenizer: og.Tokenizer, text: str, count: int) -> np.ndarray:
    """Return parts of a text as tokens, [count, LENGTH + 1]."""
    tokens = np.resize(tokenizer.encode(text), max(count, LENGTH) * LENGTH + 1)
    starts = np.arange(count) * LENGTH
    return np.stack([tokens[start : start + LENGTH + 1] for start in starts]).astype(np.int32)


def losses(decoder: og.Decoder, weights: Weights, tokens: Any) -> jax.Array:
    """Return the mean of -log(chance of the next token) of each part, [batch]."""
    cache = decoder.cache(tokens.shape[0], decoder.rows(LENGTH))
    logits, _ = decoder.decode(weights, cache, tokens[:, :-1])
    chances = jax.nn.log_softmax(logits.astype(np.float32))
    return -jnp.take_along_axis(chances, tokens[:, 1:, None], 2).mean((1, 2))


def tuned(model: og.Model, adapter: og.Adapter, tokens: np.ndarray, mesh: Mesh, steps: int) -> Any:
    """Return the adapter after a training on the devices of a mesh, and the losses."""
    decoder = model.adapted(adapter).decoder
    everywhere, parts = NamedSharding(mesh, P()), NamedSharding(mesh, P("batch"))
    weights = {
        name: jax.device_put(np.asarray(w), everywhere) for name, w in decoder.weights.items()
    }
    own = {name: weights.pop(name) for name in adapter.weights}
    batch = jax.device_put(tokens, parts)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, steps))

    def loss(own: Weights, others: Weights, batch: Any) -> jax.Array:
        def of_part(own: Weights, others: Weights, part: Any) -> jax.Array:
            return losses(decoder, own | others, part)

        specs = {"in_specs": (P(), P(), P("batch")), "out_specs": P("batch")}
        of_parts = jax.shard_map(of_part, mesh=mesh, **specs, check_vma=False)
        return of_parts(own, others, batch).mean()

    @jax.jit
    def step(own: Weights, others: Weights, state: Any, batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(own, others, batch)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(own, updates), state, value

    state, values = jax.jit(optimizer.init)(own), list[float]()
    for _ in range(steps):
        own, state, value = step(own, weights, state, batch)
        values.append(float(value))
    return adapter.of(own), values


def generated(model: og.Model, tokens: np.ndarray) -> list[int]:
    """Return the tokens that a model goes on with."""
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(tokens) + GENERATED, do_sample=False)
    generator = og.Generator(model, params)
    generator.append_tokens(tokens)
    while not generator.is_done():
        generator.generate_next_token()
    return generator.get_sequence(0)[len(tokens) :].tolist()


def run(folder: Path, text: str, rank: int, steps: int) -> None:
    """Fine-tune, save, go on with the text, and merge."""
    is_first = jax.process_index() == 0
    say = print if is_first else lambda *_: None
    devices = jax.devices()
    mesh = Mesh(np.array(devices), ("batch",))
    say(f"{len(devices)} x {devices[0].device_kind}, {jax.process_count()} processes")
    model = og.Model(folder)
    tokenizer = og.Tokenizer(model)
    tokens = windows(tokenizer, text, len(devices))
    adapter, values = tuned(model, og.Adapter.new(model.folder, rank), tokens, mesh, steps)
    say(f"loss before: {values[0]:.3f}")
    say(f"loss after {steps} steps: {values[-1]:.3f}")

    prompt = tokens[0, :LENGTH]
    together = og.Model(folder, devices=len(devices)).adapted(adapter)
    say(together.decoder.note or f"{len(devices)} devices share all heads and columns")
    answer = generated(together, prompt)
    if not is_first:
        return
    assert answer == generated(model.adapted(adapter), prompt)
    print(f"all devices go on as one: {tokenizer.decode(answer)!r}")

    adapter.save(OUT / "adapter")
    read = og.Adapter.load(OUT / "adapter", model.folder)
    for name, pair in adapter.pairs.items():
        np.testing.assert_allclose(np.matmul(*read.pairs[name]), np.matmul(*pair), atol=1e-5)
    print(f"{OUT}/adapter: read as it was written")
    for name, dtype in (("merged_float16", jnp.float16), ("merged", None)):
        og.save_merged(model, adapter, OUT / name, dtype)
        decoder = og.Model(OUT / name).decoder
        loss = jax.jit(lambda weights, decoder=decoder: losses(decoder, weights, tokens).mean())
        print(f"{OUT}/{name}: loss {float(loss(dict(decoder.weights))):.3f}")


def launch(arguments: Sequence[str], processes: int) -> None:
    """Run this script as so many processes of one machine, and wait for them."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, __file__, *arguments, f"--address={address}"]
    running = [subprocess.Popen([*command, f"--process={k}"]) for k in range(processes)]
    try:
        codes = [process.wait(timeout=600) for process in running]
    finally:
        for process in running:
            process.kill()
    if any(codes):
        sys.exit(f"the processes ended with {codes}")


def main(argv: Sequence[str] | None = None) -> None:
    """Start what is to run, or be it."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("folder", type=Path, help="a folder of a language model")
    parser.add_argument("--text", type=Path, help="a file to learn; else a known text")
    parser.add_argument("--rank", type=int, default=8, help="of the adapter; 8 by default")
    parser.add_argument("--steps", type=int, default=40, help="of training; 40 by default")
    parser.add_argument("--processes", type=int, default=1, help="1 by default")
    parser.add_argument("--process", type=int, help="which one this is, from 0 on")
    parser.add_argument("--address", help="HOST:PORT of the first process")
    arguments = [*(sys.argv[1:] if argv is None else argv)]
    options = parser.parse_args(arguments)
    if options.processes > 1 and options.process is None:
        launch(arguments, options.processes)
        return
    # A CPU is one device, if it is not told to be several before it is first used.
    jax.config.update("jax_num_cpu_devices", DEVICES // options.processes)
    if options.processes > 1:
        jax.distributed.initialize(options.address, options.processes, options.process)
    text = TEXT if options.text is None else options.text.read_text()
    run(options.folder, text, options.rank, options.steps)


if __name__ == "__main__":
    main()
