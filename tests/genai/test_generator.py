"""Language models: `dml_jax.genai` beside ONNX Runtime, and what its API promises."""

import json
import re
import subprocess
import sys
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
    CONTEXT,
    END,
    PROMPT,
    RECORDED,
    VOCABULARY,
    Reference,
    configured,
    finish,
    generated,
    generator,
    program_count,
    rewrite,
    sequences,
    write_folder,
)
from tokenizers import Tokenizer as Tokens

import dml_jax.genai as og
from dml_jax.genai import text as text_module
from dml_jax.genai.chat import Answer
from dml_jax.genai.sampling import Numbers, pick_tokens, repeating

CONFIG = "genai_config.json"
FORMS: dict[str, tuple[dict[str, Any], float]] = {
    "FLOAT32": ({}, 1e-4),
    "int4 of FLOAT16": ({"kind": np.float16, "bits": 4}, 0.03),
    "a window and a cap": ({"local_window_size": 3, "softcap": 2.0}, 1e-4),
    "FLOAT32 for DirectML": ({"is_dml": True}, 1e-4),
    "int4 for DirectML": ({"is_dml": True, "kind": np.float16, "bits": 4, "block": 32}, 0.03),
}


@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_those_of_onnx_runtime(form: str, tmp_path: Path):
    """At each step the logits agree, and so does the most likely token, unless two are as near."""
    options, tolerance = FORMS[form]
    write_folder(tmp_path, **options)
    made = generator(og.Model(str(tmp_path)), PROMPT)
    tokens, reference = list(PROMPT), Reference(tmp_path)
    for _ in range(12):
        wanted, logits = reference.logits(tokens)[-1], made.get_logits()[0, 0]
        np.testing.assert_allclose(logits, wanted, atol=tolerance * np.abs(wanted).max(), rtol=0)
        made.generate_next_token()
        tokens.append(int(made.get_next_tokens()[0]))
        assert wanted[tokens[-1]] >= wanted.max() - 2 * tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("form", ["builder", "slice", "after the head"])
def test_a_head_of_the_last_token_alone_reads_no_padding(form: str, folder: Path, tmp_path: Path):
    """The model builder's option prune_lm_head, and its relatives."""
    write_folder(tmp_path)
    path, node = tmp_path / "model.onnx", onnx.helper.make_node
    network = onnx.load(path)
    head, nodes = network.graph.node[-1], network.graph.node
    read, made = ("whole", "logits") if form == "after the head" else (head.input[0], "last")
    if form == "after the head":
        head.output[0] = read
    else:
        head.input[0] = made
    at = len(nodes) - (form != "after the head")
    constant = node("Constant", [], ["minus"], value_ints=[-1])
    if form == "builder":
        constant = node("Constant", [], ["minus"], value_int=-1)
        nodes.insert(at, node("Unsqueeze", ["row", "one"], [made]))
        nodes.insert(at, node("Gather", [read, "minus"], ["row"], axis=1))
    else:
        nodes.insert(at, node("Slice", [read, "minus", "far", "one"], [made]))
        nodes.insert(at, node("Constant", [], ["far"], value_ints=[2**63 - 1]))
    nodes.insert(0, constant)
    network.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(network, path, save_as_external_data=True, size_threshold=0)
    made = generated(og.Model(tmp_path, ahead=1), PROMPT, 4)
    assert made == Reference(folder).greedy(PROMPT, 4)
    nodes[0].CopyFrom(node("Neg", ["one"], ["minus"]))  # a place that is computed
    onnx.save(network, path)
    with pytest.raises(og.GenAIError, match="the output 'logits' to be those of each token"):
        og.Model(str(tmp_path))


def test_sequences_go_on_after_more_tokens_and_from_an_earlier_one(folder: Path, model: og.Model):
    reference, made = Reference(folder), generator(model, PROMPT)
    first = finish(made, 3)
    assert first == reference.greedy(PROMPT, 3)
    made.append_tokens(np.array([33, 44]))
    assert finish(made, 1) == reference.greedy([*first, 33, 44], 1)
    made.rewind_to(4)
    assert made.token_count() == 4
    assert finish(made, 1) == reference.greedy(first[:4], 1)
    made.rewind_to(0)
    made.append_tokens(PROMPT)
    assert finish(made, 2) == first[:-1]


