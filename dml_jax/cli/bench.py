"""`dml-jax bench`: the limits of a device, and the share of them that operators reach."""

import contextlib
import itertools
import json
import math
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from dml_jax.cli.model_files import load, load_network
from dml_jax.cli.network_options import network_options
from dml_jax.cli.terminal import (
    INPUT,
    STDIN,
    Command,
    Failure,
    Finite,
    device_names,
    find_device,
    name_of,
    new_folder,
    reporting,
    usage_errors,
)
from dml_jax.enums import PRECISIONS, TensorDataType
from dml_jax.errors import DmlError, Fault, nearest, printable, refused
from dml_jax.facts import PREFIX, catalogue, names_of_aliases
from dml_jax.show.names import search

if TYPE_CHECKING:
    from dml_jax.bench.cells import Cell
    from dml_jax.bench.rows import Results

QUICK_SECONDS = 20  # after these `--quick` begins no further cell, however long the table is
KINDS = (".json", ".csv", ".md", ".html", ".svg", ".png")
SAVED = 2.0  # seconds after which a run is written again
_OF_CELLS = ("operators", "families", "mebibytes", "sizes", "gradient", "batch")
_WITHOUT = {  # options, and those that would be ignored beside them
    "limits": (*_OF_CELLS, "model", "network", "roofline", "peers", "precision"),
    "model": (*_OF_CELLS, "types", "network"),
    "network": (*_OF_CELLS, "types"),
    "sizes": ("mebibytes",),
    "profile": ("outputs", "json_file", "resume", "peers", "roofline", "devices", "narrow"),
}
_NEEDS = {"profile": ("network", "model"), "fail_above": ("compare",)}
_COMPARING = ("compare", "fail_above", "outputs", "json_file")


def _families() -> list[str]:
    return sorted({facts["family"] for facts in catalogue().values()})


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    names = [*catalogue()]
    if parameter.name == "types":
        names = [*(t.name for t in TensorDataType if t.element_size), "BFLOAT16"]
    return [name for name in names if name.startswith(incomplete.upper())]


def _known(ctx: click.Context, parameter: click.Parameter, values: Any) -> list[str]:
    with usage_errors():
        if parameter.name == "types":
            return [_type(value) for value in values]
        return list(map(_operator, values))


def _type(word: str) -> str:
    name = word.upper().removeprefix("DML_TENSOR_DATA_TYPE_")
    known = [*(n for n in TensorDataType.__members__ if n != "UNKNOWN"), "BFLOAT16"]
    if name not in known:
        raise refused(f"be one of {', '.join(known)}{nearest(name, known)}", word)
    return name


def _operator(word: str) -> str:
    """Return the operator of a name. Raises `DmlError` with those that a search finds."""
    name = word.upper().removeprefix(PREFIX)
    name = names_of_aliases().get(name, name)
    if name in catalogue():
        return name
    named, others = search(word)
    found = list(named or others)
    hint = f" (such as {', '.join(found[:6])})" if found else nearest(word.upper(), catalogue())
    if "," in word:
        hint = f" (one each: {' '.join(f'--operator {name}' for name in word.split(','))})"
    first, _, rest = word.partition(" ")
    if first.upper() in catalogue():
        hint = f" (--operator {first.upper()} --filter {rest!r})"
    raise refused(f"be an operator{hint}", word)


