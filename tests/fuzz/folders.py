"""Folders of several files: exported decoders, adapters of these, and networks with external data.

A folder is one JSON object of its files by name, in Latin-1, so that a mutation is one text too.
"""

import json
import random
import tempfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from exported_folders import CHANNELS, SOURCE, write_config, write_decoder, write_encoder
from fuzz import fuzz_networks, graphs
from fuzz.mutations import NUMBERS, TEXTS, mutated, mutated_bytes
from language_folders import write_folder
from onnx import TensorProto, helper, numpy_helper

CONFIGS = ("config.json", "generation_config.json", "genai_config.json")
TOLD = {
    "decoder_start_token_id": 3,
    "lang_to_id": {"<|en|>": 9, "<|de|>": 10},
    "task_to_id": {"transcribe": 20, "translate": 21},
    "language": "de",
    "task": "transcribe",
    "forced_decoder_ids": [[1, None], [2, 20]],
    "no_timestamps_token_id": 30,
    "suppress_tokens": [5, 6],
    "begin_suppress_tokens": [7],
}


def folded(files: dict[str, bytes]) -> bytes:
    """Return the files of a folder as one text."""
    return json.dumps({name: data.decode("latin1") for name, data in files.items()}).encode()


def unfolded(text: bytes) -> dict[str, bytes]:
    """Return the files of a folder."""
    return {name: data.encode("latin1") for name, data in json.loads(text).items()}


def write(text: bytes, folder: Path, names: tuple[str, ...]) -> None:
    """Write the files of a folder; remove others of some names."""
    files = unfolded(text)
    for name in {*names} - files.keys():
        (folder / name).unlink(missing_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


# Exported decoders.

NETWORKS = (
    *("model.onnx", "decoder_model.onnx", "decoder_model_merged.onnx", "encoder_model.onnx"),
    "decoder_with_past_model.onnx",
)


def exports() -> dict[str, bytes]:
    """Return a folder of each form that exporters write."""

    def growing(place: Path, **options: Any) -> None:
        write_decoder(place / "model.onnx", **options)
        write_config(place)

    def encoding(place: Path, is_sound: bool) -> None:
        source = "plain" if is_sound else "mask"
        decoder = place / "decoder_model.onnx"
        write_decoder(decoder, positions="size", mask=False, past=False, source=source)
        write_encoder(place / "encoder_model.onnx", is_sound)
        sizes = {"max_source_positions": SOURCE, "num_mel_bins": CHANNELS} if is_sound else {}
        write_config(place, **sizes)
        (place / "generation_config.json").write_text(json.dumps(TOLD))

    def grouped(place: Path, **options: Any) -> None:
        write_folder(place, layers=1, columns=16, **options)
        onnx.save(onnx.load(place / "model.onnx"), place / "model.onnx")

    forms: dict[str, Callable[[Path], None]] = {
        "growing": growing,
        "summed": lambda place: growing(place, positions="mask"),
        "whole": lambda place: growing(place, positions="size", mask=False),
        "text": lambda place: encoding(place, False),
        "sound": lambda place: encoding(place, True),
        "grouped": grouped,
        "grouped4": lambda place: grouped(place, bits=4, zero_points=True),
    }
    made: dict[str, dict[str, bytes]] = {}
    for name, write_into in forms.items():
        with tempfile.TemporaryDirectory() as place:
            write_into(Path(place))
            paths = [p for p in Path(place).iterdir() if p.name in {*CONFIGS, *NETWORKS}]
            made[name] = {p.name: p.read_bytes() for p in paths}
    merged = dict(made["growing"])
    merged["decoder_model_merged.onnx"] = _merged(merged.pop("model.onnx"))
    return {name: folded(files) for name, files in {**made, "merged": merged}.items()}


def _merged(data: bytes) -> bytes:
    """Return a decoder as optimum merges it: within the branches of an If."""
    model = onnx.ModelProto.FromString(data)
    graph, outputs = model.graph, [value.name for value in model.graph.output]
    branch = helper.make_graph(graph.node, "branch", [], graph.output, graph.initializer)
    branches = {"then_branch": branch, "else_branch": branch}
    node = helper.make_node("If", ["use_cache_branch"], [f"{n}.out" for n in outputs], **branches)
    del graph.node[:], graph.initializer[:]
    graph.node.append(node)
    graph.input.append(helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1]))
    return model.SerializeToString()


