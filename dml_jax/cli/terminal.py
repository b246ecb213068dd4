"""Shared parts of the commands: options, failures, devices, tables, JSON, progress."""

import contextlib
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dml_jax.dxdispatch.repetition import Track
from dml_jax.enums import FeatureLevel
from dml_jax.errors import (
    FAULTS_MAX,
    NOTHING,
    DmlError,
    Fault,
    Sentence,
    abbreviate,
    first_lines,
    names_cure,
    printable,
)
from dml_jax.facts import catalogue
from dml_jax.show.figures import PICTURES, check_name

if TYPE_CHECKING:
    from dml_jax.system.free_memory import Device

STATUS = (
    "Exit status: 0 done, 1 the model or its run failed, 2 wrong usage, 130 interrupted, "
    "143 ended (SIGTERM)."
)


_BESIDE_A_CURE = 8  # faults that are shown, so that a cure stays on the screen


class Failure(click.ClickException):
    """Shows an error on stderr, with status 1 (status 2 is for a wrong command line)."""

    def show(self, file: Any = None) -> None:
        click.echo(self.message, err=True)


class Command(click.Command):
    """A command of which an option stands once, unless its values are collected.

    Attributes:
        elsewhere: for options of other programs what is said of them.
    """

    elsewhere: Mapping[str, str] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            _, _, order = self.make_parser(ctx).parse_args([*args])
            for one in {*order}:
                is_kept = getattr(one, "multiple", True) or getattr(one, "is_flag", True)
                if not is_kept and order.count(one) > 1:
                    raise click.UsageError(f"{max(one.opts, key=len)} is given twice.", ctx)
            return self.parse_words(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            if name in self.elsewhere:
                raise click.UsageError(self.elsewhere[name], ctx) from None
            hidden = {o for p in self.params if getattr(p, "hidden", False) for o in p.opts}
            others = [other for other in error.possibilities or () if other not in hidden]
            raise click.NoSuchOption(name, possibilities=others, ctx=ctx) from None

    def parse_words(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of a command line; return those that are left."""
        return super().parse_args(ctx, args)

    @staticmethod
    def cures(options: Mapping[str, str]) -> dict[str, str]:
        """Return `elsewhere` for options that have another form here."""
        return {name: f"No such option {name!r} ({here})" for name, here in options.items()}


@contextlib.contextmanager
def reporting(as_json: bool = False) -> Iterator[None]:
    """End the command at an error: with its lines on stderr, or with its faults as JSON.

    JAX is imported, with DirectML's 64-bit types, and the root context's `obj` is called after
    that. Help, completion and usage errors come before: they need no JAX.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    # Pillow warns of pictures that the command line refuses, ONNX of keys that it does not read.
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")
    warnings.filterwarnings("ignore", "Ignoring unknown external data key")
    ready = click.get_current_context().find_root().obj
    if ready is not None:
        ready()
    try:
        yield
    except DmlError as error:
        if as_json:
            say_json({"faults": faults_as_values(error.faults)})
            sys.exit(1)
        raise Failure(lines_of(error.faults)) from None
    # The traceback of a device that fails leads through XLA and helps no user of a command.
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise Failure(f"The device failed: {lines[0]}") from None
    except FloatingPointError as error:  # of jax_debug_nans and jax_debug_infs
        raise Failure(f"JAX stops at this number: {str(error).splitlines()[0]}") from None


def lines_of(faults: Sequence[Fault], most: int = FAULTS_MAX) -> str:
    """Return the messages of faults, few of them where an option cures them, and at most `most`."""
    cured = min(most, _BESIDE_A_CURE) if any(map(names_cure, faults)) else most
    return "\n".join(first_lines(faults, cured, "... {} more (--json has all)"))


def faults_as_values(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Return faults for JSON."""
    return [
        {
            "context": list(fault.context),
            "operator": fault.operator,
            "field": fault.field,
            "rule": fault.rule,
            "value": abbreviate(fault.value),
            "message": str(fault),
        }
        for fault in faults
    ]


class Target(click.Path):
    """A file to write; the end of its name says what. Messages call the name `field`."""

    def __init__(self, kinds: Sequence[str] = PICTURES, field: str = "the picture's name") -> None:
        super().__init__()
        self.kinds, self.field = kinds, field

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        target = Path(value)
        with usage_errors():
            check_name(target, self.kinds, self.field)
        return target


class _Input(click.Path):
    """A file to read; `-` and /dev/stdin are standard input."""

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return STDIN if str(value) == "/dev/stdin" else super().convert(value, param, ctx)


STDIN = Path("-")
INPUT = _Input()


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")


def say_json(value: Any) -> None:
    """Print one JSON value; numbers that are not finite become "nan", "inf" and "-inf"."""

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
    """A finite number within a range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            float(value)
        except ValueError:
            self.fail(f"expected a number without a unit, such as 16, got {value!r}", param, ctx)
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def _level(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    with usage_errors():
        # DxDispatch writes 2.1
        return None if value is None else FeatureLevel.of(value.replace(".", "_"))


def _levels(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [known.suffix for known in FeatureLevel if known.suffix.startswith(incomplete)]


def level_option(*names: str) -> Any:
    """Return the option of a feature level, which other `names` name too."""
    return click.option(
        "--feature-level",
        *names,
        "feature_level",
        callback=_level,
        shell_complete=_levels,
        metavar="LEVEL",
        help="Refuse operators that this feature level (2_1, ...) does not accept.",
    )


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Report invalid options as usage errors (exit status 2)."""
    try:
        yield
    except DmlError as error:
        raise click.BadParameter(str(error)) from None


def devices() -> "list[Device]":
    """Return the devices of every platform, the default platform first."""
    import jax

    try:
        known = list(jax.devices())
    except (RuntimeError, AssertionError):  # it depends on the plugin
        rule = f"name platforms that start here (cpu; NVIDIA: {_CUDA})"
        value = os.environ.get("JAX_PLATFORMS", NOTHING)
        raise DmlError([Fault("", "JAX_PLATFORMS", rule, value)]) from None
    if all(device.platform != "cpu" for device in known):
        known += jax.devices("cpu")
    return known


_CUDA = 'pip install "jax[cuda13]"'


def name_of(device: "Device") -> str:
    """Return the name of `device` for users: `cuda:0 (NVIDIA H100)`."""
    kind = "" if device.device_kind == device.platform else f" ({device.device_kind})"
    return f"{device.platform}:{device.id}{kind}"


def new_folder(target: Path) -> str:
    """Return what to say behind the name of a file whose folder is made for it."""
    return "" if target.parent.exists() else ", in a new folder"


def device_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a device, up to its first space."""
    with contextlib.suppress(DmlError):
        names = (f"{device.platform}:{device.id}" for device in devices())
        return [name for name in names if name.startswith(incomplete.casefold())]
    return []


def operator_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an operator."""
    return [name for name in catalogue() if name.startswith(incomplete.upper())]


def find_device(substring: str) -> "Device":
    """Return the first device whose name contains `substring`, the value of --adapter.

    Raises `DmlError` that names all devices.
    """
    known = devices()
    for device in known:
        if substring.casefold() in name_of(device).casefold():
            return device
    text = f"no device matches {substring!r}; this machine has: {', '.join(map(name_of, known))}."
    if all(device.platform == "cpu" for device in known):
        text += f" NVIDIA: {_CUDA}"
    raise DmlError([Fault("", "--adapter", Sentence(text), substring)])


def progress(milliseconds_to_run: float | None) -> Track:
    """Return a function that shows a progress bar after a second, on a terminal's stderr."""

    def track(iterations: Iterable[int], name: str) -> Iterator[int]:
        count = len(iterations) if isinstance(iterations, range) else None
        begin, bar, task = time.perf_counter(), None, None
        with contextlib.ExitStack() as shown:
            for index in iterations:
                yield index
                elapsed = time.perf_counter() - begin
                if bar is None and elapsed > 1 and sys.stderr.isatty():
                    bar, task = _bar(name, count or milliseconds_to_run)
                    shown.callback(bar.stop)
                if bar is not None:
                    bar.update(task, completed=index + 1 if count else elapsed * 1e3)

    return track


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal's stderr what the body does ("Loading x.onnx"), and the seconds so far."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import TextColumn, TimeElapsedColumn

    bar, _ = _bar(what, None, TextColumn("{task.description} ..."), TimeElapsedColumn())
    with bar:
        yield


def _bar(name: str, total: float | None, *columns: Any) -> tuple[Any, Any]:
    """Return a bar with these columns, or with those of rich, and its task."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.start()
    return bar, bar.add_task(escape(printable(name)), total=total)