@pytest.mark.parametrize("ahead", [1, 4])
def test_three_programs_serve_every_length(ahead: int, folder: Path):
    model = og.Model(str(folder), ahead=ahead)
    random = np.random.default_rng(0)
    reference, count = Reference(folder), 0
    for length in (300, 20, 1, 41, 299):
        tokens = random.integers(3, VOCABULARY, length)
        made, wanted = generator(model, tokens, max_length=400), reference.logits(tokens.tolist())
        np.testing.assert_allclose(made.get_logits()[0, 0], wanted[-1], atol=2e-4, rtol=0)
        finish(made, 11)
        if length == 300:
            count = program_count(model)
    assert count == program_count(model) == 3


def test_prompts_of_a_batch_are_those_alone(model: og.Model):
    prompts = [PROMPT, [8], [250, 4, 11]]
    alone = [generated(model, prompt, 6)[len(prompt) :] for prompt in prompts]
    filled = np.array([p + [0] * (len(PROMPT) - len(p)) for p in prompts], np.int32)
    made = generator(model, batch_size=3)
    made.append_tokens(og.Tensor(filled))
    finish(made, 6)
    assert [row[len(PROMPT) :] for row in sequences(made, 3)] == alone


@pytest.mark.parametrize("ahead", [1, 4])
def test_the_token_that_ends_a_text_is_no_part_of_it(ahead: int, folder: Path, model: og.Model):
    reference, tokens = Reference(folder), generated(model, PROMPT, 4)
    text, end = tokens[: len(PROMPT) + 1], tokens[len(PROMPT) + 1]
    ending = og.Model(configured(folder, model={"eos_token_id": [END, end]}), ahead=ahead)
    assert generated(ending, max_length=len(text) + 1) == text  # also in the last place
    made = generator(ending, PROMPT)
    assert finish(made) == text
    assert (made.is_done(), made.token_count()) == (True, len(text))
    assert made.get_next_tokens().tolist() == [end]
    np.testing.assert_allclose(made.get_logits()[0, 0], reference.logits(text)[-1], atol=1e-4)
    made.append_tokens([33, 44])
    assert finish(made, 3) == reference.greedy([*text, 33, 44], 3)
    assert end not in generated(ending, PROMPT, 12 - len(PROMPT), min_length=12)[len(PROMPT) :]


def test_a_sequence_of_a_batch_keeps_its_end_where_others_go_on(folder: Path, model: og.Model):
    """A batch has one length, so that all but the last ones to end have their tokens, and pads."""
    prompts = [PROMPT, [8, 250, 4, 11, 30]]
    first, second = (generated(model, prompt, 6) for prompt in prompts)
    config = configured(folder, model={"eos_token_id": [first[6], second[9]]})
    made = generator(og.Model(config), prompts, batch_size=2)
    finish(made)
    assert sequences(made, 2) == [[*first[:7], 0, 0], second[:9]]


def test_decode_is_pure(model: og.Model):
    decoder = model.decoder
    tokens = jnp.array([PROMPT], np.int32)
    rows, weights = 64, dict(decoder.weights)
    whole, after = jax.jit(decoder.decode)(weights, decoder.cache(1, rows), tokens)
    assert int(after["length"][0]) == len(PROMPT)

    def step(cache: Any, token: Any) -> Any:
        logits, cache = decoder.decode(weights, cache, token.reshape(1, 1))
        return cache, logits[0, 0]

    _, rowwise = jax.jit(lambda cache: jax.lax.scan(step, cache, tokens[0]))(decoder.cache(1, rows))
    np.testing.assert_allclose(rowwise, whole[0], atol=1e-4)

    def logits_of(tokens: Any) -> Any:
        return decoder.decode(weights, decoder.cache(1, rows), tokens)[0]

    two = jax.vmap(logits_of)(jnp.stack([tokens, tokens[:, ::-1]]))
    np.testing.assert_allclose(two[0], whole, atol=1e-4)