def mutated_export(text: bytes, rng: random.Random) -> bytes:
    """Return a folder with a changed config, or a changed network."""
    files = unfolded(text)
    for _ in range(rng.choice([1, 1, 2])):
        ending = rng.choice([".json", ".onnx"])
        name = rng.choice([name for name in files if name.endswith(ending)])
        if name.endswith(".json"):
            files[name] = mutated(files[name], rng)
        else:
            files[name] = graphs.mutated_graph(files[name], rng)
    name = rng.choice([*files])
    if rng.random() < 0.03:
        files[name] = mutated_bytes(files[name], rng)
    elif rng.random() < 0.02:
        del files[name]
    return folded(files)


def is_export(text: bytes) -> bool:
    """Return whether configs are JSON, and networks Protobuf."""
    for name, data in unfolded(text).items():
        json.loads(data) if name.endswith(".json") else onnx.ModelProto.FromString(data)
    return True


def check_export(text: bytes, folder: Path) -> None:
    """Load a decoder, its networks of one token and of several; at times let it answer."""
    from dml_jax.genai import Generator, GeneratorParams, Model

    write(text, folder, (*CONFIGS, *NETWORKS))
    kind = zlib.crc32(text)
    model = Model(folder, keeps_int4=kind % 2 == 0, devices=1 + (kind % 6 == 0))
    model.decoder.network(1, 1, 64, 64, True)
    params = GeneratorParams(model)
    repr([params.get_search_options(), model.report(), model.folder.rules])
    if kind % 4 == 0:
        params.set_search_options(max_length=24, batch_size=1, num_beams=1)
        made = Generator(model, params)
        if "features" in model.folder.model:
            sound = np.zeros((1, CHANNELS, 2 * SOURCE), np.float32)
            made.set_inputs({"input_features": sound})
        else:
            made.append_tokens([5, 7, 9])
        made.generate_next_token()
        made.rewind_to(0 if model.decoder.is_encoding else 2)
        model.programs.step_bytes(1)


# Adapters.


def adapters() -> dict[str, bytes]:
    """Return files of PEFT's: of products as the decoder has them, and in parts."""
    import dml_jax.genai as og
    from dml_jax.genai.lora import CONFIG, WEIGHTS

    made = {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for key, type_ in (("parts", "llama"), ("whole", "phi3")):
            config = _base(place / key, type_)
            og.Adapter.new(config.folder, rank=2).save(place / f"{key}.adapter")
            names = (WEIGHTS, CONFIG)
            files = {name: (place / f"{key}.adapter" / name).read_bytes() for name in names}
            more = {"alpha_pattern": {"up_proj": 3, "layers.0.*.q_proj": 1.5}, "use_rslora": True}
            files[CONFIG] = json.dumps({**json.loads(files[CONFIG]), **more}).encode()
            made[key] = folded(files)
    return made


def _base(place: Path, type_: str) -> Any:
    import dml_jax.genai as og

    write_folder(place, layers=2, columns=16)
    config = og.Config(place)
    config.overlay(json.dumps({"model": {"type": type_}}))
    return config


_BASES: dict[str, Any] = {}


def mutated_adapter(text: bytes, rng: random.Random) -> bytes:
    """Return an adapter with a changed config, or changed tensors, whose header is whole."""
    files = unfolded(text)
    name = rng.choice([*files])
    if name.endswith(".json"):
        files[name] = mutated(files[name], rng)
        if rng.random() < 0.1:
            pattern = rng.choice(["(.+)+x", "(a|a)*", "[", ".*.*.*.*", "(?i:q)", "q_proj", "\\"])
            files[name] = json.dumps({"peft_type": "LORA", "alpha_pattern": {pattern: 1}}).encode()
        return folded(files)
    data = files[name]
    size = int.from_bytes(data[:8], "little")
    head, rest = data[8 : 8 + size], data[8 + size :]
    match rng.randrange(4):
        case 0:
            files[name] = mutated_bytes(data, rng)
        case 1:
            head = mutated(head, rng)
        case 2:
            head, rest = _retensored(json.loads(head), rest, rng)
        case _:
            rest = mutated_bytes(rest, rng)
    if files[name] is data:
        files[name] = len(head).to_bytes(8, "little") + head + rest
    return folded(files)


def _retensored(head: Any, rest: bytes, rng: random.Random) -> tuple[bytes, bytes]:
    """Return tensors of other names, types or sizes, in a file that is whole."""
    names = [name for name in head if name != "__metadata__"]
    for _ in range(rng.choice([1, 2, 4])):
        name = rng.choice(names)
        tensor = head[name]
        match rng.randrange(4):
            case 0:
                other = rng.choice(names).replace("layers.0", rng.choice(["layers.1", "layers.9"]))
                head[other] = head.pop(name)
                names = [name for name in head if name != "__metadata__"]
            case 1:
                del head[name]
                names = [name for name in head if name != "__metadata__"]
            case 2:
                tensor["shape"] = rng.choice([[0, 4], [1], [2, 2, 2], [3, 7], [], tensor["shape"]])
            case _:
                tensor["dtype"] = rng.choice(["F16", "BF16", "F64", "F32", "I8", "U8", "BOOL"])
        if not names:
            break
    at, widths = 0, {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
    for name in names:
        tensor = head[name]
        count = int(np.prod(tensor["shape"], dtype=np.int64)) * widths.get(tensor["dtype"], 1)
        tensor["data_offsets"], at = [at, at + count], at + count
    return json.dumps(head).encode(), (rest * 9)[:at].ljust(at, b"\0")


def is_adapter(text: bytes) -> bool:
    """Return whether the config is JSON, and the header of the tensors too."""
    for name, data in unfolded(text).items():
        size = int.from_bytes(data[:8], "little")
        json.loads(data if name.endswith(".json") else data[8 : 8 + size])
    return True


def check_adapter(text: bytes, folder: Path) -> None:
    """Read an adapter, and put it beside the products of a decoder."""
    from dml_jax.genai.lora import CONFIG, WEIGHTS, Adapter

    if not _BASES:
        place = Path(tempfile.mkdtemp(dir=folder))
        for type_ in ("llama", "phi3"):
            _BASES[type_] = _base(place / type_, type_).folder
    write(text, folder, (WEIGHTS, CONFIG))
    base = _BASES[("llama", "phi3")[zlib.crc32(text) % 2]]
    adapter = Adapter.load(folder, base)
    adapter.applied()


# External data.

FILES = {"w.bin": 70_000, "sub/w.bin": 96, "n.bin": 0}
PLACES = (
    *("w.bin", "sub/w.bin", "link.bin", "out.bin", "circle", "sub", "../w.bin", "sub/../w.bin"),
    *("/etc/passwd", "/dev/zero", ".", "", "n.bin", "none.bin", "a" * 300, "w.bin\0", "dir/w.bin"),
)
KEYS = ("location", "offset", "length", "checksum", "dml_jax.place", "", "other")


def externals() -> dict[str, bytes]:
    """Return networks whose elements lie in files: small ones, large ones, and within nodes."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 18]>
        g (float[N,4] x) => (float[N,4] y, float[130,130] z)
        <float[4] a = {1, 2, 3, 4}, int8[8] b = {1, 2, 3, 4, 5, 6, 7, 8},
        float[2,4] c = {1, 2, 3, 4, 5, 6, 7, 8},
        float[130,130] d = {0}, float[130,130] e = {0}, bool t = {1}> {
            s = Mul (x, a)
            k = Cast <to = 1> (b)
            h = Constant <value = float[4] {1, 2, 3, 4}> ()
            r = Add (s, h)
            y = If (t) <
                then_branch = p () => (float[N,4] u) <float[4] v = {1, 2, 3, 4}> { u = Add (r, v) },
                else_branch = q () => (float[N,4] o) { o = Neg (r) }>
            z = Add (d, e)
        }"""
    )
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 2 and tensor.dims[0] == 130:
            tensor.CopyFrom(numpy_helper.from_array(np.ones((130, 130), np.float32), tensor.name))
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1, 2])
    places = helper.make_tensor("", TensorProto.INT64, [2], [1, 3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    model.graph.node.append(helper.make_node("Add", ["a", "sparse"], ["both"]))
    model.graph.output.append(helper.make_tensor_value_info("both", TensorProto.FLOAT, [4]))
    inside = model.SerializeToString()
    outside = deepcopy(model)
    at = 0
    for tensor in (*outside.graph.initializer, outside.graph.node[2].attribute[0].t):
        if tensor.name not in ("d", "t"):
            size = numpy_helper.to_array(tensor).nbytes
            _move_out(tensor, "w.bin", at, size)
            at = 64 if size < 1000 else 0
    return {"inside": inside, "outside": outside.SerializeToString()}


def _move_out(tensor: Any, place: str, at: int, size: int) -> None:
    for name in ("raw_data", "float_data", "int32_data", "int64_data"):
        tensor.ClearField(name)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", place), ("offset", str(at)), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)


def mutated_external(data: bytes, rng: random.Random) -> bytes:
    """Return a network with changed places of its elements, or other changes."""
    if rng.random() < 0.15:
        return fuzz_networks.mutated_model(data, rng)
    model = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        tensors = [*model.graph.initializer]
        for sparse in model.graph.sparse_initializer:
            tensors += [sparse.values, sparse.indices]
        tensors += [a.t for n in model.graph.node for a in n.attribute if a.HasField("t")]
        tensor = rng.choice(tensors)
        entries = tensor.external_data
        numbers = [0, 1, 4, 63, 4096, 16, 67_600, 70_000, 2**31, 2**63, -1, *NUMBERS[:20]]
        match rng.randrange(8):
            case 0 | 1 if entries:
                rng.choice(
                    [e for e in entries if e.key == "location"] or entries
                ).value = rng.choice(PLACES)
            case 2 | 3 if entries:
                rng.choice(entries).value = str(rng.choice(numbers))
            case 4 if entries:
                rng.choice(entries).key = rng.choice(KEYS)
            case 5:
                entries.add(key=rng.choice(KEYS), value=str(rng.choice([*numbers, *TEXTS[:10]])))
            case 6:
                tensor.dims[rng.randrange(len(tensor.dims) or 1) :] = [
                    rng.choice(graphs.SIZES[:12])
                ]
            case _:
                tensor.data_type = rng.choice(graphs.KINDS)
                if rng.random() < 0.5:
                    tensor.data_location = rng.choice([TensorProto.DEFAULT, TensorProto.EXTERNAL])
    return model.SerializeToString()


def check_external(data: bytes, folder: Path) -> None:
    """Load a network from its folder, save it again, and make a session of it, each at times."""
    from dml_jax import load_onnx
    from dml_jax.onnx import free_sizes, save_onnx
    from dml_jax.onnxruntime import InferenceSession
    from dml_jax.onnxruntime.errors import OnnxRuntimeError

    if not (folder / "sub").exists():
        (folder / "sub").mkdir()
        for name, size in FILES.items():
            (folder / name).write_bytes(bytes(size))
        links = {"link.bin": "w.bin", "out.bin": "/etc/hostname", "circle": "circle", "dir": ".."}
        for name, target in links.items():
            (folder / name).symlink_to(target)
    path, kind = folder / "n.onnx", zlib.crc32(data)
    path.write_bytes(data)
    calls: list[Callable[[], Any]] = [lambda: load_onnx(path, *free_sizes(path, {})).report()]
    if kind % 3 == 0:
        dtype = (None, "float16")[kind % 2]
        calls.append(lambda: save_onnx(path, folder / "o.onnx", {}, dtype))
    if kind % 3 == 1:
        calls.append(lambda: InferenceSession(path).get_inputs())
    for call in calls:
        with fuzz_networks.refusals(OnnxRuntimeError):
            call()
