"""Networks that are written as files, by `network.save` and `dml_jax.onnx.export`.

`python benchmarks/onnx_files.py results.json [NAME ...]` gives each timed network of
`networks.json` other weights and saves it. It exports the gradient by all weights, and a batch by
`jax.vmap`, of some. ONNX Runtime computes each file, and the results are compared with JAX's.
Programs of saved networks are compiled quickly, since each runs once.
"""

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from measuring import Row, difference, measure, parser, run
from onnx_networks import NETWORKS, TIMED, loaded, opened

from dml_jax.bench.peers import session_of
from dml_jax.onnx import Network, export

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DIFFERENTIATED = ("blazeface", "orientation", "silero_vad", "attacut")
BOUNDS = {"piper_joe": {"frames": 200}}  # of sizes that data decides
BATCH = 3


def network_of(name: str) -> tuple[Network, dict[str, Any], dict[str, np.ndarray]]:
    """Return a network, its inputs, and the inputs of its file."""
    source, bounds = NETWORKS[name], BOUNDS.get(name, {})
    path, _, feeds = opened(source)
    options = {"bounds": bounds, "fallback": source.fallback or bool(bounds)}
    return *loaded(source, path, feeds, **options), feeds


def other_weights(weights: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return weights that differ: floats by a percent, one in a hundred bytes by its last bit.

    Single numbers stay: sizes may follow from these, as from a bound.
    """
    random, made = np.random.default_rng(1), {}
    for name, weight in weights.items():
        array = np.asarray(weight)
        if array.dtype.kind == "f" and array.ndim:
            factors = random.uniform(0.99, 1.01, array.shape)
            array = np.asarray(array * factors).astype(array.dtype)
        elif array.dtype in (np.int8, np.uint8) and array.ndim > 1:
            array = np.where(random.random(array.shape) < 0.01, array ^ 1, array)
        made[name] = array
    return made


def answers(model: Any, names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
    """Return ONNX Runtime's answers, of the nodes as the file has them."""
    session = session_of(model, optimized=False)
    read = {value.name for value in session.get_inputs()}
    return list(session.run(names, {n: a for n, a in feeds.items() if n in read}))


def largest(results: Sequence[Any], others: Sequence[Any]) -> float:
    """Return the largest difference, as a part of the largest absolute value of a result."""
    return max(difference(b, a) for a, b in zip(results, others, strict=True))


def saved(name: str) -> Row:
    """Return the largest error of a network with other weights, beside its file."""
    network, inputs, feeds = network_of(name)
    constants = NETWORKS[name].constants
    weights = other_weights({n: w for n, w in network.weights.items() if n not in constants})
    arguments = {**network.weights, **weights}, inputs
    program = jax.jit(network.apply).lower(*arguments).compile(QUICK)
    found = network.without_padding(program(*arguments))
    with tempfile.TemporaryDirectory() as folder:
        network.save(file := Path(folder, "saved.onnx"), weights)
        names = [one.name for one in onnx.load(file, load_external_data=False).graph.output]
        wanted, results = answers(file, names, feeds), [found[key] for key in names]
    same = list(map(np.shape, results)) == list(map(np.shape, wanted))
    error = largest(results, wanted) if same else np.inf
    is_right = error <= NETWORKS[name].tolerance
    return {"weights": len(weights), "error": error if same else None, "is_right": is_right}


def exported(name: str) -> Row:
    """Return the errors of a gradient and of a batch, beside their files."""
    network, inputs, _ = network_of(name)

    def loss(weights: Any, inputs: Any) -> Any:
        results = network.apply({**network.weights, **weights}, inputs)
        return sum((y.astype(jnp.float32) ** 2).mean() for y in results.values())

    batch = {name: jnp.stack([jnp.asarray(array)] * BATCH) for name, array in inputs.items()}
    programs = {
        "gradient": (jax.grad(loss), (network.trainable, inputs)),
        "batch": (jax.vmap(lambda x: network.apply(network.weights, x)), (batch,)),
    }
    row: Row = {"weights": len(network.trainable)}
    for kind, (function, arguments) in programs.items():
        model = export(function, *arguments)
        names = [value.name for value in model.graph.input]
        feeds = dict(zip(names, map(np.asarray, jax.tree.leaves(arguments)), strict=True))
        found = answers(model.SerializeToString(), None, feeds)
        row[f"{kind}_nodes"] = len(model.graph.node)
        # XLA rounds otherwise where it optimizes less, and a maximum of a gradient is another one.
        row[f"{kind}_error"] = largest(jax.tree.leaves(jax.jit(function)(*arguments)), found)
    row["is_right"] = max(row["gradient_error"], row["batch_error"]) <= 1e-4
    return row


def main() -> int:
    """Write the rows; return how many files cannot be had, or give other answers."""
    given = parser(__doc__, "networks").parse_intermixed_args()
    jax.config.update("jax_enable_x64", True)  # as the command line does
    tables = {saved: TIMED, exported: DIFFERENTIATED}
    rows = {call.__name__: {n: partial(call, n) for n in names} for call, names in tables.items()}
    return measure(given, **rows)


if __name__ == "__main__":
    run(main)