def _sizes(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Read `8,64,256,256`, or `input=8,64,256,256,filter=...`."""
    parts = re.split(r",(?=[A-Za-z_]+=)", value) if value else []
    try:
        pairs = (part.rpartition("=") for part in parts)
        return {name: tuple(int(n) for n in sizes.split(",")) for name, _, sizes in pairs}
    except ValueError:
        text = f"{value!r} is not sizes, as 8,64,256,256 or input=8,64,256,256,filter=64,64,3,3."
        raise click.BadParameter(text) from None


def _percent(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float:
    try:
        percent = float((value or "0").rstrip("%"))
    except ValueError:
        percent = math.nan
    if value is not None and not 0 < percent < 100:
        raise click.BadParameter(f"{value!r} is not a percentage, as 5%.")
    return percent / 100


def _peers(ctx: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    names = [name for name in value.split(",") if name]
    if names:
        from dml_jax.bench.peers import check_peer

        with usage_errors():
            for name in names:
                check_peer(name)
    return names


def _precision(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        import jax

        try:
            with jax.default_matmul_precision(value):
                pass
        except ValueError:
            names = ", ".join(("default", "high", "highest", *PRECISIONS))
            raise click.BadParameter(f"{value!r} is not one of JAX's: {names}.") from None
    return value


class _Output(click.Path):
    """A file to write; the end of its name says what."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        target = Path(value)
        with usage_errors():
            if target.suffix.lower() not in KINDS:
                rule = f"end in {', '.join(KINDS[:-1])} or {KINDS[-1]}"
                raise DmlError([Fault("", "the name", rule, str(target))])
        return target


_ELSEWHERE = {  # options of other tools, and what does it here
    **dict.fromkeys(("--gpu", "--cuda"), "-a cuda"),
    "--cpu": "-a cpu",
    "--device": "-a NAME",
    "--baseline": "--compare OLD.json NEW.json",
    **dict.fromkeys(("--shape", "--shapes", "--size"), "--sizes 8,64,56,56"),
    **dict.fromkeys(("--iterations", "--iters", "--repeat"), "--seconds, --repeat-until 5%"),
    **{f"--{kind}": f"-o FILE.{kind}" for kind in ("csv", "html", "md", "svg")},
}


class _Command(Command):
    """Keeps the words of the command line; `--resume` puts those of the earlier run before them."""

    elsewhere = Command.cures(_ELSEWHERE)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A process of the bench has the words of both runs.
        return self.parsed(ctx, args) if "--child" in args else super().parse_args(ctx, args)

    def parsed(self, ctx: click.Context, args: list[str]) -> list[str]:
        files = [word.removeprefix("--resume=") for word in args if word.startswith("--resume=")]
        files += [after for word, after in itertools.pairwise(args) if word == "--resume"]
        if files:
            from dml_jax.bench.rows import Results

            with reporting():
                kept = Results.load(Path(files[-1])).options
            args = [*kept.get("arguments", ()), *args]
        ctx.meta["words"] = [*args]
        return super().parsed(ctx, args)


class _Options(SimpleNamespace):
    """What the command line asks for, by the names of its options."""

    @property
    def to_stdout(self) -> bool:
        return self.json_file != "-"

    @property
    def kept(self) -> list[Path]:
        """Return the files of the run as data."""
        named = [Path(self.json_file)] if self.json_file and self.to_stdout else []
        return [*(p for p in self.outputs if p.suffix.lower() == ".json"), *named] + (
            [self.resume] if self.resume else []
        )


DEVICE = ("-a", "--adapter", "--device", "adapter")
JSON: dict[str, Any] = {"flag_value": "-", "is_flag": False, "metavar": "FILE"}
NAMES: dict[str, Any] = {"multiple": True, "callback": _known, "shell_complete": _complete}
MIB: dict[str, Any] = {"multiple": True, "type": Finite(1e-6, 16_000)}
FAMILIES: Any = {"multiple": True, "type": click.Choice(_families(), case_sensitive=False)}
FILE = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
TWO: Any = (FILE, FILE)
_PEERS = "Other libraries beside: jnp, numpy, cupy, torch, torch.compile, onnxruntime."
_PRECISION = "Precision of products, as jax.default_matmul_precision has it."
_OUT = "Write .json (for --compare), .csv, .md, .html, .svg or .png; repeatable."
_ROOF = "Also measure products; hold each cell against both limits. Default: all operators."


@click.command(cls=_Command)
@click.option("--operator", "operators", **NAMES, help="This operator, all variants; repeatable.")
@click.option("--family", "families", metavar="FAMILY", help="All of a family.", **FAMILIES)
@click.option("--filter", "words", default="", help="Only cells whose name has these words.")
@click.option(
    "--cells",
    "named",
    type=click.File(errors="replace"),
    help="Only cells whose names are lines of a file.",
)
@click.option("--list", "listing", is_flag=True, help="Print the names of the cells.")
@click.option("--dtype", "types", **NAMES, help="Default: FLOAT32, FLOAT16 and UINT8.")
@click.option("--mb", "mebibytes", **MIB, help="MiB of the largest tensor. Default: 8 and 64.")
@click.option("--sizes", callback=_sizes, help="Of the first input; or input=...,filter=...")
@click.option("--gradient", is_flag=True, help="Measure the gradients of the operators.")
@click.option("--vmap", "batch", type=click.IntRange(1), help="Map over so many elements.")
@click.option("--model", type=INPUT, help="Measure the dispatchables of a DxDispatch model.")
@click.option("--network", type=INPUT, help="Measure each operator of an ONNX network.")
@click.option("--limits", is_flag=True, help="Measure the limits of the device alone.")
@click.option("--roofline", is_flag=True, help=_ROOF)
@click.option("--peers", default="", callback=_peers, help=_PEERS)
@click.option("--precision", callback=_precision, help=_PRECISION)
@click.option(*DEVICE, default="", shell_complete=device_names, help="Part of a device's name.")
@click.option("--devices", type=click.IntRange(1), help="Shard arrays over so many devices.")
@click.option("--quick", is_flag=True, help="One variant of each in FLOAT32: half a minute.")
@click.option("--seconds", type=Finite(0.001), default=0.3, help="Seconds of samples a cell.")
@click.option("--processes", type=click.IntRange(1), help="Default: 5 with -o x.json, else 1.")
@click.option("--repeat-until", "narrow", callback=_percent, help="More processes until ± 5%.")
@click.option("--budget", type=Finite(1), help="Seconds after which no cell begins.")
@click.option("-o", "--output", "outputs", type=_Output(), multiple=True, help=_OUT)
@click.option("--resume", type=FILE, help="Go on where the run of this .json stopped.")
@click.option("--compare", type=TWO, metavar="OLD NEW", help="Compare two .json files.")
@click.option(
    "--fail-above", type=Finite(1), help="Status 1 if a cell failed, or is slower by this factor."
)
@click.option(
    "--profile", type=FOLDER, help="Write a trace of the model or network to this folder."
)
@click.option("-v", "--verbose", is_flag=True, help="Also time allocating calls; draw small cells.")
@click.option("--json", "json_file", **JSON, help="Write JSON; alone, or to -, in place of tables.")
@click.option("--child", is_flag=True, hidden=True)
@network_options
@click.pass_context
def bench(ctx: click.Context, **asked: Any) -> None:
    """Measure a device: its limits, operators, models and networks, each beside a plain copy.

    Without options, a table of typical operators and the share of a copy's bandwidth that they
    reach. A cell is an operator with its attributes, type and sizes, timed in turn with the copy.

    \b
    dml-jax bench --quick -o bandwidth.svg
    dml-jax bench --limits
    dml-jax bench --operator REDUCE --filter "SUM axes=[0]" --dtype FLOAT16
    dml-jax bench --operator CONVOLUTION --sizes 8,64,56,56 --peers jnp
    dml-jax bench --network net.onnx --roofline -o net.html
    dml-jax bench --operator REDUCE -o new.json
    dml-jax bench --compare old.json new.json --fail-above 1.1
    """  # noqa: D301  (click reads \b as a control character)
    from dml_jax.bench import runs
    from dml_jax.bench.measure import Bench
    from dml_jax.bench.memory import WAYS
    from dml_jax.bench.rows import environment

    _check_together(ctx)
    options = _Options(**asked)
    if options.compare is not None:
        with reporting(not options.to_stdout):
            _compare(options)
        return
    kept = any(p.suffix.lower() == ".json" for p in options.outputs) or options.resume is not None
    several = kept and not options.quick and options.model != STDIN
    options.processes = options.processes or (5 if several or options.narrow else 1)
    options.budget = QUICK_SECONDS if options.quick else options.budget or math.inf
    options.line = _kept_words(ctx.meta["words"])
    with reporting(not options.to_stdout):
        if not options.child:
            _check_files(options)
        is_here = options.child or options.listing or options.profile
        if (options.processes > 1 or options.resume) and not is_here:
            _run(options, None)
            return
        device = find_device(options.adapter, "--adapter")
        made = _cells(device, options)
        if options.listing:
            click.echo("\n".join(cell.name for cell in made))
            return
        short = options.network or options.limits
        with usage_errors():
            run = Bench(
                device,
                min(options.seconds, 0.1) if short else options.seconds,
                WAYS if options.verbose else WAYS[:1],
                options.roofline,
                options.peers,
                1 if options.limits else options.devices or 1,
                options.precision,
            )
        if options.child:
            known = {**environment(device), "name": name_of(device)}
            runs.child(run, made, known, click.echo)
        elif options.profile is not None:
            _profile(made, options.profile, device)
        else:
            _run(options, (run, made))


def _check_together(ctx: click.Context) -> None:
    """Raise a usage error for options of which one would be ignored."""
    flags = {p.name or "": max(p.opts, key=len) for p in ctx.command.params}
    typed = ParameterSource.COMMANDLINE
    given = [name for name in flags if ctx.get_parameter_source(name) is typed]
    wrong = {name: {*given} & {*_WITHOUT[name]} for name in given if name in _WITHOUT}
    wrong |= {"compare": {*given} - {*_COMPARING}} if "compare" in given else {}
    for name, others in wrong.items():
        if others:
            listed = " and ".join(flags[other] for other in given if other in others)
            raise click.UsageError(f"{flags[name]} stands without {listed}.")
    for name, wanted in _NEEDS.items():
        if name in given and not {*wanted} & {*given}:
            listed = " or ".join(flags[other] for other in wanted)
            raise click.UsageError(f"{flags[name]} needs {listed}.")


def _check_files(options: _Options) -> None:
    """Raise `DmlError` before anything is measured if a file cannot be written."""
    from dml_jax.show.figures import check_picture
    from dml_jax.system.files import check_writable

    for target in [*options.outputs, *options.kept]:
        if target.suffix.lower() in (".svg", ".png", ".html"):
            check_picture(target.with_suffix(".svg"))
        check_writable(target)


def _cells(device: Any, chosen: _Options) -> "list[Cell]":
    """Return the cells that the options ask for. Raises `DmlError` if there is none."""
    from dml_jax.bench.cells import MEBIBYTES, VARIANTS, Choice

    families, operators, types = chosen.families, chosen.operators, chosen.types
    if chosen.limits:
        from dml_jax.bench.limits import limits

        with usage_errors():
            made = limits(device, types, chosen.devices or 0)
    elif chosen.model is not None:
        from dml_jax.bench.network_cells import cells_of

        found = load(chosen.model, chosen.options).dispatchables.items()
        made = [c for name, one in found for c in cells_of(one.operator, printable(name))]
    elif chosen.network is not None:
        from dml_jax.bench.network_cells import cells_of_network

        network = load_network(chosen.network, replace(chosen.options, fallback=True))
        made = cells_of_network(network, str(chosen.network))
    else:
        whole = bool(families or (chosen.roofline and not operators))
        wanted = families or _families()
        all_of = [name for name, facts in catalogue().items() if facts["family"] in wanted]
        one = chosen.roofline or whole
        # On an accelerator a small cell would measure how fast the host starts it.
        size = MEBIBYTES[0 if one and device.platform == "cpu" else -1]
        usual = [size] if one or chosen.quick else ()
        choice = Choice(
            [*(all_of if whole else ()), *operators],
            types,
            chosen.mebibytes or usual,
            1 if chosen.quick or whole else None if operators else VARIANTS,
            1 if (chosen.quick or whole) and not types else None,
            chosen.sizes,
            chosen.gradient,
            chosen.batch or 0,
        )
        with usage_errors():
            made = choice.cells()
    words, named = chosen.words, chosen.named
    parts = map(re.escape, _plain(words).split(" "))
    pattern = re.compile(r"(?<![A-Z_0-9])" + r"(?: \])? ".join(parts))
    kept = [cell for cell in made if pattern.search(_plain(cell.name))]
    if named is not None:
        lines = {line.strip() for line in named}
        kept = [cell for cell in kept if cell.name in lines]
    if not kept:
        fault = Fault("", "--filter", "be words of a cell's name (--list)", words)
        if named is not None:
            rule = "have a line that is the name of a cell (--list)"
            fault = Fault("", "--cells", rule, named.name)
        with usage_errors():
            raise DmlError([fault])
    return kept


def _plain(words: str) -> str:
    """Return words with few signs of attributes: `SUM axes=[0]` is `SUM AXES 0 ]`."""
    words = words.upper().replace("AXIS", "AXES").replace("]", " ] ")
    return re.sub(r"[=\[, ]+", " ", words).strip()


def _run(options: _Options, here: "tuple[Any, list[Cell]] | None") -> None:
    """Measure, in this process or in others; print and write what was measured."""
    from dml_jax.bench import runs
    from dml_jax.bench.rows import Results, environment

    if options.resume is not None and options.resume.exists():
        results = Results.load(options.resume)
    else:
        results = Results(options={"arguments": options.line})
    results.interrupted = False
    begin, saved, interrupted = time.monotonic(), 0.0, False
    tell = _Progress()
    if here is not None:
        run, made = here
        results.environment = {**environment(run.device), "name": name_of(run.device)}
        rows = runs.here(run, made, results, tell)
    else:
        command = [sys.executable, "-m", "dml_jax", "bench", *options.line, "--child"]
        rows = runs.in_processes(command, results, options.processes, options.narrow, tell)
    try:
        with contextlib.closing(rows):
            for _ in rows:
                now = time.monotonic()
                if now - saved > SAVED:
                    with contextlib.suppress(DmlError):  # said at the end
                        for target in options.kept if results.rows else ():
                            results.save(target)
                    saved = now
                if now - begin > options.budget and tell.left > 0:
                    tell.end()
                    left = results.cells - results.complete - len(results.failed)
                    text = f"Time is up; not complete: {left} of {results.cells} cells"
                    click.echo(text, err=True)
                    break
    except runs.WrongUsageError as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:  # what is measured is reported
        results.interrupted = interrupted = True
    finally:
        tell.end()
    _say(options, results)
    if interrupted:
        raise KeyboardInterrupt


def _kept_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command line without the files that it writes and reads."""
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "--output", "--resume"):
            skip = True
        elif not word.startswith(("--output=", "--resume=")):
            kept.append(word)
    return kept


class _Progress:
    """Shows on standard error which cell is measured, and the time that is left.

    A terminal shows one line that changes; a file gets a line every five seconds.
    """

    def __init__(self) -> None:
        self.live, self.begin = sys.stderr.isatty(), time.monotonic()
        self.last, self.left = self.begin, 0

    def __call__(self, done: int, total: int, name: str) -> None:
        from dml_jax.bench.runs import time_left

        self.left, moment = total - done - 1, time.monotonic()
        if self.live or moment > self.last + 5:
            words = f"[{done + 1}/{total}{time_left(self.begin, done, total)}] {name}"
            self.last = moment
            click.echo(f"\r\x1b[K{words[:79]}" if self.live else words, err=True, nl=not self.live)

    def end(self) -> None:
        if self.live:
            click.echo("\r\x1b[K", err=True, nl=False)


def _say(options: _Options, results: "Results") -> None:
    """Print the table, and write the files; an earlier file is worth more than an empty one."""
    from dml_jax.bench import report

    rows = [*results.rows.values()]
    _say_failed(results.failed)
    title = report.header(results, results.environment.get("name", "")).splitlines()
    if options.to_stdout and rows:
        click.echo("\n".join(title))
        head, texts = report.tabled(rows, options.verbose)
        _print(report.rich_table(head, texts), report.COLUMNS)
        lines = [report.legend(head), report.summary(rows), report.busy(rows)]
        click.echo("\n".join(filter(None, lines)))
        for name, said in sorted({(p, s) for row in rows for p, s in row.differs.items()})[:5]:
            click.echo(f"{name}: {said}")
        for name in options.peers:
            if not any(name in row.peers or name in row.differs for row in rows):
                click.echo(f"{name} computes none of these cells.")
    if not options.to_stdout:
        click.echo(json.dumps(results.to_json(), indent=1))
    is_part = results.interrupted or results.complete + len(results.failed) < results.cells
    part = f" ({len(rows)} of {results.cells} cells)" if is_part else ""
    if is_part and results.complete < len(rows):
        part = f" ({len(rows)} of {results.cells} cells, {results.complete} of them complete)"
    faults: list[Fault] = []
    for target in dict.fromkeys([*options.outputs, *options.kept]) if rows else ():
        new = new_folder(target)
        try:
            _write(target, results, title[0], options.verbose)
        except DmlError as error:  # the other files may lie elsewhere
            faults += error.faults
            continue
        verb = "Drawn" if target.suffix.lower() in (".svg", ".png") else "Written"
        click.echo(f"{verb} to '{target}'{part}{new}", err=not options.to_stdout)
    if faults:
        raise DmlError(faults)
    if results.failed and not rows:
        raise Failure("No cell was measured.")


def _say_failed(failed: Mapping[str, str]) -> None:
    for name, reason in [*failed.items()][:5]:
        click.echo(f"Not measured: {name}: {reason}", err=True)
    if len(failed) > 5:
        click.echo(f"Not measured: {len(failed) - 5} more cells", err=True)


def _write(target: Path, results: "Results", title: str, verbose: bool) -> None:
    from dml_jax.bench import html, report
    from dml_jax.system.files import write_whole

    rows = [*results.rows.values()]
    match target.suffix.lower():
        case ".svg" | ".png":
            report.draw(title, rows, target, verbose)
            return
        case ".csv":
            text = report.csv_text(rows)
        case ".md":
            text = report.markdown(*report.tabled(rows, verbose)) + "\n"
        case ".html":
            text = html.page(results, title, verbose)
        case _:
            results.save(target)
            return
    write_whole(target, lambda file: file.write(text.encode()))


def _compare(options: _Options) -> None:
    """Print the verdict of each cell; end with status 1 if one failed, or is slower by a factor."""
    from dataclasses import asdict

    from dml_jax.bench import compare, report
    from dml_jax.bench.rows import Results
    from dml_jax.system.files import write_whole

    for target in options.outputs:
        if target.suffix.lower() not in (".json", ".md", ".csv"):
            raise click.UsageError(f"--compare writes .json, .md or .csv, not '{target}'.")
    before, after = map(Results.load, options.compare)
    verdicts = compare.compare(before, after)
    _say_failed({v.name: after.failed[v.name] for v in verdicts if v.verdict == "failed"})
    head, texts = compare.table(verdicts)
    made = {
        ".json": json.dumps([asdict(v) for v in verdicts], indent=1),
        ".md": report.markdown(head, texts),
        ".csv": report.csv_of([head, *texts]),
    }
    if not options.to_stdout:
        click.echo(made[".json"])
    else:
        _print(report.rich_table(head, texts), report.COLUMNS)
        click.echo(compare.summary(verdicts))
    for target in dict.fromkeys([*options.outputs, *options.kept]):
        text = made.get(target.suffix.lower(), made[".json"]).rstrip() + "\n"
        write_whole(target, lambda file, text=text: file.write(text.encode()))
    slower = (v.ratio or math.inf for v in verdicts if v.verdict in ("slower", "failed"))
    if options.fail_above and any(ratio > options.fail_above for ratio in slower):
        sys.exit(1)


def _profile(made: "list[Cell]", folder: Path, device: Any) -> None:
    """Write a trace of the whole program, and the nodes of each kernel beside it."""
    from dml_jax.bench.network_cells import profile
    from dml_jax.graph import Graph
    from dml_jax.system.files import write_whole

    cell = next((c for c in made if c.family == "program"), made[0])
    graph = getattr(cell.function, "graph", cell.function)
    if not isinstance(graph, Graph):
        raise click.UsageError("--profile needs --network, or a --model with a graph.")
    found = profile(cell, graph, folder, device)
    text = json.dumps(found, indent=1) + "\n"
    write_whole(folder / "kernels.json", lambda file: file.write(text.encode()))
    out, kernels = len(found.get("", ())), [name for name in found if name]
    count = sum(len(found[name]) for name in kernels)
    click.echo(f"{count} nodes stand in {len(kernels)} kernels; XLA left out {out}.")
    click.echo(f"Written to '{folder}': kernels.json, and a trace for Perfetto and xprof.")


def _print(table: Any, columns: int) -> None:
    from rich.console import Console

    width = min(shutil.get_terminal_size((columns, 0)).columns, columns)
    width = max(width, table.min_width)  # a column that is cut off is worse than a folded line
    Console(width=width, markup=False, highlight=False).print(table)