def test_decode_has_gradients(model: og.Model):
    decoder = model.decoder
    tokens = jnp.array([PROMPT], np.int32)
    weights = dict(decoder.weights)

    def loss(x: Any) -> Any:
        logits, _ = decoder.decode({**weights, "qkv1": x}, decoder.cache(1, 64), tokens)
        return -jax.nn.log_softmax(logits[0, :-1])[jnp.arange(4), tokens[0, 1:]].sum()

    x = weights["qkv1"]
    slope = np.asarray(jax.jit(jax.grad(loss))(x))
    place = np.unravel_index(np.abs(slope).argmax(), slope.shape)
    step = jnp.zeros_like(x).at[place].set(1e-2)
    wanted = (float(loss(x + step)) - float(loss(x - step))) / 2e-2
    assert slope[place] == pytest.approx(wanted, rel=2e-2)


NUMBERS = Numbers(max_length=0, min_length=0, penalty=1.0, temperature=1.0, top_p=1.0)


@pytest.mark.parametrize(
    ("numbers", "top_k", "scaled"),  # options, and the logits after them
    [
        ({}, 0, [2, 1, 0, -1]),
        ({"temperature": 0.5}, 0, [4, 2, 0, -2]),
        ({}, 2, [2, 1, -np.inf, -np.inf]),
        ({"top_p": 0.7}, 0, [2, 1, -np.inf, -np.inf]),
        ({"top_p": 0.6, "temperature": 2.0}, 3, [1, 0.5, -np.inf, -np.inf]),
    ],
)
def test_draws_have_the_distribution_of_the_options(numbers: Any, top_k: int, scaled: list[float]):
    """The chi-squared statistic of 4,096 draws is below its 0.9999 quantile of 3 degrees, 21.1."""
    logits = jnp.tile(jnp.array([[2.0, 1.0, 0.0, -1.0]]), (4096, 1))
    key, numbers = jax.random.key(1), NUMBERS._replace(**numbers)
    tokens = pick_tokens(logits, None, None, key, numbers, draws=True, top_k=top_k)
    chances = np.exp(np.array(scaled)) / np.exp(np.array(scaled)).sum()
    counts, wanted = np.bincount(np.asarray(tokens), minlength=4), 4096 * chances
    assert counts[wanted == 0].sum() == 0
    is_there = wanted > 0
    assert ((counts - wanted)[is_there] ** 2 / wanted[is_there]).sum() < 21.1


def test_a_seed_gives_the_same_tokens(model: og.Model):
    options: dict[str, Any] = {"do_sample": True, "top_k": 20, "temperature": 2.0}
    first, second, other = (
        generated(model, PROMPT, 12, random_seed=seed, **options) for seed in (3, 3, 4)
    )
    assert first == second != other


def test_penalties():
    logits = jnp.array([[3.0, 2.9, -1.0]])
    seen, key = jnp.array([[True, False, False]]), jax.random.key(0)
    for token, penalty in enumerate((1.0, 1.1)):
        numbers = NUMBERS._replace(penalty=penalty)
        made = pick_tokens(logits, seen, None, key, numbers, draws=False, top_k=0)
        assert made.tolist() == [token]
    banned = repeating(np.array([[1, 2, 0, 1]]), 2, 3)
    np.testing.assert_array_equal(banned, [[False, False, True]])
    assert repeating(np.array([[1, 0, 1, 9], [2, 9, 2, 9]]), 1, 3).tolist() == [
        [True, True, False],
        [False, False, True],
    ]


