"""`dml-jax bench`: the limits of a device, and the share of them that operators reach."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import click
from click import option
from click.core import ParameterSource

from dml_jax.cli.model_files import network_options
from dml_jax.cli.terminal import (
    INPUT,
    Command,
    Finite,
    Target,
    device_names,
    operator_names,
    reporting,
    usage_errors,
)
from dml_jax.enums import PRECISIONS, TensorDataType
from dml_jax.errors import nearest, refused
from dml_jax.facts import PREFIX, catalogue, names_of_aliases
from dml_jax.show.names import search

KINDS = (".json", ".csv", ".md", ".html", ".svg", ".png")
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


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    if parameter.name != "types":
        return operator_names(ctx, parameter, incomplete)
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


_ELSEWHERE = {  # options of other tools, and what does it here
    **dict.fromkeys(("--gpu", "--cuda"), "-a cuda"),
    "--cpu": "-a cpu",
    "--device": "-a NAME",
    "--baseline": "--compare OLD.json NEW.json",
    **dict.fromkeys(("--shape", "--shapes", "--size"), "--sizes 8,64,56,56"),
    **dict.fromkeys(("--iterations", "--iters", "--repeat"), "--seconds, --repeat-until 5%"),
    **{f"--{kind}": f"-o FILE.{kind}" for kind in ("csv", "html", "md", "svg")},
}


class BenchCommand(Command):
    """Keeps the words of the command line; `--resume` puts those of the earlier run before them."""

    elsewhere = Command.cures(_ELSEWHERE)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A process of the bench has the words of both runs.
        return self.parse_words(ctx, args) if "--child" in args else super().parse_args(ctx, args)

    def parse_words(self, ctx: click.Context, args: list[str]) -> list[str]:
        files = [word.removeprefix("--resume=") for word in args if word.startswith("--resume=")]
        files += [after for word, after in itertools.pairwise(args) if word == "--resume"]
        if files:
            from dml_jax.bench.rows import Results

            with reporting():
                kept = Results.load(Path(files[-1])).options
            args = [*kept.get("arguments", ()), *args]
        ctx.meta["words"] = [*args]
        return super().parse_words(ctx, args)


DEVICE = ("-a", "--adapter", "--device", "adapter")
JSON: dict[str, Any] = {"flag_value": "-", "is_flag": False, "metavar": "FILE"}
NAMES: dict[str, Any] = {"multiple": True, "callback": _known, "shell_complete": _complete}
MIB: dict[str, Any] = {"multiple": True, "type": Finite(1e-6, 16_000)}
_KNOWN = sorted({facts["family"] for facts in catalogue().values()})
FAMILIES: Any = {"multiple": True, "type": click.Choice(_KNOWN, case_sensitive=False)}
FILE = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
TWO: Any = (FILE, FILE)
_PEERS = "Other libraries beside: jnp, numpy, cupy, torch, torch.compile, onnxruntime."
_PRECISION = "Precision of products, as jax.default_matmul_precision has it."
_OUT = "Write .json (for --compare), .csv, .md, .html, .svg or .png; repeatable."
_ROOF = "Also measure products; hold each cell against both limits. Default: all operators."


@click.command(cls=BenchCommand)
@option("--operator", "operators", **NAMES, help="This operator, all variants; repeatable.")
@option("--family", "families", metavar="FAMILY", help="All of a family.", **FAMILIES)
@option("--filter", "words", default="", help="Only cells whose name has these words.")
@option(
    "--cells",
    "named",
    type=click.File(errors="replace"),
    help="Only cells whose names are lines of a file.",
)
@option("--list", "listing", is_flag=True, help="Print the names of the cells.")
@option("--dtype", "types", **NAMES, help="Default: FLOAT32, FLOAT16 and UINT8.")
@option("--mb", "mebibytes", **MIB, help="MiB of the largest tensor. Default: 8 and 64.")
@option("--sizes", callback=_sizes, help="Of the first input; or input=...,filter=...")
@option("--gradient", is_flag=True, help="Measure the gradients of the operators.")
@option("--vmap", "batch", type=click.IntRange(1), help="Map over so many elements.")
@option("--model", type=INPUT, help="Measure the dispatchables of a DxDispatch model.")
@option("--network", type=INPUT, help="Measure each operator of an ONNX network.")
@option("--limits", is_flag=True, help="Measure the limits of the device alone.")
@option("--roofline", is_flag=True, help=_ROOF)
@option("--peers", default="", callback=_peers, help=_PEERS)
@option("--precision", callback=_precision, help=_PRECISION)
@option(*DEVICE, default="", shell_complete=device_names, help="Part of a device's name.")
@option("--devices", type=click.IntRange(1), help="Shard arrays over so many devices.")
@option("--quick", is_flag=True, help="One variant of each in FLOAT32: half a minute.")
@option("--seconds", type=Finite(0.001), default=0.3, help="Seconds of samples a cell.")
@option("--processes", type=click.IntRange(1), help="Default: 5 with -o x.json, else 1.")
@option("--repeat-until", "narrow", callback=_percent, help="More processes until ± 5%.")
@option("--budget", type=Finite(1), help="Seconds after which no cell begins.")
@option("-o", "--output", "outputs", type=Target(KINDS, "the name"), multiple=True, help=_OUT)
@option("--resume", type=FILE, help="Go on where the run of this .json stopped.")
@option("--compare", type=TWO, metavar="OLD NEW", help="Compare two .json files.")
@option(
    "--fail-above",
    type=Finite(1),
    help="Status 1 if a cell failed, or is slower by this factor.",
)
@option("--profile", type=FOLDER, help="Write a trace of the model or network to this folder.")
@option("-v", "--verbose", is_flag=True, help="Also time allocating calls; draw small cells.")
@option("--json", "json_file", **JSON, help="Write JSON; alone, or to -, in place of tables.")
@option("--child", is_flag=True, hidden=True)
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
    _check_together(ctx)
    with reporting(asked["json_file"] == "-"):
        from dml_jax.cli.bench_runs import BenchOptions, bench_cells

        bench_cells(BenchOptions(**asked, line=_without_files(ctx.meta["words"])))


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


def _without_files(words: list[str]) -> list[str]:
    """Return the words of a command line without the files that it writes and reads."""
    others, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "--output", "--resume"):
            skip = True
        elif not word.startswith(("--output=", "--resume=")):
            others.append(word)
    return others
