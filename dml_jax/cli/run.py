"""`dml-jax run`: runs DxDispatch's JSON models, and ONNX networks."""

import contextlib
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from dml_jax.cli.model_files import is_network, load_file
from dml_jax.cli.network_options import input_options, network_options
from dml_jax.cli.tables import show_largest, show_model, show_network, show_outputs
from dml_jax.cli.terminal import (
    INPUT,
    Command,
    Finite,
    device_names,
    devices,
    find_device,
    json_option,
    level_option,
    name_of,
    progress,
    reporting,
    say_json,
    working,
)
from dml_jax.dxdispatch.repetition import ONCE, Timing
from dml_jax.enums import PRECISIONS
from dml_jax.errors import printable
from dml_jax.system.files import cache_folder

if TYPE_CHECKING:
    from dml_jax.dxdispatch.model import Model
    from dml_jax.onnx import Network

UINT_MAX = 2**32 - 1  # of DxDispatch's counts
PRINT_MOST = 1000
"""The number of elements of a printed resource that a terminal gets."""

# Options of DxDispatch that concern Direct3D and PIX alone. Scripts that give them need no change.
_FLAGS_OF_DIRECT3D = (
    *(("-d", "--debug"), ("--disable_custom_heaps",), ("--clear_shader_caches",)),
    *(("--disable_gpu_timeout",), ("--enable_dred",), ("--disable_background_processing",)),
    *(("--set_stable_power_state",), ("--disable_agility_sdk",), ("--print_hlsl_disassembly",)),
    *(("--xbox_allow_precompile",), ("--present_separator",)),
)
_VALUES_OF_DIRECT3D = (
    *(("-q", "--queue_type"), ("--post_dispatch_barriers",), ("--max_gpu_time_measurements",)),
    *(("-c", "--pix_capture_type"), ("-o", "--pix_capture_name")),
)
# Options of DxDispatch for ONNX Runtime.
_WITHOUT_COUNTERPART = ("--enable_onnx_profiling", "-e", "-l", "-L", "-p", "-x")


def _of_direct3d(function: Any) -> Any:
    """Add the options that concern Direct3D alone; each given one is named on standard error."""
    for names, is_flag in (
        *((names, True) for names in reversed(_FLAGS_OF_DIRECT3D)),
        *((names, False) for names in reversed(_VALUES_OF_DIRECT3D)),
    ):
        function = click.option(
            *names, is_flag=is_flag, expose_value=False, hidden=True, callback=_without_effect
        )(function)
    return function


