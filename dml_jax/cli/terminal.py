"""What the commands share: failures, devices, tables, progress."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
import jax

from dml_jax.enums import FeatureLevel
from dml_jax.errors import DmlError, Fault

if TYPE_CHECKING:
    from dml_jax.dispatch.executor import Device
    from dml_jax.operator import Bindable
    from dml_jax.tensor import TensorDesc


class Failure(click.ClickException):
    """What went wrong, on stderr; the status is 1 (2 is for a wrong command line)."""

    def show(self, file: Any = None) -> None:
        click.echo(self.message, err=True)


def failing(error: DmlError) -> Failure:
    return Failure(str(error))


def level(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    try:
        return None if value is None else FeatureLevel.of(value)
    except DmlError as error:
        raise click.BadParameter(str(error)) from None


def show_table(title: str, rows: "Iterable[tuple[str, str, Bindable | TensorDesc]]") -> None:
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


def devices() -> "list[Device]":
    """The devices of every platform, those of the default one first."""
    found = list(jax.devices())
    if all(device.platform != "cpu" for device in found):
        found += jax.devices("cpu")
    return found


def name_of(device: "Device") -> str:
    kind = "" if device.device_kind == device.platform else f" ({device.device_kind})"
    return f"{device.platform}:{device.id}{kind}"


def find_device(substring: str) -> "Device":
    known = devices()
    for device in known:
        if substring.casefold() in name_of(device).casefold():
            return device
    names = ", ".join(map(name_of, known))
    raise DmlError([Fault("", "--adapter", f"be part of a device's name ({names})", substring)])


def progress(milliseconds_to_run: float | None) -> Callable[[Iterable[int], str], Iterable[int]]:
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
