"""`dml-jax run`: runs and checks DxDispatch's JSON models."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import jax

from dml_jax.cli.show import show_operators
from dml_jax.cli.terminal import Failure, devices, failing, find_device, level, name_of, progress
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault

if TYPE_CHECKING:
    from dml_jax.dispatch.model import Model


@click.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option("--check", is_flag=True, help="Check only: a table of the operators, nothing run.")
@click.option("--hlo", is_flag=True, help="Print the optimised program of each dispatchable.")
@click.option(
    "--feature-level",
    callback=level,
    metavar="LEVEL",
    help="Refuse operators that this level (2_1, ...) does not take.",
)
@click.option("-a", "--adapter", default="", help="Substring of the name of the device to use.")
@click.option("-s", "--show_adapters", is_flag=True, help="Show the devices, and stop.")
@click.option("-S", "--show_dependencies", is_flag=True, help="Show versions, and stop.")
@click.option(
    "-i",
    "--dispatch_iterations",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Timed iterations of each dispatch.",
)
@click.option(
    "-r",
    "--dispatch_repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Dispatches in each iteration.",
)
@click.option(
    "-t",
    "--milliseconds_to_run",
    type=click.FloatRange(0),
    help="Iterate for this long instead of a number of times.",
)
@click.option(
    "-I",
    "--dispatch_interval",
    type=click.FloatRange(0),
    default=0,
    show_default=True,
    help="Least milliseconds from one iteration to the next.",
)
@click.option(
    "-w",
    "--warmup_samples",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="First iterations that the hot statistics leave out.",
)
@click.option(
    "-v",
    "--timing_verbosity",
    type=click.IntRange(0, 2),
    default=0,
    show_default=True,
    help="0: hot median; 1: compile, cold and hot times; 2: every iteration too.",
)
def run(
    model: Path | None,
    check: bool,
    hlo: bool,
    feature_level: FeatureLevel | None,
    adapter: str,
    show_adapters: bool,
    show_dependencies: bool,
    dispatch_iterations: int,
    dispatch_repeat: int,
    milliseconds_to_run: float | None,
    dispatch_interval: float,
    warmup_samples: int,
    timing_verbosity: int,
) -> None:
    """Run MODEL, a DxDispatch JSON model.

    \b
    Exit status: 0 done, 1 the model or its run failed, 2 wrong usage, 130 interrupted.
    """  # noqa: D301
    if show_dependencies:
        _show_dependencies()
    if show_adapters:
        _show_adapters()
    if model is None:
        if show_dependencies or show_adapters:
            return
        raise click.UsageError("Missing argument 'MODEL'.")
    from dml_jax.dispatch.executor import Executor, Timing
    from dml_jax.dispatch.model import load_model

    try:
        parsed = load_model(model)
        if feature_level is not None:
            _check_level(parsed, feature_level)
        if check:
            show_operators(parsed)
            return
        device = find_device(adapter)
        if not hlo:
            click.echo(f"Running on '{name_of(device)}'")
        timing = Timing(
            dispatch_iterations,
            dispatch_repeat,
            milliseconds_to_run,
            dispatch_interval,
            warmup_samples,
            timing_verbosity,
        )
        executor = Executor(parsed, device, click.echo, timing, progress(milliseconds_to_run))
        if hlo:
            for name, text in executor.hlo():
                click.echo(f"Dispatchable '{name}':\n{text}")
        else:
            executor.run()
    except DmlError as error:
        raise failing(error) from None
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise Failure(f"The device failed: {lines[0]}") from None


def _check_level(model: "Model", level: FeatureLevel) -> None:
    faults: list[Fault] = []
    for dispatchable in model.dispatchables.values():
        found = dispatchable.operator.refused_at(level)
        if found:
            faults += DmlError(found).within(dispatchable.context).faults
    if faults:
        raise DmlError(faults)


def _show_adapters() -> None:
    for device in devices():
        click.echo(name_of(device))
        click.echo(f"-Platform: {device.platform} ({device.client.platform_version.split()[0]})")
        limit = (device.memory_stats() or {}).get("bytes_limit")
        if limit:
            click.echo(f"-Memory: {limit / 2**30:.2f} GiB")
        click.echo()


def _show_dependencies() -> None:
    from importlib import metadata

    for package in ("dml-jax", "jax", "jaxlib", "numpy", "click", "rich", "python-rapidjson"):
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            version = "not installed"
        click.echo(f"{package}: {version}")