def test_text_becomes_tokens_and_back(model: og.Model):
    tokenizer = og.Tokenizer(model)
    text = "the lazy fox: é 東京 ñ日!"
    tokens = tokenizer.encode(text)
    assert tokens.dtype == np.int32
    assert tokenizer.decode(tokens) == text
    stream = tokenizer.create_stream()
    pieces = [stream.decode(token) for token in tokens]
    assert "".join(pieces) == text
    assert "" in pieces and not any("\ufffd" in piece for piece in pieces)
    batch = tokenizer.encode_batch([text, "the"])
    assert batch.shape() == [2, len(tokens)]
    assert tokenizer.decode_batch(batch) == [text, "the"]
    assert tokenizer.decode([1, *tokens, END]) == text
    assert (tokenizer.to_token_id("</s>"), tokenizer.to_token_id("no token")) == (END, -1)


def test_a_tokenizer_may_have_more_tokens_than_the_model(tmp_path: Path, folder: Path):
    """As Gemma's of images, and paddings that were added; the model reads none of them."""
    tokens = Tokens.from_file(str(folder / "tokenizer.json"))
    count = tokens.get_vocab_size()
    file = str(write_folder(tmp_path, vocabulary=count) / "tokenizer.json")
    tokens.add_special_tokens(["<image>", "[PAD]"])
    tokens.save(file)
    ids = {"pad_token_id": tokens.token_to_id("[PAD]"), "eos_token_id": []}
    model = og.Model(configured(tmp_path, model=ids), ahead=1)
    assert model.folder.pad_token_id > count
    tokenizer, reference = og.Tokenizer(model), Reference(tmp_path)
    prompts = ["the quick", "the"]
    filled = tokenizer.encode_batch(prompts)
    made = generator(model, filled.as_numpy(), batch_size=2, max_length=12)
    finish(made)
    for row, prompt in enumerate(prompts):
        ids = tokenizer.encode(prompt).tolist()
        tail = made.get_sequence(row)[filled.shape()[1] :].tolist()
        assert len(tail) > 5 and [*ids, *tail] == reference.greedy(ids, len(tail))
    with pytest.raises(og.GenAIError, match=rf"the {count} tokens of the model, got '<image>'$"):
        tokenizer.encode("the <image> of")


def test_a_conversation_is_filled_in(model: og.Model):
    tokenizer = og.Tokenizer(model)
    messages = json.dumps([{"role": "user", "content": "hi"}])
    assert tokenizer.apply_chat_template(messages) == "<user> hi\n<assistant> "
    plain = tokenizer.apply_chat_template(messages, add_generation_prompt=False, tools="")
    assert plain == "<user> hi\n"
    other = tokenizer.apply_chat_template(messages, template_str="{{ messages[0].content }}!")
    assert other == "hi!"


def refusals(folder: Path, model: og.Model) -> Iterator[tuple[str, Any]]:
    params, tokenizer = og.GeneratorParams(model), og.Tokenizer(model)
    made = generator(model, max_length=8)
    options = params.set_search_options
    yield "'num_beams' to be in [1, 32], got 40", lambda: options(num_beams=40)
    yield "be in [1, 2], as there are", lambda: options(num_beams=2, num_return_sequences=3)
    yield "be 1 where do_sample is true", lambda: options(num_beams=2, do_sample=True)
    yield "be an option of the search (did you mean 'top_k'?)", lambda: options(topk=4)
    yield "in [1, 512], the model's context_length", lambda: options(max_length=CONTEXT + 1)
    yield "'top_p' to be in [0, 1], got 3.0", lambda: options(top_p=3, do_sample=True)
    yield "'top_k' to be at least 0, got -1", lambda: options(top_k=-1, do_sample=True)
    yield "no guidance", lambda: params.set_guidance("regex", "a*")
    yield "no images", lambda: og.Images.open("picture.png")
    yield "no audio", lambda: og.Audios.open("sound.wav")
    yield "no Engine", lambda: og.Engine(model)
    yield "be in [1, ", lambda: og.Model(folder, devices=10_000)
    yield "expected the tokens to be one or more", lambda: made.append_tokens([])
    yield "be at most 8, so that sequences have at most", lambda: made.append_tokens([5] * 9)
    yield f"the tokens to be in [0, {VOCABULARY - 1}]", lambda: made.append_tokens([VOCABULARY])
    yield "be called after append_tokens", made.generate_next_token
    full = generator(model, [5, 7], max_length=2)
    yield "be called before sequences have max_length (2) tokens", full.generate_next_token
    yield "be an option of the log (did you mean 'enabled'?)", lambda: og.set_log_options(enable=1)
    yield "the index to be in [0, 0], got 1", lambda: made.get_sequence(1)
    yield "the messages to be JSON", lambda: tokenizer.apply_chat_template("hi")
    yield "genai_config.json' to be a file that can be read", lambda: og.Model(folder / "none")

    def changed(**members: Any) -> og.Model:
        return og.Model(configured(folder, model=members))

    names = {"outputs": {"logits": "logit"}}
    yield "be a tensor of 'model.onnx' (did you mean 'logits'?)", lambda: changed(decoder=names)
    layers = {"num_hidden_layers": 4}
    yield ", got 'past_key_values.2.key'", lambda: changed(decoder=layers)
    rule = f"'eos_token_id' in genai_config.json to be in [0, {VOCABULARY - 1}]"
    yield rule, lambda: changed(eos_token_id=[END, VOCABULARY])
    yield "be in [1, 32], got 0", lambda: options(num_beams=0)
    said = "expected the text to have none but the 100 tokens of the model, got "
    yield said, lambda: og.Tokenizer(changed(vocab_size=100)).encode("the")


