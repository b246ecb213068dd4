"""Adapters of decoders: in PEFT's files, beside the weights, and added to them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from build import command
from language_folders import (
    PROMPT,
    SIZE,
    WIDTH,
    Reference,
    configured,
    finish,
    generator,
    rewrite,
    write_folder,
)
from safetensors.numpy import load_file, save_file

import dml_jax.genai as og
from dml_jax import DmlError

HEADS, GROUPS = 4, 2
PREFIX = "base_model.model.model.layers"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root, sizes = tmp_path_factory.mktemp("models"), {"heads": HEADS, "groups": GROUPS}
    made = {"float": write_folder(root / "float", **sizes)}
    made["int4"] = write_folder(root / "int4", bits=4, zero_points=True, **sizes)
    return made


def changed(folder: Path, seed: int = 0) -> og.Adapter:
    """An adapter that changes something."""
    new = og.Adapter.new(og.Config(folder).folder, rank=3)
    draw = np.random.default_rng(seed)
    weights = {
        name: draw.standard_normal(array.shape) * 0.2 if "lora_B" in name else array
        for name, array in new.weights.items()
    }
    return new.of(weights)


def logits(model: og.Model) -> np.ndarray:
    decoder = model.decoder
    tokens = np.array([PROMPT], np.int32)
    program = jax.jit(lambda weights: decoder.decode(weights, decoder.cache(1, 64), tokens)[0])
    return np.asarray(program(dict(decoder.weights))[0])


@pytest.mark.parametrize("form", ["float", "int4"])
def test_merged_weights_answer_as_the_adapter_does(
    form: str, folders: dict[str, Path], tmp_path: Path
):
    """ONNX Runtime runs the folder of the merged weights."""
    adapter, model = changed(folders[form]), og.Model(folders[form])
    found = logits(model.adapted(adapter))
    assert np.abs(found - logits(model)).max() > 0.3
    dtype = None if form == "float" else jnp.float16
    og.save_merged(model, adapter, tmp_path, dtype)
    wanted = Reference(tmp_path).logits(PROMPT)
    limit = 1e-4 if form == "float" else 1e-2
    np.testing.assert_allclose(found, wanted, atol=limit * np.abs(wanted).max(), rtol=0)
    assert og.Tokenizer(og.Model(tmp_path)).decode(PROMPT)


def test_merged_weights_lie_in_the_new_folder(folders: dict[str, Path], tmp_path: Path):
    decoder = {"filename": str((folders["float"] / "model.onnx").absolute())}
    config = configured(folders["float"], model={"decoder": decoder})
    with pytest.raises(og.GenAIError, match="to be a path below the folder"):
        og.save_merged(og.Model(config), changed(folders["float"]), tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_int4_weights_are_rounded_again(folders: dict[str, Path], tmp_path: Path):
    """Each number is at most half a step beside the merged one; what has no change stays."""
    model = og.Model(folders["int4"])
    pairs = {
        "model.layers.0.mlp.up_proj": changed(folders["int4"]).pairs["model.layers.0.mlp.up_proj"]
    }
    og.save_merged(model, og.Adapter(model.folder, pairs), tmp_path)
    before, after = (
        {
            t.name: onnx.numpy_helper.to_array(t)
            for t in onnx.load(f / "model.onnx").graph.initializer
        }
        for f in (folders["int4"], tmp_path)
    )
    differing = {name for name, array in before.items() if not np.array_equal(array, after[name])}
    assert differing <= {"up0", "up0.scale", "up0.zero"} and "up0" in differing

    def matrix(arrays: dict[str, np.ndarray]) -> np.ndarray:
        def numbers(x: np.ndarray) -> np.ndarray:
            return np.stack([x & 15, x >> 4], -1).reshape(*x.shape[:-1], -1).astype(np.float64)

        zero = numbers(arrays["up0.zero"])[:, :2, None]
        return ((numbers(arrays["up0"]) - zero) * arrays["up0.scale"][..., None]).reshape(64, WIDTH)

    a, b = pairs["model.layers.0.mlp.up_proj"]
    error = np.abs(matrix(after) - matrix(before) - (a.astype(np.float64) @ b).T)
    step = np.abs(after["up0.scale"]).max(1)
    assert (error.max(1) <= 0.51 * step).mean() > 0.9
    np.testing.assert_allclose(
        logits(og.Model(tmp_path)), Reference(tmp_path).logits(PROMPT), atol=2e-3, rtol=0
    )


def test_files_are_those_of_peft(folders: dict[str, Path], tmp_path: Path):
    """PEFT: lora_A [rank, in] and lora_B [out, rank] of each module, scaled by alpha / r."""
    adapter = changed(folders["float"])
    adapter.save(tmp_path)
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    shapes = {name: array.shape for name, array in tensors.items() if ".layers.1." in name}
    sizes = {
        "self_attn.q_proj": (WIDTH, HEADS * SIZE),  # one product with keys and values in the graph
        "self_attn.k_proj": (WIDTH, GROUPS * SIZE),
        "self_attn.v_proj": (WIDTH, GROUPS * SIZE),
        "self_attn.o_proj": (HEADS * SIZE, WIDTH),
        "mlp.gate_proj": (WIDTH, 64),
        "mlp.up_proj": (WIDTH, 64),
        "mlp.down_proj": (64, WIDTH),
    }
    wanted = {f"{PREFIX}.1.{name}.lora_A.weight": (3, k) for name, (k, _) in sizes.items()}
    wanted |= {f"{PREFIX}.1.{name}.lora_B.weight": (n, 3) for name, (_, n) in sizes.items()}
    assert shapes == wanted
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 3, 3)
    assert config["target_modules"] == sorted(name.partition(".")[2] for name in sizes)
    folder = og.Config(folders["float"]).folder
    for name, pair in og.Adapter.load(tmp_path, folder).pairs.items():
        np.testing.assert_allclose(pair[0] @ pair[1], np.matmul(*adapter.pairs[name]), atol=1e-6)


SCALES: list[tuple[dict[str, Any], float]] = [
    ({"lora_alpha": 8}, 2.0),
    ({"lora_alpha": 8, "use_rslora": True}, 4.0),
    ({"lora_alpha": 8, "alpha_pattern": {"up_proj": 2}}, 0.5),
]


@pytest.mark.parametrize("case", range(len(SCALES)))
def test_the_config_scales_an_adapter(case: int, folders: dict[str, Path], tmp_path: Path):
    given, scale = SCALES[case]
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal(s).astype(np.float16) for s in ((4, WIDTH), (64, 4)))
    name = f"{PREFIX}.0.mlp.up_proj.lora"
    tensors = {f"{name}_A.weight": a, f"{name}_B.weight": b}
    save_file(tensors, tmp_path / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 4, **given}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    loaded = og.Adapter.load(
        tmp_path / "adapter_model.safetensors", og.Config(folders["float"]).folder
    )
    ((module, (own_a, own_b)),) = loaded.pairs.items()
    assert module == "model.layers.0.mlp.up_proj"
    np.testing.assert_allclose(own_a @ own_b, scale * (b.astype(np.float32) @ a).T, atol=1e-5)


def test_a_generator_and_the_command_take_an_adapter(folders: dict[str, Path], tmp_path: Path):
    model, adapter = og.Model(folders["float"]), changed(folders["float"])
    adapter.save(tmp_path / "adapter")
    og.save_merged(model, adapter, tmp_path / "merged")
    tokenizer = og.Tokenizer(model)
    prompt = tokenizer.encode("the quick").tolist()
    wanted, plain = (
        Reference(f).greedy(prompt, 6) for f in (tmp_path / "merged", folders["float"])
    )
    assert wanted != plain
    adapters = og.Adapters(model)
    adapters.load(tmp_path / "adapter", "other")
    made = generator(model, max_length=len(wanted))
    made.set_active_adapter(adapters, "other")
    made.append_tokens(prompt)
    assert finish(made) == wanted
    words = ("--prompt", "the quick", "--max_length", len(wanted), "--json")
    result = command("generate", folders["float"], *words, "--adapter", tmp_path / "adapter")
    assert json.loads(result.stdout)["text"] == tokenizer.decode(wanted[len(prompt) :])
    adapters.unload("other")
    with pytest.raises(og.GenAIError, match="be one that is loaded, got 'other'"):
        adapters.adapted("other")


def refusals(folders: dict[str, Path], root: Path) -> Iterator[tuple[str, Any]]:
    model = og.Model(folders["float"])
    folder, adapters = model.folder, og.Adapters(model)
    good = changed(folders["float"])

    def written(name: str, tensors: dict[str, np.ndarray] | None = None, **config: Any) -> Path:
        good.save(root / name)
        rewrite(root / name / "adapter_config.json", **config)
        if tensors is not None:
            save_file(tensors, root / name / "adapter_model.safetensors")
        return root / name

    def matrices(layer: int, rank: int) -> dict[str, np.ndarray]:
        name = f"{PREFIX}.{layer}.mlp.up_proj.lora"
        a, b = np.zeros((rank, WIDTH), np.float32), np.zeros((64, rank), np.float32)
        return {f"{name}_A.weight": a, f"{name}_B.weight": b}

    half = dict([*matrices(0, 3).items()][:1])
    other = {f"{PREFIX}.0.mlp.up_proj.bias": np.zeros((3, WIDTH), np.float32)}
    broken = written("broken")
    (broken / "adapter_model.safetensors").write_bytes(b"no tensors")
    odd = "the adapter to fit the decoder"
    wrong = [
        ("adapter_config.json' to be a file that can be read", root),
        ("peft_type in", written("kind", peft_type="IA3")),
        ("to be False, got True", written("dora", use_dora=True)),
        ("have lora_A and lora_B of 'layers.0.up_proj'", written("half", half)),
        ("be lora_A or lora_B of a layer's product", written("other", other)),
        ("product to be a product of the decoder", written("beyond", matrices(7, 3))),
        ("to be of safetensors", broken),
        (odd, written("bracket", alpha_pattern={"[": 1})),
        (odd, written("listed", alpha_pattern=["up_proj"])),
        (odd, written("huge", lora_alpha=1e300)),
        (odd, written("empty", matrices(0, 0))),
        ("be a folder of PEFT's", root / "adapter.onnx_adapter"),
    ]
    for k, pattern in enumerate(("(.+)+x", "(?x:(.+) +)z", "(a|a)|.*.*.*")):
        slow = written(f"slow{k}", alpha_pattern={pattern: 1})
        wrong.append(("have at most 3 of the signs", slow))
    for said, path in wrong:
        yield said, lambda path=path: adapters.load(path, "a")
    yield "change one product or more", lambda: og.Adapter.new(folder, targets=["w1"])
    made = generator(model)
    yield "be one that is loaded", lambda: made.set_active_adapter(adapters, "b")
    others = og.Adapters(og.Model(folders["float"]))
    yield "be those of the generator's model", lambda: made.set_active_adapter(others, "b")


def test_what_is_wrong_with_an_adapter_is_said_in_a_line(folders: dict[str, Path], tmp_path: Path):
    for said, call in refusals(folders, tmp_path):
        with pytest.raises(DmlError) as caught:
            call()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


def test_casts_in_a_circle_are_no_weight(folders: dict[str, Path]):
    folder = og.Config(folders["float"]).folder
    circle = onnx.helper.make_node("Cast", ["c"], ["c"], to=1)
    folder.proto.graph.node.append(circle)
    folder.proto.graph.node.append(onnx.helper.make_node("MatMul", ["c", "c"], ["d"], "/lm_head/x"))
    assert og.Adapter.new(folder).pairs.keys() == changed(folders["float"]).pairs.keys()
