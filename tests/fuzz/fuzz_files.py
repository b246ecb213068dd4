"""Mutated files of every format that is read: each is taken, or refused with a `DmlError`.

    python tests/fuzz/fuzz_files.py FOLDER --format npy --seconds 600 --seed 1

What anything but a `DmlError` came out of, and what took longer than 10 s, lies in FOLDER/FORMAT
afterwards, one file for each place in the code. Mutations know the structure of a format: the
script prints how many pass its first parser, the slowest, the peak of memory, and what part of each
loader's lines a sample of the files reached; of several formats FOLDER/unreached.json has the
others, by file.
"""

import argparse
import contextlib
import faulthandler
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback
import types
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE.parent)]
os.environ["DML_JAX_RAISE"] = "1"  # a bug itself, which is no refusal

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from fuzz import commands, folders, fuzz_networks, graphs, models, parts  # noqa: E402
from fuzz.mutations import NUMBERS, mutated, mutated_bytes  # noqa: E402
from png import png  # noqa: E402

from dml_jax import DmlError  # noqa: E402
from dml_jax.dxdispatch.reading import parse_json  # noqa: E402

SECONDS_MAX, BYTES_MAX, SAMPLE = 10, 2 << 30, 1500
GROWTH_MAX = 1024  # MB that one file may add to the peak of memory
HANG = 300  # seconds without a word of the process that checks the files


@dataclass
class Format:
    """A format of files.

    Attributes:
        seeds: returns whole files, by name.
        mutate: changes one of them.
        parses: returns whether the first parser takes a file.
        check: reads a file in an empty folder. Raises anything but `DmlError` where it is wrong.
    """

    seeds: Callable[[], dict[str, bytes]]
    mutate: Callable[[bytes, random.Random], bytes]
    parses: Callable[[bytes], Any]
    check: Callable[[bytes, Path], Any]


def arrays() -> dict[str, bytes]:
    """Return .npy files of types that DirectML has, and of others."""
    made: dict[str, bytes] = {}
    kinds = ("f4", ">f4", "f2", "f8", "u1", "i8", "?", "c8", "U3", "M8[s]", [("a", "f4")])
    for k, kind in enumerate(kinds):
        file = io.BytesIO()
        array = np.zeros((2, 3), kind)
        np.lib.format.write_array(file, array.T if k == 1 else array, (1 + k % 3, 0))
        made[f"{k}.npy"] = file.getvalue()
    return made


def mutated_array(data: bytes, rng: random.Random) -> bytes:
    """Return a .npy file with another header, or with other bytes."""
    if rng.random() < 0.1:
        return mutated_bytes(data, rng)
    if rng.random() < 0.6:
        return data[:128] + mutated_bytes(data[128:], rng)
    size = 2 if data[6] == 1 else 4
    length = int.from_bytes(data[8 : 8 + size], "little")
    text = data[8 + size : 8 + size + length].decode("latin1")
    number = str(rng.choice([0, 1, 2, *[n for n in NUMBERS if isinstance(n, int)]]))
    kinds = [
        *("<f4", ">i2", "|O", "<U9999999", "V8", "<f16", "<M8[ns]", "<c16"),
        *("|S0", "x", "V2", "|b1"),
    ]
    changes = [
        ("(2, 3)", f"({number}, {rng.choice(['3', number])})"),
        ("(2, 3)", f"({', '.join(['1'] * rng.choice([1, 40, 70]))},)"),
        ("False", "True"),
        ("'descr': ", f"'descr': {rng.choice(kinds)!r}, 'x': "),
        ("'shape'", "'shape': (), 'y'"),
    ]
    for _ in range(rng.choice([1, 1, 2])):
        text = text.replace(*rng.choice(changes))
    head = text.encode("latin1")
    return data[:8] + len(head).to_bytes(size, "little") + head + data[8 + size + length :]


