"""`dml-jax generate`: text from language models."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dml_jax.cli.terminal import Command, json_option, reporting, say_json
from dml_jax.system.files import read_npy, readable

_FOLDER = click.Path(readable=False, path_type=Path)


@click.command(cls=Command)
@click.argument("folder", type=_FOLDER)
@click.option("-p", "--prompt", help="The text that the model goes on with; - reads it from stdin.")
@click.option("--chat", is_flag=True, help="Talk with the model, by the folder's template.")
@click.option("--max_length", type=int, help="Tokens at most, the prompt included.")
@click.option("--min_length", type=int, help="Tokens at least, the prompt included.")
@click.option(
    "--do_sample/--no-do_sample", default=None, help="Draw each token, as each of these options:"
)
@click.option("--temperature", type=float, help="Divides the logits; less than 1 is less random.")
@click.option("--top_k", type=int, help="Draw from so many tokens.")
@click.option("--top_p", type=float, help="Draw from tokens that have this probability together.")
@click.option("--seed", type=int, help="Draw the same tokens each time.")
@click.option("--num_beams", type=int, help="Search with so many sequences for the likeliest.")
@click.option("--length_penalty", type=float, help="Of beams: more than 0 prefers long ones.")
@click.option("--repetition_penalty", type=float, help="More than 1 repeats less.")
@click.option("--features", type=_FOLDER, help="A .npy of log-mel values, for a model of sound.")
@click.option("--keep-int4", is_flag=True, help="Unpack int4 weights at each step: less memory.")
@click.option("--adapter", type=_FOLDER, help="A folder of PEFT's: adapter_model.safetensors.")
@click.option("--devices", type=click.IntRange(1), default=1, help="Divide it among devices.")
@click.option(
    "--no-cache",
    is_flag=True,
    help="Neither read nor keep compiled programs (in DML_JAX_CACHE, or dml-jax in the folder of "
    "caches).",
)
@click.option("--stats", is_flag=True, help="Say how fast it was, on stderr.")
@json_option
def generate(
    folder: Path,
    prompt: str | None,
    chat: bool,
    seed: int | None,
    features: Path | None,
    keep_int4: bool,
    adapter: Path | None,
    devices: int,
    no_cache: bool,
    stats: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Generate text with the language model in FOLDER.

    FOLDER is what ONNX Runtime GenAI's builder wrote, or optimum: config.json beside ONNX networks.
    Words come as they are made. Options that are left out are those of FOLDER/genai_config.json.
    With --chat, each line of stdin is a message, and the end of stdin ends the conversation.

    \b
    dml-jax generate FOLDER --prompt "Once upon a time" --max_length 100
    dml-jax generate FOLDER --prompt "Once" --do_sample --temperature 0.7 --seed 1
    dml-jax generate FOLDER --chat --stats
    dml-jax generate FOLDER --prompt "Once" --adapter ADAPTER --devices 2
    """  # noqa: D301
    if prompt is None and not chat and features is None:
        raise click.UsageError("Give a text with --prompt, or talk with --chat.")
    if folder.is_file():
        raise click.UsageError(f"'{folder}' is a file: dml-jax run {folder}")
    given = {n: v for n, v in {**options, "random_seed": seed}.items() if v is not None}
    if given.keys() & {"temperature", "top_k", "top_p", "random_seed"}:
        given.setdefault("do_sample", True)
    elif given.get("num_beams", 1) > 1:
        given.setdefault("do_sample", False)
    if isinstance(sys.stdin, io.TextIOWrapper):  # its bytes that are not UTF-8 are as an argument's
        sys.stdin.reconfigure(errors="surrogateescape")
    with reporting(as_json):
        from dml_jax.genai.chat import Talk
        from dml_jax.genai.lora import Adapter
        from dml_jax.genai.model import Model

        model = Model(folder, keeps_int4=keep_int4, devices=devices, cache=not no_cache)
        if adapter is not None:
            model = model.adapted(Adapter.load(adapter, model.folder))
        if model.decoder.note:
            click.echo(model.decoder.note, err=True)
        talk: Any = Talk(model, given)
        if features is not None:
            rule = "be an array of NumPy's, .npy, that can be read"
            with readable(f"the file '{features}'", rule):
                array = read_npy(features)
            _say(talk, talk.heard(array), stats, as_json)
        if prompt == "-":
            prompt = sys.stdin.read()
        if prompt is not None:
            _say(talk, talk.said(prompt, chat), stats, as_json)
        for line in _lines(as_json) if chat else ():
            _say(talk, talk.said(line, True), stats, as_json)


def _lines(as_json: bool) -> Iterator[str]:
    """Yield the messages, up to the end of stdin; lines without words are left out."""
    is_asked = sys.stdin.isatty() and not as_json
    while True:
        if is_asked:
            click.echo("> ", nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        if line.strip():
            yield line.rstrip("\n")


def _say(talk: Any, answer: Iterator[str], stats: bool, as_json: bool) -> None:
    pieces = []
    is_open = False
    try:
        for piece in answer:
            pieces.append(piece)
            if not as_json:
                is_open = True
                click.echo(piece, nl=False)
    finally:
        if is_open:
            click.echo()
    if talk.answer.left_out:
        left_out = f"{talk.answer.left_out} messages are left out: the conversation is full"
        click.echo(f"{left_out} (max_length)", err=True)
    if as_json:
        say_json({"text": "".join(pieces), **(talk.answer.values() if stats else {})})
    elif stats:
        values = talk.answer.values()
        first = values["first_token_s"]
        click.echo(
            f"{values['prompt_tokens']} tokens of the prompt, {values['tokens']} new ones; the "
            f"first after {first} s, then {values['tokens_a_second']} a second, at "
            f"{values['share_of_bandwidth']} of the memory's bandwidth",
            err=True,
        )
