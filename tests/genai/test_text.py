"""Templates of conversations as transformers fills them in, and streams of text."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from build import command
from language_folders import write_folder, write_tokenizer
from tokenizers import Tokenizer, decoders, models

import dml_jax.genai as og


def folder_of(folder: Path, config: Any = None, files: Any = None) -> Path:
    """Write a folder that has a tokenizer and no network."""
    folder.mkdir(exist_ok=True)
    write_tokenizer(folder)
    (folder / "chat_template.jinja").unlink()
    model = {"type": "llama", "vocab_size": 400, "context_length": 64}
    model |= {"eos_token_id": 2, "decoder": {"filename": "model.onnx"}}
    (folder / "genai_config.json").write_text(json.dumps({"model": model}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config or {}))
    for name, text in (files or {}).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def applied(folder: Path, messages: Any = ({"role": "user", "content": "w"},), **options: Any):
    return og.Tokenizer(og.Config(folder)).apply_chat_template(json.dumps(messages), **options)


TOOL = {"type": "function", "function": {"name": "Größe", "a": 1}}
# What apply_chat_template of transformers 5.24 gives for messages and one tool.
TEMPLATES = {
    "{% generation %}{% set a = 2 %}A: {{ messages[0].content }}\n{% endgeneration %}"
    "|{{ a is defined }}": "A: w\n|False",
    "{%- for m in 'ab' -%}{%- generation -%}{{ m }} {% endgeneration %}{%- endfor -%}": "a b ",
    "{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}": "13",
    "{{ namespace(a=1).a }}{{ dict(b=2) }}{{ dict.fromkeys('a', 3) }}": "1{'b': 2}{'a': 3}",
    "  {% if true %}\n  x\n  {% endif %}\ny\n": "  x\ny",
    "{{ documents is none }} {{ tools is none }} {{ date_string is defined }}": "True False False",
    "{{ strftime_now(format='%Y') | length }}": "4",
    "{{ tools[0] | tojson(ensure_ascii=true) }}": json.dumps(TOOL),
    "{{ tools[0] | tojson(indent=2) }}": json.dumps(TOOL, indent=2, ensure_ascii=False),
    "{{ {'é': 1, 'a': '<'} | tojson(sort_keys=true, separators=(',', ':')) }}": '{"a":"<","é":1}',
    "{{ 'é' | tojson(true) }}": '"\\u00e9"',
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_is_filled_in_as_by_transformers(template: str, tmp_path: Path):
    folder = folder_of(tmp_path, {"chat_template": template})
    assert applied(folder, tools=json.dumps([TOOL])) == TEMPLATES[template]


@pytest.mark.parametrize("name", ["(_a=1)", "({'__class__': 1})", "() %}{% set ns._b = 1"])
def test_a_namespace_has_no_hidden_names(name: str, tmp_path: Path):
    folder = folder_of(tmp_path, {"chat_template": f"{{% set ns = namespace{name} %}}"})
    with pytest.raises(og.GenAIError, match="a namespace takes no name that begins with _"):
        applied(folder)


def test_messages_have_no_nulls_and_reasoning_by_each_name(tmp_path: Path):
    """The order and the names are those that transformers 5.24 gives."""
    folder = folder_of(tmp_path, {"chat_template": "{{ messages | tojson }}"})
    messages = [{"role": "user", "content": None, "thinking": "t"}, {"role": "a", "reasoning": ""}]
    assert json.loads(applied(folder, messages)) == [
        {"thinking": "t", "role": "user", "reasoning_content": "t"},
        {"thinking": "", "role": "a", "reasoning": "", "reasoning_content": ""},
    ]
    for wrong in ([], "text", {"role": "user"}, ["text"]):
        with pytest.raises(og.GenAIError, match="the messages to be a list of objects"):
            applied(folder, wrong)


@pytest.mark.parametrize("is_old", [False, True])
def test_special_tokens_of_a_template_are_those_that_the_folder_has(is_old: bool, tmp_path: Path):
    names = ("bos", "eos", "pad", "unk", "sep", "mask", "image", "add_bos")
    words = "".join(f"{{{{ {name}_token | default('-') }}}}" for name in names)
    tokens = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": None}
    tokens |= {"add_bos_token": True, "extra_special_tokens": {"image_token": "<i>"}}
    own = {} if is_old else {"added_tokens_decoder": {}, **tokens}
    files = {"special_tokens_map.json": json.dumps(tokens if is_old else {"bos_token": "<b>"})}
    folder = folder_of(tmp_path, {"chat_template": words, **own}, files)
    assert applied(folder) == "<s></s>----<i>-"


def test_tools_have_a_template_of_their_own(tmp_path: Path):
    named = {"default": "plain", "tool_use": "tools {{ tools | length }}", "rag": "rag"}
    listed = [{"name": name, "template": text} for name, text in named.items()]
    files = {
        "chat_template.jinja": "plain",
        "chat_templates/tool_use.jinja": "tools {{ tools | length }}",
        "chat_templates/rag.jinja": "rag",
    }
    for number, (config, more) in enumerate([(listed, None), ("other", files)]):
        folder = folder_of(tmp_path / f"{number}", {"chat_template": config}, more)
        assert applied(folder) == applied(folder, tools="null") == "plain"
        assert applied(folder, tools=json.dumps([TOOL])) == "tools 1"
        assert applied(folder, tools="[]") == "tools 0"
        assert applied(folder, template_str="rag") == "rag"
    folder = folder_of(tmp_path / "2", {"chat_template": listed[1:]})
    with pytest.raises(og.GenAIError, match="the folder has tool_use and rag, got None"):
        applied(folder)


DECODERS: dict[str, tuple[list[str], Any]] = {
    "words": (["a", "b c", "d"], None),
    "Metaspace": (["▁a", "b", "▁", "▁▁"], decoders.Metaspace()),
    "Llama 2": (
        ["▁a", "b", "▁", "▁▁"],
        decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", left=1)]
        ),
    ),
    "bytes": (["Ġa", "b", "Ġ", "Ã", "©", "ï¿½", "âĤ"], decoders.ByteLevel()),
    "WordPiece": (["a", "##b", ".", "n't", "'"], decoders.WordPiece()),
    "BPE": (["a</w>", "b", "c</w>"], decoders.BPEDecoder()),
}


@pytest.mark.parametrize("kind", DECODERS)
def test_pieces_of_a_stream_are_the_text_of_all_tokens(kind: str, tmp_path: Path):
    """Special tokens stand among the others; a character that has no end is left out."""
    words, decoder = DECODERS[kind]
    made = Tokenizer(models.WordLevel({word: k for k, word in enumerate(["?", *words])}, "?"))
    made.decoder = decoder
    made.add_special_tokens(["<s>", "<tool>"])
    folder_of(tmp_path)
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer, dice = og.Tokenizer(og.Config(tmp_path)), random.Random(0)
    for _ in range(200):
        tokens = dice.choices(range(made.get_vocab_size()), k=12)
        stream, text = tokenizer.create_stream(), made.decode(tokens)
        pieces = "".join(stream.decode(token) for token in tokens)
        assert pieces == (text.rstrip("\ufffd") if kind == "bytes" else text)


@pytest.mark.parametrize("words", [["-p", "caf\udce9"], ["-p", "-"], ["--chat"]])
def test_a_prompt_of_another_encoding_is_refused(words: list[str], tmp_path: Path):
    folder = write_folder(tmp_path)
    result = command("generate", folder, *words, status=1, input=b"caf\xe9\n")
    assert result.stderr.startswith("expected the text to be UTF-8")
    assert "Traceback" not in result.output + result.stderr