def check_array(data: bytes, folder: Path) -> None:
    """Read a .npy file as an input of a network and as the values of a resource."""
    from dml_jax.dxdispatch.resources import UNKNOWN, values_of_file

    path = folder / "x.npy"
    path.write_bytes(data)
    values = values_of_file("x.npy", lambda: path, UNKNOWN)
    assert values.make().nbytes == values.size


def pictures() -> dict[str, bytes]:
    """Return small pictures of the types that are read."""
    from PIL import Image

    made: dict[str, bytes] = {}
    draw = np.random.RandomState(0)
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4), ("P", 1), ("1", 1), ("CMYK", 4)):
        pixels = draw.randint(0, 255, (9, 7, channels)).astype(np.uint8)
        plain = Image.fromarray(pixels.squeeze(), {1: "L", 3: "RGB", 4: "RGBA"}[channels])
        for kind in ("png", "jpeg"):
            file = io.BytesIO()
            try:
                plain.convert(mode).save(file, kind)
            except OSError:
                continue
            made[f"{mode}.{kind}"] = file.getvalue()
    for channels in (1, 2, 3, 4):  # of 16 bits
        rows = draw.randint(0, 255, (9, 14 * channels)).astype(np.uint8)
        made[f"{channels}-16"] = png(
            7, 9, 16, channels, b"".join(b"\0" + r.tobytes() for r in rows)
        )
    return made


def mutated_picture(data: bytes, rng: random.Random) -> bytes:
    """Return a picture with a changed part, whose checksum is right, or with other bytes."""
    if not data.startswith(b"\x89PNG") or rng.random() < 0.3:
        return mutated_bytes(data, rng)
    parts, place = [], 8
    while place + 12 <= len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        parts.append([data[place + 4 : place + 8], data[place + 8 : place + 8 + size]])
        place += 12 + size
    part = rng.choice(parts)
    if part[0] == b"IHDR" and rng.random() < 0.7:
        numbers = [*struct.unpack(">IIBBBBB", part[1])]
        k = rng.randrange(7)
        numbers[k] = rng.choice([0, 1, 7, 16, 255, *[2**16, 2**31, 2**32 - 1] * (k < 2)])
        part[1] = struct.pack(">IIBBBBB", *numbers)
    elif part[0] == b"IDAT" and rng.random() < 0.7:
        part[1] = zlib.compress(mutated_bytes(zlib.decompress(part[1]), rng))
    else:
        part[1] = mutated_bytes(part[1] or b"x", rng)
    if rng.random() < 0.2:
        parts.insert(rng.randrange(len(parts)), rng.choice(parts))
    return data[:8] + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )


def check_picture(data: bytes, folder: Path) -> None:
    """Read a picture as FLOAT32 of another size."""
    from dml_jax.dxdispatch.resources import values_of_file
    from dml_jax.enums import TensorDataType

    name = "x.png" if data[:4] == b"\x89PNG" else "x.jpg"
    (folder / name).write_bytes(data)
    values = values_of_file(name, lambda: folder / name, TensorDataType.FLOAT32, (3, 8, 8))
    assert values.make().nbytes == values.size


def mutated_packed(data: bytes, rng: random.Random) -> bytes:
    """Return a .npz file with a changed array, or with other bytes."""
    if rng.random() < 0.4:
        return mutated_bytes(data, rng)
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(file, "w", rng.choice([0, 8])) as new,
    ):
        for part in old.namelist():
            own = old.read(part)
            own = mutated_array(own, rng) if rng.random() < 0.6 else own
            new.writestr(rng.choice([part, part, "../x.npy", "/x", "é", "w"]), own)
    return file.getvalue()


