"""Decoders that several devices compute together: tokens, what is sent, what each device holds."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from build import command
from devices.test_sharding import KINDS
from language_folders import PROMPT, Reference, finish, generator, write_folder
from onnx import helper

import dml_jax.genai as og
from dml_jax import DmlError, load_onnx

LAYERS, COUNT = 2, 8

pytestmark = [
    pytest.mark.skipif(
        jax.device_count() < COUNT, reason=f"the default backend has fewer than {COUNT} devices"
    )
]


def sent(model: og.Model) -> Counter[str]:
    """The collectives of the program of one token."""
    decoder, rows = model.decoder, 64
    parameters = decoder.network(1, 1, rows).constants
    given = {"parameters": parameters, "cache": decoder.cache(1, rows)}
    tokens, counts = np.zeros((1, 1), np.int32), np.ones(1, np.int32)
    step = jax.jit(decoder.step, static_argnames="width")
    program = step.lower(**given, tokens=tokens, counts=counts, width=rows).compile()
    return Counter(re.findall(rf"= .*? ({KINDS})(?:-start)?\(", program.as_text()))


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "eight"
    return write_folder(folder, heads=16, groups=8)


FORMS: dict[str, tuple[int, dict[str, Any], int]] = {  # devices, folder, devices with a key head
    "key heads in groups, and biases": (4, {"heads": 4, "groups": 2, "biases": True}, 2),
    "int4 with zero points and biases": (
        2,
        {"heads": 4, "groups": 2, "bits": 4, "zero_points": True, "biases": True},
        1,
    ),
}


def test_eight_devices_give_the_tokens_of_onnx_runtime(eight: Path):
    model, reference = og.Model(eight, devices=COUNT), Reference(eight)
    made = generator(model, PROMPT)
    assert finish(made, 8) == reference.greedy(PROMPT, 8)
    assert model.decoder.note == ""
    assert sent(model) == {"all-reduce": 2 * LAYERS}
    cache = model.decoder.cache(1, 64)["buffers"][0]
    assert cache.shape == (1, 8, 64, 16)
    assert cache.sharding.shard_shape(cache.shape) == (1, 1, 64, 16)
    weights = {n: w.sharding.shard_shape(w.shape) for n, w in model.decoder.weights.items()}
    assert weights["qkv0"] == (32, (2 + 1 + 1) * 16)
    assert weights["out0"] == (2 * 16, 32)
    assert weights["gate1"] == (32, 64 // 8) and weights["down1"] == (64 // 8, 32)
    assert weights["embedding"] == (320, 32) and weights["head"] == (32, 320)
    read = len(PROMPT) + 8 - 1  # the last token is not read yet
    assert made.get_output("present.0.key").shape == (1, 8, read, 16)


@pytest.mark.parametrize("form", FORMS)
def test_logits_are_those_of_onnx_runtime(form: str, tmp_path: Path):
    count, options, copies = FORMS[form]
    write_folder(tmp_path, **options)
    model, reference = og.Model(tmp_path, devices=count), Reference(tmp_path)
    made = generator(model, PROMPT)
    wanted = reference.logits(PROMPT)[-1]
    logits = made.get_logits()[0, 0]
    np.testing.assert_allclose(logits, wanted, atol=1e-4 * np.abs(wanted).max(), rtol=0)
    assert model.decoder.cache(1, 64)["buffers"][0].shape[1] == options["groups"] * copies
    assert made.get_output("present.0.key").shape[1] == options["groups"]
    assert sent(model) == {"all-reduce": 2 * LAYERS}


def test_what_does_not_divide_is_replicated(tmp_path: Path):
    """As SmolLM2 has 9 heads: each device has all of them, and a line says so."""
    write_folder(tmp_path, heads=3, groups=1)
    model = og.Model(tmp_path, devices=2)
    note = "2 devices: attention is replicated (3 heads of queries and 1 of keys), "
    assert model.decoder.note == f"{note}the MLP is divided"
    assert sent(model) == {"all-reduce": LAYERS}
    words = ("generate", tmp_path, "-p", "the", "--max_length", 8, "--json")
    result = command(*words, "--devices", 2)
    assert result.stderr == f"{model.decoder.note}\n"
    assert json.loads(result.stdout) == json.loads(command(*words).stdout)


def mesh(count: int, *names: str) -> jax.sharding.Mesh:
    sizes = (count,) if len(names) == 1 else (2, count // 2)
    return jax.make_mesh(sizes, names, devices=jax.devices()[:count])


def test_a_network_is_divided_with_its_own_weights(eight: Path):
    """`network.shard` gives a pure function, too; a mesh may have axes that it does not use."""
    network: Any = og.Model(eight).decoder.network(1, 5, 64)
    network.weights |= {"norm": network.weights["norm"] * np.float32(2)}
    inputs = {n: np.zeros(k.shape, k.dtype) for n, k in network.inputs.items()}
    inputs["input_ids"][0], inputs["attention_mask"][0, :5] = PROMPT, 1
    wanted = network(inputs)
    own = network.shard(mesh(4, "a", "b"), "b")
    results, pure = own(inputs), jax.jit(own.apply)(own.weights, inputs)
    for name, array in wanted.items():
        for other in (results[name], pure[name]):
            np.testing.assert_allclose(other, array, atol=2e-4, rtol=0)
    assert own.outputs == [*wanted]
    assert own.report().startswith("2 devices, each with\n")


def refusals(eight: Path, folder: Path) -> Any:
    network: Any = og.Model(eight).decoder.network(1, 1, 64)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    value = helper.make_tensor_value_info
    inputs = [value("x", 1, [2, 8]), value("w", 1, [8, 8])]
    graph = helper.make_graph([node], "other", inputs, [value("y", 1, [2, 8])])
    other = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    write_folder(folder, heads=3, groups=1, columns=31)
    odd: Any = og.Model(folder).decoder.network(1, 1, 64)
    yield "the network to have nodes GroupQueryAttention", lambda: other.shard(mesh(2, "a"))
    yield "mesh to be a jax.sharding.Mesh", lambda: network.shard(2)
    yield "axis to name one of the mesh's axes (a, b)", lambda: network.shard(mesh(4, "a", "b"))
    yield "axis to name one of", lambda: network.shard(mesh(2, "a"), "heads")
    yield "2 devices to divide the heads of an attention", lambda: odd.shard(mesh(2, "a"))


def test_what_cannot_be_divided_is_said_in_a_line(eight: Path, tmp_path: Path):
    for said, call in refusals(eight, tmp_path):
        with pytest.raises(DmlError) as caught:
            call()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
