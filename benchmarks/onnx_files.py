"""Networks that are written as files, by `network.save` and `dml_jax.onnx.export`.

`python benchmarks/onnx_files.py results.json [NAME ...]` gives each timed network of
`networks.json` other weights and saves it. It exports the gradient by all weights, and a batch by
`jax.vmap`, of some. ONNX Runtime computes each file, and the results are compared with JAX's.
Programs of saved networks are compiled quickly, since each runs once.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from onnx_networks import NETWORKS, TIMED, Source, difference, loaded, opened, save, session_of

from dml_jax import DmlError
from dml_jax.onnx import export

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DIFFERENTIATED = ("blazeface", "orientation", "silero_vad", "attacut")
BATCH = 3
Row = dict[str, Any]


def other_weights(weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return weights that differ: floats by a percent, matrices of integers in their order."""
    random, made = np.random.default_rng(1), {}
    for name, weight in weights.items():
        array = np.asarray(weight)
        if array.dtype.kind == "f":
            factors = random.uniform(0.99, 1.01, array.shape)
            array = np.asarray(array * factors).astype(array.dtype)
        elif array.ndim > 1:
            array = array[..., ::-1]
        made[name] = array
    return made


def computed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the results of a function, compiled quickly."""
    return jax.jit(function).lower(*arguments).compile(QUICK)(*arguments)


def answers(
    model: Path | bytes, names: Sequence[str] | None, feeds: Mapping[str, Any]
) -> list[Any]:
    """Return ONNX Runtime's answers, of the nodes as the file has them."""
    session = session_of(model, optimized=False)
    read = {value.name for value in session.get_inputs()}
    return list(session.run(names, {n: a for n, a in feeds.items() if n in read}))


def largest(results: Sequence[Any], others: Sequence[Any]) -> float:
    """Return the largest difference, as a part of the largest absolute value of a result."""
    pairs = zip(results, others, strict=True)
    return max(difference(b, a) for a, b in pairs)


def saved(source: Source) -> Row:
    """Return the largest error of a network with other weights, beside its file."""
    path, _, feeds = opened(source)
    network, inputs = loaded(source, path, feeds)
    fixed = {n: w for n, w in network.weights.items() if n in source.constants}
    weights = other_weights({n: w for n, w in network.weights.items() if n not in fixed})
    results = computed(network.apply, {**weights, **fixed}, inputs)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "saved.onnx")
        network.save(file, weights)
        found = answers(file, network.outputs, feeds)
    error = largest([results[name] for name in network.outputs], found)
    return {"weights": len(weights), "error": error, "is_right": error <= source.tolerance}


def exported(source: Source) -> Row:
    """Return the errors of a gradient and of a batch, beside their files."""
    path, _, feeds = opened(source)
    network, inputs = loaded(source, path, feeds)

    def loss(weights: Any, inputs: Any) -> Any:
        results = network.apply({**network.weights, **weights}, inputs)
        return sum((y.astype(jnp.float32) ** 2).mean() for y in results.values())

    batch = {name: jnp.stack([jnp.asarray(array)] * BATCH) for name, array in inputs.items()}
    programs = {
        "gradient": (jax.grad(loss), (network.trainable, inputs)),
        "batch": (jax.vmap(lambda x: network.apply(network.weights, x)), (batch,)),
    }
    row: Row = {"weights": len(network.trainable)}
    for name, (function, arguments) in programs.items():
        model = export(function, *arguments)
        names = [value.name for value in model.graph.input]
        feeds = dict(zip(names, map(np.asarray, jax.tree.leaves(arguments)), strict=True))
        found = answers(model.SerializeToString(), None, feeds)
        row[f"{name}_nodes"] = len(model.graph.node)
        # XLA rounds otherwise where it optimizes less, and a maximum of a gradient is another one.
        row[f"{name}_error"] = largest(jax.tree.leaves(jax.jit(function)(*arguments)), found)
    row["is_right"] = max(row["gradient_error"], row["batch_error"]) <= 1e-4
    return row


def main(results: Path, names: Sequence[str]) -> int:
    """Write the results; return how many files cannot be had, or give other answers."""
    found: dict[str, dict[str, Row]] = {"saved": {}, "exported": {}}
    missing = 0
    for name in names or TIMED:
        measures = {"saved": saved, **({"exported": exported} if name in DIFFERENTIATED else {})}
        for kind, measure in measures.items():
            try:
                found[kind][name] = measure(NETWORKS[name])
            except DmlError as error:
                print(f"{name:<24}", kind, str(error)[:300], flush=True)  # noqa: T201
                missing += 1
                continue
            print(f"{name:<24}", kind, found[kind][name], flush=True)  # noqa: T201
            save(results, **found)
    rows = (row for kind in found.values() for row in kind.values())
    return missing + sum(not row["is_right"] for row in rows)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)  # as the command line does
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