_PARTS = ("genai_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def language_models() -> dict[str, bytes]:
    """Return the texts of a language model's folder, as one JSON object."""
    from language_folders import write_folder

    with tempfile.TemporaryDirectory() as name:
        folder = write_folder(Path(name))
        config = {"chat_template": None, "bos_token": {"content": "<s>"}}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        texts = {part: (folder / part).read_text() for part in _PARTS}
        global _NETWORK
        _NETWORK = (folder / "model.onnx").read_bytes()
    others = {part: text for part, text in texts.items() if not part.endswith(".jinja")}
    templates = [
        {"name": "tools", "template": "{{ tools }}"},
        {"name": "default", "template": TOLD},
    ]
    others["tokenizer_config.json"] = json.dumps({**config, "chat_template": templates})
    return {name: json.dumps(t).encode() for name, t in (("folder", texts), ("list", others))}


_NETWORK = b""
TOLD = """{%- for m in messages %}{{ bos_token }}{{ m | tojson(indent=2) }}{% if not m.role %}
{{ raise_exception('a role is missing') }}{% endif %}{%- endfor %}{{ strftime_now('%Y-%m-%d') }}
{%- macro deep(n) %}{{ n }}{% if n %}{{ deep(n - 1) }}{% endif %}{% endmacro %}{{ deep(3) }}"""


def mutated_language_model(data: bytes, rng: random.Random) -> bytes:
    """Return a folder with one changed text."""
    texts = json.loads(data)
    part = rng.choice([*texts])
    changed = mutated(texts[part].encode(), rng)
    texts[part] = changed.decode("utf-8", "surrogateescape")
    return json.dumps(texts).encode()


def check_language_model(data: bytes, folder: Path) -> None:
    """Read a folder: its config, network, tokenizer and template."""
    from dml_jax.genai import Config, Tokenizer

    (folder / "chat_template.jinja").unlink(missing_ok=True)
    for part, text in json.loads(data).items():
        (folder / part).write_bytes(text.encode("utf-8", "surrogateescape"))
    (folder / "model.onnx").write_bytes(_NETWORK)
    config = Config(folder)
    read = config.folder
    assert [read.type, read.context_length, read.vocab_size, read.pad_token_id, read.caches]
    with contextlib.suppress(DmlError):
        _ = read.proto
    tokenizer = Tokenizer(config)
    tokens = tokenizer.encode("the quick brown fox")
    stream = tokenizer.create_stream()
    text = "".join(stream.decode(token) for token in tokens)
    assert isinstance(tokenizer.decode(tokens) + text, str)
    rows = tokenizer.encode_batch(["a", "", "hello you"])
    assert len(tokenizer.decode_batch(rows)) == 3
    assert isinstance(tokenizer.to_token_id("a"), int)
    tokenizer.update_options(add_special_tokens="true", skip_special_tokens="false")
    tokenizer.decode(tokenizer.encode("é \U0001f600"))
    assert isinstance(tokenizer.bos_token_id, int)
    tokenizer.apply_chat_template('[{"role": "user", "content": "hello"}]')


def _has_json(data: bytes) -> bool:
    texts = json.loads(data)
    return bool([json.loads(texts[part]) for part in _PARTS[:3]])


def _read_graph(data: bytes, folder: Path) -> None:
    (folder / "w.bin").write_bytes(bytes(48))
    fuzz_networks.check_graph(data, folder)


def _read_model(data: bytes, folder: Path) -> None:
    (folder / "m.json").write_bytes(data)
    has_files = b"n.onnx" in data or b"g.bin" in data or b"k.npy" in data
    if has_files:
        models.write_files(folder)
    models.check(folder / "m.json", folder if has_files else ROOT / "examples/models")


def _model_of(data: bytes) -> Any:
    """Return the parts of a model, whose operators are not checked yet."""
    model = parse_json(data)
    if "Nodes" in model:  # a graph
        return model["Nodes"]
    return [model[part] for part in ("resources", "dispatchables", "commands")]


def _read_network(data: bytes, folder: Path) -> None:
    """Load a network, trace it, and make a session of it, each at times."""
    kind = zlib.crc32(data)
    fuzz_networks.check_model(data, kind % 4 == 0, kind % 3 > 0)
    if kind % 5 == 0:
        fuzz_networks.check_session(data, kind % 3 == 0 and b"Loop" not in data)


def _picture_of(data: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(data))


Lines = dict[str, set[int]]
CURRENT, STACK = ".current", ".stack"  # the file that is checked, and where a process died

FORMATS = {
    "npy": Format(arrays, mutated_array, lambda d: np.load(io.BytesIO(d)), check_array),
    "npz": Format(
        commands.weights,
        mutated_packed,
        lambda d: zipfile.ZipFile(io.BytesIO(d)),
        commands.check_weights,
    ),
    "pictures": Format(pictures, mutated_picture, _picture_of, check_picture),
    "language_models": Format(
        language_models, mutated_language_model, _has_json, check_language_model
    ),
    "models": Format(
        lambda: models.seeds() | commands.of_files(), mutated, parse_json, _read_model
    ),
    "parts": Format(
        lambda: parts.seeds() | commands.of_files(), parts.rearranged, _model_of, _read_model
    ),
    "nodes": Format(
        graphs.seeds,
        graphs.mutated_graph,
        lambda data: onnx.checker.check_model(onnx.ModelProto.FromString(data)),
        _read_network,
    ),
    "networks": Format(
        fuzz_networks.models,
        fuzz_networks.mutated_model,
        onnx.ModelProto.FromString,
        lambda data, _: fuzz_networks.check_model(data, zlib.crc32(data) % 50 == 0),
    ),
    "graphs": Format(
        fuzz_networks.graphs,
        mutated_bytes,
        lambda data: _read_graph(data, Path(tempfile.gettempdir())),
        _read_graph,
    ),
    "commands": Format(
        commands.seeds, commands.mutated_file, commands.parsed, commands.check_command
    ),
    "exports": Format(
        folders.exports, folders.mutated_export, folders.is_export, folders.check_export
    ),
    "adapters": Format(
        folders.adapters, folders.mutated_adapter, folders.is_adapter, folders.check_adapter
    ),
    "external": Format(
        folders.externals,
        folders.mutated_external,
        onnx.ModelProto.FromString,
        folders.check_external,
    ),
}

LOADERS = (
    *("cli/check.py", "cli/save.py", "cli/show.py", "cli/tables.py", "description/descriptor.py"),
    *("dxdispatch/commands.py", "dxdispatch/dispatchables.py", "dxdispatch/flatbuffer.py"),
    *("dxdispatch/model.py", "dxdispatch/parsing.py", "dxdispatch/reading.py"),
    *("dxdispatch/resources.py", "dxdispatch/serialized.py", "genai/decoder_forms.py"),
    *("genai/decoder_networks.py", "genai/folder.py", "genai/lora.py", "genai/optimum_folders.py"),
    *("genai/text.py", "graph/graph.py", "graph/parts.py", "graph/wiring.py"),
    *("onnx/files/external_data.py", "onnx/files/lazy_initializers.py", "onnx/files/model.py"),
    *("onnx/files/saving.py", "onnx/nodes/node.py", "onnx/nodes/schemas.py"),
    *("onnx/tensor_parallel/decoder_blocks.py", "onnx/translate/model_graph.py"),
    *("onnx/translate/node_outputs.py", "onnx/translate/translation.py", "onnxruntime/stage.py"),
    *("operator/base.py", "system/files.py"),
)
"""The modules that read files."""


def is_parsed(kind: Format, data: bytes) -> bool:
    """Return whether the first parser takes a file."""
    try:
        kind.parses(data)
        return True
    except Exception:
        return False


def lines_of(path: Path) -> set[int]:
    """Return the lines of code within functions of a module."""
    found: set[int] = set()
    left = [compile(path.read_text(), str(path), "exec")]
    while left:
        code = left.pop()
        left += [part for part in code.co_consts if isinstance(part, types.CodeType)]
        if code.co_name != "<module>" and code.co_flags & 2:  # a function, of fast locals
            found |= {line for _, _, line in code.co_lines() if line} - {code.co_firstlineno}
    return found


def reached(kind: Format, sample: Iterable[bytes], folder: Path) -> Lines:
    """Return the lines of each loader of any format that the sample reaches."""
    names = {str(ROOT / "dml_jax" / name): name for name in LOADERS}
    seen: Lines = {name: set() for name in LOADERS}

    def trace(frame: Any, event: str, _: Any) -> Any:
        name = names.get(frame.f_code.co_filename)
        if name is None:
            return None
        seen[name].add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    for data in sample:
        with contextlib.suppress(Exception):
            kind.check(data, folder)
    sys.settrace(None)
    return seen


def print_lines(seen: Lines) -> None:
    """Print how many lines are reached of each loader that has some."""
    for name in filter(seen.get, LOADERS):
        every = lines_of(ROOT / "dml_jax" / name)
        own = len(seen[name] & every)
        share = 100 * own // len(every)
        print(f"  {name}: {own} of {len(every)} lines ({share}%)", flush=True)  # noqa: T201


@dataclass
class Totals:
    """What a run has done so far.

    Attributes:
        seconds: how long it has checked files.
        done: how many of them.
        parsed: how many of them the first parser takes.
        slowest: the most seconds of processor time of one of them.
        peak: the most memory of the process, in MB.
        places: the places in the code that something else than a `DmlError` came out of.
        lines: the lines of loaders that a sample of the files reaches, once all are checked.
    """

    seconds: float = 0.0
    done: int = 0
    parsed: int = 0
    slowest: float = 0.0
    peak: int = 0
    places: set[str] = field(default_factory=set)
    lines: Lines | None = None

    def add(self, other: "Totals") -> None:
        """Add what another process has done."""
        self.seconds += other.seconds
        self.done, self.parsed = self.done + other.done, self.parsed + other.parsed
        self.slowest = max(self.slowest, other.slowest)
        self.peak = max(self.peak, other.peak)
        self.places |= other.places
        self.lines = other.lines


def peak() -> int:
    """Return the most memory that the process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def fault_of(kind: Format, data: bytes, scratch: Path) -> tuple[str, str, float]:
    """Check a file; return the place and the text of a fault, both "" for none, and the seconds."""
    place = text = ""
    begin, before = time.process_time(), peak()
    try:
        kind.check(data, scratch)
    except DmlError as error:
        str(error).encode("utf-8", "surrogateescape")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Rust is no Exception
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__}-{Path(frame.filename).stem}-{frame.lineno}"
        text = traceback.format_exc()
    spent = time.process_time() - begin
    if not place and spent > SECONDS_MAX:
        place, text = f"slow-{spent:.0f}", f"{spent} s"
    if not place and peak() - before > GROWTH_MAX:
        place, text = f"memory-{peak()}", f"{before} MB before, {peak()} MB after"
    return place, text, spent


def work(name: str, seed: int, found: Path, seconds: float, count: int, told: Connection) -> None:
    """Check mutations of a format in a process of its own; tell the totals.

    For `count` of the files, the lines that they reach are counted.
    """
    jax.config.update("jax_enable_x64", True)
    kind, rng, totals = FORMATS[name], random.Random(seed), Totals()
    scratch = Path(tempfile.mkdtemp(dir=found))
    seeds = sorted(kind.seeds().items())
    sample = [data for _, data in seeds]
    start = last = time.time()
    with (found / CURRENT).open("wb", buffering=0) as current, (found / STACK).open("w") as stack:
        faulthandler.enable(stack)
        while totals.seconds < seconds:
            data = kind.mutate(rng.choice(seeds)[1], rng)
            current.seek(0)
            current.write(len(data).to_bytes(8, "little") + data)
            totals.done += 1
            totals.parsed += is_parsed(kind, data)
            place, text, spent = fault_of(kind, data, scratch)
            totals.slowest = max(totals.slowest, spent)
            if place and place not in totals.places:
                keep(found, place, data, text)
                totals.places.add(place)
            if len(sample) < count:
                sample.append(data)
            elif rng.random() < count / totals.done:
                sample[rng.randrange(len(sample))] = data
            totals.seconds = time.time() - start
            if time.time() > last + 1:
                last = time.time()
                totals.peak = peak()
                told.send(totals)
        faulthandler.disable()
    totals.peak = peak()
    told.send(totals)

    def files() -> Iterator[bytes]:
        for data in sample[:count]:
            told.send(totals)  # it takes long, and is no hang
            yield data

    totals.lines = reached(kind, files(), scratch)
    told.send(totals)
    shutil.rmtree(scratch, ignore_errors=True)


def keep(found: Path, place: str, data: bytes, text: str) -> None:
    """Write a file that is wrong, and what came out of it."""
    (found / place).write_bytes(data)
    (found / f"{place}.txt").write_text(text)


def run(name: str, seed: int, folder: Path, seconds: float, count: int) -> Totals:
    """Check mutations of a format for some seconds; print and return what came out.

    The arguments are those of `work`.

    A process of its own checks the files. One that dies, or is silent for `HANG` seconds, is a
    fault of the file that it had, and another process goes on.
    """
    found, totals = folder / name, Totals()
    found.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    while totals.lines is None:
        hears, tells = context.Pipe(False)
        left = seconds - totals.seconds
        process = context.Process(target=work, args=(name, seed, found, left, count, tells))
        process.start()
        tells.close()
        part = Totals()
        is_silent = False
        with contextlib.suppress(EOFError):
            while not (is_silent := not hears.poll(HANG)):
                part = hears.recv()
        if is_silent:
            process.kill()
        process.join()
        if part.lines is None:
            part.places.add(kept_death(found, -(process.exitcode or 0), is_silent))
        totals.add(part)
        seed += 1_000_003
    print(  # noqa: T201
        f"{name}: {totals.done} files, {100 * totals.parsed // max(totals.done, 1)}% pass the "
        f"first parser, slowest {totals.slowest:.2f} s, peak {totals.peak} MB, "
        f"wrong places {len(totals.places)}",
        flush=True,
    )
    if totals.lines and count:
        print_lines(totals.lines)
    return totals


def kept_death(found: Path, number: int, is_silent: bool) -> str:
    """Keep the file that a process died of; return the place in the code."""
    whole, stack = (found / CURRENT).read_bytes(), (found / STACK).read_text()
    data = whole[8 : 8 + int.from_bytes(whole[:8], "little")]
    place = r'(\w+)\.py", line (\d+)'
    frame = re.search(f"/dml_jax/(?:.*/)?{place}", stack) or re.search(place, stack)
    where = "-".join(frame.groups()) if frame else "nowhere"
    place = "hang" if is_silent else f"died-{number}-{where}"
    keep(found, place, data, stack)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--format", choices=FORMATS, action="append", help="all by default")
    parser.add_argument("--seconds", type=float, default=600, help="for each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=SAMPLE, help="files whose lines are counted")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_DATA, (BYTES_MAX * 2, BYTES_MAX * 2))
    limits = options.seconds, options.sample
    names = options.format or FORMATS
    runs = [run(name, options.seed, options.folder, *limits) for name in names]
    if len(runs) > 1 and options.sample:
        print("all formats together")  # noqa: T201
        seen = {
            name: set[int]().union(*(r.lines[name] for r in runs if r.lines)) for name in LOADERS
        }
        print_lines(seen)
        missed = {n: sorted(lines_of(ROOT / "dml_jax" / n) - seen[n]) for n in LOADERS}
        (options.folder / "unreached.json").write_text(json.dumps(missed))
    sys.exit(any(r.places for r in runs))


if __name__ == "__main__":
    main()
