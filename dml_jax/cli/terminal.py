"""What the commands share: options, failures, devices, tables, JSON, progress."""

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import jax

from dml_jax.enums import FeatureLevel
from dml_jax.errors import NOTHING, DmlError, Fault, abbreviate, printable
from dml_jax.files import parsed

if TYPE_CHECKING:
    from dml_jax.bindable import Bindable
    from dml_jax.dispatch.executor import Device
    from dml_jax.tensor import TensorDesc

STATUS = (
    "Exit status: 0 done, 1 the model or its run failed, 2 wrong usage, 130 interrupted, "
    "143 ended (SIGTERM)."
)


class Failure(click.ClickException):
    """What went wrong, on stderr; the status is 1 (2 is for a wrong command line)."""

    def show(self, file: Any = None) -> None:
        click.echo(self.message, err=True)


@contextlib.contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """Ends the command with what went wrong: its lines on stderr, or its faults as JSON."""
    try:
        yield
    except DmlError as error:
        if as_json:
            say_json({"faults": [_plain(fault) for fault in error.faults]})
            sys.exit(1)
        raise Failure(str(error)) from None
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise Failure(f"The device failed: {lines[0]}") from None


def _plain(fault: Fault) -> dict[str, Any]:
    return {
        "context": list(fault.context),
        "operator": fault.operator,
        "field": fault.field,
        "rule": fault.rule,
        "value": abbreviate(fault.value),
        "message": str(fault),
    }


# Whether it can be read or written says who does so: that is no wrong command line.
FILE = click.Path(readable=False, path_type=Path)


class _Input(click.Path):
    """A file that is read; `-` is standard input, by whatever name."""

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return STDIN if str(value) == "/dev/stdin" else super().convert(value, param, ctx)


STDIN = Path("-")
INPUT = _Input()


def read_stdin() -> Any:
    """The JSON value on standard input. Raises `DmlError` with what is wrong with it."""
    from dml_jax.dispatch.reading import parse_json

    return parsed(sys.stdin.buffer.read(), "Model '-'", parse_json)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


def say_json(value: Any) -> None:
    """One JSON value on stdout; what is not finite as "nan", "inf", "-inf"."""

    def finite(value: Any) -> Any:
        match value:
            case float() if not math.isfinite(value):
                return str(value)
            case dict():
                return {key: finite(item) for key, item in value.items()}
            case list() | tuple():
                return [finite(item) for item in value]
        return value

    click.echo(json.dumps(finite(value), indent=1 if sys.stdout.isatty() else None))


class Finite(click.FloatRange):
    """A number within the range, neither infinite nor NaN."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def level(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    with used_rightly():
        return None if value is None else FeatureLevel.of(value)


def _levels(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [known.suffix for known in FeatureLevel if known.suffix.startswith(incomplete)]


level_option = click.option(
    "--feature-level",
    callback=level,
    shell_complete=_levels,
    metavar="LEVEL",
    help="Refuse operators that this level (2_1, ...) does not take.",
)


def console() -> Any:
    """Of a terminal its own width, and colours but for NO_COLOR; a pipe gets plain wide lines."""
    from rich.console import Console

    wide = None if sys.stdout.isatty() else 160
    return Console(width=wide, markup=False, highlight=False)


def show_table(title: str, rows: "Iterable[tuple[str, str, Bindable | TensorDesc]]") -> None:
    from rich.table import Table

    from dml_jax.bindable import Bindable

    table = Table(title, "Operator", "Inputs", "Outputs", "Lowest feature level")
    for name, kind, shown in rows:
        if isinstance(shown, Bindable):
            tensors = ("\n".join(t.shown() for t in ts) for ts in (shown.inputs, shown.outputs))
            table.add_row(printable(name), kind, *tensors, str(shown.minimum_feature_level))
        else:
            table.add_row(printable(name), kind, "", shown.shown(), "")
    say_table(table)


def say_table(table: Any) -> None:
    """Prints a table; what its columns have no room for goes on below."""
    for column in table.columns:
        column.overflow = "fold"
    console().print(table)


@contextlib.contextmanager
def used_rightly() -> Iterator[None]:
    """What is wrong with options is a wrong command line, of status 2."""
    try:
        yield
    except DmlError as error:
        raise click.BadParameter(str(error)) from None


def as_values(name: str, kind: str, shown: "Bindable | TensorDesc") -> dict[str, Any]:
    """A row of `show_table`, for JSON."""
    from dml_jax.bindable import Bindable

    if not isinstance(shown, Bindable):
        return {"name": name, "operator": kind, "inputs": [], "outputs": [shown.to_json()]}
    return {
        "name": name,
        "operator": kind,
        "inputs": [t.to_json() for t in shown.inputs],
        "outputs": [t.to_json() for t in shown.outputs],
        "feature_level": shown.minimum_feature_level.suffix,
        "refused": {
            level.suffix: [str(fault) for fault in faults]
            for level, faults in shown.refusals.items()
        },
    }


def devices() -> "list[Device]":
    """The devices of every platform, those of the default one first."""
    try:
        found = list(jax.devices())
    except (RuntimeError, AssertionError):  # which of them is the plugin's
        rule = "name platforms that start here (cpu; cuda needs `pip install 'jax[cuda13]'`)"
        asked = os.environ.get("JAX_PLATFORMS", NOTHING)
        raise DmlError([Fault("", "JAX_PLATFORMS", rule, asked)]) from None
    if all(device.platform != "cpu" for device in found):
        found += jax.devices("cpu")
    return found


def name_of(device: "Device") -> str:
    kind = "" if device.device_kind == device.platform else f" ({device.device_kind})"
    return f"{device.platform}:{device.id}{kind}"


def device_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Completes a device's name, as far as it has no spaces."""
    with contextlib.suppress(DmlError):
        names = (f"{device.platform}:{device.id}" for device in devices())
        return [name for name in names if name.startswith(incomplete.casefold())]
    return []


def find_device(substring: str, option: str) -> "Device":
    """The first whose name holds the substring. Raises `DmlError` that names the option."""
    known = devices()
    for device in known:
        if substring.casefold() in name_of(device).casefold():
            return device
    names = ", ".join(map(name_of, known))
    raise DmlError([Fault("", option, f"be part of a device's name ({names})", substring)])


def progress(
    milliseconds_to_run: float | None = None,
) -> Callable[[Iterable[int], str], Iterable[int]]:
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
    from rich.markup import escape
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    bar.start()
    return bar, bar.add_task(escape(printable(name)), total=total)