def test_what_is_wrong_is_said_in_a_line(folder: Path, model: og.Model):
    for said, call in refusals(folder, model):
        with pytest.raises(og.GenAIError) as caught:
            call()
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, RuntimeError)


def test_a_size_that_the_network_has_not_is_said_in_a_line(tmp_path: Path):
    proto = onnx.load(write_folder(tmp_path) / "model.onnx", load_external_data=False)
    for value in (*proto.graph.input, *proto.graph.output):
        if len(value.type.tensor_type.shape.dim) == 4:
            value.type.tensor_type.shape.dim[3].dim_param = "kv_cache_dim"
    onnx.save(proto, tmp_path / "model.onnx")
    config = configured(tmp_path, model={"decoder": {"head_size": 7}})
    rule = "^expected head_size in genai_config.json to be 16, as in the network, got 7$"
    with pytest.raises(og.GenAIError, match=rule):
        generator(og.Model(config), [5])


@pytest.mark.parametrize("name", ["model.onnx", "model.onnx.data", "tokenizer.json"])
def test_a_file_that_is_missing_is_said_in_a_line(name: str, tmp_path: Path):
    (write_folder(tmp_path) / name).unlink()
    result = command("generate", tmp_path, "-p", "the", status=1)
    assert not result.stdout
    assert result.stderr.startswith(f"expected the file '{tmp_path / name}' to be ")
    assert result.stderr.count("\n") == 1


def test_names_are_there_or_refused_in_words(folder: Path, model: og.Model):
    for name, members in RECORDED["names"].items():
        assert [m for m in members if not hasattr(getattr(og, name), m)] == []
    assert (og.FinishReason.EOS.value, str(og.FinishReason.EOS)) == (1, "FinishReason.EOS")
    assert og.EngineEventFlags(16).name == "RETRYABLE"
    tokenizer = og.Tokenizer(model)
    with pytest.raises(og.GenAIError, match=r"'eot_token_id' in genai_config.json to be there"):
        _ = tokenizer.eot_token_id
    assert og.Tokenizer(configured(folder, model={"eot_token_id": 8})).eot_token_id == 8
    for call in (og.EngineEventBuffer, og.StreamingProcessor, og.Config.from_package_ep):
        with pytest.raises(og.GenAIError, match=r"^dml_jax\.genai has no "):
            call()