def _without_effect(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if not value:
        return
    given = ctx.meta.setdefault("dml_jax.direct3d", [])
    given.append(parameter.opts[-1])
    if len(given) == 1:  # all options are known when the command ends
        ctx.call_on_close(
            lambda: click.echo(f"Without effect here: {', '.join(sorted(given))}", err=True)
        )


_ADAPTERS = "-s lists the devices, -a NAME chooses one"
_BATCH = "-f NAME:SIZE sets a free dimension"
_ELSEWHERE = {  # options of other programs
    **dict.fromkeys(("--gpu", "--cuda"), "-a cuda"),
    "--cpu": "-a cpu",
    "--device": _ADAPTERS,
    **dict.fromkeys(("--batch", "--batch_size", "--batch-size"), _BATCH),
}


class _Command(Command):
    elsewhere = Command.cures(_ELSEWHERE) | {
        name: f"DxDispatch's {name} has no counterpart" for name in _WITHOUT_COUNTERPART
    }


def _timing(names: str, kind: click.ParamType, text: str) -> Any:
    """Return the option of a field of `Timing`: its names, its type, and the text of its help."""
    *_, field = words = names.split()
    default = getattr(ONCE, field)
    shown = default is not None
    return click.option(*words, type=kind, default=default, show_default=shown, help=text)


def _folder(name: str, text: str, exists: bool = False) -> Any:
    kind = click.Path(exists=exists, file_okay=False, path_type=Path)
    return click.option(name, type=kind, metavar="FOLDER", help=text)


@click.command(cls=_Command)
@click.argument("model", type=INPUT, required=False)
@click.option("-m", "--model", "named", type=INPUT, help="The same as MODEL.")
@_folder(
    "--input_path",
    "Folder of the model's files, and of the model itself if it is not found here "
    "(default: the model's folder).",
    exists=True,
)
@_folder(
    "--output_path", "Folder to write files to, and to no other (default: the current folder)."
)
@click.option("--check", is_flag=True, help="Check only, as `dml-jax check` does.")
@click.option("--hlo", is_flag=True, help="Print the optimised program of each dispatchable.")
@level_option("--dml_feature_level")
@network_options
@input_options
@click.option(
    "--no-cache",
    is_flag=True,
    help="Neither read nor keep compiled programs of an ONNX network (in DML_JAX_CACHE, or dml-jax "
    "in the folder of caches).",
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="How products and convolutions of FLOAT32 are computed (default: float32).",
)
@click.option("--print_commands", is_flag=True, help="Print each command before it is run.")
@click.option(
    *("-a", "--adapter"),
    default="",
    shell_complete=device_names,
    help="Device to use: a part of its name.",
)
@click.option("-s", "--show_adapters", is_flag=True, help="Show the devices, and stop.")
@click.option("-S", "--show_dependencies", is_flag=True, help="Show versions, and stop.")
@_timing(
    "-i --dispatch_iterations iterations",
    click.IntRange(1),
    "Least number of timed iterations of each dispatch.",
)
@_timing(
    "-r --dispatch_repeat repeat", click.IntRange(1), "Number of dispatches in each iteration."
)
@_timing(
    "-t --milliseconds_to_run milliseconds_to_run",
    Finite(0),
    "Run each dispatch for at least this many milliseconds.",
)
@_timing(
    "-I --dispatch_interval interval",
    Finite(0, UINT_MAX),
    "Least milliseconds from one iteration to the next.",
)
@_timing(
    "-w --warmup_samples warmup_samples",
    click.IntRange(0),
    "Number of first iterations that the hot statistics leave out.",
)
@_timing(
    "-v --timing_verbosity verbosity",
    click.IntRange(0),
    "0: hot median; 1: compile, cold and hot times; 2: every iteration too.",
)
@json_option
@_of_direct3d
def run(**options: Any) -> None:
    """Run MODEL, a DxDispatch JSON model or an ONNX network.

    A network gets random inputs, or those of --input. With --output_path its outputs are written
    there, as .npy.

    \b
    dml-jax run model.json
    dml-jax run model.json -i 100 -v 1    run each dispatch 100 times, with statistics
    dml-jax run model.json -a cuda -t 500 use the first CUDA device, half a second a dispatch
    dml-jax run model.json --hlo          print the optimised programs instead of running them
    dml-jax run model.json --input A=a.npy    with other values of the resource A
    cat model.json | dml-jax run -        read standard input; files are in the current folder
    dml-jax run network.onnx -f batch:8   run a network, with a batch of 8
    dml-jax run network.onnx --input x=x.npy --output_path out
    dml-jax run network.onnx --input x=dog.jpg --labels labels.txt
    dml-jax run voice.onnx --bounds frames=4000    sizes that data decides, up to 4000
    dml-jax run model.json --json         print values and timings for machines
    """  # noqa: D301
    asked = SimpleNamespace(**options)  # by the names of the options
    if asked.show_adapters or asked.show_dependencies:
        with reporting(asked.as_json):
            _show_machine(asked.show_adapters, asked.show_dependencies, asked.as_json)
        return
    path = _path_of(asked)
    asked.timing = Timing(**{field.name: options[field.name] for field in fields(Timing)})
    if not (asked.no_cache or asked.hlo):  # a program that was read has less text
        asked.options = replace(asked.options, cache=cache_folder())
    with contextlib.ExitStack() as entered:
        entered.enter_context(reporting(asked.as_json))
        import jax

        from dml_jax.lowering.precision import chosen, has_tensorfloat32

        # The precision is part of what is traced, so it is chosen before anything is loaded.
        entered.enter_context(chosen(asked.precision))
        device = None if asked.check else find_device(asked.adapter, "--adapter")
        if asked.precision == "tensorfloat32" and device and not has_tensorfloat32(device):
            click.echo(f"'{name_of(device)}' has no tensorfloat32: float32", err=True)
        start = time.perf_counter()
        # Weights lie on the default device: they go to the chosen one at once.
        with working(f"Loading {path.name}"), jax.default_device(device):
            loaded = load_file(path, asked.options, asked.feature_level, asked.input_path)
        asked.load_ms = 1e3 * (time.perf_counter() - start)
        if device is None:
            (show_network if is_network(path) else show_model)(loaded, asked.as_json)
            return
        if not asked.as_json and not asked.hlo:
            click.echo(f"Running on '{name_of(device)}'")
        if is_network(path):
            report = _run_network(loaded, path.name, device, asked)
        else:
            report = _run_model(loaded, device, asked)
        if asked.as_json:
            say_json({"device": name_of(device), **report})


def _path_of(asked: Any) -> Path:
    """Return the path of the model. Raises a usage error where options do not fit together."""
    path: Path = asked.model or asked.named
    if path is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    if (asked.model and asked.named) or (asked.check and asked.hlo):
        which = "MODEL and --model" if asked.model and asked.named else "--check and --hlo"
        raise click.UsageError(f"{which} exclude each other.")
    if asked.input_path and not path.exists() and (asked.input_path / path).exists():
        path = asked.input_path / path
    of_pictures = asked.mean or asked.std
    if (asked.labels or of_pictures or asked.options.bounds) and not is_network(path):
        raise click.UsageError("--bounds, --labels, --mean and --std are for ONNX networks.")
    if of_pictures and not (
        asked.check or asked.hlo or any(map(_is_picture, asked.inputs.values()))
    ):
        raise click.UsageError("--mean and --std are for pictures (--input NAME=FILE.png).")
    return path


def _is_picture(file: Path) -> bool:
    from dml_jax.dxdispatch.pictures import IMAGE_TYPES

    return file.suffix.lower() in IMAGE_TYPES


def _run_network(network: "Network", name: str, device: Any, asked: Any) -> dict[str, Any]:
    """Run a network, `name` in the report, as the options `asked` say.

    Returns what JSON reports of it. Nothing else is printed where JSON is asked for.
    """
    from dml_jax.dxdispatch.file_inputs import Pictures
    from dml_jax.dxdispatch.network_runs import compile_network, largest_of, run_network

    if asked.hlo:
        text = compile_network(network, name, device).as_text()
        return _programs([(f"Network '{printable(name)}'", name, text)], asked.as_json)
    pictures, labels = Pictures(asked.mean, asked.std), None
    if asked.labels is not None:
        labels = asked.labels.read_text("utf-8", "replace").splitlines()
    say = _silent if asked.as_json else click.echo
    run = run_network(
        network,
        name,
        device,
        asked.timing,
        files=asked.inputs,
        pictures=pictures,
        folder=asked.output_path,
        say=say,
        track=progress(asked.timing.milliseconds_to_run),
        busy=working,
    )
    if not asked.as_json:
        show_outputs(run.outputs)
    has_largest = labels is not None or bool(pictures.said)
    largest = largest_of(run.outputs, labels) if has_largest else {}
    facts = network.programs and network.programs.facts()
    if asked.as_json:
        beside = {"pictures": pictures.said, "largest": largest} if has_largest else {}
        return {"load_ms": asked.load_ms, **run.to_json(), **beside, "cache": facts}
    show_largest(largest)
    for output, path in run.files.items():
        click.echo(printable(f"Output '{output}' written to '{path}'"))
    if not run.files:
        click.echo("(values: --output_path FOLDER)")
    if facts:
        click.echo(printable(f"Compiled {facts['said']} (--no-cache)"))
    click.echo(
        f"Load {asked.load_ms:.0f} ms, compile {run.compile_ms:.0f} ms, "
        f"run {run.run_ms:.3f} ms (median of {len(run.samples_ms)})"
    )
    return {}


def _silent(line: str) -> None:
    """Print nothing: JSON stands alone on standard output."""


def _run_model(model: "Model", device: Any, asked: Any) -> dict[str, Any]:
    """Run a model as the options `asked` say; return what JSON reports of it."""
    from dml_jax.dxdispatch.executor import Executor
    from dml_jax.dxdispatch.run_model import initial_of_files

    report: dict[str, Any] = {}

    def record(kind: str, facts: dict[str, Any]) -> None:
        if asked.as_json:
            report.setdefault(kind, []).append(_plain(facts))

    executor = Executor(
        model,
        device,
        _silent if asked.as_json else click.echo,
        asked.timing,
        progress(asked.timing.milliseconds_to_run),
        record,
        asked.output_path or Path(),
        print_most=PRINT_MOST if sys.stdout.isatty() and not asked.as_json else None,
        print_commands=asked.print_commands,
        initial=initial_of_files(model, asked.inputs),
    )
    if asked.hlo:
        titled = ((f"Dispatchable '{printable(n)}'", n, text) for n, text in executor.hlo())
        return _programs(titled, asked.as_json)
    executor.run()
    return report


def _programs(programs: Iterable[tuple[str, str, str]], as_json: bool) -> dict[str, Any]:
    """Print the (title, name, HLO) of programs; return what JSON reports of them."""
    found = []
    for title, name, text in programs:
        found.append({"name": name, "hlo": text})
        if not as_json:
            click.echo(f"{title}:\n{text}")
    return {"programs": found}


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a result in JSON's types, with the type of values and the median."""
    if "values" in facts:
        values = facts["values"]
        return {**facts, "data_type": values.dtype.name.upper(), "values": values.tolist()}
    if "samples_ms" in facts:
        return {**facts, "median_ms": statistics.median_high(facts["samples_ms"])}
    return facts


def _show_machine(adapters: bool, dependencies: bool, as_json: bool) -> None:
    versions = _versions() if dependencies else {}
    listed = [_facts_of(device) for device in devices()] if adapters else []
    if as_json:
        say_json({"versions": versions, "devices": listed})
        return
    for package, version in versions.items():
        click.echo(f"{package}: {version or 'not installed'}")
    for facts in listed:
        click.echo(facts["name"])
        click.echo(f"-Platform: {facts['platform']} ({facts['version']})")
        if facts["memory_bytes"]:
            click.echo(f"-Memory: {facts['memory_bytes'] / 2**30:.2f} GiB")
        click.echo()


def _facts_of(device: Any) -> dict[str, Any]:
    return {
        "name": name_of(device),
        "platform": device.platform,
        "version": device.client.platform_version.split()[0],
        "memory_bytes": (device.memory_stats() or {}).get("bytes_limit"),
    }


def _versions() -> dict[str, str | None]:
    from importlib import metadata

    versions: dict[str, str | None] = {}
    for package in ("dml-jax", "jax", "jaxlib", "numpy", "click", "rich", "python-rapidjson"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions
