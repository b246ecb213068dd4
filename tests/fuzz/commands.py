"""Files that the commands check, show, save and run take: networks, models and graphs.

A file begins with N for a network in ONNX's format, and with J for JSON.
"""

import io
import json
import random
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from build import saved
from click.testing import CliRunner
from fuzz import fuzz_networks, graphs, models, parts
from fuzz.mutations import mutated

from dml_jax import GraphBuilder, TensorDesc, add, clip, join
from dml_jax.cli import cli
from dml_jax.dxdispatch.reading import parse_json

ON_NETWORKS = (
    *(("check",), ("check", "--fallback", "--json"), ("show",), ("show", "--python", "--fallback")),
    *(("show", "--json"), ("show", "-o", "x.svg"), ("save", "-o", "o.onnx")),
    *(("save", "-o", "o.onnx", "--dtype", "float16"), ("run", "--no-cache", "--fallback")),
)
ON_JSON = (
    *(("check",), ("check", "--json"), ("show",), ("show", "--python"), ("show", "--json")),
    *(("show", "-o", "x.svg"), ("run", "--output_path", ".")),
)
WEIGHTED = """g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, int64[3] b = {0, 1, 2}>
{ f = Cast <to = 1> (b)  m = MatMul (x, w)  s = ReduceSum <keepdims = 0> (f)  y = Mul (m, s) }"""


def constants() -> dict[str, Any]:
    """Return a graph of constants, in its file and beside it, of several types."""
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT32", [1, 3]))
    first = builder.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    second = builder.constant(np.ones((1, 3), np.float32))
    graph = builder.build({"joined": join([image, first, second], 0)}).to_json()
    place = next(n["Array"] for n in reversed(graph["Nodes"]) if "Array" in n)
    del place["Data"]
    place["SourcePath"] = "k.npy"
    return graph


def chain() -> dict[str, Any]:
    """Return a graph of equal sizes, of which any edge may make a circle."""
    builder = GraphBuilder()
    image = builder.input_tensor("image", TensorDesc("FLOAT32", [1, 3]))
    first = clip(image, 0, 1)
    second = add(first, image)
    return builder.build({"joined": add(second, first), "left": second}).to_json()


def of_files() -> dict[str, bytes]:
    """Return a model and graphs of files beside them, as often as others are mutated."""
    made = {"constants": constants(), "chain": chain(), "networks": models.model_of_networks()}
    return {f"{n}-{k}": json.dumps(value).encode() for n, value in made.items() for k in range(9)}


def seeds() -> dict[str, bytes]:
    """Return networks, models and graphs, each with a letter before it."""
    made = {f"N-{n}": b"N" + data for n, data in (graphs.seeds() | fuzz_networks.models()).items()}
    named = {n: json.dumps(model).encode() for n, model in models.rich_models().items()}
    named |= of_files()
    share = len(made) // len(named) + 1  # as often as networks
    return made | {f"J-{n}-{k}": b"J" + data for n, data in named.items() for k in range(share)}


def mutated_file(data: bytes, rng: random.Random) -> bytes:
    """Return a file of the same kind, changed as others of this kind are."""
    kind, own = data[:1], data[1:]
    if kind == b"N":
        change = rng.choice([graphs.mutated_graph] * 4 + [fuzz_networks.mutated_model])
        return kind + change(own, rng)
    return kind + rng.choice([mutated, parts.rearranged])(own, rng)


def parsed(data: bytes) -> Any:
    """Return what the first parser makes of a file."""
    return onnx.ModelProto.FromString(data[1:]) if data[:1] == b"N" else parse_json(data[1:])


def invoke(folder: Path, *words: str) -> None:
    """Run a command in a folder; raise what it does not report."""
    given = [str(folder / word) if "." in word else word for word in words]
    done = CliRunner().invoke(cli, given, catch_exceptions=False)
    assert done.exit_code in (0, 1), done.output
    assert done.exit_code == 0 or done.output


def check_command(data: bytes, folder: Path) -> None:
    """Let a command take a file."""
    models.write_files(folder)
    is_network = data[:1] == b"N"
    name, table = ("f.onnx", ON_NETWORKS) if is_network else ("f.json", ON_JSON)
    (folder / name).write_bytes(data[1:])
    words = table[zlib.crc32(data) % len(table)]
    if words[0] == "run" and b"Loop" in data:  # it may go on for ever
        words = ("check",)
    invoke(folder, words[0], name, *words[1:])


# Weights in .npz files, which `dml-jax save` takes.


def weights() -> dict[str, bytes]:
    """Return .npz files, packed and not."""
    made: dict[str, bytes] = {}
    for name, save in (("plain", np.savez), ("packed", np.savez_compressed)):
        file = io.BytesIO()
        save(file, w=np.ones((2, 2), np.float32), b=np.arange(3))
        made[name] = file.getvalue()
    return made


def check_weights(data: bytes, folder: Path) -> None:
    """Let `dml-jax save` put weights into a network."""
    (folder / "x.npz").write_bytes(data)
    saved(WEIGHTED, folder)
    invoke(folder, "save", "n.onnx", "--weights", "x.npz", "-o", "o.onnx")
