"""Folders of optimum's form: `dml_jax.genai` gives the tokens of ONNX Runtime's loop."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from build import command, session
from exported_folders import (
    CHANNELS,
    HEADS,
    LAYERS,
    SIZE,
    SOURCE,
    write_config,
    write_decoder,
    write_encoder,
)
from language_folders import PROMPT, finish, generated, generator, sequences

import dml_jax.genai as og
from dml_jax import DmlError


def greedy(
    path: Path, prompt: list[int], count: int, change: Callable[..., Any] | None = None
) -> list[int]:
    """Return the tokens of ONNX Runtime, whose keys and values grow; `change` changes logits."""
    run, tokens, new = session(path), list(prompt), list(prompt)
    names = [f"{k}.{part}" for k in range(LAYERS) for part in ("key", "value")]
    past = {f"past_key_values.{n}": np.zeros((1, HEADS, 0, SIZE), np.float32) for n in names}
    for _ in range(count):
        given = {
            "input_ids": np.array([new]),
            "attention_mask": np.ones((1, len(tokens)), np.int64),
            "position_ids": np.arange(len(tokens) - len(new), len(tokens))[None],
        }
        there = {value.name for value in run.get_inputs()}
        feeds = {n: x for n, x in given.items() if n in there}
        logits, *after = run.run(["logits", *(f"present.{n}" for n in names)], feeds | past)
        past = dict(zip(past, after, strict=True))
        if change is not None:
            change(tokens, logits[0, -1])
        new = [int(logits[0, -1].argmax())]
        tokens += new
    return tokens


FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "places are given": ({}, "fixed size"),
    "places are summed of the mask": ({"positions": "mask"}, "fixed size"),
    "places are counted by the size": ({"positions": "size"}, "powers of two"),
    "no mask": ({"mask": False, "positions": "size"}, "powers of two"),
}


@pytest.mark.parametrize("form", FORMS)
def test_tokens_are_those_of_onnx_runtime(form: str, tmp_path: Path):
    options, said = FORMS[form]
    write_decoder(tmp_path / "model.onnx", **options)
    model = og.Model(write_config(tmp_path, eos_token_id=[]))
    assert said in model.decoder.note and "\n" not in model.decoder.note
    made = generator(model, PROMPT)
    wanted = greedy(tmp_path / "model.onnx", PROMPT, 35)
    assert finish(made) == wanted
    if said != "fixed size":
        with pytest.raises(og.GenAIError, match="the output to be one of logits, got"):
            made.get_output("present.1.key")
    made.rewind_to(12)
    made.append_tokens([7, 8])
    assert finish(made, 1) == greedy(tmp_path / "model.onnx", [*wanted[:12], 7, 8], 1)


def test_a_text_that_has_ended_goes_on_without_its_end(tmp_path: Path):
    write_decoder(tmp_path / "model.onnx")
    wanted = greedy(tmp_path / "model.onnx", PROMPT, 35)
    end = next(k for k in range(len(PROMPT) + 2, 40) if wanted[k] not in wanted[:k])
    model = og.Model(write_config(tmp_path, eos_token_id=wanted[end]))
    made = generator(model, PROMPT)
    assert finish(made) == wanted[:end]
    made.append_tokens([7, 8])
    assert finish(made, 1) == greedy(tmp_path / "model.onnx", [*wanted[:end], 7, 8], 1)


def penalized(tokens: list[int], logits: np.ndarray) -> None:
    seen = sorted(set(tokens))
    logits[seen] = np.where(logits[seen] > 0, logits[seen] / 1.8, logits[seen] * 1.8)


def never(*words: list[int]) -> Callable[..., None]:
    """Return what forbids words, by the tokens before their last ones."""

    def change(tokens: list[int], logits: np.ndarray) -> None:
        for *start, last in words:
            if tokens[len(tokens) - len(start) :] == start:
                logits[last] = -np.inf

    return change


def no_pair_twice(tokens: list[int], logits: np.ndarray) -> None:
    never(*map(list, itertools.pairwise(tokens)))(tokens, logits)


def test_generation_config_says_how_an_export_generates(tmp_path: Path):
    """As transformers: without the file, config.json says so."""
    path = tmp_path / "model.onnx"
    write_decoder(path)
    write_config(tmp_path, eos_token_id=[], repetition_penalty=1.8)
    plain = greedy(path, PROMPT, 15)
    a, b, c, d = plain[6:10]

    def not_first(tokens: list[int], logits: np.ndarray) -> None:
        never([plain[5]] if len(tokens) == len(PROMPT) else [0])(tokens, logits)

    neutral = {"encoder_repetition_penalty": 1.0, "min_p": 0.1, "max_new_tokens": 4, "num_beams": 1}
    cases: list[tuple[dict[str, Any] | None, Any]] = [
        (None, penalized),
        (neutral, None),
        ({"repetition_penalty": 1.8}, penalized),
        ({"suppress_tokens": [a, c]}, never([a], [c])),
        ({"begin_suppress_tokens": [plain[5]]}, not_first),
        ({"bad_words_ids": [[b], [c, d]]}, never([b], [c, d])),
        ({"no_repeat_ngram_size": 2}, no_pair_twice),
    ]
    for told, change in cases:
        if told is not None:
            write_told(tmp_path, {"max_length": 20, **told})
        made = generated(og.Model(tmp_path), max_length=20)
        assert made == greedy(path, PROMPT, 15, change)
    assert og.GeneratorParams(og.Model(tmp_path)).get_search_options()["max_length"] == 20


def test_prompts_of_a_batch_are_those_alone(tmp_path: Path):
    write_decoder(tmp_path / "onnx" / "model.onnx")
    model = og.Model(write_config(tmp_path, eos_token_id=[]))
    made = generator(model, [PROMPT, [250, 4, 11, 0, 0]], max_length=12, batch_size=2)
    finish(made)
    for row, prompt in zip(sequences(made, 2), (PROMPT, [250, 4, 11]), strict=True):
        wanted = greedy(tmp_path / "onnx" / "model.onnx", prompt, 7)
        assert row[5:] == wanted[len(prompt) :]


SOUND = {"max_source_positions": SOURCE, "num_mel_bins": CHANNELS}


def write_sound(folder: Path, **values: Any) -> Path:
    """Write a decoder with an encoder of sound, and a config of some values."""
    decoder = folder / "decoder_model.onnx"
    write_decoder(decoder, positions="size", mask=False, past=False, source="plain")
    write_encoder(folder / "encoder_model.onnx", is_sound=True)
    return write_config(folder, **{**SOUND, **values})


def write_told(folder: Path, told: dict[str, Any]) -> Path:
    """Write generation_config.json; return the folder."""
    (folder / "generation_config.json").write_text(json.dumps(told))
    return folder


@pytest.mark.parametrize("is_sound", [False, True])
def test_encoders_are_read_once(is_sound: bool, tmp_path: Path):
    decoder = tmp_path / "decoder_model.onnx"
    source = "plain" if is_sound else "mask"
    write_decoder(decoder, positions="size", mask=False, past=False, source=source)
    write_encoder(tmp_path / "encoder_model.onnx", is_sound)
    values: dict[str, Any] = {"decoder_start_token_id": 3, "eos_token_id": []}
    values |= {"forced_bos_token_id": 30, "forced_eos_token_id": [41]}
    values |= SOUND if is_sound else {}
    folder = write_config(tmp_path, **values)
    model = og.Model(folder)
    features = np.random.default_rng(0).standard_normal((CHANNELS, 2 * SOURCE), np.float32)
    tokens = og.Tokenizer(model).encode("the quick fox")
    given: dict[str, Any] = {"input_features": features[None]}
    if not is_sound:
        ids = tokens[None].astype(np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    (states,) = session(tmp_path / "encoder_model.onnx").run(None, given)
    run, wanted = session(decoder), [3]
    feeds = {"encoder_hidden_states": states}
    if not is_sound:
        feeds["encoder_attention_mask"] = given["attention_mask"]
    forced = {1: 30, 19: 41}
    for _ in range(19):
        (logits,) = run.run(["logits"], {**feeds, "input_ids": np.array([wanted])})
        wanted.append(forced.get(len(wanted), int(logits[0, -1].argmax())))
    np.save(tmp_path / "x.npy", features)
    words = ("--features", tmp_path / "x.npy") if is_sound else ("-p", "the quick fox")
    result = command("generate", folder, *words, "--max_length", 20)
    assert result.stdout == og.Tokenizer(model).decode(wanted[1:]) + "\n"
    assert result.stderr.count("\n") == 1
    if not is_sound:
        assert generated(model, tokens, max_length=20) == wanted


ENGLISH, GERMAN, WRITE, TRANSLATE, NO_TIMES = 40, 41, 50, 51, 60
LANGUAGES = {"<|en|>": ENGLISH, "<|de|>": GERMAN}
TASKS = {"transcribe": WRITE, "translate": TRANSLATE}

# What generation_config.json says, and the tokens that transformers' Whisper starts with: None is
# the likeliest language.
WHISPER = {"forced_decoder_ids": [[1, None], [2, WRITE]], "lang_to_id": LANGUAGES}
WHISPER |= {"no_timestamps_token_id": NO_TIMES}
STARTS: list[tuple[dict[str, Any], list[int | None]]] = [
    ({"forced_decoder_ids": [[1, GERMAN], [2, TRANSLATE]]}, [3, GERMAN, TRANSLATE]),
    (WHISPER, [3, None, WRITE, NO_TIMES]),
    ({**WHISPER, "task_to_id": TASKS, "language": "de"}, [3, GERMAN, WRITE, NO_TIMES]),
    ({"lang_to_id": LANGUAGES, "task_to_id": TASKS, "task": "translate"}, [3, None, TRANSLATE]),
    ({"forced_decoder_ids": [[1, NO_TIMES]], "no_timestamps_token_id": NO_TIMES}, [3, NO_TIMES]),
]


@pytest.mark.parametrize("case", range(len(STARTS)))
def test_sound_starts_and_leaves_out_what_its_config_says(case: int, tmp_path: Path):
    told, starts = STARTS[case]
    folder = write_sound(tmp_path, decoder_start_token_id=3, eos_token_id=[])
    features = np.random.default_rng(0).standard_normal((1, CHANNELS, 2 * SOURCE), np.float32)
    (states,) = session(tmp_path / "encoder_model.onnx").run(None, {"input_features": features})
    run = session(tmp_path / "decoder_model.onnx")

    def logits(tokens: list[int]) -> np.ndarray:
        given = {"encoder_hidden_states": states, "input_ids": np.array([tokens])}
        return run.run(["logits"], given)[0][0, -1]

    spoken = max(LANGUAGES.values(), key=lambda i: logits([3])[i])
    starts = [spoken if token is None else token for token in starts]
    first, second = (int(token) for token in logits(starts).argsort()[::-1][:2])
    never = {"begin_suppress_tokens": [first], "suppress_tokens": [second]}
    wanted = list(starts)
    for _ in range(8):
        found = logits(wanted)
        found[[second] if len(wanted) > len(starts) else [first, second]] = -np.inf
        wanted.append(int(found.argmax()))
    model = og.Model(write_told(folder, {**told, **never}))
    for beams in (1, 2) if case == 1 else (1,):
        made = generator(model, max_length=len(wanted), num_beams=beams)
        made.set_inputs({"input_features": features})
        assert made.get_sequence(0).tolist() == starts
        sequence = finish(made)
        assert sequence == wanted if beams == 1 else second not in sequence[len(starts) :]


@pytest.mark.parametrize(
    "told, said",
    [
        ({"encoder_no_repeat_ngram_size": 3}, "encoder_no_repeat_ngram_size in generation_config"),
        ({"stop_strings": ["."]}, "stop_strings in generation_config.json"),
        ({"min_new_tokens": 4}, "min_new_tokens in generation_config.json"),
        ({"min_p": 0.1, "do_sample": True}, "min_p in generation_config.json"),
        ({"num_beams": "many"}, "the option 'num_beams' to be a whole number"),
        ({"bad_words_ids": [[9999]]}, "a token in generation_config.json to be in [0, 319]"),
        ({"suppress_tokens": [9999]}, "a token in generation_config.json to be in [0, 319]"),
        ({"suppress_tokens": 7}, "to hold tokens in the form of transformers"),
        ({"return_timestamps": True}, "return_timestamps in generation_config.json to be false"),
        ({"language": "en"}, "the language in generation_config.json to be a name in lang_to_id"),
        ({"task": "sing", "task_to_id": TASKS}, "to be a name in task_to_id"),
        ({"forced_decoder_ids": [1]}, "to hold tokens in the form of transformers"),
    ],
)
def test_what_generation_config_cannot_say(told: dict[str, Any], said: str, tmp_path: Path):
    folder = write_told(write_sound(tmp_path), told)
    with pytest.raises(og.GenAIError) as caught:
        og.GeneratorParams(og.Model(folder))
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("max_position_embeddings", "many"),
        ("max_position_embeddings", 10**400),
        ("vocab_size", -1),
        ("num_hidden_layers", [2]),
        ("max_source_positions", {"a": 1}),
        ("num_mel_bins", 2.5),
        ("decoder_start_token_id", "first"),
        ("bos_token_id", True),
    ],
)
def test_members_of_config_json_are_numbers(member: str, value: Any, tmp_path: Path):
    folder = write_sound(tmp_path, **{member: value})
    if member == "num_hidden_layers":  # which a decoder with an encoder does not need
        (folder / "encoder_model.onnx").unlink()
        (folder / "decoder_model.onnx").rename(folder / "model.onnx")
    with pytest.raises(DmlError, match=f"{member}.* to be in") as caught:
        _ = og.Config(folder).folder.start_token_ids
    assert "\n" not in str(caught.value)


def test_configs_lie_in_the_folder(tmp_path: Path):
    folder, outside = tmp_path / "model", tmp_path / "generation_config.json"
    write_decoder(folder / "model.onnx")
    write_config(folder)
    outside.write_text("{}")
    (folder / "generation_config.json").symlink_to(outside)
    with pytest.raises(og.GenAIError, match="in the model's folder"):
        og.Config(folder)
    (folder / "generation_config.json").unlink()
    (folder / "generation_config.json").mkdir()
    with pytest.raises(og.GenAIError, match="that can be read"):
        og.Config(folder)


def test_networks_that_are_no_decoders_are_refused(tmp_path: Path):
    write_decoder(tmp_path / "model.onnx")
    write_config(tmp_path)
    whole = onnx.load(tmp_path / "model.onnx")

    def said(change: Callable[[Any], Any]) -> str:
        model = onnx.ModelProto()
        model.CopyFrom(whole)
        change(model.graph)
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(DmlError) as caught:
            og.Model(tmp_path).decoder.network(1, 2, 64, 64, True)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    flag = onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1])
    assert "be a decoder's" in said(lambda graph: graph.input.append(flag))
    assert "be a decoder's" in said(lambda graph: graph.node.pop())  # what makes the logits
    past = next(k for k, value in enumerate(whole.graph.input) if "past" in value.name)
    assert "be a decoder's" in said(lambda graph: graph.input[past].type.tensor_type.shape.Clear())


def test_what_does_not_fit_is_said_in_a_line(tmp_path: Path):
    folder = write_config(tmp_path)

    def said(*words: Any) -> str:
        result = command("generate", folder, *words, status=1)
        assert not result.stdout
        *notes, line = result.stderr.splitlines()
        assert not notes or notes == [og.Model(folder).decoder.note]
        return line

    assert "to have one of the files model.onnx, " in said("-p", "a")
    write_decoder(tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", np.zeros((3, 4), np.float32))
    assert "be given to a model with an encoder" in said("--features", tmp_path / "x.npy")
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    assert "that can be read" in said("--features", tmp_path / "zip.npy")
    assert "that can be read" in said("--features", tmp_path / "none.npy")
    write_sound(tmp_path)
    line = said("--features", tmp_path / "x.npy")
    assert "expected the shape of the features to be [1, 4, 16]" in line
    assert "expected what the encoder reads to be features of sound" in said("-p", "a")