def test_the_command_prints_what_the_model_says(folder: Path, model: og.Model):
    tokenizer = og.Tokenizer(model)
    text = "the quick fox"
    tokens = tokenizer.encode(text)
    count = len(tokens) + 6
    wanted = generated(model, tokens, max_length=count)[len(tokens) :]
    words = ("--prompt", text, "--max_length", count, "--json", "--stats")
    found = json.loads(command("generate", folder, *words).stdout)
    assert found["text"] == tokenizer.decode([t for t in wanted if t != END])
    assert found["tokens"] == 6
    result = command("generate", folder, "--prompt", " ", status=1)
    assert result.stderr == "expected the prompt to have words, got ' '\n"
    result = command("generate", folder, "-p", "a " * 600, status=1)
    assert result.stderr.startswith("expected the prompt to have less than 512 tokens")


def test_a_conversation_goes_on(tmp_path: Path):
    """Answers end at many tokens here; a message that does not fit is refused."""
    rewrite(write_folder(tmp_path) / CONFIG, model={"eos_token_id": [*range(2, 200)]})
    said = f"hello\n\nhow are you\n{'a ' * 90}\n"
    words = ("--chat", "--max_length", 90, "--json")
    result = command("generate", tmp_path, *words, status=1, input=said)
    *answers, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert [[*answer] for answer in answers] == [["text"], ["text"]]
    assert "expected the prompt to have less than" in last["faults"][0]["message"]


def test_a_full_conversation_leaves_out_its_oldest_messages(tmp_path: Path):
    """An answer is that of a conversation that has the other messages alone."""
    rewrite(write_folder(tmp_path) / CONFIG, model={"eos_token_id": []})  # ends at max_length
    words = ("generate", tmp_path, "--chat", "--max_length", 60, "--json")
    result = command(*words, input="hello\nhow are you\nthe fox\n")
    said = "2 messages are left out: the conversation is full (max_length)\n"
    assert result.stderr == 2 * said
    alone = command(*words, input="the fox\n")
    assert result.stdout.splitlines()[-1:] == alone.stdout.splitlines()


def test_options_of_draws_draw(tmp_path: Path):
    """Those of the folder, and those that are typed; a seed repeats itself."""

    def text(*words: str) -> str:
        return command("generate", tmp_path, "-p", "the", "--max_length", 30, *words).stdout

    write_folder(tmp_path)
    greedy = text()
    drawn = text("--temperature", "8", "--top_k", "300", "--seed", "1")
    assert greedy == text() == text("--temperature", "0") == text("--top_k", "1")
    assert text("--seed", "1") != greedy
    rewrite(tmp_path / CONFIG, search={"do_sample": True, "temperature": 8.0, "top_k": 300})
    assert text("--seed", "1") == drawn not in (text("--seed", "2"), text(), greedy)
    assert text("--no-do_sample") == greedy
    assert text("--num_beams", "1", "--no-do_sample") == greedy
    text("--num_beams", "2")


def test_the_rate_is_that_of_tokens_whose_program_is_there():
    answer = Answer(seconds=[1.0, 5.0, 6.0, 6.5, 7.0], waits=[4.0, 1.0])
    assert answer.rate == 2 / 1.0


