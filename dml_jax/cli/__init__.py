"""The command line; each command has a module."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import click

from dml_jax import __version__
from dml_jax.cli.bench import bench
from dml_jax.cli.check import check
from dml_jax.cli.generate import generate
from dml_jax.cli.operators import operators
from dml_jax.cli.run import run
from dml_jax.cli.save import save
from dml_jax.cli.show import show
from dml_jax.cli.terminal import STATUS, Command
from dml_jax.cli.tune import tune
from dml_jax.errors import nearest


@contextlib.contextmanager
def _end_at_interrupt() -> Iterator[None]:
    """End with status 130 at Ctrl-C, as shells expect; click has status 1 and "Aborted!"."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(130)


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which users need them

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _end_at_interrupt():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _end_at_interrupt():
            return super().invoke(ctx)

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        cmd.epilog = STATUS
        super().add_command(cmd, name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = nearest(args[0], self.list_commands(ctx))
            if args[0].endswith((".json", ".onnx")):
                hint = f" (did you mean 'run {args[0]}'?)"
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None


@click.group(
    cls=_Group,
    epilog=STATUS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="dml-jax")
def cli() -> None:
    """DirectML's operators on XLA.

    \b
    dml-jax run model.json             run a DxDispatch model
    dml-jax run model.json -i 100 -v 1 run each dispatch 100 times, with statistics
    dml-jax run network.onnx           run an ONNX network, with random inputs
    dml-jax check model.json           check it, without running
    dml-jax check folder               tell what runs of all that is in a folder
    dml-jax show graph.json -o out.svg draw a graph, or a model
    dml-jax show graph.json --python   print the Python program that builds it
    dml-jax generate folder -p "Once"  generate text with a language model
    dml-jax save network.onnx --weights weights.npz -o tuned.onnx
    dml-jax tune network.onnx          find the fastest kernels for a network on this machine
    dml-jax bench --quick              compare operators with this device's memory
    dml-jax operators                  list the operators
    dml-jax operators REDUCE           describe one: fields, ranks and types, gradient
    dml-jax operators jnp.cumsum       find one by its name elsewhere

    Every command but completion has --json. Each has -h with examples.
    """  # noqa: D301  (click reads \b as a control character)


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes words in SHELL.

    \b
    dml-jax completion bash >> ~/.bashrc
    dml-jax completion zsh >> ~/.zshrc
    dml-jax completion fish > ~/.config/fish/completions/dml-jax.fish
    """  # noqa: D301
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    complete = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    click.echo(complete(cli, {}, "dml-jax", "_DML_JAX_COMPLETE").source())


for command in (run, check, show, save, tune, generate, bench, operators, completion):
    cli.add_command(command)
