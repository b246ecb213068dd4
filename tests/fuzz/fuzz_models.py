"""Coverage-guided fuzzing of the model and graph parsers, with atheris (libFuzzer).

    pip install atheris            # Linux; CPython 3.11 to 3.13
    python tests/fuzz/fuzz_models.py FOLDER --seconds 3600

What anything but a `DmlError` came out of lies in FOLDER/found afterwards, one file for each place
in the code; what took 10 s or 1 GB, as libFuzzer names it (timeout-*, oom-*). FOLDER/corpus grows
from the shipped models, one model for each operator, and the cases of `tests/fuzz/found`.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE.parent)]
os.environ["DML_JAX_RAISE"] = "1"  # a bug itself, which is no refusal


def check(path: Path, images: Path) -> None:
    """What holds of any file: it is refused with a `DmlError`, or taken, and then consistent."""
    from dml_jax.dxdispatch.parsing import parse_model
    from dml_jax.dxdispatch.reading import read_json
    from dml_jax.errors import DmlError
    from dml_jax.graph import Graph
    from dml_jax.operator import Operator, operator_from_json

    try:
        value = read_json(path)
        if isinstance(value, dict) and "Nodes" in value:
            graph = Graph.load(path)
            assert Graph.from_json(graph.to_json()) == graph
            graph.describe()
            return
        model = parse_model(value, images)
        for dispatchable in model.dispatchables.values():
            operator = dispatchable.operator
            operator.describe()
            operator.minimum_feature_level  # noqa: B018  (computed when it is asked for)
            if isinstance(operator, Operator):
                assert operator_from_json(operator.to_json()) == operator
        for resource in model.resources.values():
            if resource.size_in_bytes < 2**20:
                assert resource.bytes().size == resource.size_in_bytes
    except DmlError as error:
        text = str(error)
        assert text
        text.encode()


def seeds() -> dict[str, bytes]:
    """The shipped models, what was found before, and a model or graph of every operator."""
    from fuzz.models import rich_models

    paths = [*(ROOT / "examples/models").glob("*.json"), *(HERE / "found").glob("*")]
    found = {path.name: path.read_bytes() for path in paths}
    # Without their comments too: only what is JSON is changed in its structure.
    found |= {f"{name}-plain": re.sub(rb"(?m)^//.*", b"", data) for name, data in found.items()}
    return found | {name: json.dumps(value).encode() for name, value in rich_models().items()}


def fuzz(folder: Path, seconds: int) -> None:
    """One libFuzzer process, until its time is over or it is killed for time or memory."""
    import jax

    jax.config.update("jax_enable_x64", True)
    atheris: Any = importlib.import_module("atheris")  # which installs on some platforms only
    with atheris.instrument_imports(include=["dml_jax"]):
        import dml_jax.dxdispatch.parsing
        import dml_jax.graph  # noqa: F401
    from fuzz.mutations import mutated

    scratch = folder / f"model-{os.getpid()}.json"

    def one(data: bytes) -> None:
        scratch.write_bytes(data)
        try:
            check(scratch, ROOT / "examples/models")
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
            target = folder / "found" / place
            if not target.exists():
                target.write_bytes(data)
                (folder / "found" / f"{place}.txt").write_text(traceback.format_exc())

    def mutator(data: bytes, limit: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.2:
            return atheris.Mutate(data, limit)
        return mutated(data, rng)[:limit]

    atheris.Setup(
        [
            sys.argv[0],
            str(folder / "corpus"),
            f"-max_total_time={seconds}",
            "-timeout=10",
            "-rss_limit_mb=1024",
            "-max_len=16384",
            f"-artifact_prefix={folder}/found/",
            "-print_final_stats=1",
        ],
        one,
        custom_mutator=mutator,
    )
    atheris.Fuzz()


def processor_time() -> float:
    """Seconds that the fuzzing processes so far have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=3600, help="of processor time")
    parser.add_argument("--one", action="store_true", help="a single process (used by this one)")
    options = parser.parse_args()
    folder = options.folder.absolute()
    if options.one:
        fuzz(folder, options.seconds)
        return
    for name in ("corpus", "found"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for data in seeds().values():
        (folder / "corpus" / hashlib.sha1(data).hexdigest()).write_bytes(data)
    # Of processor time, on a machine that others use too; a process ends where it finds a hang.
    while (left := round(options.seconds - processor_time())) > 5:
        command = [sys.executable, __file__, str(folder), "--one", "--seconds", str(left)]
        subprocess.run(command, check=False)
    sys.exit(any((folder / "found").iterdir()))


if __name__ == "__main__":
    main()
