"""The command line: runs and checks DxDispatch's JSON models."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import jax

from dml_jax import __version__
from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault, nearest

if TYPE_CHECKING:
    from dml_jax.dispatch.executor import Device
    from dml_jax.dispatch.model import Model
    from dml_jax.graph import Graph
    from dml_jax.operator import Bindable
    from dml_jax.tensor import TensorDesc


class _Failure(click.ClickException):
    """What went wrong, on stderr; the status is 1 (2 is for a wrong command line)."""

    def show(self, file: Any = None) -> None:
        click.echo(self.message, err=True)


def _failing(error: DmlError) -> _Failure:
    return _Failure(str(error))


class _Group(click.Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = nearest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dml-jax")
def cli() -> None:
    """DirectML's operators on XLA.

    \b
    dml-jax run model.json             run a DxDispatch model
    dml-jax run model.json --check     check it, without running
    dml-jax run model.json -i 100 -v 1 run each dispatch 100 times, with statistics
    dml-jax show graph.json -o out.svg draw a graph, or a model
    """  # noqa: D301  (click reads \b as a control character)
    # DirectML has 64-bit types, so the command line has them too.
    jax.config.update("jax_enable_x64", True)


def _level(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else FeatureLevel.of(value)
    except DmlError as error:
        raise click.BadParameter(str(error)) from None


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option("--check", is_flag=True, help="Check only: a table of the operators, nothing run.")
@click.option("--hlo", is_flag=True, help="Print the optimised program of each dispatchable.")
@click.option(
    "--feature-level",
    callback=_level,
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
            _show_operators(parsed)
            return
        device = _find_device(adapter)
        if not hlo:
            click.echo(f"Running on '{_name(device)}'")
        timing = Timing(
            dispatch_iterations,
            dispatch_repeat,
            milliseconds_to_run,
            dispatch_interval,
            warmup_samples,
            timing_verbosity,
        )
        executor = Executor(parsed, device, click.echo, timing, _progress(milliseconds_to_run))
        if hlo:
            for name, text in executor.hlo():
                click.echo(f"Dispatchable '{name}':\n{text}")
        else:
            executor.run()
    except DmlError as error:
        raise _failing(error) from None
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(130)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise _Failure(f"The device failed: {lines[0]}") from None


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Draw it too, to a .svg or .png file."
)
def show(file: Path, output: Path | None) -> None:
    """Show FILE, a model or a graph.

    A table of its operators, and with -o a picture.
    """
    from dml_jax.dispatch.model import parse_model
    from dml_jax.dispatch.reading import read_json
    from dml_jax.graph import Graph

    try:
        value = read_json(file)
        if isinstance(value, dict) and "Nodes" in value:
            shown = Graph.load(file)
            _show_nodes(shown)
        else:
            shown = parse_model(value, file.parent)
            _show_operators(shown)
        if output is not None:
            from dml_jax.drawing import draw, graph_picture, model_picture

            draw(graph_picture(shown) if isinstance(shown, Graph) else model_picture(shown), output)
            click.echo(f"Drawn to '{output}'")
    except DmlError as error:
        raise _failing(error) from None


def _check_level(model: "Model", level: FeatureLevel) -> None:
    faults: list[Fault] = []
    for dispatchable in model.dispatchables.values():
        found = dispatchable.operator.refused_at(level)
        if found:
            faults += DmlError(found).within(dispatchable.context).faults
    if faults:
        raise DmlError(faults)


def _show_operators(model: "Model") -> None:
    from dml_jax.drawing import kind_of

    rows = ((name, d.operator) for name, d in model.dispatchables.items())
    _show_table("Dispatchable", ((name, kind_of(op), op) for name, op in rows))


def _show_nodes(graph: "Graph") -> None:
    from dml_jax.drawing import kind_of
    from dml_jax.graph import OperatorNode

    nodes = ((node.name or str(index), node) for index, node in enumerate(graph.nodes))
    _show_table(
        "Node",
        (
            (name, kind_of(node.operator), node.operator)
            if isinstance(node, OperatorNode)
            else (name, "constant", node.tensor)
            for name, node in nodes
        ),
    )
    click.echo(f"{graph.describe()}, from feature level {graph.minimum_feature_level} on")


def _show_table(title: str, rows: "Iterable[tuple[str, str, Bindable | TensorDesc]]") -> None:
    from rich.console import Console
    from rich.table import Table

    from dml_jax.operator import Bindable

    table = Table(title, "Operator", "Inputs", "Outputs", "Lowest feature level")
    for name, kind, shown in rows:
        if isinstance(shown, Bindable):
            tensors = ("\n".join(t.shown() for t in ts) for ts in (shown.inputs, shown.outputs))
            table.add_row(name, kind, *tensors, str(shown.minimum_feature_level))
        else:
            table.add_row(name, kind, "", shown.shown(), "")
    # A pipe gets the whole width; a terminal its own.
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table)


def _devices() -> "list[Device]":
    """The devices of every platform, those of the default one first."""
    found = list(jax.devices())
    if all(device.platform != "cpu" for device in found):
        found += jax.devices("cpu")
    return found


def _name(device: "Device") -> str:
    kind = "" if device.device_kind == device.platform else f" ({device.device_kind})"
    return f"{device.platform}:{device.id}{kind}"


def _find_device(substring: str) -> "Device":
    devices = _devices()
    for device in devices:
        if substring.casefold() in _name(device).casefold():
            return device
    names = ", ".join(map(_name, devices))
    raise DmlError([Fault("", "--adapter", f"be part of a device's name ({names})", substring)])


def _show_adapters() -> None:
    for device in _devices():
        click.echo(_name(device))
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


def _progress(milliseconds_to_run: float | None) -> Callable[[Iterable[int], str], Iterable[int]]:
    """A progress bar on stderr for what takes longer than a second, on a terminal only."""

    def track(iterations: Iterable[int], name: str) -> Iterator[int]:
        if not sys.stderr.isatty():
            yield from iterations
            return
        total = len(iterations) if isinstance(iterations, range) else milliseconds_to_run
        begin, bar, task = time.perf_counter(), None, None
        try:
            for index in iterations:
                yield index
                elapsed = time.perf_counter() - begin
                if bar is None and elapsed > 1:
                    bar, task = _bar(name, total)
                if bar is not None and task is not None:
                    counted = isinstance(iterations, range)
                    bar.update(task, completed=index + 1 if counted else elapsed * 1e3)
        finally:
            if bar is not None:
                bar.stop()

    return track


def _bar(name: str, total: float | None) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.start()
    return bar, bar.add_task(name, total=total)