def test_programs_find_the_module_as_onnxruntime_genai(folder: Path, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nimport onnxruntime_genai as og\nfrom beside import LENGTH\n"
        "model = og.Model(sys.argv[1])\nprint(model.type, LENGTH)\nog.Engine(model)\n"
    )
    (tmp_path / "beside.py").write_text("LENGTH = 3\n")
    words = [sys.executable, "-m", "dml_jax.genai", str(program), str(folder)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert result.stdout == "llama 3\n"
    assert "GenAIError: dml_jax.genai has no Engine" in result.stderr.splitlines()[-1]
    assert re.findall(r'File "([^"]+)", line (\d+)', result.stderr) == [(str(program), "6")]
    assert result.returncode == 1


def test_weights_of_four_bits_may_stay_so(tmp_path: Path):
    write_folder(tmp_path, bits=4)
    kept, unpacked = og.Model(tmp_path, keeps_int4=True), og.Model(tmp_path)
    assert generated(kept, PROMPT, 6) == generated(unpacked, PROMPT, 6)
    made = [int(model.report().split()[-2]) for model in (kept, unpacked)]
    weights = sum(w.nbytes for w in kept.decoder.weights.values())
    if jax.default_backend() == "cpu":  # other devices read weights of four bits as they are
        assert made[0] == 0 and made[1] > weights


def test_a_tokenizer_that_its_package_breaks_on_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    """The package panics where a merge is shorter than the prefix of continued words."""
    prefix = {"continuing_subword_prefix": "a" * 14}
    rewrite(write_folder(tmp_path) / "tokenizer.json", model=prefix)
    with pytest.raises(og.GenAIError, match="to be a tokenizer"):
        og.Tokenizer(og.Config(tmp_path))
    assert capfd.readouterr().err == ""  # the panic has no text of its own


def test_a_pattern_that_gives_up_is_one_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """The package panics where a pattern has tried too many ways."""
    path = write_folder(tmp_path) / "tokenizer.json"
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    own = {**json.loads(path.read_text()), "pre_tokenizer": {**pattern, "invert": False}}
    path.write_text(json.dumps(own))
    tokenizer = og.Tokenizer(og.Config(tmp_path))
    with pytest.raises(og.GenAIError, match="the text to be one that the tokenizer takes"):
        tokenizer.encode("a" * 40 + "c")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["{{ messages[0]['a':] }}", "{{ [][1:2:0] }}", "{{ 1 // 0 }}"])
def test_a_template_that_fails_in_any_way_is_refused(text: str, model: og.Model):
    with pytest.raises(og.GenAIError, match="the template to fit the messages"):
        og.Tokenizer(model).apply_chat_template('[{"role": "user"}]', template_str=text)


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{{ messages" + " | tojson" * 40 + " }}",
        "{{ 'a' * 10 ** 10 }}",
    ],
    ids=["loops", "doubles", "repeats"],
)
def test_a_template_without_an_end_is_refused(
    text: str, model: og.Model, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text_module, "SECONDS_MAX", 3)
    tokenizer = og.Tokenizer(model)
    with pytest.raises(og.GenAIError, match=r"the template to (end within 3 s|fit the messages)"):
        tokenizer.apply_chat_template("[{}]", template_str=text)
    assert tokenizer.apply_chat_template("[{}]", template_str="{{ 1 + 1 }}") == "2"


def test_an_answer_that_nobody_waited_for_is_not_the_next(
    model: og.Model, monkeypatch: pytest.MonkeyPatch
):
    """Ctrl-C stops a caller while the template is filled in."""
    tokenizer, written = og.Tokenizer(model), print

    def interrupted(*arguments: Any, **options: Any) -> None:
        written(*arguments, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("builtins.print", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tokenizer.apply_chat_template("[{}]", template_str="left")
    assert tokenizer.apply_chat_template("[{}]", template_str="after") == "after"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"model": {"context_length": {}}}, "'context_length' in genai_config.json to be in"),
        ({"model": {"vocab_size": "many"}}, "'vocab_size'"),
        ({"model": {"eos_token_id": [[1]]}}, "'eos_token_id'"),
        ({"model": {"decoder": True}}, "'decoder' in genai_config.json to be an object"),
        ({"model": {"decoder": {"num_hidden_layers": 2**60}}}, "'num_hidden_layers'"),
        ({"model": {"decoder": {"filename": "model\0.onnx"}}}, "a path that leads to a file"),
        ({"model": {"decoder": {"inputs": 1}}}, "'inputs'"),
        ({"model": {"encoder": {"filename": "e"}}}, "no encoders .a folder of optimum's may"),
        ({"model": {"vision": {}}}, "no networks for images and sound .'vision' in"),
        ({"model": {"decoder": {"pipeline": [{}]}}}, "has no decoders in several files"),
        ({"model": {"decoder": {"inputs": {"past_names": "p"}}}}, "in one tensor"),
        ({"model": {"decoder": {"inputs": {"past_conv_names": "p.%d"}}}}, "no states of conv"),
        ({"search": [1]}, "'search' in genai_config.json to be an object"),
        ({"search": {"top_p": 10**400}}, "the option 'top_p' to be a number"),
        ({"search": {"max_length": float("inf")}}, "'max_length' to be a whole number"),
        ({"search": {"batch_size": 2**40}}, "the cache to take at most"),
        ({"search": {"num_beams": 2**40}}, "the option 'num_beams' to be in"),
    ],
)
def test_values_of_other_types_in_the_config(members: Any, message: str, tmp_path: Path):
    rewrite(write_folder(tmp_path) / CONFIG, **members)
    with pytest.raises(og.GenAIError, match=message):
        model = og.Model(tmp_path)
        og.Generator(model, og.GeneratorParams(model))


def test_a_template_of_another_encoding_or_depth_is_refused(tmp_path: Path):
    folder = write_folder(tmp_path)
    for data in (b"\xff\xfe", b"{{ " + b"(" * 3000 + b"1" + b")" * 3000 + b" }}"):
        (folder / "chat_template.jinja").write_bytes(data)
        with pytest.raises(og.GenAIError):
            og.Tokenizer(og.Config(folder)).apply_chat_template('[{"role": "user"}]')


@pytest.mark.parametrize("case", RECORDED["batches"], ids=lambda case: str(case["tokens"][0]))
def test_padding_is_at_the_end_of_a_prompt(case: dict[str, Any], model: og.Model):
    """A pad_token_id in front of other tokens, or among them, is a token."""
    made = generator(model, case["tokens"], batch_size=2)
    finish(made, 6)
    assert sequences(made, 2) == case["sequences"]


def test_outputs_and_inputs_are_those_of_the_last_run(model: og.Model):
    made = generator(model, max_length=24, past_present_share_buffer=True)
    for state in RECORDED["states"]:
        call, *arguments = state["after"]
        getattr(made, call)(*arguments)
        logits = made.get_output("logits")
        assert logits.argmax(-1).tolist() == state["logits"]
        np.testing.assert_allclose(logits.max(-1), state["largest"], atol=2e-3)
        for name in ("input_ids", "attention_mask"):
            assert made.get_input(name).tolist() == state[name]
        assert list(made.get_output("present.0.key").shape) == state["keys"]


def test_other_outputs_are_those_of_each_token_that_was_read(tmp_path: Path):
    """The model builder's option include_hidden_states: what the head reads."""
    path = write_folder(tmp_path) / "model.onnx"
    network = onnx.load(path)
    read, weights = network.graph.node[-1].input[0], network.graph.initializer
    shape = ["batch_size", "sequence_length", 32]
    value = onnx.helper.make_tensor_value_info(read, onnx.TensorProto.FLOAT, shape)
    network.graph.output.append(value)
    onnx.save(network, path)
    made = generator(og.Model(tmp_path), PROMPT)
    head = onnx.numpy_helper.to_array(next(w for w in weights if w.name == "head"))
    for count in (len(PROMPT), 1):
        found = made.get_output(read)
        assert found.shape == (1, count, 32)
        np.testing.assert_allclose(found @ head, made.get_output("logits"), atol=1e-4)
        made.generate_next_token()
        made.get_logits()
    with pytest.raises(og.GenAIError, match=f"be one of logits, {read}, present.0.key, "):
        made.get_output("hidden")


def test_outputs_of_a_batch_are_those_of_each_prompt(folder: Path, model: og.Model):
    prompts, reference = [[*PROMPT], [250, 4, 11]], Reference(folder)
    made = generator(model, [PROMPT, [250, 4, 11, 0, 0]], batch_size=2)
    for _ in range(3):
        found = made.get_output("logits")
        for row, tokens in enumerate(prompts):
            wanted = reference.logits(tokens)[-found.shape[1] :]
            np.testing.assert_allclose(found[row, : len(wanted)], wanted, atol=2e-4)
        made.generate_next_token()
        made.get_logits()
        for row, tokens in enumerate(prompts):
            tokens.append(int(made.get_next_tokens()[row]))
