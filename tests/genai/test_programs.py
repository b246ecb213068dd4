"""Programs of language models in processes of their own: their ends, and Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from language_folders import rewrite, write_folder

ROOT = str(Path(__file__).parents[2])
ENVIRONMENT = {**os.environ, "PYTHONPATH": ROOT, "JAX_PLATFORMS": "cpu"}

# As model-qa.py and model-chat.py of microsoft/onnxruntime-genai call it.
PROGRAM = """
import json, sys
import onnxruntime_genai as og
from common import search_options

config = og.Config(sys.argv[1])
config.clear_providers()
config.append_provider("dml")
config.set_provider_option("dml", "device_filter", "gpu")
config.overlay(json.dumps({"search": {"num_beams": 1}}))
model = og.Model(config)
tokenizer = og.Tokenizer(model)
stream = tokenizer.create_stream()
messages = [{"role": "system", "content": "You help."}]
while (text := input("Prompt: ")) != "quit()":
    messages.append({"role": "user", "content": text})
    params = og.GeneratorParams(model)
    params.set_search_options(**search_options)
    generator = og.Generator(model, params)
    prompt = tokenizer.apply_chat_template(
        messages=json.dumps(messages), tools="", add_generation_prompt=True, template_str=""
    )
    print(repr(prompt))
    generator.append_tokens(tokenizer.encode(prompt))
    while not generator.is_done():
        generator.generate_next_token()
        print(stream.decode(generator.get_next_tokens()[0]), end="", flush=True)
    print()
    print(model.type, generator.token_count())
    del generator
    messages.pop()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_folder(tmp_path_factory.mktemp("models") / "endless")
    rewrite(path / "genai_config.json", model={"eos_token_id": []})
    return path


def test_onnxruntime_programs_find_onnxruntime_genai(folder: Path, tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    options: dict[str, Any] = {"max_length": 90, "batch_size": 1, "num_return_sequences": 1}
    (tmp_path / "common.py").write_text(f"search_options = {options}\n")
    command = [sys.executable, "-m", "dml_jax.onnxruntime", "program.py", str(folder)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        input="hello\nquit()\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    warned = done.stderr.splitlines()  # and the line of the program
    assert (done.returncode, len(warned)) == (0, 2) and "append_provider('dml')" in warned[0]
    assert "'<system> You help.\\n<user> hello\\n<assistant> '" in done.stdout
    assert "llama 90\n" in done.stdout


def stream(folder: Path) -> "subprocess.Popen[Any]":
    """Start a command that says words; return it after the first ones."""
    command = [sys.executable, "-m", "dml_jax", "generate", str(folder), "-p", "the quick"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process: subprocess.Popen[Any] = subprocess.Popen(
        [*command, "--max_length", "480"], env=ENVIRONMENT, **pipes
    )
    assert process.stdout is not None and process.stdout.read(1)
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_an_interrupt_ends_the_stream_with_its_line(folder: Path):
    process = stream(folder)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, b"Interrupted.\n")
    assert out.endswith(b"\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a pipe that is closed has a signal there")
def test_a_closed_pipe_ends_the_stream(folder: Path):
    process = stream(folder)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) != 0
    assert err == b""
