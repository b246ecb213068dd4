"""`dml-jax run`: runs DxDispatch's JSON models, and ONNX networks."""

import contextlib
import time
from dataclasses import fields, replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from dml_jax.cli.model_files import (
    is_network,
    load_file,
    network_options,
    pairs_option,
    with_sizes_of,
)
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
    reporting,
    say_json,
    working,
)
from dml_jax.dxdispatch.repetition import ONCE, Timing
from dml_jax.enums import PRECISIONS
from dml_jax.system.files import cache_folder

UINT_MAX = 2**32 - 1  # of DxDispatch's counts
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
    how: Any = {"expose_value": False, "hidden": True, "callback": _without_effect}
    for names in (*_FLAGS_OF_DIRECT3D, *_VALUES_OF_DIRECT3D):
        function = click.option(*names, is_flag=names in _FLAGS_OF_DIRECT3D, **how)(function)
    return function


def _without_effect(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if not value:
        return
    given = ctx.meta.setdefault("dml_jax.direct3d", [])
    is_capture = parameter.name == "pix_capture_name"  # many expect an output of -o
    given.append("-o (--output_path FOLDER keeps outputs)" if is_capture else parameter.opts[-1])
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


def _channels_option(name: str, text: str) -> Any:
    def numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else tuple(map(float, value.split(",")))
        except ValueError:
            raise click.BadParameter(f"{value!r} is not NUMBERS, as 0.485,0.456,0.406.") from None

    return click.option(name, callback=numbers, metavar="NUMBERS", help=text)


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
@pairs_option(
    "--input inputs",
    "NAME=FILE",
    Path,
    "File of an input of a network (others are random), or of a model's resource: .npy, a picture, "
    "or raw bytes. Repeatable.",
)
@_channels_option("--mean", "What is subtracted from pictures in [0, 1], as 0.485,0.456,0.406.")
@_channels_option(
    "--std",
    "What pictures in [0, 1] are divided by after --mean: one number, or one for each channel.",
)
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A label for each number of an output, one a line: the five largest are listed.",
)
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
        device = None if asked.check else find_device(asked.adapter)
        if asked.precision == "tensorfloat32" and device and not has_tensorfloat32(device):
            click.echo(f"'{name_of(device)}' has no tensorfloat32: float32", err=True)
        start = time.perf_counter()
        # Weights lie on the default device: they go to the chosen one at once.
        with working(f"Loading {path.name}"), jax.default_device(device):
            if is_network(path):
                asked.options = with_sizes_of(asked.options, path, asked.inputs)
            loaded = load_file(path, asked.options, asked.feature_level, asked.input_path)
        asked.load_ms = 1e3 * (time.perf_counter() - start)
        if device is None:
            from dml_jax.cli.tables import show_model, show_network

            (show_network if is_network(path) else show_model)(loaded, asked.as_json)
            return
        if not asked.as_json and not asked.hlo:
            click.echo(f"Running on '{name_of(device)}'")
        # JSON stands alone on standard output.
        asked.say = (lambda line: None) if asked.as_json else click.echo
        from dml_jax.cli.model_runs import run_model, run_network

        if is_network(path):
            report = run_network(loaded, path.name, device, asked)
        else:
            report = run_model(loaded, device, asked)
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
    if of_pictures and not (asked.check or asked.hlo):
        from dml_jax.dxdispatch.pictures import IMAGE_TYPES

        if not any(file.suffix.lower() in IMAGE_TYPES for file in asked.inputs.values()):
            raise click.UsageError("--mean and --std are for pictures (--input NAME=FILE.png).")
    return path


def _show_machine(adapters: bool, dependencies: bool, as_json: bool) -> None:
    versions = _versions() if dependencies else {}
    listed = [
        {
            "name": name_of(device),
            "platform": device.platform,
            "version": device.client.platform_version.split()[0],
            "memory_bytes": (device.memory_stats() or {}).get("bytes_limit"),
        }
        for device in (devices() if adapters else ())
    ]
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


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in ("dml-jax", "jax", "jaxlib", "numpy", "click", "rich", "python-rapidjson"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions
